//! What would compressing transactions do to these logs: sizes, time, latency, by level, table and size.
//!
//! ```text
//! all of it: LogReader ─▶ cut: whole transactions ─▶ measure at every level ─▶ tally ─▶ Report
//! a sample:  cells at random places ─▶ the same in each ───────────────────┘     └▶ rules: the advice in words
//! ```
//!
//! A transaction is measured as a server compresses it: all levels in turn, with contexts that are used again. Sizes
//! are those of whole log files, as `bintide compress --like-server` writes them.

mod build;
mod cells;
mod clock;
mod compare;
mod cut;
mod estimate;
mod histogram;
mod known;
mod measure;
mod network;
mod plan;
mod probe;
mod record;
mod report;
mod rules;
mod run;
mod span;
mod tables;
mod tally;
mod timeline;
mod work;

use std::num::NonZeroUsize;
use std::time::Duration;

use binlog::Level;
use logs::LogReader;

pub use plan::{Plan, Sizes};
pub use report::{
    Advice, Connection, DictionaryReport, Estimate, FoundReport, Latency, LevelMatches, LevelReport,
    LevelSetting, LogReport, MachineReport, NetworkReport, NetworkWay, RefusedReport, Report, SampleReport,
    ServerReport, SizeAtLevel, SizeReport, StoppedBy, TableAtLevel, TableReport, TimeBucket, TimeReport,
    Totals, Verdict, WholeFileReport,
};
pub use run::advise;

/// A log that can be opened as often as need be.
pub struct Source<'s> {
    /// As it was given.
    pub name: String,
    /// The file's size, in bytes.
    pub bytes: u64,
    /// Opens it.
    pub open: Box<dyn Fn() -> Result<LogReader, logs::Error> + Send + Sync + 's>,
}

impl std::fmt::Debug for Source<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, bytes, .. } = self;
        out.debug_struct("Source").field("name", name).field("bytes", bytes).finish_non_exhaustive()
    }
}

/// How to measure.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Which levels, in the order in which they are to be shown; at least one.
    pub levels: Vec<Level>,
    /// How much of the logs.
    pub extent: Extent,
    /// What random places are drawn from: the same seed draws the same.
    pub seed: u64,
    /// Threads that measure.
    pub workers: NonZeroUsize,
    /// What they keep in memory.
    pub sizes: Sizes,
}

/// How much of the logs to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// All.
    All,
    /// Stretches at random places, until one of these bounds is met; all, if none is.
    Sample {
        /// About how long it may take altogether; `None`: as long as it takes.
        time: Option<Duration>,
        /// About how many bytes to measure.
        bytes: Option<u64>,
    },
}
