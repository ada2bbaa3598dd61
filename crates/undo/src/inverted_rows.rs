//! The inverse of a rows event.

use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind};
use binlog::{Event, EventFormat, EventType};

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
    /// Returns the inverse as an event of this format: of version 1 if the format lacks version 2, as before MySQL
    /// 5.6.
    pub fn event(&self, format: &EventFormat) -> Event<'_> {
        let is_version_2 = format.post_header_size(EventType::UpdateRows).is_some();
        let rows = Rows {
            kind: self.kind,
            table_id: self.table_id,
            flags: self.flags,
            extra: is_version_2.then_some(self.extra.as_slice()),
            column_count: self.column_count,
            columns: ColumnSet { bits: &self.columns },
            columns_after: self.columns_after.as_deref().map(|bits| ColumnSet { bits }),
            rows: &self.rows,
        };
        match (self.kind, is_version_2) {
            (RowsKind::Write, true) => Event::WriteRows(rows),
            (RowsKind::Write, false) => Event::WriteRowsV1(rows),
            (RowsKind::Delete, true) => Event::DeleteRows(rows),
            (RowsKind::Delete, false) => Event::DeleteRowsV1(rows),
            (RowsKind::Update | RowsKind::PartialUpdate, true) => Event::UpdateRows(rows),
            (RowsKind::Update | RowsKind::PartialUpdate, false) => Event::UpdateRowsV1(rows),
        }
    }
}
