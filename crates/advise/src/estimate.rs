//! Estimates the whole from a sample, with a confidence interval.

use super::report::IntervalEstimate;

/// Confidence level of the intervals.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// Sums over the measured stretches: of bytes in the log (`x`) and of the figure to estimate (`y`).
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RatioSums {
    count: u64,
    x: f64,
    y: f64,
    xx: f64,
    xy: f64,
    yy: f64,
}

/// The whole that a sample was drawn from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Population {
    /// All bytes in the logs.
    pub(crate) x: f64,
    /// Number of all stretches; `None` if all were measured.
    pub(crate) stretches: Option<u64>,
}

impl RatioSums {
    pub(crate) fn add(&mut self, x: f64, y: f64) {
        self.count += 1;
        self.x += x;
        self.y += y;
        self.xx += x * x;
        self.xy += x * y;
        self.yy += y * y;
    }

    /// Estimates `y` of the whole: a ratio estimate, with its interval by linearization (Cochran, Sampling Techniques,
    /// 6.4). The stretches count as drawn at random without replacement.
    pub(crate) fn estimate(&self, whole: Population) -> IntervalEstimate {
        let Some(stretches) = whole.stretches else { return IntervalEstimate::exact(self.y.round() as u64) };
        if self.x <= 0.0 || self.count == 0 {
            return IntervalEstimate { value: 0, low: 0, high: whole.x.round() as u64 };
        }
        let ratio = self.y / self.x;
        let value = ratio * whole.x;
        let half = self.half_width(ratio, stretches) * whole.x;
        let bound = |value: f64| value.max(0.0).round() as u64;
        IntervalEstimate { value: bound(value), low: bound(value - half), high: bound(value + half) }
    }

    /// Returns half the width of the ratio's interval.
    fn half_width(&self, ratio: f64, stretches: u64) -> f64 {
        let n = self.count as f64;
        if self.count < 2 {
            return ratio.max(1.0);
        }
        let squares = self.yy - 2.0 * ratio * self.xy + ratio * ratio * self.xx;
        let variance = squares.max(0.0) / (n - 1.0);
        let left = 1.0 - (n / stretches as f64).min(1.0);
        let mean = self.x / n;
        student(self.count - 1) * (left * variance / n).sqrt() / mean
    }
}

/// Returns the quantile of Student's t-distribution for intervals of 95 % confidence.
fn student(freedom: u64) -> f64 {
    const FEW: [f64; 10] = [12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23];
    match freedom {
        0 => f64::INFINITY,
        1..=10 => FEW[freedom as usize - 1],
        _ => 1.96 + 2.7 / freedom as f64,
    }
}

#[cfg(test)]
mod tests {
    use super::{Population, RatioSums};
    use crate::report::IntervalEstimate;

    #[test]
    fn full_measurements_are_exact() {
        let mut pairs = RatioSums::default();
        pairs.add(10.0, 4.0);
        pairs.add(20.0, 9.0);
        assert_eq!(pairs.estimate(Population { x: 30.0, stretches: None }), IntervalEstimate::exact(13));
    }

    #[test]
    fn uniform_samples_are_exact() {
        let mut pairs = RatioSums::default();
        (1..20).for_each(|n| pairs.add(f64::from(n), f64::from(n) / 2.0));
        let found = pairs.estimate(Population { x: 1000.0, stretches: Some(100) });
        assert_eq!(found, IntervalEstimate::exact(500));
    }

    #[test]
    fn one_range_gives_a_wide_interval() {
        let mut pairs = RatioSums::default();
        pairs.add(10.0, 4.0);
        let found = pairs.estimate(Population { x: 100.0, stretches: Some(10) });
        assert_eq!((found.value, found.low), (40, 0));
        assert!(found.high >= 100);
    }

    /// Draws samples from a known population, and counts how often the interval contains the true value.
    #[test]
    fn intervals_have_their_stated_coverage() {
        let mut state = 7_u64;
        let mut random = move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as f64 / f64::from(1_u32 << 31)
        };
        let population: Vec<(f64, f64)> = (0..2000)
            .map(|_| {
                let x = 1000.0 + 500.0 * random();
                (x, x * (0.3 + 0.4 * random()))
            })
            .collect();
        let x = population.iter().map(|pair| pair.0).sum();
        let truth: f64 = population.iter().map(|pair| pair.1).sum();
        let mut hits = 0;
        for _ in 0..500 {
            let mut pairs = RatioSums::default();
            let start = (random() * 2000.0) as usize;
            let step = 2 * (random() * 900.0) as usize + 7;
            for index in 0..60 {
                let (x, y) = population[(start + index * step) % population.len()];
                pairs.add(x, y);
            }
            let found = pairs.estimate(Population { x, stretches: Some(2000) });
            hits += usize::from((found.low..=found.high).contains(&(truth as u64)));
        }
        assert!((450..=495).contains(&hits), "{hits} of 500");
    }
}
