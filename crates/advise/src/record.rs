//! Measurements of transactions, as workers pass them to the tally.

use std::ops::Range;

use binlog::CompressionRefusal;

use super::level_bench::{LevelCost, LevelResult};
use super::network::SentBytes;
use super::transaction_tables::QualifiedTable;

/// Measurements of consecutive transactions of one log.
#[derive(Debug, Default)]
pub(crate) struct MeasuredPart {
    /// Index of the log.
    pub(crate) source: usize,
    pub(crate) records: Vec<TransactionRecord>,
    /// Number of measured records.
    pub(crate) measured: usize,
    /// By measured record and level: the result for its payload.
    pub(crate) made: Vec<LevelResult>,
    /// By measured record and level: its bytes in the log.
    pub(crate) after: Vec<u64>,
    /// Tables of the records, as numbers, and their bytes.
    pub(crate) tables: Vec<(u32, u64)>,
    /// Names of the tables, by number.
    pub(crate) names: Vec<QualifiedTable>,
    /// Sums by level.
    pub(crate) taken: Vec<LevelCost>,
    pub(crate) network: NetworkTraffic,
    /// Payloads for training and measuring a dictionary.
    pub(crate) samples: Vec<Vec<u8>>,
    /// A payload of the log, to find its level.
    pub(crate) probe: Option<PayloadProbe>,
    /// True if a stretch ends here.
    pub(crate) is_end: bool,
    /// Bytes of the log that are done with this part.
    pub(crate) bytes_done: u64,
}

/// A transaction, or the events between two.
#[derive(Clone, Debug)]
pub(crate) struct TransactionRecord {
    pub(crate) kind: RecordKind,
    /// Start of the transaction in the log; 0 if not needed.
    pub(crate) start: u64,
    /// Bytes of the transaction in the log.
    pub(crate) now: u64,
    /// Uncompressed bytes of the transaction.
    pub(crate) plain: u64,
    /// Bytes of the transaction's events inside a payload.
    pub(crate) inner: u64,
    /// Commit time of the transaction, in microseconds since 1970.
    pub(crate) commit_us: u64,
    /// Share of the transaction in the current cell.
    pub(crate) share: CellShare,
    /// Range of the transaction in [`MeasuredPart::tables`].
    pub(crate) tables: Range<usize>,
    /// True if only the front of the transaction was measured.
    pub(crate) is_truncated: bool,
}

/// Kind of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    /// Events between transactions.
    Between,
    /// A transaction that cannot be compressed.
    Refused(CompressionRefusal),
    /// A transaction that was measured.
    Measured {
        /// Number of the record among the measured records of its part.
        number: usize,
        /// True if it is compressed in the log.
        was_compressed: bool,
    },
}

/// Share of a transaction in a cell: a range of its bytes, and their total number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellShare {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) of: u64,
}

/// Network traffic of some of the transactions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct NetworkTraffic {
    /// Bytes of the transactions in the log.
    pub(crate) now: u64,
    /// Traffic with plain transactions.
    pub(crate) plain: SentBytes,
    /// Traffic with transactions compressed at the base level.
    pub(crate) compressed: SentBytes,
}

/// A payload of a log.
#[derive(Clone, Debug)]
pub(crate) struct PayloadProbe {
    pub(crate) inner: Vec<u8>,
    pub(crate) frame: Vec<u8>,
}

impl TransactionRecord {
    /// Creates a record of bytes that are not compressed.
    pub(crate) const fn plain(now: u64, share: CellShare) -> Self {
        Self {
            kind: RecordKind::Between,
            start: 0,
            now,
            plain: now,
            inner: 0,
            commit_us: 0,
            share,
            tables: 0..0,
            is_truncated: false,
        }
    }
}

impl CellShare {
    pub(crate) const fn whole(of: u64) -> Self {
        Self { from: 0, to: of, of }
    }

    /// Returns the part of `whole` in this share. The parts of all shares add up to `whole`.
    pub(crate) fn part(self, whole: u64) -> u64 {
        let up_to = |at: u64| (u128::from(whole) * u128::from(at) / u128::from(self.of.max(1))) as u64;
        match self.of {
            0 => whole,
            _ => up_to(self.to) - up_to(self.from),
        }
    }

    /// Returns the share as a fraction.
    pub(crate) fn weight(self) -> f64 {
        match self.of {
            0 => 1.0,
            of => (self.to - self.from) as f64 / of as f64,
        }
    }
}

impl NetworkTraffic {
    /// Returns the part in this share.
    pub(crate) fn part(&self, share: CellShare) -> Self {
        let part = |sent: &SentBytes| SentBytes {
            uncompressed: share.part(sent.uncompressed),
            zlib: share.part(sent.zlib),
            zlib_ns: share.part(sent.zlib_ns),
            zstd: share.part(sent.zstd),
            zstd_ns: share.part(sent.zstd_ns),
        };
        Self { now: share.part(self.now), plain: part(&self.plain), compressed: part(&self.compressed) }
    }

    pub(crate) fn add(&mut self, other: &Self) {
        self.now += other.now;
        self.plain.add(&other.plain);
        self.compressed.add(&other.compressed);
    }
}

#[cfg(test)]
mod tests {
    use super::CellShare;

    #[test]
    fn shares_add_up_to_the_whole() {
        for of in [1, 7, 100, 12_345] {
            for whole in [0, 1, 99, 1 << 40] {
                let boundaries = [0, of / 3, of / 2, of];
                let parts = boundaries
                    .windows(2)
                    .map(|range| CellShare { from: range[0], to: range[1], of }.part(whole));
                assert_eq!(parts.sum::<u64>(), whole);
            }
        }
        assert_eq!(CellShare::whole(0).part(5), 5);
    }
}
