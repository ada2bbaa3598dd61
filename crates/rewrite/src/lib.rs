//! Binary logs in, binary logs out: compress their transactions, or open them again.
//!
//! [`rewrite_file`] does that to a file, in its place or beside it: the old one is there until the new one is whole.
//! [`rewrite`] reads one log and writes another with the same transactions: what a server reads of both is the same.
//! Whole transactions are worked on in parallel and leave in order, in bounded memory.
//!
//! ```text
//! LogReader ─▶ feed: units of whole transactions ─▶ work: other bytes, no place yet ─▶ place: positions, checksums
//! ```
//!
//! What this crate never does: change a log that it reads, talk to a server, or drop an event.
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

/// What is done to a log's transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Those that a server would compress are compressed.
    Compress(Compression),
    /// Those that are compressed are opened.
    Decompress,
}

/// How transactions are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// How hard zstd tries.
    pub level: Level,
    /// Which ones stay plain although they could be compressed.
    pub keep: Keep,
    /// What happens to those that are compressed already.
    pub compressed: Compressed,
    /// The largest payload event, in bytes: `replica_max_allowed_packet`.
    pub event_size_max: u32,
    /// What happens to logs whose format description does not know payloads.
    pub old_format: OldFormat,
}

/// What happens to logs whose format description counts fewer than 40 event types: those of MySQL before 8.0.20, whose
/// readers would not know a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OldFormat {
    /// They are refused.
    Refuse,
    /// They get a longer one: servers and `mysqlbinlog` since 8.0.20 read the result, older ones do not.
    Extend,
}

/// Which transactions stay plain although they could be compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// None: a server stores even what grows.
    None,
    /// Those that would not become smaller by this share, in percent; 0: those that would not become smaller.
    GainBelow(u8),
}

/// What happens to transactions that are compressed already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compressed {
    /// They pass.
    Pass,
    /// They are compressed again, at the level asked for.
    Again,
}

/// What became of a log.
#[derive(Clone, Debug)]
pub struct Report {
    /// Transactions and bytes.
    pub tally: Tally,
    /// How the log that was read ends.
    pub end: logs::End,
}

/// What is told on the way: where each transaction started and where it starts now. `Break` ends the work.
pub trait Progress {
    /// One more transaction is written.
    fn moved(&mut self, moved: Moved) -> ControlFlow<()>;
}

impl<F: FnMut(Moved) -> ControlFlow<()>> Progress for F {
    fn moved(&mut self, moved: Moved) -> ControlFlow<()> {
        self(moved)
    }
}

/// How a log is cut up, and where what does not fit in memory goes: see [`Plan::sizes`].
#[derive(Clone, Debug)]
pub struct Sizes {
    /// Bytes that are read at once, and roughly what is handed on at once.
    pub unit: usize,
    /// A transaction of more bytes is not kept in memory: it is read again, and its payload waits in a file.
    pub large: u64,
    /// How many threads of its own zstd may use for such a transaction; 0: the worker's.
    pub large_threads: u32,
    /// The folder of those files. They have no name and are gone with the process.
    pub folder: PathBuf,
}

/// Reads a log with what `open` opens, and writes another with the same transactions to `out`, from its magic on.
///
/// `open` is called again for each transaction too large for memory.
///
/// # Errors
///
/// When the log cannot be read, is not sound (checksums are verified), or is of a format that cannot hold compressed
/// transactions; when `out` cannot be written; when `progress` ends the work. What was written by then is of no use.
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
    // No event has it.
    tally.bytes_before += MAGIC.len() as u64;
    Ok(Report { tally, end })
}
