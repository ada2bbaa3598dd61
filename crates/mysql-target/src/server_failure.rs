//! Failures of a server.

use replay::commit_gate::is_temporary;
use replay::{TargetFailure, TargetFailureKind};
use servers::ConnectionError;

/// Returns the failure of a target that is a server.
pub(crate) fn server_failure(error: ConnectionError) -> TargetFailure {
    let kind = match &error {
        ConnectionError::Lost { .. } => TargetFailureKind::Lost,
        ConnectionError::Cancelled => TargetFailureKind::Cancelled,
        _ if error.code().is_some_and(is_temporary) => TargetFailureKind::Locked,
        _ => TargetFailureKind::Refused,
    };
    TargetFailure { message: error.to_string(), kind, code: error.code() }
}
