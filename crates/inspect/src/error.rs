//! Errors that end an inspection.

use binlog::{CompressError, DecodeError, GtidRewriteError, PayloadError};

/// Error that ends an inspection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InspectError {
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] logs::LogError),
    /// An event cannot be decoded.
    #[error("{name} at {offset}: {error}")]
    Event {
        /// The log.
        name: String,
        /// Start of the event, in bytes from the start of the log.
        offset: u64,
        /// The error, with an offset from the event's first byte.
        #[source]
        error: DecodeError,
    },
    /// A payload, or an event in it, cannot be decoded.
    #[error("{name} at {offset}: {error}")]
    Payload {
        /// The log.
        name: String,
        /// Start of the payload event, in bytes from the start of the log.
        offset: u64,
        /// The error, and its position in the payload.
        #[source]
        error: PayloadError,
    },
    /// MariaDB wrote the log. MariaDB has no compressed transactions, and MySQL does not read its logs.
    #[error("cannot measure {name}: MariaDB ({server}) wrote it, and MariaDB has no compressed transactions")]
    Mariadb {
        /// The log.
        name: String,
        /// Version of its server.
        server: String,
    },
    /// An event could not be encoded again to compute its size.
    #[error("{name}: {error}")]
    Resize {
        /// The log.
        name: String,
        /// The error.
        #[source]
        error: GtidRewriteError,
    },
    /// A log was changed while it was read.
    #[error("{name} was changed while it was read")]
    Changed {
        /// The log.
        name: String,
    },
    /// No level to measure was given.
    #[error("no level to measure was given")]
    NoLevel,
    /// zstd failed.
    #[error("could not compress: {0}")]
    Compress(#[from] CompressError),
    /// The caller stopped the inspection.
    #[error("stopped")]
    Stopped,
}

impl From<logs::ordered::PipelineShutdown> for InspectError {
    fn from(_: logs::ordered::PipelineShutdown) -> Self {
        Self::Stopped
    }
}
