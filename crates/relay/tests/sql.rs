//! Statements of replicas, connectors and people, with the answers of a relay of fixed facts.
#![allow(clippy::unwrap_used, reason = "a test whose fixed facts are wrong has failed")]

mod common;

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use binlog::ZstdLevel;
use binlog::gtid::GtidSet;
use common::{TestStore, sample};
use relay::{
    AccountRole, BinlogEvents, ClientFacts, ClientLag, CompressionCounters, CountedTransaction, FormSource,
    LogForm, NewestLogEnd, RelayError, RelayFacts, RelayedServer, SemiSyncSettings, ServedCompression,
    ServedLog, SourceChange, SqlAnswer, SqlColumnKind, SqlResponder, SqlRows, SqlSession, SqlValue,
    StageTotals, StatementInterrupt, UpstreamControl, UpstreamError, UpstreamStatus,
};
use wire::ServerError;

const UUID: &str = "00000000-0000-0000-0000-000000000001";
const NOW_US: u64 = 1_700_000_000_123_456;

struct FixedFacts {
    version: &'static str,
    /// Current time; each query for it takes `tick_us`.
    now_us: AtomicU64,
    tick_us: u64,
    killed: Mutex<Vec<String>>,
    /// Logs, if there are any to read.
    store: Option<TestStore>,
    upstream: Option<FixedUpstream>,
    compression: Mutex<ServedCompression>,
    semi_sync: Mutex<Option<SemiSyncSettings>>,
    resets: Mutex<Vec<&'static str>>,
    /// Number of questions for the end of the logs in a form.
    ends: AtomicU64,
}

/// A receiver that only records the requests.
#[derive(Default)]
struct FixedUpstream {
    is_stopped: AtomicBool,
    is_lost: bool,
    /// True if the stored logs cannot be compressed.
    is_archived: bool,
    compression: Mutex<Option<ZstdLevel>>,
    calls: Mutex<Vec<String>>,
}

impl UpstreamControl for FixedUpstream {
    fn status(&self) -> UpstreamStatus {
        let message = "no connection".to_owned();
        let error = self.is_lost.then_some(UpstreamError { code: 2003, message, time_us: NOW_US });
        UpstreamStatus {
            sources: vec!["db1:3306".to_owned(), "db2:3306".to_owned()],
            host: "db1".to_owned(),
            port: 3306,
            user: "repl".to_owned(),
            is_running: !self.is_stopped.load(Ordering::Relaxed),
            is_connected: !self.is_lost && !self.is_stopped.load(Ordering::Relaxed),
            log: "binlog.000005".to_owned(),
            position: 700,
            stored_log: "binlog.000002".to_owned(),
            stored_position: 1000,
            server_id: Some(1),
            server_uuid: Some(UUID.to_owned()),
            lag_s: Some(3),
            error,
            heartbeat_interval: Duration::from_secs(5),
            heartbeats: 2,
            last_heartbeat_us: Some(NOW_US),
            ..UpstreamStatus::default()
        }
    }

    fn received(&self) -> Vec<CompressionCounters> {
        Vec::new()
    }

    fn reset_received(&self) {}

    fn stop(&self) -> bool {
        !self.is_stopped.swap(true, Ordering::Relaxed)
    }

    fn start(&self) -> bool {
        self.is_stopped.swap(false, Ordering::Relaxed)
    }

    fn change_source(&self, change: &SourceChange) -> Result<(), ServerError> {
        let password = change.password.as_deref().unwrap_or("");
        self.calls.lock().unwrap().push(format!("change {change:?} {password}"));
        Ok(())
    }

    fn purge_before(&self, log: &str) -> Result<usize, ServerError> {
        self.calls.lock().unwrap().push(format!("purge {log}"));
        Ok(1)
    }

    fn compression(&self) -> Option<ZstdLevel> {
        *self.compression.lock().unwrap()
    }

    fn set_compression(&self, level: Option<ZstdLevel>) -> bool {
        if level.is_some() && self.is_archived {
            return false;
        }
        *self.compression.lock().unwrap() = level;
        true
    }

    fn flush_logs(&self) -> Result<(), ServerError> {
        self.calls.lock().unwrap().push("flush".to_owned());
        Ok(())
    }
}

impl RelayFacts for FixedFacts {
    fn lags(&self, clients: &[ClientFacts]) -> Vec<Option<ClientLag>> {
        let lag = ClientLag { transactions: Some(2), bytes: 500, time_us: Some(1_500_000) };
        clients.iter().map(|client| client.form.map(|_| lag)).collect()
    }

    fn server(&self) -> RelayedServer {
        RelayedServer {
            version: self.version.to_owned(),
            server_id: 7,
            server_uuid: UUID.to_owned(),
            port: 3307,
            connections_max: 100,
        }
    }

    fn logs(&self, form: LogForm, interrupt: &StatementInterrupt) -> Result<Vec<ServedLog>, RelayError> {
        if interrupt.is_requested() {
            return Err(RelayError::Interrupted);
        }
        let size = if form == LogForm::Plain { 2000 } else { 1000 };
        let log = |name: &str, is_encrypted| ServedLog {
            name: name.to_owned(),
            size,
            stored_size: 1000,
            is_encrypted,
        };
        Ok(vec![log("binlog.000001", true), log("binlog.000002", false)])
    }

    fn gtids(&self) -> Result<GtidSet, RelayError> {
        Ok(format!("{UUID}:1-9").parse().unwrap())
    }

    fn end(&self, _: LogForm, interrupt: &StatementInterrupt) -> Result<NewestLogEnd, RelayError> {
        if interrupt.is_requested() {
            return Err(RelayError::Interrupted);
        }
        self.ends.fetch_add(1, Ordering::Relaxed);
        Ok(NewestLogEnd { log: "binlog.000002".to_owned(), position: 1000, gtids: self.gtids()? })
    }

    fn clients(&self) -> Vec<ClientFacts> {
        let client = |connection_id, user: &str, command| ClientFacts {
            connection_id,
            user: user.to_owned(),
            host: format!("10.0.0.{connection_id}:4000"),
            attributes: vec![
                ("program_name".to_owned(), "mysqld".to_owned()),
                ("_client_version".to_owned(), "8.0.33".to_owned()),
            ],
            tls_version: (command != "Sleep").then_some("TLSv1.3"),
            acknowledges: command != "Sleep",
            form: (command != "Sleep").then_some(LogForm::Plain),
            server_id: (command != "Sleep").then_some(22),
            server_uuid: None,
            report_host: None,
            report_port: (command != "Sleep").then_some(3306),
            command,
            state: "",
            state_s: 5,
            position: (command != "Sleep").then(|| ("binlog.000002".to_owned(), 500)),
            bytes_sent: 1500,
            transactions_sent: 8,
            committed_us: None,
            progress: None,
        };
        vec![client(3, "repl", "Binlog Dump GTID"), client(4, "me", "Sleep")]
    }

    fn source(&self, form: LogForm) -> Option<Arc<FormSource>> {
        self.store.as_ref().map(|store| store.source(form))
    }

    fn log_time_us(&self, log: &str) -> Option<u64> {
        (log != "binlog.000004").then_some(NOW_US)
    }

    fn mariadb_gtids(&self) -> Result<String, RelayError> {
        Ok(if self.version.contains("MariaDB") { "0-1-9".to_owned() } else { String::new() })
    }

    fn semi_sync_settings(&self) -> Option<SemiSyncSettings> {
        *self.semi_sync.lock().unwrap()
    }

    fn set_semi_sync_settings(&self, wait: SemiSyncSettings) {
        *self.semi_sync.lock().unwrap() = Some(wait);
    }

    fn compression(&self) -> ServedCompression {
        *self.compression.lock().unwrap()
    }

    fn set_compression(&self, compression: ServedCompression) {
        *self.compression.lock().unwrap() = compression;
    }

    fn upstream_control(&self) -> Option<&dyn UpstreamControl> {
        self.upstream.as_ref().map(|upstream| upstream as &dyn UpstreamControl)
    }

    fn reset_compression_counters(&self) {
        self.resets.lock().unwrap().push("compression");
    }

    fn reset_stage_totals(&self) {
        self.resets.lock().unwrap().push("stages");
    }

    fn kill(&self, connection_id: u32) -> bool {
        self.killed.lock().unwrap().push(format!("{connection_id}"));
        true
    }

    fn kill_query(&self, connection_id: u32) -> bool {
        self.killed.lock().unwrap().push(format!("query {connection_id}"));
        true
    }

    fn uptime_s(&self) -> u64 {
        60
    }

    fn now_us(&self) -> u64 {
        self.now_us.fetch_add(self.tick_us, Ordering::Relaxed)
    }

    fn purged_gtids(&self) -> Result<GtidSet, RelayError> {
        Ok(format!("{UUID}:1-2").parse().unwrap())
    }

    fn compression_counters(&self) -> Vec<CompressionCounters> {
        let sizes = |number: u64| CountedTransaction {
            id: format!("{UUID}:{number}"),
            compressed_bytes: 100,
            uncompressed_bytes: 300,
            time_us: NOW_US,
        };
        vec![CompressionCounters {
            log_type: "BINARY",
            compression_type: "ZSTD",
            transactions: 7,
            compressed_bytes: 700,
            uncompressed_bytes: 2100,
            first: sizes(3),
            last: sizes(9),
        }]
    }

    fn stage_totals(&self) -> Vec<StageTotals> {
        let name = StageTotals::NAMES[1];
        vec![StageTotals { name, count: 2, sum_ps: 3_000_000, min_ps: 1_000_000, max_ps: 2_000_000 }]
    }
}

impl Default for FixedFacts {
    fn default() -> Self {
        Self {
            version: "9.7.4",
            now_us: AtomicU64::new(NOW_US),
            tick_us: 0,
            killed: Mutex::default(),
            store: None,
            upstream: None,
            semi_sync: Mutex::default(),
            compression: Mutex::new(ServedCompression::of(relay::FormChoice::Auto)),
            resets: Mutex::default(),
            ends: AtomicU64::new(0),
        }
    }
}

/// A session with a relay.
struct FixedRelay {
    facts: Arc<FixedFacts>,
    responder: SqlResponder,
    session: SqlSession,
}

impl FixedRelay {
    fn new(role: AccountRole) -> Self {
        Self::of("9.7.4", role)
    }

    fn of(version: &'static str, role: AccountRole) -> Self {
        Self::with_clock(version, role, 0)
    }

    fn with_clock(version: &'static str, role: AccountRole, tick_us: u64) -> Self {
        Self::with_facts(FixedFacts { version, tick_us, ..FixedFacts::default() }, role)
    }

    fn with_facts(facts: FixedFacts, role: AccountRole) -> Self {
        let facts = Arc::new(facts);
        let responder = SqlResponder::new(facts.clone());
        let session = SqlSession::new(4, "me@%".to_owned(), role, LogForm::AsIs);
        Self { facts, responder, session }
    }

    /// Executes a statement. Returns the answer as text: names of columns, then rows.
    fn ask(&mut self, sql: &str) -> String {
        let answer = match self.responder.execute(sql, &mut self.session) {
            SqlAnswer::Events(events) => {
                let mut rows = SqlRows { columns: BinlogEvents::columns(), rows: Vec::new() };
                let read = events.read(&mut |row| {
                    rows.rows.push(row);
                    ControlFlow::Continue(())
                });
                read.map_or_else(SqlAnswer::Refused, |()| SqlAnswer::Rows(rows))
            }
            answer => answer,
        };
        match answer {
            SqlAnswer::Events(_) => unreachable!("the events were read"),
            SqlAnswer::Done(_) => "OK".to_owned(),
            SqlAnswer::Refused(error) => format!("{} {}: {}", error.code, error.state, error.message),
            SqlAnswer::Rows(rows) => {
                let names: Vec<&str> = rows.columns.iter().map(|column| column.name.as_str()).collect();
                for row in &rows.rows {
                    assert_eq!(row.len(), names.len(), "{sql}");
                    for (value, column) in row.iter().zip(&rows.columns) {
                        let is_fitting = match column.kind {
                            SqlColumnKind::Integer => {
                                !matches!(value, SqlValue::Double(_) | SqlValue::Text(_))
                            }
                            SqlColumnKind::Double => !matches!(value, SqlValue::Text(_)),
                            SqlColumnKind::Text => true,
                        };
                        assert!(is_fitting, "{sql}: {value:?} in {column:?}");
                    }
                }
                let lines = rows.rows.iter().map(|row| row.iter().map(text).collect::<Vec<_>>().join("|"));
                let lines: Vec<String> = std::iter::once(names.join("|")).chain(lines).collect();
                lines.join("\n")
            }
        }
    }

    #[track_caller]
    fn check(&mut self, sql: &str, expected: &str) {
        assert_eq!(self.ask(sql), expected, "{sql}");
    }
}

fn text(value: &SqlValue) -> String {
    match value {
        SqlValue::Null => "NULL".to_owned(),
        SqlValue::Int(number) => number.to_string(),
        SqlValue::UInt(number) => number.to_string(),
        SqlValue::Double(number) => number.to_string(),
        SqlValue::Text(text) => text.clone(),
    }
}

fn unknown(variable: &str) -> String {
    format!("1193 HY000: Unknown system variable '{variable}'")
}

#[test]
fn queries_of_mysql_replicas() {
    let mut client = FixedRelay::new(AccountRole::Replica);
    client.check("SELECT UNIX_TIMESTAMP()", "UNIX_TIMESTAMP()\n1700000000");
    client.check("SELECT @@GLOBAL.SERVER_ID", "@@GLOBAL.SERVER_ID\n7");
    client.check("SHOW VARIABLES LIKE 'SERVER_ID'", "Variable_name|Value\nserver_id|7");
    client.check("SET @master_heartbeat_period = 30000001024, @source_heartbeat_period = 30000001024", "OK");
    assert_eq!(client.session.user_variables["source_heartbeat_period"], SqlValue::Int(30_000_001_024));
    client.check("SET @master_heartbeat_period= 1799999979520", "OK");
    client.check(
        "SET @master_binlog_checksum = @@global.binlog_checksum, @source_binlog_checksum = @@global.binlog_checksum",
        "OK",
    );
    client.check("SELECT @source_binlog_checksum", "@source_binlog_checksum\nCRC32");
    client.check("SELECT @master_binlog_checksum", "@master_binlog_checksum\nCRC32");
    client.check("SELECT @@GLOBAL.GTID_MODE", "@@GLOBAL.GTID_MODE\nON");
    client.check("SELECT @@GLOBAL.SERVER_UUID", &format!("@@GLOBAL.SERVER_UUID\n{UUID}"));
    client.check("SET @slave_uuid = 'a-b', @replica_uuid = 'a-b'", "OK");
    assert_eq!(client.session.user_variables["replica_uuid"], SqlValue::from("a-b"));
    for name in ["source", "master"] {
        let enabled = format!("@@global.rpl_semi_sync_{name}_enabled");
        client.check(&format!("SELECT {enabled}"), &format!("{enabled}\n1"));
    }
    client.check("SET @rpl_semi_sync_replica = 1, @rpl_semi_sync_slave = 1", "OK");
    client.check("SET NAMES utf8", "OK");
    // mysqlbinlog
    client.check("SELECT VERSION()", "VERSION()\n9.7.4");
    client.check("SET @master_binlog_checksum='NONE', @source_binlog_checksum='NONE'", "OK");
    assert_eq!(client.session.user_variables["master_binlog_checksum"], SqlValue::from("NONE"));
    client.check("SELECT @@GLOBAL.gtid_domain_id", &unknown("gtid_domain_id"));
}

#[test]
fn old_and_mariadb_sources() {
    let mut old = FixedRelay::of("5.5.34-log", AccountRole::Replica);
    old.check("SET @master_binlog_checksum= @@global.binlog_checksum", &unknown("binlog_checksum"));
    old.check("SELECT @@GLOBAL.GTID_MODE", &unknown("GTID_MODE"));
    old.check("SHOW MASTER LOGS", "Log_name|File_size\nbinlog.000001|1000\nbinlog.000002|1000");
    old.check("SHOW MASTER STATUS", "File|Position|Binlog_Do_DB|Binlog_Ignore_DB\nbinlog.000002|1000||");
    let mut mariadb = FixedRelay::of("11.8.6-MariaDB-log", AccountRole::Replica);
    mariadb.check("SELECT @@GLOBAL.gtid_domain_id", "@@GLOBAL.gtid_domain_id\n0");
    mariadb.check("SET @mariadb_slave_capability=4", "OK");
    mariadb.check("SET @slave_connect_state='0-1-270'", "OK");
    assert_eq!(mariadb.session.user_variables["slave_connect_state"], SqlValue::from("0-1-270"));
    mariadb.check("SELECT @@GLOBAL.SERVER_UUID", &unknown("SERVER_UUID"));
    mariadb.check("SET @master_binlog_checksum= @@global.binlog_checksum", "OK");
    mariadb.check("SHOW BINLOG STATUS", "File|Position|Binlog_Do_DB|Binlog_Ignore_DB\nbinlog.000002|1000||");
}

/// The end of a log in a form is known only after the whole log is made in it.
#[test]
fn gtids_need_no_form_of_a_log() {
    let mut client = receiving(AccountRole::Admin);
    for sql in [
        "SELECT @@GLOBAL.gtid_mode, @@enforce_gtid_consistency, @@gtid_executed",
        "SHOW REPLICA STATUS",
        "SELECT RECEIVED_TRANSACTION_SET FROM performance_schema.replication_connection_status",
    ] {
        let answer = client.ask(sql);
        assert!(answer.contains("ON|ON|") || answer.contains(&format!("{UUID}:1-9")), "{sql}: {answer}");
    }
    assert_eq!(client.facts.ends.load(Ordering::Relaxed), 0);
    client.ask("SHOW BINARY LOG STATUS");
    assert_eq!(client.facts.ends.load(Ordering::Relaxed), 1);
}

/// Statements in the documentation of MySQL and of this project.
#[test]
fn monitoring_statements() {
    let mut client = FixedRelay::new(AccountRole::Monitor);
    client.check(
        "SHOW GLOBAL VARIABLES LIKE '%binlog%compression%'",
        "Variable_name|Value\nbinlog_transaction_compression|OFF\nbinlog_transaction_compression_level_zstd|3",
    );
    client.check(
        "SELECT * FROM performance_schema.binary_log_transaction_compression_stats",
        &format!(
            "LOG_TYPE|COMPRESSION_TYPE|TRANSACTION_COUNTER|COMPRESSED_BYTES_COUNTER|UNCOMPRESSED_BYTES_COUNTER|\
             COMPRESSION_PERCENTAGE|FIRST_TRANSACTION_ID|FIRST_TRANSACTION_COMPRESSED_BYTES|\
             FIRST_TRANSACTION_UNCOMPRESSED_BYTES|FIRST_TRANSACTION_TIMESTAMP|LAST_TRANSACTION_ID|\
             LAST_TRANSACTION_COMPRESSED_BYTES|LAST_TRANSACTION_UNCOMPRESSED_BYTES|LAST_TRANSACTION_TIMESTAMP\n\
             BINARY|ZSTD|7|700|2100|67|{UUID}:3|100|300|2023-11-14 22:13:20.123456|{UUID}:9|100|300|\
             2023-11-14 22:13:20.123456"
        ),
    );
    client.check(
        "SELECT EVENT_NAME, COUNT_STAR, FORMAT_PICO_TIME(SUM_TIMER_WAIT) AS total_latency, \
         FORMAT_PICO_TIME(AVG_TIMER_WAIT) AS avg_latency \
         FROM performance_schema.events_stages_summary_global_by_event_name \
         WHERE EVENT_NAME LIKE 'stage/sql/%transaction%'",
        "EVENT_NAME|COUNT_STAR|total_latency|avg_latency\n\
         stage/sql/Compressing transaction changes.|0|  0 ps|  0 ps\n\
         stage/sql/Decompressing transaction changes.|2|3.00 us|1.50 us",
    );
    client.check(
        "select * from performance_schema.log_status",
        &format!(
            "SERVER_UUID|LOCAL|REPLICATION|STORAGE_ENGINES\n{UUID}|{{\"gtid_executed\": \"{UUID}:1-9\", \
             \"binary_log_file\": \"binlog.000002\", \"binary_log_position\": 1000}}|{{\"channels\": []}}|{{}}"
        ),
    );
    client.check(
        "select attr_name, c.`ATTR_VALUE` from performance_schema.session_connect_attrs c \
         join bintide.clients on connection_id = processlist_id where user = 'REPL' order by 1 limit 1",
        "attr_name|ATTR_VALUE\n_client_version|8.0.33",
    );
    client.check(
        "SELECT form, clients, bytes_sent FROM bintide.forms",
        "form|clients|bytes_sent\nplain|1|1500",
    );
    client.check(
        "select connection_id, lag_transactions, lag_bytes, lag_seconds from bintide.clients where form = 'plain'",
        "connection_id|lag_transactions|lag_bytes|lag_seconds\n3|2|500|1.5",
    );
    client.check(
        "select name, size/stored_size ratio, encrypted from bintide.logs where name = \"binlog.000001\"",
        "name|ratio|encrypted\nbinlog.000001|1|Yes",
    );
    client.check("select count(*) from performance_schema.replication_connection_status", "count(*)\n0");
    client.check(
        "select variable_value from performance_schema.global_variables where variable_name in ('server_id')",
        "variable_value\n7",
    );
    client.check(
        "select table_name from information_schema.tables where table_schema = 'bintide'",
        "table_name\nclients\nforms\nlog_sizes\nlogs\nupstream",
    );
}

#[test]
fn shows() {
    let mut client = FixedRelay::new(AccountRole::Monitor);
    let logs = "Log_name|File_size|Encrypted\nbinlog.000001|1000|No\nbinlog.000002|1000|No";
    client.check("SHOW BINARY LOGS", logs);
    client.check("show master logs;", logs);
    client.session.form = LogForm::Plain;
    client.check("show binary logs", &logs.replace("1000", "2000"));
    let status = format!(
        "File|Position|Binlog_Do_DB|Binlog_Ignore_DB|Executed_Gtid_Set\nbinlog.000002|1000|||{UUID}:1-9"
    );
    client.check("SHOW BINARY LOG STATUS", &status);
    client.check("SHOW MASTER STATUS", &status);
    client.check("SHOW REPLICAS", "Server_Id|Host|Port|Source_Id|Replica_UUID\n22||3306|7|");
    client.check("SHOW SLAVE HOSTS", "Server_id|Host|Port|Master_id|Slave_UUID\n22||3306|7|");
    client.check(
        "show processlist",
        "Id|User|Host|db|Command|Time|State|Info\n3|repl|10.0.0.3:4000|NULL|Binlog Dump GTID|5||NULL\n\
         4|me|10.0.0.4:4000|NULL|Query|0|init|show processlist",
    );
    client.check("SHOW WARNINGS LIMIT 1", "Level|Code|Message");
    client.check("SHOW DATABASES LIKE 'p%'", "Database (p%)\nperformance_schema");
    client.check(
        "SHOW FULL TABLES FROM performance_schema LIKE 'log_s%'",
        "Tables_in_performance_schema (log_s%)|Table_type\nlog_status|BASE TABLE",
    );
    client.check("SHOW STATUS LIKE 'uptime'", "Variable_name|Value\nUptime|60");
    client.check(
        "SHOW VARIABLES WHERE Variable_name = 'autocommit' OR Variable_name LIKE 'server\\_i_'",
        "Variable_name|Value\nautocommit|ON\nserver_id|7",
    );
    client.check("SHOW VARIABLES LIKE 'nothing'", "Variable_name|Value");
    client.check(
        "show grants for current_user()",
        "Grants for me@%\nGRANT SELECT, PROCESS, REPLICATION CLIENT ON *.* TO `me`@`%`",
    );
    client.check(
        "SHOW COLLATION WHERE Collation = 'utf8mb4_0900_ai_ci'",
        "Collation|Charset|Id|Default|Compiled|Sortlen|Pad_attribute\n\
         utf8mb4_0900_ai_ci|utf8mb4|255|Yes|Yes|0|NO PAD",
    );
}

/// The column names equal those of MySQL 9.7.4.
#[test]
fn selects_without_tables() {
    let mut client = FixedRelay::new(AccountRole::Replica);
    client.check(
        "select  @@GLOBAL.SERVER_ID , 'a' 'b', -1, 1 as 'x y', 2 z, @@autocommit, @@read_only limit 1",
        "@@GLOBAL.SERVER_ID|a|-1|x y|z|@@autocommit|@@read_only\n7|ab|-1|1|2|1|1",
    );
    client.check("SELECT @nope", "@nope\nNULL");
    client.check("select 1 + 1, 5/2, 7 DIV 2, 'a' <=> null", "1 + 1|5/2|7 DIV 2|'a' <=> null\n2|2.5|3|0");
    client.check("select 1 from dual where 2 > 1", "1\n1");
    client.check(
        "select concat(upper('a'), \"b\"), current_user",
        "concat(upper('a'), \"b\")|current_user\nAb|me@%",
    );
    client.check(
        "select connection_id(), database(), user()",
        "connection_id()|database()|user()\n4|NULL|me@%",
    );
    client.check("select @@sql_select_limit", "@@sql_select_limit\n18446744073709551615");
    client.check("/* app */ select /*!80000 1 */ -- end", "1\n1");
    client.check("select if(1 > 2, 'x', left('yes', 1))", "if(1 > 2, 'x', left('yes', 1))\ny");
    client.check("select 'a\\'b', 'c''d'", "a'b|c'd\na'b|c'd");
    client.check("select case when 1 then 'x' end, 1 is null", "case when 1 then 'x' end|1 is null\nx|0");
    client.check("select 0x41 x union select 'b'", "x\nA\nb");
    client.check(&format!("select gtid_subtract('{UUID}:1-5', '{UUID}:2') g"), &format!("g\n{UUID}:1:3-5"));
    client.check(
        "SELECT @@session.auto_increment_increment AS auto_increment_increment, @@max_allowed_packet AS m",
        "auto_increment_increment|m\n1|4194304",
    );
}

/// Every function and operator returns what a real server returns, with and without the engine.
#[test]
fn values_equal_mysqls() {
    let mut client = FixedRelay::new(AccountRole::Admin);
    let mut differences = Vec::new();
    for line in include_str!("mysql_values.txt").lines().filter(|line| !line.starts_with('#')) {
        let (expression, expected) = line.split_once(" => ").unwrap();
        let expected = &expected[1..expected.len() - 1];
        for statement in
            [format!("SELECT {expression} AS x"), format!("SELECT {expression} AS x FROM (SELECT 1 AS y) t")]
        {
            let answer = client.ask(&statement);
            let found = answer.strip_prefix("x\n").unwrap_or(&answer);
            let [found_number, expected_number] = [found, expected].map(|text| text.parse::<f64>().ok());
            if found != expected && (found_number.is_none() || found_number != expected_number) {
                differences.push(format!("{statement}: {found}, should be {expected}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// A relay refuses what it cannot answer as MySQL does.
#[test]
fn functions_of_the_engine_are_refused() {
    let mut client = FixedRelay::new(AccountRole::Admin);
    for call in [
        "SQLITE_VERSION()",
        "TYPEOF(1)",
        "RANDOM()",
        "DATETIME('now')",
        "UNIXEPOCH()",
        "PRINTF('%d', 1)",
        "IIF(1, 2, 3)",
        "QUOTE('x')",
        "GLOB('a', 'b')",
        "TOTAL(1)",
        "JSON_EXTRACT('{}', '$')",
        "`cast signed`(1)",
        "BIT_COUNT(7)",
        "nope(1)",
    ] {
        for from in ["", " FROM bintide.logs"] {
            let answer = client.ask(&format!("SELECT {call}{from}"));
            assert!(answer.starts_with("1305 42000: FUNCTION "), "{call}: {answer}");
        }
    }
    for expression in [
        "~0",
        "1 ^ 1",
        "1 XOR 1",
        "NOW() + 0",
        "CURRENT_DATE + 1",
        "1 + CURDATE()",
        "7.5 DIV 2",
        "7.5 % 2",
        "'a' = 'A' COLLATE utf8mb4_bin",
        "BINARY 'a' = 'A'",
        "CAST('10:00:00' AS TIME)",
        "CAST(-1 AS UNSIGNED)",
        "GROUP_CONCAT(1, 2)",
        "COUNT(DISTINCT 1, 2)",
        "DATE_FORMAT('2026-01-02', '%U')",
        "NOW() + INTERVAL '1:1' DAY_MINUTE",
        "NOW() - INTERVAL 1 DAY - INTERVAL 1 DAY",
    ] {
        let answer = client.ask(&format!("SELECT {expression}"));
        assert!(answer.starts_with("1235 42000: bintide relay does not support "), "{expression}: {answer}");
    }
    for expression in ["1 GLOB 1", "1 == 1", "MIN(1, 2)", "MAX(1, 2)", "TRIM('x', 'y')"] {
        let answer = client.ask(&format!("SELECT {expression}"));
        assert!(answer.starts_with("1064 ") || answer.starts_with("1582 "), "{expression}: {answer}");
    }
    client.check("SELECT 'a' REGEXP '['", "3685 HY000: Illegal argument to a regular expression.");
}

/// The statements of `client_statements.txt`: each is answered, or refused with the error there.
#[test]
fn statements_of_programs() {
    let mut client = receiving(AccountRole::Monitor);
    let lines = include_str!("client_statements.txt").lines();
    for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let refused = line.strip_prefix("refused ").and_then(|rest| rest.split_once(": "));
        let (code, statement) = refused.map_or((None, line), |(code, statement)| (Some(code), statement));
        let answer = client.ask(statement);
        let is_refused = |answer: &str| {
            let head = answer.split(": ").next().unwrap_or_default();
            head.len() == 10 && head.as_bytes()[4] == b' ' && head[..4].parse::<u16>().is_ok()
        };
        match code {
            Some(code) => assert!(answer.starts_with(code), "{statement}: {answer}"),
            None => assert!(!is_refused(&answer), "{statement}: {answer}"),
        }
    }
    client.check(
        "select substring_index(host, ':', 1) as h from information_schema.processlist \
         where command in ('Binlog Dump', 'binlog dump gtid')",
        "h\n10.0.0.3",
    );
    let union = "select id from information_schema.processlist where id = 4 union all select 'b'";
    client.check(union, "id\n4\nb");
    client.check(
        "select @@port, @@max_connections, @@report_host, @@log_bin_basename",
        "@@port|@@max_connections|@@report_host|@@log_bin_basename\n3307|100|NULL|binlog",
    );
    client.check(
        "show global status like 'rpl_semi_sync_source_%'",
        "Variable_name|Value\nRpl_semi_sync_source_clients|1\nRpl_semi_sync_source_status|OFF",
    );
    client.check(
        "select host, port, user, source_connection_auto_failover f \
         from performance_schema.replication_connection_configuration",
        "host|port|user|f\ndb1|3306|repl|1",
    );
    client.check("show count(*) warnings", "@@session.warning_count\n0");
    client.check("select nope", "1054 42S22: Unknown column 'nope' in 'field list'");
    client.check("show count(*) errors", "@@session.error_count\n1");
    client.check("select tls_version from bintide.clients where connection_id = 3", "tls_version\nTLSv1.3");
    client.check("do sleep(1)", "1305 42000: FUNCTION sleep does not exist");
    client.check("do", "1064 42000: You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for the right syntax to use near '' at line 1");
}

#[test]
fn assignments() {
    let mut client = FixedRelay::new(AccountRole::Replica);
    client.check("SET autocommit=0, SESSION sql_mode = 'ANSI_QUOTES', @@session.time_zone := '+01:00'", "OK");
    client.check(
        "SELECT @@autocommit, @@global.autocommit, @@time_zone",
        "@@autocommit|@@global.autocommit|@@time_zone\n0|1|+01:00",
    );
    client.check("SHOW VARIABLES LIKE 'autocommit'", "Variable_name|Value\nautocommit|OFF");
    client.check("select 1 \"x\"", "x\n1");
    client.check("SET sql_mode = DEFAULT, autocommit = ON", "OK");
    client.check("SET sql_mode = CONCAT(@@sql_mode, ',ANSI')", "OK");
    assert!(client.ask("select @@sql_mode").ends_with(",ANSI"));
    client.check("set @a = 1 + 2, @B := upper('x')", "OK");
    client.check("select @a, @b", "@a|@b\n3|X");
    client.check("SET NAMES latin1 COLLATE latin1_bin", "OK");
    client.check(
        "select @@character_set_client, @@collation_connection",
        "@@character_set_client|@@collation_connection\nlatin1|latin1_bin",
    );
    client.check("SET character_set_results = NULL", "OK");
    client.check("select @@character_set_results", "@@character_set_results\nNULL");
    client.check("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED", "OK");
    // No assignment has an effect if one fails.
    client.check("set @a = 9, nope = 1", &unknown("nope"));
    client.check("select @a", "@a\n3");
    client.check("BEGIN", "OK");
    client.check(
        "SET SESSION binlog_transaction_compression = ON",
        "1766 HY000: The system variable binlog_transaction_compression cannot be set when there is an ongoing \
         transaction.",
    );
    client.check("COMMIT", "OK");
    client.check("SET SESSION binlog_transaction_compression = ON", "OK");
    client.check("SET GLOBAL read_only = 1", "1227 42000: Access denied; you need (at least one of) the SUPER or SYSTEM_VARIABLES_ADMIN privilege(s) for this operation");
    let mut admin = FixedRelay::new(AccountRole::Admin);
    admin.check("SET GLOBAL read_only = 1", "OK");
    admin.check("SET GLOBAL autocommit = 0", "1235 42000: bintide relay does not support a new global value of autocommit: it serves binary logs only");
}

/// Error numbers, states and messages equal those of MySQL 9.7.4, except for unsupported statements.
#[test]
fn refusals() {
    let mut client = FixedRelay::new(AccountRole::Admin);
    let syntax = |near: &str| {
        format!(
            "1064 42000: You have an error in your SQL syntax; check the manual that corresponds to your MySQL server \
             version for the right syntax to use near '{near}' at line 1"
        )
    };
    client.check("foo bar", &syntax("foo bar"));
    client.check("show nope", &syntax("nope"));
    client.check("set @a=", &syntax(""));
    client.check("show variables like", &syntax(""));
    client.check("select 1; select 2", &syntax("select 2"));
    client.check("", "1065 42000: Query was empty");
    client.check("select @@session.server_id", "1238 HY000: Variable 'server_id' is a GLOBAL variable");
    client.check(
        "select @@global.pseudo_thread_id",
        "1238 HY000: Variable 'pseudo_thread_id' is a SESSION variable",
    );
    client.check("select nope", "1054 42S22: Unknown column 'nope' in 'field list'");
    client.check("select * from t", "1046 3D000: No database selected");
    client.check("select * from nope.t", "1049 42000: Unknown database 'nope'");
    client.check(
        "select * from performance_schema.nope",
        "1146 42S02: Table 'performance_schema.nope' doesn't exist",
    );
    client.check("kill 99999", "1094 HY000: Unknown thread id: 99999");
    client.check("set global server_uuid='x'", "1238 HY000: Variable 'server_uuid' is a read only variable");
    client.check(
        "set server_id=5",
        "1229 HY000: Variable 'server_id' is a GLOBAL variable and should be set with SET GLOBAL",
    );
    client.check(
        "set global pseudo_thread_id=1",
        "1228 HY000: Variable 'pseudo_thread_id' is a SESSION variable and can't be used with SET GLOBAL",
    );
    client.check("set autocommit='x'", "1231 42000: Variable 'autocommit' can't be set to the value of 'x'");
    client.check("set names nope", "1115 42000: Unknown character set: 'nope'");
    client.check("use nope", "1049 42000: Unknown database 'nope'");
    client.check(
        "select upper()",
        "1582 42000: Incorrect parameter count in the call to native function 'upper'",
    );
    client.check(
        "select upper() from bintide.logs",
        "1582 42000: Incorrect parameter count in the call to native function 'upper'",
    );
    client.check("select @@server_id.x", &unknown("server_id.x"));
    client.check(
        "select server_uuid from performance_schema.log_status a, performance_schema.log_status b",
        "1052 23000: Column 'server_uuid' in field list is ambiguous",
    );
    client.check(
        "insert into t values (1)",
        "1235 42000: bintide relay does not support INSERT: it serves binary logs only",
    );
    client.check(
        "SHOW RELAYLOG EVENTS",
        "1235 42000: bintide relay does not support SHOW RELAYLOG: it serves binary logs only",
    );
}

/// Returns a relay that receives: four logs, of which a client reads the second.
fn receiving(role: AccountRole) -> FixedRelay {
    let log = sample("rotation/binlog.000005");
    let store = TestStore::new(&[&log[..]; 4]);
    let facts =
        FixedFacts { store: Some(store), upstream: Some(FixedUpstream::default()), ..FixedFacts::default() };
    FixedRelay::with_facts(facts, role)
}

impl FixedRelay {
    /// Returns the receiver's calls since the last time.
    fn calls(&self) -> Vec<String> {
        std::mem::take(&mut *self.facts.upstream.as_ref().unwrap().calls.lock().unwrap())
    }
}

#[test]
fn logs_that_a_client_reads_are_not_purged() {
    let mut client = receiving(AccountRole::Admin);
    client.check("PURGE BINARY LOGS TO 'binlog.000002'", "OK");
    client.check("SHOW WARNINGS", "Level|Code|Message");
    assert_eq!(client.calls(), ["purge binlog.000002"]);
    client.check("PURGE MASTER LOGS TO 'binlog.000004'", "OK");
    assert_eq!(client.calls(), ["purge binlog.000002"]);
    let warnings = "Level|Code|Message\n\
                    Warning|1867|file binlog.000002 was not purged because it was being read by 1 thread(s), purged only \
                    1 out of 3 files.\n\
                    Note|1105|connection 3 (repl@10.0.0.3:4000) reads binlog.000002";
    client.check("SHOW WARNINGS", warnings);
    client.check("SELECT @@warning_count", "@@warning_count\n2");
    client.check("PURGE BINARY LOGS TO 'binlog.000001'", "OK");
    client.check("PURGE BINARY LOGS TO 'binlog.000009'", "1373 HY000: Target log not found in binlog index");
    client.check("SHOW ERRORS", "Level|Code|Message\nError|1373|Target log not found in binlog index");
    // The times of the logs are NOW_US, 2023-11-14 22:13:20, except for the last one.
    client.check("PURGE BINARY LOGS BEFORE '2023-11-14 22:13:20'", "OK");
    assert!(client.calls().is_empty());
    client.check("PURGE BINARY LOGS BEFORE '2023-11-14 22:13:21'", "OK");
    assert_eq!(client.calls(), ["purge binlog.000002"]);
    client.check("PURGE BINARY LOGS BEFORE NOW() - INTERVAL 1 SECOND", "OK");
    assert!(client.calls().is_empty());
    client.check("PURGE BINARY LOGS BEFORE '2023-11-21 22:13:21' - INTERVAL 1 WEEK", "OK");
    assert_eq!(client.calls(), ["purge binlog.000002"]);
    for (time, is_purged) in [
        ("'2023-12-14 22:13:20' - INTERVAL 1 MONTH", false),
        ("'2023-12-14 22:13:21' - INTERVAL 1 MONTH", true),
        ("'2024-05-14 22:13:20' - INTERVAL 2 QUARTER", false),
        ("'2024-05-14 22:13:21' - INTERVAL '2' QUARTER", true),
        ("'2025-11-14 22:13:20' - INTERVAL 2 YEAR", false),
        ("'2025-11-14 22:13:21' - INTERVAL 2 YEAR", true),
    ] {
        client.check(&format!("PURGE BINARY LOGS BEFORE {time}"), "OK");
        assert_eq!(!client.calls().is_empty(), is_purged, "{time}");
    }
    client.check("SET bintide_purge_force = ON", "OK");
    client.check("PURGE BINARY LOGS TO 'binlog.000004'", "OK");
    assert_eq!(client.calls(), ["purge binlog.000004"]);
    let note = "Level|Code|Message\nNote|1105|connection 3 (repl@10.0.0.3:4000) reads binlog.000002";
    client.check("SHOW WARNINGS", note);
    client.check("PURGE BINARY LOGS BEFORE '2023-12-14 22:13:21'", "OK");
    assert_eq!(client.calls(), ["purge binlog.000004"]);
    client.check("SET SESSION bintide_purge_force = DEFAULT", "OK");
    client.check("PURGE BINARY LOGS TO 'binlog.000004'", "OK");
    assert_eq!(client.calls(), ["purge binlog.000002"]);
    for wrong in ["yesterday", "3000000", "now", "22:13:21", "2023-11", "2023-13-14", "2023-12-14 22:13:21."]
    {
        let refused = format!("1525 HY000: Incorrect DATETIME value: '{wrong}'");
        client.check(&format!("PURGE BINARY LOGS BEFORE '{wrong}'"), &refused);
    }
    client.check("PURGE BINARY LOGS BEFORE 3000000", "1525 HY000: Incorrect DATETIME value: '3000000'");
    assert!(client.calls().is_empty());
    for right in ["2023-12-14", "2023-12-14 22:13", "2023-12-14 22:13:21.5"] {
        client.check(&format!("PURGE BINARY LOGS BEFORE '{right}'"), "OK");
        assert_eq!(client.calls(), ["purge binlog.000002"], "{right}");
    }
    let mut monitor = receiving(AccountRole::Monitor);
    let denied =
        "1227 42000: Access denied; you need (at least one of) the SUPER privilege(s) for this operation";
    monitor.check("PURGE BINARY LOGS TO 'binlog.000002'", denied);
    let mut other = FixedRelay::new(AccountRole::Admin);
    other.check(
        "PURGE BINARY LOGS TO 'binlog.000002'",
        "1235 42000: bintide relay does not support PURGE BINARY LOGS without --from: another program writes these logs. \
         Purge them there",
    );
}

/// Returns names and values of the only row of `SHOW REPLICA STATUS` or `SHOW SLAVE STATUS`.
fn replica_status(client: &mut FixedRelay, word: &str) -> Vec<(String, String)> {
    let shown = client.ask(&format!("SHOW {word} STATUS FOR CHANNEL ''"));
    let (names, values) = shown.split_once('\n').unwrap();
    let pairs = names.split('|').zip(values.split('|'));
    pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
}

fn check_status(client: &mut FixedRelay, word: &str, expected: &[(&str, &str)]) {
    let shown = replica_status(client, word);
    for (name, value) in expected {
        let pair = ((*name).to_owned(), (*value).to_owned());
        assert!(shown.contains(&pair), "{name}: {shown:?}");
    }
}

#[test]
fn the_upstream_is_shown() {
    let mut client = receiving(AccountRole::Admin);
    let connected = [
        ("Replica_IO_State", "Waiting for source to send event"),
        ("Source_Host", "db1"),
        ("Source_Log_File", "binlog.000005"),
        ("Read_Source_Log_Pos", "700"),
        ("Replica_IO_Running", "Yes"),
        ("Seconds_Behind_Source", "3"),
        ("Source_Server_Id", "1"),
        ("Last_IO_Errno", "0"),
    ];
    check_status(&mut client, "REPLICA", &connected);
    client.check(
        "SELECT replication FROM performance_schema.log_status",
        "replication\n{\"channels\": [{\"channel_name\": \"\", \"relay_log_file\": \"binlog.000002\", \
         \"relay_log_position\": 1000}]}",
    );
    client.check("STOP SLAVE", "OK");
    let stopped = [("Slave_IO_Running", "No"), ("Master_Host", "db1"), ("Slave_SQL_Running", "No")];
    check_status(&mut client, "SLAVE", &stopped);
    client.check(
        "SELECT SOURCE_UUID, SERVICE_STATE, COUNT_RECEIVED_HEARTBEATS, LAST_HEARTBEAT_TIMESTAMP \
         FROM performance_schema.replication_connection_status",
        &format!(
            "SOURCE_UUID|SERVICE_STATE|COUNT_RECEIVED_HEARTBEATS|LAST_HEARTBEAT_TIMESTAMP\n\
             {UUID}|OFF|2|2023-11-14 22:13:20.123456"
        ),
    );
    let upstream = FixedUpstream { is_lost: true, ..FixedUpstream::default() };
    let facts = FixedFacts { upstream: Some(upstream), ..FixedFacts::default() };
    let mut lost = FixedRelay::with_facts(facts, AccountRole::Monitor);
    let failed = [
        ("Replica_IO_Running", "Connecting"),
        ("Last_IO_Errno", "2003"),
        ("Last_IO_Error", "no connection"),
        ("Last_IO_Error_Timestamp", "231114 22:13:20"),
    ];
    check_status(&mut lost, "REPLICA", &failed);
    lost.check(
        "select sources, connected, lag_seconds, error from bintide.upstream",
        "sources|connected|lag_seconds|error\ndb1:3306, db2:3306|No|3|no connection",
    );
    let mut other = FixedRelay::new(AccountRole::Admin);
    assert_eq!(other.ask("SHOW REPLICA STATUS").lines().count(), 1);
}

/// The columns are those that MariaDB 10.11 shows.
#[test]
fn the_upstream_of_mariadb_is_shown() {
    let facts = FixedFacts {
        version: "10.11.6-MariaDB",
        upstream: Some(FixedUpstream::default()),
        ..FixedFacts::default()
    };
    let mut client = FixedRelay::with_facts(facts, AccountRole::Admin);
    let own = [
        ("Slave_IO_Running", "Yes"),
        ("Using_Gtid", "No"),
        ("Gtid_IO_Pos", "0-1-9"),
        ("Parallel_Mode", "none"),
        ("Slave_DDL_Groups", "0"),
        ("Replicate_Rewrite_DB", ""),
    ];
    check_status(&mut client, "SLAVE", &own);
    check_status(&mut client, "REPLICA", &own);
    let shown = client.ask("SHOW ALL SLAVES STATUS");
    assert!(shown.starts_with("Connection_name|Slave_SQL_State|Slave_IO_State|Master_Host|"), "{shown}");
    assert!(shown.ends_with("|0|1073741824|0|2|5|0-1-9"), "{shown}");
    client.check("SELECT @@gtid_binlog_pos", "@@gtid_binlog_pos\n0-1-9");
    assert!(receiving(AccountRole::Admin).ask("SHOW ALL SLAVES STATUS").starts_with("1064 "));
}

#[test]
fn the_upstream_is_controlled() {
    let mut client = receiving(AccountRole::Admin);
    client.check("STOP SLAVE", "OK");
    client.check("SHOW WARNINGS", "Level|Code|Message");
    client.check("STOP REPLICA IO_THREAD FOR CHANNEL ''", "OK");
    let note = "Level|Code|Message\nNote|3084|Replication thread(s) for channel '' are already stopped.";
    client.check("SHOW WARNINGS", note);
    client.check("START REPLICA", "OK");
    client.check("FLUSH LOCAL BINARY LOGS", "OK");
    assert_eq!(client.calls(), ["flush"]);
    client.check("STOP REPLICA FOR CHANNEL 'x'", "3074 HY000: Replica channel 'x' does not exist.");
    client.check(
        "STOP REPLICA SQL_THREAD",
        "1235 42000: bintide relay does not support a SQL_THREAD: it serves binary logs only",
    );
    let mut other = FixedRelay::new(AccountRole::Admin);
    let refused = "1200 HY000: The server is not configured as replica; fix in config file or with CHANGE REPLICATION \
                   SOURCE TO";
    other.check("START REPLICA", refused);
    other.check("STOP REPLICA", "OK");
    other.check("SHOW WARNINGS", note);
}

/// The errors are those of a server.
#[test]
fn wrong_changes_of_the_upstream_are_refused() {
    let mut client = receiving(AccountRole::Admin);
    client.check("STOP REPLICA", "OK");
    let change = "CHANGE REPLICATION SOURCE TO";
    let syntax = |near: &str| {
        format!(
            "1064 42000: You have an error in your SQL syntax; check the manual that corresponds to your MySQL server \
             version for the right syntax to use near '{near}' at line 1"
        )
    };
    for (options, near) in [
        ("", ""),
        ("odd=1", "odd=1"),
        ("source_host=1", "1"),
        ("source_host=x", "x"),
        ("source_port='x'", "'x'"),
        ("source_port=-1", "-1"),
        ("source_ssl=on", "on"),
        ("source_host='db2',", ""),
        ("source_ssl=1 source_host='x'", "source_host='x'"),
    ] {
        client.check(format!("{change} {options}").trim_end(), &syntax(near));
    }
    client.check(&format!("{change} source_host=''"), "1210 HY000: Incorrect arguments to SOURCE_HOST");
    client.check(&format!("{change} source_port=70000"), "1210 HY000: Incorrect arguments to SOURCE_PORT");
    client.check(
        &format!("{change} source_password='{}'", "p".repeat(33)),
        "3056 HY000: The password provided for the replication user exceeds the maximum length of 32 characters",
    );
    client.check(
        &format!("{change} source_delay=5"),
        "1235 42000: bintide relay does not support SOURCE_DELAY in CHANGE REPLICATION SOURCE TO",
    );
    client.check(
        &format!("{change} source_host='x' for channel 'x'"),
        "3074 HY000: Replica channel 'x' does not exist.",
    );
    assert!(client.calls().is_empty());
}

#[test]
fn the_upstream_is_changed() {
    let mut client = receiving(AccountRole::Admin);
    let change = "CHANGE REPLICATION SOURCE TO";
    client.check(
        &format!("{change} SOURCE_HOST = 'db2'"),
        "3021 HY000: This operation cannot be performed with a running replica io thread; run STOP REPLICA IO_THREAD FOR \
         CHANNEL '' first.",
    );
    client.check("STOP REPLICA", "OK");
    client.check(
        &format!("{change} source_host='db2', source_port=3307, SOURCE_USER='r', SOURCE_PASSWORD='secret', \
                  SOURCE_AUTO_POSITION=1, SOURCE_SSL=1, SOURCE_SSL_CA='ca.pem', GET_SOURCE_PUBLIC_KEY=1 FOR CHANNEL ''"),
        "OK",
    );
    let note =
        "Note|1105|The relay uses this source until it stops. To keep it after a restart, also change --from";
    client.check("SHOW WARNINGS", &format!("Level|Code|Message\n{note}"));
    let option = "SourceOption { sql_name: \"SOURCE_SSL_CA\", name: \"ssl-ca\", value: \"ca.pem\" }";
    let shown = format!("(Some(\"db2\"), Some(3307), Some(\"r\"), Some(true), None, [{option}])");
    assert_eq!(client.calls(), [format!("change SourceChange({shown}) secret")]);
    client.check("CHANGE MASTER TO MASTER_HOST='db3', MASTER_SSL_VERIFY_SERVER_CERT=0", "OK");
    assert_eq!(client.calls().len(), 1);
    let mut monitor = receiving(AccountRole::Monitor);
    assert!(monitor.ask(&format!("{change} source_host='x'")).starts_with("1227 "));
    let mut other = FixedRelay::new(AccountRole::Admin);
    other.check(
        &format!("{change} source_host='x'"),
        "1235 42000: bintide relay does not support CHANGE REPLICATION SOURCE TO without --from: another program writes \
         these logs",
    );
    let facts = FixedFacts {
        version: "10.11.6-MariaDB",
        upstream: Some(FixedUpstream { is_stopped: true.into(), ..FixedUpstream::default() }),
        ..FixedFacts::default()
    };
    let mut mariadb = FixedRelay::with_facts(facts, AccountRole::Admin);
    mariadb.check("CHANGE MASTER TO MASTER_PASSWORD='x'", "OK");
    assert!(mariadb.ask("CHANGE MASTER TO MASTER_HOST='x'").starts_with("1235 "));
}

#[test]
fn truncate_resets_statistics() {
    let mut client = FixedRelay::new(AccountRole::Admin);
    client.check("TRUNCATE TABLE performance_schema.binary_log_transaction_compression_stats", "OK");
    client.check("TRUNCATE performance_schema.events_stages_summary_global_by_event_name", "OK");
    client.check("USE performance_schema", "OK");
    client.check("truncate table BINARY_LOG_TRANSACTION_COMPRESSION_STATS", "OK");
    client.check("truncate binary_log_transaction_compression_stats", "OK");
    assert_eq!(*client.facts.resets.lock().unwrap(), ["compression", "stages", "compression", "compression"]);
    let denied =
        |table: &str| format!("1142 42000: DROP command denied to user 'me'@'%' for table '{table}'");
    client.check("truncate log_status", &denied("log_status"));
    let mut monitor = FixedRelay::new(AccountRole::Monitor);
    monitor.check(
        "TRUNCATE performance_schema.binary_log_transaction_compression_stats",
        &denied("binary_log_transaction_compression_stats"),
    );
}

/// The values and warnings are those of a server, but for the defaults.
#[test]
fn waits_for_replicas_are_set() {
    let mut client = FixedRelay::new(AccountRole::Admin);
    client.check("SELECT @@rpl_semi_sync_source_timeout", "@@rpl_semi_sync_source_timeout\n0");
    client.check(
        "SET GLOBAL rpl_semi_sync_source_timeout = 5",
        "1235 42000: bintide relay does not support SET GLOBAL rpl_semi_sync_source_timeout without --wait-for-replicas",
    );
    let timeout = std::time::Duration::from_secs(5);
    *client.facts.semi_sync.lock().unwrap() = Some(SemiSyncSettings { replicas: 2, timeout });
    let shown = |replicas: u32, timeout: u32| {
        format!(
            "Variable_name|Value\nrpl_semi_sync_master_enabled|ON\nrpl_semi_sync_master_timeout|{timeout}\n\
             rpl_semi_sync_master_wait_for_slave_count|{replicas}\nrpl_semi_sync_source_enabled|ON\n\
             rpl_semi_sync_source_timeout|{timeout}\nrpl_semi_sync_source_wait_for_replica_count|{replicas}"
        )
    };
    let show = "SHOW GLOBAL VARIABLES LIKE 'rpl_semi_sync%'";
    client.check(show, &shown(2, 5000));
    let replicas = "rpl_semi_sync_source_wait_for_replica_count";
    client.check(&format!("SET GLOBAL {replicas} = 3, GLOBAL rpl_semi_sync_master_timeout = 100"), "OK");
    client.check(show, &shown(3, 100));
    let truncated = |value: &str| {
        format!("Level|Code|Message\nWarning|1292|Truncated incorrect {replicas} value: '{value}'")
    };
    for (value, taken) in [("0", 1), ("70000", 65535)] {
        client.check(&format!("SET GLOBAL {replicas} = {value}"), "OK");
        client.check("SHOW WARNINGS", &truncated(value));
        client.check(show, &shown(taken, 100));
    }
    client.check(
        &format!("SET GLOBAL {replicas} = DEFAULT, @@global.rpl_semi_sync_source_timeout = DEFAULT"),
        "OK",
    );
    client.check(show, &shown(1, 5000));
    client.check(
        "SET rpl_semi_sync_source_timeout = 5",
        "1229 HY000: Variable 'rpl_semi_sync_source_timeout' is a GLOBAL variable and should be set with SET GLOBAL",
    );
    client.check(
        "SELECT @@session.rpl_semi_sync_source_timeout",
        "1238 HY000: Variable 'rpl_semi_sync_source_timeout' is a GLOBAL variable",
    );
    client.check(
        "SET GLOBAL rpl_semi_sync_source_timeout = 'x'",
        "1232 42000: Incorrect argument type to variable 'rpl_semi_sync_source_timeout'",
    );
    let mut monitor = FixedRelay::new(AccountRole::Monitor);
    assert!(monitor.ask("SET GLOBAL rpl_semi_sync_source_timeout = 5").starts_with("1227 "));
}

#[test]
fn compression_is_set_for_all_clients() {
    let mut client = FixedRelay::new(AccountRole::Admin);
    let show = "SHOW GLOBAL VARIABLES LIKE '%binlog%compression%'";
    let shown = |is_on: &str, level: &str| {
        format!(
            "Variable_name|Value\nbinlog_transaction_compression|{is_on}\n\
             binlog_transaction_compression_level_zstd|{level}"
        )
    };
    client.check("SET GLOBAL binlog_transaction_compression = ON, @@GLOBAL.binlog_transaction_compression_level_zstd = 9", "OK");
    client.check(show, &shown("ON", "9"));
    // If one assignment fails, none has an effect.
    let wrong = "1231 42000: Variable 'binlog_transaction_compression' can't be set to the value of 'maybe'";
    client.check("SET GLOBAL binlog_transaction_compression_level_zstd = 3, GLOBAL binlog_transaction_compression = maybe", wrong);
    client.check(show, &shown("ON", "9"));
    client.check("SET GLOBAL binlog_transaction_compression_level_zstd = 30", "OK");
    client.check(
        "SHOW WARNINGS",
        "Level|Code|Message\n\
         Warning|1292|Truncated incorrect binlog_transaction_compression_level_zstd value: '30'",
    );
    client.check(show, &shown("ON", "22"));
    client.check("SET GLOBAL binlog_transaction_compression = DEFAULT", "OK");
    client.check("SET GLOBAL binlog_transaction_compression_level_zstd = DEFAULT", "OK");
    let quoted =
        "1231 42000: Variable 'binlog_transaction_compression' can't be set to the value of 'DEFAULT'";
    client.check("SET GLOBAL binlog_transaction_compression = 'DEFAULT'", quoted);
    client.check(show, &shown("OFF", "3"));
    client.check("BEGIN", "OK");
    client.check(
        "SET SESSION binlog_transaction_compression = ON",
        "1766 HY000: The system variable binlog_transaction_compression cannot be set when there is an ongoing \
         transaction.",
    );
    let mut monitor = FixedRelay::new(AccountRole::Monitor);
    assert!(monitor.ask("SET GLOBAL binlog_transaction_compression = ON").starts_with("1227 42000:"));
}

/// A relay that receives also compresses stored logs. `--compress` decides until the first change.
#[test]
fn compression_is_set_for_stored_logs() {
    let level = |number| ZstdLevel::new(number);
    let check = |before, archived, sql: &str, expected: Option<ZstdLevel>, note: &str| {
        let upstream = FixedUpstream {
            is_archived: archived,
            compression: Mutex::new(before),
            ..FixedUpstream::default()
        };
        let facts = FixedFacts { upstream: Some(upstream), ..FixedFacts::default() };
        let mut client = FixedRelay::with_facts(facts, AccountRole::Admin);
        client.check(sql, "OK");
        let warnings = client.ask("SHOW WARNINGS");
        assert_eq!(warnings.contains("Note|1105|"), !note.is_empty(), "{sql}: {warnings}");
        assert!(warnings.contains(note), "{sql}: {warnings}");
        assert_eq!(client.facts.upstream.as_ref().unwrap().compression(), expected, "{sql}");
    };
    let (on, off) =
        ("SET GLOBAL binlog_transaction_compression = ON", "SET GLOBAL binlog_transaction_compression = OFF");
    let level_9 = "GLOBAL binlog_transaction_compression_level_zstd = 9";
    check(None, false, on, level(3), "closed from now on");
    check(None, false, &format!("{on}, {level_9}"), level(9), "closed from now on");
    check(None, false, &format!("SET {level_9}"), None, "");
    check(level(19), false, &format!("SET {level_9}"), level(9), "");
    check(level(19), false, off, None, "");
    check(None, true, on, None, "leaves the stored logs as they are");
    check(None, true, off, None, "");
}

#[test]
fn events_are_listed_in_parts() {
    let mut client = receiving(AccountRole::Replica);
    let all = client.ask("SHOW BINLOG EVENTS IN 'binlog.000002'");
    let lines: Vec<&str> = all.lines().collect();
    assert!(lines.len() > 4 && lines[1].starts_with("binlog.000002|4|Format_desc|"), "{all}");
    let position = lines[3].split('|').nth(1).unwrap();
    let part = client.ask(&format!("show binlog events in 'binlog.000002' from {position} limit 1, 1"));
    assert_eq!(part.lines().collect::<Vec<_>>(), [lines[0], lines[4]]);
    assert_eq!(client.ask("SHOW BINLOG EVENTS").lines().count(), lines.len());
    client.check(
        "SHOW BINLOG EVENTS IN 'binlog.000009'",
        "1220 HY000: Error when executing command SHOW BINLOG EVENTS: Could not find target log",
    );
}

/// Statements that may render logs end after `KILL` or a lost connection.
#[test]
fn listings_are_interrupted() {
    let mut client = receiving(AccountRole::Admin);
    client.session.interrupt = StatementInterrupt::new(|| true);
    for sql in [
        "SHOW BINARY LOGS",
        "SHOW BINARY LOG STATUS",
        "SHOW BINLOG EVENTS IN 'binlog.000002'",
        "SELECT * FROM bintide.logs",
        "SELECT * FROM performance_schema.log_status",
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
    ] {
        client.check(sql, "1317 70100: Query execution was interrupted");
    }
    client.check("SELECT 1", "1\n1");
}

#[test]
fn the_engine_only_reads_and_has_limits() {
    let mut client = FixedRelay::with_clock("9.7.4", AccountRole::Admin, 2000);
    for sql in [
        "select * from sqlite_schema",
        "select * from pragma_database_list",
        "select * from bintide.sqlite_master",
        "with x as (select 1) insert into t select * from x",
        "select ?",
        "select $a",
        "select [a]",
        "select :a",
        "select load_extension('x')",
        "select 1 into outfile 'x'",
        "select zeroblob(100000000)",
        "select attach",
    ] {
        let answer = client.ask(sql);
        let is_error =
            answer.split_once(' ').is_some_and(|(code, _)| code.parse::<u16>().is_ok_and(|code| code > 1000));
        assert!(is_error, "{sql}: {answer}");
    }
    let endless = "with recursive n(i) as (select 1 union all select i + 1 from n) select ";
    let answer = client.ask(&format!("{endless}count(*) from n"));
    assert!(answer.starts_with("3024 HY000"), "{answer}");
    let answer = FixedRelay::new(AccountRole::Admin).ask(&format!("{endless}* from n"));
    assert!(answer.starts_with("1104 42000"), "{answer}");
    let answer = client.ask(&format!("{endless}group_concat(hex(hex(hex(concat('0123456789', i))))) from n"));
    assert!(answer.starts_with("1104 42000") || answer.starts_with("3024 HY000"), "{answer}");
    client.check("select 1 + 1", "1 + 1\n2");
}

#[test]
fn statements_and_variables_have_a_limit() {
    let mut client = FixedRelay::new(AccountRole::Replica);
    let long = "x".repeat(1 << 16);
    client.check(
        &format!("select '{long}'"),
        "1153 08S01: Got a packet bigger than 'max_allowed_packet' bytes",
    );
    let half = &long[1 << 15..];
    let answers = (0..9).map(|number| client.ask(&format!("set @v{number} = '{half}'"))).collect::<Vec<_>>();
    assert!(answers[..7].iter().all(|answer| answer == "OK"), "{answers:?}");
    assert_eq!(answers[8], "1105 HY000: the variables of a session may have at most 262144 bytes");
    let items = vec!["1"; 30_000].join(",");
    assert!(client.ask(&format!("select {items}")).starts_with("1|1|1"));
    let nested = format!("select {}1{}", "(".repeat(30_000), ")".repeat(30_000));
    let answer = client.ask(&nested);
    assert!(answer.starts_with("1235 "), "{answer}");
}

/// Cut at each byte, a statement is refused or answered.
#[test]
fn parts_of_statements() {
    let mut client = FixedRelay::new(AccountRole::Admin);
    for sql in [
        "SELECT a.`x`, 'b\\'c' \"d\", @@global.server_id, @v AS `n`, count(*) FROM bintide.logs a WHERE a <=> 0x1F -- x",
        "SET @a := CONCAT('ß', 1), @@session.sql_mode = DEFAULT, NAMES 'utf8' COLLATE utf8mb4_bin",
        "SHOW FULL TABLES FROM `bintide` WHERE Tables_in_bintide LIKE _utf8mb4'%' /* é */;",
        "KILL CONNECTION -1",
    ] {
        for end in (0..=sql.len()).filter(|end| sql.is_char_boundary(*end)) {
            let (start, rest) = sql.split_at(end);
            for part in [start, rest] {
                let answer = client.ask(part);
                // The relay's own failure, and not an error of the statement.
                assert!(!answer.starts_with("1105 "), "{part}: {answer}");
            }
        }
    }
}

#[test]
fn roles() {
    let mut replica = FixedRelay::new(AccountRole::Replica);
    replica.check(
        "select * from bintide.logs",
        "1142 42000: SELECT command denied to user 'me'@'%' for table 'logs'",
    );
    replica.check(
        "show processlist",
        "Id|User|Host|db|Command|Time|State|Info\n4|me|10.0.0.4:4000|NULL|Query|0|init|show processlist",
    );
    replica.check("kill 3", "1095 HY000: You are not owner of thread 3");
    replica.check("kill query 4", "OK");
    assert_eq!(*replica.facts.killed.lock().unwrap(), ["query 4"]);
    let mut admin = FixedRelay::new(AccountRole::Admin);
    // The statement of connection 3 is a dump.
    admin.check("kill query 3", "OK");
    admin.check("KILL CONNECTION 4", "OK");
    assert_eq!(*admin.facts.killed.lock().unwrap(), ["3", "4"]);
}

#[test]
fn changes_of_the_relay_are_noted_without_passwords() {
    let mut client = receiving(AccountRole::Admin);
    for (statement, noted) in [
        ("STOP SLAVE", "STOP REPLICA"),
        (
            "CHANGE MASTER TO MASTER_HOST='db3', MASTER_USER='r', MASTER_PASSWORD='topsecret', MASTER_SSL=1",
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'db3', SOURCE_USER = 'r', SOURCE_PASSWORD = '<secret>', \
             SOURCE_SSL = 1",
        ),
        ("START REPLICA", "START REPLICA"),
        ("FLUSH BINARY LOGS", "FLUSH BINARY LOGS"),
        ("PURGE MASTER LOGS TO 'binlog.000002'", "PURGE BINARY LOGS TO 'binlog.000002'"),
        ("SET GLOBAL binlog_transaction_compression = ON", "SET GLOBAL binlog_transaction_compression = 1"),
        ("KILL QUERY 3", "KILL 3"),
        ("KILL QUERY 4", "KILL QUERY 4"),
    ] {
        client.check(statement, "OK");
        assert_eq!(client.session.changes, [noted], "{statement}");
    }
    for statement in ["START REPLICA", "SET @a = 1", "PURGE BINARY LOGS TO 'binlog.000001'"] {
        client.check(statement, "OK");
        assert_eq!(client.session.changes, [""; 0], "{statement}");
    }
}
