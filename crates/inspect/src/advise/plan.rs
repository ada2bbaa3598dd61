//! How much of the machine measuring may take: threads and sizes that fit in a bound on memory.

use std::num::NonZeroUsize;

use binlog::Level;

/// What is kept in memory, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Transactions and payloads of more bytes are not kept in memory, but read again for every level.
    pub kept: u64,
    /// What is measured of more bytes is measured by one thread at a time, with contexts that are given back.
    pub large: usize,
    /// In a sample, so many bytes of a large transaction are measured: those at its front.
    pub front: u64,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { kept: KEPT[0], large: LARGE[0], front: FRONT }
    }
}

/// How much of the machine measuring may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Threads that measure.
    pub workers: NonZeroUsize,
    /// What they keep.
    pub sizes: Sizes,
    /// What all of it takes, in bytes, at most.
    pub need: u64,
}

const MIB: u64 = 1 << 20;

/// Bounds on what is kept, best first: as `bintide compress` keeps it, then less.
const KEPT: [u64; 3] = [32 * MIB, 16 * MIB, 8 * MIB];

/// Bounds on what several threads measure at once, best first.
const LARGE: [usize; 4] = [4 << 20, 2 << 20, 1 << 20, 256 << 10];

const FRONT: u64 = 2 << 20;

/// The program itself, payloads kept for comparisons, and what the allocator does not give back.
const BASE: u64 = 56 * MIB;

/// What is on its way between the threads.
pub(crate) const UNDER_WAY: usize = 16 << 20;

/// A worker's bytes besides zstd's: a batch, its frames, what comes out of them, and what it hands on.
const WORKER: u64 = 8 * MIB;

/// No event is larger.
const SIZE_MAX: u64 = 1 << 32;

impl Plan {
    /// As many workers as are wanted and fit in `memory` bytes, for transactions of no more than `size_max` bytes: a
    /// log's size will do. When not even one fits, it is a plan for one all the same, and [`Plan::need`] says so.
    pub fn new(levels: &[Level], workers: NonZeroUsize, memory: u64, size_max: u64) -> Self {
        let size_max = size_max.min(SIZE_MAX);
        let plan = |workers: NonZeroUsize, large: usize, kept: u64| {
            let need = need(levels, workers.get() as u64, (large as u64).min(size_max), kept, size_max);
            Self { workers, sizes: Sizes { kept, large, front: FRONT }, need }
        };
        for workers in (1..=workers.get()).rev().filter_map(NonZeroUsize::new) {
            for kept in KEPT {
                let plans = LARGE.map(|large| plan(workers, large, kept));
                if let Some(plan) = plans.into_iter().find(|plan| plan.need <= memory) {
                    return plan;
                }
            }
        }
        plan(NonZeroUsize::MIN, LARGE[LARGE.len() - 1], KEPT[KEPT.len() - 1])
    }
}

fn need(levels: &[Level], workers: u64, large: u64, kept: u64, size_max: u64) -> u64 {
    let contexts: u64 = levels.iter().map(|level| context(*level, large)).sum();
    let largest = levels.iter().map(|level| context(*level, size_max)).max().unwrap_or_default();
    let held = kept.min(size_max);
    // A large transaction in memory: its events as read and as compressed, and its frame.
    let one_large = if size_max > large { largest + 3 * held } else { 0 };
    BASE + UNDER_WAY as u64 + workers * (contexts + WORKER) + one_large
}

/// Powers of two by level, as zstd's `clevels.h` has them for inputs of more than 256 KiB: window, chain, hash.
const POWERS: [[u32; 3]; 22] = [
    [19, 13, 14],
    [20, 15, 16],
    [21, 16, 17],
    [21, 18, 18],
    [21, 18, 19],
    [21, 19, 20],
    [21, 19, 20],
    [21, 19, 20],
    [22, 20, 21],
    [22, 21, 22],
    [22, 21, 22],
    [22, 22, 23],
    [22, 22, 22],
    [22, 22, 23],
    [22, 23, 23],
    [22, 22, 22],
    [23, 23, 22],
    [23, 23, 22],
    [23, 24, 22],
    [25, 25, 23],
    [26, 26, 24],
    [27, 27, 25],
];

/// From here on zstd keeps binary trees, two places for each position.
const TREES_FROM: u8 = 13;

/// What zstd takes for inputs of `size` bytes, in bytes.
fn context(level: Level, size: u64) -> u64 {
    let [window, chain, hash] = POWERS[usize::from(level.get()) - 1];
    // Tables are no larger than the input asks for.
    let window = window.min(size.max(1).next_power_of_two().trailing_zeros().max(10));
    let chain_max = window + u32::from(level.get() >= TREES_FROM);
    let tables = 4 * ((1 << chain.min(chain_max)) + (1 << hash.min(window + 1)));
    // The input at hand and the block that is made of it.
    tables + (1 << window) + 2 * MIB
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use binlog::{Level, PayloadWriter};

    use super::{MIB, Plan, context};

    fn levels(numbers: &[u8]) -> Vec<Level> {
        numbers.iter().copied().filter_map(Level::new).collect()
    }

    #[test]
    fn contexts_are_no_larger_than_reckoned() {
        for size in [100, 20_000, 300 << 10, 1 << 20] {
            let payload: Vec<u8> =
                (0..size as u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
            for level in levels(&[1, 3, 6, 9, 12, 16, 19]) {
                let mut writer = PayloadWriter::new(level).expect("memory");
                writer.frame(&payload).expect("a frame");
                let (found, reckoned) = (writer.memory() as u64, context(level, size));
                assert!(found <= reckoned, "{level:?} {size}: {found} {reckoned}");
            }
        }
    }

    #[test]
    fn the_usual_levels_fit_in_the_usual_memory() {
        let usual = levels(&[1, 3, 6, 9, 12, 19]);
        for workers in [1, 2, 4, 64].into_iter().filter_map(NonZeroUsize::new) {
            let plan = Plan::new(&usual, workers, 300_000_000, 1 << 30);
            assert!(plan.need <= 300_000_000, "{plan:?}");
            assert!(plan.workers.get() >= workers.get().min(2), "{plan:?}");
        }
        let two = NonZeroUsize::new(2).expect("two");
        assert!(Plan::new(&usual, two, 2_000_000_000, 1 << 30).sizes == super::Sizes::default());
        assert!(Plan::new(&levels(&[22]), two, 300_000_000, 1 << 30).need > 300 * MIB);
    }
}
