//! Recent rates of work without a certain end. Time is a parameter.

use std::collections::VecDeque;
use std::time::Duration;

use crate::units::{bytes, counted};

/// Time span of the rates: long enough for steady values, short enough to follow changes in the logs.
const RATE_WINDOW: Duration = Duration::from_secs(15);

/// Interval between samples. With the window, this limits memory.
const SAMPLE_INTERVAL: Duration = Duration::from_millis(250);

/// Recent rates of transactions and bytes.
#[derive(Clone, Debug, Default)]
pub(crate) struct RecentRates {
    marks: VecDeque<RateSample>,
}

/// Sample of the progress.
#[derive(Clone, Copy, Debug)]
struct RateSample {
    /// Time since the start.
    at: Duration,
    bytes: u64,
    transactions: u64,
}

/// Averages over the samples.
struct RatesPerSecond {
    transactions: f64,
    bytes: f64,
}

impl RecentRates {
    /// Adds a sample at this time since the start.
    pub(crate) fn add_sample(&mut self, at: Duration, bytes: u64, transactions: u64) {
        if self.marks.back().is_some_and(|last| at < last.at + SAMPLE_INTERVAL) {
            return;
        }
        self.marks.push_back(RateSample { at, bytes, transactions });
        while self.marks.get(1).is_some_and(|second| second.at + RATE_WINDOW <= at) {
            self.marks.pop_front();
        }
    }

    /// Returns the rates as texts; none before the second sample.
    pub(crate) fn texts(&self) -> impl Iterator<Item = String> {
        self.per_second().into_iter().flat_map(|rates| {
            [
                format!("{}/s", counted(rates.transactions as u64, "transaction")),
                format!("{}/s", bytes(rates.bytes as u64)),
            ]
        })
    }

    /// Returns the estimated seconds until this number of bytes is reached.
    pub(crate) fn seconds_to(&self, bytes_total: u64) -> Option<f64> {
        let rates = self.per_second()?;
        Some(bytes_total.saturating_sub(self.marks.back()?.bytes) as f64 / rates.bytes)
    }

    /// Returns the rates; `None` before the second sample.
    fn per_second(&self) -> Option<RatesPerSecond> {
        let (first, last) = (self.marks.front()?, self.marks.back()?);
        let seconds = last.at.saturating_sub(first.at).as_secs_f64();
        let a_second = |from: u64, to: u64| to.saturating_sub(from) as f64 / seconds;
        let rates = RatesPerSecond {
            transactions: a_second(first.transactions, last.transactions),
            bytes: a_second(first.bytes, last.bytes),
        };
        (seconds > 0.0).then_some(rates)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::RecentRates;

    #[test]
    fn rates_cover_recent_samples_only() {
        let mut rates = RecentRates::default();
        let mut transactions = 0;
        for second in 0..100_u64 {
            transactions += if second < 50 { 1000 } else { 10 };
            rates.add_sample(Duration::from_secs(second), 0, transactions);
        }
        assert!(rates.marks.len() <= 17, "{}", rates.marks.len());
        assert_eq!(rates.per_second().map(|rates| rates.transactions as u64), Some(10));
    }
}
