//! Answers to the SQL statements that replicas, connectors and people send to a source.

use std::collections::BTreeMap;
use std::time::Duration;

use binlog::server_error::UNKNOWN_ERROR;
use wire::ServerError;

use crate::log_form::LogForm;
use crate::relay_account::AccountRole;
use crate::sql_responder::BinlogEvents;
use crate::statement_interrupt::StatementInterrupt;

/// Answer to a statement.
#[derive(Clone, Debug)]
pub enum SqlAnswer {
    /// Success, with the number of affected rows.
    Done(u64),
    /// A result set.
    Rows(SqlRows),
    /// The result set of `SHOW BINLOG EVENTS`.
    Events(BinlogEvents),
    /// An error with a server's number, SQLSTATE and message.
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
    /// Type of the column's values.
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

/// State of a client's session, read and changed by its statements.
#[derive(Clone, Debug)]
pub struct SqlSession {
    /// Number of the connection.
    pub connection_id: u32,
    /// Account, as `user@host`.
    pub account: String,
    /// User and host of the connection, as `USER()` shows them.
    pub login: String,
    /// Role of the account.
    pub role: AccountRole,
    /// Default database.
    pub database: Option<String>,
    /// Form of the client's logs.
    pub form: LogForm,
    /// User variables, by name in lower case and without `@`.
    pub user_variables: BTreeMap<String, SqlValue>,
    /// Session values of system variables that the client has set, by name in lower case.
    pub system_variables: BTreeMap<String, SqlValue>,
    /// True between `BEGIN` and the end of the transaction.
    pub is_in_transaction: bool,
    /// Warnings of the last statement.
    pub warnings: Vec<SqlWarning>,
    /// Changes of the relay by the last statement, for the relay's log: as statements without passwords.
    pub changes: Vec<String>,
    /// Request to end the running statement.
    pub interrupt: StatementInterrupt,
}

/// Default of `wait_timeout` and `interactive_timeout`, in seconds: 8 hours, as on a server.
pub(crate) const WAIT_TIMEOUT_S: u64 = 28800;

impl SqlSession {
    /// Returns the user of the account, without the host.
    pub(crate) fn user(&self) -> &str {
        split_account(&self.account)[0]
    }
}

/// Splits an account `user@host`. The host of an account without one is empty.
pub(crate) fn split_account(account: &str) -> [&str; 2] {
    account.rsplit_once('@').map_or([account, ""], |(user, host)| [user, host])
}

/// Warning of a statement, as `SHOW WARNINGS` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SqlWarning {
    /// Level.
    pub level: WarningLevel,
    /// Error number of a server.
    pub code: u16,
    /// Text.
    pub message: String,
}

/// Level of a warning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WarningLevel {
    /// The statement was completely executed; the message is additional information.
    Note,
    /// The statement was only partly executed.
    Warning,
    /// The statement was refused.
    Error,
}

impl WarningLevel {
    /// Returns the name of the level.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "Note",
            Self::Warning => "Warning",
            Self::Error => "Error",
        }
    }
}

impl SqlSession {
    /// Starts a session. `USER()` shows the account until [`SqlSession::login`] is set.
    pub fn new(connection_id: u32, account: String, role: AccountRole, form: LogForm) -> Self {
        Self {
            connection_id,
            login: account.clone(),
            account,
            role,
            database: None,
            form,
            user_variables: BTreeMap::new(),
            system_variables: BTreeMap::new(),
            is_in_transaction: false,
            warnings: Vec::new(),
            changes: Vec::new(),
            interrupt: StatementInterrupt::default(),
        }
    }

    /// Returns whether each statement commits automatically: `autocommit`.
    pub fn is_autocommit(&self) -> bool {
        self.system_variables.get("autocommit").is_none_or(SqlValue::is_true)
    }

    /// Returns the time after which the connection of an idle client is closed: `wait_timeout`.
    pub fn wait_timeout(&self) -> Duration {
        let seconds = self.system_variables.get("wait_timeout").and_then(SqlValue::to_number);
        // The limits of a server.
        let seconds = seconds.map_or(WAIT_TIMEOUT_S, |seconds| seconds.clamp(1.0, 31_536_000.0) as u64);
        Duration::from_secs(seconds)
    }

    /// Adds a warning.
    pub(crate) fn warn(&mut self, level: WarningLevel, code: u16, message: impl Into<String>) {
        self.warnings.push(SqlWarning { level, code, message: message.into() });
    }

    /// Adds a note with a text of bintide.
    pub(crate) fn note(&mut self, message: impl Into<String>) {
        self.warn(WarningLevel::Note, UNKNOWN_ERROR, message);
    }

    /// Records a change of the relay.
    pub(crate) fn record_change(&mut self, statement: impl Into<String>) {
        self.changes.push(statement.into());
    }

    /// Forgets all variables and the transaction, as `COM_RESET_CONNECTION` requires. The default database stays.
    pub fn reset(&mut self) {
        self.user_variables.clear();
        self.system_variables.clear();
        self.is_in_transaction = false;
        self.warnings.clear();
    }
}

impl SqlRows {
    /// Creates a result set; each row must have a value for every column.
    pub(crate) fn new(columns: &[SqlColumnSpec], rows: Vec<Vec<SqlValue>>) -> Self {
        debug_assert!(rows.iter().all(|row| row.len() == columns.len()));
        let column = |spec: &SqlColumnSpec| SqlColumn { name: spec.name.to_owned(), kind: spec.kind };
        Self { columns: columns.iter().map(column).collect(), rows }
    }
}

/// Column of a table or of a `SHOW` statement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SqlColumnSpec {
    pub(crate) name: &'static str,
    pub(crate) kind: SqlColumnKind,
}

/// Declares a column of integers.
pub(crate) const fn integer(name: &'static str) -> SqlColumnSpec {
    SqlColumnSpec { name, kind: SqlColumnKind::Integer }
}

/// Declares a column of floating-point numbers.
pub(crate) const fn double(name: &'static str) -> SqlColumnSpec {
    SqlColumnSpec { name, kind: SqlColumnKind::Double }
}

/// Declares a column of text.
pub(crate) const fn text(name: &'static str) -> SqlColumnSpec {
    SqlColumnSpec { name, kind: SqlColumnKind::Text }
}

impl SqlValue {
    /// Returns the type of a column with only this value.
    pub(crate) const fn kind(&self) -> SqlColumnKind {
        match self {
            Self::Int(_) | Self::UInt(_) => SqlColumnKind::Integer,
            Self::Double(_) => SqlColumnKind::Double,
            Self::Null | Self::Text(_) => SqlColumnKind::Text,
        }
    }

    /// Returns the text of the value; `None` for NULL.
    pub fn to_text(&self) -> Option<String> {
        Some(match self {
            Self::Null => return None,
            Self::Int(number) => number.to_string(),
            Self::UInt(number) => number.to_string(),
            Self::Double(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        })
    }

    /// Returns whether the value is true in a condition, as on a server: a number other than 0.
    pub fn is_true(&self) -> bool {
        self.to_number().is_some_and(|number| number != 0.0)
    }

    /// Returns the value as a number, as a server converts it: for a text, the number at its start, or 0. `None` for
    /// NULL.
    pub(crate) fn to_number(&self) -> Option<f64> {
        Some(match self {
            Self::Null => return None,
            Self::Int(number) => *number as f64,
            Self::UInt(number) => *number as f64,
            Self::Double(number) => *number,
            Self::Text(text) => leading_number(text),
        })
    }
}

fn leading_number(text: &str) -> f64 {
    let text = text.trim_start();
    let bytes = text.as_bytes();
    let after_sign = |at: usize| at + usize::from(matches!(bytes.get(at), Some(b'+' | b'-')));
    let after_digits = |at: usize| at + bytes[at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut end = after_digits(after_sign(0));
    if bytes.get(end) == Some(&b'.') {
        end = after_digits(end + 1);
    }
    if let Some(b'e' | b'E') = bytes.get(end) {
        let digits = after_sign(end + 1);
        let after = after_digits(digits);
        end = if after > digits { after } else { end };
    }
    // A text without a digit does not parse, and counts as 0.
    text[..end].parse().unwrap_or(0.0)
}

impl From<&str> for SqlValue {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for SqlValue {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

impl From<u64> for SqlValue {
    fn from(number: u64) -> Self {
        Self::UInt(number)
    }
}

impl From<u32> for SqlValue {
    fn from(number: u32) -> Self {
        Self::UInt(number.into())
    }
}

impl<T: Into<Self>> From<Option<T>> for SqlValue {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::SqlValue;

    #[test]
    fn numbers_at_the_start_of_a_text() {
        for (text, expected) in [
            ("12ab", 12.0),
            (" -1.5e2x", -150.0),
            ("1e", 1.0),
            ("1e+-2", 1.0),
            (".5.5", 0.5),
            ("3.", 3.0),
            ("-", 0.0),
            (".", 0.0),
            ("e5", 0.0),
            ("+7e1e1", 70.0),
        ] {
            assert_eq!(SqlValue::from(text).to_number(), Some(expected), "{text}");
        }
    }

    #[test]
    fn numbers_other_than_zero_are_true() {
        let check = |value: SqlValue, expected| assert_eq!(value.is_true(), expected, "{value:?}");
        for value in ["1", " 2x", "-1", "0.5"] {
            check(value.into(), true);
        }
        for value in ["0", "", "ON", "0.0"] {
            check(value.into(), false);
        }
        check(SqlValue::Null, false);
        check(SqlValue::Int(0), false);
        check(SqlValue::Int(-1), true);
        check(SqlValue::UInt(0), false);
        check(SqlValue::UInt(u64::MAX), true);
        check(SqlValue::Double(0.0), false);
    }
}
