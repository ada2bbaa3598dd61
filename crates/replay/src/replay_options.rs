//! Options of one replay.

use std::num::NonZeroUsize;

use sql::ReplicationFilter;

use crate::commit_order::CommitOrder;
use crate::schedule::ParallelMode;
use crate::transaction_selection::TransactionSelection;

/// Options of one replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Order in which transactions are committed, and how many as one.
    pub order: CommitOrder,
    /// Maximum number of transactions committed as one.
    pub group_max: usize,
    /// Approximate memory in bytes for transactions that are read and not yet applied.
    pub memory: usize,
    /// Sessions that apply transactions at the same time.
    pub workers: NonZeroUsize,
    /// Transactions that the sessions may apply at the same time.
    pub mode: ParallelMode,
    /// Transactions to apply.
    pub selection: TransactionSelection,
    /// Databases and tables to apply.
    pub filter: ReplicationFilter,
    /// Action if the target lacks transactions that precede the first log.
    pub gap: GapPolicy,
}

/// Actions if the target lacks transactions that precede the first log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GapPolicy {
    /// Apply nothing.
    #[default]
    Refuse,
    /// Apply the logs anyway.
    Allow,
}
