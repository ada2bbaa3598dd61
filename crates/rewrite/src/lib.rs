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
mod meaning;
mod place;
mod replace;
mod tally;
mod work;

use std::io::Write;

use binlog::Level;
use logs::LogReader;
use logs::ordered::{Bounds, ordered};

pub use crate::error::Error;
pub use crate::file::{
    Check, FileJob, FileOutcome, FileReport, Sealing, Trial, positions_path, rewrite_file,
};
pub use crate::meaning::{Meaning, meaning};
pub use crate::replace::{Replacement, Synced};
pub use crate::tally::{Moved, Tally, Timing};

use crate::feed::feed;
use crate::place::Placer;
use crate::work::Worker;

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

/// What is told on the way.
pub trait Progress {
    /// So many bytes of the source are done; where a transaction started and where it starts now.
    fn moved(&mut self, moved: Moved);
}

impl<F: FnMut(Moved)> Progress for F {
    fn moved(&mut self, moved: Moved) {
        self(moved);
    }
}

/// Reads a log with what `open` opens, and writes another with the same transactions to `out`, from its magic on.
///
/// `open` is called again for each transaction too large for memory.
///
/// # Errors
///
/// When the log cannot be read, is not sound (checksums are verified), or is of a format that cannot hold compressed
/// transactions; when `out` cannot be written. What was written by then is of no use.
pub fn rewrite<W: Write>(
    action: Action,
    bounds: Bounds,
    open: &(dyn Fn() -> Result<LogReader, logs::Error> + Sync),
    out: W,
    progress: &mut dyn Progress,
) -> Result<Report, Error> {
    let mut reader = open()?;
    let name = reader.name().to_owned();
    let mut placer = Placer::new(out, name.clone())?;
    let mut end = logs::End::Open { in_use: false };
    ordered(
        bounds,
        |line| {
            end = feed(&mut reader, action, line)?;
            Ok(())
        },
        || Worker::new(action, open, &name),
        |worker, item, outlet| worker.work(item, outlet),
        |part| placer.take(part, progress),
    )?;
    let tally = placer.finish()?;
    Ok(Report { tally, end })
}
