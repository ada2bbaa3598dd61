//! Errors of rewriting a log.

use std::io;

use binlog::{CompressError, DecodeError, PayloadError};
use logs::ordered::PipelineShutdown;

/// Error of rewriting a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RewriteError {
    /// The log cannot be read.
    #[error(transparent)]
    Read(#[from] logs::LogError),
    /// An event of the log is corrupt.
    #[error("{name} at {offset}: {reason}")]
    Corrupt {
        /// The log.
        name: String,
        /// Start of the event, in bytes from the start of the log.
        offset: u64,
        /// Description of the fault.
        reason: String,
    },
    /// The format description has too few event types for compressed transactions.
    #[error(
        "cannot compress {name}: MySQL {server} has no compressed transactions (its format description has \
         {event_types} event types; 40 are needed)"
    )]
    Format {
        /// The log.
        name: String,
        /// Version of the server that wrote it.
        server: String,
        /// Number of event types in the format description.
        event_types: usize,
    },
    /// MariaDB wrote the log. MariaDB compresses single events, not transactions.
    #[error(
        "cannot compress {name}: MariaDB ({server}) wrote it, and MariaDB has no compressed transactions"
    )]
    Mariadb {
        /// The log.
        name: String,
        /// Version of the server that wrote it.
        server: String,
    },
    /// zstd failed.
    #[error("could not compress: {0}")]
    Compress(#[from] CompressError),
    /// The output cannot be written.
    #[error("could not write {what}: {cause}")]
    Write {
        /// The output that was being written.
        what: String,
        /// Error of the operating system.
        #[source]
        cause: io::Error,
    },
    /// The log cannot be replaced, because this user may not create files of the log's owner.
    #[error("could not replace {name}: this user may not keep its owner and group")]
    Owner {
        /// The log.
        name: String,
    },
    /// The caller interrupted the work.
    #[error("interrupted; {name} is unchanged")]
    Interrupted {
        /// The log.
        name: String,
    },
    /// The log changed while it was read.
    #[error("{name} changed while it was read; it was not rewritten")]
    Changed {
        /// The log.
        name: String,
    },
    /// A process is writing to the log, so the log must not be replaced: see
    /// [`FileJob::may_replace`](crate::FileJob::may_replace).
    #[error("{name} is being written to; it was not rewritten")]
    InUse {
        /// The log.
        name: String,
    },
    /// The work stopped early: after another error, or because the caller stopped it.
    #[error("stopped")]
    Stopped,
}

impl From<PipelineShutdown> for RewriteError {
    fn from(_: PipelineShutdown) -> Self {
        Self::Stopped
    }
}

/// Log name and event offset, for errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ErrorContext<'n> {
    pub(crate) name: &'n str,
    pub(crate) offset: u64,
}

impl ErrorContext<'_> {
    pub(crate) fn decode_error(self, error: DecodeError) -> RewriteError {
        self.corrupt_error(&error)
    }

    pub(crate) fn payload_error(self, error: PayloadError) -> RewriteError {
        self.corrupt_error(&error)
    }

    pub(crate) fn corrupt_error(self, reason: &dyn std::fmt::Display) -> RewriteError {
        RewriteError::Corrupt { name: self.name.to_owned(), offset: self.offset, reason: reason.to_string() }
    }
}
