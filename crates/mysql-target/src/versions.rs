//! Versions of MySQL in which a target behaves differently.

use servers::version_numbers;

/// The first MySQL version with the state of its appliers in performance_schema.
pub(crate) const APPLIER_STATUS_SINCE: [u32; 3] = [5, 7, 2];

/// Returns true if this MySQL version is older than 8.0.
pub(crate) fn is_before_8(version: &str) -> bool {
    version_numbers(version).is_some_and(|numbers| numbers < [8, 0, 0])
}
