//! Progress of one dump: the client's position, and the bytes saved by its form.

use std::sync::Arc;

use crate::form_chunk::{FormChunk, TransactionMark};
use crate::sent_transactions::SentTransaction;

/// Progress of one dump. Transactions skipped because the client has them count as passed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DumpProgress {
    /// Number of transactions of the present log that have passed.
    pub transactions: u64,
    /// Bytes by which the sent payloads are smaller than their transactions.
    pub saved_bytes: u64,
    /// Commit time of the last passed transaction, in microseconds since 1970, on the server that wrote the log.
    pub committed_us: Option<u64>,
    /// Commit time of the open transaction.
    open_us: Option<u64>,
}

impl DumpProgress {
    /// Counts a transaction that was sent.
    pub(crate) const fn add_sent(&mut self, sent: &SentTransaction) {
        self.saved_bytes += sent.uncompressed_bytes.saturating_sub(sent.compressed_bytes);
    }

    /// Records that all events of a chunk have passed.
    pub(crate) fn end_chunk(&mut self, chunk: &FormChunk) {
        let (slices, marks) = (chunk.slices(), chunk.transactions());
        self.transactions = chunk.transactions_before(slices.len());
        let last_end = slices.iter().rposition(|slice| slice.is_end_of_transaction());
        if let Some(end) = last_end {
            let started = marks.partition_point(|mark| mark.slice <= end);
            self.committed_us = match started.checked_sub(1) {
                Some(mark) => commit_time_us(&marks[mark]),
                None => self.open_us,
            };
        }
        if let Some(mark) = marks.last().filter(|mark| last_end.is_none_or(|end| mark.slice > end)) {
            self.open_us = commit_time_us(mark);
        }
    }

    /// Records the start of another log.
    pub(crate) const fn begin_log(&mut self) {
        self.transactions = 0;
    }
}

/// Returns the commit time of a transaction; `None` if the log has none.
fn commit_time_us(mark: &TransactionMark) -> Option<u64> {
    Some(mark.committed_us).filter(|us| *us > 0)
}

/// Progress of one dump, visible to other threads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientProgress {
    /// Log that is being read.
    pub log: Arc<str>,
    /// Position in the form after the last taken event, with the stored checksums.
    pub position: u64,
    /// Progress up to this position.
    pub dump: DumpProgress,
    /// Last time at which all available events were sent, in microseconds since 1970.
    pub caught_up_us: Option<u64>,
}
