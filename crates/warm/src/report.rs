//! Status and report of warming.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::distance_controller::WarmState;
use crate::relay_position::RelayPosition;
use crate::statement::SkipReason;

/// Counters of warming since its start.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WarmCounts {
    /// Rows events read ahead of the applier.
    pub events: u64,
    /// Row changes in these events.
    pub rows: u64,
    /// Row changes of tables that cannot be searched: the table is missing, has another engine, has no key, or differs
    /// from the log.
    pub rows_unsearchable: u64,
    /// Rows events and statements that the applier filters out.
    pub filtered: u64,
    /// Searches for pages.
    pub searches: u64,
    /// Searches dropped because the same search ran recently.
    pub repeated: u64,
    /// Search statements queued.
    pub pushed: u64,
    /// Search statements not queued because of [`WarmState::Sampling`].
    pub skipped: u64,
    /// Search statements that a connection has taken from the queue.
    pub popped: u64,
    /// Search statements taken from the queue but not run, because the applier had passed their changes.
    pub expired: u64,
    /// Search statements that succeeded.
    pub executed: u64,
    /// Search statements that failed.
    pub errors: u64,
    /// Statements in the log with a search.
    pub statements: u64,
    /// Statements in the log without a search.
    pub discarded: u64,
    /// Statements in the log without a search, by reason.
    pub skip_reasons: BTreeMap<SkipReason, u64>,
    /// Restarts of reading at the applier's position: the applier was faster, or logs were removed.
    pub jumps: u64,
    /// Errors from the server by error number: how many, and the first message.
    pub refusals: BTreeMap<u16, (u64, String)>,
}

/// Disk reads of the replica.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskReads {
    /// Reads by all threads: `Innodb_buffer_pool_reads`.
    pub all: u64,
    /// Reads by our searches; `None` if the replica does not count them.
    pub ours: Option<DiskWaits>,
    /// Reads by the applier; `None` if the replica does not count them.
    pub applier: Option<DiskWaits>,
}

/// Disk reads, and the time spent waiting for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskWaits {
    /// Number of pages.
    pub pages: u64,
    /// Total wait time.
    pub time: Duration,
}

/// Status of warming.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WarmStatus {
    /// Counters since the start.
    pub counts: WarmCounts,
    /// Disk reads since the start.
    pub reads: DiskReads,
    /// Status of each channel.
    pub channels: Vec<ChannelStatus>,
    /// Number of queued search statements.
    pub queued: usize,
    /// Number of searches that may be ahead of the applier, for all channels together.
    pub distance: u64,
    /// Number of connections that search.
    pub workers: usize,
    /// State of the controller.
    pub state: WarmState,
    /// True while the connection to the server is lost and being retried.
    pub is_lost: bool,
    /// Time spent in each state.
    pub times: BTreeMap<WarmState, Duration>,
    /// Speed.
    pub rate: WarmRate,
    /// Number of applier threads of the replica.
    pub appliers: u64,
    /// Time since the start.
    pub elapsed: Duration,
}

/// Speed over about the last half second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct WarmRate {
    /// Searches per second.
    pub searches: f64,
    /// Searches that the applier passes per second.
    pub passed: f64,
}

/// Status of one channel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChannelStatus {
    /// Name; empty for the default channel.
    pub name: String,
    /// Relay log that the applier reads.
    pub log: String,
    /// Position of the applier.
    pub applier: Option<RelayPosition>,
    /// True if the applier runs.
    pub is_applying: bool,
    /// Position up to which changes were searched.
    pub position: Option<RelayPosition>,
    /// Number of searches ahead of the applier.
    pub searches_ahead: u64,
    /// Number of events ahead of the applier.
    pub events_ahead: u64,
    /// Lag that the replica reports, in seconds.
    pub lag_s: Option<u64>,
    /// Mean of the reported lag since the start, in seconds.
    pub lag_average_s: Option<f64>,
}

/// Result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct WarmReport {
    /// Final status.
    pub status: WarmStatus,
    /// Reason for the end.
    pub end_reason: WarmEndReason,
}

/// Reason for the end of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarmEndReason {
    /// The run was cancelled, or the applier has ended.
    Interrupted,
    /// Warming saves no time.
    NoGain,
}

impl WarmStatus {
    /// Returns the approximate time saved for the applier: the time of the searches' reads, as if the applier's threads
    /// had made them in parallel. `None` if the replica does not count reads.
    pub fn saved_time(&self) -> Option<Duration> {
        let ours = self.reads.ours?;
        let of_applier = self.reads.applier.filter(|waits| waits.pages >= MEAN_READS_MIN);
        let each = of_applier.unwrap_or(ours).mean()?;
        let pages = u32::try_from(ours.pages).unwrap_or(u32::MAX);
        let appliers = u32::try_from(self.appliers.max(1)).unwrap_or(u32::MAX);
        Some(each * pages / appliers)
    }
}

/// Reads needed for a meaningful mean.
const MEAN_READS_MIN: u64 = 100;

impl WarmRate {
    pub(crate) fn per_second(searches: u64, passed: u64, elapsed: Duration) -> Self {
        let each = |count: u64| count as f64 / elapsed.as_secs_f64().max(f64::MIN_POSITIVE);
        Self { searches: each(searches), passed: each(passed) }
    }
}

impl DiskWaits {
    /// Returns the mean wait per page.
    pub fn mean(&self) -> Option<Duration> {
        let pages = u32::try_from(self.pages).unwrap_or(u32::MAX);
        (pages > 0).then(|| self.time / pages)
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self { pages: self.pages.saturating_sub(before.pages), time: self.time.saturating_sub(before.time) }
    }
}
