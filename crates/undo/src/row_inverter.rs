//! Inverts rows events.

use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind, TableMap};
use binlog::{DecodeError, RowChange, RowDecoder, RowImage, Table, TableRegistry};

use crate::inverse_refusal::{InverseError, InverseRefusal, column_name, column_names, refused};
use crate::inverted_rows::InvertedRows;

/// Inverts the rows events of a log.
///
/// The inverse of an update has the columns of the before image in both images. Columns that only the before image has
/// did not change, so the row still has their values.
#[derive(Debug, Default)]
pub struct RowInverter {
    tables: TableRegistry,
}

impl RowInverter {
    /// Creates an inverter that knows no table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a table map for later rows events.
    ///
    /// # Errors
    ///
    /// Fails if the map is invalid.
    pub fn register(&mut self, map: &TableMap<'_>) -> Result<(), DecodeError> {
        self.tables.register(map).map(drop)
    }

    /// Returns the inverse of the rows of an event for which `is_chosen` is true, in reverse order; `None` if no row is
    /// chosen.
    ///
    /// # Errors
    ///
    /// Fails if the event is corrupt, or its images lack columns that the inverse needs.
    pub fn invert(
        &mut self,
        event: &Rows<'_>,
        is_chosen: &mut dyn FnMut(&RowChange<'_, '_>) -> Result<bool, DecodeError>,
    ) -> Result<Option<InvertedRows>, InverseError> {
        let decoder = self.tables.decoder(event)?;
        // Rows without columns have no values to restore.
        if event.column_count == 0 {
            return Ok(None);
        }
        let mut rows = InverseRowBuffer::default();
        for row in decoder.rows(event) {
            let row = row?;
            if is_chosen(&row)? {
                if rows.sizes.is_empty() {
                    check_columns(event, &decoder)?;
                }
                put_inverse(event, &row, &mut rows)?;
            }
        }
        if rows.sizes.is_empty() {
            return Ok(None);
        }
        let row_count = rows.sizes.len() as u64;
        let flags = RowsFlags(event.flags.0 & !RowsFlags::STATEMENT_END.0);
        let table = table_of(&decoder);
        let extra = inverse_extra(event).ok_or_else(|| refused(table, InverseRefusal::ExtraFields))?;
        Ok(Some(InvertedRows {
            kind: inverse_kind(event.kind),
            table_id: event.table_id,
            flags,
            row_count,
            extra,
            column_count: event.column_count,
            columns: event.columns.bits.to_vec(),
            columns_after: event.columns_after.map(|_| event.columns.bits.to_vec()),
            rows: rows.into_reversed(),
        }))
    }
}

/// Inverted rows in the order of the original.
#[derive(Default)]
struct InverseRowBuffer {
    bytes: Vec<u8>,
    sizes: Vec<usize>,
}

impl InverseRowBuffer {
    fn into_reversed(self) -> Vec<u8> {
        let mut reversed = Vec::with_capacity(self.bytes.len());
        let mut end = self.bytes.len();
        for size in self.sizes.iter().rev() {
            reversed.extend_from_slice(&self.bytes[end - size..end]);
            end -= size;
        }
        reversed
    }
}

/// Appends the inverse of one row.
fn put_inverse(
    event: &Rows<'_>,
    row: &RowChange<'_, '_>,
    rows: &mut InverseRowBuffer,
) -> Result<(), InverseError> {
    let start = rows.bytes.len();
    match (&row.before, &row.after) {
        (Some(before), Some(after)) => {
            let is_swap = event.kind == RowsKind::Update && Some(event.columns) == event.columns_after;
            match is_swap {
                true => rows.bytes.extend_from_slice(after.bytes()),
                false => put_known_after(row, before, after, &mut rows.bytes)?,
            }
            rows.bytes.extend_from_slice(before.bytes());
        }
        (before, after) => {
            let only = before.as_ref().or(after.as_ref());
            rows.bytes.extend_from_slice(only.map_or(&[][..], |image| image.bytes()));
        }
    }
    rows.sizes.push(rows.bytes.len() - start);
    Ok(())
}

/// Appends the image of the row after an update, with the columns of the before image.
fn put_known_after(
    row: &RowChange<'_, '_>,
    before: &RowImage<'_, '_>,
    after: &RowImage<'_, '_>,
    out: &mut Vec<u8>,
) -> Result<(), InverseError> {
    let nulls = out.len();
    out.resize(nulls + before.fields().len().div_ceil(8), 0);
    let mut changed = after.fields().peekable();
    for (number, old) in before.fields().enumerate() {
        // Both images have their columns in the order of the table.
        while changed.next_if(|new| new.index() < old.index()).is_some() {}
        let new = changed.next_if(|new| new.index() == old.index()).unwrap_or(old);
        let document = if new.is_partial() { row.document_after(new.index())? } else { None };
        let value = match &document {
            Some(document) => Some(&**document),
            None if new.is_partial() => None,
            None => new.bytes(),
        };
        let Some(value) = value else {
            out[nulls + number / 8] |= 1 << (number % 8);
            continue;
        };
        if !new.put_value(value, out) {
            let column = column_name(before.table(), new.index());
            return Err(refused(before.table(), InverseRefusal::DocumentSize { column }));
        }
    }
    Ok(())
}

/// Checks that the images have all columns that the inverse needs.
fn check_columns(event: &Rows<'_>, decoder: &RowDecoder) -> Result<(), InverseError> {
    let table = table_of(decoder);
    let missing = |has: &dyn Fn(usize) -> bool| {
        let columns: Vec<usize> = (0..table.columns.len()).filter(|column| !has(*column)).collect();
        (!columns.is_empty()).then(|| column_names(table, columns.into_iter()))
    };
    let lacks = |set: &ColumnSet<'_>| missing(&|column| set.contains(column));
    let refusal = match (event.kind, event.columns_after) {
        (RowsKind::Delete, _) => {
            lacks(&event.columns).map(|columns| InverseRefusal::DeletedValues { columns })
        }
        (RowsKind::Write, _) if has_primary_key(table, &event.columns) => None,
        (RowsKind::Write, _) => lacks(&event.columns).map(|columns| InverseRefusal::InsertedKey { columns }),
        (_, Some(after)) => missing(&|column| !after.contains(column) || event.columns.contains(column))
            .map(|columns| InverseRefusal::ValuesBefore { columns }),
        (_, None) => None,
    };
    refusal.map_or(Ok(()), |refusal| Err(refused(table, refusal)))
}

/// Returns whether the log shows that an image has the whole primary key.
fn has_primary_key(table: &Table, columns: &ColumnSet<'_>) -> bool {
    let has_logged = |key: &[binlog::KeyPart]| key.iter().all(|part| columns.contains(part.column));
    match table.primary_key.as_deref() {
        Some(key) => !key.is_empty() && has_logged(key),
        None => table.has_generated_key() && columns.contains(0),
    }
}

/// Returns the table of a decoder. Every decoder has an image.
fn table_of(decoder: &RowDecoder) -> &Table {
    match decoder.before().or(decoder.after()) {
        Some(image) => image.table(),
        None => unreachable!("ours: each kind of rows event has an image"),
    }
}

const fn inverse_kind(kind: RowsKind) -> RowsKind {
    match kind {
        RowsKind::Write => RowsKind::Delete,
        RowsKind::Delete => RowsKind::Write,
        RowsKind::Update | RowsKind::PartialUpdate => RowsKind::Update,
    }
}

// Extra fields of an event of a partitioned table:
// size  field
//    1  1: partitions
//    2  partition of the row; of an update: after it
//    2  partition before; updates only
//
/// Returns the extra fields of the inverse; `None` if they are of an unknown type.
fn inverse_extra(event: &Rows<'_>) -> Option<Vec<u8>> {
    const PARTITIONS: u8 = 1;
    match (event.extra.unwrap_or_default(), event.kind.has_after()) {
        ([], _) => Some(Vec::new()),
        ([PARTITIONS, a, b], false) => Some(vec![PARTITIONS, *a, *b]),
        ([PARTITIONS, a, b, c, d], true) => Some(vec![PARTITIONS, *c, *d, *a, *b]),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
