//! Rows and records buffered until their transaction ends. Only the end contains its xid, and shows which record is last.
//!
//! Rows are buffered as in the log: their records would take ten times the space.

use std::collections::HashMap;
use std::env;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;

use binlog::events::{ColumnSet, Rows, RowsFlags};
use binlog::{Cursor, RowDecoder};
use logs::{EncryptedSpool, is_disk_full};

use crate::json_writer::put_token;
use crate::resume_token::ResumeToken;
use crate::table_plan::TablePlan;

/// Bytes buffered in memory; more go to a file. Bounds memory.
const MEMORY_MAX: usize = 16 << 20;

/// Rows and records of a transaction, in order.
#[derive(Debug, Default)]
pub(crate) struct TransactionBuffer {
    bytes: Vec<u8>,
    /// File with the items before `bytes`.
    spool: Option<EncryptedSpool>,
    /// Size in bytes of each write to the file.
    spooled: Vec<usize>,
    tables: Vec<PreparedTable>,
    /// Index in `tables` by the addresses of plan and decoder, which do not move while they are buffered.
    numbers: HashMap<[usize; 2], u32>,
    count: u64,
    /// Number of items up to and including the last rows.
    rows_end: u64,
}

/// Plan and decoder for the rows of an event.
#[derive(Clone, Debug)]
pub(crate) struct PreparedTable {
    pub(crate) plan: Arc<TablePlan>,
    pub(crate) decoder: Arc<RowDecoder>,
}

/// Buffered item.
#[derive(Clone, Copy, Debug)]
pub(crate) enum BufferedItem<'w> {
    Rows(BufferedRows<'w>, &'w PreparedTable, MoreRows),
    /// A whole record.
    Record(&'w [u8]),
}

/// Rows of an event.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferedRows<'w> {
    /// Start of the event, in bytes from the log's start.
    pub(crate) offset: u64,
    /// Bytes before the xid in each record.
    pub(crate) front: &'w [u8],
    /// Bytes between the xid and the row's values in each record.
    pub(crate) middle: &'w [u8],
    pub(crate) rows: Rows<'w>,
    /// Number of rows: at least one.
    pub(crate) count: u64,
}

/// Presence of more rows of the transaction after an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MoreRows {
    Yes,
    No,
}

impl TransactionBuffer {
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Buffers the rows of an event.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created or written.
    pub(crate) fn push_rows(
        &mut self,
        waiting: &BufferedRows<'_>,
        prepared: &PreparedTable,
    ) -> io::Result<()> {
        let number = self.table_number(prepared);
        put_rows(&mut self.bytes, number, waiting);
        self.count += 1;
        self.rows_end = self.count;
        self.spool_if_full()
    }

    /// Buffers a whole record.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be created or written.
    pub(crate) fn push_record(&mut self, record: &[u8]) -> io::Result<()> {
        put_record(&mut self.bytes, record);
        self.count += 1;
        self.spool_if_full()
    }

    fn table_number(&mut self, prepared: &PreparedTable) -> u32 {
        let PreparedTable { plan, decoder } = prepared;
        let addresses = [Arc::as_ptr(plan).addr(), Arc::as_ptr(decoder).addr()];
        *self.numbers.entry(addresses).or_insert_with(|| {
            self.tables.push(prepared.clone());
            self.tables.len() as u32 - 1
        })
    }

    fn spool_if_full(&mut self) -> io::Result<()> {
        if self.bytes.len() <= MEMORY_MAX {
            return Ok(());
        }
        let directory = env::temp_dir();
        let spool = match &mut self.spool {
            Some(spool) => spool,
            none => none.insert(EncryptedSpool::new_in(&directory, 0)?),
        };
        spool.push(&self.bytes).map_err(|error| temporary_file_error(&directory, error))?;
        self.spooled.push(self.bytes.len());
        self.bytes.clear();
        Ok(())
    }

    /// Passes all items to `take`, in order, and clears the buffer.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, or `take` fails.
    pub(crate) fn release<E: From<io::Error>>(
        &mut self,
        mut take: impl FnMut(&BufferedItem<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        let Self { bytes, spool, spooled, tables, rows_end, .. } = self;
        let mut number = 0;
        let mut take_all = |bytes: &[u8]| -> Result<(), E> {
            let mut cursor = Cursor::new(bytes);
            while !cursor.is_empty() {
                number += 1;
                let followed = if number < *rows_end { MoreRows::Yes } else { MoreRows::No };
                take(&take_item(&mut cursor, tables, followed))?;
            }
            Ok(())
        };
        let (mut start, mut read) = (0, Vec::new());
        for size in spooled.iter() {
            let spool = spool.as_ref().expect("ours: the spool was created before the first write");
            read.resize(*size, 0);
            spool.read_exact_at(start, &mut read)?;
            start += *size as u64;
            take_all(&read)?;
        }
        take_all(bytes)?;
        self.clear();
        Ok(())
    }

    fn clear(&mut self) {
        let Self { bytes, spool, spooled, tables, numbers, count, rows_end } = self;
        bytes.clear();
        *spool = None;
        spooled.clear();
        tables.clear();
        numbers.clear();
        (*count, *rows_end) = (0, 0);
    }
}

/// Adds the directory of temporary files to an error of the operating system.
fn temporary_file_error(directory: &Path, error: io::Error) -> io::Error {
    let kind = error.kind();
    let directory = directory.display();
    match kind {
        // The limit of temporary files: this error has the directory already.
        ErrorKind::Other => error,
        _ if is_disk_full(&error) => io::Error::new(kind, format!("temporary file in {directory}: {error}")),
        _ => io::Error::new(
            kind,
            format!(
                "temporary file in {directory}: {error}; set TMPDIR to a directory that exists and can be written"
            ),
        ),
    }
}

/// Adds the field `resume` to the last record in `out`.
pub(crate) fn put_resume(out: &mut Vec<u8>, token: &ResumeToken) {
    // Remove its closing brace and newline.
    out.truncate(out.len() - 2);
    out.extend_from_slice(b",\"resume\":");
    put_token(out, token);
    out.extend_from_slice(b"}\n");
}

/// Marks a record, in place of a table's index.
const RECORD_TAG: u32 = u32::MAX;

// size  field, little-endian
//    4  index of the table, or RECORD_TAG
//    *  part: front; or the record, and then nothing more
//    *  part: middle
//    8  offset
//    8  count
//    8  column_count
//    *  part: extra
//    *  part: columns
//    *  part: columns_after
//    *  part: rows
// and a part is
//    8  0 if it is absent, otherwise its size plus 1
//    *  the part
fn put_rows(out: &mut Vec<u8>, number: u32, waiting: &BufferedRows<'_>) {
    let BufferedRows { offset, front, middle, rows, count } = waiting;
    out.extend_from_slice(&number.to_le_bytes());
    put_part(out, Some(front));
    put_part(out, Some(middle));
    for number in [*offset, *count, rows.column_count] {
        out.extend_from_slice(&number.to_le_bytes());
    }
    let columns_after = rows.columns_after.map(|columns| columns.bits);
    for part in [rows.extra, Some(rows.columns.bits), columns_after, Some(rows.rows)] {
        put_part(out, part);
    }
}

fn put_record(out: &mut Vec<u8>, record: &[u8]) {
    out.extend_from_slice(&RECORD_TAG.to_le_bytes());
    put_part(out, Some(record));
}

fn put_part(out: &mut Vec<u8>, part: Option<&[u8]>) {
    out.extend_from_slice(&part.map_or(0, |part| part.len() as u64 + 1).to_le_bytes());
    out.extend_from_slice(part.unwrap_or_default());
}

const OWN_FORMAT: &str = "ours: this module wrote it";

fn take_item<'w>(
    cursor: &mut Cursor<'w>,
    tables: &'w [PreparedTable],
    followed: MoreRows,
) -> BufferedItem<'w> {
    let number = cursor.u32().expect(OWN_FORMAT);
    let front = take_part(cursor).unwrap_or_default();
    if number == RECORD_TAG {
        return BufferedItem::Record(front);
    }
    let prepared = &tables[number as usize];
    let middle = take_part(cursor).unwrap_or_default();
    let [offset, count, column_count] = std::array::from_fn(|_| cursor.u64().expect(OWN_FORMAT));
    let [extra, columns, columns_after, rows] = std::array::from_fn(|_| take_part(cursor));
    let rows = Rows {
        kind: prepared.decoder.kind(),
        table_id: 0,
        flags: RowsFlags(0),
        extra,
        column_count,
        columns: ColumnSet { bits: columns.unwrap_or_default() },
        columns_after: columns_after.map(|bits| ColumnSet { bits }),
        rows: rows.unwrap_or_default(),
    };
    BufferedItem::Rows(BufferedRows { offset, front, middle, rows, count }, prepared, followed)
}

fn take_part<'w>(cursor: &mut Cursor<'w>) -> Option<&'w [u8]> {
    let size = cursor.u64().expect(OWN_FORMAT).checked_sub(1)?;
    Some(cursor.bytes(size as usize).expect(OWN_FORMAT))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::{BufferedItem, TransactionBuffer};

    /// Checks `count` records of `size` bytes.
    fn check(count: u8, size: usize) {
        let mut held = TransactionBuffer::default();
        for number in 0..count {
            held.push_record(&vec![number; size]).unwrap();
        }
        assert_eq!(held.is_empty(), count == 0);
        assert_eq!(held.spool.is_some(), usize::from(count) * size > 17 << 20);
        let mut number = 0;
        let released = held.release(|waiting| {
            let BufferedItem::Record(record) = waiting else { panic!("{waiting:?}") };
            assert_eq!(*record, vec![number; size]);
            number += 1;
            Ok::<(), io::Error>(())
        });
        released.unwrap();
        assert_eq!(number, count);
        assert!(held.is_empty() && held.bytes.is_empty() && held.spool.is_none());
    }

    #[test]
    fn buffered_items_are_released_in_order() {
        check(0, 1);
        check(1, 10);
        check(4, 10);
        // Large enough to be spooled to a file, separately and together.
        check(4, 20 << 20);
        check(7, 6 << 20);
    }
}
