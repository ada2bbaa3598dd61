//! Measurement of the effects of compressing transactions: sizes, time and latency, by level, table and size.
//!
//! ```text
//! all of it: LogReader ─▶ cut: whole transactions ─▶ measure at every level ─▶ tally ─▶ Report
//! a sample:  cells at random places ─▶ the same in each ───────────────────┘     └▶ advice_rules: the advice in words
//! ```
//!
//! Transactions are compressed as on a server, with reused contexts, at each level in turn. Sizes are sizes of whole
//! log files, as written by `bintide compress --like-server`.
//!
//! This crate returns values, which the caller prints.
#![forbid(unsafe_code)]

mod advice_rules;
mod advise_tally;
mod alternatives;
mod cell_grid;
mod commit_timeline;
mod cpu_time;
mod estimate;
mod latency_histogram;
mod level_bench;
mod level_probe;
mod measure_worker;
mod measured_transactions;
mod measurement_plan;
mod network;
mod pieces;
mod record;
mod report;
mod report_builder;
mod run;
mod span;
mod transaction_tables;

use std::num::NonZeroUsize;
use std::time::Duration;

use binlog::ZstdLevel;
use logs::LogReader;

pub use crate::measurement_plan::{MeasurementPlan, MemoryLimits};
pub use crate::report::{
    AdviceVerdict, AdviseReport, AdviseTotals, CommitLatency, CompressionAdvice, ConnectionCompression,
    DictionaryReport, FoundReport, IntervalEstimate, LevelMatches, LevelReport, LevelSetting, MachineReport,
    MeasuredLog, NetworkReport, NetworkWay, RefusedReport, SampleReport, ServerReport, SizeAtLevel,
    SizeReport, StoppedBy, TableAtLevel, TableReport, TimeBucket, TimeReport, WholeFileReport,
};
pub use crate::run::advise;

/// A log that can be opened any number of times.
pub struct LogSource<'s> {
    /// The name as given by the user.
    pub name: String,
    /// The file's size, in bytes.
    pub bytes: u64,
    /// Opens the log.
    pub open: Box<dyn Fn() -> Result<LogReader, logs::LogError> + Send + Sync + 's>,
}

impl std::fmt::Debug for LogSource<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, bytes, .. } = self;
        out.debug_struct("LogSource").field("name", name).field("bytes", bytes).finish_non_exhaustive()
    }
}

/// Settings of one measurement.
#[derive(Clone, Debug)]
pub struct AdviseSettings {
    /// Levels to measure, in the order of the report; at least one.
    pub levels: Vec<ZstdLevel>,
    /// Part of the logs to measure.
    pub extent: MeasureExtent,
    /// Seed of the random places. The same seed gives the same places.
    pub seed: u64,
    /// Number of threads.
    pub workers: NonZeroUsize,
    /// Memory limits of the threads.
    pub sizes: MemoryLimits,
}

/// Part of the logs to measure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MeasureExtent {
    /// All logs, completely.
    All,
    /// Stretches at random places, until a limit is reached; without limits, all logs.
    Sample {
        /// Approximate total time.
        time: Option<Duration>,
        /// Approximate bytes to measure.
        bytes: Option<u64>,
    },
}
