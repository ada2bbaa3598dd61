//! Plans threads and buffers that fit within a memory limit.

use std::num::NonZeroUsize;

use binlog::{EVENT_SIZE_MAX, ZstdLevel};

/// Limits on data held in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimits {
    /// Larger transactions and payloads are not held in memory, but read again for every level.
    pub kept: u64,
    /// Size above which only one thread at a time measures payloads, with temporary contexts.
    pub large: usize,
    /// Bytes measured of a large transaction in a sample, from its front.
    pub front: u64,
    /// Maximum size of a decompressed event, in bytes: about a third of the memory, because up to three copies of it
    /// exist.
    pub event_size_max: u32,
}

impl Default for MemoryLimits {
    fn default() -> Self {
        Self { kept: KEPT_SIZES[0], large: LARGE_SIZES[0], front: FRONT_SIZE, event_size_max: EVENT_SIZE_MAX }
    }
}

/// Number of threads and limits that fit within a memory limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MeasurementPlan {
    /// Number of threads.
    pub workers: NonZeroUsize,
    /// Limits on data held in memory.
    pub sizes: MemoryLimits,
    /// Maximum memory of all threads and data together, in bytes.
    pub memory_needed: u64,
}

const MIB: u64 = 1 << 20;

/// Possible limits on held transactions, best first: the limit of `bintide compress`, then smaller ones.
const KEPT_SIZES: [u64; 3] = [32 * MIB, 16 * MIB, 8 * MIB];

/// Possible limits on payloads that several threads measure at once, best first.
const LARGE_SIZES: [usize; 4] = [4 << 20, 2 << 20, 1 << 20, 256 << 10];

const FRONT_SIZE: u64 = 2 << 20;

/// Memory for the program itself, for payloads kept for comparison, and for memory that the allocator does not return.
const BASE_MEMORY: u64 = 56 * MIB;

/// Maximum bytes queued between the threads.
pub(crate) const QUEUE_BYTES_MAX: usize = 16 << 20;

/// Memory of one worker without zstd's: a batch, its frames, the decompressed bytes, its output, and the cache flusher.
const WORKER_MEMORY: u64 = 12 * MIB;

/// Events up to this size are accepted with any memory limit. Typical events are smaller.
const EVENT_SIZE_MIN: u32 = 16 << 20;

/// Maximum size of a transaction to plan for, in bytes.
const SIZE_MAX: u64 = 1 << 32;

impl MeasurementPlan {
    /// Plans as many of `workers` as fit in `memory` bytes, for transactions of at most `size_max` bytes. The size of a
    /// log is a sufficient maximum.
    ///
    /// If not even one worker fits, the plan has one worker, and [`MeasurementPlan::memory_needed`] is larger than
    /// `memory`.
    pub fn new(levels: &[ZstdLevel], workers: NonZeroUsize, memory: u64, size_max: u64) -> Self {
        let size_max = size_max.min(SIZE_MAX);
        let third = u32::try_from(memory / 3).unwrap_or(u32::MAX);
        let event_size_max = third.clamp(EVENT_SIZE_MIN, EVENT_SIZE_MAX);
        let plan = |workers: NonZeroUsize, large: usize, kept: u64| {
            let need =
                memory_needed(levels, workers.get() as u64, (large as u64).min(size_max), kept, size_max);
            let sizes = MemoryLimits { kept, large, front: FRONT_SIZE, event_size_max };
            Self { workers, sizes, memory_needed: need }
        };
        for workers in (1..=workers.get()).rev().filter_map(NonZeroUsize::new) {
            for kept in KEPT_SIZES {
                let plans = LARGE_SIZES.map(|large| plan(workers, large, kept));
                if let Some(plan) = plans.into_iter().find(|plan| plan.memory_needed <= memory) {
                    return plan;
                }
            }
        }
        plan(NonZeroUsize::MIN, LARGE_SIZES[LARGE_SIZES.len() - 1], KEPT_SIZES[KEPT_SIZES.len() - 1])
    }
}

fn memory_needed(levels: &[ZstdLevel], workers: u64, large: u64, kept: u64, size_max: u64) -> u64 {
    let contexts: u64 = levels.iter().map(|level| level.memory_for(large)).sum();
    let largest = levels.iter().map(|level| level.memory_for(size_max)).max().unwrap_or_default();
    let buffered = kept.min(size_max);
    // A large transaction in memory: its events as read, the same for compression, and its frame.
    let one_large = if size_max > large { largest + 3 * buffered } else { 0 };
    BASE_MEMORY + QUEUE_BYTES_MAX as u64 + workers * (contexts + WORKER_MEMORY) + one_large
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use binlog::ZstdLevel;

    use super::{MIB, MeasurementPlan};

    fn levels(numbers: &[u8]) -> Vec<ZstdLevel> {
        numbers.iter().copied().filter_map(ZstdLevel::new).collect()
    }

    #[test]
    fn the_default_levels_fit_in_the_default_memory() {
        let usual = levels(&[1, 3, 6, 9, 12, 19]);
        for workers in [1, 2, 4, 64].into_iter().filter_map(NonZeroUsize::new) {
            let plan = MeasurementPlan::new(&usual, workers, 300_000_000, 1 << 30);
            assert!(plan.memory_needed <= 300_000_000, "{plan:?}");
            assert!(plan.workers.get() >= workers.get().min(2), "{plan:?}");
        }
        let two = NonZeroUsize::new(2).expect("zero");
        let plan = MeasurementPlan::new(&usual, two, 3 << 30, 1 << 30);
        assert!(plan.sizes == super::MemoryLimits::default(), "{plan:?}");
        assert!(MeasurementPlan::new(&levels(&[22]), two, 300_000_000, 1 << 30).memory_needed > 300 * MIB);
    }
}
