//! What a replay did.

use binlog::gtid::GtidSet;

/// What a replay did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Source transactions applied by this run.
    pub transactions: u64,
    /// Source transactions passed over, because the target had them, or they were not meant.
    pub skipped: u64,
    /// Target transactions that were committed.
    pub groups: u64,
    /// Times that a target transaction was rolled back and tried again.
    pub retries: u64,
    /// Target transactions that were applied at once, at most.
    pub at_once: u64,
    /// XA transactions that were prepared and that the logs do not decide: they are not applied.
    pub undecided: Vec<String>,
    /// All that has been applied, by the progress saved on the target and the target's own account.
    pub applied: GtidSet,
}
