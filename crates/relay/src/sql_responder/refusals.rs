//! Errors with a server's numbers and messages (`share/messages_to_clients.txt`).

use wire::ServerError;

use crate::error::RelayError;
use crate::sql_answer::split_account;

/// Maximum length of the text that a syntax error repeats, in characters.
const NEAR_MAX: usize = 80;

/// `ER_PARSE_ERROR`. `rest` is the byte offset of the first unexpected word.
pub(super) fn syntax_error(sql: &str, rest: usize) -> ServerError {
    let start = (0..=rest.min(sql.len())).rev().find(|at| sql.is_char_boundary(*at)).unwrap_or(0);
    let near: String = sql[start..].chars().take(NEAR_MAX).collect();
    let line = 1 + sql[..start].matches('\n').count();
    let message = format!(
        "You have an error in your SQL syntax; check the manual that corresponds to your MySQL server version for \
         the right syntax to use near '{near}' at line {line}"
    );
    ServerError::new(1064, "42000", message)
}

/// `ER_EMPTY_QUERY`
pub(super) fn empty_query() -> ServerError {
    ServerError::new(1065, "42000", "Query was empty")
}

/// `ER_NET_PACKET_TOO_LARGE`
pub(super) fn statement_too_large() -> ServerError {
    ServerError::new(1153, "08S01", "Got a packet bigger than 'max_allowed_packet' bytes")
}

/// `ER_NET_READ_INTERRUPTED`: after this error, a replica connects to its source again.
pub(super) fn unknown_gtid_mode() -> ServerError {
    let message = "gtid_mode is not known yet: the logs have no transactions, and the relay has not connected to its \
                   source since its start";
    ServerError::new(1159, "08S01", message)
}

/// `ER_NOT_SUPPORTED_YET`, for a statement that a server supports, but a relay does not.
pub(super) fn unsupported(statement: &str) -> ServerError {
    let message = format!("bintide relay does not support {statement}: it serves binary logs only");
    ServerError::new(1235, "42000", message)
}

/// `ER_SPECIFIC_ACCESS_DENIED_ERROR`
pub(super) fn privilege_required(privileges: &str) -> ServerError {
    let message =
        format!("Access denied; you need (at least one of) the {privileges} privilege(s) for this operation");
    ServerError::new(1227, "42000", message)
}

/// `ER_TABLEACCESS_DENIED_ERROR` for a `SELECT`. `account` is `user@host`.
pub(super) fn table_denied(account: &str, table: &str) -> ServerError {
    command_denied("SELECT", account, table)
}

/// `ER_TABLEACCESS_DENIED_ERROR`. `account` is `user@host`.
pub(super) fn command_denied(command: &str, account: &str, table: &str) -> ServerError {
    let [user, host] = split_account(account);
    let message = format!("{command} command denied to user '{user}'@'{host}' for table '{table}'");
    ServerError::new(1142, "42000", message)
}

/// `ER_NO_DB_ERROR`
pub(super) fn no_database() -> ServerError {
    ServerError::new(1046, "3D000", "No database selected")
}

/// `ER_NO_SUCH_TABLE`
pub(super) fn unknown_table(database: &str, table: &str) -> ServerError {
    ServerError::new(1146, "42S02", format!("Table '{database}.{table}' doesn't exist"))
}

/// `ER_BAD_DB_ERROR`
pub(super) fn unknown_database(name: &str) -> ServerError {
    ServerError::new(1049, "42000", format!("Unknown database '{name}'"))
}

/// `ER_UNKNOWN_SYSTEM_VARIABLE`
pub(super) fn unknown_variable(name: &str) -> ServerError {
    ServerError::new(1193, "HY000", format!("Unknown system variable '{name}'"))
}

/// `ER_INCORRECT_GLOBAL_LOCAL_VAR`: the variable has the other scope.
pub(super) fn wrong_scope(name: &str, scope: &str) -> ServerError {
    ServerError::new(1238, "HY000", format!("Variable '{name}' is a {scope} variable"))
}

/// `ER_GLOBAL_VARIABLE`
pub(super) fn global_variable(name: &str) -> ServerError {
    let message = format!("Variable '{name}' is a GLOBAL variable and should be set with SET GLOBAL");
    ServerError::new(1229, "HY000", message)
}

/// `ER_LOCAL_VARIABLE`
pub(super) fn session_variable(name: &str) -> ServerError {
    let message = format!("Variable '{name}' is a SESSION variable and can't be used with SET GLOBAL");
    ServerError::new(1228, "HY000", message)
}

/// `ER_WRONG_VALUE_FOR_VAR`
pub(super) fn wrong_value(name: &str, value: &str) -> ServerError {
    ServerError::new(1231, "42000", format!("Variable '{name}' can't be set to the value of '{value}'"))
}

/// `ER_WRONG_TYPE_FOR_VAR`
pub(super) fn wrong_type(name: &str) -> ServerError {
    ServerError::new(1232, "42000", format!("Incorrect argument type to variable '{name}'"))
}

/// `ER_UNKNOWN_CHARACTER_SET`
pub(super) fn unknown_charset(name: &str) -> ServerError {
    ServerError::new(1115, "42000", format!("Unknown character set: '{name}'"))
}

/// `ER_UNKNOWN_COLLATION`
pub(super) fn unknown_collation(name: &str) -> ServerError {
    ServerError::new(1273, "HY000", format!("Unknown collation: '{name}'"))
}

/// `ER_VARIABLE_NOT_SETTABLE_IN_TRANSACTION`
pub(super) fn in_transaction(name: &str) -> ServerError {
    let message = format!("The system variable {name} cannot be set when there is an ongoing transaction.");
    ServerError::new(1766, "HY000", message)
}

/// `ER_NO_SUCH_THREAD`
pub(super) fn no_such_thread(number: u64) -> ServerError {
    ServerError::new(1094, "HY000", format!("Unknown thread id: {number}"))
}

/// `ER_KILL_DENIED_ERROR`
pub(super) fn kill_denied(number: u64) -> ServerError {
    ServerError::new(1095, "HY000", format!("You are not owner of thread {number}"))
}

/// `ER_ERROR_WHEN_EXECUTING_COMMAND` of `SHOW BINLOG EVENTS`
pub(super) fn show_events_failed(reason: &str) -> ServerError {
    let message = format!("Error when executing command SHOW BINLOG EVENTS: {reason}");
    ServerError::new(1220, "HY000", message)
}

/// `ER_REPLICA_CHANNEL_IO_THREAD_MUST_STOP`
pub(super) fn receiver_running() -> ServerError {
    let message = "This operation cannot be performed with a running replica io thread; run STOP REPLICA IO_THREAD \
                   FOR CHANNEL '' first.";
    ServerError::new(3021, "HY000", message)
}

/// `ER_WRONG_ARGUMENTS`
pub(super) fn wrong_arguments(name: &str) -> ServerError {
    ServerError::new(1210, "HY000", format!("Incorrect arguments to {name}"))
}

/// `ER_CHANGE_SOURCE_PASSWORD_LENGTH`
pub(super) fn replication_password_too_long() -> ServerError {
    let message =
        "The password provided for the replication user exceeds the maximum length of 32 characters";
    ServerError::new(3056, "HY000", message)
}

/// `ER_BAD_REPLICA`
pub(super) fn not_a_replica() -> ServerError {
    let message =
        "The server is not configured as replica; fix in config file or with CHANGE REPLICATION SOURCE TO";
    ServerError::new(1200, "HY000", message)
}

/// `ER_REPLICA_CHANNEL_DOES_NOT_EXIST`
pub(super) fn unknown_channel(channel: &str) -> ServerError {
    ServerError::new(3074, "HY000", format!("Replica channel '{channel}' does not exist."))
}

/// `ER_UNKNOWN_TARGET_BINLOG`
pub(super) fn unknown_log() -> ServerError {
    ServerError::new(1373, "HY000", "Target log not found in binlog index")
}

/// `ER_WRONG_VALUE`
pub(super) fn wrong_date_time(text: &str) -> ServerError {
    ServerError::new(1525, "HY000", format!("Incorrect DATETIME value: '{text}'"))
}

/// `ER_MALFORMED_GTID_SET_SPECIFICATION`
pub(super) fn malformed_gtids(text: &str) -> ServerError {
    ServerError::new(1772, "HY000", format!("Malformed GTID set specification '{text}'."))
}

/// `ER_WRONG_PARAMCOUNT_TO_NATIVE_FCT`
pub(super) fn wrong_argument_count(function: &str) -> ServerError {
    let message = format!("Incorrect parameter count in the call to native function '{function}'");
    ServerError::new(1582, "42000", message)
}

/// `ER_SP_DOES_NOT_EXIST`
pub(super) fn unknown_function(name: &str) -> ServerError {
    ServerError::new(1305, "42000", format!("FUNCTION {name} does not exist"))
}

/// `ER_REGEXP_ILLEGAL_ARGUMENT`
pub(super) fn wrong_pattern() -> ServerError {
    ServerError::new(3685, "HY000", "Illegal argument to a regular expression.")
}

/// Returns the error of a statement that reads logs: `ER_QUERY_INTERRUPTED` or `ER_UNKNOWN_ERROR`.
pub(super) fn unreadable(error: &RelayError) -> ServerError {
    match error {
        RelayError::Interrupted => ServerError::query_interrupted(),
        error => internal(error),
    }
}

/// `ER_UNKNOWN_ERROR`, with a text of bintide.
pub(super) fn internal(error: &impl ToString) -> ServerError {
    ServerError::new(1105, "HY000", error.to_string())
}
