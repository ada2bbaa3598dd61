//! Tables read by SQL, prepared for writing their rows as JSON.

use sql::numbers::put_u64;
use std::sync::Arc;

use crate::broker_sink::KeyedRecordKind;
use crate::column_catalogue::TableSchema;
use crate::column_rules::ColumnRules;
use crate::error::StreamError;
use crate::json_writer::put_string;
use crate::record_table::{RecordTable, full_names};
use crate::settings::Envelope;
use crate::snapshot_column::SnapshotColumn;
use crate::value::ValueBuffers;
use crate::value_modes::ValueModes;

/// Table whose rows are being written.
#[derive(Debug)]
pub(crate) struct TableSnapshot {
    pub(crate) names: [String; 2],
    /// Kind of its records.
    pub(crate) kind: KeyedRecordKind,
    /// Columns of its key in records, without masks.
    key: Vec<KeyCell>,
    /// Columns of its primary key, without masks.
    primary_key: Vec<KeyCell>,
    cells: Vec<SnapshotColumn>,
}

/// A column of a key.
#[derive(Debug)]
pub(crate) struct KeyCell {
    /// Index of the column in its table.
    index: usize,
    cell: SnapshotColumn,
}

impl TableSnapshot {
    /// Prepares a table by its definition.
    pub(crate) fn new(names: [&str; 2], facts: &TableSchema, modes: ValueModes, rules: &ColumnRules) -> Self {
        let mut cells: Vec<SnapshotColumn> =
            facts.columns.iter().map(|column| SnapshotColumn::new(column, modes)).collect();
        let full_names = full_names(names, facts);
        let key_cell = |index: usize| KeyCell { index, cell: cells[index].clone() };
        let key = rules.key_of_definition(&full_names, facts).into_iter().map(key_cell).collect();
        let index = |name: &String| facts.columns.iter().position(|column| column.name == *name);
        let primary_key = facts.primary_key.iter().filter_map(index).map(key_cell).collect();
        for ((cell, column), name) in cells.iter_mut().zip(&facts.columns).zip(&full_names) {
            cell.apply_rules(rules, name, column);
        }
        let table = RecordTable::of_definition(names, facts, modes, rules);
        let kind = KeyedRecordKind::Row(Arc::new(table));
        Self { names: names.map(str::to_owned), kind, key, primary_key, cells }
    }

    /// Writes the key of a row's record; empty for a table without a primary key.
    pub(crate) fn put_key(
        &self,
        out: &mut Vec<u8>,
        row: &[Option<Vec<u8>>],
        buffers: &mut ValueBuffers,
    ) -> Result<(), StreamError> {
        put_cells(out, self, &self.key, row, buffers)
    }

    /// Writes the primary key of a row, whatever its key in records; empty for a table without a primary key.
    pub(crate) fn put_primary_key(
        &self,
        out: &mut Vec<u8>,
        row: &[Option<Vec<u8>>],
        buffers: &mut ValueBuffers,
    ) -> Result<(), StreamError> {
        put_cells(out, self, &self.primary_key, row, buffers)
    }

    /// Writes the names and values of a row's columns.
    pub(crate) fn put_values(
        &self,
        out: &mut Vec<u8>,
        row: &[Option<Vec<u8>>],
        envelope: Envelope,
        buffers: &mut ValueBuffers,
    ) -> Result<(), StreamError> {
        let shown = self.cells.iter().enumerate().filter(|(_, cell)| !cell.plan.is_excluded);
        for (count, (index, cell)) in shown.enumerate() {
            if count > 0 {
                out.push(b',');
            }
            SnapshotRow { table: self, row, envelope }.put_cell(out, index, cell, buffers)?;
        }
        Ok(())
    }

    /// Writes the start of Maxwell's record.
    pub(crate) fn put_maxwell_head(&self, out: &mut Vec<u8>, kind: &str, time_s: u64) {
        let [database, name] = &self.names;
        out.extend_from_slice(b"{\"database\":");
        put_string(out, database);
        out.extend_from_slice(b",\"table\":");
        put_string(out, name);
        out.extend_from_slice(b",\"type\":\"");
        out.extend_from_slice(kind.as_bytes());
        out.extend_from_slice(b"\",\"ts\":");
        put_u64(out, time_s);
        out.extend_from_slice(b",\"data\":{");
    }
}

/// Writes the key that consists of these cells.
fn put_cells(
    out: &mut Vec<u8>,
    table: &TableSnapshot,
    cells: &[KeyCell],
    row: &[Option<Vec<u8>>],
    buffers: &mut ValueBuffers,
) -> Result<(), StreamError> {
    out.clear();
    for KeyCell { index, cell } in cells {
        out.push(if out.is_empty() { b'{' } else { b',' });
        SnapshotRow { table, row, envelope: Envelope::Debezium }.put_cell(out, *index, cell, buffers)?;
    }
    if !out.is_empty() {
        out.push(b'}');
    }
    Ok(())
}

/// Row of a table, and the format of its values.
#[derive(Clone, Copy)]
struct SnapshotRow<'r> {
    table: &'r TableSnapshot,
    row: &'r [Option<Vec<u8>>],
    envelope: Envelope,
}

impl SnapshotRow<'_> {
    /// Writes the name and the value of a column.
    fn put_cell(
        &self,
        out: &mut Vec<u8>,
        index: usize,
        cell: &SnapshotColumn,
        buffers: &mut ValueBuffers,
    ) -> Result<(), StreamError> {
        out.extend_from_slice(&cell.plan.label);
        let start = out.len();
        match self.row.get(index).and_then(Option::as_deref) {
            None => out.extend_from_slice(b"null"),
            Some(text) => {
                cell.put(out, text, self.envelope, buffers).ok_or_else(|| StreamError::SnapshotValue {
                    table: self.table.names.join("."),
                    column: index + 1,
                    found: String::from_utf8_lossy(&text[..text.len().min(40)]).into_owned(),
                })?;
            }
        }
        if let Some(mask) = &cell.plan.mask {
            mask.apply(out, start);
        }
        Ok(())
    }
}
