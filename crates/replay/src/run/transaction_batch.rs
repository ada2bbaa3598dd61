//! Transactions that are read together.

use sql::FilterRule;

use crate::apply_plan::ApplyPlan;
use crate::replay_error::ReplayError;
use crate::source_transaction::TransactionHead;
use crate::transaction_selection::LateTransactions;

/// Some transactions, and the read position after them.
#[derive(Default)]
pub(super) struct TransactionBatch {
    pub(super) units: Vec<(TransactionHead, ApplyPlan)>,
    pub(super) so_far: ReadProgress,
    /// Nothing more is available yet.
    pub(super) is_last: bool,
    /// Failure that ends reading after this batch.
    pub(super) failure: Option<ReplayError>,
}

/// Progress of reading.
#[derive(Debug, Default)]
pub(super) struct ReadProgress {
    /// Further transactions that were skipped because the target has them, or they are not selected.
    pub(super) skipped: u64,
    /// Bytes of the logs read so far.
    pub(super) bytes_read: u64,
    /// The first transaction after the stop, once it is reached.
    pub(super) first_after_stop: Option<TransactionHead>,
    /// Transactions after the stop, once they are counted.
    pub(super) late: Option<LateTransactions>,
    /// Filter rules that matched nothing, at the end of the logs.
    pub(super) unmatched: Vec<FilterRule>,
}
