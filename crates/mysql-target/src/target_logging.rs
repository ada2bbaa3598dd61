//! Logging on the target.

/// Logging of applied transactions in the target's own binary log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetLogging {
    Off,
    /// Under the source's GTIDs. The server records them in `gtid_executed`, so they also serve as progress.
    BySourceGtids,
}

/// Choice of the user: whether the target's own binary log is to contain the applied transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetLogChoice {
    /// None was made: transactions are not written to the log, and a target whose log is read is refused.
    Unset,
    /// They are not written to the log.
    Omit,
    /// They are written to the log under the source's GTIDs.
    Write,
}
