//! Logging on the target.

/// Logging of applied transactions in the target's own binary log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetLogging {
    Off,
    /// Under the source's GTIDs. The server records them in `gtid_executed`, so they also serve as progress.
    BySourceGtids,
}

/// The user's choice about writing applied transactions to the target's own binary log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetLogChoice {
    /// No choice: transactions are not written to the log, and a target whose log has readers is refused.
    Unset,
    /// Transactions are not written to the log.
    Omit,
    /// Transactions are written to the log under the source's GTIDs.
    Write,
}
