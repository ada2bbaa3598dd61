//! Logs of a few kilobytes that decompress to any size.

use std::path::Path;

use anyhow::{Result, bail};
use binlog::events::{
    ColumnSet, GtidEvent, GtidLayout, LogicalClock, PayloadCompression, Query, Rows, RowsFlags, RowsKind,
    StatusVars, TableMap, TransactionPayload, Xid,
};
use binlog::gtid::Uuid;
use binlog::{
    Event, EventChecksum, EventFlags, EventFormat, EventOrigin, Flavour, MAGIC, NextPosition, PayloadWriter,
    RawEvent, ZstdLevel, put_inner,
};
use logs::{LogReader, ReadOutcome};

/// Header fields of all events.
pub(crate) const ORIGIN: EventOrigin =
    EventOrigin { timestamp: 1_700_000_000, server_id: 1, flags: EventFlags(0) };
/// The definition of the table whose rows are inserted.
pub(crate) const TABLE: &[u8] = b"CREATE TABLE d.t (a INT PRIMARY KEY, b LONGBLOB)";
const COLUMN_TYPES: [u8; 2] = [3, 252];
const METADATA: [u8; 1] = [4];
const NULLABLE: [u8; 1] = [2];
/// INT is signed; the columns are named `a` and `b`.
const OPTIONAL: [u8; 9] = [1, 1, 0, 4, 4, 1, b'a', 1, b'b'];

/// A compressed transaction that inserts rows of zeros.
#[derive(Clone, Copy, Debug)]
pub struct Bomb {
    /// Number of rows, each in an event of its own.
    pub rows: u32,
    /// Bytes of each row's value.
    pub row_size: u32,
    /// Maps the true decompressed size to the size that the event states.
    pub claim: fn(u64) -> u64,
}

impl Bomb {
    /// Returns a log with the table's definition and this transaction.
    ///
    /// # Errors
    ///
    /// Fails if zstd cannot compress the transaction.
    pub fn log(&self) -> Result<Vec<u8>> {
        let (mut log, format) = beginning()?;
        put(&gtid(1), &format, &mut log)?;
        put(&query(b"CREATE DATABASE d"), &format, &mut log)?;
        put(&gtid(2), &format, &mut log)?;
        put(&query(TABLE), &format, &mut log)?;
        put(&gtid(3), &format, &mut log)?;
        let (frame, size) = self.payload(&format)?;
        let fields = TransactionPayload::encode_fields(
            PayloadCompression::Zstd,
            frame.len() as u64,
            Some((self.claim)(size)),
        );
        let payload = TransactionPayload {
            compression: PayloadCompression::Zstd,
            uncompressed_size: Some((self.claim)(size)),
            fields: &fields,
            payload: &frame,
            rest: &[],
        };
        put(&Event::TransactionPayload(payload), &format, &mut log)?;
        Ok(log)
    }

    /// Returns the compressed events and their decompressed size.
    fn payload(&self, format: &EventFormat) -> Result<(Vec<u8>, u64)> {
        let format = format.inside_payload();
        let inner = |event: &Event<'_>| -> Result<Vec<u8>> {
            let (mut bytes, mut inner) = (Vec::new(), Vec::new());
            put(event, &format, &mut bytes)?;
            put_inner(&RawEvent::new(&bytes, EventChecksum::Absent)?, &mut inner);
            Ok(inner)
        };
        let front = [inner(&query(b"BEGIN"))?, inner(&table_map())?].concat();
        let mut row = vec![0; 1 + 4 + 4];
        row[5..9].copy_from_slice(&self.row_size.to_le_bytes());
        row.resize(row.len() + self.row_size as usize, 0);
        let rows = |row: &[u8], flags| inner(&insert(row, flags));
        let end = inner(&Event::Xid(Xid { xid: 3 }))?;
        let size_of_one = rows(&row, RowsFlags::default())?.len() as u64;
        let size = front.len() as u64 + u64::from(self.rows) * size_of_one + end.len() as u64;
        let mut writer = PayloadWriter::new(ZstdLevel::DEFAULT)?;
        writer.begin(size)?;
        writer.push(&front)?;
        for number in 1..=self.rows {
            row[1..5].copy_from_slice(&number.to_le_bytes());
            let flags = if number == self.rows { RowsFlags::STATEMENT_END } else { RowsFlags::default() };
            writer.push(&rows(&row, flags)?)?;
        }
        writer.push(&end)?;
        Ok((writer.finish()?.to_vec(), size))
    }
}

/// Returns the table map event of the table.
pub(crate) fn table_map() -> Event<'static> {
    Event::TableMap(TableMap {
        table_id: 7,
        flags: 1,
        database: b"d",
        table: b"t",
        column_types: &COLUMN_TYPES,
        metadata: &METADATA,
        nullable: &NULLABLE,
        optional: &OPTIONAL,
        flavour: Flavour::MySql,
    })
}

/// Returns the event that inserts rows: of each, a byte of NULL bits, INT, and LONGBLOB with its size in four bytes.
pub(crate) fn insert(rows: &[u8], flags: RowsFlags) -> Event<'_> {
    Event::WriteRows(Rows {
        kind: RowsKind::Write,
        table_id: 7,
        flags,
        extra: Some(&[]),
        column_count: 2,
        columns: ColumnSet { bits: &[3] },
        columns_after: None,
        rows,
    })
}

/// Returns the magic and the format description event of a real server's log.
fn beginning() -> Result<(Vec<u8>, EventFormat)> {
    beginning_of("types-compressed.binlog")
}

/// Returns the magic and the format description event of a sample.
pub(crate) fn beginning_of(sample: &str) -> Result<(Vec<u8>, EventFormat)> {
    let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples").join(sample);
    let mut reader = LogReader::open(&sample)?;
    let ReadOutcome::Some(chunk) = reader.next_chunk(1 << 20)? else { bail!("{sample:?} has no events") };
    let Some(event) = chunk.get(0) else { bail!("{sample:?} has no format description") };
    Ok(([&MAGIC, event.raw.bytes()].concat(), (**chunk.format()).clone()))
}

fn put(event: &Event<'_>, format: &EventFormat, out: &mut Vec<u8>) -> Result<()> {
    let next = NextPosition::FromStart(out.len() as u64);
    Ok(event.write(ORIGIN, next, format, out)?)
}

pub(crate) fn gtid(number: i64) -> Event<'static> {
    Event::Gtid(GtidEvent {
        flags: 0,
        uuid: Uuid::from_bytes([7; 16]),
        gno: number,
        clock: Some(LogicalClock { last_committed: number - 1, sequence_number: number }),
        stamps: None,
        layout: GtidLayout::default(),
        rest: &[],
    })
}

pub(crate) fn query(sql: &[u8]) -> Event<'_> {
    let (status, database) = (StatusVars { bytes: &[] }, b"d".as_slice());
    Event::Query(Query { thread_id: 1, exec_time: 0, error_code: 0, status, database, sql })
}
