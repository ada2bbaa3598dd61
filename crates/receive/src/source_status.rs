//! State of the connection to the source, as in `SHOW REPLICA STATUS`.

use binlog::server_error::SOURCE_FATAL_ERROR_READING_BINLOG;
use logs::LogError;
use servers::{ConnectionError, ServerAddress};

use crate::error::ReceiveError;

/// State of the connection to the source.
#[derive(Clone, Debug, Default)]
pub struct SourceStatus {
    /// Address of the current source; `None` before the first connection.
    pub address: Option<ServerAddress>,
    /// `server_id` of the source, known after the first connection.
    pub server_id: Option<u32>,
    /// `server_uuid` of the source (MySQL), known after the first connection.
    pub server_uuid: Option<String>,
    /// `gtid_mode` of the source (MySQL since 5.6), known after the first connection.
    pub gtid_mode: Option<String>,
    /// True from a successful connection until the next failed attempt.
    pub(crate) was_connected: bool,
    /// Received heartbeats.
    pub heartbeats: u64,
    /// Time of the last heartbeat, in microseconds since 1970.
    pub last_heartbeat_us: Option<u64>,
    /// Last error since the last successful connection.
    pub last_error: Option<ConnectionTrouble>,
}

/// Error of a connection to the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionTrouble {
    /// Number that a server's receiver thread would show.
    pub code: u16,
    /// Text of the error.
    pub message: String,
    /// Time of the error, in microseconds since 1970.
    pub time_us: u64,
}

/// `CR_CONN_HOST_ERROR`: no connection could be made.
const NOT_CONNECTED: u16 = 2003;
/// `CR_SERVER_LOST`: the connection has ended.
const CONNECTION_LOST: u16 = 2013;
/// `ER_SERVER_SOURCE_FATAL_ERROR_READING_BINLOG`: the source refuses to send its log.
const SOURCE_REFUSES: u16 = 13114;
/// `ER_REPLICA_RELAY_LOG_WRITE_FAILURE`: an event could not be stored.
const STORING_FAILED: u16 = 1595;
/// `ER_REPLICA_FATAL_ERROR`: any other error.
const FATAL_ERROR: u16 = 1593;

impl ConnectionTrouble {
    pub(crate) fn new(error: &ReceiveError, is_connected: bool, time_us: u64) -> Self {
        Self { code: error_code(error, is_connected), message: error.to_string(), time_us }
    }

    pub(crate) fn disk_full(error: &LogError, time_us: u64) -> Self {
        Self { code: STORING_FAILED, message: error.to_string(), time_us }
    }
}

fn error_code(error: &ReceiveError, is_connected: bool) -> u16 {
    match error {
        ReceiveError::Connection(ConnectionError::Refused {
            code: SOURCE_FATAL_ERROR_READING_BINLOG,
            ..
        }) => SOURCE_REFUSES,
        ReceiveError::Connection(ConnectionError::Refused { code, .. }) => *code,
        ReceiveError::CannotResume { .. }
        | ReceiveError::SharedIdentity(_)
        | ReceiveError::NoSuchLog { .. }
        | ReceiveError::CannotStartAfter(_) => SOURCE_REFUSES,
        ReceiveError::Connection(_) if is_connected => CONNECTION_LOST,
        ReceiveError::Connection(_) => NOT_CONNECTED,
        _ => FATAL_ERROR,
    }
}
