//! Bytes over time, in buckets that are widened as needed: memory is bounded for any time span.

use std::collections::BTreeMap;

use super::report::{TimeBucket, TimeReport};

/// Maximum number of buckets in memory.
const KEPT_MAX: usize = 2048;

/// Maximum number of buckets in the report.
const SHOWN_MAX: u64 = 60;

/// Bytes over time.
#[derive(Clone, Debug)]
pub(crate) struct CommitTimeline {
    /// Width of a bucket in milliseconds.
    width_ms: u64,
    buckets: BTreeMap<u64, TimeBucket>,
}

impl Default for CommitTimeline {
    fn default() -> Self {
        Self { width_ms: 1, buckets: BTreeMap::new() }
    }
}

impl CommitTimeline {
    /// Adds a transaction by the time of its commit: its bytes uncompressed, and at every level.
    pub(crate) fn add(&mut self, ms: u64, plain: u64, after: impl Iterator<Item = u64>) {
        put(self.buckets.entry(ms / self.width_ms).or_default(), plain, after);
        while self.buckets.len() > KEPT_MAX {
            self.widen(2);
        }
    }

    fn widen(&mut self, times: u64) {
        self.width_ms = self.width_ms.saturating_mul(times);
        let narrow = std::mem::take(&mut self.buckets);
        for (index, bucket) in narrow {
            let wide = self.buckets.entry(index / times).or_default();
            put(wide, bucket.bytes_plain, bucket.bytes.into_iter());
        }
    }

    /// Returns all buckets from the first to the last, with all bytes multiplied by `factor`.
    pub(crate) fn report(mut self, factor: f64, levels: usize) -> TimeReport {
        let (Some((first, _)), Some((last, _))) =
            (self.buckets.first_key_value(), self.buckets.last_key_value())
        else {
            return TimeReport::default();
        };
        let times = (last - first + 1).div_ceil(SHOWN_MAX);
        if times > 1 {
            // Depending on the start of the first bucket, there may be one bucket more than `SHOWN_MAX`.
            self.widen(times);
        }
        let (Some((&first, _)), Some((&last, _))) =
            (self.buckets.first_key_value(), self.buckets.last_key_value())
        else {
            return TimeReport::default();
        };
        let scale = |bytes: u64| (bytes as f64 * factor).round() as u64;
        let bucket = |index| match self.buckets.get(&index) {
            Some(bucket) => TimeBucket {
                bytes_plain: scale(bucket.bytes_plain),
                bytes: bucket.bytes.iter().copied().map(scale).collect(),
            },
            None => TimeBucket { bytes_plain: 0, bytes: vec![0; levels] },
        };
        TimeReport {
            start_ms: first * self.width_ms,
            width_ms: self.width_ms,
            buckets: (first..=last).map(bucket).collect(),
        }
    }
}

fn put(bucket: &mut TimeBucket, plain: u64, after: impl Iterator<Item = u64>) {
    bucket.bytes_plain += plain;
    for (index, bytes) in after.enumerate() {
        match bucket.bytes.get_mut(index) {
            Some(sum) => *sum += bytes,
            None => bucket.bytes.push(bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::CommitTimeline;

    fn check(times: &[u64], width_ms: u64, expected: &[u64]) {
        let mut timeline = CommitTimeline::default();
        times.iter().for_each(|ms| timeline.add(*ms, 10, [5].into_iter()));
        let report = timeline.report(2.0, 1);
        assert_eq!(report.width_ms, width_ms);
        let found: Vec<u64> = report.buckets.iter().map(|bucket| bucket.bytes_plain / 20).collect();
        assert_eq!(found, expected, "{times:?}");
        assert!(report.buckets.iter().all(|bucket| bucket.bytes == [bucket.bytes_plain / 2]));
    }

    #[test]
    fn buckets_are_few_and_cover_everything() {
        check(&[], 0, &[]);
        check(&[7], 1, &[1]);
        check(&[7, 9, 9], 1, &[1, 0, 2]);
        let mut timeline = CommitTimeline::default();
        (0..100_000_u64).for_each(|n| timeline.add(n * 977, 1, std::iter::once(1)));
        assert!(timeline.buckets.len() <= super::KEPT_MAX);
        let report = timeline.report(1.0, 1);
        assert!((50..=61).contains(&report.buckets.len()), "{}", report.buckets.len());
        assert_eq!(report.buckets.iter().map(|bucket| bucket.bytes_plain).sum::<u64>(), 100_000);
    }
}
