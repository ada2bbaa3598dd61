//! The receiver of the logs: its state, shown as a replica's state, and the statements that control it.
//!
//! The columns depend on the version of the server that wrote the newest log.

use std::path::Path;

use binlog::ServerVersion;
use sql::SqlWord;
use wire::ServerError;

use super::refusals::{internal, not_a_replica, syntax_error, unknown_channel, unsupported};
use super::sql_function::date_time_text;
use super::{SqlStatement, done};
use crate::sql_answer::{SqlAnswer, SqlColumn, SqlColumnKind, SqlRows, SqlSession, SqlValue, WarningLevel};
use crate::upstream_control::{UpstreamControl, UpstreamStatus};

/// Column of `SHOW REPLICA STATUS`: its name, its name in `SHOW SLAVE STATUS`, and its value.
struct StatusColumn {
    name: &'static str,
    old_name: &'static str,
    kind: SqlColumnKind,
    value: StatusReader,
}

type StatusReader = fn(&ReplicaState) -> SqlValue;

/// State of the receiver, and the stored transactions.
struct ReplicaState {
    status: UpstreamStatus,
    gtids: String,
    /// GTIDs of MariaDB, as a position.
    mariadb_gtids: String,
}

const fn column(
    name: &'static str,
    old_name: &'static str,
    kind: SqlColumnKind,
    value: StatusReader,
) -> StatusColumn {
    StatusColumn { name, old_name, kind, value }
}

const fn shown(name: &'static str, old_name: &'static str, value: StatusReader) -> StatusColumn {
    column(name, old_name, SqlColumnKind::Text, value)
}

const fn counted(name: &'static str, old_name: &'static str, value: StatusReader) -> StatusColumn {
    column(name, old_name, SqlColumnKind::Integer, value)
}

/// Column that is always empty: a relay has no rules, no client key and no applier.
const fn empty(name: &'static str, old_name: &'static str) -> StatusColumn {
    shown(name, old_name, |_| "".into())
}

/// Column that is always 0.
const fn zero(name: &'static str, old_name: &'static str) -> StatusColumn {
    counted(name, old_name, |_| SqlValue::UInt(0))
}

/// Columns of MySQL 8.0.22 and later. A relay applies no transactions, so stored transactions count as applied.
const STATUS_COLUMNS: &[StatusColumn] = &[
    shown("Replica_IO_State", "Slave_IO_State", |state| io_state(&state.status).into()),
    shown("Source_Host", "Master_Host", |state| state.status.host.as_str().into()),
    shown("Source_User", "Master_User", |state| state.status.user.as_str().into()),
    counted("Source_Port", "Master_Port", |state| SqlValue::UInt(state.status.port.into())),
    counted("Connect_Retry", "Connect_Retry", |_| SqlValue::UInt(RETRY_MAX_S)),
    shown("Source_Log_File", "Master_Log_File", |state| state.status.log.as_str().into()),
    counted("Read_Source_Log_Pos", "Read_Master_Log_Pos", |state| state.status.position.into()),
    shown("Relay_Log_File", "Relay_Log_File", |state| state.status.stored_log.as_str().into()),
    counted("Relay_Log_Pos", "Relay_Log_Pos", |state| state.status.stored_position.into()),
    shown("Relay_Source_Log_File", "Relay_Master_Log_File", |state| state.status.log.as_str().into()),
    shown("Replica_IO_Running", "Slave_IO_Running", |state| io_running(&state.status).into()),
    shown("Replica_SQL_Running", "Slave_SQL_Running", |state| yes_no(state.status.is_running)),
    empty("Replicate_Do_DB", "Replicate_Do_DB"),
    empty("Replicate_Ignore_DB", "Replicate_Ignore_DB"),
    empty("Replicate_Do_Table", "Replicate_Do_Table"),
    empty("Replicate_Ignore_Table", "Replicate_Ignore_Table"),
    empty("Replicate_Wild_Do_Table", "Replicate_Wild_Do_Table"),
    empty("Replicate_Wild_Ignore_Table", "Replicate_Wild_Ignore_Table"),
    counted("Last_Errno", "Last_Errno", |_| SqlValue::UInt(0)),
    empty("Last_Error", "Last_Error"),
    zero("Skip_Counter", "Skip_Counter"),
    counted("Exec_Source_Log_Pos", "Exec_Master_Log_Pos", |state| state.status.position.into()),
    counted("Relay_Log_Space", "Relay_Log_Space", |state| state.status.stored_position.into()),
    shown("Until_Condition", "Until_Condition", |_| "None".into()),
    empty("Until_Log_File", "Until_Log_File"),
    zero("Until_Log_Pos", "Until_Log_Pos"),
    shown("Source_SSL_Allowed", "Master_SSL_Allowed", |state| yes_no(state.status.tls.is_allowed)),
    shown("Source_SSL_CA_File", "Master_SSL_CA_File", |state| path(state.status.tls.authorities.as_deref())),
    shown("Source_SSL_CA_Path", "Master_SSL_CA_Path", |state| {
        path(state.status.tls.authority_directory.as_deref())
    }),
    shown("Source_SSL_Cert", "Master_SSL_Cert", |state| path(state.status.tls.certificate.as_deref())),
    empty("Source_SSL_Cipher", "Master_SSL_Cipher"),
    shown("Source_SSL_Key", "Master_SSL_Key", |state| path(state.status.tls.key.as_deref())),
    counted("Seconds_Behind_Source", "Seconds_Behind_Master", |state| {
        state.status.lag_s.filter(|_| state.status.is_connected).into()
    }),
    shown("Source_SSL_Verify_Server_Cert", "Master_SSL_Verify_Server_Cert", |state| {
        yes_no(state.status.tls.is_verified)
    }),
    counted("Last_IO_Errno", "Last_IO_Errno", |state| {
        SqlValue::UInt(state.status.error.as_ref().map_or(0, |error| error.code.into()))
    }),
    shown("Last_IO_Error", "Last_IO_Error", |state| {
        state.status.error.as_ref().map_or("", |error| &error.message).into()
    }),
    zero("Last_SQL_Errno", "Last_SQL_Errno"),
    empty("Last_SQL_Error", "Last_SQL_Error"),
    empty("Replicate_Ignore_Server_Ids", "Replicate_Ignore_Server_Ids"),
    counted("Source_Server_Id", "Master_Server_Id", |state| state.status.server_id.unwrap_or(0).into()),
    shown("Source_UUID", "Master_UUID", |state| state.status.server_uuid.clone().unwrap_or_default().into()),
    empty("Source_Info_File", "Master_Info_File"),
    zero("SQL_Delay", "SQL_Delay"),
    counted("SQL_Remaining_Delay", "SQL_Remaining_Delay", |_| SqlValue::Null),
    empty("Replica_SQL_Running_State", "Slave_SQL_Running_State"),
    zero("Source_Retry_Count", "Master_Retry_Count"),
    empty("Source_Bind", "Master_Bind"),
    shown("Last_IO_Error_Timestamp", "Last_IO_Error_Timestamp", |state| {
        state.status.error.as_ref().map_or_else(String::new, |error| error_time(error.time_us)).into()
    }),
    empty("Last_SQL_Error_Timestamp", "Last_SQL_Error_Timestamp"),
    empty("Source_SSL_Crl", "Master_SSL_Crl"),
    empty("Source_SSL_Crlpath", "Master_SSL_Crlpath"),
    shown("Retrieved_Gtid_Set", "Retrieved_Gtid_Set", |state| state.gtids.as_str().into()),
    shown("Executed_Gtid_Set", "Executed_Gtid_Set", |state| state.gtids.as_str().into()),
    zero("Auto_Position", "Auto_Position"),
    empty("Replicate_Rewrite_DB", "Replicate_Rewrite_DB"),
    empty("Channel_Name", "Channel_Name"),
    empty("Source_TLS_Version", "Master_TLS_Version"),
    empty("Source_public_key_path", "Master_public_key_path"),
    zero("Get_Source_public_key", "Get_master_public_key"),
    empty("Network_Namespace", "Network_Namespace"),
];

/// Columns that only MariaDB has, each list with the column of MySQL's `SHOW SLAVE STATUS` that precedes it.
const MARIADB_COLUMNS: &[(&str, &[StatusColumn])] = &[
    (
        "Master_SSL_Crlpath",
        &[
            same("Using_Gtid", |_| "No".into()),
            same("Gtid_IO_Pos", |state| state.mariadb_gtids.as_str().into()),
            same("Replicate_Do_Domain_Ids", |_| "".into()),
            same("Replicate_Ignore_Domain_Ids", |_| "".into()),
            same("Parallel_Mode", |_| "none".into()),
        ],
    ),
    (
        "Slave_SQL_Running_State",
        &[
            zero("Slave_DDL_Groups", "Slave_DDL_Groups"),
            zero("Slave_Non_Transactional_Groups", "Slave_Non_Transactional_Groups"),
            zero("Slave_Transactional_Groups", "Slave_Transactional_Groups"),
        ],
    ),
];

/// Columns of MySQL that MariaDB also has after `Master_Server_Id`, in MariaDB's order.
const MARIADB_LAST_COLUMNS: [&str; 6] = [
    "Master_SSL_Crl",
    "Master_SSL_Crlpath",
    "SQL_Delay",
    "SQL_Remaining_Delay",
    "Slave_SQL_Running_State",
    "Replicate_Rewrite_DB",
];
/// First version of MariaDB with the last of these columns.
const REWRITE_COLUMN_SINCE: [u32; 3] = [10, 11, 0];

/// First columns of `SHOW ALL SLAVES STATUS`; the columns of one connection follow, then `ALL_LAST_COLUMNS`.
const ALL_FIRST_COLUMNS: &[StatusColumn] =
    &[empty("Connection_name", "Connection_name"), empty("Slave_SQL_State", "Slave_SQL_State")];
const ALL_LAST_COLUMNS: &[StatusColumn] = &[
    zero("Retried_transactions", "Retried_transactions"),
    counted("Max_relay_log_size", "Max_relay_log_size", |_| SqlValue::UInt(1 << 30)),
    zero("Executed_log_entries", "Executed_log_entries"),
    counted("Slave_received_heartbeats", "Slave_received_heartbeats", |state| state.status.heartbeats.into()),
    column("Slave_heartbeat_period", "Slave_heartbeat_period", SqlColumnKind::Double, |state| {
        SqlValue::Double(state.status.heartbeat_interval.as_secs_f64())
    }),
    same("Gtid_Slave_Pos", |state| state.mariadb_gtids.as_str().into()),
];

const fn same(name: &'static str, value: StatusReader) -> StatusColumn {
    shown(name, name, value)
}

/// Longest pause between attempts to connect, in seconds.
const RETRY_MAX_S: u64 = 30;

pub(super) fn replica_status(
    statement: &mut SqlStatement<'_>,
    _: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    status_rows(statement, |column| column.name)
}

pub(super) fn slave_status(
    statement: &mut SqlStatement<'_>,
    _: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    status_rows(statement, |column| column.old_name)
}

/// `SHOW ALL SLAVES STATUS`, a statement of MariaDB.
pub(super) fn all_status(
    statement: &mut SqlStatement<'_>,
    _: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    let version = served_version(statement);
    if !version.is_mariadb() {
        return Err(syntax_error(statement.sql, "SHOW ".len()));
    }
    let columns = ALL_FIRST_COLUMNS.iter().chain(mariadb_columns(version)).chain(ALL_LAST_COLUMNS);
    rows_of(statement, &columns.map(|column| (column, column.old_name)).collect::<Vec<_>>())
}

fn status_rows(
    statement: &mut SqlStatement<'_>,
    name: fn(&StatusColumn) -> &'static str,
) -> Result<SqlAnswer, ServerError> {
    take_channel(statement)?;
    let version = served_version(statement);
    let columns: Vec<NamedColumn> = match version.is_mariadb() {
        true => mariadb_columns(version).into_iter().map(|column| (column, column.old_name)).collect(),
        false => STATUS_COLUMNS.iter().map(|column| (column, name(column))).collect(),
    };
    rows_of(statement, &columns)
}

/// Column, and its name in the statement.
type NamedColumn = (&'static StatusColumn, &'static str);

/// Returns the columns of MariaDB: all of MySQL's up to the source's `server_id`, then some of MySQL's, and MariaDB's
/// own.
fn mariadb_columns(version: ServerVersion) -> Vec<&'static StatusColumn> {
    let end = STATUS_COLUMNS.iter().position(|column| column.old_name == "Master_UUID");
    let (first, last) = STATUS_COLUMNS.split_at(end.unwrap_or(STATUS_COLUMNS.len()));
    let mut columns: Vec<&StatusColumn> = first.iter().collect();
    for name in MARIADB_LAST_COLUMNS {
        if name == "Replicate_Rewrite_DB" && !version.is_mariadb_since(REWRITE_COLUMN_SINCE) {
            continue;
        }
        columns.extend(last.iter().filter(|column| column.old_name == name));
        let own = MARIADB_COLUMNS.iter().filter(|(before, _)| *before == name);
        columns.extend(own.flat_map(|(_, own)| *own));
    }
    columns
}

fn served_version(statement: &SqlStatement<'_>) -> ServerVersion {
    ServerVersion::parse(&statement.relay.server().version)
}

fn rows_of(statement: &mut SqlStatement<'_>, named: &[NamedColumn]) -> Result<SqlAnswer, ServerError> {
    let columns = named
        .iter()
        .map(|(column, name)| SqlColumn { name: (*name).to_owned(), kind: column.kind })
        .collect();
    let mut rows = Vec::new();
    if let Some(upstream) = statement.relay.upstream_control() {
        let gtids = statement.relay.gtids().map_err(|error| internal(&error))?;
        let mariadb_gtids = statement.relay.mariadb_gtids().map_err(|error| internal(&error))?;
        let state = ReplicaState {
            status: upstream.status(),
            gtids: gtids.to_server_text().to_string(),
            mariadb_gtids,
        };
        rows.push(named.iter().map(|(column, _)| (column.value)(&state)).collect());
    }
    statement.finish(SqlRows { columns, rows })
}

/// Takes `FOR CHANNEL ''`. A relay has no other channel.
pub(super) fn take_channel(statement: &mut SqlStatement<'_>) -> Result<(), ServerError> {
    if !statement.words.take("FOR CHANNEL") {
        return Ok(());
    }
    let channel = match statement.words.peek() {
        Some(SqlWord::Text(channel) | SqlWord::Plain(channel) | SqlWord::Quoted(channel)) => channel.clone(),
        _ => return Err(statement.syntax_error()),
    };
    statement.words.skip();
    if channel.is_empty() { Ok(()) } else { Err(unknown_channel(&channel)) }
}

fn io_state(status: &UpstreamStatus) -> &'static str {
    match (status.is_running, status.is_connected, &status.error) {
        (false, ..) => "",
        (true, true, _) => "Waiting for source to send event",
        (true, false, None) => "Connecting to source",
        (true, false, Some(_)) => "Reconnecting after a failed source event read",
    }
}

fn io_running(status: &UpstreamStatus) -> &'static str {
    match (status.is_running, status.is_connected) {
        (false, _) => "No",
        (true, true) => "Yes",
        (true, false) => "Connecting",
    }
}

fn yes_no(is_true: bool) -> SqlValue {
    (if is_true { "Yes" } else { "No" }).into()
}

fn path(path: Option<&Path>) -> SqlValue {
    path.map_or_else(String::new, |path| path.display().to_string()).into()
}

/// Returns a time as `231114 22:13:20`.
fn error_time(time_us: u64) -> String {
    let text = date_time_text(time_us, 0);
    let (date, time) = text.split_once(' ').unwrap_or((&text, ""));
    format!("{} {time}", date.get(2..).unwrap_or_default().replace('-', ""))
}

pub(super) fn start(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    take_receiver(statement)?;
    if statement.relay.upstream_control().ok_or_else(not_a_replica)?.start() {
        session.record_change("START REPLICA");
    } else {
        let message = "Replication thread(s) for channel '' are already running.";
        session.warn(WarningLevel::Note, 3083, message);
    }
    Ok(done())
}

pub(super) fn stop(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    take_receiver(statement)?;
    if statement.relay.upstream_control().is_some_and(UpstreamControl::stop) {
        session.record_change("STOP REPLICA");
    } else {
        let message = "Replication thread(s) for channel '' are already stopped.";
        session.warn(WarningLevel::Note, 3084, message);
    }
    Ok(done())
}

/// Parses the end of a statement that starts or stops the receiver.
fn take_receiver(statement: &mut SqlStatement<'_>) -> Result<(), ServerError> {
    if statement.words.take("SQL_THREAD") {
        return Err(unsupported("a SQL_THREAD"));
    }
    statement.words.take("IO_THREAD");
    if statement.words.is_next("UNTIL") {
        return Err(unsupported("START REPLICA UNTIL"));
    }
    take_channel(statement)?;
    statement.expect_end()
}

pub(super) fn flush_logs(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    statement.expect_end()?;
    let message = "bintide relay does not support FLUSH BINARY LOGS without --from: another program writes these logs. \
                   Flush them there";
    let refused = || ServerError::new(1235, "42000", message);
    statement.relay.upstream_control().ok_or_else(refused)?.flush_logs()?;
    session.record_change("FLUSH BINARY LOGS");
    Ok(done())
}
