//! A whole source transaction, and its position.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use binlog::events::LogicalClock;
use binlog::gtid::Gtid;
use binlog::{Transaction, TransactionId, TransactionOutline};

use crate::source_position::SourcePosition;

/// A whole source transaction.
#[derive(Clone, Debug)]
pub struct SourceTransaction {
    /// Number in source order: 0, 1, 2… over all logs of a replay.
    pub number: u64,
    /// Position in the logs.
    pub origin: TransactionOrigin,
    /// Outline and events.
    pub transaction: Transaction,
}

/// A transaction without its events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionHead {
    /// As [`SourceTransaction::number`].
    pub number: u64,
    /// Position in the logs.
    pub origin: TransactionOrigin,
    /// Identifier.
    pub id: TransactionId,
    /// Logical clock: tells which transactions may run in parallel.
    pub clock: Option<LogicalClock>,
    /// Commit time on the server that wrote this log, in microseconds since 1970. Before MySQL 8.0.1: the start time,
    /// in whole seconds.
    pub committed_us: u64,
}

/// Position of a transaction. Progress and selections use positions in the source's log: these stay the same when
/// `bintide compress` or `bintide decompress` rewrites the file. Messages name the position in the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionOrigin {
    /// The log, as given: a path, or `standard input`.
    pub log: Arc<str>,
    /// The log's name on the source's server: the last part of the path. For standard input, a name made of server,
    /// time and first transaction, which distinguishes the logs.
    pub log_name: Arc<str>,
    /// The log's number in the replay: 0, 1, 2…
    pub log_number: usize,
    /// Start of the first event, in bytes from the start of the source's log.
    pub start: u64,
    /// End of the last event in the source's log.
    pub end: u64,
    /// The transaction's bytes in the file. Differs from `start` and `end` if the file was rewritten.
    pub file_range: Range<u64>,
}

impl TransactionOrigin {
    /// Returns the start as a position in the source's log.
    pub fn start_position(&self) -> SourcePosition {
        SourcePosition { log: self.log_name.to_string(), position: self.start }
    }

    /// Returns the end as a position in the source's log.
    pub fn end_position(&self) -> SourcePosition {
        SourcePosition { log: self.log_name.to_string(), position: self.end }
    }
}

impl SourceTransaction {
    /// Returns the transaction without its events.
    pub fn head(&self) -> TransactionHead {
        TransactionHead::of(self.number, self.origin.clone(), self.transaction.outline())
    }
}

impl TransactionHead {
    /// Creates a head from a transaction's outline.
    pub(crate) fn of(number: u64, origin: TransactionOrigin, outline: &TransactionOutline) -> Self {
        let committed_us = committed_us(outline);
        Self { number, origin, id: outline.id, clock: outline.clock, committed_us }
    }

    /// Returns the GTID, if the transaction has one in MySQL's form.
    pub const fn gtid(&self) -> Option<Gtid> {
        match self.id {
            TransactionId::Gtid(gtid) => Some(gtid),
            _ => None,
        }
    }
}

/// Returns the value of [`TransactionHead::committed_us`].
pub(crate) fn committed_us(outline: &TransactionOutline) -> u64 {
    let began_us = u64::from(outline.timestamp) * 1_000_000;
    outline.stamps.map_or(began_us, |stamps| stamps.immediate_commit_us)
}

/// Format for messages: log, position in the file, GTID.
impl fmt::Display for TransactionHead {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} at {} ({})", self.origin.log, self.origin.file_range.start, self.id)
    }
}
