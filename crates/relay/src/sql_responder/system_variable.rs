//! System variables and status variables of a relay.

use binlog::ServerVersion;
use wire::ServerError;

use super::SqlResponder;
use super::refusals::{internal, unknown_gtid_mode, unknown_variable, wrong_scope, wrong_type, wrong_value};
use crate::log_form::LogForm;
use crate::relay_facts::RelayFacts;
use crate::sql_answer::{SqlSession, SqlValue, WAIT_TIMEOUT_S};
use crate::upstream_control::UpstreamStatus;

/// A system variable.
pub(crate) struct SystemVariable {
    /// Name in lower case.
    pub(crate) name: &'static str,
    pub(crate) scope: VariableScope,
    pub(crate) writing: VariableWriting,
    availability: VariableAvailability,
    source: ValueSource,
}

/// Scope of a system variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VariableScope {
    Global,
    Session,
    Both,
}

/// Scope that a statement names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequestedScope {
    /// The session value if there is one, otherwise the global value.
    Any,
    Session,
    Global,
}

/// Permission for clients to set the variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VariableWriting {
    ReadOnly,
    Settable,
}

/// Servers that have the variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum VariableAvailability {
    All,
    /// MySQL since this version, and MariaDB.
    Since([u32; 3]),
    /// MySQL since this version.
    MySqlSince([u32; 3]),
    MariaDb,
    /// MySQL before 8.3.
    MySqlBefore8_3,
}

/// Value of a system variable or a status variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SystemValue {
    /// 1 and 0 in a `SELECT`, `ON` and `OFF` in a `SHOW`.
    Flag(bool),
    Number(u64),
    Text(String),
    Null,
}

enum ValueSource {
    Flag(bool),
    Number(u64),
    Text(&'static str),
    Null,
    Fact(FactReader),
}

type FactReader = fn(&VariableContext<'_>) -> Result<SystemValue, ServerError>;

/// State on which the values of variables depend.
#[derive(Clone, Copy)]
pub(crate) struct VariableContext<'a> {
    pub(crate) relay: &'a dyn RelayFacts,
    pub(crate) session: &'a SqlSession,
}

use ValueSource as V;
use VariableAvailability as A;
use VariableScope::{Both, Global, Session};

const SQL_MODE: &str = "ONLY_FULL_GROUP_BY,STRICT_TRANS_TABLES,NO_ZERO_IN_DATE,NO_ZERO_DATE,\
                        ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION";
/// Names of the variable with the maximum wait for acknowledgements of replicas, in milliseconds.
pub(crate) const SEMI_SYNC_TIMEOUT: [&str; 2] =
    ["rpl_semi_sync_master_timeout", "rpl_semi_sync_source_timeout"];
/// Names of the variable with the number of replicas that must acknowledge.
pub(crate) const SEMI_SYNC_REPLICAS: [&str; 2] =
    ["rpl_semi_sync_master_wait_for_slave_count", "rpl_semi_sync_source_wait_for_replica_count"];
/// Variable that makes `PURGE BINARY LOGS` also remove logs in use by clients.
pub(crate) const PURGE_FORCE: &str = "bintide_purge_force";
const COLLATION: &str = "utf8mb4_0900_ai_ci";
const MYSQL_8: VariableAvailability = A::MySqlSince([8, 0, 0]);
/// First version with checksums and GTIDs.
const MYSQL_5_6: [u32; 3] = [5, 6, 0];

/// System variables, in the order of their names. Constant values are the defaults of MySQL 9.7, except where a relay
/// differs: it is read-only, uses UTC and never waits for locks.
pub(crate) const SYSTEM_VARIABLES: &[SystemVariable] = &[
    settable("auto_increment_increment", V::Number(1)),
    settable("auto_increment_offset", V::Number(1)),
    settable("autocommit", V::Flag(true)),
    settable("big_tables", V::Flag(false)),
    fixed("binlog_checksum", Global, A::Since(MYSQL_5_6), V::Text("CRC32")),
    fixed("binlog_encryption", Global, A::MySqlSince([8, 0, 14]), V::Flag(false)),
    fixed("binlog_expire_logs_seconds", Global, MYSQL_8, V::Number(0)),
    settable_since("binlog_format", A::All, V::Text("ROW")),
    fixed("binlog_order_commits", Global, A::Since(MYSQL_5_6), V::Flag(true)),
    settable_since("binlog_row_image", A::Since(MYSQL_5_6), V::Text("FULL")),
    fixed("binlog_row_metadata", Global, MYSQL_8, V::Text("MINIMAL")),
    settable_since("binlog_row_value_options", MYSQL_8, V::Text("")),
    settable_since("binlog_transaction_compression", A::MySqlSince([8, 0, 20]), V::Fact(compression)),
    settable_since(
        "binlog_transaction_compression_level_zstd",
        A::MySqlSince([8, 0, 20]),
        V::Fact(compression_level),
    ),
    // The relay's own variable: whether PURGE also removes logs in use by clients.
    SystemVariable {
        writing: VariableWriting::Settable,
        ..fixed(PURGE_FORCE, Session, A::All, V::Flag(false))
    },
    settable("character_set_client", V::Text("utf8mb4")),
    settable("character_set_connection", V::Text("utf8mb4")),
    settable("character_set_database", V::Text("utf8mb4")),
    settable("character_set_filesystem", V::Text("binary")),
    settable("character_set_results", V::Text("utf8mb4")),
    settable("character_set_server", V::Text("utf8mb4")),
    fixed("character_set_system", Global, A::All, V::Text("utf8mb3")),
    settable("collation_connection", V::Text(COLLATION)),
    settable("collation_database", V::Text(COLLATION)),
    settable("collation_server", V::Text(COLLATION)),
    settable("completion_type", V::Text("NO_CHAIN")),
    fixed("connect_timeout", Global, A::All, V::Number(10)),
    settable_since("default_collation_for_utf8mb4", MYSQL_8, V::Text(COLLATION)),
    settable("default_storage_engine", V::Text("InnoDB")),
    fixed("enforce_gtid_consistency", Global, A::MySqlSince(MYSQL_5_6), V::Fact(enforce_gtid_consistency)),
    fixed("event_scheduler", Global, A::All, V::Text("OFF")),
    fixed("expire_logs_days", Global, A::All, V::Number(0)),
    settable("foreign_key_checks", V::Flag(true)),
    settable("group_concat_max_len", V::Number(1024)),
    fixed("gtid_binlog_pos", Global, A::MariaDb, V::Fact(gtid_binlog_pos)),
    settable_since("gtid_domain_id", A::MariaDb, V::Number(0)),
    fixed("gtid_executed", Global, A::MySqlSince(MYSQL_5_6), V::Fact(gtid_executed)),
    fixed("gtid_mode", Global, A::MySqlSince(MYSQL_5_6), V::Fact(gtid_mode)),
    SystemVariable {
        writing: VariableWriting::Settable,
        ..fixed("gtid_next", Session, A::MySqlSince(MYSQL_5_6), V::Text("AUTOMATIC"))
    },
    fixed("gtid_owned", Both, A::MySqlSince(MYSQL_5_6), V::Text("")),
    fixed("gtid_purged", Global, A::MySqlSince(MYSQL_5_6), V::Fact(gtid_purged)),
    fixed("gtid_strict_mode", Global, A::MariaDb, V::Flag(false)),
    fixed("hostname", Global, A::All, V::Text("bintide-relay")),
    settable_since("information_schema_stats_expiry", MYSQL_8, V::Number(86400)),
    fixed("init_connect", Global, A::All, V::Text("")),
    fixed("innodb_read_only", Global, A::Since(MYSQL_5_6), V::Flag(true)),
    fixed("innodb_version", Global, A::All, V::Fact(version)),
    settable("interactive_timeout", V::Number(WAIT_TIMEOUT_S)),
    settable("lc_time_names", V::Text("en_US")),
    fixed("license", Global, A::All, V::Text("MIT OR Apache-2.0")),
    fixed("local_infile", Global, A::All, V::Flag(false)),
    settable("lock_wait_timeout", V::Number(31_536_000)),
    fixed("log_bin", Global, A::All, V::Flag(true)),
    fixed("log_bin_basename", Global, A::Since(MYSQL_5_6), V::Fact(log_bin_basename)),
    fixed("log_replica_updates", Global, A::MySqlSince([8, 0, 26]), V::Flag(true)),
    fixed("log_slave_updates", Global, A::All, V::Flag(true)),
    fixed("lower_case_file_system", Global, A::All, V::Flag(false)),
    fixed("lower_case_table_names", Global, A::All, V::Number(0)),
    fixed("master_info_repository", Global, A::MySqlBefore8_3, V::Text("FILE")),
    fixed("max_allowed_packet", Both, A::All, V::Number(SqlResponder::PACKET_SIZE_MAX as u64)),
    fixed("max_binlog_size", Global, A::All, V::Number(1_073_741_824)),
    fixed("max_connections", Global, A::All, V::Fact(connections_max)),
    settable("max_execution_time", V::Number(0)),
    settable("net_buffer_length", V::Number(16384)),
    settable("net_read_timeout", V::Number(30)),
    settable("net_write_timeout", V::Number(60)),
    settable("optimizer_switch", V::Text("")),
    fixed("performance_schema", Global, A::All, V::Flag(true)),
    fixed("port", Global, A::All, V::Fact(port)),
    fixed("protocol_version", Global, A::All, V::Number(10)),
    SystemVariable {
        writing: VariableWriting::Settable,
        ..fixed("pseudo_thread_id", Session, A::All, V::Fact(connection_id))
    },
    fixed("query_cache_size", Global, A::All, V::Number(0)),
    settable("query_cache_type", V::Text("OFF")),
    fixed("read_only", Global, A::All, V::Flag(true)),
    fixed("relay_log_info_repository", Global, A::MySqlBefore8_3, V::Text("FILE")),
    fixed("report_host", Global, A::All, V::Null),
    fixed("report_port", Global, A::All, V::Fact(port)),
    // A replica reads one of the two names, depending on its version.
    fixed("rpl_semi_sync_master_enabled", Global, A::All, V::Flag(true)),
    settable_globally(SEMI_SYNC_TIMEOUT[0], V::Fact(semi_sync_timeout)),
    settable_globally(SEMI_SYNC_REPLICAS[0], V::Fact(semi_sync_replicas)),
    fixed("rpl_semi_sync_source_enabled", Global, A::All, V::Flag(true)),
    settable_globally(SEMI_SYNC_TIMEOUT[1], V::Fact(semi_sync_timeout)),
    settable_globally(SEMI_SYNC_REPLICAS[1], V::Fact(semi_sync_replicas)),
    fixed("server_id", Global, A::All, V::Fact(server_id)),
    fixed("server_uuid", Global, A::MySqlSince(MYSQL_5_6), V::Fact(server_uuid)),
    settable_since("session_track_gtids", A::MySqlSince([5, 7, 0]), V::Text("OFF")),
    settable_since("session_track_schema", A::Since([5, 7, 0]), V::Flag(true)),
    settable_since("session_track_state_change", A::Since([5, 7, 0]), V::Flag(false)),
    settable_since("session_track_system_variables", A::Since([5, 7, 0]), V::Text("")),
    settable_since(
        "show_gipk_in_create_table_and_information_schema",
        A::MySqlSince([8, 0, 30]),
        V::Flag(true),
    ),
    fixed("skip_networking", Global, A::All, V::Flag(false)),
    settable("sql_auto_is_null", V::Flag(false)),
    settable("sql_big_selects", V::Flag(true)),
    SystemVariable {
        writing: VariableWriting::Settable,
        ..fixed("sql_log_bin", Session, A::All, V::Flag(true))
    },
    settable("sql_mode", V::Text(SQL_MODE)),
    settable("sql_notes", V::Flag(true)),
    settable("sql_quote_show_create", V::Flag(true)),
    settable("sql_safe_updates", V::Flag(false)),
    settable("sql_select_limit", V::Number(u64::MAX)),
    settable("sql_warnings", V::Flag(false)),
    settable_since("super_read_only", A::MySqlSince([5, 7, 0]), V::Flag(true)),
    fixed("sync_binlog", Global, A::All, V::Number(1)),
    fixed("system_time_zone", Global, A::All, V::Text("UTC")),
    settable("time_zone", V::Text("+00:00")),
    fixed("tls_version", Global, A::Since([5, 7, 0]), V::Text("TLSv1.2,TLSv1.3")),
    settable_since("transaction_isolation", A::All, V::Text("REPEATABLE-READ")),
    settable_since("transaction_read_only", A::All, V::Flag(false)),
    settable("tx_isolation", V::Text("REPEATABLE-READ")),
    settable("tx_read_only", V::Flag(false)),
    settable("unique_checks", V::Flag(true)),
    fixed("version", Global, A::All, V::Fact(version)),
    fixed("version_comment", Global, A::All, V::Text("bintide relay")),
    fixed("version_compile_machine", Global, A::All, V::Text(std::env::consts::ARCH)),
    fixed("version_compile_os", Global, A::All, V::Text("Linux")),
    settable("wait_timeout", V::Number(WAIT_TIMEOUT_S)),
    fixed("warning_count", Session, A::All, V::Fact(warning_count)),
];

const fn fixed(
    name: &'static str,
    scope: VariableScope,
    availability: VariableAvailability,
    source: ValueSource,
) -> SystemVariable {
    SystemVariable { name, scope, writing: VariableWriting::ReadOnly, availability, source }
}

const fn settable(name: &'static str, source: ValueSource) -> SystemVariable {
    settable_since(name, A::All, source)
}

const fn settable_since(
    name: &'static str,
    availability: VariableAvailability,
    source: ValueSource,
) -> SystemVariable {
    SystemVariable { name, scope: Both, writing: VariableWriting::Settable, availability, source }
}

const fn settable_globally(name: &'static str, source: ValueSource) -> SystemVariable {
    SystemVariable { name, scope: Global, writing: VariableWriting::Settable, availability: A::All, source }
}

impl SystemVariable {
    /// Returns the variable with this name, ignoring case.
    ///
    /// # Errors
    ///
    /// Fails if the presented server version has no such variable.
    pub(crate) fn find(name: &str, version: ServerVersion) -> Result<&'static Self, ServerError> {
        let mut named = SYSTEM_VARIABLES.iter().filter(|variable| variable.name.eq_ignore_ascii_case(name));
        named.find(|variable| variable.is_available(version)).ok_or_else(|| unknown_variable(name))
    }

    /// Returns true if the presented server version has the variable.
    pub(crate) fn is_available(&self, version: ServerVersion) -> bool {
        match self.availability {
            A::All => true,
            A::Since(since) => version.is_mariadb() || version.is_mysql_since(since),
            A::MySqlSince(since) => version.is_mysql_since(since),
            A::MariaDb => version.is_mariadb(),
            A::MySqlBefore8_3 => !version.is_mariadb() && !version.is_mysql_since([8, 3, 0]),
        }
    }

    /// Returns the value in a scope.
    ///
    /// # Errors
    ///
    /// Fails if the variable has no value in this scope, or the value cannot be found.
    pub(crate) fn value(
        &self,
        scope: RequestedScope,
        context: &VariableContext<'_>,
    ) -> Result<SystemValue, ServerError> {
        match (scope, self.scope) {
            (RequestedScope::Session, Global) => return Err(wrong_scope(self.name, "GLOBAL")),
            (RequestedScope::Global, Session) => return Err(wrong_scope(self.name, "SESSION")),
            _ => {}
        }
        let global = self.default(context)?;
        match context.session.system_variables.get(self.name) {
            Some(value) if scope != RequestedScope::Global => Ok(global.with_value(value)),
            _ => Ok(global),
        }
    }

    fn default(&self, context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
        Ok(match self.source {
            V::Flag(flag) => SystemValue::Flag(flag),
            V::Number(number) => SystemValue::Number(number),
            V::Text(text) => SystemValue::Text(text.to_owned()),
            V::Null => SystemValue::Null,
            V::Fact(read) => return read(context),
        })
    }

    /// Converts a value to the variable's type.
    ///
    /// # Errors
    ///
    /// Fails if the variable cannot have this value.
    pub(crate) fn converted(
        &self,
        value: &SqlValue,
        context: &VariableContext<'_>,
    ) -> Result<SqlValue, ServerError> {
        let text = value.to_text().unwrap_or_else(|| "NULL".to_owned());
        let is_one_of = |words: [&str; 3]| words.iter().any(|word| word.eq_ignore_ascii_case(&text));
        match (self.default(context)?, value) {
            (SystemValue::Flag(_), _) if is_one_of(["ON", "TRUE", "1"]) => Ok(SqlValue::Int(1)),
            (SystemValue::Flag(_), _) if is_one_of(["OFF", "FALSE", "0"]) => Ok(SqlValue::Int(0)),
            (SystemValue::Flag(_), _) => Err(wrong_value(self.name, &text)),
            (SystemValue::Number(_), SqlValue::UInt(_)) => Ok(value.clone()),
            // A server takes the nearest value.
            (SystemValue::Number(_), SqlValue::Int(number)) => Ok(SqlValue::UInt((*number).max(0) as u64)),
            (SystemValue::Number(_), _) => Err(wrong_type(self.name)),
            (_, SqlValue::Null) if self.name == "character_set_results" => Ok(SqlValue::Null),
            (_, SqlValue::Null) => Err(wrong_value(self.name, &text)),
            _ => Ok(SqlValue::Text(text)),
        }
    }
}

impl SystemValue {
    /// Returns the session's value, converted to the type of this one.
    fn with_value(&self, value: &SqlValue) -> Self {
        match (self, value) {
            (Self::Flag(_), value) => Self::Flag(value.to_number() == Some(1.0)),
            (_, SqlValue::Null) => Self::Null,
            (_, SqlValue::UInt(number)) => Self::Number(*number),
            (_, value) => Self::Text(value.to_text().unwrap_or_default()),
        }
    }

    /// Returns the value in a `SELECT`.
    pub(crate) fn to_sql(&self) -> SqlValue {
        match self {
            Self::Flag(flag) => SqlValue::Int((*flag).into()),
            Self::Number(number) => SqlValue::UInt(*number),
            Self::Text(text) => SqlValue::Text(text.clone()),
            Self::Null => SqlValue::Null,
        }
    }

    /// Returns the value in a `SHOW`.
    pub(crate) fn to_text(&self) -> String {
        match self {
            Self::Flag(true) => "ON".to_owned(),
            Self::Flag(false) => "OFF".to_owned(),
            Self::Number(number) => number.to_string(),
            Self::Text(text) => text.clone(),
            Self::Null => String::new(),
        }
    }
}

fn version(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    Ok(SystemValue::Text(context.relay.server().version))
}

fn server_id(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    Ok(SystemValue::Number(context.relay.server().server_id.into()))
}

fn server_uuid(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    Ok(SystemValue::Text(context.relay.server().server_uuid))
}

fn port(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    Ok(SystemValue::Number(context.relay.server().port.into()))
}

fn connections_max(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    Ok(SystemValue::Number(context.relay.server().connections_max as u64))
}

/// Returns the common part of the names of the logs. Unlike a server's value, has no directory.
fn log_bin_basename(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    let names = match context.relay.source(LogForm::AsIs) {
        Some(source) => source.store().log_names().map_err(|error| internal(&error))?,
        None => Vec::new(),
    };
    let newest = names.last().map(|name| name.rsplit_once('.').map_or(&**name, |(base, _)| base));
    Ok(newest.map_or(SystemValue::Null, |base| SystemValue::Text(base.to_owned())))
}

fn connection_id(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    Ok(SystemValue::Number(context.session.connection_id.into()))
}

fn compression(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    Ok(SystemValue::Flag(context.relay.compression().is_on))
}

fn compression_level(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    Ok(SystemValue::Number(context.relay.compression().level.get().into()))
}

/// Returns the number of replicas to wait for; 0 if the relay does not wait.
fn semi_sync_replicas(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    let wait = context.relay.semi_sync_settings();
    Ok(SystemValue::Number(wait.map_or(0, |wait| wait.replicas as u64)))
}

fn semi_sync_timeout(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    let wait = context.relay.semi_sync_settings();
    let timeout_ms = wait.map_or(0, |wait| u64::try_from(wait.timeout.as_millis()).unwrap_or(u64::MAX));
    Ok(SystemValue::Number(timeout_ms))
}

fn warning_count(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    Ok(SystemValue::Number(context.session.warnings.len() as u64))
}

fn gtid_executed(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    let gtids = context.relay.gtids().map_err(|error| internal(&error))?;
    Ok(SystemValue::Text(gtids.to_server_text().to_string()))
}

fn gtid_binlog_pos(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    context.relay.mariadb_gtids().map(SystemValue::Text).map_err(|error| internal(&error))
}

fn gtid_purged(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    let gtids = context.relay.purged_gtids().map_err(|error| internal(&error))?;
    Ok(SystemValue::Text(gtids.to_server_text().to_string()))
}

/// Returns `gtid_mode`. A replica with GTIDs refuses a source without them, and the reverse. The logs show whether the
/// source uses GTIDs. Before the first transaction, the source's own `gtid_mode` shows it.
fn gtid_mode(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    let gtids = context.relay.gtids().map_err(|error| internal(&error))?;
    if !gtids.is_empty() {
        return Ok(SystemValue::Text("ON".to_owned()));
    }
    let upstream = context.relay.upstream_control().map(|upstream| upstream.status());
    match upstream {
        Some(UpstreamStatus { server_id: None, .. }) => Err(unknown_gtid_mode()),
        Some(UpstreamStatus { gtid_mode: Some(mode), .. }) => Ok(SystemValue::Text(mode)),
        _ => Ok(SystemValue::Text("OFF".to_owned())),
    }
}

fn enforce_gtid_consistency(context: &VariableContext<'_>) -> Result<SystemValue, ServerError> {
    let is_off = gtid_mode(context)? == SystemValue::Text("OFF".to_owned());
    Ok(SystemValue::Text(if is_off { "OFF" } else { "ON" }.to_owned()))
}

/// A status variable.
pub(crate) struct StatusVariable {
    pub(crate) name: &'static str,
    pub(crate) value: fn(&VariableContext<'_>) -> SystemValue,
}

/// Returns the number of replicas that acknowledge transactions.
fn acknowledging_clients(context: &VariableContext<'_>) -> SystemValue {
    let clients = context.relay.clients();
    SystemValue::Number(clients.iter().filter(|client| client.acknowledges).count() as u64)
}

/// Returns whether the relay waits for replicas and gets their acknowledgements in time.
fn semi_sync_status(context: &VariableContext<'_>) -> SystemValue {
    SystemValue::Flag(context.relay.is_semi_synchronous())
}

/// Status variables, in the order of their names.
pub(crate) const STATUS_VARIABLES: &[StatusVariable] = &[
    StatusVariable {
        name: "Bytes_sent",
        value: |context| {
            SystemValue::Number(context.relay.clients().iter().map(|client| client.bytes_sent).sum())
        },
    },
    // Programs read one of the two names, depending on the version of the server.
    StatusVariable { name: "Rpl_semi_sync_master_clients", value: acknowledging_clients },
    StatusVariable { name: "Rpl_semi_sync_master_status", value: semi_sync_status },
    StatusVariable { name: "Rpl_semi_sync_source_clients", value: acknowledging_clients },
    StatusVariable { name: "Rpl_semi_sync_source_status", value: semi_sync_status },
    StatusVariable {
        name: "Threads_connected",
        value: |context| SystemValue::Number(context.relay.clients().len() as u64),
    },
    StatusVariable {
        name: "Threads_running",
        value: |context| {
            let clients = context.relay.clients();
            SystemValue::Number(clients.iter().filter(|client| client.command != "Sleep").count() as u64)
        },
    },
    StatusVariable { name: "Uptime", value: |context| SystemValue::Number(context.relay.uptime_s()) },
];

#[cfg(test)]
mod tests {
    use super::{STATUS_VARIABLES, SYSTEM_VARIABLES};

    #[test]
    fn variables_are_in_order() {
        assert!(SYSTEM_VARIABLES.is_sorted_by_key(|variable| variable.name));
        assert!(STATUS_VARIABLES.is_sorted_by_key(|variable| variable.name));
    }
}
