//! Facts about a running relay, for its SQL answers and its web pages.

use std::sync::Arc;
use std::time::Duration;

use binlog::gtid::GtidSet;
use rewrite::StageTiming;
use wire::ServerError;

use crate::dump_progress::ClientProgress;
use crate::error::RelayError;
use crate::form_source::{FormSource, FormTimings, RenderCost};
use crate::log_form::{FormChoice, LogForm};
use crate::served_compression::ServedCompression;
use crate::sql_answer::SqlRows;
use crate::statement_interrupt::StatementInterrupt;
use crate::upstream_control::UpstreamControl;

/// Source of facts about a running relay. The listener implements it; tests use fixed facts.
pub trait RelayFacts: Send + Sync {
    /// Returns the server that the relay presents to its clients.
    fn server(&self) -> RelayedServer;

    /// Returns the logs, oldest first, with their sizes in a form. For as-is, these are the sizes of the files; for
    /// other forms, renders all logs, which can take minutes.
    ///
    /// # Errors
    ///
    /// Fails if a log cannot be read, or `interrupt` ends the statement.
    fn logs(&self, form: LogForm, interrupt: &StatementInterrupt) -> Result<Vec<ServedLog>, RelayError>;

    /// Returns the GTIDs of all stored transactions. Unlike [`end`](Self::end), renders no log.
    ///
    /// # Errors
    ///
    /// Fails if a log cannot be read.
    fn gtids(&self) -> Result<GtidSet, RelayError>;

    /// Returns the end of the newest log in a form. Renders the whole log, which can take minutes.
    ///
    /// # Errors
    ///
    /// Fails if a log cannot be read, or `interrupt` ends the statement.
    fn end(&self, form: LogForm, interrupt: &StatementInterrupt) -> Result<NewestLogEnd, RelayError>;

    /// Returns the source of a form, to list events; `None` if there are no logs to read.
    fn source(&self, _: LogForm) -> Option<Arc<FormSource>> {
        None
    }

    /// Returns the time of the last write to a log, in microseconds since 1970.
    fn log_time_us(&self, _: &str) -> Option<u64> {
        None
    }

    /// Returns the connected clients.
    fn clients(&self) -> Vec<ClientFacts>;

    /// Returns the totals of all clients since the start, also of those whose connections have ended.
    fn client_totals(&self) -> Vec<ClientTotals> {
        Vec::new()
    }

    /// Returns the lag of each client, in the order of `clients`. `None` for a client that reads no log, or whose log
    /// cannot be read.
    fn lags(&self, clients: &[ClientFacts]) -> Vec<Option<ClientLag>> {
        vec![None; clients.len()]
    }

    /// Returns the served forms, each with its sums since the start.
    fn forms(&self) -> Vec<FormFacts> {
        Vec::new()
    }

    /// Returns the sizes of at most `limit` newest logs, oldest first, in each form with a known size.
    ///
    /// # Errors
    ///
    /// Fails if the list of logs cannot be read.
    fn log_sizes(&self, limit: usize) -> Result<Vec<LogSize>, RelayError> {
        let _ = limit;
        Ok(Vec::new())
    }

    /// Ends a client's connection. Returns false if there is none with this number.
    fn kill(&self, connection_id: u32) -> bool;

    /// Ends a client's running statement. Returns false if there is no client with this number.
    fn kill_query(&self, connection_id: u32) -> bool;

    /// Returns the seconds since the relay's start.
    fn uptime_s(&self) -> u64;

    /// Returns the present time in microseconds since 1970.
    fn now_us(&self) -> u64;

    /// Returns the transactions before the oldest log: the set of its Previous_gtids event.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read.
    fn purged_gtids(&self) -> Result<GtidSet, RelayError>;

    /// Returns the MariaDB GTIDs of all stored transactions, as `gtid_binlog_pos` shows them; empty for other logs.
    ///
    /// # Errors
    ///
    /// Fails if a log cannot be read.
    fn mariadb_gtids(&self) -> Result<String, RelayError> {
        Ok(String::new())
    }

    /// Returns sums over received and sent transactions, in the order of the server's table
    /// `binary_log_transaction_compression_stats`. Omits rows without transactions.
    fn compression_counters(&self) -> Vec<CompressionCounters> {
        Vec::new()
    }

    /// Sends a statement that only reads table definitions to the source. Returns `None` if the relay has no source for
    /// such statements.
    fn ask_source(&self, sql: &str, interrupt: &StatementInterrupt) -> Option<Result<SqlRows, ServerError>> {
        let _ = (sql, interrupt);
        None
    }

    /// Returns sums over the stages of work. Omits stages of [`StageTotals::NAMES`] that have not run.
    fn stage_totals(&self) -> Vec<StageTotals> {
        Vec::new()
    }

    /// Returns the compression for accounts without a form.
    fn compression(&self) -> ServedCompression {
        ServedCompression::of(FormChoice::Auto)
    }

    /// Changes the compression for clients that connect from now on.
    fn set_compression(&self, _: ServedCompression) {
        // Fixed facts do not change.
    }

    /// Returns the settings of the wait for acknowledgements of replicas; `None` if the relay does not wait.
    fn semi_sync_settings(&self) -> Option<SemiSyncSettings> {
        None
    }

    /// Returns whether the relay waits for acknowledgements, and gets them in time.
    fn is_semi_synchronous(&self) -> bool {
        false
    }

    /// Changes the settings of the wait for acknowledgements, also of a running wait.
    fn set_semi_sync_settings(&self, _: SemiSyncSettings) {
        // Fixed facts do not change.
    }

    /// Returns the receiver of the logs; `None` if another program writes the logs.
    fn upstream_control(&self) -> Option<&dyn UpstreamControl> {
        None
    }

    /// Resets the counters of transactions.
    fn reset_compression_counters(&self) {
        // Without sums, there is nothing to reset.
    }

    /// Resets the sums over stages.
    fn reset_stage_totals(&self) {
        // Without sums, there is nothing to reset.
    }
}

/// Settings of the wait for acknowledgements of replicas, before the relay acknowledges transactions to the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SemiSyncSettings {
    /// Number of replicas: `rpl_semi_sync_source_wait_for_replica_count` of a server.
    pub replicas: usize,
    /// Maximum duration of a wait: `rpl_semi_sync_source_timeout` of a server.
    pub timeout: Duration,
}

/// Distance of a client from the end of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientLag {
    /// Transactions not yet sent to the client; `None` if older logs without GTIDs were not read.
    pub transactions: Option<u64>,
    /// Bytes of the stored logs not yet sent to the client. An estimate while the client reads older parts of a
    /// rendered form.
    pub bytes: u64,
    /// Time in microseconds since the commit of the last transaction sent to the client, or since the client had all
    /// transactions. 0 if the client has all transactions. `None` before its first transaction.
    pub time_us: Option<u64>,
}

/// Served form, with sums since the start of the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormFacts {
    /// The form.
    pub form: LogForm,
    /// Bytes of events sent.
    pub bytes_sent: u64,
    /// Transactions sent.
    pub transactions_sent: u64,
    /// Bytes by which the sent payloads are smaller than their transactions.
    pub bytes_saved: u64,
    /// Cost of rendering.
    pub cost: RenderCost,
}

/// Size of a log in one form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogSize {
    /// Name of the log.
    pub name: String,
    /// The form.
    pub form: LogForm,
    /// Size of the known part, in bytes.
    pub bytes: u64,
    /// Size of the same part in the stored log, in bytes.
    pub stored_bytes: u64,
    /// True if the part is the whole log, which no longer grows.
    pub is_whole: bool,
}

/// Sums over transactions of one kind, a row of `binary_log_transaction_compression_stats`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompressionCounters {
    /// Kind of log: `BINARY` for sent transactions, `RELAY` for received ones.
    pub log_type: &'static str,
    /// Compression of the transactions: `ZSTD` or `NONE`.
    pub compression_type: &'static str,
    /// Number of transactions.
    pub transactions: u64,
    /// Size of the transactions in the log, in bytes: without the headers of payloads, as on a server.
    pub compressed_bytes: u64,
    /// Size of the transactions without compression, in bytes.
    pub uncompressed_bytes: u64,
    /// First transaction.
    pub first: CountedTransaction,
    /// Last transaction.
    pub last: CountedTransaction,
}

/// Sizes of one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedTransaction {
    /// GTID, or `ANONYMOUS`.
    pub id: String,
    /// Size in the log, in bytes.
    pub compressed_bytes: u64,
    /// Size without compression, in bytes.
    pub uncompressed_bytes: u64,
    /// Time of the commit, or of the receipt, in microseconds since 1970.
    pub time_us: u64,
}

/// Sums over one stage of work, a row of `events_stages_summary_global_by_event_name`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StageTotals {
    /// Name of the stage on a server.
    pub name: &'static str,
    /// Number of runs.
    pub count: u64,
    /// Total time, in picoseconds.
    pub sum_ps: u64,
    /// Shortest time, in picoseconds.
    pub min_ps: u64,
    /// Longest time, in picoseconds.
    pub max_ps: u64,
}

impl StageTotals {
    /// Names of a relay's stages: a server's stages for compressing, decompressing and sending, and reading logs.
    pub const NAMES: [&'static str; 4] = [
        "stage/sql/Compressing transaction changes.",
        "stage/sql/Decompressing transaction changes.",
        "stage/bintide/Reading binary log",
        "stage/sql/Sending binlog event to replica",
    ];

    /// Returns the sums over the forms, and of sending to clients.
    pub fn of_sources(sources: &[Arc<FormSource>], sending: StageTiming) -> Vec<Self> {
        let mut sum = FormTimings::default();
        for source in sources {
            let timings = source.timings();
            sum.rendering.add(&timings.rendering);
            sum.reading.add(&timings.reading);
        }
        let [compressing, decompressing, reading, sending_name] = Self::NAMES;
        let stages = [
            (compressing, sum.rendering.compressing),
            (decompressing, sum.rendering.opening),
            (reading, sum.reading),
            (sending_name, sending),
        ];
        let run = stages.into_iter().filter(|(_, timing)| timing.count > 0);
        run.map(|(name, timing)| Self {
            name,
            count: timing.count,
            sum_ps: picoseconds(timing.total),
            min_ps: picoseconds(timing.min),
            max_ps: picoseconds(timing.max),
        })
        .collect()
    }
}

fn picoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos().saturating_mul(1000)).unwrap_or(u64::MAX)
}

/// The server that a relay presents to its clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelayedServer {
    /// Version of the server that wrote the newest log, such as `9.7.4`.
    pub version: String,
    /// The relay's own `server_id`.
    pub server_id: u32,
    /// The relay's own `server_uuid`.
    pub server_uuid: String,
    /// Port for clients.
    pub port: u16,
    /// Maximum number of clients.
    pub connections_max: usize,
}

/// A log that the relay serves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServedLog {
    /// Name of the log.
    pub name: String,
    /// Size in the form, in bytes.
    pub size: u64,
    /// Size of the file, in bytes.
    pub stored_size: u64,
    /// True if the file is encrypted.
    pub is_encrypted: bool,
}

/// End of the newest log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewestLogEnd {
    /// Name of the log.
    pub log: String,
    /// Size of the log in the form, in bytes.
    pub position: u64,
    /// GTIDs of all stored transactions.
    pub gtids: GtidSet,
}

/// A connected client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientFacts {
    /// Number of the connection.
    pub connection_id: u32,
    /// Name of the account.
    pub user: String,
    /// Address, as `host:port`.
    pub host: String,
    /// Connection attributes, in the order of the login.
    pub attributes: Vec<(String, String)>,
    /// Version of TLS, such as `TLSv1.3`; `None` for a connection without TLS.
    pub tls_version: Option<&'static str>,
    /// True for a replica that acknowledges transactions (semi-synchronous replication).
    pub acknowledges: bool,
    /// Form of the client's logs; `None` before the client requests a log.
    pub form: Option<LogForm>,
    /// `server_id` of the client, if it registered or requested a log.
    pub server_id: Option<u32>,
    /// `server_uuid` of the client, if the client sent its `server_uuid`.
    pub server_uuid: Option<String>,
    /// `report_host` of the client, if the client registered with a host.
    pub report_host: Option<String>,
    /// `report_port` of the client, if it registered.
    pub report_port: Option<u16>,
    /// Running command, as in `SHOW PROCESSLIST`: `Sleep`, `Query`, `Binlog Dump`, `Binlog Dump GTID`.
    pub command: &'static str,
    /// State, as in `SHOW PROCESSLIST`.
    pub state: &'static str,
    /// Seconds in this state.
    pub state_s: u64,
    /// Log and position of the next event to send.
    pub position: Option<(String, u64)>,
    /// Bytes of events sent.
    pub bytes_sent: u64,
    /// Transactions sent.
    pub transactions_sent: u64,
    /// Commit time of the last transaction sent, in microseconds since 1970.
    pub committed_us: Option<u64>,
    /// Progress of the dump; `None` before the client requests a log.
    pub progress: Option<ClientProgress>,
}

impl ClientFacts {
    /// Returns whether the client reads logs.
    pub fn is_dump(&self) -> bool {
        self.command.starts_with("Binlog Dump")
    }

    /// Returns the client's address without the port, which differs for each connection.
    pub fn host_without_port(&self) -> &str {
        self.host.rsplit_once(':').map_or(&*self.host, |(host, _)| host)
    }

    /// Returns the totals of this connection; `None` before the client requests a log.
    pub fn totals(&self) -> Option<ClientTotals> {
        Some(ClientTotals {
            user: self.user.clone(),
            host: self.host_without_port().to_owned(),
            form: self.form?,
            bytes_sent: self.bytes_sent,
            transactions_sent: self.transactions_sent,
            bytes_saved: self.progress.as_ref().map_or(0, |progress| progress.dump.saved_bytes),
        })
    }
}

/// Totals of the connections of one user, host and form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientTotals {
    /// Name of the account.
    pub user: String,
    /// Address without the port, which differs for each connection.
    pub host: String,
    /// Form of the clients' logs.
    pub form: LogForm,
    /// Bytes of events sent.
    pub bytes_sent: u64,
    /// Transactions sent.
    pub transactions_sent: u64,
    /// Bytes by which the payloads sent are smaller than their transactions.
    pub bytes_saved: u64,
}

impl ClientTotals {
    /// Adds the totals to those of the same user, host and form. Without such totals, adds them to the list, unless it
    /// has `limit` elements.
    pub fn add_to(self, list: &mut Vec<Self>, limit: usize) {
        let is_same =
            |other: &Self| (&other.user, &other.host, other.form) == (&self.user, &self.host, self.form);
        match list.iter().position(is_same) {
            Some(index) => {
                let sum = &mut list[index];
                sum.bytes_sent += self.bytes_sent;
                sum.transactions_sent += self.transactions_sent;
                sum.bytes_saved += self.bytes_saved;
            }
            None if list.len() < limit => list.push(self),
            None => {}
        }
    }
}
