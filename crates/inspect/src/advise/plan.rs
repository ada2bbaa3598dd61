//! How much of the machine measuring may take: threads and sizes that fit in a bound on memory.

use std::num::NonZeroUsize;

use binlog::{EVENT_SIZE_MAX, Level};

/// What is kept in memory, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Transactions and payloads of more bytes are not kept in memory, but read again for every level.
    pub kept: u64,
    /// What is measured of more bytes is measured by one thread at a time, with contexts that are given back.
    pub large: usize,
    /// In a sample, so many bytes of a large transaction are measured: those at its front.
    pub front: u64,
    /// An event that comes out of a compressed one is no larger, in bytes: about a third of the memory, as it is there up
    /// to three times.
    pub event_size_max: u32,
}

impl Default for Sizes {
    fn default() -> Self {
        Self { kept: KEPT[0], large: LARGE[0], front: FRONT, event_size_max: EVENT_SIZE_MAX }
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

/// A worker's bytes besides zstd's: a batch, its frames, what comes out of them, what it hands on, and what empties
/// the caches.
const WORKER: u64 = 12 * MIB;

/// An event of this size is taken whatever the memory: usual ones are smaller.
const EVENT_SIZE_MIN: u32 = 16 << 20;

/// No event is larger.
const SIZE_MAX: u64 = 1 << 32;

impl Plan {
    /// As many workers as are wanted and fit in `memory` bytes, for transactions of no more than `size_max` bytes: a
    /// log's size will do. When not even one fits, it is a plan for one all the same, and [`Plan::need`] says so.
    pub fn new(levels: &[Level], workers: NonZeroUsize, memory: u64, size_max: u64) -> Self {
        let size_max = size_max.min(SIZE_MAX);
        let third = u32::try_from(memory / 3).unwrap_or(u32::MAX);
        let event_size_max = third.clamp(EVENT_SIZE_MIN, EVENT_SIZE_MAX);
        let plan = |workers: NonZeroUsize, large: usize, kept: u64| {
            let need = need(levels, workers.get() as u64, (large as u64).min(size_max), kept, size_max);
            let sizes = Sizes { kept, large, front: FRONT, event_size_max };
            Self { workers, sizes, need }
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
    let contexts: u64 = levels.iter().map(|level| level.memory_for(large)).sum();
    let largest = levels.iter().map(|level| level.memory_for(size_max)).max().unwrap_or_default();
    let held = kept.min(size_max);
    // A large transaction in memory: its events as read and as compressed, and its frame.
    let one_large = if size_max > large { largest + 3 * held } else { 0 };
    BASE + UNDER_WAY as u64 + workers * (contexts + WORKER) + one_large
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use binlog::Level;

    use super::{MIB, Plan};

    fn levels(numbers: &[u8]) -> Vec<Level> {
        numbers.iter().copied().filter_map(Level::new).collect()
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
        let plan = Plan::new(&usual, two, 3 << 30, 1 << 30);
        assert!(plan.sizes == super::Sizes::default(), "{plan:?}");
        assert!(Plan::new(&levels(&[22]), two, 300_000_000, 1 << 30).need > 300 * MIB);
    }
}
