//! Session of one dump: decides which events a client gets, without I/O.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binlog::events::{ColumnSet, Heartbeat, HeartbeatV2, MariadbGtidList, Rotate, Rows, RowsFlags, RowsKind};
use binlog::gtid::GtidSet;
use binlog::{
    ChecksumAlgorithm, Event, EventChecksum, EventFlags, EventFormat, EventOrigin, EventType, Flavour,
    Framer, FramerOutput, MAGIC, NextPosition, RawEvent, TransactionId, move_event,
};

use crate::dump_error::{DumpError, DumpPositions};
use crate::dump_piece::{DumpPiece, EventBytes};
use crate::dump_progress::DumpProgress;
use crate::dump_start::{DumpMode, DumpStart};
use crate::error::RelayError;
use crate::form_chunk::{EventSlice, FormChunk};
use crate::mariadb_dump::{GroupDecision, MariadbProgress};
use crate::mariadb_position::gtid_list;
use crate::sent_transactions::SentTransaction;
use crate::served_checksum::{ChecksumShift, ServedChecksum};

/// Options of one dump: the requests of the client before it, and the limits of the relay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DumpOptions {
    /// `server_id` of the source, for artificial events.
    pub server_id: u32,
    /// Checksums for the client, from `@source_binlog_checksum` or `@master_binlog_checksum`: see [`ServedChecksum`].
    pub checksum: ServedChecksum,
    /// Time without events after which a heartbeat is sent: `@source_heartbeat_period`; `None` for no heartbeats.
    pub heartbeat_period: Option<Duration>,
    /// Kind of heartbeats, from a flag of the command.
    pub heartbeat_version: HeartbeatVersion,
    /// Behaviour at the end of the last log.
    pub end: DumpEndPolicy,
    /// Policy for MariaDB's Annotate_rows events, from a flag of the command.
    pub annotations: AnnotationPolicy,
    /// `server_id` of a MariaDB replica that starts by file and position; `None` for other clients. After a lost
    /// connection, such a replica resumes at the last received event, even within a statement. It stops with error 1595
    /// unless the next event ends the statement (seen with 10.11, also with a server as source). The relay therefore
    /// first sends an event that ends a statement. The replica ignores that event, because it has the replica's own
    /// `server_id`.
    pub statement_end_for: Option<u32>,
    /// Maximum size of an event in bytes; a larger event ends the dump with an error. Servers send up to 1 GiB.
    pub event_size_max: u32,
    /// Policy for small events.
    pub runs: RunPolicy,
}

/// Policy for small events in the output of a dump.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RunPolicy {
    /// Each event is a piece.
    #[default]
    Single,
    /// Consecutive events of less than [`RUN_EVENT_SIZE`] bytes are one piece, a run. That costs less for each event.
    Joined,
}

/// Size from which an event is sent as a separate piece, in bytes.
pub const RUN_EVENT_SIZE: u32 = 1 << 10;
/// Size in bytes at which a run is complete. Its bytes then still fit in the processor's cache.
const RUN_SIZE: u32 = 64 << 10;

/// Table number of rows events that only end a statement.
const NO_TABLE_ID: u64 = 0x00ff_ffff;

/// Kind of heartbeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeartbeatVersion {
    /// With a 32-bit position.
    V1,
    /// With a 64-bit position: since 8.0.26.
    V2,
}

/// Policy for MariaDB's Annotate_rows events, which contain the text of a statement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AnnotationPolicy {
    /// The relay sends the events.
    #[default]
    Send,
    /// The relay omits the events, because the replica has not requested them.
    Omit,
}

/// Behaviour at the end of the last log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpEndPolicy {
    /// Waits for further events.
    Wait,
    /// Ends the dump.
    Eof,
}

/// Result of [`DumpSession::take_pending`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpWait {
    /// Wait for further events, at most until this time.
    Wait {
        /// Time of the next heartbeat; `None` without heartbeats.
        until: Option<Instant>,
    },
    /// The dump ends.
    End,
}

/// Session of one dump: takes the events of a form, and decides which bytes the client gets.
#[derive(Debug)]
pub struct DumpSession {
    options: DumpOptions,
    mode: DumpMode,
    first_log: Arc<str>,
    first_position: u64,
    has_first_transaction: bool,
    phase: DumpPhase,
    log: Arc<str>,
    /// Position of the next event, as the client sees it.
    position: u64,
    /// Checksum algorithm of the sent events.
    checksum: ChecksumAlgorithm,
    shift: ChecksumShift,
    /// State of a dump by MariaDB GTIDs.
    mariadb: Option<MariadbProgress>,
    /// True within a transaction.
    is_in_transaction: bool,
    /// True within a transaction that the client has.
    is_skipping: bool,
    /// End of the last skipped event, which the client does not know yet.
    skipped_end: Option<u64>,
    last_sent: Instant,
    /// Checksum so far of a large event that is stored without a checksum.
    hasher: Option<crc32fast::Hasher>,
    progress: DumpProgress,
    /// True if the start of the present transaction was sent.
    is_start_sent: bool,
    /// Transactions sent since the last call of `take_sent`.
    sent: Vec<SentTransaction>,
}

/// Phase of the dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DumpPhase {
    /// Nothing has been sent.
    Start,
    /// The format description of the first log is sent; the log's other events follow.
    Events,
    /// The requested end is reached.
    Finished,
}

impl DumpSession {
    /// Creates the session of a dump from this start.
    pub fn new(start: &DumpStart, mode: DumpMode, options: DumpOptions, now: Instant) -> Self {
        Self {
            options,
            mode,
            first_log: Arc::clone(&start.log),
            first_position: start.position,
            has_first_transaction: start.has_first_transaction,
            phase: DumpPhase::Start,
            log: Arc::clone(&start.log),
            position: start.position,
            checksum: ChecksumAlgorithm::Off,
            shift: ChecksumShift::Unchanged,
            mariadb: start.mariadb.clone(),
            is_in_transaction: false,
            is_skipping: false,
            skipped_end: None,
            last_sent: now,
            hasher: None,
            progress: DumpProgress::default(),
            is_start_sent: false,
            sent: Vec::new(),
        }
    }

    /// Returns and removes the transactions sent since the last call.
    pub fn take_sent(&mut self) -> Vec<SentTransaction> {
        std::mem::take(&mut self.sent)
    }

    /// Returns the name of the current log.
    pub const fn log(&self) -> &Arc<str> {
        &self.log
    }

    /// Returns whether the client's requested end is reached, although the logs continue.
    pub const fn is_finished(&self) -> bool {
        matches!(self.phase, DumpPhase::Finished)
    }

    /// Returns the position of the next event, as the client sees it.
    pub const fn position(&self) -> u64 {
        self.position
    }

    /// Returns the progress of the dump.
    pub const fn progress(&self) -> &DumpProgress {
        &self.progress
    }

    /// Takes events of a chunk. The first events of a dump begin with a format description. If the dump starts later in
    /// the log, the first call has only this event.
    ///
    /// # Errors
    ///
    /// Fails with error 1236 if the log has no format description, an event is too large, or a transaction cannot be
    /// sent to this client.
    pub fn take_events(
        &mut self,
        chunk: &Arc<FormChunk>,
        slices: Range<usize>,
        now: Instant,
        out: &mut Vec<DumpPiece>,
    ) -> Result<(), DumpError> {
        let first = chunk.slices().get(slices.start).map(|slice| slice.event_type);
        if self.phase == DumpPhase::Start && first != Some(EventType::FormatDescription) {
            return Err(self.fail(DumpError::no_format()));
        }
        self.begin(now, out);
        for (index, slice) in chunk.slices().iter().enumerate().take(slices.end).skip(slices.start) {
            if self.is_finished() {
                break;
            }
            if slice.event_type == EventType::FormatDescription {
                self.send_format(chunk, *slice, now, out);
                continue;
            }
            if slice.is_first() {
                self.begin_event(chunk, index)?;
            }
            let end = self.position + u64::from(self.shift.size(slice.event_size));
            match self.is_skipping {
                true if slice.is_last() => self.skip_event(end, now, out),
                true => {}
                false if self.is_omitted(*slice) => {}
                false => {
                    if let Some(skipped_end) = self.skipped_end.take() {
                        self.send_heartbeat(skipped_end, now, out);
                    }
                    match self.joins_runs(*slice) {
                        true => extend_run(chunk, index, end, out),
                        false => self.send_slice(chunk, *slice, end, out),
                    }
                    self.count_sent(chunk, index);
                    self.last_sent = now;
                }
            }
            if slice.is_last() {
                self.position = end;
                self.is_in_transaction &= !slice.ends_transaction;
                self.end_mariadb_event(now, out);
            }
        }
        self.progress.end_chunk(chunk);
        Ok(())
    }

    /// Counts the transaction that ends with this slice, if all of it was sent.
    fn count_sent(&mut self, chunk: &FormChunk, index: usize) {
        let slice = chunk.slices()[index];
        self.is_start_sent |= slice.starts_transaction && slice.is_first();
        if slice.is_end_of_transaction()
            && std::mem::take(&mut self.is_start_sent)
            && let Some(sent) = chunk.measured_at(index)
        {
            self.progress.add_sent(sent);
            self.sent.push(*sent);
        }
    }

    /// Returns whether the event is sent in a run of small events.
    fn joins_runs(&self, slice: EventSlice) -> bool {
        self.options.runs == RunPolicy::Joined
            && self.shift == ChecksumShift::Unchanged
            && slice.is_whole()
            && slice.event_size < RUN_EVENT_SIZE
    }

    fn is_omitted(&self, slice: EventSlice) -> bool {
        slice.event_type == EventType::MariadbAnnotateRows
            && self.options.annotations == AnnotationPolicy::Omit
    }

    /// Records the end of a log: `next` is the following log.
    pub fn take_next_log(&mut self, next: Arc<str>, now: Instant, out: &mut Vec<DumpPiece>) {
        (self.log, self.position) = (next, MAGIC.len() as u64);
        (self.is_skipping, self.skipped_end) = (false, None);
        self.progress.begin_log();
        self.send_rotate(self.position, now, out);
    }

    /// Records that the first event of the dump is not available yet. Heartbeats keep the connection open.
    pub fn take_ahead(&mut self, now: Instant, out: &mut Vec<DumpPiece>) -> DumpWait {
        self.begin(now, out);
        self.take_pending(now, out)
    }

    /// Records that no more events are available yet.
    pub fn take_pending(&mut self, now: Instant, out: &mut Vec<DumpPiece>) -> DumpWait {
        if let Some(end) = self.skipped_end.take() {
            self.send_heartbeat(end, now, out);
        }
        if self.options.end == DumpEndPolicy::Eof {
            return DumpWait::End;
        }
        let Some(period) = self.options.heartbeat_period else { return DumpWait::Wait { until: None } };
        if now.saturating_duration_since(self.last_sent) >= period && self.phase == DumpPhase::Events {
            self.send_heartbeat(self.position, now, out);
        }
        DumpWait::Wait { until: self.last_sent.checked_add(period) }
    }

    /// Takes an error of reading the form. Returns the error for the client.
    pub fn take_error(&mut self, error: RelayError, now: Instant, out: &mut Vec<DumpPiece>) -> DumpError {
        // Begin as a server does: a server opens the log before it sends anything, and then reads the format
        // description.
        if matches!(error, RelayError::NoFormat { size, .. } if size >= MAGIC.len() as u64) {
            self.begin(now, out);
        }
        self.fail(DumpError::reading(error))
    }

    /// Sends the artificial Rotate event before the first log.
    fn begin(&mut self, now: Instant, out: &mut Vec<DumpPiece>) {
        if self.phase != DumpPhase::Start {
            return;
        }
        self.phase = DumpPhase::Events;
        // Before the format description, the client expects the checksums that it requested.
        self.checksum = match self.options.checksum {
            ServedChecksum::Stored | ServedChecksum::None => ChecksumAlgorithm::Off,
            ServedChecksum::Crc32 => ChecksumAlgorithm::Crc32,
        };
        if let Some(replica) = self.options.statement_end_for
            && self.first_position > MAGIC.len() as u64
        {
            self.send_statement_end(replica, out);
        }
        self.send_rotate(self.position, now, out);
    }

    /// Sends a rows event without rows that ends a statement: see [`DumpOptions::statement_end_for`].
    fn send_statement_end(&self, replica: u32, out: &mut Vec<DumpPiece>) {
        let end = Event::WriteRows(Rows {
            kind: RowsKind::Write,
            table_id: NO_TABLE_ID,
            flags: RowsFlags::STATEMENT_END,
            extra: Some(&[]),
            column_count: 0,
            columns: ColumnSet { bits: &[] },
            columns_after: None,
            rows: &[],
        });
        let origin = EventOrigin { timestamp: 0, server_id: replica, flags: EventFlags(0) };
        self.send_artificial_from(origin, &end, 0, out);
    }

    /// Sends a format description. Before events from the middle of a log, the format description has no position.
    fn send_format(
        &mut self,
        chunk: &Arc<FormChunk>,
        slice: EventSlice,
        now: Instant,
        out: &mut Vec<DumpPiece>,
    ) {
        let stored = chunk.format().checksum;
        self.shift = self.options.checksum.shift(stored);
        self.checksum = self.shift.algorithm(stored);
        let is_first_log = chunk.log() == &self.first_log && self.log == self.first_log;
        let is_repeated = is_first_log && self.first_position > MAGIC.len() as u64;
        let end = self.position + u64::from(slice.event_size);
        let change = FormatChange {
            next_position: if is_repeated { 0 } else { end as u32 },
            clears_created: is_repeated
                || is_first_log && self.has_first_transaction
                || self.mariadb.as_ref().is_some_and(|progress| !progress.is_reached()),
            algorithm: self.checksum,
        };
        let event = change.apply(&chunk.bytes()[slice.range()], chunk.format());
        let mut piece = DumpPiece::artificial(event);
        if !is_repeated {
            (self.position, piece.end) = (end, end);
        }
        out.push(piece);
        self.last_sent = now;
        if let Some(progress) = &mut self.mariadb {
            progress.begin_log();
        }
    }

    /// Decides whether the event is sent.
    fn begin_event(&mut self, chunk: &FormChunk, index: usize) -> Result<(), DumpError> {
        let slice = chunk.slices()[index];
        if slice.event_size > self.options.event_size_max {
            return Err(self.fail(DumpError::event_too_large()));
        }
        self.is_in_transaction |= slice.starts_transaction;
        if self.mariadb.is_some() {
            return self.begin_mariadb_event(chunk, index);
        }
        let DumpMode::Gtids(set) = &self.mode else { return Ok(()) };
        let is_skipped = match slice.event_type {
            EventType::Gtid | EventType::GtidTagged => has_transaction(set, chunk.transaction_at(index)),
            EventType::AnonymousGtid => {
                return Err(self.fail(DumpError::anonymous(&self.log, self.position)));
            }
            EventType::Rotate => false,
            _ => self.is_skipping,
        };
        self.is_skipping = is_skipped;
        Ok(())
    }

    /// Decides whether an event is sent to a MariaDB replica with a GTID position.
    fn begin_mariadb_event(&mut self, chunk: &FormChunk, index: usize) -> Result<(), DumpError> {
        let (slice, Some(progress)) = (chunk.slices()[index], &mut self.mariadb) else { return Ok(()) };
        match chunk.transaction_at(index) {
            Some(TransactionId::Mariadb(gtid)) => {
                self.is_skipping = progress.begin_group(gtid)? == GroupDecision::Skip;
            }
            _ if slice.event_type == EventType::MariadbGtidList && slice.is_whole() => {
                let bytes = &chunk.bytes()[slice.range()];
                let list = RawEvent::new(bytes, chunk.format().checksum.for_events())
                    .and_then(|raw| raw.decode(chunk.format()).map(|event| gtid_list(&event)));
                match list {
                    Ok(list) => progress.merge_list(&list),
                    Err(error) => {
                        let (name, position) = (self.log.to_string(), self.position);
                        return Err(self.fail(DumpError::reading(RelayError::Event {
                            name,
                            position,
                            error,
                        })));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// Sends the artificial Gtid_list events that a MariaDB replica gets after a transaction.
    fn end_mariadb_event(&mut self, now: Instant, out: &mut Vec<DumpPiece>) {
        let Some(progress) = &mut self.mariadb else { return };
        self.is_skipping &= self.is_in_transaction;
        if self.is_skipping {
            return;
        }
        let flags: Vec<u32> = progress.end_event(self.is_in_transaction).collect();
        if flags.is_empty() {
            return;
        }
        let (entries, is_last) = (progress.list_entries(), progress.is_last());
        for flags in flags {
            let count_and_flags = (entries.len() / GTID_LIST_ENTRY_SIZE) as u32 | flags;
            // An empty list needs two more bytes: the event has a minimum size.
            let entries: &[u8] = if entries.is_empty() { &[0; 2] } else { &entries };
            let list = Event::MariadbGtidList(MariadbGtidList { count_and_flags, entries });
            self.send_artificial(&list, EventFlags::ARTIFICIAL, self.position as u32, out);
        }
        self.last_sent = now;
        if is_last && !self.is_in_transaction {
            self.phase = DumpPhase::Finished;
        }
    }

    /// Skips an event that ends at `end`. Heartbeats report the position to the client at intervals.
    fn skip_event(&mut self, end: u64, now: Instant, out: &mut Vec<DumpPiece>) {
        // A MariaDB replica learns the position from later events.
        self.skipped_end = self.mariadb.is_none().then_some(end);
        let waited = now.saturating_duration_since(self.last_sent);
        if self.options.heartbeat_period.is_some_and(|period| waited >= period) {
            self.skipped_end = None;
            self.send_heartbeat(end, now, out);
        }
    }

    /// Sends an artificial Rotate event to a position of the log.
    fn send_rotate(&mut self, position: u64, now: Instant, out: &mut Vec<DumpPiece>) {
        let rotate = Event::Rotate(Rotate { position, file: self.log.as_bytes() });
        self.send_artificial(&rotate, EventFlags::ARTIFICIAL, 0, out);
        self.last_sent = now;
    }

    fn send_heartbeat(&mut self, position: u64, now: Instant, out: &mut Vec<DumpPiece>) {
        let file = self.log.as_bytes();
        let fields;
        let heartbeat = match self.options.heartbeat_version {
            HeartbeatVersion::V1 if position > u64::from(u32::MAX) => {
                return self.send_distant_position(position, now, out);
            }
            HeartbeatVersion::V1 => Event::Heartbeat(Heartbeat { file }),
            HeartbeatVersion::V2 => {
                fields = HeartbeatV2::encode_fields(file, position);
                Event::HeartbeatV2(HeartbeatV2 { fields: &fields, file, position })
            }
        };
        // Servers also send only the low 32 bits.
        self.send_artificial(&heartbeat, EventFlags(0), position as u32, out);
        self.last_sent = now;
    }

    /// Sends a position beyond 4 GiB to a client without heartbeats of version 2. Such a client would take the low 32
    /// bits for a step back, and end the connection with an error (13122 in MySQL 8.0.15): the position is sent in a
    /// Rotate event. Clients accept no Rotate event within a transaction.
    fn send_distant_position(&mut self, position: u64, now: Instant, out: &mut Vec<DumpPiece>) {
        assert!(position > u64::from(u32::MAX), "ours: {position} fits in a heartbeat of version 1");
        match self.is_in_transaction && !self.is_skipping {
            true => self.last_sent = now,
            false => self.send_rotate(position, now, out),
        }
    }

    fn send_artificial(&self, event: &Event<'_>, flags: EventFlags, next: u32, out: &mut Vec<DumpPiece>) {
        let origin = EventOrigin { timestamp: 0, server_id: self.options.server_id, flags };
        self.send_artificial_from(origin, event, next, out);
    }

    fn send_artificial_from(
        &self,
        origin: EventOrigin,
        event: &Event<'_>,
        next: u32,
        out: &mut Vec<DumpPiece>,
    ) {
        let format = EventFormat {
            server_version: Vec::new(),
            post_header_sizes: Vec::new(),
            checksum: self.checksum,
            flavour: Flavour::MySql,
        };
        let mut bytes = Vec::new();
        match event.write(origin, NextPosition::Fixed(next), &format, &mut bytes) {
            Ok(()) => out.push(DumpPiece::artificial(bytes)),
            Err(error) => unreachable!("ours: an artificial event is small: {error}"),
        }
    }

    /// Sends an event, or a piece of one, with the checksum that the client gets.
    fn send_slice(&mut self, chunk: &Arc<FormChunk>, slice: EventSlice, end: u64, out: &mut Vec<DumpPiece>) {
        let event_size = self.shift.size(slice.event_size);
        let ends_transaction = slice.ends_transaction;
        let piece = |bytes: EventBytes, skipped| {
            let is_end = ends_transaction && skipped as usize + bytes.as_slice().len() == event_size as usize;
            DumpPiece { bytes, skipped, event_size, end, ends_transaction, transactions: is_end.into() }
        };
        let mut range = slice.range();
        match self.shift {
            ChecksumShift::Unchanged => {}
            ChecksumShift::Removed | ChecksumShift::Added if slice.is_whole() => {
                let bytes = self.convert(&chunk.bytes()[range], chunk.format());
                return out.push(piece(EventBytes::Owned(bytes), 0));
            }
            ChecksumShift::Removed => {
                let kept = event_size.saturating_sub(slice.skipped) as usize;
                range.end = range.end.min(range.start + kept);
            }
            ChecksumShift::Added => {}
        }
        if range.is_empty() {
            return;
        }
        let is_changed = slice.is_first() && self.shift != ChecksumShift::Unchanged;
        let size = range.len() as u32;
        let bytes = match is_changed {
            true => {
                let mut bytes = chunk.bytes()[range].to_vec();
                bytes[9..13].copy_from_slice(&event_size.to_le_bytes());
                bytes[13..17].copy_from_slice(&(end as u32).to_le_bytes());
                EventBytes::Owned(bytes)
            }
            false if chunk.is_stored(slice) => EventBytes::Stored { chunk: Arc::clone(chunk), range },
            false => EventBytes::Shared { chunk: Arc::clone(chunk), range },
        };
        if self.shift == ChecksumShift::Added {
            self.hasher.get_or_insert_default().update(bytes.as_slice());
        }
        out.push(piece(bytes, slice.skipped));
        if slice.is_last()
            && let Some(hasher) = self.hasher.take()
        {
            let sum = hasher.finalize().to_le_bytes().to_vec();
            out.push(piece(EventBytes::Owned(sum), slice.skipped + size));
        }
    }

    /// Returns a whole event at the present position, with the checksum that the client gets.
    fn convert(&self, event: &[u8], stored: &EventFormat) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(event.len() + 4);
        let raw = match RawEvent::new(event, stored.checksum.for_events()) {
            Ok(raw) => raw,
            Err(error) => unreachable!("ours: the event was checked with its chunk: {error}"),
        };
        let next = match raw.header().next_position {
            0 => NextPosition::Fixed(0),
            _ => NextPosition::FromStart(self.position),
        };
        match raw.rewrite(raw.header().origin(), next, self.checksum.for_events(), &mut bytes) {
            Ok(()) => bytes,
            Err(error) => unreachable!("ours: an event of one chunk has room for a checksum: {error}"),
        }
    }

    fn fail(&self, error: DumpError) -> DumpError {
        error.with_positions(&DumpPositions {
            first_log: &self.first_log,
            first_position: self.first_position,
            log: &self.log,
            last_position: self.position,
        })
    }
}

/// Adds an event to the run at the end of `out`, or starts a new run.
fn extend_run(chunk: &Arc<FormChunk>, index: usize, event_end: u64, out: &mut Vec<DumpPiece>) {
    let slice = chunk.slices()[index];
    let ended = u32::from(slice.ends_transaction);
    if let Some(DumpPiece {
        bytes: EventBytes::Run { chunk: last, slices },
        event_size,
        end,
        transactions,
        ..
    }) = out.last_mut()
        && Arc::ptr_eq(last, chunk)
        && slices.end == index
        && *event_size < RUN_SIZE
    {
        slices.end = index + 1;
        (*event_size, *end, *transactions) =
            (*event_size + slice.event_size, event_end, *transactions + ended);
        return;
    }
    out.push(DumpPiece {
        bytes: EventBytes::Run { chunk: Arc::clone(chunk), slices: index..index + 1 },
        skipped: 0,
        event_size: slice.event_size,
        end: event_end,
        ends_transaction: false,
        transactions: ended,
    });
}

/// Size of an entry of a Gtid_list event.
const GTID_LIST_ENTRY_SIZE: usize = 16;

/// Returns whether the client has the transaction.
fn has_transaction(set: &GtidSet, id: Option<TransactionId>) -> bool {
    matches!(id, Some(TransactionId::Gtid(gtid)) if set.contains(gtid))
}

/// Changes of a format description before it is sent.
struct FormatChange {
    next_position: u32,
    /// True if the replica must keep its temporary tables.
    clears_created: bool,
    /// Checksum algorithm of the following events.
    algorithm: ChecksumAlgorithm,
}

/// Offset of the creation time in a format description: after header, format version and server version.
const CREATED_OFFSET: usize = 19 + 2 + 50;

impl FormatChange {
    fn apply(&self, event: &[u8], format: &EventFormat) -> Vec<u8> {
        let mut bytes = event.to_vec();
        if self.clears_created
            && let Some(created) = bytes.get_mut(CREATED_OFFSET..CREATED_OFFSET + 4)
        {
            created.fill(0);
        }
        let checksum = match Framer::new().next(event) {
            Ok(FramerOutput::Event(raw)) => raw.checksum(),
            _ => EventChecksum::Absent,
        };
        if checksum == EventChecksum::Crc32 && format.checksum != ChecksumAlgorithm::Undefined {
            let offset = bytes.len() - checksum.size() - 1;
            bytes[offset] = u8::from(self.algorithm == ChecksumAlgorithm::Crc32);
        }
        move_event(&mut bytes, checksum, NextPosition::Fixed(self.next_position));
        bytes
    }
}
