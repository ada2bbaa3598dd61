//! Snapshot: the present rows of the source's tables, before its log is followed.

mod chunk_reader;
pub(super) mod incremental;
pub(super) mod request;
pub(super) mod request_directory;
mod snapshot_point;

use std::ops::ControlFlow;

use anyhow::{Context, anyhow};
use servers::{CancelToken, GtidMode, IS_ROW_TABLE, ServerAddress, ServerFacts, SqlConnection};
use sql::quote;
use stream::{
    DdlSchema, RecordSink, ResumePosition, ResumeToken, SnapshotWriter, StreamGtidState, StreamGtids,
    StreamSettings, TableSchema,
};
use tracing::{info, warn};

use crate::column_name_source::{ColumnNameSource, cell_text, facts, show_create_table};
use crate::commands::stream::live::{self, ResumePoint};
use crate::commands::stream::log_stream::{failed, now_ns};
use crate::commands::stream::snapshot::snapshot_point::{
    LOCK_WAIT_TIMEOUT, PreparedTransactions, SnapshotLock, SnapshotPoint,
};
use crate::commands::table_args::warn_unmatched;
use crate::exit::{CommandFailure, ErrorAdvice};
use crate::interrupt;
use crate::units::counted;

/// Selected table.
struct SnapshotSourceTable {
    listed: TableIdentity,
    facts: TableSchema,
}

/// Identity of a table: after RENAME TABLE, another table may have its name.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TableIdentity {
    names: [String; 2],
    /// Time of creation, in seconds since 1970.
    created: String,
}

impl SnapshotSourceTable {
    fn names(&self) -> [&str; 2] {
        self.listed.names.each_ref().map(String::as_str)
    }

    fn quoted_name(&self) -> String {
        let [database, table] = self.names();
        quote::quote_table(database, table)
    }

    fn name(&self) -> String {
        self.listed.names.join(".")
    }
}

/// Maximum number of attempts while tables are being created or renamed.
const BEGIN_ATTEMPTS_MAX: u32 = 10;

/// MySQL's error code for a table whose definition has changed since the transaction began.
const TABLE_REDEFINED: u16 = 1412;

/// MySQL's error codes for a missing privilege on a table or a column.
const DENIED_CODES: [u16; 3] = [1142, 1143, 1044];

/// A concurrent ALTER TABLE can lock the table for long. Short lock waits allow polling for Ctrl-C.
const SHORT_LOCK_WAIT: &str = "SET SESSION lock_wait_timeout = 1";

const INCOMPLETE_ADVICE: &str = "the snapshot is incomplete: the next run starts over";

const RUN_AGAIN_ADVICE: &str = "run the command again: it starts the snapshot over";

/// Writes the records of all rows of the selected tables. Returns the point to resume from, or `None` after Ctrl-C.
///
/// Nothing is saved before the last record is written: the run after an interruption starts over.
pub(super) fn take(
    address: &ServerAddress,
    settings: &StreamSettings,
    output: &mut RecordSink,
    schema: &mut ColumnNameSource,
) -> Result<Option<ResumePoint>, CommandFailure> {
    let mut connection =
        SqlConnection::open(address).map_err(|error| CommandFailure::NotStarted(error.into()))?;
    let begun = begin(&mut connection, settings);
    let BegunSnapshot { gtid_state, point, tables } = begun.map_err(CommandFailure::NotStarted)?;
    report_start(&point, &tables);
    let mut unmatched = settings.filter.unmatched_rules();
    for table in &tables {
        let [database, name] = table.listed.names.each_ref().map(|name| name.as_bytes());
        unmatched.record_table(database, name);
    }
    warn_unmatched(&unmatched.into_rules(), "the snapshot");
    let at = ResumePosition { log: point.log, position: point.position };
    let token = ResumeToken { at, gtid: None };
    let mut snapshot = SnapshotWriter::new(settings, token.clone(), point.taken_s);
    let mut reader = SnapshotReader { address, connection: &mut connection };
    let ControlFlow::Continue(tables) = write_tables(&mut reader, tables, &mut snapshot, output)? else {
        return Ok(None);
    };
    if let ColumnNameSource::Log(definitions) = schema {
        define(&mut connection, tables, definitions).map_err(|error| CommandFailure::Failed(error.into()))?;
        output.set_schema(definitions.clone());
    }
    output.follow(&gtid_state.server, Some(gtid_state.clone()));
    snapshot.finish(output).map_err(failed)?;
    Ok(Some(ResumePoint { token: Some(token), gtid_state: Some(gtid_state) }))
}

/// Adds the present definitions of the tables. Later DDL statements in the log change them.
fn define(
    connection: &mut SqlConnection,
    tables: Vec<SnapshotSourceTable>,
    definitions: &mut DdlSchema,
) -> Result<(), servers::ConnectionError> {
    for database in connection.rows(
        "SELECT schema_name, default_character_set_name FROM information_schema.schemata
         WHERE schema_name NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')",
    )? {
        definitions.insert_database(&cell_text(database.first()), &cell_text(database.get(1)));
    }
    for table in tables {
        // The table may have been dropped. The log contains its DROP TABLE.
        let shown = show_create_table(connection, &table.quoted_name())?;
        definitions.insert_table(table.names(), table.facts.clone(), shown.as_deref());
    }
    Ok(())
}

/// A snapshot whose rows can be read.
struct BegunSnapshot {
    /// Server, and its transactions at the point.
    gtid_state: StreamGtidState,
    point: SnapshotPoint,
    tables: Vec<SnapshotSourceTable>,
}

fn begin(connection: &mut SqlConnection, settings: &StreamSettings) -> Result<BegunSnapshot, anyhow::Error> {
    let facts = ServerFacts::query(connection)?;
    let server = live::server(connection, &facts)?;
    let (point, tables) = begin_settled(connection, settings, &facts)?;
    if point.prepared == PreparedTransactions::Yes {
        let message =
            "the source has prepared XA transactions, whose rows are in its log but not in its tables yet";
        return Err(
            anyhow!(message).context(ErrorAdvice("commit them or roll them back: XA RECOVER lists them"))
        );
    }
    // Written transactions, in case another server replaces the source. They do not include transactions without
    // GTIDs.
    let has_gtids = facts.is_mariadb || facts.gtid_mode == GtidMode::On;
    let gtids = StreamGtids::parse(&point.gtids).filter(|gtids| has_gtids && !gtids.is_empty());
    Ok(BegunSnapshot { gtid_state: StreamGtidState { server, gtids }, point, tables })
}

/// Begins a snapshot at a point where tables and log agree. Also returns the selected tables: none was created,
/// dropped or renamed meanwhile.
fn begin_settled(
    connection: &mut SqlConnection,
    settings: &StreamSettings,
    facts: &ServerFacts,
) -> Result<(SnapshotPoint, Vec<SnapshotSourceTable>), anyhow::Error> {
    for _ in 0..BEGIN_ATTEMPTS_MAX {
        let before = list_tables(connection, settings)?;
        let point = snapshot_point::begin(connection, facts)?;
        if list_tables(connection, settings)? == before {
            return Ok((point, tables(connection, before)?));
        }
        connection.run("ROLLBACK")?;
    }
    Err(anyhow!("tables are created or renamed continuously")
        .context(ErrorAdvice("run the command again when these statements have ended")))
}

fn report_start(point: &SnapshotPoint, tables: &[SnapshotSourceTable]) {
    let SnapshotPoint { log, position, .. } = point;
    let locking = match point.held {
        SnapshotLock::Nothing => "without a lock",
        SnapshotLock::ReadLock => "writers were locked briefly",
    };
    let tables = counted(tables.len() as u64, "table");
    info!("snapshot of {tables} at {log}:{position} ({locking})");
    if point.prepared == PreparedTransactions::Unknown {
        warn!(
            "the account lacks XA_RECOVER_ADMIN, so prepared XA transactions are not visible, and the snapshot can lack \
             their rows: grant it"
        );
    }
}

/// Returns the selected tables that the account may see.
fn list_tables(
    connection: &mut SqlConnection,
    settings: &StreamSettings,
) -> Result<Vec<TableIdentity>, anyhow::Error> {
    let rows = connection.rows(&format!(
        "SELECT table_schema, table_name, engine, UNIX_TIMESTAMP(create_time) FROM information_schema.tables
         WHERE {IS_ROW_TABLE}
           AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema') ORDER BY 1, 2"
    ))?;
    let mut tables = Vec::new();
    for row in rows {
        let names = [cell_text(row.first()), cell_text(row.get(1))];
        let [database, table] = names.each_ref().map(|name| name.as_bytes());
        if !settings.filter.accepts_database(database) || !settings.filter.accepts_tables([(database, table)])
        {
            continue;
        }
        let engine = cell_text(row.get(2));
        if !engine.eq_ignore_ascii_case("InnoDB") {
            let message =
                format!("{} uses {engine}, which does not support consistent snapshots", names.join("."));
            let advice = ErrorAdvice("exclude it with --ignore-table, or convert it to InnoDB");
            return Err(anyhow!(message).context(advice));
        }
        tables.push(TableIdentity { names, created: cell_text(row.get(3)) });
    }
    Ok(tables)
}

fn tables(
    connection: &mut SqlConnection,
    listed: Vec<TableIdentity>,
) -> Result<Vec<SnapshotSourceTable>, anyhow::Error> {
    let mut tables = Vec::new();
    for listed in listed {
        let facts = facts(connection, listed.names.each_ref().map(String::as_str))?;
        let facts = facts.with_context(|| format!("{} no longer exists", listed.names.join(".")));
        tables.push(SnapshotSourceTable { facts: facts.context(ErrorAdvice(RUN_AGAIN_ADVICE))?, listed });
    }
    Ok(tables)
}

/// Connection whose transaction sees the state of the snapshot, and the server's address for other connections.
struct SnapshotReader<'s> {
    address: &'s ServerAddress,
    connection: &'s mut SqlConnection,
}

/// Writes the rows of all tables that the account may read. Returns these tables, or `Break` after Ctrl-C.
fn write_tables(
    reader: &mut SnapshotReader<'_>,
    tables: Vec<SnapshotSourceTable>,
    snapshot: &mut SnapshotWriter,
    output: &mut RecordSink,
) -> Result<ControlFlow<(), Vec<SnapshotSourceTable>>, CommandFailure> {
    reader
        .connection
        .run(SHORT_LOCK_WAIT)
        .map_err(|error| anyhow::Error::from(error).context(INCOMPLETE_ADVICE))?;
    let mut written = Vec::new();
    for table in tables {
        // After each table, others may change its definition again.
        reader.connection.run("SAVEPOINT bintide").map_err(|error| read_failure(error, &table))?;
        match lock_definition(reader, &table)? {
            ControlFlow::Break(()) => return Ok(ControlFlow::Break(())),
            ControlFlow::Continue(TableAccess::Denied(reason)) => {
                warn!("{} is not part of the snapshot: {reason}", table.name());
                continue;
            }
            ControlFlow::Continue(TableAccess::Granted) => {}
        }
        snapshot.begin_table(table.names(), &table.facts, output).map_err(failed)?;
        if write_rows(reader, &table, snapshot, output)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        reader
            .connection
            .run("ROLLBACK TO SAVEPOINT bintide")
            .map_err(|error| read_failure(error, &table))?;
        snapshot.end_table(output).map_err(failed)?;
        written.push(table);
    }
    Ok(ControlFlow::Continue(written))
}

/// Returns the query of no rows, with all columns of a table: it fails if the account may not read one of them.
fn whole_row_sql([database, table]: [&str; 2]) -> String {
    format!("SELECT * FROM {} LIMIT 0", quote::quote_table(database, table))
}

/// Access of the account to a table.
enum TableAccess {
    Granted,
    /// The account may not read the table, or one of its columns.
    Denied(servers::ConnectionError),
}

/// Locks the table's definition and name. Fails if they have changed. Returns `Break` after Ctrl-C.
fn lock_definition(
    reader: &mut SnapshotReader<'_>,
    table: &SnapshotSourceTable,
) -> Result<ControlFlow<(), TableAccess>, CommandFailure> {
    let SnapshotReader { address, connection } = reader;
    let sql = whole_row_sql(table.names());
    while let Err(error) = connection.run(&sql) {
        if error.code().is_some_and(|code| DENIED_CODES.contains(&code)) {
            return Ok(ControlFlow::Continue(TableAccess::Denied(error)));
        }
        if matches!(error, servers::ConnectionError::Cancelled) {
            return Ok(ControlFlow::Break(()));
        }
        if error.code() != Some(LOCK_WAIT_TIMEOUT) {
            return Err(read_failure(error, table));
        }
        if interrupt::is_stop_requested() {
            return Ok(ControlFlow::Break(()));
        }
    }
    match is_same(address, table).map_err(|error| read_failure(error, table))? {
        true => Ok(ControlFlow::Continue(TableAccess::Granted)),
        false => Err(advise_run_again(anyhow!("the definition of {} has changed", table.name())).into()),
    }
}

/// Returns whether the table is still the listed one. Uses a new connection, because the transaction sees an old state
/// of MySQL's catalogue.
fn is_same(address: &ServerAddress, table: &SnapshotSourceTable) -> Result<bool, servers::ConnectionError> {
    let mut connection = SqlConnection::open(address)?;
    let [database, name] = table.names().map(str::as_bytes);
    let is_it = quote::table_condition(database, name);
    let created = connection
        .value(&format!("SELECT UNIX_TIMESTAMP(create_time) FROM information_schema.tables WHERE {is_it}"))?;
    let found = facts(&mut connection, table.names())?;
    Ok(found.is_some_and(|found| {
        (&found.columns, &found.primary_key) == (&table.facts.columns, &table.facts.primary_key)
            && created.unwrap_or_default() == table.listed.created
    }))
}

fn write_rows(
    reader: &mut SnapshotReader<'_>,
    table: &SnapshotSourceTable,
    snapshot: &mut SnapshotWriter,
    output: &mut RecordSink,
) -> Result<ControlFlow<()>, CommandFailure> {
    /// Number of rows whose records have the same time.
    const CLOCK_EVERY: u64 = 256;
    let SnapshotReader { address, connection } = reader;
    let columns: Vec<String> = table.facts.columns.iter().map(|column| column.select_expression()).collect();
    let sql = format!("SELECT {} FROM {}", columns.join(", "), table.quoted_name());
    // The connection that stops the query is needed exactly after cancellation.
    let stopping = ServerAddress { cancel: CancelToken::default(), ..(*address).clone() };
    let (id, mut told, mut is_cut) = (connection.id(), Ok(()), false);
    let (mut number, mut clock_ns) = (0, 0);
    let mut take = |row: servers::ResultRow| {
        if number % CLOCK_EVERY == 0 {
            clock_ns = now_ns();
            is_cut = interrupt::is_stop_requested();
        }
        number += 1;
        told = snapshot.write_row(&row, clock_ns, output);
        if told.is_ok() && !is_cut {
            return ControlFlow::Continue(());
        }
        // Otherwise the server would send all remaining rows.
        let stop = SqlConnection::open(&stopping);
        let _ = stop.and_then(|mut stop| stop.run(&format!("KILL QUERY {id}")));
        ControlFlow::Break(())
    };
    let read = connection.each_row(&sql, &mut take);
    told.map_err(failed)?;
    if is_cut || matches!(read, Err(servers::ConnectionError::Cancelled)) {
        return Ok(ControlFlow::Break(()));
    }
    read.map_err(|error| read_failure(error, table))?;
    Ok(ControlFlow::Continue(()))
}

/// Returns the failure for rows that cannot be read.
fn read_failure(error: servers::ConnectionError, table: &SnapshotSourceTable) -> CommandFailure {
    let name = table.name();
    let is_redefined = error.code() == Some(TABLE_REDEFINED);
    let error = anyhow::Error::from(error).context(format!("could not read the rows of {name}"));
    CommandFailure::Failed(if is_redefined {
        advise_run_again(error)
    } else {
        error.context(INCOMPLETE_ADVICE)
    })
}

fn advise_run_again(error: anyhow::Error) -> anyhow::Error {
    error.context(ErrorAdvice(RUN_AGAIN_ADVICE))
}
