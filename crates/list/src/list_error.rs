//! Errors of a list.

use std::io;

use binlog::{DecodeError, PayloadError};
use logs::ordered::PipelineShutdown;

/// Errors of a list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// A log cannot be read, or is corrupt.
    #[error(transparent)]
    Log(#[from] logs::LogError),
    /// An event is corrupt.
    #[error("{log_name} at {position}{}: {error}", InnerOffset(inner))]
    Event {
        /// The log's name.
        log_name: String,
        /// Start of the event; inside a payload, start of the payload's event.
        position: u64,
        /// Start of the event inside a payload.
        inner: Option<u64>,
        /// The error, with an offset from the event's first byte.
        #[source]
        error: DecodeError,
    },
    /// A payload cannot be decompressed to its end.
    #[error("{log_name} at {position}: {error}")]
    Payload {
        /// The log's name.
        log_name: String,
        /// Start of the payload's event.
        position: u64,
        /// The error.
        #[source]
        error: PayloadError,
    },
    /// A condition names a column, but the log has no column names.
    #[error("{log_name} at {position}: the log has no column names (binlog_row_metadata=MINIMAL)")]
    NoColumnNames {
        /// The log's name.
        log_name: String,
        /// Start of the event.
        position: u64,
    },
    /// The output cannot be written.
    #[error("could not write the output: {0}")]
    Write(#[source] io::Error),
    /// The caller stopped the work, or its output was closed. A closed output is never returned to callers.
    #[error("stopped")]
    Stopped,
}

struct InnerOffset<'e>(&'e Option<u64>);

impl std::fmt::Display for InnerOffset<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(offset) => write!(out, ", in the event at uncompressed byte {offset} of its payload"),
            None => Ok(()),
        }
    }
}

impl From<PipelineShutdown> for ListError {
    fn from(_: PipelineShutdown) -> Self {
        Self::Stopped
    }
}
