//! Logging on the target.

/// Logging of applied transactions in the target's own binary log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TargetLogging {
    Off,
    /// Under the source's GTIDs. The server records them in `gtid_executed`, so they also serve as progress.
    BySourceGtids,
}
