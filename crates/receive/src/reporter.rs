//! Reports during a run: notices and progress. The caller formats the texts.

use std::io;
use std::path::Path;
use std::time::Duration;

use logs::LogError;
use rewrite::RewriteError;

use crate::error::ReceiveError;
use crate::monitor::SharedReceiveStats;
use crate::start_point::StartPoint;

/// Receiver of a run's reports. Called by several threads: the compressor also reports.
pub trait ReceiveReporter: Send + Sync {
    /// Reports an event that may require action by a person.
    fn notice(&self, notice: &ReceiveNotice<'_>);

    /// Reports progress: several times a second, by the thread that runs the receiver.
    fn progress(&self, stats: &SharedReceiveStats);
}

/// Event during a run.
#[derive(Debug)]
pub enum ReceiveNotice<'a> {
    /// The last log ended with an incomplete event, which was removed. The source sends this event again.
    IncompleteEventRemoved {
        /// Size of the stored part of the event.
        bytes: u64,
    },
    /// The requested start point is ignored, because it applies only to an empty directory.
    StartPointIgnored {
        /// Requested start point.
        begin: &'a StartPoint,
        /// Directory of the store.
        directory: &'a Path,
        /// Last stored log, at whose end the run resumes.
        log: &'a str,
        /// End of that log.
        position: u64,
    },
    /// The last stored log is encrypted, but new logs will not be.
    EncryptionEnds {
        /// Directory of the store.
        directory: &'a Path,
    },
    /// A connection has failed, and another attempt follows.
    Retry {
        /// Error of the connection.
        error: &'a ReceiveError,
        /// Address of the next source, if the source changes.
        next: Option<String>,
        /// Time until the attempt.
        pause: Duration,
    },
    /// A source named during the run has a permanent error. The run is paused.
    Stopped {
        /// Error of the connection.
        error: &'a ReceiveError,
    },
    /// A source is connected again after a failed connection.
    Reconnected {
        /// Host and port or socket of the source.
        endpoint: String,
    },
    /// Another server takes the place of the source.
    SourceReplaced {
        /// UUID of the server.
        uuid: &'a str,
        /// UUID of the former source.
        before: &'a str,
    },
    /// Acknowledgements were requested, but the source does not use semi-synchronous replication.
    SemiSyncUnavailable,
    /// The disk is full: receiving pauses until it has space.
    DiskFull {
        /// Error of the failed write.
        error: &'a LogError,
        /// Bytes that must be free, if known.
        needed: Option<u64>,
    },
    /// The disk has space again.
    DiskFree,
    /// The keyring is unreadable or lacks a key; the run waits for a valid keyring.
    KeyringWait {
        /// Error of the keyring.
        error: &'a LogError,
        /// Maximum time to wait.
        timeout: Duration,
    },
    /// Compression was switched on during the run, but its thread could not be started. The next closed log tries again.
    CompressionNotStarted {
        /// Error of the operating system.
        error: &'a io::Error,
    },
    /// A closed log could not be compressed. It stays unchanged until the next attempt.
    CompressionFailed {
        /// Error of the attempt.
        error: &'a RewriteError,
        /// Path of the log.
        log: &'a Path,
        /// Time until the next attempt.
        pause: Duration,
    },
}
