//! Foreign key actions in a log.

use crate::row_sql::ForeignKeyChecks;

/// Presence in the log of changes by foreign key actions, such as `ON DELETE CASCADE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedActions {
    /// The log lacks these changes: the server checks foreign keys, and executes their actions.
    Absent,
    /// The log contains these changes: the server must not execute the actions again.
    Present,
}

impl LoggedActions {
    pub(crate) const fn checks(self) -> ForeignKeyChecks {
        match self {
            Self::Absent => ForeignKeyChecks::On,
            Self::Present => ForeignKeyChecks::ByFlags,
        }
    }
}
