//! Plans threads and buffers that fit within a memory limit.

use std::num::NonZeroUsize;

use binlog::ZstdLevel;
use logs::ordered::PipelineLimits;

use crate::{RewriteAction, RewriteLimits};

/// Numbers of threads and sizes of buffers that fit within a memory limit.
///
/// The memory limit holds for logs of any size, even for a single transaction of 1 GiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResourcePlan {
    /// Number of worker threads.
    pub workers: NonZeroUsize,
    /// A larger transaction is not held in memory.
    pub large: u64,
    /// Number of zstd threads for such a transaction; 0: the worker's own thread.
    pub large_threads: u32,
    /// Maximum number of bytes queued between the threads.
    pub queue_bytes: usize,
    /// Maximum memory of threads, buffers and queues together, in bytes.
    pub memory_needed: u64,
}

const MIB: u64 = 1 << 20;

/// Memory for the program itself, for read and write buffers, and for memory that the allocator does not return.
const BASE_MEMORY: u64 = 24 * MIB;

/// Transaction size in bytes beyond which the memory no longer grows.
const SIZE_MAX: u64 = 1 << 32;

/// Possible limits on transactions held in memory, best first.
const LARGE_SIZES: [u64; 4] = [32 * MIB, 16 * MIB, 8 * MIB, 4 * MIB];

impl ResourcePlan {
    /// Plans as many of `workers` as fit in `memory` bytes, for transactions of at most `size_max` bytes. The size of a
    /// log is a sufficient maximum.
    ///
    /// If not even one worker fits, the plan has one worker, and [`ResourcePlan::memory_needed`] is larger than
    /// `memory`.
    pub fn new(action: RewriteAction, workers: NonZeroUsize, memory: u64, size_max: u64) -> Self {
        let RewriteAction::Compress(settings) = action else { return Self::for_decompress(workers, memory) };
        let (level, size_max) = (Some(settings.level), size_max.min(SIZE_MAX));
        let smallest =
            Self::with_sizes(level, NonZeroUsize::MIN, LARGE_SIZES[LARGE_SIZES.len() - 1], memory, size_max);
        for workers in (1..=workers.get()).rev().filter_map(NonZeroUsize::new) {
            let plans = LARGE_SIZES.map(|large| Self::with_sizes(level, workers, large, memory, size_max));
            let fitting = || plans.iter().filter(|plan| plan.memory_needed <= memory);
            // While one thread compresses a large transaction, all others wait.
            let spread = fitting().find(|plan| plan.large_threads > 0 || size_max <= plan.large);
            if let Some(plan) = spread.or_else(|| fitting().next()) {
                return *plan;
            }
        }
        smallest
    }

    /// Creates a plan for decompressing: the events of a payload can be larger than any log.
    fn for_decompress(workers: NonZeroUsize, memory: u64) -> Self {
        let plans = (1..=workers.get()).rev().filter_map(NonZeroUsize::new).flat_map(|workers| {
            LARGE_SIZES[1..]
                .iter()
                .map(move |large| Self::with_sizes(None, workers, *large, memory, SIZE_MAX))
        });
        let smallest =
            Self::with_sizes(None, NonZeroUsize::MIN, LARGE_SIZES[LARGE_SIZES.len() - 1], memory, SIZE_MAX);
        plans.into_iter().find(|plan| plan.memory_needed <= memory).unwrap_or(smallest)
    }

    fn with_sizes(
        level: Option<ZstdLevel>,
        workers: NonZeroUsize,
        large: u64,
        memory: u64,
        size_max: u64,
    ) -> Self {
        let count = workers.get() as u64;
        let buffered = large.min(size_max);
        // Half of this memory is for units that wait for a worker. One of these units may be a whole transaction.
        let under_way = (2 * buffered).clamp(8 * MIB, 64 * MIB);
        // One transaction being read, and each worker's events and frame.
        let fixed = BASE_MEMORY + under_way + buffered + count * 2 * buffered;
        let tables = |size| level.map_or(DECOMPRESS_MEMORY, |level| level.memory_for(size));
        let small = fixed + count * tables(buffered);
        if size_max <= large || level.is_none() {
            return Self { memory_needed: small, ..Self::without_need(workers, large, under_way) };
        }
        // While a large transaction is compressed, no other worker compresses.
        let spread = fixed + multithreaded_memory(level, count, size_max);
        let alone = fixed + tables(size_max);
        let (large_threads, large_need) = match count > 1 && spread <= memory {
            true => (count as u32, spread),
            false => (0, alone),
        };
        let need = small.max(large_need);
        Self { large_threads, memory_needed: need, ..Self::without_need(workers, large, under_way) }
    }

    const fn without_need(workers: NonZeroUsize, large: u64, under_way: u64) -> Self {
        let under_way = under_way as usize;
        Self { workers, large, large_threads: 0, queue_bytes: under_way, memory_needed: 0 }
    }

    /// Returns the bounds for [`rewrite`](crate::rewrite).
    pub const fn bounds(&self) -> PipelineLimits {
        PipelineLimits { workers: self.workers, bytes: self.queue_bytes }
    }

    /// Returns the sizes for [`rewrite`](crate::rewrite). Payloads of large transactions are spooled to `directory`.
    pub fn sizes(&self, directory: &std::path::Path) -> RewriteLimits {
        let Self { large, large_threads, .. } = *self;
        RewriteLimits { unit: MIB as usize, large, large_threads, directory: directory.to_owned() }
    }
}

/// Memory of a worker that decompresses, without the decompressed events. Only payloads of level 22 have a window of
/// 128 MiB, all others have 8 MiB or less.
const DECOMPRESS_MEMORY: u64 = 9 * MIB;

/// Returns the memory for compressing with several zstd threads.
fn multithreaded_memory(level: Option<ZstdLevel>, threads: u64, size: u64) -> u64 {
    let Some(level) = level else { return 0 };
    // zstd divides the input into pieces of four windows, but at least 1 MiB. Each thread has one piece. As many pieces
    // plus three wait. Each piece has its output.
    let piece = MIB.max(4 << level.window_log(size));
    threads * level.memory_for(piece) + (2 * threads + 3) * piece
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;

    use binlog::ZstdLevel;

    use super::ResourcePlan;
    use crate::{CompressSettings, CompressedPolicy, MinimumGain, OldFormatPolicy, RewriteAction};

    fn level(level: u8) -> RewriteAction {
        RewriteAction::Compress(CompressSettings {
            level: ZstdLevel::new(level).unwrap(),
            minimum_gain: MinimumGain::None,
            compressed: CompressedPolicy::Pass,
            event_size_max: 1 << 30,
            old_format: OldFormatPolicy::Refuse,
        })
    }

    fn plan(action: RewriteAction, workers: usize, memory: u64, size: u64) -> ResourcePlan {
        let plan = ResourcePlan::new(action, NonZeroUsize::new(workers).unwrap(), memory * 1_000_000, size);
        assert!(plan.memory_needed <= memory * 1_000_000 || plan.workers.get() == 1, "{plan:?}");
        plan
    }

    #[test]
    fn any_log_fits_up_to_level_19() {
        for number in 1..=19 {
            for workers in [1, 2, 4, 16, 64] {
                let plan = plan(level(number), workers, 300, u64::MAX);
                assert!(plan.memory_needed <= 300_000_000, "{number} {workers}: {plan:?}");
            }
        }
        let opening = plan(RewriteAction::Decompress, 64, 300, 1 << 40);
        assert!(opening.memory_needed <= 300_000_000, "{opening:?}");
    }

    #[test]
    fn two_cores_are_used_if_memory_permits() {
        for number in 1..=19 {
            assert_eq!(plan(level(number), 2, 300, 1 << 40).workers.get(), 2, "{number}");
        }
        assert_eq!(plan(level(3), 2, 300, 1 << 40).large_threads, 2);
    }

    #[test]
    fn high_levels_use_fewer_workers_or_exceed_the_limit() {
        let small = plan(level(22), 4, 300, 1 << 20);
        assert_eq!((small.workers.get(), small.memory_needed <= 300_000_000), (4, true));
        let large = plan(level(22), 4, 300, 1 << 30);
        assert_eq!((large.workers.get(), large.memory_needed > 768_000_000), (1, true));
        assert!(plan(level(22), 4, 1000, 1 << 30).memory_needed < 1_000_000_000);
        assert!(plan(level(20), 4, 300, 1 << 30).workers.get() < 4);
    }
}
