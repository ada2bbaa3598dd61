//! What stops an inspection.

use binlog::{CompressError, DecodeError, PayloadError, ResizeError};

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
    /// MariaDB wrote the log: its servers know no compressed transactions, and MySQL's would not read its own.
    #[error("{name} is of MariaDB ({server}), which has no transaction compression of this kind")]
    Mariadb {
        /// The log.
        name: String,
        /// The version of its server.
        server: String,
    },
    /// Another log follows in the same file.
    #[error("{name} holds a second log: cut the file in two")]
    SecondLog {
        /// The file.
        name: String,
    },
    /// An event could not be written anew, to see how large it would be.
    #[error("{name}: {error}")]
    Resize {
        /// The log.
        name: String,
        /// What is wrong.
        #[source]
        error: ResizeError,
    },
    /// A log was changed while it was read.
    #[error("{name} was changed while it was read")]
    Changed {
        /// The log.
        name: String,
    },
    /// There is no level to measure at.
    #[error("no level to measure at was given")]
    NoLevel,
    /// zstd cannot go on.
    #[error("could not compress: {0}")]
    Compress(#[from] CompressError),
    /// Whoever asked wants no more.
    #[error("stopped")]
    Stopped,
}

impl From<logs::ordered::Stopped> for Error {
    fn from(_: logs::ordered::Stopped) -> Self {
        Self::Stopped
    }
}
