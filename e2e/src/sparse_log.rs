//! A log of more than 4 GiB that takes a few kilobytes of the disk.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use anyhow::Result;
use binlog::events::{PreviousGtids, RowsFlags, RowsQuery, Xid};
use binlog::{Event, EventFormat, NextPosition};

use crate::bomb;

/// Size in bytes of each large event. The protocol limits a packet to 1 GiB.
const EVENT_SIZE: u32 = 1 << 30;
/// Number of large events.
const LARGE_EVENTS: u32 = 5;
/// Position of the event's size in its header.
const SIZE_AT: usize = 9;

/// UUID of the transactions.
pub const UUID: &str = "07070707-0707-0707-0707-070707070707";

/// A log in a directory of its own, with an index. Transactions 1 and 2 create the table `d.t`, transaction 3 has more
/// than 4 GiB and inserts the row 1, transactions 4 and 5 insert the rows 2 and 3.
#[derive(Debug)]
pub struct SparseLog {
    /// The log.
    pub path: PathBuf,
    /// Position of transaction 4, beyond 4 GiB.
    pub fourth: u64,
    /// Size of the log in bytes.
    pub size: u64,
}

/// Events at the end of a file.
struct EventWriter {
    format: EventFormat,
    file: File,
    end: u64,
}

impl EventWriter {
    fn put(&mut self, event: &Event<'_>) -> Result<()> {
        let bytes = self.encode(event)?;
        self.file.write_all_at(&bytes, self.end)?;
        self.end += bytes.len() as u64;
        Ok(())
    }

    fn encode(&self, event: &Event<'_>) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        event.write(bomb::ORIGIN, NextPosition::FromStart(self.end), &self.format, &mut bytes)?;
        Ok(bytes)
    }

    /// Writes an event with a statement of zeros, which the file does not store.
    fn put_hole(&mut self) -> Result<()> {
        let mut head = self.encode(&Event::RowsQuery(RowsQuery { size_low: 0, sql: &[] }))?;
        let end = self.end + u64::from(EVENT_SIZE);
        let next = u32::try_from(end % (1 << 32))?;
        head[SIZE_AT..SIZE_AT + 4].copy_from_slice(&EVENT_SIZE.to_le_bytes());
        head[SIZE_AT + 4..SIZE_AT + 8].copy_from_slice(&next.to_le_bytes());
        self.file.write_all_at(&head, self.end)?;
        self.file.set_len(end)?;
        self.end = end;
        Ok(())
    }

    fn put_row(&mut self, number: u32) -> Result<()> {
        let row = [&[0], &number.to_le_bytes()[..], &1_u32.to_le_bytes(), b"x"].concat();
        self.put(&bomb::table_map())?;
        self.put(&bomb::insert(&row, RowsFlags::STATEMENT_END))?;
        self.put(&Event::Xid(Xid { xid: number.into() }))
    }
}

impl SparseLog {
    /// Writes the log.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be written.
    pub fn write(directory: &Path) -> Result<Self> {
        fs::write(directory.join("binlog.index"), "./binlog.000001\n")?;
        let path = directory.join("binlog.000001");
        let (beginning, format) = bomb::beginning_of("types-no-checksum.binlog")?;
        let mut file = File::create(&path)?;
        file.write_all(&beginning)?;
        let mut log = EventWriter { format, file, end: beginning.len() as u64 };
        log.put(&Event::PreviousGtids(PreviousGtids { set: &[0; 8] }))?;
        for (number, statement) in [(1, &b"CREATE DATABASE d"[..]), (2, bomb::TABLE)] {
            log.put(&bomb::gtid(number))?;
            log.put(&bomb::query(statement))?;
        }
        log.put(&bomb::gtid(3))?;
        log.put(&bomb::query(b"BEGIN"))?;
        (0..LARGE_EVENTS).try_for_each(|_| log.put_hole())?;
        log.put_row(1)?;
        let fourth = log.end;
        for (number, row) in [(4, 2), (5, 3)] {
            log.put(&bomb::gtid(number))?;
            log.put(&bomb::query(b"BEGIN"))?;
            log.put_row(row)?;
        }
        Ok(Self { path, fourth, size: log.end })
    }
}
