//! The history of a row, as values.

use std::num::NonZeroUsize;
use std::sync::Arc;

use binlog::TransactionId;
use binlog::encryption::Keyring;
use logs::ChangeOrigin;

use super::history_gap::HistoryGaps;
use super::table_completion::TableCompletion;
use crate::json::writer::JsonObject;
use crate::list_source::ListSource;
use crate::row_condition::RowCondition;

/// Settings of a history.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HistorySettings {
    /// Logs, in order.
    pub sources: Vec<ListSource>,
    /// Database of the table.
    pub database: Vec<u8>,
    /// The table.
    pub table: Vec<u8>,
    /// Conditions that identify the row. The newest change that meets them decides which row is meant.
    pub conditions: Vec<RowCondition>,
    /// Source of the column names that the logs lack.
    pub completion: Option<TableCompletion>,
    /// Number of worker threads.
    pub jobs: NonZeroUsize,
    /// Keys of encrypted logs.
    pub keyring: Option<Arc<Keyring>>,
}

impl HistorySettings {
    /// Creates settings for a row of a table, on all cores.
    pub fn new(sources: Vec<ListSource>, database: &[u8], table: &[u8]) -> Self {
        Self {
            sources,
            database: database.to_vec(),
            table: table.to_vec(),
            conditions: Vec::new(),
            completion: None,
            jobs: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            keyring: None,
        }
    }
}

/// History of a row.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RowHistory {
    /// Changes, the oldest first.
    pub entries: Vec<HistoryEntry>,
    /// First change of the row.
    pub beginning: HistoryBeginning,
    /// Torn ends of logs in use, which are not errors.
    pub torn_ends: Vec<String>,
    /// Whether the logs have row changes of the table.
    pub has_table: bool,
    /// Error for a condition whose column no table of the logs had, or whose value no table's column can have.
    pub unusable_condition: Option<String>,
    /// Reasons why changes may be missing.
    pub gaps: HistoryGaps,
    /// Key of the row, if the conditions are on other columns: other rows may meet them, too.
    pub chosen_row: Option<Vec<RowCondition>>,
    /// Key of the table at the newest change; `None` without changes.
    pub key: Option<RowKey>,
}

/// Key that tells the rows of a table apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowKey {
    /// The primary key, or a unique key without NULL in its place.
    Primary,
    /// The table has no such key. The history contains the changes of all rows that meet the conditions.
    Missing,
    /// Neither the log nor the completion has the key. The columns of the conditions are taken as the key.
    Unknown,
}

/// Beginning of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryBeginning {
    /// The row's INSERT is in the logs.
    Created,
    /// The logs begin after the row's INSERT, or it was logged as a statement.
    Unknown,
    /// The history may be of several rows, because the table has no key.
    SeveralRows,
}

/// One change.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HistoryEntry {
    /// The log's name, without its directory.
    pub log_name: Arc<str>,
    /// Start of the event; in a compressed transaction, start of the payload's event.
    pub position: u64,
    /// Transaction of the change.
    pub id: TransactionId,
    /// Time and writer of the change.
    pub origin: ChangeOrigin,
    /// The change.
    pub change: HistoryChange,
    /// Values: of an INSERT or a DELETE, all values in the log; of an UPDATE, the changed values.
    pub values: Vec<HistoryValue>,
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HistoryChange {
    /// The row was inserted.
    Insert,
    /// The row was updated.
    Update,
    /// The row was deleted.
    Delete,
}

/// Value of a column, before and after the change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryValue {
    /// The column's name, or `@N` if the log has no names.
    pub column: String,
    /// Value before the change as JSON, if the log has it.
    pub before: Option<String>,
    /// Value after the change as JSON, if the log has it.
    pub after: Option<String>,
    /// Changes of a JSON document as JSON, if the log has them instead of the document, and not the document before.
    pub changes: Option<String>,
}

impl HistoryValue {
    /// Returns the number of bytes in memory.
    pub(super) fn size(&self) -> usize {
        let texts = [Some(&self.column), self.before.as_ref(), self.after.as_ref(), self.changes.as_ref()];
        size_of::<Self>() + texts.into_iter().flatten().map(String::len).sum::<usize>()
    }
}

impl HistoryChange {
    /// Returns the SQL keyword.
    pub const fn verb(self) -> &'static str {
        match self {
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }
}

impl HistoryEntry {
    /// Writes the change as a JSON line.
    pub fn put_json(&self, out: &mut Vec<u8>) {
        let mut line = JsonObject::open(out);
        line.time_us("time", self.origin.time_us());
        line.text("gtid", self.id.to_string());
        line.text("log_name", self.log_name.as_bytes());
        line.uint("pos", self.position);
        line.uint("server_id", self.origin.server_id);
        if let Some(connection) = self.origin.connection {
            line.uint("connection", connection);
        }
        if let Some(account) = &self.origin.account {
            line.text("account", account.as_bytes());
        }
        if let Some(statement) = &self.origin.statement {
            line.text_or_bytes("statement", statement);
        }
        line.plain("change", self.change.verb());
        let mut values = line.array("values");
        for value in &self.values {
            let mut object = values.object();
            object.text("column", &value.column);
            if let Some(before) = &value.before {
                object.value("before").extend_from_slice(before.as_bytes());
            }
            if let Some(after) = &value.after {
                object.value("after").extend_from_slice(after.as_bytes());
            }
            if let Some(changes) = &value.changes {
                object.value("changes").extend_from_slice(changes.as_bytes());
            }
            object.close();
        }
        values.close();
        line.close();
        out.push(b'\n');
    }
}
