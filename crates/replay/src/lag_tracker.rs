//! Time from a transaction's commit on its source to its commit on the target.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;

/// Time from commit on the source to commit on the target, over some transactions. It includes the difference of the
/// two machines' clocks. Percentiles are accurate to 1 %.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitLag {
    /// Number of transactions measured.
    pub transactions: u64,
    /// Median.
    pub p50: Duration,
    /// 99th percentile.
    pub p99: Duration,
    /// Maximum.
    pub max: Duration,
}

/// Lags of all transactions of a run, counted by size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CommitLagBuckets {
    /// Number of lags in each bucket: at most its upper bound, and above the previous bound. The last bucket has no
    /// upper bound.
    counts: [u64; BOUNDS_US.len() + 1],
    sum: Duration,
}

/// Upper bounds of the buckets in microseconds, from a millisecond to a day, in steps of two to three. Smaller lags
/// cannot be measured well between two machines of a local network.
const BOUNDS_US: [u64; 18] = [
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    600_000_000,
    3_600_000_000,
    86_400_000_000,
];

impl CommitLagBuckets {
    /// Returns each bucket's upper bound in seconds, and the number of lags in the bucket. The last bound is infinite.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = BOUNDS_US.iter().map(|us| *us as f64 / 1e6).chain([f64::INFINITY]);
        bounds.zip(self.counts)
    }

    /// Returns the sum of all lags.
    pub const fn sum(&self) -> Duration {
        self.sum
    }

    fn add(&mut self, lag_us: u64) {
        let bucket = BOUNDS_US.partition_point(|bound_us| *bound_us < lag_us);
        self.counts[bucket] += 1;
        self.sum = self.sum.saturating_add(Duration::from_micros(lag_us));
    }
}

/// Measures lags as transactions are committed. All times are microseconds since 1970, and are passed in.
pub(crate) struct LagTracker {
    /// The current half window, and the one before it.
    recent: [LagHistogram; 2],
    /// End of the current half window.
    rotates_at_us: u64,
    /// All lags since the target first caught up.
    following: Option<LagHistogram>,
    all: CommitLagBuckets,
}

/// Half the length of a window: "recent" covers the last 30 to 60 seconds.
const HALF_WINDOW_US: u64 = 30_000_000;

impl LagTracker {
    pub(crate) const fn new() -> Self {
        Self {
            recent: [LagHistogram::new(), LagHistogram::new()],
            rotates_at_us: 0,
            following: None,
            all: CommitLagBuckets { counts: [0; BOUNDS_US.len() + 1], sum: Duration::ZERO },
        }
    }

    /// Counts transactions that the source committed at these times and the target commits now.
    pub(crate) fn add(&mut self, committed_us: &[u64], now_us: u64) {
        self.rotate(now_us);
        for then_us in committed_us {
            let lag_us = now_us.saturating_sub(*then_us);
            self.all.add(lag_us);
            for times in self.recent.first_mut().into_iter().chain(&mut self.following) {
                times.add(lag_us);
            }
        }
    }

    /// Records that all available transactions are applied: from now on, the target follows the source.
    pub(crate) fn mark_caught_up(&mut self) {
        self.following.get_or_insert_with(LagHistogram::new);
    }

    /// Returns the lag over the last 30 to 60 seconds.
    pub(crate) fn recent(&self, now_us: u64) -> CommitLag {
        let [now, before] = &self.recent;
        match now_us.checked_sub(self.rotates_at_us) {
            None => now.merged(before).lag(),
            Some(0..HALF_WINDOW_US) => now.lag(),
            Some(_) => CommitLag::default(),
        }
    }

    /// Returns the lag since the target first caught up.
    pub(crate) fn following(&self) -> CommitLag {
        self.following.as_ref().map(LagHistogram::lag).unwrap_or_default()
    }

    /// Returns the lags since the start.
    pub(crate) const fn all(&self) -> CommitLagBuckets {
        self.all
    }

    fn rotate(&mut self, now_us: u64) {
        if now_us < self.rotates_at_us {
            return;
        }
        let is_old = now_us >= self.rotates_at_us + HALF_WINDOW_US;
        let before = std::mem::replace(&mut self.recent[0], LagHistogram::new());
        self.recent[1] = if is_old { LagHistogram::new() } else { before };
        self.rotates_at_us = now_us + HALF_WINDOW_US;
        assert!(self.recent[0].classes.is_none(), "ours: half a window begins empty");
    }
}

/// Histogram of times. Allocates nothing before the first time is added.
#[derive(Clone)]
struct LagHistogram {
    classes: Option<Histogram<u64>>,
    max_us: u64,
}

impl LagHistogram {
    const fn new() -> Self {
        Self { classes: None, max_us: 0 }
    }

    fn add(&mut self, us: u64) {
        if self.classes.is_none() {
            self.classes = Histogram::new(2).ok();
        }
        if let Some(classes) = &mut self.classes {
            // The histogram grows as needed.
            let _ = classes.record(us);
        }
        self.max_us = self.max_us.max(us);
    }

    fn merged(&self, other: &Self) -> Self {
        let mut both = self.clone();
        match (&mut both.classes, &other.classes) {
            (Some(mine), Some(others)) => mine.add(others).expect("ours: both grow as needed"),
            (mine, others) => *mine = mine.take().or_else(|| others.clone()),
        }
        both.max_us = both.max_us.max(other.max_us);
        both
    }

    fn lag(&self) -> CommitLag {
        let Some(classes) = &self.classes else { return CommitLag::default() };
        let at = |part| Duration::from_micros(classes.value_at_quantile(part).min(self.max_us));
        CommitLag {
            transactions: classes.len(),
            p50: at(0.5),
            p99: at(0.99),
            max: Duration::from_micros(self.max_us),
        }
    }
}

impl fmt::Debug for LagTracker {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("LagTracker").field("following", &self.following()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{CommitLag, HALF_WINDOW_US, LagTracker};

    fn is_near(found: Duration, expected_us: u64) -> bool {
        found.as_micros().abs_diff(u128::from(expected_us)) <= u128::from(expected_us / 100 + 1)
    }

    #[test]
    fn percentiles() {
        let mut lags = LagTracker::new();
        let commits: Vec<u64> = (0..1000).map(|n| 10_000_000 - n * 1000).collect();
        lags.add(&commits, 10_000_000);
        let lag = lags.recent(10_000_000);
        assert_eq!((lag.transactions, lag.max), (1000, Duration::from_millis(999)));
        assert!(is_near(lag.p50, 499_000) && is_near(lag.p99, 989_000), "{lag:?}");
        assert_eq!(lags.following(), CommitLag::default());
    }

    #[test]
    fn following_lag_starts_when_the_target_has_caught_up() {
        let mut lags = LagTracker::new();
        lags.add(&[0], 3_600_000_000);
        lags.mark_caught_up();
        lags.add(&[3_600_000_000, 3_600_001_000], 3_600_002_000);
        lags.mark_caught_up();
        let lag = lags.following();
        assert_eq!((lag.transactions, lag.max), (2, Duration::from_millis(2)));
        assert!(is_near(lag.p50, 1000), "{lag:?}");
    }

    #[test]
    fn recent_forgets() {
        let mut lags = LagTracker::new();
        let mut count = |add: &[u64], now_us: u64| {
            lags.add(add, now_us);
            lags.recent(now_us).transactions
        };
        assert_eq!(count(&[1, 1], 1), 2);
        assert_eq!(count(&[1], HALF_WINDOW_US + 1), 3);
        assert_eq!(count(&[1], 2 * HALF_WINDOW_US + 1), 2);
        assert_eq!(count(&[], 6 * HALF_WINDOW_US), 0);
    }

    #[test]
    fn lags_are_counted_by_size() {
        let mut lags = LagTracker::new();
        lags.add(&[2_000_000, 1_999_000, 1_998_999], 2_000_000);
        lags.add(&[0], 1_000_000_000_000);
        let filled: Vec<(f64, u64)> = lags.all().buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(0.001, 2), (0.0025, 1), (f64::INFINITY, 1)]);
        assert_eq!(lags.all().sum(), Duration::from_micros(1_000_000_002_001));
        assert!(lags.all().buckets().is_sorted_by(|(one, _), (other, _)| one < other));
    }

    #[test]
    fn a_source_whose_clock_is_ahead_has_no_lag_below_zero() {
        let mut lags = LagTracker::new();
        lags.add(&[2_000_000], 1_000_000);
        assert_eq!(lags.recent(1_000_000).max, Duration::ZERO);
    }
}
