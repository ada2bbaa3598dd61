//! Tables of facts that a `SELECT` can read.

use std::collections::BTreeMap;

use binlog::ServerVersion;
use wire::ServerError;

use super::refusals::{internal, unreadable};
use super::sql_function::date_time_text;
use super::system_variable::{
    RequestedScope, STATUS_VARIABLES, SYSTEM_VARIABLES, VariableContext, VariableScope,
};
use crate::relay_account::AccountRight;
use crate::relay_facts::{ClientFacts, ClientLag, CompressionCounters, FormFacts, LogSize, StageTotals};
use crate::sql_answer::{SqlColumnSpec, SqlRows, SqlValue, double, integer, text};
use crate::upstream_control::{UpstreamControl, UpstreamStatus};

/// Databases, in the order of their names.
pub(super) const DATABASES: [&str; 3] = ["bintide", "information_schema", "performance_schema"];

/// Table of facts.
pub(super) struct FactTable {
    /// One of [`DATABASES`].
    pub(super) database: &'static str,
    pub(super) name: &'static str,
    pub(super) read: TableReader,
}

type TableReader = fn(&VariableContext<'_>) -> Result<SqlRows, ServerError>;

/// Tables, in the order of their databases and names.
pub(super) const FACT_TABLES: &[FactTable] = &[
    bintide("clients", clients),
    bintide("forms", forms),
    bintide("log_sizes", log_sizes),
    bintide("logs", logs),
    bintide("upstream", upstream),
    schema("ENGINES", engines),
    schema("PROCESSLIST", processlist),
    schema("SCHEMATA", schemata),
    schema("TABLES", tables),
    performance("binary_log_transaction_compression_stats", compression_stats),
    performance("events_stages_summary_global_by_event_name", stages),
    performance("global_status", global_status),
    performance("global_variables", global_variables),
    performance("log_status", log_status),
    performance("processlist", processlist),
    performance("replication_applier_status", super::replication_table::applier_status),
    performance("replication_applier_status_by_coordinator", super::replication_table::applier_coordinators),
    performance("replication_applier_status_by_worker", super::replication_table::applier_workers),
    performance("replication_connection_configuration", super::replication_table::connection_configuration),
    performance("replication_connection_status", connection_status),
    performance("replication_group_member_stats", super::replication_table::group_member_stats),
    performance("replication_group_members", super::replication_table::group_members),
    performance("session_account_connect_attrs", own_attributes),
    performance("session_connect_attrs", attributes),
    performance("session_status", global_status),
    performance("session_variables", session_variables),
];

const fn bintide(name: &'static str, read: TableReader) -> FactTable {
    FactTable { database: "bintide", name, read }
}

const fn schema(name: &'static str, read: TableReader) -> FactTable {
    FactTable { database: "information_schema", name, read }
}

const fn performance(name: &'static str, read: TableReader) -> FactTable {
    FactTable { database: "performance_schema", name, read }
}

/// Returns the name of a database as the relay spells it.
pub(super) fn find_database(name: &str) -> Option<&'static str> {
    DATABASES.into_iter().find(|database| database.eq_ignore_ascii_case(name))
}

/// Returns the clients whose connections the session may see.
pub(super) fn visible_clients(context: &VariableContext<'_>) -> Vec<ClientFacts> {
    let mut clients = context.relay.clients();
    if !context.session.role.may(AccountRight::ReadTables) {
        clients.retain(|client| client.connection_id == context.session.connection_id);
    }
    clients
}

/// Returns a time. A server shows a missing time as zeros.
fn time(time_us: u64) -> SqlValue {
    match time_us {
        0 => "0000-00-00 00:00:00.000000".into(),
        time_us => date_time_text(time_us, 6).into(),
    }
}

// Tables of the relay itself.

fn clients(context: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[
        integer("connection_id"),
        text("user"),
        text("host"),
        text("tls_version"),
        text("program"),
        text("version"),
        text("form"),
        integer("server_id"),
        text("server_uuid"),
        text("command"),
        text("state"),
        integer("state_seconds"),
        text("log"),
        integer("position"),
        integer("bytes_sent"),
        integer("transactions_sent"),
        text("last_commit"),
        integer("bytes_saved"),
        integer("lag_transactions"),
        integer("lag_bytes"),
        double("lag_seconds"),
    ];
    let row = |(client, lag): (&ClientFacts, Option<ClientLag>)| {
        let attribute = |name: &str| {
            let found = client.attributes.iter().find(|(known, _)| known == name);
            SqlValue::from(found.map(|(_, value)| value.as_str()))
        };
        vec![
            client.connection_id.into(),
            client.user.as_str().into(),
            client.host.as_str().into(),
            client.tls_version.into(),
            attribute("program_name"),
            attribute("_client_version"),
            client.form.map(|form| form.to_string()).into(),
            client.server_id.into(),
            client.server_uuid.clone().into(),
            client.command.into(),
            client.state.into(),
            client.state_s.into(),
            client.position.as_ref().map(|(log, _)| log.as_str()).into(),
            client.position.as_ref().map(|(_, position)| *position).into(),
            client.bytes_sent.into(),
            client.transactions_sent.into(),
            client.committed_us.map_or(SqlValue::Null, time),
            client.progress.as_ref().map(|progress| progress.dump.saved_bytes).into(),
            lag.and_then(|lag| lag.transactions).into(),
            lag.map(|lag| lag.bytes).into(),
            lag.and_then(|lag| lag.time_us).map_or(SqlValue::Null, |us| SqlValue::Double(us as f64 / 1e6)),
        ]
    };
    let clients = visible_clients(context);
    let lags = context.relay.lags(&clients);
    Ok(SqlRows::new(COLUMNS, clients.iter().zip(lags).map(row).collect()))
}

/// Sums over the clients of one form.
#[derive(Default)]
struct FormTotals {
    clients: u64,
    bytes_sent: u64,
    transactions_sent: u64,
    /// Sums over all clients since the start, if the form is served.
    since_start: Option<FormFacts>,
}

fn forms(context: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("form"),
        integer("clients"),
        integer("bytes_sent"),
        integer("transactions_sent"),
        integer("total_bytes_sent"),
        integer("total_transactions_sent"),
        integer("total_bytes_saved"),
        integer("rendered_bytes"),
        double("render_seconds"),
        integer("cached_bytes"),
    ];
    let mut totals: BTreeMap<String, FormTotals> = BTreeMap::new();
    for client in context.relay.clients() {
        let Some(form) = client.form else { continue };
        let total = totals.entry(form.to_string()).or_default();
        total.clients += 1;
        total.bytes_sent += client.bytes_sent;
        total.transactions_sent += client.transactions_sent;
    }
    for form in context.relay.forms() {
        totals.entry(form.form.to_string()).or_default().since_start = Some(form);
    }
    let row = |(form, total): (String, FormTotals)| {
        let since = |figure: fn(&FormFacts) -> u64| SqlValue::from(total.since_start.as_ref().map(figure));
        let seconds = total.since_start.map(|form| form.cost.time.as_secs_f64());
        vec![
            form.into(),
            total.clients.into(),
            total.bytes_sent.into(),
            total.transactions_sent.into(),
            since(|form| form.bytes_sent),
            since(|form| form.transactions_sent),
            since(|form| form.bytes_saved),
            since(|form| form.cost.bytes),
            seconds.map_or(SqlValue::Null, SqlValue::Double),
            since(|form| form.cost.cached_bytes),
        ]
    };
    Ok(SqlRows::new(COLUMNS, totals.into_iter().map(row).collect()))
}

fn logs(context: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    const COLUMNS: &[SqlColumnSpec] =
        &[text("name"), text("form"), integer("size"), integer("stored_size"), text("encrypted")];
    let (form, interrupt) = (context.session.form, &context.session.interrupt);
    let logs = context.relay.logs(form, interrupt).map_err(|error| unreadable(&error))?;
    let row = |log: crate::relay_facts::ServedLog| {
        let encrypted = if log.is_encrypted { "Yes" } else { "No" };
        vec![
            log.name.into(),
            form.to_string().into(),
            log.size.into(),
            log.stored_size.into(),
            encrypted.into(),
        ]
    };
    Ok(SqlRows::new(COLUMNS, logs.into_iter().map(row).collect()))
}

/// Maximum number of logs in `bintide.log_sizes`.
const LOG_SIZES_MAX: usize = 100;

/// Returns the rows of `bintide.log_sizes`. Renders no log.
fn log_sizes(context: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    const COLUMNS: &[SqlColumnSpec] =
        &[text("name"), text("form"), integer("size"), integer("stored_size"), text("complete")];
    let sizes = context.relay.log_sizes(LOG_SIZES_MAX).map_err(|error| internal(&error))?;
    let row = |size: LogSize| {
        vec![
            size.name.into(),
            size.form.to_string().into(),
            size.bytes.into(),
            size.stored_bytes.into(),
            if size.is_whole { "Yes" } else { "No" }.into(),
        ]
    };
    Ok(SqlRows::new(COLUMNS, sizes.into_iter().map(row).collect()))
}

fn upstream(context: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("sources"),
        text("connected"),
        text("log"),
        integer("position"),
        integer("lag_seconds"),
        integer("transactions_received"),
        integer("bytes_received"),
        text("error"),
    ];
    let row = |upstream: &dyn UpstreamControl| {
        let status = upstream.status();
        vec![
            status.sources.join(", ").into(),
            if status.is_connected { "Yes" } else { "No" }.into(),
            status.log.into(),
            status.position.into(),
            status.lag_s.into(),
            status.transactions.into(),
            status.bytes.into(),
            status.error.filter(|_| !status.is_connected).map(|error| error.message).into(),
        ]
    };
    Ok(SqlRows::new(COLUMNS, context.relay.upstream_control().into_iter().map(row).collect()))
}

// Tables of a server's information_schema.

fn processlist(context: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[
        integer("ID"),
        text("USER"),
        text("HOST"),
        text("DB"),
        text("COMMAND"),
        integer("TIME"),
        text("STATE"),
        text("INFO"),
    ];
    let row = |client: &ClientFacts| {
        let is_own = client.connection_id == context.session.connection_id;
        let database = context.session.database.clone().filter(|_| is_own);
        vec![
            client.connection_id.into(),
            client.user.as_str().into(),
            client.host.as_str().into(),
            database.into(),
            client.command.into(),
            client.state_s.into(),
            client.state.into(),
            SqlValue::Null,
        ]
    };
    Ok(SqlRows::new(COLUMNS, visible_clients(context).iter().map(row).collect()))
}

fn schemata(_: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("CATALOG_NAME"),
        text("SCHEMA_NAME"),
        text("DEFAULT_CHARACTER_SET_NAME"),
        text("DEFAULT_COLLATION_NAME"),
        text("SQL_PATH"),
        text("DEFAULT_ENCRYPTION"),
    ];
    let row = |name: &str| {
        let utf8mb4 = ["utf8mb4".into(), "utf8mb4_0900_ai_ci".into()];
        let [charset, collation] = utf8mb4;
        vec!["def".into(), name.into(), charset, collation, SqlValue::Null, "NO".into()]
    };
    Ok(SqlRows::new(COLUMNS, DATABASES.into_iter().map(row).collect()))
}

fn engines(_: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("ENGINE"),
        text("SUPPORT"),
        text("COMMENT"),
        text("TRANSACTIONS"),
        text("XA"),
        text("SAVEPOINTS"),
    ];
    let no = || SqlValue::from("NO");
    let row =
        vec!["PERFORMANCE_SCHEMA".into(), "DEFAULT".into(), "Performance Schema".into(), no(), no(), no()];
    Ok(SqlRows::new(COLUMNS, vec![row]))
}

fn tables(_: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("TABLE_CATALOG"),
        text("TABLE_SCHEMA"),
        text("TABLE_NAME"),
        text("TABLE_TYPE"),
        text("ENGINE"),
    ];
    let row = |table: &FactTable| {
        let engine =
            if table.database == "performance_schema" { "PERFORMANCE_SCHEMA".into() } else { SqlValue::Null };
        vec!["def".into(), table.database.into(), table.name.into(), table.kind().into(), engine]
    };
    Ok(SqlRows::new(COLUMNS, FACT_TABLES.iter().map(row).collect()))
}

impl FactTable {
    /// Returns the type of the table, as `SHOW FULL TABLES` shows it.
    pub(super) fn kind(&self) -> &'static str {
        if self.database == "information_schema" { "SYSTEM VIEW" } else { "BASE TABLE" }
    }
}

// Tables of a server's performance_schema.

fn compression_stats(context: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("LOG_TYPE"),
        text("COMPRESSION_TYPE"),
        integer("TRANSACTION_COUNTER"),
        integer("COMPRESSED_BYTES_COUNTER"),
        integer("UNCOMPRESSED_BYTES_COUNTER"),
        integer("COMPRESSION_PERCENTAGE"),
        text("FIRST_TRANSACTION_ID"),
        integer("FIRST_TRANSACTION_COMPRESSED_BYTES"),
        integer("FIRST_TRANSACTION_UNCOMPRESSED_BYTES"),
        text("FIRST_TRANSACTION_TIMESTAMP"),
        text("LAST_TRANSACTION_ID"),
        integer("LAST_TRANSACTION_COMPRESSED_BYTES"),
        integer("LAST_TRANSACTION_UNCOMPRESSED_BYTES"),
        text("LAST_TRANSACTION_TIMESTAMP"),
    ];
    let row = |totals: &CompressionCounters| {
        vec![
            totals.log_type.into(),
            totals.compression_type.into(),
            totals.transactions.into(),
            totals.compressed_bytes.into(),
            totals.uncompressed_bytes.into(),
            SqlValue::Int(compression_percentage(totals.compressed_bytes, totals.uncompressed_bytes)),
            totals.first.id.as_str().into(),
            totals.first.compressed_bytes.into(),
            totals.first.uncompressed_bytes.into(),
            time(totals.first.time_us),
            totals.last.id.as_str().into(),
            totals.last.compressed_bytes.into(),
            totals.last.uncompressed_bytes.into(),
            time(totals.last.time_us),
        ]
    };
    Ok(SqlRows::new(COLUMNS, context.relay.compression_counters().iter().map(row).collect()))
}

/// Returns the percentage saved by compression, rounded as on a server. Negative if compression made transactions
/// larger.
fn compression_percentage(compressed: u64, uncompressed: u64) -> i64 {
    if uncompressed == 0 {
        return 0;
    }
    ((1.0 - compressed as f64 / uncompressed as f64) * 100.0).round() as i64
}

fn stages(context: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("EVENT_NAME"),
        integer("COUNT_STAR"),
        integer("SUM_TIMER_WAIT"),
        integer("MIN_TIMER_WAIT"),
        integer("AVG_TIMER_WAIT"),
        integer("MAX_TIMER_WAIT"),
    ];
    let mut totals = context.relay.stage_totals();
    for name in StageTotals::NAMES {
        if !totals.iter().any(|stage| stage.name == name) {
            totals.push(StageTotals { name, ..StageTotals::default() });
        }
    }
    totals.sort_by_key(|stage| stage.name);
    let row = |stage: &StageTotals| {
        let average_ps = stage.sum_ps.checked_div(stage.count).unwrap_or(0);
        vec![
            stage.name.into(),
            stage.count.into(),
            stage.sum_ps.into(),
            stage.min_ps.into(),
            average_ps.into(),
            stage.max_ps.into(),
        ]
    };
    Ok(SqlRows::new(COLUMNS, totals.iter().map(row).collect()))
}

const VARIABLE_COLUMNS: &[SqlColumnSpec] = &[text("VARIABLE_NAME"), text("VARIABLE_VALUE")];

fn global_status(context: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    let row = |variable: &super::system_variable::StatusVariable| {
        vec![variable.name.into(), (variable.value)(context).to_text().into()]
    };
    Ok(SqlRows::new(VARIABLE_COLUMNS, STATUS_VARIABLES.iter().map(row).collect()))
}

fn global_variables(context: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    variable_rows(RequestedScope::Global, context)
}

fn session_variables(context: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    variable_rows(RequestedScope::Any, context)
}

/// Returns names and values of the variables in a scope.
pub(super) fn variable_rows(
    scope: RequestedScope,
    context: &VariableContext<'_>,
) -> Result<SqlRows, ServerError> {
    let version = ServerVersion::parse(&context.relay.server().version);
    let is_hidden = |of| scope == RequestedScope::Global && of == VariableScope::Session;
    let mut rows = Vec::new();
    for variable in SYSTEM_VARIABLES {
        if variable.is_available(version) && !is_hidden(variable.scope) {
            rows.push(vec![variable.name.into(), variable.value(scope, context)?.to_text().into()]);
        }
    }
    Ok(SqlRows::new(VARIABLE_COLUMNS, rows))
}

fn log_status(context: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    const COLUMNS: &[SqlColumnSpec] =
        &[text("SERVER_UUID"), text("LOCAL"), text("REPLICATION"), text("STORAGE_ENGINES")];
    let (form, interrupt) = (context.session.form, &context.session.interrupt);
    let end = context.relay.end(form, interrupt).map_err(|error| unreadable(&error))?;
    // A server separates items by ", ".
    let json = |text: &str| serde_json::Value::from(text).to_string();
    let local = format!(
        "{{\"gtid_executed\": {}, \"binary_log_file\": {}, \"binary_log_position\": {}}}",
        json(&end.gtids.to_server_text().to_string()),
        json(&end.log),
        end.position
    );
    let server_uuid = context.relay.server().server_uuid;
    let channel = |upstream: &dyn UpstreamControl| {
        let UpstreamStatus { stored_log, stored_position, .. } = upstream.status();
        format!(
            "{{\"channel_name\": \"\", \"relay_log_file\": {}, \"relay_log_position\": {stored_position}}}",
            json(&stored_log)
        )
    };
    let channels = context.relay.upstream_control().map(channel).unwrap_or_default();
    let replication = format!("{{\"channels\": [{channels}]}}");
    let row = vec![server_uuid.into(), local.into(), replication.into(), "{}".into()];
    Ok(SqlRows::new(COLUMNS, vec![row]))
}

fn connection_status(context: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    const COLUMNS: &[SqlColumnSpec] = &[
        text("CHANNEL_NAME"),
        text("GROUP_NAME"),
        text("SOURCE_UUID"),
        integer("THREAD_ID"),
        text("SERVICE_STATE"),
        integer("COUNT_RECEIVED_HEARTBEATS"),
        text("LAST_HEARTBEAT_TIMESTAMP"),
        text("RECEIVED_TRANSACTION_SET"),
        integer("LAST_ERROR_NUMBER"),
        text("LAST_ERROR_MESSAGE"),
        text("LAST_ERROR_TIMESTAMP"),
        text("LAST_QUEUED_TRANSACTION"),
        text("LAST_QUEUED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP"),
        text("LAST_QUEUED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP"),
        text("LAST_QUEUED_TRANSACTION_START_QUEUE_TIMESTAMP"),
        text("LAST_QUEUED_TRANSACTION_END_QUEUE_TIMESTAMP"),
        text("QUEUEING_TRANSACTION"),
        text("QUEUEING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP"),
        text("QUEUEING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP"),
        text("QUEUEING_TRANSACTION_START_QUEUE_TIMESTAMP"),
    ];
    let Some(upstream) = context.relay.upstream_control() else {
        return Ok(SqlRows::new(COLUMNS, Vec::new()));
    };
    let status = upstream.status();
    let gtids = context.relay.gtids().map_err(|error| internal(&error))?;
    let received = upstream.received();
    let last = received.iter().map(|row| &row.last).max_by_key(|last| last.time_us);
    let (number, message, failed_us) = match status.error {
        Some(error) => (error.code, error.message, error.time_us),
        None => (0, String::new(), 0),
    };
    let service = match (status.is_running, status.is_connected) {
        (false, _) => "OFF",
        (true, true) => "ON",
        (true, false) => "CONNECTING",
    };
    let mut row: Vec<SqlValue> = vec![
        "".into(),
        "".into(),
        status.server_uuid.unwrap_or_default().into(),
        SqlValue::Null,
        service.into(),
        status.heartbeats.into(),
        time(status.last_heartbeat_us.unwrap_or(0)),
        gtids.to_server_text().to_string().into(),
        SqlValue::UInt(number.into()),
        message.into(),
        time(failed_us),
        last.map_or("", |last| &last.id).into(),
        time(0),
        time(last.map_or(0, |last| last.time_us)),
        time(0),
        time(0),
        "".into(),
    ];
    row.resize_with(COLUMNS.len(), || time(0));
    Ok(SqlRows::new(COLUMNS, vec![row]))
}

fn attributes(context: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    Ok(attribute_rows(&visible_clients(context)))
}

fn own_attributes(context: &VariableContext<'_>) -> Result<SqlRows, ServerError> {
    let user = context.session.user();
    let mut clients = context.relay.clients();
    clients.retain(|client| client.user == user);
    Ok(attribute_rows(&clients))
}

fn attribute_rows(clients: &[ClientFacts]) -> SqlRows {
    const COLUMNS: &[SqlColumnSpec] =
        &[integer("PROCESSLIST_ID"), text("ATTR_NAME"), text("ATTR_VALUE"), integer("ORDINAL_POSITION")];
    let mut rows = Vec::new();
    for client in clients {
        for (number, (name, value)) in client.attributes.iter().enumerate() {
            let number = SqlValue::UInt(number as u64);
            rows.push(vec![client.connection_id.into(), name.as_str().into(), value.as_str().into(), number]);
        }
    }
    SqlRows::new(COLUMNS, rows)
}

#[cfg(test)]
mod tests {
    use super::{FACT_TABLES, compression_percentage, find_database};

    #[test]
    fn tables_are_in_order() {
        assert!(FACT_TABLES.is_sorted_by_key(|table| (table.database, table.name)));
        assert!(FACT_TABLES.iter().all(|table| find_database(table.database) == Some(table.database)));
    }

    #[test]
    fn percentages() {
        assert_eq!(compression_percentage(13_186_769, 26_687_624), 51);
        assert_eq!(compression_percentage(100, 100), 0);
        assert_eq!(compression_percentage(150, 100), -50);
        assert_eq!(compression_percentage(1, 0), 0);
    }
}
