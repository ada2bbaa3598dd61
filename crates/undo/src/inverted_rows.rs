//! The inverse of a rows event.

use binlog::Event;
use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind};

/// The inverse of a rows event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvertedRows {
    /// Kind of the inverse: never [`RowsKind::PartialUpdate`].
    pub kind: RowsKind,
    /// Number of the table in its table map, as in the original.
    pub table_id: u64,
    /// Flags, as in the original, without [`RowsFlags::STATEMENT_END`]: the order of events is also reversed.
    pub flags: RowsFlags,
    /// Number of rows.
    pub row_count: u64,
    pub(crate) extra: Vec<u8>,
    pub(crate) column_count: u64,
    pub(crate) columns: Vec<u8>,
    pub(crate) columns_after: Option<Vec<u8>>,
    pub(crate) rows: Vec<u8>,
}

impl InvertedRows {
    /// Returns the inverse as an event of version 2.
    pub fn event(&self) -> Event<'_> {
        let rows = Rows {
            kind: self.kind,
            table_id: self.table_id,
            flags: self.flags,
            extra: Some(&self.extra),
            column_count: self.column_count,
            columns: ColumnSet { bits: &self.columns },
            columns_after: self.columns_after.as_deref().map(|bits| ColumnSet { bits }),
            rows: &self.rows,
        };
        match self.kind {
            RowsKind::Write => Event::WriteRows(rows),
            RowsKind::Delete => Event::DeleteRows(rows),
            RowsKind::Update | RowsKind::PartialUpdate => Event::UpdateRows(rows),
        }
    }
}
