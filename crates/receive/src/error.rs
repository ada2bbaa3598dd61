//! Errors of receiving. The caller decides how to react.

use std::io;
use std::path::PathBuf;
use std::str::Utf8Error;

use binlog::gtid::Gtid;
use binlog::server_error::SOURCE_FATAL_ERROR_READING_BINLOG;
use binlog::{DecodeError, EncodeError, GtidRewriteError};
use logs::{LogError, RunningServer};
use servers::ConnectionError;

use crate::source_candidate::SourceRejection;
use crate::source_errors::SourceLogs;

/// Obstacle to the continuation of a source's log at the end of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResumeObstacle {
    /// The source no longer has the stored events, or those after them: purged, reset or lost.
    LogsGone,
    /// The source has a fault, or its logs were reset.
    Unclear,
    /// The source has a fault, such as a failed read of its log.
    SourceFault,
}

/// Error of a `receive` run.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReceiveError {
    /// The directory is a server's data directory: the server would find logs that it did not write.
    #[error("{} is a server's data directory (it has {file}): give a directory only for received logs", directory.display())]
    DataDirectory {
        /// Path of the directory.
        directory: PathBuf,
        /// Name of a file that only a server's data directory has.
        file: &'static str,
    },
    /// Another process writes to the directory's logs.
    #[error("{} is in use: {running}; give a directory that only bintide receive writes to", directory.display())]
    InUse {
        /// Path of the directory.
        directory: PathBuf,
        /// Process and file.
        running: RunningServer,
    },
    /// The store could not be opened.
    #[error(transparent)]
    OpenStore(LogError),
    /// The store could not be read or written.
    #[error(transparent)]
    Log(LogError),
    /// The source's log differs from the stored log, or does not follow the stored log.
    #[error(transparent)]
    OtherLog(LogError),
    /// The keyring is unreadable or lacks a key.
    #[error(transparent)]
    Keyring(LogError),
    /// The disk failed, and the store could not be reopened.
    #[error("{again}")]
    ReopenStore {
        /// First error of the disk.
        #[source]
        error: LogError,
        /// Error of opening the store again.
        again: LogError,
    },
    /// The file of the store's identity could not be read.
    #[error("could not read {}", path.display())]
    ReadIdentity {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        cause: io::Error,
    },
    /// The file of the store's identity could not be written.
    #[error("could not write {}", path.display())]
    WriteIdentity {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        #[source]
        cause: io::Error,
    },
    /// The file of the store's identity is incomplete.
    #[error("{} has no server-id and server-uuid: remove the file", path.display())]
    IncompleteIdentity {
        /// Path of the file.
        path: PathBuf,
    },
    /// The operating system gave no random bytes for a new identity.
    #[error("could not get a random UUID")]
    RandomIdentity(#[source] getrandom::Error),
    /// The server is not the one whose logs are stored.
    #[error(
        "the source's server_uuid is {found}, but the logs in {} are those of {expected}: use another directory for \
         another server, or give both with --from if this server replaced that one", directory.display()
    )]
    OtherServer {
        /// `server_uuid` of the server.
        found: String,
        /// `server_uuid` of the server whose logs are stored.
        expected: String,
        /// Path of the store's directory.
        directory: PathBuf,
    },
    /// The server sent an invalid `server_uuid`.
    #[error("the source's server_uuid is not a UUID: {found:?}")]
    InvalidServerUuid {
        /// Text that the server sent.
        found: String,
    },
    /// The thread that compresses closed logs could not be started.
    #[error("could not start a thread to compress logs")]
    StartCompressor(#[source] io::Error),
    /// A connection failed.
    #[error(transparent)]
    Connection(ConnectionError),
    /// The server cannot continue after the stored transactions yet.
    #[error(transparent)]
    Unsuitable(SourceRejection),
    /// One of several sources is a MariaDB server.
    #[error(
        "a MariaDB server must be the only --from: its GTIDs name only the last transaction of each domain, so nothing \
         shows whether another server has all transactions of the directory; give no other --from"
    )]
    MariadbBesideOthers,
    /// The last log has no Previous_gtids event.
    #[error(
        "cannot resume by GTIDs: the last log has no Previous_gtids event; keep this directory as it is, and receive \
         into another one"
    )]
    NoPreviousGtids,
    /// Compression changes positions, and the source has no GTIDs.
    #[error(
        "compression of received logs (--compress, or binlog_transaction_compression of the relay) needs a source with \
         gtid_mode=ON, because positions in compressed logs differ from the source's"
    )]
    CompressWithoutGtids,
    /// The source's logs cannot contain compressed transactions.
    #[error(
        "--compress needs a source of MySQL 8.0.20 or later, whose logs can contain compressed transactions; the source \
         has version {version}"
    )]
    CompressOldSource {
        /// Version of the source.
        version: String,
    },
    /// The source sent an event whose format is unknown.
    #[error("the source sent an event before the first format description")]
    EventBeforeFormat,
    /// The source sent an invalid log name.
    #[error("the source's log name is not UTF-8")]
    LogName(#[source] Utf8Error),
    /// The source sent an event that cannot be decoded.
    #[error(transparent)]
    Decode(#[from] DecodeError),
    /// An event that replaces an event of the source could not be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
    /// A GTID event could not be renumbered.
    #[error(transparent)]
    RenumberGtid(#[from] GtidRewriteError),
    /// The source sent an invalid GTID.
    #[error("the source sent a GTID that is out of range")]
    GtidOutOfRange,
    /// The source sent a transaction again.
    #[error("the source sent {gtid}, which is already stored")]
    RepeatedTransaction {
        /// GTID of the transaction.
        gtid: Gtid,
    },
    /// The source sent an invalid logical clock.
    #[error("the source sent {gtid} with an invalid sequence_number: {number}")]
    InvalidSequenceNumber {
        /// GTID of the transaction.
        gtid: Gtid,
        /// Number that the source sent.
        number: i64,
    },
    /// Another replica with the identity of this store is connected to the source.
    #[error(transparent)]
    SharedIdentity(ConnectionError),
    /// The source cannot continue its log at the end of the store.
    #[error("the source cannot resume after {log} at {position}{}", reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default())]
    CannotResume {
        /// Name of the last stored log.
        log: String,
        /// End of the last stored event.
        position: u64,
        /// Cause, if known.
        reason: Option<String>,
        /// Obstacle, on which the remedy depends.
        obstacle: ResumeObstacle,
        /// Error of the source.
        #[source]
        error: ConnectionError,
    },
    /// The last stored log was rewritten, so its positions differ from the source's.
    #[error(
        "cannot resume after {}: bintide compress or decompress has rewritten this log ({} lists its positions), so it \
         does not end where the source's log continues", log.display(), list.display()
    )]
    RewrittenLog {
        /// Path of the log.
        log: PathBuf,
        /// Path of the list of the log's positions before and after.
        list: PathBuf,
    },
    /// The source does not have the start log.
    #[error("{}", logs.no_log_message(log))]
    NoSuchLog {
        /// Name of the log.
        log: String,
        /// Logs that the source has.
        logs: SourceLogs,
    },
    /// The source cannot send the transactions after the given GTIDs.
    #[error("the source cannot send the transactions after the GTIDs of --start-after-gtid")]
    CannotStartAfter(#[source] ConnectionError),
}

/// Failure of a `receive` run.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveFailure {
    /// No source has sent its log.
    #[error(transparent)]
    NotStarted(ReceiveError),
    /// The run failed after a source had sent its log.
    #[error(transparent)]
    Failed(ReceiveError),
}

impl ReceiveError {
    /// Returns whether the source has refused the connection or the login. A change at the source can correct this,
    /// for example a new password or certificate.
    pub(crate) fn is_denied_connection(&self) -> bool {
        matches!(self, Self::Connection(error) if !error.is_transient() && error.code() != Some(SOURCE_FATAL_ERROR_READING_BINLOG))
    }
}

impl From<LogError> for ReceiveError {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl From<ConnectionError> for ReceiveError {
    fn from(error: ConnectionError) -> Self {
        Self::Connection(error)
    }
}
