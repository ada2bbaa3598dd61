//! What was done to a log's transactions, counted.

use std::collections::BTreeMap;
use std::time::Duration;

use binlog::Refusal;

/// What was done to a log's transactions, counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Bytes of the log that was read.
    pub bytes_before: u64,
    /// Bytes of the log that was written.
    pub bytes_after: u64,
    /// Transactions in it.
    pub transactions: u64,
    /// Transactions that were compressed, or compressed again.
    pub compressed: u64,
    /// Transactions that were opened.
    pub opened: u64,
    /// Transactions that could be compressed and stayed plain: it would not have paid.
    pub not_worth_it: u64,
    /// Transactions that could be compressed and stayed plain: their payload would have been too large.
    pub too_large: u64,
    /// Transactions that cannot be compressed, by reason: how many, and their bytes.
    pub refused: BTreeMap<Refusal, (u64, u64)>,
    /// Bytes of events that went into payloads, or came out of them.
    pub inner_bytes: u64,
    /// Bytes of those payloads.
    pub payload_bytes: u64,
    /// Time spent compressing, a transaction at a time.
    pub compressing: Timing,
    /// Time spent opening, a transaction at a time.
    pub opening: Timing,
}

impl Tally {
    /// Takes in what was counted elsewhere.
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

    /// Is the log that was written another than the one that was read?
    pub const fn is_changed(&self) -> bool {
        self.compressed + self.opened > 0
    }
}

/// Time spent on something, as the server's stage instruments count it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// How often.
    pub count: u64,
    /// In all.
    pub total: Duration,
    /// At least.
    pub min: Duration,
    /// At most.
    pub max: Duration,
}

impl Timing {
    /// Counts one more.
    pub fn note(&mut self, time: Duration) {
        self.add(&Self { count: 1, total: time, min: time, max: time });
    }

    /// On average.
    pub fn avg(&self) -> Duration {
        match u32::try_from(self.count) {
            Ok(count) if count > 0 => self.total / count,
            _ => Duration::ZERO,
        }
    }

    fn add(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.total += other.total;
    }
}

/// A transaction's place, or another event's, before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Where it started in the log that was read.
    pub before: u64,
    /// Where it starts in the log that is written.
    pub after: u64,
}

/// How far the work has come, in bytes of the log that is read and of the one that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Bytes read and done with.
    pub before: u64,
    /// What they became.
    pub after: u64,
}

impl From<Moved> for Step {
    fn from(moved: Moved) -> Self {
        Self { before: moved.before, after: moved.after }
    }
}

impl Step {
    /// What they became, in percent of what they were; `None` at the start.
    pub fn ratio(&self) -> Option<u64> {
        self.after.saturating_mul(100).checked_div(self.before)
    }
}
