//! Versions of MySQL in which a target behaves differently.

/// The first MySQL version with the state of its appliers in performance_schema.
pub(crate) const APPLIER_STATUS_SINCE: [u32; 3] = [5, 7, 2];
/// MySQL 8.0, which has roles for privileges, and adds to `gtid_purged`.
pub(crate) const MYSQL_8: [u32; 3] = [8, 0, 0];
