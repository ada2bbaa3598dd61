//! What stops an inspection.

use binlog::{DecodeError, PayloadError};

/// What stops an inspection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] logs::Error),
    /// An event cannot be decoded.
    #[error("{name} at {offset}: {error}")]
    Event {
        /// The log.
        name: String,
        /// Where the event starts: bytes from the start of the log.
        offset: u64,
        /// What is wrong, with a place counted from the event's first byte.
        #[source]
        error: DecodeError,
    },
    /// A payload cannot be opened, or an event in it not decoded.
    #[error("{name} at {offset}: {error}")]
    Payload {
        /// The log.
        name: String,
        /// Where the payload's event starts: bytes from the start of the log.
        offset: u64,
        /// What is wrong, and where in the payload.
        #[source]
        error: PayloadError,
    },
    /// Whoever asked wants no more.
    #[error("stopped")]
    Stopped,
}

impl From<logs::ordered::Stopped> for Error {
    fn from(_: logs::ordered::Stopped) -> Self {
        Self::Stopped
    }
}
