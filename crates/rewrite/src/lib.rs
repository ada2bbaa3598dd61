//! Rewriting of binary logs: compresses or decompresses their transactions.
//!
//! [`rewrite_file`] rewrites a file, in place or to another file. The old file stays until the new one is complete.
//! [`rewrite`] reads one log and writes another one with the same transactions: to servers, both are equivalent.
//! Workers process whole transactions in parallel, results are written in order, and memory is bounded. A
//! [`LogRenderer`] works step by step in the caller's thread, for a log that still grows.
//!
//! ```text
//! LogReader ─▶ units of whole transactions ─▶ RewriteWorker: events without positions ─▶ LogAssembler: positions, checksums
//! ```
//!
//! This crate never changes a log that it reads, never connects to a server, and never drops an event.
#![forbid(unsafe_code)]

mod content_digest;
mod decompress;
mod encrypted_writer;
mod error;
mod file_job;
mod log_assembler;
mod log_renderer;
mod payload_spool;
mod resource_plan;
mod rewrite_output;
mod rewrite_tally;
mod rewrite_unit;
mod rewrite_worker;
mod spare_buffers;
mod spooled_payload;
mod staged_file;
mod writer_pool;

use std::ops::ControlFlow;
use std::path::PathBuf;

use binlog::{MAGIC, ZstdLevel};
use logs::LogReader;
use logs::ordered::{PipelineLimits, run_ordered};

pub use crate::content_digest::{ContentDigest, content_digest};
pub use crate::error::RewriteError;
pub use crate::file_job::{
    ContentCheck, FileJob, FileReport, OutputEncryption, RewriteOutcome, WriteMode, is_same_file,
    rewrite_file,
};
pub use crate::log_renderer::{LogRenderer, RenderOpener, RenderStep, RenderTimings};
pub use crate::resource_plan::ResourcePlan;
pub use crate::rewrite_output::RewriteOutput;
pub use crate::rewrite_tally::{RewriteProgress, RewriteTally, StageTiming, TransactionMove};
pub use crate::staged_file::{NumberedFile, StagedFile, SyncedFile};

use crate::log_assembler::LogAssembler;
use crate::rewrite_unit::{UnitBuilder, feed_units};
use crate::rewrite_worker::{RewriteShared, RewriteWorker};
use crate::spare_buffers::SpareBuffers;
use crate::writer_pool::WriterPool;

/// Action on the transactions of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RewriteAction {
    /// Compress the transactions that a server would compress.
    Compress(CompressSettings),
    /// Decompress the compressed transactions.
    Decompress,
}

/// Settings for compressing transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompressSettings {
    /// zstd compression level.
    pub level: ZstdLevel,
    /// Minimum gain: transactions that gain less stay plain.
    pub minimum_gain: MinimumGain,
    /// Treatment of transactions that are already compressed.
    pub compressed: CompressedPolicy,
    /// Maximum size of a payload event, in bytes: `replica_max_allowed_packet`.
    pub event_size_max: u32,
    /// Treatment of logs whose format description has no payload events.
    pub old_format: OldFormatPolicy,
}

/// Treatment of logs whose format description counts fewer than 40 event types. MySQL before 8.0.20 writes such logs,
/// and cannot read payload events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldFormatPolicy {
    /// Refuse them.
    Refuse,
    /// Write a longer format description. Servers and `mysqlbinlog` since 8.0.20 can read the result; older versions
    /// cannot.
    Extend,
}

/// Minimum gain: transactions that gain less stay plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MinimumGain {
    /// No minimum: transactions are compressed even if they grow, as a server does.
    None,
    /// A transaction must shrink, and by at least this percentage; 0: it must shrink.
    Percent(u8),
}

/// Treatment of transactions that are already compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressedPolicy {
    /// Copy them.
    Pass,
    /// Compress them again, at the requested level.
    Recompress,
}

/// Result of rewriting a log.
#[derive(Clone, Debug)]
pub struct RewriteReport {
    /// Transactions and bytes.
    pub tally: RewriteTally,
    /// End of the log that was read.
    pub end: logs::EndOfLog,
}

/// Receives the old and the new start of each transaction. `Break` stops the work.
pub trait MoveObserver {
    /// Called for each transaction that is written.
    fn on_move(&mut self, moved: TransactionMove) -> ControlFlow<()>;
}

impl<F: FnMut(TransactionMove) -> ControlFlow<()>> MoveObserver for F {
    fn on_move(&mut self, moved: TransactionMove) -> ControlFlow<()> {
        self(moved)
    }
}

/// Sizes of work units, and the directory for data that does not fit in memory: see [`ResourcePlan::sizes`].
#[derive(Clone, Debug)]
pub struct RewriteLimits {
    /// Bytes per read, and about the bytes per work unit.
    pub unit: usize,
    /// A larger transaction is not held in memory: it is read again, and its payload is spooled to a file.
    pub large: u64,
    /// Number of zstd threads for a large transaction; 0: the worker's own thread.
    pub large_threads: u32,
    /// Directory of the spool files, which are unnamed and disappear when the process ends.
    pub directory: PathBuf,
}

/// Settings of one [`rewrite`].
#[derive(Clone, Copy, Debug)]
pub struct RewriteSettings<'s> {
    /// Change of the log's transactions.
    pub action: RewriteAction,
    /// Number of workers, and memory of the data between them.
    pub bounds: PipelineLimits,
    /// Sizes of work units.
    pub sizes: &'s RewriteLimits,
    /// Treatment of a torn log that is flagged as in use.
    pub torn_end: TornEndPolicy,
}

/// Treatment of a torn log that is flagged as in use. Other torn logs are always refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TornEndPolicy {
    /// Refuse the log.
    Refuse,
    /// End at the torn event.
    EndBefore,
}

/// Reads the log that `open` opens, and writes a log with the same transactions to `out`, starting with the magic
/// number.
///
/// `open` is called again for each transaction that is too large for memory.
///
/// # Errors
///
/// Fails if the log cannot be read, is corrupt (checksums are verified), or has a format without compressed
/// transactions, if `out` cannot be written, or if `progress` stopped the work. The output is then unusable.
pub fn rewrite<W: RewriteOutput>(
    settings: RewriteSettings<'_>,
    open: &(dyn Fn() -> Result<LogReader, logs::LogError> + Sync),
    out: W,
    progress: &mut dyn MoveObserver,
) -> Result<RewriteReport, RewriteError> {
    let RewriteSettings { action, bounds, sizes, torn_end } = settings;
    let mut reader = open()?;
    let name = reader.name().to_owned();
    let spare = SpareBuffers::default();
    let mut assembler = LogAssembler::new(out, name.clone(), &spare)?;
    let mut end = logs::EndOfLog::Open { in_use: false };
    let writers = WriterPool::new(action);
    let shared = RewriteShared { action, open, name: &name, sizes, writers: &writers, spare: &spare };
    let mut is_interrupted = false;
    run_ordered(
        bounds,
        |line| {
            let mut units = UnitBuilder::new(action, sizes.clone(), name.clone());
            end =
                feed_units(&mut reader, &mut units, torn_end, &mut |unit, size| Ok(line.push(unit, size)?))?;
            Ok(())
        },
        || RewriteWorker::new(&shared),
        |worker, item, sender| worker.rewrite_unit(item, sender),
        |part| {
            let flow = assembler.take(part, progress)?;
            is_interrupted |= flow.is_break();
            Ok(flow)
        },
    )?;
    if is_interrupted {
        return Err(RewriteError::Interrupted { name });
    }
    let mut tally = assembler.finish()?;
    // The magic number is not part of any event.
    tally.bytes_before += MAGIC.len() as u64;
    Ok(RewriteReport { tally, end })
}
