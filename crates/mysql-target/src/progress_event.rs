//! Progress as row events: the update of a row of the progress table, in the same request as the changes.

use binlog::events::{ColumnSet, Rows, RowsFlags, RowsKind, TableMap};
use binlog::{EncodeError, Event, EventFormat, Flavour};
use replay::ReplayProgress;

use crate::binlog_statement::put_event;
use crate::progress_sql::beyond_text;

/// Number of the progress table in its events. Servers count their tables from a small number.
pub(crate) const PROGRESS_TABLE_ID: u64 = 0x7fff_ffff_ffff;

/// Size of the column for the name of a log, in bytes.
pub(crate) const LOG_NAME_SIZE_MAX: u16 = 4096;
const LOG_NAME_SIZE: [u8; 2] = LOG_NAME_SIZE_MAX.to_le_bytes();

/// Columns of the progress table, by their index in [`crate::progress_sql::CREATE_PROGRESS_TABLE`].
const STREAM: usize = 0;
const GTIDS: usize = 1;
const LOG: usize = 2;
const POSITION: usize = 3;
const BEYOND: usize = 4;
const COMMITS: usize = 8;

/// Type codes of the columns: INT, LONGTEXT, VARBINARY, BIGINT, LONGTEXT, LONGTEXT, INT, INT, BIGINT.
const TYPES: [u8; 9] = [3, 252, 15, 8, 252, 252, 3, 3, 8];
/// Size of the length of a LONGTEXT; the maximum size of the VARBINARY, in two bytes; the other two LONGTEXTs.
const METADATA: [u8; 5] = [4, LOG_NAME_SIZE[0], LOG_NAME_SIZE[1], 4, 4];
/// The columns that may be NULL: log, position, intent, source.
const NULLABLE: [u8; 2] = [0b1010_1100, 0];

/// Appends the table map of the progress table.
pub(crate) fn put_table_map(out: &mut Vec<u8>, format: &EventFormat) -> Result<(), EncodeError> {
    let map = TableMap {
        table_id: PROGRESS_TABLE_ID,
        flags: TableMap::BIT_SIZE_EXACT,
        database: b"bintide",
        table: b"progress",
        column_types: &TYPES,
        metadata: &METADATA,
        nullable: &NULLABLE,
        optional: &[],
        flavour: Flavour::MySql,
    };
    put_event(&Event::TableMap(map), out, format)
}

/// Appends the rows event that saves progress in a row of the table. It ends its statement.
///
/// The before image has the primary key only, and the after image the columns that change: as with
/// `binlog_row_image=MINIMAL`.
pub(crate) fn put_update(
    out: &mut Vec<u8>,
    progress: &ReplayProgress,
    stream: usize,
    format: &EventFormat,
) -> Result<(), EncodeError> {
    assert!(stream > 0, "ours: the rows of the progress table are numbered from 1");
    let mut row = vec![0];
    row.extend_from_slice(&u32::try_from(stream).expect("ours: there are few streams").to_le_bytes());
    let (mut columns, mut image) = (1_u16 << GTIDS, Vec::new());
    put_long_text(&mut image, &progress.gtids.to_string());
    if let Some(position) = &progress.position {
        columns |= 1 << LOG | 1 << POSITION | 1 << BEYOND;
        let size = u16::try_from(position.log.len()).expect("ours: names of logs are short");
        image.extend_from_slice(&size.to_le_bytes());
        image.extend_from_slice(position.log.as_bytes());
        image.extend_from_slice(&position.position.to_le_bytes());
        put_long_text(&mut image, &beyond_text(&progress.beyond));
    }
    if let Some(commits) = progress.commits {
        columns |= 1 << COMMITS;
        image.extend_from_slice(&commits.to_le_bytes());
    }
    // One NULL bit for each column of the image: at most five.
    row.push(0);
    row.append(&mut image);
    let (columns_before, columns_after) = ((1_u16 << STREAM).to_le_bytes(), columns.to_le_bytes());
    let rows = Rows {
        kind: RowsKind::Update,
        table_id: PROGRESS_TABLE_ID,
        flags: RowsFlags::STATEMENT_END,
        extra: Some(&[]),
        column_count: TYPES.len() as u64,
        columns: ColumnSet { bits: &columns_before },
        columns_after: Some(ColumnSet { bits: &columns_after }),
        rows: &row,
    };
    put_event(&Event::UpdateRows(rows), out, format)
}

fn put_long_text(out: &mut Vec<u8>, text: &str) {
    let size = u32::try_from(text.len()).expect("ours: the progress fits into a LONGTEXT");
    out.extend_from_slice(&size.to_le_bytes());
    out.extend_from_slice(text.as_bytes());
}
