//! Errors of this crate.

use std::io;
use std::path::PathBuf;

use arrow_schema::ArrowError;
use binlog::{DecodeError, PayloadError};
use parquet::errors::ParquetError;
use stream::StreamError;

/// Error of turning logs into columns.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ColumnsError {
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] logs::LogError),
    /// The names of a table's columns are not known, or a server cannot be queried for them.
    #[error(transparent)]
    Names(#[from] StreamError),
    /// An event is corrupt, or not allowed at its position.
    #[error("{log} at {offset}: {reason}")]
    Corrupt {
        /// Name of the log.
        log: String,
        /// Start of the event.
        offset: u64,
        /// Reason.
        reason: String,
    },
    /// The log has only the changes of a JSON document, and not the document.
    #[error(
        "{log} at {offset}: the log has only changes of the JSON column {column} of {table}, and not the document before \
         them: set binlog_row_image=FULL on the source, or unset PARTIAL_JSON in binlog_row_value_options"
    )]
    PartialJson {
        /// Name of the log.
        log: String,
        /// Start of the rows event.
        offset: u64,
        /// Database and name of the table.
        table: String,
        /// Name of the column.
        column: String,
    },
    /// Changes that the source could not log.
    #[error(
        "{log} at {offset}: the source could not log all changes (an incident event), so changes would be missing: export \
         the logs before and after this one separately"
    )]
    Incident {
        /// Name of the log.
        log: String,
        /// Start of the incident event.
        offset: u64,
    },
    /// The directory has an export of another selection, whose files would be replaced.
    #[error(
        "{} has an export of {known}: a different selection would replace its files; give another directory",
        directory.display()
    )]
    OtherSelection {
        /// Directory of the export.
        directory: PathBuf,
        /// The selection.
        known: String,
    },
    /// A log ends within a transaction.
    #[error(
        "{log} ends within the transaction that starts at {start}: if a server is writing the log, try again"
    )]
    TornTransaction {
        /// Name of the log.
        log: String,
        /// Start of the transaction.
        start: u64,
    },
    /// Arrays do not make up a batch.
    #[error("could not build a record batch of {table}: {cause}")]
    Batch {
        /// Database and name of the table.
        table: String,
        /// Error of the library.
        #[source]
        cause: ArrowError,
    },
    /// A Parquet file cannot be written.
    #[error("could not write {}: {cause}", path.display())]
    Parquet {
        /// Path of the file.
        path: PathBuf,
        /// Error of the library.
        #[source]
        cause: ParquetError,
    },
    /// A file or directory cannot be used.
    #[error("could not {action} {}: {cause}", path.display())]
    File {
        /// Attempted action: a verb.
        action: &'static str,
        /// Path of the file or directory.
        path: PathBuf,
        /// Error of the system.
        #[source]
        cause: io::Error,
    },
    /// A list of the columns of a table's files is damaged.
    #[error(
        "{} is damaged: restore this list of columns from a copy, or move the table's files to another directory and \
         delete the list",
        path.display()
    )]
    ColumnList {
        /// Path of the list.
        path: PathBuf,
    },
    /// A thread has panicked.
    #[error(transparent)]
    Panic(#[from] logs::ThreadPanic),
    /// The caller has stopped the work.
    #[error("stopped")]
    Stopped,
}

/// Error of a single event, whose position the caller adds.
#[derive(Debug)]
pub(crate) enum EventFailure {
    /// The event is corrupt.
    Corrupt(String),
    Error(ColumnsError),
}

impl EventFailure {
    /// Adds the position of the event.
    pub(crate) fn at(self, log: &str, offset: u64) -> ColumnsError {
        match self {
            Self::Corrupt(reason) => ColumnsError::Corrupt { log: log.to_owned(), offset, reason },
            Self::Error(error) => error,
        }
    }
}

impl From<DecodeError> for EventFailure {
    fn from(error: DecodeError) -> Self {
        Self::Corrupt(error.to_string())
    }
}

impl From<PayloadError> for EventFailure {
    fn from(error: PayloadError) -> Self {
        Self::Corrupt(error.to_string())
    }
}

impl From<ColumnsError> for EventFailure {
    fn from(error: ColumnsError) -> Self {
        Self::Error(error)
    }
}

impl From<StreamError> for EventFailure {
    fn from(error: StreamError) -> Self {
        Self::Error(error.into())
    }
}
