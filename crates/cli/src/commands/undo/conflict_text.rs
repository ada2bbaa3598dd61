//! Rows that differ from the result of the undone changes, for the terminal and as JSON.

use std::fmt::Write as _;

use binlog::events::RowsKind;
use mysql_target::{ColumnDifference, ConflictReason, RowConflict};
use serde_json::{Value, json};
use undo::InverseCounts;

use super::application::Conflicts;
use crate::units::counted;

/// Returns the conflicts: a line for each row, and a line for each different column.
pub(super) fn render(conflicts: &Conflicts) -> String {
    let mut out = String::new();
    for conflict in &conflicts.listed {
        put_conflict(conflict, &mut out);
    }
    let rest = conflicts.count - conflicts.listed.len() as u64;
    if rest > 0 {
        let _ = writeln!(out, "and {} more", counted(rest, "row"));
    }
    out
}

fn put_conflict(conflict: &RowConflict, out: &mut String) {
    let RowConflict { table, kind, reason, key, differences } = conflict;
    let key: Vec<String> = key.iter().map(|(column, value)| format!("{column}={value}")).collect();
    let row = if key.is_empty() { table.clone() } else { format!("{table} {}", key.join(" ")) };
    let verb = undone_verb(*kind);
    let _ = match reason {
        ConflictReason::RowMissing => writeln!(out, "{row}: cannot undo the {verb}: no such row"),
        ConflictReason::RowDiffers => {
            writeln!(out, "{row}: cannot undo the {verb}: the row was changed since")
        }
        ConflictReason::RowExists => writeln!(out, "{row}: cannot undo the {verb}: the row exists"),
        ConflictReason::Refused(why) => writeln!(out, "{row}: cannot undo the {verb}: {why}"),
    };
    for ColumnDifference { column, expected, found } in differences {
        let _ = writeln!(out, "  {column} is {found}, expected {expected}");
    }
}

/// Returns the verb of the undone change. `kind` is the kind of its inverse.
const fn undone_verb(kind: RowsKind) -> &'static str {
    match kind {
        RowsKind::Write => "DELETE",
        RowsKind::Delete => "INSERT",
        RowsKind::Update | RowsKind::PartialUpdate => "UPDATE",
    }
}

/// Returns the result as JSON.
pub(super) fn document(counts: &InverseCounts, conflicts: &Conflicts, is_kept: bool) -> Value {
    let listed: Vec<Value> = conflicts.listed.iter().map(conflict_document).collect();
    json!({
        "applied": is_kept,
        "transactions": counts.transactions,
        "inserts_undone": counts.deleted,
        "updates_undone": counts.updated,
        "deletes_undone": counts.inserted,
        "conflicts": conflicts.count,
        "rows": listed,
    })
}

fn conflict_document(conflict: &RowConflict) -> Value {
    let (reason, message) = match &conflict.reason {
        ConflictReason::RowMissing => ("row_missing", None),
        ConflictReason::RowDiffers => ("row_differs", None),
        ConflictReason::RowExists => ("row_exists", None),
        ConflictReason::Refused(why) => ("refused", Some(why)),
    };
    let key: serde_json::Map<String, Value> =
        conflict.key.iter().map(|(column, value)| (column.clone(), json!(value))).collect();
    let differences: Vec<Value> = conflict
        .differences
        .iter()
        .map(|one| json!({ "column": one.column, "expected": one.expected, "found": one.found }))
        .collect();
    json!({
        "table": conflict.table,
        "undone": undone_verb(conflict.kind),
        "reason": reason,
        "message": message,
        "key": key,
        "differences": differences,
    })
}
