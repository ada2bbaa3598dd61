//! Counts over time, in buckets as wide as the time span requires.

use std::collections::BTreeMap;

use serde::Serialize;

/// Bucket widths in milliseconds. Each is a multiple of the previous one, so buckets can be merged exactly.
const WIDTHS_MS: [u64; 16] = [
    1,
    10,
    100,
    500,
    1_000,
    5_000,
    15_000,
    60_000,
    300_000,
    900_000,
    3_600_000,
    10_800_000,
    43_200_000,
    86_400_000,
    604_800_000,
    // The last width, about 200 years, is for absurd times.
    604_800_000 * 10_000,
];

/// Maximum number of buckets. Bounds memory, and is far more than a screen shows.
const BUCKETS_MAX: usize = 4096;

/// Counts by time of the commit.
#[derive(Clone, Debug, Default)]
pub(crate) struct CommitRate {
    /// Index into [`WIDTHS_MS`].
    width: usize,
    buckets: BTreeMap<u64, BucketCounts>,
    /// The bucket counted last: most transactions commit shortly after each other.
    current: Option<(u64, BucketCounts)>,
}

/// Counts of one bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BucketCounts {
    /// Number of transactions committed.
    pub transactions: u64,
    /// Number of rows changed.
    pub rows: u64,
    /// Bytes of the transactions before compression.
    pub bytes: u64,
}

/// Counts over time.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TimeSeries {
    /// Start of the first bucket, in milliseconds since 1970.
    pub start_ms: u64,
    /// Width of a bucket in milliseconds.
    pub width_ms: u64,
    /// Buckets in order, including those without commits.
    pub buckets: Vec<BucketCounts>,
}

impl CommitRate {
    /// Adds counts to the bucket of a commit, in microseconds since 1970.
    pub(crate) fn add(&mut self, commit_us: u64, counts: BucketCounts) {
        let number = commit_us / 1_000 / WIDTHS_MS[self.width];
        match &mut self.current {
            Some((current, sum)) if *current == number => sum.add(counts),
            _ => {
                self.flush_current();
                self.current = Some((commit_us / 1_000 / WIDTHS_MS[self.width], counts));
            }
        }
    }

    /// Adds the counts of another series.
    pub(crate) fn merge(&mut self, mut other: Self) {
        self.flush_current();
        other.flush_current();
        while self.width < other.width {
            self.coarsen();
        }
        while other.width < self.width {
            other.coarsen();
        }
        for (number, counts) in other.buckets {
            self.buckets.entry(number).or_default().add(counts);
        }
        self.limit_buckets();
    }

    /// Returns the counts in at most `buckets_max` buckets.
    pub(crate) fn series(&self, buckets_max: usize) -> TimeSeries {
        let mut rate = self.clone();
        rate.flush_current();
        let (first, last) = loop {
            let (Some((&first, _)), Some((&last, _))) =
                (rate.buckets.first_key_value(), rate.buckets.last_key_value())
            else {
                return TimeSeries::default();
            };
            if last - first < buckets_max as u64 || rate.width + 1 == WIDTHS_MS.len() {
                break (first, last);
            }
            rate.coarsen();
        };
        let width_ms = WIDTHS_MS[rate.width];
        // The widest buckets cover all possible times with very few of them.
        let numbers = first..=last.min(first + buckets_max as u64);
        let buckets = numbers.map(|number| rate.buckets.get(&number).copied().unwrap_or_default()).collect();
        TimeSeries { start_ms: first * width_ms, width_ms, buckets }
    }

    fn flush_current(&mut self) {
        if let Some((number, counts)) = self.current.take() {
            self.buckets.entry(number).or_default().add(counts);
            self.limit_buckets();
        }
    }

    fn limit_buckets(&mut self) {
        while self.buckets.len() > BUCKETS_MAX && self.width + 1 < WIDTHS_MS.len() {
            self.coarsen();
        }
    }

    fn coarsen(&mut self) {
        let factor = WIDTHS_MS[self.width + 1] / WIDTHS_MS[self.width];
        self.width += 1;
        for (number, counts) in std::mem::take(&mut self.buckets) {
            self.buckets.entry(number / factor).or_default().add(counts);
        }
    }
}

impl BucketCounts {
    fn add(&mut self, other: Self) {
        self.transactions += other.transactions;
        self.rows += other.rows;
        self.bytes += other.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::{BUCKETS_MAX, BucketCounts, CommitRate, WIDTHS_MS};

    const ONE: BucketCounts = BucketCounts { transactions: 1, rows: 2, bytes: 3 };

    fn check(commits_ms: &[u64], buckets_max: usize, expected: (u64, u64, &[u64])) {
        let (mut whole, mut halves) = (CommitRate::default(), [CommitRate::default(), CommitRate::default()]);
        for (index, commit) in commits_ms.iter().enumerate() {
            whole.add(commit * 1_000, ONE);
            halves[index % 2].add(commit * 1_000, ONE);
        }
        let [mut merged, other] = halves;
        merged.merge(other);
        for rate in [whole, merged] {
            let series = rate.series(buckets_max);
            let transactions: Vec<u64> = series.buckets.iter().map(|counts| counts.transactions).collect();
            assert_eq!(
                (series.start_ms, series.width_ms, transactions.as_slice()),
                expected,
                "{commits_ms:?}"
            );
            assert!(series.buckets.iter().all(|counts| counts.rows == 2 * counts.transactions));
        }
    }

    #[test]
    fn the_bucket_width_depends_on_the_span() {
        check(&[], 5, (0, 0, &[]));
        check(&[7], 5, (7, 1, &[1]));
        check(&[7, 8, 7, 11], 5, (7, 1, &[2, 1, 0, 0, 1]));
        check(&[7, 12], 5, (0, 10, &[1, 1]));
        check(&[86_400_000, 86_400_000 * 3], 5, (86_400_000, 43_200_000, &[1, 0, 0, 0, 1]));
        check(&[0, u64::MAX / 1_000_000], 5, (0, 6_048_000_000_000, &[1, 0, 0, 1]));
    }

    #[test]
    fn each_width_is_a_multiple_of_the_previous_one() {
        assert!(WIDTHS_MS.is_sorted());
        assert!(WIDTHS_MS.windows(2).all(|pair| pair[1] % pair[0] == 0));
    }

    #[test]
    fn memory_is_limited() {
        let mut rate = CommitRate::default();
        for second in 0..100_000 {
            rate.add(second * 1_000_000, ONE);
        }
        assert!(rate.buckets.len() <= BUCKETS_MAX);
        let total: u64 = rate.series(60).buckets.iter().map(|counts| counts.transactions).sum();
        assert_eq!(total, 100_000);
    }
}
