//! Why changes cannot be told.

use std::io;

use binlog::{DecodeError, PayloadError};

/// Why changes cannot be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] logs::Error),
    /// An event is corrupt, or cannot stand where it stands.
    #[error("{log} is corrupt at {offset}: {reason}")]
    Corrupt {
        /// The log.
        log: String,
        /// Where the event starts.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// Rows of a table whose columns have no names.
    #[error(
        "{log} at {offset}: the log does not say what the columns of {table} are called: set \
         binlog_row_metadata=FULL on the source for what it writes from now on, or have them called as the definitions \
         in the logs do (--schema=ddl) or a server does (--schema=mysql://…), or @1, @2 and so on (--columns=numbered)"
    )]
    Nameless {
        /// The log.
        log: String,
        /// Where the rows stand.
        offset: u64,
        /// The table.
        table: String,
    },
    /// Rows of a table whose columns have no names in the log, and that the catalogue does not have.
    #[error(
        "{log} at {offset}: the log does not say what the columns of {table} are called, and the server has no such \
         table, or one with other columns, or the account may not see it (SELECT): if it was altered since, have them \
         called as the definitions in the logs do (--schema=ddl), or @1, @2 and so on (--columns=numbered); set \
         binlog_row_metadata=FULL on the source for what it writes from now on"
    )]
    Unfit {
        /// The log.
        log: String,
        /// Where the rows stand.
        offset: u64,
        /// The table.
        table: String,
    },
    /// Rows of a table whose columns have no names in the log, and of which no definition was found there.
    #[error(
        "{log} at {offset}: the log does not say what the columns of {table} are called, and no definition of it stands \
         in what was read in front of that, or one that was not understood: begin with an older log, or ask a server \
         (--schema=mysql://…), or give --columns=numbered to have them called @1, @2 and so on"
    )]
    Undefined {
        /// The log.
        log: String,
        /// Where the rows stand.
        offset: u64,
        /// The table.
        table: String,
    },
    /// A server's catalogue cannot be asked.
    #[error("could not ask the server about the columns of {table}: {reason}")]
    Catalogue {
        /// The table.
        table: String,
        /// Why.
        reason: String,
    },
    /// A value of a row that was read by SQL.
    #[error(
        "the server sent {found:?} for column {column} of {table}, which is no value of that column's type: was it \
         defined anew meanwhile?"
    )]
    Row {
        /// The table.
        table: String,
        /// The column's number, from 1.
        column: usize,
        /// How the value begins.
        found: String,
    },
    /// A change that stands in the log as a statement.
    #[error(
        "{log} at {offset}: rows are changed by a statement, and the log does not say which ({statement} …): set \
         binlog_format=ROW on the source, or give --skip-statements to pass over such changes"
    )]
    Statement {
        /// The log.
        log: String,
        /// Where the statement stands.
        offset: u64,
        /// How it begins.
        statement: String,
    },
    /// Something that the log cannot tell.
    #[error(
        "{log} at {offset}: the source could not write all changes to its log (an incident): read its tables anew"
    )]
    Incident {
        /// The log.
        log: String,
        /// Where the incident stands.
        offset: u64,
    },
    /// A run cannot be resumed there.
    #[error("{log} cannot be resumed at {position}: {reason}")]
    Resume {
        /// The log.
        log: String,
        /// Where to go on, as it was said.
        position: u64,
        /// What was found there.
        reason: String,
    },
    /// A log ends within a transaction.
    #[error("{log} ends within the transaction that starts at {start}: what was told of it is not all of it")]
    Cut {
        /// The log.
        log: String,
        /// Where the transaction starts.
        start: u64,
    },
    /// Records cannot be written, or those that wait for their transaction's end not be stored.
    #[error("could not write records: {0}")]
    Write(#[from] io::Error),
}

/// Why an event cannot be told.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// Its bytes are wrong.
    Fault(Fault),
    Error(Error),
}

impl<F: Into<Fault>> From<F> for Refusal {
    fn from(fault: F) -> Self {
        Self::Fault(fault.into())
    }
}

impl Refusal {
    /// Of the event that starts there.
    pub(crate) fn at(self, log: &str, offset: u64) -> Error {
        match self {
            Self::Fault(fault) => Error::Corrupt { log: log.to_owned(), offset, reason: fault.to_string() },
            Self::Error(error) => error,
        }
    }
}

/// What is wrong with an event's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error(transparent)]
    Payload(#[from] PayloadError),
    #[error("an ENUM or SET has a value without a text in its definition")]
    NoText,
}
