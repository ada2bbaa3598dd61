//! Foreign key actions in a log.

/// Presence in the log of changes by foreign key actions, such as `ON DELETE CASCADE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoggedActions {
    /// The log lacks these changes: the server checks foreign keys, and executes their actions.
    Absent,
    /// The log may contain these changes: then the server must not execute the actions again.
    Present,
}
