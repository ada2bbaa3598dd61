//! Answers to the SQL that replicas, connectors and people send to a source.

use std::collections::BTreeMap;

use wire::ServerError;

use crate::form::LogForm;

/// Answer to a statement.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlAnswer {
    /// Success, with the number of affected rows.
    Done(u64),
    /// A result set.
    Rows(SqlRows),
    /// An error with a server's number, state and words.
    Refused(ServerError),
}

/// Result set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SqlRows {
    /// Columns.
    pub columns: Vec<SqlColumn>,
    /// Rows; each has a value for every column.
    pub rows: Vec<Vec<SqlValue>>,
}

/// Column of a result set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlColumn {
    /// Name of the column in the statement.
    pub name: String,
    /// Type of its values.
    pub kind: SqlColumnKind,
}

/// Type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SqlColumnKind {
    /// Integers.
    Integer,
    /// Floating-point numbers.
    Double,
    /// Text.
    Text,
}

/// Value of a result set, or of a user variable.
#[derive(Clone, Debug, PartialEq)]
pub enum SqlValue {
    /// NULL.
    Null,
    /// An integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A floating-point number.
    Double(f64),
    /// Text in UTF-8.
    Text(String),
}

/// State of a client's session that its statements read and change.
#[derive(Clone, Debug)]
pub struct SqlSession {
    /// Number of the connection.
    pub connection_id: u32,
    /// Account, as `user@host`.
    pub account: String,
    /// Default database.
    pub database: Option<String>,
    /// Form in which the client sees the logs.
    pub form: LogForm,
    /// User variables, by name in lower case and without `@`.
    pub user_variables: BTreeMap<String, SqlValue>,
    /// Session values of system variables that the client has set, by name in lower case.
    pub system_variables: BTreeMap<String, SqlValue>,
}
