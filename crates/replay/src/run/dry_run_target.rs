//! Target of a dry run.

use crate::replay_progress::AppliedState;
use crate::table_definitions::TableDefinitions;

/// Target of a dry run. By default none: as if it had no transactions, and no tables but those that the logs define.
#[derive(Debug, Default)]
pub struct DryRunTarget<'t> {
    /// Transactions that the target has.
    pub applied: AppliedState,
    /// Tables of the target that `draft` does not have.
    pub tables: Option<&'t mut (dyn TableDefinitions + 'static)>,
    /// Tables as the statements of the logs define them. `None` if this program cannot follow definitions.
    pub draft: Option<Box<dyn TableDefinitions>>,
    /// Role of the draft.
    pub role: DraftRole,
}

/// Roles of a draft of the definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DraftRole {
    /// It knows tables that the target does not have yet. The target may run statements that the draft cannot follow.
    #[default]
    Lookup,
    /// It is what the target would be: a statement that it cannot follow would be refused.
    Target,
}
