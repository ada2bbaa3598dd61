//! Counters of one rewrite.

use std::collections::BTreeMap;
use std::time::Duration;

use binlog::CompressionRefusal;

/// Counters of one rewrite.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RewriteTally {
    /// Bytes of the log that was read.
    pub bytes_before: u64,
    /// Bytes of the log that was written.
    pub bytes_after: u64,
    /// Transactions in the log.
    pub transactions: u64,
    /// Transactions that were compressed, or compressed again.
    pub compressed: u64,
    /// Transactions that were decompressed.
    pub opened: u64,
    /// Eligible transactions that stayed plain because the gain was too small.
    pub not_worth_it: u64,
    /// Eligible transactions that stayed plain because the payload was too large.
    pub too_large: u64,
    /// Number and bytes of transactions that cannot be compressed, by reason.
    pub refused: BTreeMap<CompressionRefusal, (u64, u64)>,
    /// Bytes of the events compressed into payloads, or decompressed from them.
    pub inner_bytes: u64,
    /// Bytes of these payloads.
    pub payload_bytes: u64,
    /// Time per compressed transaction.
    pub compressing: StageTiming,
    /// Time per decompressed transaction.
    pub opening: StageTiming,
}

impl RewriteTally {
    /// Adds the counters of another tally.
    pub fn add(&mut self, other: &Self) {
        self.bytes_before += other.bytes_before;
        self.bytes_after += other.bytes_after;
        self.transactions += other.transactions;
        self.compressed += other.compressed;
        self.opened += other.opened;
        self.not_worth_it += other.not_worth_it;
        self.too_large += other.too_large;
        for (reason, (count, bytes)) in &other.refused {
            let sum = self.refused.entry(*reason).or_default();
            *sum = (sum.0 + count, sum.1 + bytes);
        }
        self.inner_bytes += other.inner_bytes;
        self.payload_bytes += other.payload_bytes;
        self.compressing.add(&other.compressing);
        self.opening.add(&other.opening);
    }

    /// Returns true if the new log differs from the old one.
    pub const fn is_changed(&self) -> bool {
        self.compressed + self.opened > 0
    }
}

/// Durations of one stage, counted like a server's stage instruments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StageTiming {
    /// Number of durations.
    pub count: u64,
    /// Sum of all durations.
    pub total: Duration,
    /// Shortest duration.
    pub min: Duration,
    /// Longest duration.
    pub max: Duration,
}

impl StageTiming {
    /// Records one duration.
    pub fn record(&mut self, time: Duration) {
        self.add(&Self { count: 1, total: time, min: time, max: time });
    }

    /// Returns the average duration.
    pub fn avg(&self) -> Duration {
        match u32::try_from(self.count) {
            Ok(count) if count > 0 => self.total / count,
            _ => Duration::ZERO,
        }
    }

    /// Adds the durations of another timing.
    pub fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.total += other.total;
    }
}

/// Old and new start of a transaction or of another event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionMove {
    /// Start in the log that was read.
    pub before: u64,
    /// Start in the log that is written.
    pub after: u64,
}

/// Progress of a rewrite, in bytes of the old and of the new log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RewriteProgress {
    /// Bytes of the old log that are done.
    pub before: u64,
    /// Bytes of the corresponding part of the new log.
    pub after: u64,
}

impl From<TransactionMove> for RewriteProgress {
    fn from(moved: TransactionMove) -> Self {
        Self { before: moved.before, after: moved.after }
    }
}

impl RewriteProgress {
    /// Returns the new size in percent of the old one, or `None` at the start.
    pub fn ratio(&self) -> Option<u64> {
        self.after.saturating_mul(100).checked_div(self.before)
    }
}
