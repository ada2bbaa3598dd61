//! Selection of places for a sample.
//!
//! Logs are divided into cells of equal width. A transaction belongs to the cell in which it starts. A transaction
//! wider than a cell belongs proportionally to each cell that it overlaps, so no single transaction dominates a sample.
//!
//! The sample visits cells in steps of the golden ratio from a random start. Any number of visited cells is evenly
//! spread over all logs and over time. No cell is visited twice.

use std::ops::Range;

/// A stretch of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SampleCell {
    /// Index of the log.
    pub(crate) source: usize,
    /// Start of the cell, in bytes from the start of the log.
    pub(crate) start: u64,
    pub(crate) end: u64,
}

/// All cells of some logs.
#[derive(Clone, Debug)]
pub(crate) struct CellGrid {
    logs: Vec<DividedLog>,
    count: u64,
}

/// A log that is cut into cells.
#[derive(Clone, Debug)]
struct DividedLog {
    /// Range of the log's events.
    bytes: Range<u64>,
    /// Width of the log's cells, in bytes.
    width: u64,
    /// Number of cells of all previous logs.
    cells_before: u64,
}

impl CellGrid {
    /// Cuts logs into cells. Each log has the range of its events and the width of its cells.
    pub(crate) fn new(logs: impl IntoIterator<Item = (Range<u64>, u64)>) -> Self {
        let mut count = 0;
        let mut divided = Vec::new();
        for (bytes, width) in logs {
            let width = width.max(1);
            let cells = (bytes.end.saturating_sub(bytes.start)).div_ceil(width);
            divided.push(DividedLog { bytes, width, cells_before: count });
            count += cells;
        }
        Self { logs: divided, count }
    }

    pub(crate) const fn count(&self) -> u64 {
        self.count
    }

    /// Returns each cell once. Any number of first cells is evenly spread.
    pub(crate) fn spread(&self, seed: u64) -> impl Iterator<Item = SampleCell> + '_ {
        let step = step(self.count);
        let start = if self.count == 0 { 0 } else { scramble(seed) % self.count };
        let index = move |number: u64| {
            (u128::from(start) + u128::from(number) * u128::from(step)) % u128::from(self.count.max(1))
        };
        (0..self.count).filter_map(move |number| self.get(index(number) as u64))
    }

    fn get(&self, index: u64) -> Option<SampleCell> {
        let source = self.logs.partition_point(|log| log.cells_before <= index).checked_sub(1)?;
        let DividedLog { bytes, width, cells_before } = &self.logs[source];
        let start = bytes.start + (index - cells_before) * width;
        Some(SampleCell { source, start, end: start.saturating_add(*width).min(bytes.end) })
    }
}

/// Returns a step of about the golden ratio of `count`, coprime to it, so that all cells are reached.
fn step(count: u64) -> u64 {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    let near = ((count as f64 * GOLDEN) as u64).max(1);
    (near..near + 64).find(|step| divisor(*step, count) == 1).unwrap_or(1)
}

fn divisor(mut one: u64, mut two: u64) -> u64 {
    while two > 0 {
        (one, two) = (two, one % two);
    }
    one
}

/// Returns a pseudo-random number (splitmix64).
pub(crate) const fn scramble(seed: u64) -> u64 {
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{CellGrid, SampleCell};

    fn check(sizes: &[u64], width: u64, expected: u64) {
        let cells = CellGrid::new(sizes.iter().map(|size| (4..4 + size, width)));
        assert_eq!(cells.count(), expected);
        for seed in 0..5 {
            let all: Vec<SampleCell> = cells.spread(seed).collect();
            assert_eq!(all.len() as u64, expected);
            let distinct: HashSet<_> = all.iter().map(|cell| (cell.source, cell.start)).collect();
            assert_eq!(distinct.len() as u64, expected, "a cell occurs twice: {sizes:?}");
            let bytes: u64 = all.iter().map(|cell| cell.end - cell.start).sum();
            assert_eq!(bytes, sizes.iter().sum::<u64>(), "the cells do not cover the logs: {sizes:?}");
        }
    }

    #[test]
    fn cells_cover_all_logs_once() {
        check(&[], 10, 0);
        check(&[0], 10, 0);
        check(&[1], 10, 1);
        check(&[100, 0, 5, 33], 10, 10 + 1 + 4);
        check(&[1 << 20], 1 << 10, 1 << 10);
    }

    #[test]
    fn the_first_cells_are_spread_over_the_logs() {
        let cells = CellGrid::new([(0..1_000_000, 100)]);
        for seed in 0..20 {
            let mut tenths = [0; 10];
            cells.spread(seed).take(50).for_each(|cell| tenths[(cell.start / 100_000) as usize] += 1);
            assert!(tenths.iter().all(|count| (3..=7).contains(count)), "{tenths:?}");
        }
    }

    #[test]
    fn huge_logs_have_cells() {
        let cells = CellGrid::new([(4..1 << 50, 1 << 18)]);
        assert_eq!(cells.spread(1).take(1000).map(|cell| cell.start).collect::<HashSet<_>>().len(), 1000);
    }
}
