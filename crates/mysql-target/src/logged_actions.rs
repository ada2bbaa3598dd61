//! Foreign key actions in a log.

use crate::row_sql::ForeignKeyChecks;

/// Presence in the log of the changes that foreign keys of a statement cause, such as `ON DELETE CASCADE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedActions {
    /// The log lacks them: the server checks foreign keys, and makes their changes.
    Absent,
    /// The log contains them: the server must not make them again.
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
