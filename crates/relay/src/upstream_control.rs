//! The receiver of a relay's logs, as shown and controlled by SQL.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use binlog::ZstdLevel;
use wire::ServerError;

use crate::log_form::LogForm;
use crate::relay_facts::{CompressionCounters, RelayFacts};

/// Receiver of a relay's logs, if the relay itself receives them. The command implements this trait; tests use a fixed
/// receiver.
pub trait UpstreamControl: Send + Sync {
    /// Returns the state of the connection to the source.
    fn status(&self) -> UpstreamStatus;

    /// Returns sums over received transactions: rows of type `RELAY`, in the order of the server's table.
    fn received(&self) -> Vec<CompressionCounters>;

    /// Resets the sums over received transactions.
    fn reset_received(&self);

    /// Disconnects from the source, until [`UpstreamControl::start`]. Returns false if the receiver was already
    /// stopped.
    fn stop(&self) -> bool;

    /// Connects to the source again. Returns false if the receiver was not stopped.
    fn start(&self) -> bool;

    /// Changes the connection to the source, from the next connection on. Removes all other sources.
    ///
    /// # Errors
    ///
    /// Fails if a value is invalid.
    fn change_source(&self, change: &SourceChange) -> Result<(), ServerError>;

    /// Removes the logs before this one, and returns their number.
    ///
    /// # Errors
    ///
    /// Fails if a log cannot be removed, or the receiver is busy.
    fn purge_before(&self, log: &str) -> Result<usize, ServerError>;

    /// Returns the level at which stored logs are compressed when they are closed; `None` if they stay as they are.
    fn compression(&self) -> Option<ZstdLevel>;

    /// Sets the level for logs that are closed from now on. Returns false, and changes nothing, if the stored logs
    /// cannot be compressed: because of an archive, or without GTIDs.
    fn set_compression(&self, level: Option<ZstdLevel>) -> bool;

    /// Makes the source start a new log.
    ///
    /// # Errors
    ///
    /// Fails if the source returns an error or cannot be reached.
    fn flush_logs(&self) -> Result<(), ServerError>;
}

/// Changes of the connection to the source, by `CHANGE REPLICATION SOURCE TO`. A `None` field does not change.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SourceChange {
    /// `SOURCE_HOST`
    pub host: Option<String>,
    /// `SOURCE_PORT`
    pub port: Option<u16>,
    /// `SOURCE_USER`
    pub user: Option<String>,
    /// `SOURCE_PASSWORD`. Never shown.
    pub password: Option<String>,
    /// `SOURCE_SSL`
    pub is_encrypted: Option<bool>,
    /// `SOURCE_SSL_VERIFY_SERVER_CERT`
    pub is_verified: Option<bool>,
    /// `GET_SOURCE_PUBLIC_KEY`
    pub asks_public_key: Option<bool>,
    /// Options of files and TLS, by the names of MySQL's programs, such as `ssl-ca`. An empty value removes the option.
    pub options: Vec<SourceOption>,
}

/// Connection option with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceOption {
    /// Name in `CHANGE REPLICATION SOURCE TO`.
    pub sql_name: &'static str,
    /// Name in MySQL's programs.
    pub name: &'static str,
    /// Value; empty to remove the option.
    pub value: String,
}

/// Writes the statement that makes this change, without the password.
impl fmt::Display for SourceChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let quoted = |name: &str, value: &str| format!("{name} = {}", sql::quote::quote_plain_text(value));
        let flag = |name: &str, is_on: bool| format!("{name} = {}", u8::from(is_on));
        let mut parts: Vec<String> = Vec::new();
        parts.extend(self.host.as_deref().map(|host| quoted("SOURCE_HOST", host)));
        parts.extend(self.port.map(|port| format!("SOURCE_PORT = {port}")));
        parts.extend(self.user.as_deref().map(|user| quoted("SOURCE_USER", user)));
        parts.extend(self.password.as_ref().map(|_| quoted("SOURCE_PASSWORD", "<secret>")));
        parts.extend(self.is_encrypted.map(|is_on| flag("SOURCE_SSL", is_on)));
        parts.extend(self.is_verified.map(|is_on| flag("SOURCE_SSL_VERIFY_SERVER_CERT", is_on)));
        parts.extend(self.asks_public_key.map(|is_on| flag("GET_SOURCE_PUBLIC_KEY", is_on)));
        parts.extend(self.options.iter().map(|option| quoted(option.sql_name, &option.value)));
        write!(out, "CHANGE REPLICATION SOURCE TO {}", parts.join(", "))
    }
}

/// Omits the password.
impl fmt::Debug for SourceChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = (&self.host, self.port, &self.user, self.is_encrypted, self.is_verified, &self.options);
        out.debug_tuple("SourceChange").field(&shown).finish()
    }
}

/// State of the connection to the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamStatus {
    /// Sources, as host and port or socket.
    pub sources: Vec<String>,
    /// Host of the source.
    pub host: String,
    /// Port of the source.
    pub port: u16,
    /// Account at the source.
    pub user: String,
    /// False between `STOP REPLICA` and `START REPLICA`.
    pub is_running: bool,
    /// True while the source is connected.
    pub is_connected: bool,
    /// Log of the source.
    pub log: String,
    /// Position of the next event in that log.
    pub position: u64,
    /// Name of the stored log being written.
    pub stored_log: String,
    /// End of the last event in that log.
    pub stored_position: u64,
    /// `server_id` of the source, known after the first connection.
    pub server_id: Option<u32>,
    /// `server_uuid` of the source, known after the first connection.
    pub server_uuid: Option<String>,
    /// `gtid_mode` of the source (MySQL since 5.6), known after the first connection.
    pub gtid_mode: Option<String>,
    /// Encryption of the connection.
    pub tls: UpstreamTls,
    /// Age of the last event in seconds, by the source's clock; 0 if the source has no newer event.
    pub lag_s: Option<u64>,
    /// Transactions received since the start.
    pub transactions: u64,
    /// Bytes of events received since the start.
    pub bytes: u64,
    /// Error of the last connection attempt, if it failed.
    pub error: Option<UpstreamError>,
    /// Time without events after which the source sends a heartbeat.
    pub heartbeat_interval: Duration,
    /// Received heartbeats.
    pub heartbeats: u64,
    /// Time of the last heartbeat, in microseconds since 1970.
    pub last_heartbeat_us: Option<u64>,
}

/// Encryption of the connection to the source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpstreamTls {
    /// True if the connection may be encrypted.
    pub is_allowed: bool,
    /// True if the source's certificate is verified.
    pub is_verified: bool,
    /// File of certificate authorities.
    pub authorities: Option<PathBuf>,
    /// Directory of certificate authorities.
    pub authority_directory: Option<PathBuf>,
    /// File of the client certificate.
    pub certificate: Option<PathBuf>,
    /// File of the client certificate's key.
    pub key: Option<PathBuf>,
}

/// Error of the connection to the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamError {
    /// Number that a server's receiver thread would show.
    pub code: u16,
    /// Text of the error.
    pub message: String,
    /// Time of the error, in microseconds since 1970.
    pub time_us: u64,
}

/// Client that reads a log, with the index of the log in the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LogReaderPosition {
    pub(crate) log: usize,
    pub(crate) form: Option<LogForm>,
    pub(crate) connection_id: u32,
    /// Account and address, as `user@host:port`.
    pub(crate) client: String,
}

/// Returns the number of the first of these logs that a connected client reads, in this form if one is given.
pub fn first_log_in_use(relay: &dyn RelayFacts, logs: &[&str], form: Option<LogForm>) -> Option<usize> {
    let readers = log_readers(relay, logs).into_iter();
    readers.filter(|reader| form.is_none() || reader.form == form).map(|reader| reader.log).min()
}

/// Returns the clients that read logs.
pub(crate) fn log_readers(relay: &dyn RelayFacts, logs: &[&str]) -> Vec<LogReaderPosition> {
    let reader = |client: crate::relay_facts::ClientFacts| {
        let is_dump = client.is_dump();
        let (log, _) = client.position.filter(|_| is_dump)?;
        Some(LogReaderPosition {
            log: logs.iter().position(|name| **name == *log)?,
            form: client.form,
            connection_id: client.connection_id,
            client: format!("{}@{}", client.user, client.host),
        })
    };
    relay.clients().into_iter().filter_map(reader).collect()
}
