//! Snapshot: the present rows of the source's tables, before its log is followed.

mod point;

use std::ops::ControlFlow;

use anyhow::{Context, anyhow};
use servers::{Address, Cancel, Connection, Facts, GtidMode, quote};
use stream::{Definitions, Had, HadGtids, Output, Place, Settings, Snapshot, TableFacts, Token};

use crate::commands::stream::catalogue::{Schema, facts, word};
use crate::commands::stream::live::{self, Resume};
use crate::commands::stream::snapshot::point::{Held, LOCK_WAIT_TIMEOUT, Point, Prepared};
use crate::commands::stream::tell::{failed, now_ns};
use crate::exit::{Advice, Failure};
use crate::interrupt;
use crate::screen;
use crate::units::counted;

/// Selected table.
struct Table {
    listed: Listed,
    facts: TableFacts,
}

/// Identity of a table: RENAME TABLE may give its name to another one.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    names: [String; 2],
    /// Time of creation, in seconds since 1970.
    created: String,
}

impl Table {
    fn names(&self) -> [&str; 2] {
        self.listed.names.each_ref().map(String::as_str)
    }

    fn name(&self) -> String {
        self.listed.names.join(".")
    }
}

/// Maximum number of attempts while tables are being created or renamed.
const BEGIN_TRIES: u32 = 10;

/// MySQL's error code for a table whose definition has changed since the transaction began.
const DEFINED_ANEW: u16 = 1412;

/// A concurrent ALTER TABLE can lock the table for long. Short lock waits allow polling for Ctrl-C.
const GLANCING: &str = "SET SESSION lock_wait_timeout = 1";

const NOT_WHOLE: &str = "the snapshot is incomplete: the next run starts over";

const AGAIN: &str = "run the command again: it starts the snapshot over";

/// Writes the records of all rows of the selected tables. Returns the point to resume from, or `None` after Ctrl-C.
///
/// Nothing is saved before the last record is written: the run after an interruption starts over.
pub(super) fn take(
    address: &Address,
    settings: &Settings,
    (output, quiet): (&mut Output, bool),
    schema: &mut Schema,
) -> Result<Option<Resume>, Failure> {
    let mut connection = Connection::open(address).map_err(|error| Failure::NotBegun(error.into()))?;
    let begun = begin(&mut connection, settings);
    let (had, point, tables) = begun.map_err(Failure::NotBegun)?;
    if !quiet {
        say(&point, &tables);
    }
    let place = Place { log: point.log, position: point.position };
    let token = Token { place, gtid: None };
    let mut snapshot = Snapshot::new(settings, token.clone(), point.taken_s);
    let reader = (address, &mut connection);
    if each(reader, &tables, &mut snapshot, output)?.is_break() {
        return Ok(None);
    }
    if let Schema::Log(definitions) = schema {
        define(&mut connection, tables, definitions).map_err(|error| Failure::Failed(error.into()))?;
        output.define(definitions.clone());
    }
    output.follow(&had.server, Some(had.clone()));
    snapshot.finish(output).map_err(failed)?;
    Ok(Some(Resume { token: Some(token), had: Some(had) }))
}

/// Adds the present definitions of the tables. From there on, definitions in the log change them.
fn define(
    connection: &mut Connection,
    tables: Vec<Table>,
    definitions: &mut Definitions,
) -> Result<(), servers::Error> {
    for database in connection.rows(
        "SELECT schema_name, default_character_set_name FROM information_schema.schemata
         WHERE schema_name NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')",
    )? {
        definitions.put_database(&word(database.first()), &word(database.get(1)));
    }
    for table in tables {
        let shown = match connection.rows(&format!("SHOW CREATE TABLE {}", quoted(table.names()))) {
            Ok(rows) => rows.first().map(|row| word(row.get(1))),
            // The table may have been dropped: the log says so.
            Err(error) if error.code().is_some() => None,
            Err(error) => return Err(error),
        };
        definitions.put(table.names(), table.facts.clone(), shown.as_deref());
    }
    Ok(())
}

fn begin(
    connection: &mut Connection,
    settings: &Settings,
) -> Result<(Had, Point, Vec<Table>), anyhow::Error> {
    let facts = Facts::of(connection)?;
    let server = live::server(connection, &facts)?;
    let (point, tables) = settled(connection, settings, &facts)?;
    if point.prepared == Prepared::Yes {
        let what =
            "the source has prepared XA transactions, whose rows are in its log but not in its tables yet";
        return Err(anyhow!(what).context(Advice("commit them or roll them back: XA RECOVER lists them")));
    }
    // Written transactions, in case another server replaces the source. They do not include transactions without
    // GTIDs.
    let has_gtids = facts.is_mariadb || facts.gtid_mode == GtidMode::On;
    let gtids = HadGtids::parse(&point.gtids).filter(|gtids| has_gtids && !gtids.is_empty());
    Ok((Had { server, gtids }, point, tables))
}

/// Begins a snapshot at a point where tables and log agree. Returns the selected tables, which were not renamed
/// during this.
fn settled(
    connection: &mut Connection,
    settings: &Settings,
    facts: &Facts,
) -> Result<(Point, Vec<Table>), anyhow::Error> {
    for _ in 0..BEGIN_TRIES {
        let before = listed(connection, settings)?;
        let point = point::begin(connection, facts)?;
        if listed(connection, settings)? == before {
            return Ok((point, tables(connection, before)?));
        }
        connection.run("ROLLBACK")?;
    }
    Err(anyhow!("tables are created and renamed all the time")
        .context(Advice("run the command again when that has ended")))
}

fn say(point: &Point, tables: &[Table]) {
    let Point { log, position, .. } = point;
    let held = match point.held {
        Held::Nothing => "without a lock",
        Held::ReadLock => "writers were locked briefly",
    };
    let tables = counted(tables.len() as u64, "table");
    screen::remark(format_args!("snapshot of {tables} at {log}:{position} ({held})"));
    if point.prepared == Prepared::Unknown {
        screen::remark(format_args!(
            "warning: the account may not list prepared XA transactions, whose rows would be missing: grant it \
             XA_RECOVER_ADMIN"
        ));
    }
}

/// Returns the selected tables that the account may see.
fn listed(connection: &mut Connection, settings: &Settings) -> Result<Vec<Listed>, anyhow::Error> {
    let rows = connection.rows(
        "SELECT table_schema, table_name, engine, UNIX_TIMESTAMP(create_time) FROM information_schema.tables
         WHERE table_type = 'BASE TABLE'
           AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') ORDER BY 1, 2",
    )?;
    let mut tables = Vec::new();
    for row in rows {
        let names = [word(row.first()), word(row.get(1))];
        let [database, table] = names.each_ref().map(|name| name.as_bytes());
        if !settings.filter.takes_database(database) || !settings.filter.takes_tables([(database, table)]) {
            continue;
        }
        let engine = word(row.get(2));
        if !engine.eq_ignore_ascii_case("InnoDB") {
            let what =
                format!("{} uses {engine}, which does not support consistent snapshots", names.join("."));
            let advice = Advice("exclude it with --ignore-table, or convert it to InnoDB");
            return Err(anyhow!(what).context(advice));
        }
        tables.push(Listed { names, created: word(row.get(3)) });
    }
    Ok(tables)
}

fn tables(connection: &mut Connection, listed: Vec<Listed>) -> Result<Vec<Table>, anyhow::Error> {
    let mut tables = Vec::new();
    for listed in listed {
        let facts = facts(connection, listed.names.each_ref().map(String::as_str))?;
        let facts = facts.with_context(|| format!("{} no longer exists", listed.names.join(".")));
        tables.push(Table { facts: facts.context(Advice(AGAIN))?, listed });
    }
    Ok(tables)
}

fn each(
    (address, connection): (&Address, &mut Connection),
    tables: &[Table],
    snapshot: &mut Snapshot,
    output: &mut Output,
) -> Result<ControlFlow<()>, Failure> {
    connection.run(GLANCING).map_err(|error| anyhow::Error::from(error).context(NOT_WHOLE))?;
    for table in tables {
        snapshot.begin_table(table.names(), &table.facts, output).map_err(failed)?;
        // After each table, others may change its definition again.
        connection.run("SAVEPOINT bintide").map_err(|error| refused(error, table))?;
        if open((address, &mut *connection), table)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if rows((address, &mut *connection), table, snapshot, output)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        connection.run("ROLLBACK TO SAVEPOINT bintide").map_err(|error| refused(error, table))?;
        snapshot.end_table(output).map_err(failed)?;
    }
    Ok(ControlFlow::Continue(()))
}

/// Locks the table's definition and name. Gives an error if they have changed.
fn open(
    (address, connection): (&Address, &mut Connection),
    table: &Table,
) -> Result<ControlFlow<()>, Failure> {
    let sql = format!("SELECT 1 FROM {} LIMIT 0", quoted(table.names()));
    while let Err(error) = connection.run(&sql) {
        if matches!(error, servers::Error::Cancelled) {
            return Ok(ControlFlow::Break(()));
        }
        if error.code() != Some(LOCK_WAIT_TIMEOUT) {
            return Err(refused(error, table));
        }
        if interrupt::requested() {
            return Ok(ControlFlow::Break(()));
        }
    }
    match is_same(address, table).map_err(|error| refused(error, table))? {
        true => Ok(ControlFlow::Continue(())),
        false => Err(anew(anyhow!("the definition of {} has changed", table.name())).into()),
    }
}

/// Tells whether the table is still the listed one. The transaction itself sees an old state of MySQL's catalogue.
fn is_same(address: &Address, table: &Table) -> Result<bool, servers::Error> {
    let mut connection = Connection::open(address)?;
    let [database, name] = table.names().map(str::as_bytes);
    let is_it = quote::is_of(database, name);
    let created = connection
        .value(&format!("SELECT UNIX_TIMESTAMP(create_time) FROM information_schema.tables WHERE {is_it}"))?;
    let found = facts(&mut connection, table.names())?;
    Ok(found.is_some_and(|found| {
        (&found.columns, &found.primary_key) == (&table.facts.columns, &table.facts.primary_key)
            && created.unwrap_or_default() == table.listed.created
    }))
}

fn rows(
    (address, connection): (&Address, &mut Connection),
    table: &Table,
    snapshot: &mut Snapshot,
    output: &mut Output,
) -> Result<ControlFlow<()>, Failure> {
    /// Number of rows whose records have the same time.
    const CLOCK_EVERY: u64 = 256;
    let columns: Vec<String> = table.facts.columns.iter().map(|column| column.selected()).collect();
    let sql = format!("SELECT {} FROM {}", columns.join(", "), quoted(table.names()));
    // The connection that stops the query is needed exactly after cancellation.
    let stopping = Address { cancel: Cancel::default(), ..address.clone() };
    let (id, mut told, mut is_cut) = (connection.id(), Ok(()), false);
    let (mut number, mut clock_ns) = (0, 0);
    let mut take = |row: servers::Row| {
        if number % CLOCK_EVERY == 0 {
            clock_ns = now_ns();
            is_cut = interrupt::requested();
        }
        number += 1;
        told = snapshot.row(&row, clock_ns, output);
        if told.is_ok() && !is_cut {
            return ControlFlow::Continue(());
        }
        // Otherwise the server would send all remaining rows.
        let stop = Connection::open(&stopping);
        let _ = stop.and_then(|mut stop| stop.run(&format!("KILL QUERY {id}")));
        ControlFlow::Break(())
    };
    let read = connection.each_row(&sql, &mut take);
    told.map_err(failed)?;
    if is_cut || matches!(read, Err(servers::Error::Cancelled)) {
        return Ok(ControlFlow::Break(()));
    }
    read.map_err(|error| refused(error, table))?;
    Ok(ControlFlow::Continue(()))
}

fn quoted(names: [&str; 2]) -> String {
    let [database, table] = names.map(str::as_bytes);
    let mut out = Vec::new();
    quote::put_table(&mut out, database, table);
    String::from_utf8(out).expect("ours: of two texts")
}

/// Returns the failure for rows that cannot be read.
fn refused(error: servers::Error, table: &Table) -> Failure {
    let name = table.name();
    let is_anew = error.code() == Some(DEFINED_ANEW);
    let error = anyhow::Error::from(error).context(format!("could not read the rows of {name}"));
    Failure::Failed(if is_anew { anew(error) } else { error.context(NOT_WHOLE) })
}

fn anew(error: anyhow::Error) -> anyhow::Error {
    error.context(Advice(AGAIN))
}
