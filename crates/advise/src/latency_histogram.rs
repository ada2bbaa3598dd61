//! Histogram of durations, in classes 3 % wide, for percentiles.

use super::report::CommitLatency;

/// Classes per doubling.
const STEPS: usize = 32;

/// Number of doublings. The last class contains all durations from two hours on.
const DOUBLINGS: usize = 43;

/// Histogram of durations in nanoseconds, each with a weight.
#[derive(Clone, Debug, Default)]
pub(crate) struct LatencyHistogram {
    /// Empty until the first duration is added.
    weights: Vec<f64>,
    transactions: u64,
    sum: f64,
    max_ns: u64,
}

impl LatencyHistogram {
    /// Adds a duration. `count` is 0 for a further part of a transaction that was already counted.
    pub(crate) fn add(&mut self, ns: u64, weight: f64, count: u64) {
        if self.weights.is_empty() {
            self.weights = vec![0.0; STEPS * DOUBLINGS];
        }
        self.weights[class(ns)] += weight;
        self.transactions += count;
        self.sum += weight;
        self.max_ns = self.max_ns.max(ns);
    }

    pub(crate) fn latency(&self) -> CommitLatency {
        let us = |ns: u64| ns as f64 / 1000.0;
        CommitLatency {
            transactions: self.transactions,
            p50_us: us(self.quantile(0.5)),
            p99_us: us(self.quantile(0.99)),
            max_us: us(self.max_ns),
        }
    }

    fn quantile(&self, part: f64) -> u64 {
        let mut below = 0.0;
        for (index, weight) in self.weights.iter().enumerate() {
            below += weight;
            if below >= self.sum * part && *weight > 0.0 {
                return middle(index).min(self.max_ns);
            }
        }
        self.max_ns
    }
}

fn class(ns: u64) -> usize {
    let ns = ns.max(1);
    let doubling = ns.ilog2() as usize;
    let step = match doubling {
        0..=5 => (ns << (5 - doubling)) as usize - STEPS,
        _ => (ns >> (doubling - 5)) as usize - STEPS,
    };
    (doubling * STEPS + step).min(STEPS * DOUBLINGS - 1)
}

fn middle(class: usize) -> u64 {
    let (doubling, step) = (class / STEPS, class % STEPS);
    let whole = ((STEPS + step) as u64) << doubling;
    (whole + ((1_u64 << doubling) >> 1)) / STEPS as u64
}

#[cfg(test)]
mod tests {
    use super::LatencyHistogram;

    fn check(times: &[u64], expected: (f64, f64, f64)) {
        let mut histogram = LatencyHistogram::default();
        times.iter().for_each(|ns| histogram.add(*ns, 1.0, 1));
        let found = histogram.latency();
        for (found, expected) in
            [(found.p50_us, expected.0), (found.p99_us, expected.1), (found.max_us, expected.2)]
        {
            assert!((found - expected).abs() <= expected * 0.04, "{times:?}: {found} instead of {expected}");
        }
    }

    #[test]
    fn percentiles_are_accurate_to_four_percent() {
        check(&[], (0.0, 0.0, 0.0));
        check(&[1000], (1.0, 1.0, 1.0));
        check(&(1..=1000).map(|n| n * 1000).collect::<Vec<_>>(), (500.0, 990.0, 1000.0));
        check(&[3_600_000_000_000, 5_000], (5.0, 3.6e9, 3.6e9));
        let mut longest = LatencyHistogram::default();
        longest.add(u64::MAX, 1.0, 1);
        assert!(longest.latency().p50_us <= longest.latency().max_us);
    }

    #[test]
    fn percentiles_are_weighted() {
        let mut histogram = LatencyHistogram::default();
        histogram.add(1_000, 1.0, 1);
        histogram.add(9_000, 98.0, 1);
        assert!(histogram.latency().p50_us > 8.0);
    }
}
