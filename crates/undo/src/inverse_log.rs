//! Writes the inverse as a binary log.

use std::io::{self, Write};

use binlog::events::{
    CommitStamps, FormatDescription, GtidEvent, GtidLayout, LogicalClock, PreviousGtids, Query, StatusVars,
    Stop, Xid,
};
use binlog::gtid::Uuid;
use binlog::{
    ChecksumAlgorithm, EncodeError, Event, EventChecksum, EventFlags, EventFormat, EventOrigin, EventType,
    MAGIC, NextPosition, RawEvent,
};

use crate::inverse_collector::TRANSACTION_RECORD;
use crate::reverse_spool::ReverseRecords;

/// The inverse of transactions, the last one first.
#[derive(Debug)]
pub struct InverseLog {
    records: ReverseRecords,
}

/// Error of writing an inverse.
#[derive(Debug, thiserror::Error)]
pub enum InverseLogError {
    /// The log cannot be written.
    #[error("{0}")]
    Write(io::Error),
    /// The temporary file cannot be read.
    #[error("could not read a temporary file: {0}")]
    Spool(io::Error),
    /// An event cannot be encoded.
    #[error(transparent)]
    Encode(#[from] EncodeError),
}

/// Time of the new log, in microseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogTimestamp(pub u64);

impl InverseLog {
    pub(crate) const fn new(records: ReverseRecords) -> Self {
        Self { records }
    }

    /// Writes the inverse as a binary log with CRC32 checksums: a transaction without a GTID for each undone one.
    /// `format` is that of the undone log. Calls `go_on` with the bytes so far; stops early if it returns false.
    ///
    /// # Errors
    ///
    /// If the log cannot be written, or the temporary file cannot be read.
    pub fn write(
        mut self,
        format: &EventFormat,
        now: LogTimestamp,
        out: &mut dyn Write,
        go_on: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), InverseLogError> {
        let format = EventFormat { checksum: ChecksumAlgorithm::Crc32, ..format.clone() };
        let mut log = LogEvents { format: &format, now, position: 0, bytes: Vec::new(), transactions: 0 };
        log.put_beginning()?;
        let mut record = Vec::new();
        while self.records.pop(&mut record).map_err(InverseLogError::Spool)? {
            log.flush(out)?;
            if !go_on(log.position) {
                return Ok(());
            }
            match record.split_first() {
                Some((&TRANSACTION_RECORD, head)) => log.put_transaction(head)?,
                Some((_, events)) => log.put_events(events)?,
                None => unreachable!("ours: each record has a kind"),
            }
        }
        log.put_commit()?;
        log.put(&Event::Stop(Stop), 1)?;
        log.flush(out)
    }
}

/// Events of the new log.
struct LogEvents<'f> {
    format: &'f EventFormat,
    now: LogTimestamp,
    /// Position in the log of the end of `bytes`.
    position: u64,
    /// Events that are not written yet.
    bytes: Vec<u8>,
    /// Number of transactions so far; the last one is open.
    transactions: u32,
}

impl LogEvents<'_> {
    fn flush(&mut self, out: &mut dyn Write) -> Result<(), InverseLogError> {
        out.write_all(&self.bytes).map_err(InverseLogError::Write)?;
        self.bytes.clear();
        Ok(())
    }

    fn origin(&self, server_id: u32) -> EventOrigin {
        let timestamp = u32::try_from(self.now.0 / 1_000_000).unwrap_or(u32::MAX);
        EventOrigin { timestamp, server_id, flags: EventFlags(0) }
    }

    fn put(&mut self, event: &Event<'_>, server_id: u32) -> Result<(), EncodeError> {
        let (before, next) = (self.bytes.len(), NextPosition::FromStart(self.position));
        event.write(self.origin(server_id), next, self.format, &mut self.bytes)?;
        self.position += (self.bytes.len() - before) as u64;
        Ok(())
    }

    /// Puts the format description and, in formats with GTIDs, an empty set of earlier GTIDs.
    fn put_beginning(&mut self) -> Result<(), EncodeError> {
        self.bytes.extend_from_slice(&MAGIC);
        self.position = MAGIC.len() as u64;
        let mut version = [0; 50];
        // The version ends with a zero byte.
        let size = self.format.server_version.len().min(version.len() - 1);
        version[..size].copy_from_slice(&self.format.server_version[..size]);
        let description = FormatDescription {
            binlog_version: 4,
            server_version: &version,
            created: 0,
            header_size: 19,
            post_header_sizes: &self.format.post_header_sizes,
            // 1: CRC32. Servers before 5.6.1 have no checksum byte.
            checksum_algorithm: self.format.has_checksum_byte().then_some(1),
        };
        self.put(&Event::FormatDescription(description), 1)?;
        if self.has_gtids() {
            self.put(&Event::PreviousGtids(PreviousGtids { set: &[0; 8] }), 1)?;
        }
        Ok(())
    }

    fn has_gtids(&self) -> bool {
        self.format.post_header_size(EventType::AnonymousGtid).is_some()
    }

    /// Commits the open transaction and begins the next one. `head` has the server and the size of its events.
    fn put_transaction(&mut self, head: &[u8]) -> Result<(), EncodeError> {
        self.put_commit()?;
        let (server, size) = head.split_at(4);
        let server_id = u32::from_le_bytes(server.try_into().unwrap_or_default());
        let size = u64::from_le_bytes(size.try_into().unwrap_or_default());
        self.transactions += 1;
        let begin = Event::Query(Query {
            thread_id: 0,
            exec_time: 0,
            error_code: 0,
            status: StatusVars { bytes: &[] },
            database: b"",
            sql: b"BEGIN",
        });
        if self.has_gtids() {
            let size = size + self.size_of(&begin)? + self.size_of(&self.xid())?;
            let gtid = self.anonymous_gtid(size)?;
            self.put(&Event::AnonymousGtid(gtid), server_id)?;
        }
        self.put(&begin, server_id)
    }

    /// Commits the open transaction, if there is one.
    fn put_commit(&mut self) -> Result<(), EncodeError> {
        match self.transactions {
            0 => Ok(()),
            _ => self.put(&self.xid(), 1),
        }
    }

    fn xid(&self) -> Event<'static> {
        Event::Xid(Xid { xid: self.transactions.into() })
    }

    fn size_of(&self, event: &Event<'_>) -> Result<u64, EncodeError> {
        let mut bytes = Vec::new();
        event.write(self.origin(1), NextPosition::Fixed(0), self.format, &mut bytes)?;
        Ok(bytes.len() as u64)
    }

    /// Returns the GTID event of a transaction whose other events have this size. Each transaction depends on the one
    /// before.
    fn anonymous_gtid(&self, size: u64) -> Result<GtidEvent<'static>, EncodeError> {
        let number = i64::from(self.transactions);
        let (major, minor, patch) = self.format.version_numbers();
        let version = 10_000 * major + 100 * minor + patch;
        let has = |first: (u32, u32, u32)| (major, minor, patch) >= first;
        let stamps = CommitStamps {
            immediate_commit_us: self.now.0,
            original_commit_us: self.now.0,
            transaction_size: has((8, 0, 2)).then_some(0),
            immediate_server_version: has((8, 0, 14)).then_some(version),
            original_server_version: has((8, 0, 14)).then_some(version),
            commit_group_ticket: None,
        };
        let clock = LogicalClock { last_committed: number - 1, sequence_number: number };
        let mut gtid = GtidEvent {
            flags: 0,
            uuid: Uuid::from_bytes([0; 16]),
            gno: 0,
            clock: has((5, 7, 5)).then_some(clock),
            stamps: has((8, 0, 1)).then_some(stamps),
            layout: GtidLayout::default(),
            rest: &[],
        };
        gtid.settle_transaction_size(size, EventChecksum::Crc32)?;
        Ok(gtid)
    }

    /// Puts encoded events without checksums.
    fn put_events(&mut self, events: &[u8]) -> Result<(), EncodeError> {
        let mut rest = events;
        while let Some((raw, behind)) = RawEvent::split_first(rest, EventChecksum::Absent) {
            let origin = self.origin(raw.header().server_id);
            let (before, next) = (self.bytes.len(), NextPosition::FromStart(self.position));
            raw.rewrite(origin, next, EventChecksum::Crc32, &mut self.bytes)?;
            self.position += (self.bytes.len() - before) as u64;
            rest = behind;
        }
        Ok(())
    }
}
