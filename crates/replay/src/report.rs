//! What a replay did, and how far one is that runs.

use binlog::gtid::GtidSet;

use crate::lag::{Lag, Lags};
use crate::progress::Place;
use crate::select::Late;

/// How far a replay is.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Status<'r> {
    /// What has been done.
    pub report: &'r Report,
    /// Sessions that apply transactions.
    pub workers: u64,
    /// Those of them that have something to apply or to commit.
    pub workers_busy: u64,
    /// Source transactions in the target transaction that was committed last.
    pub group_transactions: u64,
    /// Of logs that are still being written: is all applied that there is, for now?
    pub is_caught_up: bool,
    lags: Option<&'r Lags>,
}

impl<'r> Status<'r> {
    /// Of so many sessions, so many of them busy, and with so many transactions in the last commit.
    pub const fn new(
        report: &'r Report,
        (workers, workers_busy): (u64, u64),
        group_transactions: u64,
    ) -> Self {
        Self { report, workers, workers_busy, group_transactions, is_caught_up: false, lags: None }
    }

    pub(crate) const fn with_lags(mut self, lags: &'r Lags) -> Self {
        self.lags = Some(lags);
        self
    }

    /// What the lag was over the last half minute, or a bit more. The time is microseconds since 1970. Not for every
    /// call: all that was measured is gone over.
    pub fn lag(&self, now_us: u64) -> Lag {
        self.lags.map_or_else(Lag::default, |lags| lags.recent(now_us))
    }
}

/// What a replay did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Source transactions applied by this run.
    pub transactions: u64,
    /// Source transactions passed over, because the target had them, or they were not meant.
    pub skipped: u64,
    /// Target transactions that were committed.
    pub groups: u64,
    /// Row changes made on the target as the logs have rows: of transactions that were merged, what is left of them.
    pub rows: u64,
    /// Times that a target transaction was rolled back and tried again.
    pub retries: u64,
    /// Target transactions that were applied at once, at most.
    pub at_once: u64,
    /// Bytes of the logs that were gone over, of transactions that were passed over, too.
    pub bytes_read: u64,
    /// When the last of the transactions applied was committed on its source, as [`Head::committed_us`] has it.
    ///
    /// [`Head::committed_us`]: crate::Head::committed_us
    pub committed_us: Option<u64>,
    /// Where the last of the transactions applied ends.
    pub place: Option<Place>,
    /// Did the observer want no more? What was being committed then is committed, and counted.
    pub is_interrupted: bool,
    /// What is behind the place where it stopped by time, if it did, and was committed earlier: it is not applied.
    pub late: Option<Late>,
    /// XA transactions that were prepared and that the logs do not decide: they are not applied.
    pub undecided: Vec<String>,
    /// What the lag was since all had been applied that there was, for the first time. Only logs that are followed have
    /// such a time.
    pub lag: Lag,
    /// All that has been applied, by the progress saved on the target and the target's own account.
    pub applied: GtidSet,
}
