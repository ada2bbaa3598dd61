//! Rewrites binary logs: compresses or decompresses their transactions.
//!
//! [`rewrite_file`] rewrites a file, in place or to another file. The old file stays until the new one is complete.
//! [`rewrite`] reads one log and writes another with the same transactions: servers read the same from both. Workers
//! process whole transactions in parallel, the results are written in order, and memory is bounded.
//!
//! ```text
//! LogReader ─▶ feed: units of whole transactions ─▶ work: new bytes, positions open ─▶ place: positions, checksums
//! ```
//!
//! This crate never changes a log that it reads, never connects to a server, and never drops an event.
#![forbid(unsafe_code)]

mod encrypt;
mod error;
mod feed;
mod file;
mod large;
mod meaning;
mod opening;
mod output;
mod place;
mod plan;
mod replace;
mod spare;
mod spool;
mod tally;
mod work;
mod writers;

use std::ops::ControlFlow;
use std::path::PathBuf;

use binlog::{Level, MAGIC};
use logs::LogReader;
use logs::ordered::{Bounds, ordered};

pub use crate::error::Error;
pub use crate::file::{
    Check, FileJob, FileOutcome, FileReport, Sealing, Trial, is_same_file, positions_path, rewrite_file,
};
pub use crate::meaning::{Meaning, meaning};
pub use crate::output::Output;
pub use crate::plan::Plan;
pub use crate::replace::{Beside, Replacement, Synced};
pub use crate::tally::{Moved, Step, Tally, Timing};

use crate::feed::feed;
use crate::place::Placer;
use crate::spare::Spare;
use crate::work::{Shop, Worker};

/// Action on the transactions of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Compress the transactions that a server would compress.
    Compress(Compression),
    /// Decompress the compressed transactions.
    Decompress,
}

/// Settings for compressing transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// zstd compression level.
    pub level: Level,
    /// Minimum gain: transactions that gain less stay plain.
    pub keep: Keep,
    /// Treatment of transactions that are already compressed.
    pub compressed: Compressed,
    /// Maximum size of a payload event, in bytes: `replica_max_allowed_packet`.
    pub event_size_max: u32,
    /// Treatment of logs whose format description has no payload events.
    pub old_format: OldFormat,
}

/// Treatment of logs whose format description counts fewer than 40 event types. MySQL before 8.0.20 writes them, and
/// its readers do not know payload events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldFormat {
    /// Refuse them.
    Refuse,
    /// Write a longer format description. Servers and `mysqlbinlog` since 8.0.20 read the result, older ones do not.
    Extend,
}

/// Minimum gain: transactions that gain less stay plain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// No minimum: transactions are compressed even if they grow, as a server does.
    None,
    /// A transaction must shrink, and by at least this percentage; 0: it must shrink.
    GainBelow(u8),
}

/// Treatment of transactions that are already compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressed {
    /// Copy them.
    Pass,
    /// Compress them again, at the level asked for.
    Again,
}

/// Result of rewriting a log.
#[derive(Clone, Debug)]
pub struct Report {
    /// Transactions and bytes.
    pub tally: Tally,
    /// End of the log that was read.
    pub end: logs::End,
}

/// Receives the old and the new start of each transaction. `Break` stops the work.
pub trait Progress {
    /// Called for each transaction that is written.
    fn moved(&mut self, moved: Moved) -> ControlFlow<()>;
}

impl<F: FnMut(Moved) -> ControlFlow<()>> Progress for F {
    fn moved(&mut self, moved: Moved) -> ControlFlow<()> {
        self(moved)
    }
}

/// Sizes of work units, and the directory for data that does not fit in memory: see [`Plan::sizes`].
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Bytes per read, and about the bytes per work unit.
    pub unit: usize,
    /// A larger transaction is not held in memory: it is read again, and its payload is spooled to a file.
    pub large: u64,
    /// Number of zstd threads for a large transaction; 0: the worker's own thread.
    pub large_threads: u32,
    /// Directory of the spool files. They are unnamed and vanish with the process.
    pub folder: PathBuf,
}

/// Reads the log that `open` opens, and writes a log with the same transactions to `out`, starting with the magic.
///
/// `open` is called again for each transaction that is too large for memory.
///
/// # Errors
///
/// The log cannot be read, is corrupt (checksums are verified), or has a format without compressed transactions; `out`
/// cannot be written; `progress` stopped the work. The output is then unusable.
pub fn rewrite<W: Output>(
    action: Action,
    bounds: Bounds,
    sizes: &Sizes,
    open: &(dyn Fn() -> Result<LogReader, logs::Error> + Sync),
    out: W,
    progress: &mut dyn Progress,
) -> Result<Report, Error> {
    let mut reader = open()?;
    let name = reader.name().to_owned();
    let spare = Spare::default();
    let mut placer = Placer::new(out, name.clone(), &spare)?;
    let mut end = logs::End::Open { in_use: false };
    let shop = Shop::new(action, open, &name, sizes, &spare);
    let mut is_interrupted = false;
    ordered(
        bounds,
        |line| {
            end = feed(&mut reader, action, sizes, line)?;
            Ok(())
        },
        || Worker::new(&shop),
        |worker, item, outlet| worker.work(item, outlet),
        |part| {
            let flow = placer.take(part, progress)?;
            is_interrupted |= flow.is_break();
            Ok(flow)
        },
    )?;
    if is_interrupted {
        return Err(Error::Interrupted { name });
    }
    let mut tally = placer.finish()?;
    // The magic is not part of any event.
    tally.bytes_before += MAGIC.len() as u64;
    Ok(Report { tally, end })
}
