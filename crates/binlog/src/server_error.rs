//! Error numbers of servers, with the names of MySQL's `mysqld_error.h` without `ER_`. Query events have the number of
//! the error that ended their statement.

/// The account may not use the database.
pub const DBACCESS_DENIED_ERROR: u16 = 1044;
/// Wrong user or password, or an account that lacks a privilege.
pub const ACCESS_DENIED_ERROR: u16 = 1045;
/// The server does not understand the statement.
pub const PARSE_ERROR: u16 = 1064;
/// Any error for which the server has no specific number.
pub const UNKNOWN_ERROR: u16 = 1105;
/// The account may not use the table.
pub const TABLEACCESS_DENIED_ERROR: u16 = 1142;
/// The server has no such system variable.
pub const UNKNOWN_SYSTEM_VARIABLE: u16 = 1193;
/// A lock was not released in time.
pub const LOCK_WAIT_TIMEOUT: u16 = 1205;
/// The account lacks the privilege that the message names.
pub const SPECIFIC_ACCESS_DENIED_ERROR: u16 = 1227;
/// The source cannot send the requested log: a replica does not reconnect.
pub const SOURCE_FATAL_ERROR_READING_BINLOG: u16 = 1236;
