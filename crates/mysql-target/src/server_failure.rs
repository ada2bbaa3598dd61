//! Failures of a server.

use binlog::Flavour;
use binlog::server_error::{
    ACCESS_DENIED_ERROR, DBACCESS_DENIED_ERROR, SPECIFIC_ACCESS_DENIED_ERROR, TABLEACCESS_DENIED_ERROR,
};
use replay::commit_gate::is_temporary;
use replay::{SessionVariables, TargetFailure, TargetFailureKind};
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

/// Returns the failure of a statement of the log. Names a variable of the source that the target lacks, if it explains
/// the failure.
pub(crate) fn statement_failure(
    error: ConnectionError,
    context: &SessionVariables,
    target: Flavour,
) -> TargetFailure {
    if context.check_constraint_checks == Some(0) && error.code() == Some(CHECK_CONSTRAINT_VIOLATED) {
        return unchecked_change_failure(error);
    }
    let failure = server_failure(error);
    let is_lenient = context.sql_if_exists == Some(1) && target == Flavour::MySql;
    if !is_lenient || !failure.code.is_some_and(is_missing) {
        return failure;
    }
    explained(
        failure,
        "The source ran this statement with sql_if_exists=1, which MySQL does not have. If the statement names \
         something that does not exist on the target, exclude the transaction",
    )
}

/// Returns true for errors about something that does not exist.
fn is_missing(code: u16) -> bool {
    const DATABASE: u16 = 1008;
    const DROPPED_TABLE: u16 = 1051;
    const COLUMN: u16 = 1054;
    const DROPPED_COLUMN_OR_KEY: u16 = 1091;
    const TABLE: u16 = 1146;
    const ROUTINE: u16 = 1305;
    const TRIGGER: u16 = 1360;
    const ACCOUNT: u16 = 1396;
    const EVENT: u16 = 1539;
    [DATABASE, DROPPED_TABLE, COLUMN, DROPPED_COLUMN_OR_KEY, TABLE, ROUTINE, TRIGGER, ACCOUNT, EVENT]
        .contains(&code)
}

/// MySQL's error; MariaDB has another number, and the variable.
const CHECK_CONSTRAINT_VIOLATED: u16 = 3819;

/// Returns the failure of a change that the source made with `check_constraint_checks=0`.
pub(crate) fn unchecked_change_failure(error: ConnectionError) -> TargetFailure {
    let failure = server_failure(error);
    if failure.code != Some(CHECK_CONSTRAINT_VIOLATED) {
        return failure;
    }
    explained(
        failure,
        "The source made this change with check_constraint_checks=0, which MySQL does not have. Turn the constraint \
         off on the target (ALTER TABLE … ALTER CHECK … NOT ENFORCED), and run the replay again",
    )
}

fn explained(failure: TargetFailure, explanation: &str) -> TargetFailure {
    let message = format!("{}. {explanation}", failure.message);
    TargetFailure { message, ..failure }
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

#[cfg(test)]
mod tests {
    use binlog::Flavour;
    use replay::SessionVariables;
    use servers::ConnectionError;

    use super::statement_failure;

    #[test]
    fn variables_that_the_target_lacks_are_named() {
        let check = |code, context: &SessionVariables, target, expected: Option<&str>| {
            let error = ConnectionError::Refused { code, message: "refused".to_owned() };
            let plain = error.to_string();
            let message = statement_failure(error, context, target).message;
            match expected {
                None => assert_eq!(message, plain),
                Some(expected) => assert!(message.contains(expected), "{message}"),
            }
        };
        let plain = SessionVariables::default();
        let unchecked = SessionVariables { check_constraint_checks: Some(0), ..plain.clone() };
        let lenient = SessionVariables { sql_if_exists: Some(1), ..plain.clone() };
        check(3819, &plain, Flavour::MySql, None);
        check(
            3819,
            &unchecked,
            Flavour::MySql,
            Some("(error 3819). The source made this change with check_constraint_checks=0,"),
        );
        check(1064, &unchecked, Flavour::MySql, None);
        check(
            1051,
            &lenient,
            Flavour::MySql,
            Some("(error 1051). The source ran this statement with sql_if_exists=1,"),
        );
        check(1064, &lenient, Flavour::MySql, None);
        let both = SessionVariables { check_constraint_checks: Some(0), ..lenient.clone() };
        check(1091, &both, Flavour::MySql, Some("The source ran this statement with sql_if_exists=1,"));
        check(1051, &lenient, Flavour::MariaDb, None);
        check(1205, &lenient, Flavour::MySql, None);
    }
}
