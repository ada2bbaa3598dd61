//! History of a row as lines of text.

use std::borrow::Cow;

use inspect::stats::LogTime;
use list::history::{HistoryBeginning, HistoryEntry, HistoryValue, RowHistory, RowKey};
use mysqlbinlog::local_zone;

use crate::screen::{ReportStyle, table_lines, visible};
use crate::units::bytes;

/// Returns a table with a line for each change, and a remark if the logs lack the row's INSERT.
pub(super) fn render(history: &RowHistory, style: ReportStyle) -> String {
    if history.entries.is_empty() {
        return String::new();
    }
    let has_statements = history.entries.iter().any(|entry| entry.origin.statement.is_some());
    let mut columns = vec!["time", "GTID", "who", "change", "values"];
    if has_statements {
        columns.push("statement");
    }
    let mut table = style.table(&columns);
    for entry in &history.entries {
        let mut row = vec![
            LogTime(entry.origin.time_us()).in_zone(&local_zone()),
            entry.id.to_string(),
            writer(entry),
            entry.change.verb().to_owned(),
            entry.values.iter().map(value).collect::<Vec<_>>().join(", "),
        ];
        if has_statements {
            let statement = entry.origin.statement.as_deref().unwrap_or_default();
            row.push(shortened(&String::from_utf8_lossy(statement)).into_owned());
        }
        table.add_row(row.iter().map(|cell| visible(cell)));
    }
    let remark = match (history.beginning, history.key) {
        (HistoryBeginning::Created | HistoryBeginning::SeveralRows, _) => "",
        // Without its key, the row may be taken for another one.
        (HistoryBeginning::Unknown, Some(RowKey::Unknown)) => "\nThe INSERT of this row was not found.\n",
        (HistoryBeginning::Unknown, _) => "\nThe logs do not contain the INSERT of this row.\n",
    };
    table_lines(&table) + remark
}

fn writer(entry: &HistoryEntry) -> String {
    let origin = &entry.origin;
    match (&origin.account, origin.connection) {
        (Some(account), _) => account.to_string(),
        (None, Some(connection)) => format!("connection {connection} of server {}", origin.server_id),
        (None, None) => format!("server {}", origin.server_id),
    }
}

/// Maximum number of characters of a value in the text.
const VALUE_LENGTH_MAX: usize = 1_000;

/// Returns the beginning of a long text, and its length.
fn shortened(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(VALUE_LENGTH_MAX) {
        Some((end, _)) => format!("{}… ({})", &text[..end], bytes(text.len() as u64)).into(),
        None => text.into(),
    }
}

fn value(value: &HistoryValue) -> String {
    let HistoryValue { column, before, after, changes } = value;
    if let Some(changes) = changes {
        return format!("{column} changes: {}", shortened(changes));
    }
    let (before, after) = (before.as_deref().map(shortened), after.as_deref().map(shortened));
    match (before, after) {
        (Some(before), Some(after)) => format!("{column}: {before} → {after}"),
        // A minimal image of an UPDATE has only the new value.
        (None, Some(after)) => format!("{column}: {after}"),
        (Some(before), None) => format!("{column}: {before}"),
        (None, None) => column.clone(),
    }
}
