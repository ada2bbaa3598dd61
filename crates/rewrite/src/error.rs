//! Why a log could not be rewritten.

use std::io;

use binlog::{CompressError, DecodeError, PayloadError};
use logs::ordered::Stopped;

/// Why a log could not be rewritten.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] logs::Error),
    /// An event in it is not as it must be.
    #[error("{name} at {offset}: {reason}")]
    Corrupt {
        /// The log.
        name: String,
        /// Where the event starts, in bytes from the start of the log.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// Its format description does not know compressed transactions.
    #[error(
        "{name} is of {server}, from before compressed transactions: its format description counts {event_types} \
         event types, and it takes 40"
    )]
    Format {
        /// The log.
        name: String,
        /// Who wrote it.
        server: String,
        /// How many event types the format description counts.
        event_types: usize,
    },
    /// It is of MariaDB, which has another way to compress.
    #[error("{name} is of {server}: readers of MariaDB's logs do not know compressed transactions")]
    Mariadb {
        /// The log.
        name: String,
        /// Who wrote it.
        server: String,
    },
    /// zstd cannot go on.
    #[error("could not compress: {0}")]
    Compress(#[from] CompressError),
    /// What was made cannot be written.
    #[error("could not write {what}: {cause}")]
    Write {
        /// What was to be written.
        what: String,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// Whoever asked for it wanted no more.
    #[error("interrupted; {name} is as it was")]
    Interrupted {
        /// The log.
        name: String,
    },
    /// It changed while it was read.
    #[error("{name} changed while it was read; it was left as it is")]
    Changed {
        /// The log.
        name: String,
    },
    /// It may not be replaced: see [`FileJob::may_replace`](crate::FileJob::may_replace).
    #[error("{name} is being written to; it was left as it is")]
    InUse {
        /// The log.
        name: String,
    },
    /// Another error came before, or nobody wants more.
    #[error("stopped")]
    Stopped,
}

impl From<Stopped> for Error {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// Which event of which log, for errors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct At<'n> {
    pub(crate) name: &'n str,
    pub(crate) offset: u64,
}

impl At<'_> {
    pub(crate) fn decode(self, error: DecodeError) -> Error {
        self.corrupt(&error)
    }

    pub(crate) fn payload(self, error: PayloadError) -> Error {
        self.corrupt(&error)
    }

    pub(crate) fn corrupt(self, reason: &dyn std::fmt::Display) -> Error {
        Error::Corrupt { name: self.name.to_owned(), offset: self.offset, reason: reason.to_string() }
    }
}
