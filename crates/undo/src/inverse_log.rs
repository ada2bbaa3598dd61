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

use crate::inverse_collector::{CASCADE_STATEMENT_RECORD, STATEMENT_RECORD, TRANSACTION_RECORD};
use crate::reverse_spool::ReverseRecords;

/// The inverse of transactions, the last transaction first.
#[derive(Debug)]
pub struct InverseLog {
    records: ReverseRecords,
    /// The last record.
    record: Vec<u8>,
}

/// A part of the inverse of transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InversePart<'a> {
    /// Start of the inverse of a transaction. Its events follow.
    Transaction(InverseTransaction<'a>),
    /// Start of a statement: consecutive table maps, without checksums.
    Statement {
        /// The table maps.
        maps: &'a [u8],
        /// Origin of the statement's foreign key actions.
        foreign_keys: ForeignKeyActions,
    },
    /// A rows event without its checksum.
    Rows(&'a [u8]),
}

/// Origin of a statement's foreign key actions, such as `ON DELETE CASCADE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKeyActions {
    /// The log does not contain the actions: the server executes them.
    ByServer,
    /// The log contains the actions as rows of further tables, as servers since 9.6 write them.
    InLog,
}

/// The inverse of one transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InverseTransaction<'a> {
    /// GTID or position of the undone transaction.
    pub name: &'a str,
    /// Server on which the undone transaction originated.
    server_id: u32,
    /// Size of the events in bytes, with checksums.
    size: u64,
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

/// Identity of a new log, different for each log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InverseLogIdentity {
    /// Random UUID for the log's GTIDs.
    pub uuid: Uuid,
    /// Time of the log, in microseconds since 1970.
    pub time_us: u64,
}

/// `server_id` of events that are not part of a transaction: no server wrote the log.
const NO_SERVER: u32 = 0;

impl InverseLog {
    pub(crate) const fn new(records: ReverseRecords) -> Self {
        Self { records, record: Vec::new() }
    }

    /// Returns the size of the remaining parts in bytes.
    pub const fn remaining(&self) -> u64 {
        self.records.remaining()
    }

    /// Returns the next part; `None` at the end.
    ///
    /// # Errors
    ///
    /// Fails if the temporary file cannot be read.
    pub fn next_part(&mut self) -> io::Result<Option<InversePart<'_>>> {
        if !self.records.pop(&mut self.record)? {
            return Ok(None);
        }
        Ok(Some(match self.record.split_first() {
            Some((&TRANSACTION_RECORD, head)) => InversePart::Transaction(InverseTransaction::new(head)),
            Some((&STATEMENT_RECORD, maps)) => {
                InversePart::Statement { maps, foreign_keys: ForeignKeyActions::ByServer }
            }
            Some((&CASCADE_STATEMENT_RECORD, maps)) => {
                InversePart::Statement { maps, foreign_keys: ForeignKeyActions::InLog }
            }
            Some((_, event)) => InversePart::Rows(event),
            None => unreachable!("ours: each record has a kind"),
        }))
    }

    /// Writes the inverse as a binary log: one transaction for each undone transaction. `format` is the format of the
    /// undone log. If it can have checksums, they are CRC32. In formats with GTIDs, transactions get new GTIDs. Calls
    /// `on_progress` with the number of bytes so far; stops early if `on_progress` returns false.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be written, or the temporary file cannot be read.
    pub fn write(
        mut self,
        format: &EventFormat,
        identity: InverseLogIdentity,
        out: &mut dyn Write,
        on_progress: &mut dyn FnMut(u64) -> bool,
    ) -> Result<(), InverseLogError> {
        // Readers of a format without the byte of the algorithm expect no checksums.
        let checksum = match format.has_checksum_byte() {
            true => ChecksumAlgorithm::Crc32,
            false => ChecksumAlgorithm::Off,
        };
        let format = EventFormat { checksum, ..format.clone() };
        let (bytes, open) = (Vec::new(), None);
        let mut log = LogEvents { format: &format, identity, position: 0, bytes, transactions: 0, open };
        log.put_beginning()?;
        while let Some(part) = self.next_part().map_err(InverseLogError::Spool)? {
            log.flush(out)?;
            if !on_progress(log.position) {
                return Ok(());
            }
            match part {
                InversePart::Transaction(transaction) => log.put_transaction(transaction)?,
                InversePart::Statement { maps: events, .. } | InversePart::Rows(events) => {
                    log.put_events(events)?;
                }
            }
        }
        log.put_commit()?;
        log.put(&Event::Stop(Stop), NO_SERVER)?;
        log.flush(out)
    }
}

impl<'a> InverseTransaction<'a> {
    /// Reads the record of a transaction, without its kind.
    fn new(record: &'a [u8]) -> Self {
        let fields = record.split_first_chunk().and_then(|(server_id, rest)| {
            let (size, name) = rest.split_first_chunk()?;
            Some((*server_id, *size, str::from_utf8(name).ok()?))
        });
        let Some((server_id, size, name)) = fields else {
            unreachable!("ours: the record has a server, a size and a name")
        };
        Self { name, server_id: u32::from_le_bytes(server_id), size: u64::from_le_bytes(size) }
    }
}

/// Events of the new log.
struct LogEvents<'f> {
    format: &'f EventFormat,
    identity: InverseLogIdentity,
    /// Position in the log at the end of `bytes`.
    position: u64,
    /// Events that are not written yet.
    bytes: Vec<u8>,
    /// Number of transactions so far.
    transactions: u32,
    /// Server of the open transaction.
    open: Option<u32>,
}

impl LogEvents<'_> {
    fn flush(&mut self, out: &mut dyn Write) -> Result<(), InverseLogError> {
        out.write_all(&self.bytes).map_err(InverseLogError::Write)?;
        self.bytes.clear();
        Ok(())
    }

    fn origin(&self, server_id: u32) -> EventOrigin {
        let timestamp = u32::try_from(self.identity.time_us / 1_000_000).unwrap_or(u32::MAX);
        EventOrigin { timestamp, server_id, flags: EventFlags(0) }
    }

    fn put(&mut self, event: &Event<'_>, server_id: u32) -> Result<(), EncodeError> {
        let (before, next) = (self.bytes.len(), NextPosition::FromStart(self.position));
        event.write(self.origin(server_id), next, self.format, &mut self.bytes)?;
        self.position += (self.bytes.len() - before) as u64;
        Ok(())
    }

    /// Appends the format description and, in formats with GTIDs, an empty Previous_gtids event.
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
        self.put(&Event::FormatDescription(description), NO_SERVER)?;
        if self.has_gtids() {
            self.put(&Event::PreviousGtids(PreviousGtids { set: &[0; 8] }), NO_SERVER)?;
        }
        Ok(())
    }

    fn has_gtids(&self) -> bool {
        self.format.post_header_size(EventType::Gtid).is_some()
    }

    /// Commits the open transaction and begins the next one.
    fn put_transaction(&mut self, transaction: InverseTransaction<'_>) -> Result<(), EncodeError> {
        self.put_commit()?;
        let InverseTransaction { server_id, size, .. } = transaction;
        self.transactions += 1;
        self.open = Some(server_id);
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
            let gtid = self.gtid(size)?;
            self.put(&Event::Gtid(gtid), server_id)?;
        }
        self.put(&begin, server_id)
    }

    /// Commits the open transaction, if there is one.
    fn put_commit(&mut self) -> Result<(), EncodeError> {
        match self.open.take() {
            None => Ok(()),
            Some(server_id) => self.put(&self.xid(), server_id),
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

    /// Returns the GTID event of a transaction whose other events have this size. Each transaction depends on the
    /// previous transaction.
    fn gtid(&self, size: u64) -> Result<GtidEvent<'static>, EncodeError> {
        let number = i64::from(self.transactions);
        let (major, minor, patch) = self.format.version_numbers();
        let version =
            major.saturating_mul(10_000).saturating_add(minor.saturating_mul(100)).saturating_add(patch);
        let has = |first: (u32, u32, u32)| (major, minor, patch) >= first;
        let stamps = CommitStamps {
            immediate_commit_us: self.identity.time_us,
            original_commit_us: self.identity.time_us,
            transaction_size: has((8, 0, 2)).then_some(0),
            immediate_server_version: has((8, 0, 14)).then_some(version),
            original_server_version: has((8, 0, 14)).then_some(version),
            commit_group_ticket: None,
        };
        let clock = LogicalClock { last_committed: number - 1, sequence_number: number };
        let mut gtid = GtidEvent {
            flags: 0,
            uuid: self.identity.uuid,
            gno: number,
            clock: has((5, 7, 5)).then_some(clock),
            stamps: has((8, 0, 1)).then_some(stamps),
            layout: GtidLayout::default(),
            rest: &[],
        };
        gtid.settle_transaction_size(size, EventChecksum::Crc32)?;
        Ok(gtid)
    }

    /// Appends encoded events, which have no checksums.
    fn put_events(&mut self, events: &[u8]) -> Result<(), EncodeError> {
        let mut rest = events;
        while let Some((raw, after)) = RawEvent::split_first(rest, EventChecksum::Absent) {
            let origin = self.origin(raw.header().server_id);
            let (before, next) = (self.bytes.len(), NextPosition::FromStart(self.position));
            raw.rewrite(origin, next, self.format.checksum.for_events(), &mut self.bytes)?;
            self.position += (self.bytes.len() - before) as u64;
            rest = after;
        }
        Ok(())
    }
}
