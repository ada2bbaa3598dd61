//! Compression statistics of received and stored transactions, counted as in
//! `performance_schema.binary_log_transaction_compression_stats`.

use binlog::{EventFormat, RawEvent};
use inspect::stats::{CompressionCounter, CompressionRow, LogType};

/// Rows of the table: RELAY for received transactions, BINARY for stored transactions.
#[derive(Clone, Debug)]
pub struct CompressionStatistics {
    received: CompressionCounter,
    kept: CompressionCounter,
    /// Transactions of the log that is being written, as received.
    open_log: CompressionCounter,
    /// Time at which the transactions of this log count as stored.
    keeping: StoredFormCount,
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
            open_log: CompressionCounter::of(LogType::Binary),
            keeping: StoredFormCount::OnReceipt,
        }
    }
}

impl CompressionStatistics {
    /// Counts a stored event. Ignores an event that cannot be decoded.
    pub fn event(&mut self, event: &RawEvent<'_>, format: &EventFormat) {
        let _ = self.received.add_event(event, format);
        let _ = self.open_log.add_event(event, format);
    }

    /// Resets the statistics.
    pub(crate) fn reset(&mut self) {
        self.received.reset();
        self.kept.reset();
        if self.keeping == StoredFormCount::OnReceipt {
            self.open_log.reset();
        }
    }

    /// Sets the time at which the transactions of the next log count as stored. Returns the counts of the log that was
    /// just closed, as received, unless they count already.
    pub(crate) fn close_log(&mut self, next: StoredFormCount) -> Option<CompressionCounter> {
        let closed = self.open_log.take();
        match std::mem::replace(&mut self.keeping, next) {
            StoredFormCount::OnReceipt => {
                self.kept.merge(closed);
                None
            }
            StoredFormCount::OnCompression => Some(closed),
        }
    }

    /// Adds the counts of a log in its final form.
    pub(crate) fn log(&mut self, counted: CompressionCounter) {
        self.kept.merge(counted);
    }

    /// Returns the rows in the table's order.
    pub fn rows(&self) -> Vec<CompressionRow> {
        let mut kept = self.kept.clone();
        if self.keeping == StoredFormCount::OnReceipt {
            kept.merge(self.open_log.clone());
        }
        [kept.rows(), self.received.rows()].concat()
    }

    /// Returns the bytes saved by the source's compression.
    pub fn saved_by_source(&self) -> u64 {
        let saved = |row: &CompressionRow| {
            row.uncompressed_bytes_counter.saturating_sub(row.compressed_bytes_counter)
        };
        self.received.rows().iter().map(saved).sum()
    }
}

#[cfg(test)]
mod tests {
    use binlog::{EventType, RawEvent};
    use inspect::stats::LogType;
    use logs::LogReader;

    use super::{CompressionStatistics, StoredFormCount};

    fn add_sample(statistics: &mut CompressionStatistics) {
        let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/json.binlog");
        let mut reader = LogReader::open(sample).unwrap();
        while let logs::ReadOutcome::Some(chunk) = reader.next_chunk(1 << 20).unwrap() {
            for event in chunk.iter() {
                let raw: &RawEvent<'_> = &event.raw;
                assert!(raw.event_type() != EventType::TransactionPayload);
                statistics.event(raw, chunk.format());
            }
        }
    }

    fn stored(statistics: &CompressionStatistics) -> u64 {
        let rows = statistics.rows();
        let stored = rows.iter().filter(|row| row.log_type == LogType::Binary);
        stored.map(|row| row.transaction_counter).sum()
    }

    #[test]
    fn transactions_count_once_while_compression_is_switched() {
        let mut statistics = CompressionStatistics::default();
        add_sample(&mut statistics);
        let log = stored(&statistics);
        assert!(log > 0);
        // Compression was switched on while this log was written: it counts as received.
        assert!(statistics.close_log(StoredFormCount::OnCompression).is_none());
        assert_eq!(stored(&statistics), log);
        add_sample(&mut statistics);
        assert_eq!(stored(&statistics), log);
        // Compression was switched off while this log was written.
        let left = statistics.close_log(StoredFormCount::OnReceipt).unwrap();
        assert_eq!(left.transactions(), log);
        statistics.log(left);
        assert_eq!(stored(&statistics), 2 * log);
        add_sample(&mut statistics);
        assert_eq!(stored(&statistics), 3 * log);
        statistics.reset();
        assert_eq!(stored(&statistics), 0);
    }
}
