//! Results of a replay, and the state of one that runs.

use binlog::gtid::GtidSet;
use sql::FilterRule;

use crate::lag_tracker::{CommitLag, CommitLagBuckets, LagTracker};
use crate::source_position::SourcePosition;
use crate::source_transaction::TransactionHead;
use crate::transaction_selection::LateTransactions;

/// State of a running replay.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct ReplayStatus<'r> {
    /// Results so far.
    pub report: &'r ReplayReport,
    /// Number of sessions that apply transactions.
    pub workers: u64,
    /// Number of sessions that are applying or committing.
    pub workers_busy: u64,
    /// Source transactions in the last committed target transaction.
    pub group_transactions: u64,
    /// For logs that are still being written: `true` if all available transactions are applied.
    pub is_caught_up: bool,
    lags: Option<&'r LagTracker>,
}

impl<'r> ReplayStatus<'r> {
    /// Creates a status from the number of sessions, the number of busy sessions, and the size of the last commit.
    pub const fn new(
        report: &'r ReplayReport,
        workers: u64,
        workers_busy: u64,
        group_transactions: u64,
    ) -> Self {
        Self { report, workers, workers_busy, group_transactions, is_caught_up: false, lags: None }
    }

    pub(crate) const fn with_lags(mut self, lags: &'r LagTracker) -> Self {
        self.lags = Some(lags);
        self
    }

    /// Returns the lag over the last 30 to 60 seconds. `now_us` is in microseconds since 1970. Slow: reads all
    /// measurements.
    pub fn lag(&self, now_us: u64) -> CommitLag {
        self.lags.map_or_else(CommitLag::default, |lags| lags.recent(now_us))
    }
}

/// Results of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReplayReport {
    /// Source transactions applied by this run.
    pub transactions: u64,
    /// Source transactions skipped because the target has them, or they are not selected.
    pub skipped: u64,
    /// Committed target transactions.
    pub groups: u64,
    /// Rows changed on the target. Of merged transactions, only the net change counts.
    pub rows: u64,
    /// Times that a target transaction was rolled back and retried.
    pub retries: u64,
    /// Maximum number of target transactions applied at the same time.
    pub at_once: u64,
    /// Bytes of the logs read, including skipped transactions.
    pub bytes_read: u64,
    /// The last transaction that this run applied, in source order.
    pub last_applied: Option<TransactionHead>,
    /// The first transaction after the selection's stop, if the stop was reached. Neither this transaction nor any
    /// later transaction is applied.
    pub first_after_stop: Option<TransactionHead>,
    /// Commit time of the last applied transaction on its source, as [`TransactionHead::committed_us`].
    ///
    /// [`TransactionHead::committed_us`]: crate::TransactionHead::committed_us
    pub committed_us: Option<u64>,
    /// End position of the last applied transaction.
    pub position: Option<SourcePosition>,
    /// The same position in the log's file. Differs if the file was rewritten.
    pub file_position: u64,
    /// `true` if the observer stopped the replay. Commits in progress are finished and counted.
    pub is_interrupted: bool,
    /// Transactions after a stop by time that the source committed before that time. They are not applied.
    pub late: Option<LateTransactions>,
    /// XA transactions that the logs prepare, but neither commit nor roll back. They are not applied.
    pub undecided: Vec<String>,
    /// Selecting rules of the filter that matched nothing in the logs. Empty before the end of the logs. Also empty if
    /// the target had some of the transactions: a rule may have matched these transactions.
    pub unmatched: Vec<FilterRule>,
    /// Lag since the target first caught up. Measured only for followed logs.
    pub lag: CommitLag,
    /// Lags of all transactions that this run applied, by size.
    pub commit_lags: CommitLagBuckets,
    /// All applied transactions: from the saved progress, and from the target's own records.
    pub applied: GtidSet,
}
