//! The net change as events: for each table a statement of one table map and rows events.

use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind};
use binlog::{EncodeError, Event, EventFormat, EventOrigin, NextPosition};

use super::{ArenaSpan, FoldedTable, NetChanges};

/// Header and size of the rows events to write.
#[derive(Clone, Debug)]
pub struct NetRowsForm {
    /// Time and server for the event headers.
    pub origin: EventOrigin,
    /// Format to encode for.
    pub format: EventFormat,
    /// Maximum bytes of the rows of an event; a single larger row makes a larger event.
    pub rows_size_max: usize,
}

/// Numbers of rows in a net change.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NetRows {
    /// Rows to delete.
    pub deleted: u64,
    /// Rows to update.
    pub updated: u64,
    /// Rows to insert, including those that are deleted again.
    pub inserted: u64,
    /// Rows to insert and delete again, so that AUTO_INCREMENT continues from them.
    pub counted: u64,
}

impl NetChanges {
    /// Appends events with the net change of all kept transactions: one statement for each changed table. A statement
    /// starts with a table map, and its last rows event ends it.
    ///
    /// # Errors
    ///
    /// Fails if an event cannot be encoded. Events appended before remain.
    pub fn write(&self, form: &NetRowsForm, out: &mut Vec<u8>) -> Result<NetRows, EncodeError> {
        let mut total = NetRows::default();
        for (table, table_id) in self.tables.iter().zip(1..) {
            let mut statement = NetStatementWriter::new(self, table, table_id, form, out);
            statement.write(&mut total)?;
        }
        Ok(total)
    }
}

/// Statement with the rows of one table, while it is written.
struct NetStatementWriter<'n> {
    net: &'n NetChanges,
    table: &'n FoldedTable,
    table_id: u64,
    form: &'n NetRowsForm,
    out: &'n mut Vec<u8>,
    columns: Vec<u8>,
    /// Kind of the collected rows; `None` before the first.
    kind: Option<RowsKind>,
    is_mapped: bool,
    rows: Vec<u8>,
}

impl<'n> NetStatementWriter<'n> {
    fn new(
        net: &'n NetChanges,
        table: &'n FoldedTable,
        table_id: u64,
        form: &'n NetRowsForm,
        out: &'n mut Vec<u8>,
    ) -> Self {
        let columns = vec![0xff; table.map.column_types.len().div_ceil(8)];
        Self { net, table, table_id, form, out, columns, kind: None, is_mapped: false, rows: Vec::new() }
    }

    fn write(&mut self, total: &mut NetRows) -> Result<(), EncodeError> {
        // Always insert the row with the highest AUTO_INCREMENT value: the counter continues from there. An update does
        // not always move the counter.
        let counted = self.table.highest.row.map(|(number, _)| number);
        let entries = || (0_u32..).zip(&self.table.entries);
        for (number, entry) in entries() {
            if let Some(before) = entry.before
                && (entry.after.is_none() || counted == Some(number))
            {
                self.row(RowsKind::Delete, &[before])?;
                total.deleted += 1;
            }
        }
        for (number, entry) in entries() {
            if let (Some(before), Some(after)) = (entry.before, entry.after)
                && counted != Some(number)
                && before.of(&self.net.arena) != after.of(&self.net.arena)
            {
                self.row(RowsKind::Update, &[before, after])?;
                total.updated += 1;
            }
        }
        for (number, entry) in entries() {
            if let Some(after) = entry.after
                && (entry.before.is_none() || counted == Some(number))
            {
                self.row(RowsKind::Write, &[after])?;
                total.inserted += 1;
            }
        }
        if let Some((number, image)) = self.table.highest.row
            && self.table.entries.get(number as usize).is_some_and(|entry| entry.after.is_none())
        {
            self.row(RowsKind::Write, &[image])?;
            self.row(RowsKind::Delete, &[image])?;
            total.inserted += 1;
            total.counted += 1;
        }
        self.event(RowsFlags::STATEMENT_END)
    }

    fn row(&mut self, kind: RowsKind, images: &[ArenaSpan]) -> Result<(), EncodeError> {
        let size: usize = images.iter().map(|image| image.size as usize).sum();
        let is_full = self.rows.len() + size > self.form.rows_size_max && !self.rows.is_empty();
        if self.kind != Some(kind) || is_full {
            self.event(RowsFlags::default())?;
            self.kind = Some(kind);
        }
        for image in images {
            self.rows.extend_from_slice(image.of(&self.net.arena));
        }
        Ok(())
    }

    /// Writes the collected rows, and the table map before the first.
    fn event(&mut self, end: RowsFlags) -> Result<(), EncodeError> {
        let Some(kind) = self.kind else { return Ok(()) };
        if !self.is_mapped {
            self.put(&Event::TableMap(self.table.map.with_id(self.table_id)))?;
            self.is_mapped = true;
        }
        let rows = std::mem::take(&mut self.rows);
        let columns = std::mem::take(&mut self.columns);
        let all = ColumnSet { bits: &columns };
        let flags = RowsFlags(self.table.flags.unwrap_or_default().0 | end.0);
        let event = Rows {
            kind,
            table_id: self.table_id,
            flags,
            extra: Some(&[]),
            column_count: self.table.map.column_types.len() as u64,
            columns: all,
            columns_after: kind.has_after().then_some(all),
            rows: &rows,
        };
        self.put(&match kind {
            RowsKind::Write => Event::WriteRows(event),
            RowsKind::Delete => Event::DeleteRows(event),
            RowsKind::Update | RowsKind::PartialUpdate => Event::UpdateRows(event),
        })?;
        (self.rows, self.columns) = (rows, columns);
        self.rows.clear();
        Ok(())
    }

    fn put(&mut self, event: &Event<'_>) -> Result<(), EncodeError> {
        event.write(self.form.origin, NextPosition::Fixed(0), &self.form.format, self.out)
    }
}
