//! Parts of a transaction's content.

use std::fmt;

use binlog::EventType;
use binlog::events::RowsKind;

use crate::content_hash::{ContentHash, HashedBytes};

/// Part of a transaction's content.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ContentPart<'a> {
    /// Number of the part's statement in the transaction, from 1.
    pub(crate) statement: u64,
    pub(crate) body: PartBody<'a>,
    /// Hash of the body.
    pub(crate) hash: ContentHash,
}

/// Body of a part.
#[derive(Clone, Copy, Debug)]
pub(crate) enum PartBody<'a> {
    /// Row changes of one kind and one table by one statement.
    Rows(RowsPart<'a>),
    /// Statement as SQL text.
    Statement { database: &'a [u8], sql: &'a [u8] },
    /// `LOAD DATA` statement with its file.
    LoadData { database: &'a [u8], sql: &'a [u8], file: ContentHash },
    /// Variable that the next statement uses.
    Variable(EventType),
    /// End of the transaction.
    Outcome(TransactionOutcome),
    /// Event of another type.
    Other(EventType),
}

/// Row changes of one kind and one table by one statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowsPart<'a> {
    pub(crate) kind: RowsKind,
    pub(crate) database: &'a [u8],
    pub(crate) table: &'a [u8],
    pub(crate) rows: u64,
    /// Hash of the columns' types.
    pub(crate) types: ContentHash,
    /// Hash of the column sets of the images.
    pub(crate) column_sets: ContentHash,
}

/// End of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionOutcome {
    /// Committed, by a transaction identifier or by `COMMIT`.
    Committed,
    /// Rolled back: only changes of nontransactional tables remain.
    RolledBack,
    /// Prepared as the first phase of an XA transaction.
    Prepared,
}

impl fmt::Display for TransactionOutcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Committed => "COMMIT",
            Self::RolledBack => "ROLLBACK",
            Self::Prepared => "XA PREPARE",
        })
    }
}

/// First bytes of the hashed forms of parts.
#[derive(Clone, Copy)]
pub(crate) enum PartTag {
    Rows = 1,
    Statement = 2,
    LoadData = 3,
    Variable = 4,
    Outcome = 5,
    Other = 6,
}

impl HashedBytes {
    /// Starts the hashed form of a part.
    pub(crate) fn start(&mut self, tag: PartTag) {
        self.clear();
        self.put(&[tag as u8]);
    }
}
