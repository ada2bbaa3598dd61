//! Failures of SQLite.

use replay::{TargetFailure, TargetFailureKind};

/// Returns the failure of a target that is a SQLite database.
pub(crate) fn sqlite_failure(error: rusqlite::Error) -> TargetFailure {
    use rusqlite::ErrorCode as C;
    let kind = match error.sqlite_error_code() {
        Some(C::DatabaseBusy) => TargetFailureKind::Locked,
        Some(
            C::PermissionDenied
            | C::OutOfMemory
            | C::ReadOnly
            | C::SystemIoFailure
            | C::DatabaseCorrupt
            | C::DiskFull
            | C::CannotOpen
            | C::FileLockingProtocolFailed
            | C::NotADatabase,
        ) => TargetFailureKind::Environment,
        _ => TargetFailureKind::Refused,
    };
    let code = error.sqlite_error().and_then(|error| u16::try_from(error.extended_code & 0xff).ok());
    TargetFailure { message: error.to_string(), kind, code }
}
