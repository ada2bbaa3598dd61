//! Compression statistics of received and stored transactions, counted as in
//! `performance_schema.binary_log_transaction_compression_stats`.

use binlog::{EventFormat, RawEvent};
use inspect::stats::{CompressionCounter, CompressionRow, LogType};

/// Rows of the table: RELAY for received transactions, BINARY for stored transactions.
#[derive(Clone, Debug)]
pub struct CompressionStatistics {
    received: CompressionCounter,
    kept: CompressionCounter,
    /// Time at which a received transaction counts as stored.
    pub(crate) keeping: StoredFormCount,
}

/// Time at which a received transaction has its final form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoredFormCount {
    /// On receipt.
    OnReceipt,
    /// After the compression of its log.
    OnCompression,
}

impl Default for CompressionStatistics {
    fn default() -> Self {
        Self {
            received: CompressionCounter::of(LogType::Relay),
            kept: CompressionCounter::of(LogType::Binary),
            keeping: StoredFormCount::OnReceipt,
        }
    }
}

impl CompressionStatistics {
    /// Counts a stored event. Ignores an event that cannot be decoded.
    pub fn event(&mut self, event: &RawEvent<'_>, format: &EventFormat) {
        let _ = self.received.add_event(event, format);
        if self.keeping == StoredFormCount::OnReceipt {
            let _ = self.kept.add_event(event, format);
        }
    }

    /// Resets the statistics.
    pub(crate) fn reset(&mut self) {
        self.received.reset();
        self.kept.reset();
    }

    /// Adds the counts of a log in its final form.
    pub(crate) fn log(&mut self, counted: CompressionCounter) {
        self.kept.merge(counted);
    }

    /// Returns the rows in the table's order.
    pub fn rows(&self) -> Vec<CompressionRow> {
        [self.kept.rows(), self.received.rows()].concat()
    }

    /// Returns the bytes saved by the source's compression.
    pub fn saved_by_source(&self) -> u64 {
        let saved = |row: &CompressionRow| {
            row.uncompressed_bytes_counter.saturating_sub(row.compressed_bytes_counter)
        };
        self.received.rows().iter().map(saved).sum()
    }
}
