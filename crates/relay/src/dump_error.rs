//! Errors that end a dump, as a server reports them.

use binlog::events::MariadbGtid;
use binlog::gtid::GtidSet;
use binlog::server_error::SOURCE_FATAL_ERROR_READING_BINLOG;
use logs::LogError;
use wire::ServerError;

use crate::error::RelayError;

/// Error that ends a dump, with a server's error number and message.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct DumpError {
    code: u16,
    message: String,
    /// Error of the relay, for its own log.
    #[source]
    cause: Option<Box<RelayError>>,
}

/// `ER_INCORRECT_GTID_STATE` of MariaDB.
const INCORRECT_GTID_STATE: u16 = 1941;
/// Maximum size of a server's message in bytes, including the terminating zero byte.
const MESSAGE_SIZE_MAX: usize = 512;

// The messages are MySQL's own (sql/rpl_binlog_sender.cc, sql/binlog.cc, share/messages_to_clients.txt).
const FIRST_LOG: &str = "Could not find first log file name in binary log index file";
const FIRST_LOG_OF_GTIDS: &str = "Could not find first log file name in binary log index file while looking for the \
    oldest binary log that contains any GTID that is not in the given gtid set";
const NEXT_LOG: &str = "could not find next log";
const POSITION_BELOW_4: &str = "Client requested source to start replication from position < 4";
const POSITION_PAST_END: &str = "Client requested source to start replication from position > file size";
const INVALID_EVENT: &str = "bogus data in log event";
const TORN_EVENT: &str = "binlog truncated in the middle of event; consider out of disk space on source";
const EVENT_TOO_LARGE: &str =
    "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source";
const NO_HEADER: &str = "I/O error reading the header from the binary log";
const NO_FORMAT: &str = "Could not find format_description_event in binlog file";
const READ_ERROR: &str = "I/O error reading log event";
const MORE_GTIDS: &str = "Replica has more GTIDs than the source has, using the source's SERVER_UUID. This may \
    indicate that the the last binary log file was truncated or lost, e.g., after a power failure when sync_binlog != \
    1. The source may have rolled back transactions that were already replicated to the replica. Replicate any \
    transactions that source has rolled back from replica to source, and/or commit empty transactions on source to \
    account for transactions that have been committed on source but are not included in GTID_EXECUTED.";
const PURGED_GTIDS: &str = "Cannot replicate because the source purged required binary logs. Replicate the missing \
    transactions from elsewhere, or provision a new replica from backup. Consider increasing the source's binary log \
    expiration period. ";
const GTIDS_TOO_LONG: &str = "The GTID sets and the missing purged transactions are too long to print in this message. \
    For more information, please see the source's error log or the manual for GTID_SUBTRACT";

// MariaDB's messages (sql/sql_repl.cc).
const MARIADB_PURGED: &str = "Could not find GTID state requested by slave in any binlog files. Probably the slave \
    state is too old and required binlog files have been purged.";
const MARIADB_DIVERGED: &str = ". Since the master's binlog contains GTIDs with higher sequence numbers, it probably \
    means that the slave has diverged due to executing extra erroneous transactions";
const MARIADB_WRONG_POSITION: &str = "Could not parse GTID list";

impl DumpError {
    /// Returns the error in the form for the client. Truncates a long message, as servers do.
    pub fn to_server_error(&self) -> ServerError {
        let longest = self.message.len().min(MESSAGE_SIZE_MAX - 1);
        let end = (0..=longest).rfind(|end| self.message.is_char_boundary(*end)).unwrap_or_default();
        let message = self.message[..end].to_owned();
        ServerError { code: self.code, state: "HY000".to_owned(), message }
    }

    /// Returns the relay's error that caused this error, for the relay's own log.
    pub fn cause(&self) -> Option<&RelayError> {
        self.cause.as_deref()
    }

    pub(crate) fn unknown_first_log() -> Self {
        FIRST_LOG.into()
    }

    pub(crate) fn no_log_with_gtids() -> Self {
        FIRST_LOG_OF_GTIDS.into()
    }

    pub(crate) fn position_below_4() -> Self {
        POSITION_BELOW_4.into()
    }

    pub(crate) fn more_gtids() -> Self {
        MORE_GTIDS.into()
    }

    pub(crate) fn event_too_large() -> Self {
        EVENT_TOO_LARGE.into()
    }

    /// The replica needs transactions from before the first log.
    pub(crate) fn purged(sent: &GtidSet, missing: &GtidSet) -> Self {
        let sets = format!(
            "The GTID set sent by the replica is '{}', and the missing transactions are '{}'",
            sent.to_server_text(),
            missing.to_server_text()
        );
        let is_short = PURGED_GTIDS.len() + sets.len() <= MESSAGE_SIZE_MAX;
        let sets = if is_short { sets.as_str() } else { GTIDS_TOO_LONG };
        format!("{PURGED_GTIDS}{sets}").into()
    }

    /// The first chunk of a log has no format description.
    pub(crate) fn no_format() -> Self {
        NO_FORMAT.into()
    }

    /// An anonymous transaction cannot be sent to a replica with auto-positioning.
    pub(crate) fn anonymous(log: &str, position: u64) -> Self {
        let message = format!(
            "Cannot replicate anonymous transaction when AUTO_POSITION = 1, at file {log}, position {position}."
        );
        message.into()
    }

    /// The transactions after the position of a MariaDB replica are purged.
    pub(crate) fn mariadb_purged() -> Self {
        MARIADB_PURGED.into()
    }

    /// The position of a MariaDB replica is not in the logs, whose last GTID in its domain is `last`.
    pub(crate) fn mariadb_unknown(gtid: MariadbGtid, last: MariadbGtid) -> Self {
        let reason = match last.sequence_number >= gtid.sequence_number {
            true => MARIADB_DIVERGED,
            false => "",
        };
        format!(
            "Error: connecting slave requested to start from GTID {gtid}, which is not in the master's binlog{reason}"
        )
        .into()
    }

    /// The logs have no transaction at the position of a MariaDB replica in strict mode, but have earlier and later
    /// transactions.
    pub(crate) fn mariadb_hole(gtid: MariadbGtid) -> Self {
        format!(
            "The binlog on the master is missing the GTID {gtid} requested by the slave (even though both a prior and a \
             subsequent sequence number does exist), and GTID strict mode is enabled"
        )
        .into()
    }

    /// A variable of a MariaDB replica is not a GTID position: `ER_INCORRECT_GTID_STATE`.
    pub fn mariadb_position() -> Self {
        Self { code: INCORRECT_GTID_STATE, ..MARIADB_WRONG_POSITION.into() }
    }

    /// The start of the dump cannot be found.
    pub(crate) fn start(cause: RelayError) -> Self {
        let message = match &cause {
            RelayError::PastEnd { .. } => POSITION_PAST_END,
            RelayError::UnknownLog { .. } => FIRST_LOG,
            other => read_error_text(other),
        };
        Self { cause: Some(Box::new(cause)), ..message.into() }
    }

    /// Reading a log failed while it was sent.
    pub fn reading(cause: RelayError) -> Self {
        let message = read_error_text(&cause);
        Self { cause: Some(Box::new(cause)), ..message.into() }
    }

    /// Adds the positions of the dump, as a server does.
    #[must_use]
    pub(crate) fn with_positions(mut self, positions: &DumpPositions<'_>) -> Self {
        let DumpPositions { first_log, first_position, log, last_position } = positions;
        self.message.push_str(&format!(
            "; the first event '{first_log}' at {first_position}, the last event read from '{log}' at \
             {last_position}, the last byte read from '{log}' at {last_position}."
        ));
        self
    }
}

/// Positions of a dump, for error messages.
pub(crate) struct DumpPositions<'a> {
    pub(crate) first_log: &'a str,
    pub(crate) first_position: u64,
    pub(crate) log: &'a str,
    pub(crate) last_position: u64,
}

impl From<&str> for DumpError {
    fn from(message: &str) -> Self {
        message.to_owned().into()
    }
}

impl From<String> for DumpError {
    fn from(message: String) -> Self {
        Self { code: SOURCE_FATAL_ERROR_READING_BINLOG, message, cause: None }
    }
}

fn read_error_text(error: &RelayError) -> &'static str {
    match error {
        RelayError::UnknownLog { .. }
        | RelayError::Read(
            LogError::Purged { .. } | LogError::MissingLog { .. } | LogError::Removed { .. },
        ) => NEXT_LOG,
        RelayError::NoFormat { size: 0..4, .. } => NO_HEADER,
        RelayError::NoFormat { size: 4, .. } => NO_FORMAT,
        RelayError::NoFormat { .. } | RelayError::Read(LogError::Torn { .. }) => TORN_EVENT,
        RelayError::NotAnEvent { .. }
        | RelayError::Event { .. }
        | RelayError::Read(
            LogError::Corrupt { .. } | LogError::Payload { .. } | LogError::SecondLog { .. },
        )
        | RelayError::Render(rewrite::RewriteError::Corrupt { .. }) => INVALID_EVENT,
        _ => READ_ERROR,
    }
}
