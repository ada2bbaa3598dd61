//! Rows that the source's tables have already, before its log is followed from there.

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

/// A table that is meant.
struct Table {
    listed: Listed,
    facts: TableFacts,
}

/// Which table it is: one of another time may have got its name (RENAME TABLE).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Listed {
    names: [String; 2],
    /// When it was made: in seconds since 1970.
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

/// How often it is begun anew where tables are defined just then.
const BEGIN_TRIES: u32 = 10;

/// The table was defined anew since the transaction began.
const DEFINED_ANEW: u16 = 1412;

/// Somebody who defines a table anew can hold it for long: now and then it is looked for Ctrl-C.
const GLANCING: &str = "SET SESSION lock_wait_timeout = 1";

const NOT_WHOLE: &str = "the snapshot is not whole: the next run starts over";

const AGAIN: &str = "run again: a snapshot starts over";

/// Writes the records of all rows that the meant tables have; gives where to go on, and `None` if Ctrl-C came first.
///
/// Nothing is saved before the last one is written: a run that is cut off starts over.
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

/// What comes is told by the tables as they are, and by what the log makes of them from there on.
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
            // It may be gone by now: the log says so.
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
        let what = "the source has transactions that are prepared (XA), whose rows are in its log and not in its tables yet";
        return Err(anyhow!(what).context(Advice("commit them or roll them back: see XA RECOVER")));
    }
    // What came by then, should another server take the source's place; of transactions without GTIDs they say nothing.
    let has_gtids = facts.is_mariadb || facts.gtid_mode == GtidMode::On;
    let gtids = HadGtids::parse(&point.gtids).filter(|gtids| has_gtids && !gtids.is_empty());
    Ok((Had { server, gtids }, point, tables))
}

/// A moment at which tables and log agree, and the tables that are meant: no other has got the name of one of them since
/// before that.
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
    Err(anyhow!("tables are made and renamed without a pause")
        .context(Advice("run again when that has ended")))
}

fn say(point: &Point, tables: &[Table]) {
    let Point { log, position, .. } = point;
    let held = match point.held {
        Held::Nothing => "nobody was held",
        Held::ReadLock => "writers were held for a moment",
    };
    let tables = counted(tables.len() as u64, "table");
    screen::remark(format_args!("the rows of {tables} as they are at {log}:{position} ({held})"));
    if point.prepared == Prepared::Unknown {
        screen::remark(format_args!(
            "warning: the account may not see whether transactions are prepared (XA), whose rows would be \
             missing: XA_RECOVER_ADMIN lets it"
        ));
    }
}

/// The tables that are meant and can be seen.
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
            let what = format!(
                "{} is of {engine}, whose rows cannot be read as they were at one moment",
                names.join(".")
            );
            let advice = Advice("leave it out (--ignore-table), or make it one of InnoDB");
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
        let facts = facts.with_context(|| format!("{} is gone", listed.names.join(".")));
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
        // Behind each table, others may define it anew.
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

/// From here on nobody can define the table anew, or give another its name. Has nobody done so?
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
        false => Err(anew(anyhow!("{} was defined anew", table.name())).into()),
    }
}

/// Is the table that is there now the one that was listed? The transaction itself sees a MySQL's catalogue as it was.
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
    /// Rows that are written at the same time, as far as their records say it.
    const CLOCK_EVERY: u64 = 256;
    let columns: Vec<String> = table.facts.columns.iter().map(|column| column.selected()).collect();
    let sql = format!("SELECT {} FROM {}", columns.join(", "), quoted(table.names()));
    // What stops the query is needed just when all else was called off.
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
        // Else the server would send all that is left.
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

/// The rows of a table cannot be read.
fn refused(error: servers::Error, table: &Table) -> Failure {
    let name = table.name();
    let is_anew = error.code() == Some(DEFINED_ANEW);
    let error = anyhow::Error::from(error).context(format!("could not read the rows of {name}"));
    Failure::Failed(if is_anew { anew(error) } else { error.context(NOT_WHOLE) })
}

fn anew(error: anyhow::Error) -> anyhow::Error {
    error.context(Advice(AGAIN))
}
