//! Target of a dry run.

use crate::replay_progress::AppliedState;
use crate::table_definitions::TableDefinitions;

/// Target of a dry run. By default a target without transactions, with only the tables that the logs define.
#[derive(Debug, Default)]
pub struct DryRunTarget<'t> {
    /// Transactions that the target has.
    pub applied: AppliedState,
    /// Tables of the target that `draft` does not have.
    pub tables: Option<&'t mut (dyn TableDefinitions + 'static)>,
    /// Tables as the statements of the logs define them. `None` if this program cannot apply definitions.
    pub draft: Option<Box<dyn TableDefinitions>>,
    /// Role of the draft.
    pub role: DraftRole,
}

/// Roles of a draft of the definitions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DraftRole {
    /// The draft knows tables that the target does not have yet. The target may run statements that the draft cannot
    /// apply.
    #[default]
    Lookup,
    /// The draft is a model of the target: a statement that it cannot apply would be refused.
    Target,
}
