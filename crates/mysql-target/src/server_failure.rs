//! Failures of a server.

use binlog::server_error::{
    ACCESS_DENIED_ERROR, DBACCESS_DENIED_ERROR, SPECIFIC_ACCESS_DENIED_ERROR, TABLEACCESS_DENIED_ERROR,
};
use replay::commit_gate::is_temporary;
use replay::{TargetFailure, TargetFailureKind};
use servers::ConnectionError;

/// Name of a connection's first operation. The error of an unreachable server states that there is no connection.
pub(crate) const LOG_IN: &str = "log in to the target";

/// Returns the failure of a target that is a server.
pub(crate) fn server_failure(error: ConnectionError) -> TargetFailure {
    let kind = match &error {
        ConnectionError::Lost { .. } => TargetFailureKind::Lost,
        ConnectionError::Cancelled => TargetFailureKind::Cancelled,
        _ if error.code().is_some_and(is_temporary) => TargetFailureKind::Locked,
        _ if error.code().is_some_and(is_environmental) => TargetFailureKind::Environment,
        _ => TargetFailureKind::Refused,
    };
    TargetFailure { message: error.to_string(), kind, code: error.code() }
}

/// Returns true for errors not caused by the transaction: disk, memory, limits, a read-only server, privileges.
fn is_environmental(code: u16) -> bool {
    /// `EE_WRITE`, `EE_OUTOFMEMORY` and `EE_DISK_FULL`.
    const FILE_ERRORS: [u16; 3] = [3, 5, 20];
    const ERROR_ON_WRITE: u16 = 1026;
    const DISK_FULL: u16 = 1021;
    const OUT_OF_MEMORY: u16 = 1037;
    const OUT_OF_SORT_MEMORY: u16 = 1038;
    const TOO_MANY_CONNECTIONS: u16 = 1040;
    const OUT_OF_RESOURCES: u16 = 1041;
    const RECORD_FILE_FULL: u16 = 1114;
    const COLUMN_ACCESS_DENIED: u16 = 1143;
    const TRANSACTION_CACHE_FULL: u16 = 1197;
    const LOCK_TABLE_FULL: u16 = 1206;
    const OPTION_PREVENTS_STATEMENT: u16 = 1290;
    const READ_ONLY_MODE: u16 = 1836;
    const TEMPORARY_FILE_FULL: u16 = 1878;
    FILE_ERRORS.contains(&code)
        || [ERROR_ON_WRITE, DISK_FULL, OUT_OF_MEMORY, OUT_OF_SORT_MEMORY, OUT_OF_RESOURCES].contains(&code)
        || [DBACCESS_DENIED_ERROR, ACCESS_DENIED_ERROR, TABLEACCESS_DENIED_ERROR, COLUMN_ACCESS_DENIED]
            .contains(&code)
        || [TOO_MANY_CONNECTIONS, RECORD_FILE_FULL, TRANSACTION_CACHE_FULL, LOCK_TABLE_FULL].contains(&code)
        || [SPECIFIC_ACCESS_DENIED_ERROR, OPTION_PREVENTS_STATEMENT, READ_ONLY_MODE].contains(&code)
        || code == TEMPORARY_FILE_FULL
}
