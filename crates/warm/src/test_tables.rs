//! Columns, tables and rows for tests.

use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind, TableMap};
use binlog::{Column, ColumnType, Flavour, Table};

/// Returns a log's column of this type.
pub(crate) fn log_column(column_type: ColumnType) -> Column {
    let mut column = table(1).columns[0].clone();
    column.column_type = column_type;
    column
}

/// Returns a table with this number of INT columns.
pub(crate) fn table(columns: usize) -> Table {
    Table::new(&map(&vec![3; columns], &vec![0xff; columns.div_ceil(8)])).unwrap()
}

fn map<'a>(column_types: &'a [u8], nullable: &'a [u8]) -> TableMap<'a> {
    let (metadata, optional) = (&[], &[]);
    TableMap {
        table_id: 7,
        flags: 1,
        database: b"d",
        table: b"t",
        column_types,
        metadata,
        nullable,
        optional,
        flavour: Flavour::MySql,
    }
}

/// Returns a rows event with these columns, as bits, in each image.
pub(crate) fn rows<'a>(kind: RowsKind, columns: u64, bits: &'a [u8], rows: &'a [u8]) -> Rows<'a> {
    let set = ColumnSet { bits };
    Rows {
        kind,
        table_id: 7,
        flags: RowsFlags::STATEMENT_END,
        extra: Some(&[]),
        column_count: columns,
        columns: set,
        columns_after: kind.has_after().then_some(set),
        rows,
    }
}

/// Returns an image of INTs; `None` is NULL.
pub(crate) fn image(values: &[Option<i32>]) -> Vec<u8> {
    let mut out = vec![0; values.len().div_ceil(8)];
    for (at, value) in values.iter().enumerate() {
        match value {
            None => out[at / 8] |= 1 << (at % 8),
            Some(value) => out.extend_from_slice(&value.to_le_bytes()),
        }
    }
    out
}
