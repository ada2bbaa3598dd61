//! Failures of SQLite.

use replay::{TargetFailure, TargetFailureKind};

/// Returns the failure of a target that is a SQLite database.
pub(crate) fn sqlite_failure(error: rusqlite::Error) -> TargetFailure {
    let is_busy = error.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseBusy);
    let kind = if is_busy { TargetFailureKind::Locked } else { TargetFailureKind::Refused };
    let code = error.sqlite_error().and_then(|error| u16::try_from(error.extended_code & 0xff).ok());
    TargetFailure { message: error.to_string(), kind, code }
}
