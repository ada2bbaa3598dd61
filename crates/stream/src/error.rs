//! Errors of streaming changes.

use std::io;
use std::sync::Arc;

use binlog::{DecodeError, PayloadError};

use crate::column_catalogue::CatalogueError;

/// Error of streaming changes.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StreamError {
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] logs::LogError),
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
    /// Rows of a table without column names.
    #[error(
        "{log} at {offset}: the log has no column names for {table}: take them from the DDL statements in the logs \
      (--schema=ddl) or from a server (--schema=mysql://…), or number the columns (--columns=numbered); for future \
      logs, set binlog_row_metadata=FULL on the source"
    )]
    UnnamedColumns {
        /// Name of the log.
        log: String,
        /// Start of the rows event.
        offset: u64,
        /// Database and name of the table.
        table: String,
    },
    /// Rows of a table without column names, which the server does not have either.
    #[error(
        "{log} at {offset}: the log has no column names for {table}, and the server has no matching table (it was \
       dropped or altered since, or the account lacks SELECT on it): take the names from the DDL statements in the \
       logs (--schema=ddl), or number the columns (--columns=numbered); for future logs, set \
       binlog_row_metadata=FULL on the source"
    )]
    NotOnServer {
        /// Name of the log.
        log: String,
        /// Start of the rows event.
        offset: u64,
        /// Database and name of the table.
        table: String,
    },
    /// Rows of a table without column names, for which no usable DDL statement was read.
    #[error(
        "{log} at {offset}: the log has no column names for {table}, and no earlier DDL statement that bintide can \
      parse defines the table: start with an older log, take the names from a server (--schema=mysql://…), or \
      number the columns (--columns=numbered)"
    )]
    UndefinedTable {
        /// Name of the log.
        log: String,
        /// Start of the rows event.
        offset: u64,
        /// Database and name of the table.
        table: String,
    },
    /// A value of an ENUM or SET that the column's definition lacks.
    #[error(
        "{log} at {offset}: {column} has a value that is not among the members of its ENUM or SET, probably because they \
      were changed later: take the definitions from the DDL statements in the logs (--schema=ddl), or write the numbers \
      of such members (--columns=numbered)"
    )]
    UnknownMember {
        /// Name of the log.
        log: String,
        /// Start of the rows event.
        offset: u64,
        /// `database.table.column`
        column: String,
    },
    /// The query of a server's catalogue failed.
    #[error("could not query the columns of {table} on the server: {cause}")]
    Catalogue {
        /// Database and name of the table.
        table: String,
        /// Error of the query.
        #[source]
        cause: CatalogueError,
    },
    /// A snapshot row has a value that is not of its column's type.
    #[error(
        "the server sent {found:?} for column {column} of {table}, which does not match the column's type: if the \
      table was altered meanwhile, start again"
    )]
    SnapshotValue {
        /// Database and name of the table.
        table: String,
        /// Number of the column, from 1.
        column: usize,
        /// Start of the value.
        found: String,
    },
    /// A change that the log contains as a statement.
    #[error(
        "{log} at {offset}: a statement changes rows, and the log does not contain these rows ({statement} …): set \
      binlog_format=ROW on the source, or skip such statements with --skip-statements"
    )]
    Statement {
        /// Name of the log.
        log: String,
        /// Start of the event.
        offset: u64,
        /// Start of the statement.
        statement: String,
    },
    /// Changes that the source could not log.
    #[error(
        "{log} at {offset}: the source could not log all changes (an incident event), so records would be missing: read its \
         tables again, for example with --from and --snapshot"
    )]
    Incident {
        /// Name of the log.
        log: String,
        /// Start of the incident event.
        offset: u64,
    },
    /// The run cannot resume at this position.
    #[error("cannot resume {log} at {position}: {reason}")]
    Resume {
        /// Name of the log.
        log: String,
        /// Requested position.
        position: u64,
        /// Reason.
        reason: String,
    },
    /// A log ends within a transaction.
    #[error("{log} ends within the transaction that starts at {start}: its records are incomplete")]
    TornTransaction {
        /// Name of the log.
        log: String,
        /// Start of the transaction.
        start: u64,
    },
    /// Records cannot be written, or cannot be spooled until their transaction ends.
    #[error("could not write records: {0}")]
    Write(#[from] io::Error),
}

/// Error of a single event, whose position the caller adds.
#[derive(Debug)]
pub(crate) enum EventError {
    /// The event is corrupt.
    Corrupt(CorruptEvent),
    Error(StreamError),
}

impl<F: Into<CorruptEvent>> From<F> for EventError {
    fn from(fault: F) -> Self {
        Self::Corrupt(fault.into())
    }
}

impl EventError {
    /// Adds the position of the event.
    pub(crate) fn at(self, log: &str, offset: u64) -> StreamError {
        match self {
            Self::Corrupt(CorruptEvent::UnknownMember { column }) => {
                StreamError::UnknownMember { log: log.to_owned(), offset, column: column.to_string() }
            }
            Self::Corrupt(fault) => {
                StreamError::Corrupt { log: log.to_owned(), offset, reason: fault.to_string() }
            }
            Self::Error(error) => error,
        }
    }
}

/// Corruption of an event.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum CorruptEvent {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error("{column} has a value that is not among the members of its ENUM or SET")]
    UnknownMember {
        /// `database.table.column`
        column: Arc<str>,
    },
}
