//! Counts one piece of a log.

use std::collections::HashMap;
use std::sync::Arc;

use binlog::events::{CommitStamps, Rows, TableMap};
use binlog::{
    DecodeError, DecodeReason, EVENT_SIZE_MAX, Event, EventFormat, EventRole, EventType, GrammarLoss,
    HEADER_SIZE, PayloadError, RawEvent, RowDecoder, Table, TransactionGrammar, TransactionId,
};
use logs::{
    ChunkContext, EventWalk, InnerPosition, LargePayloadHead, LogKind, PayloadEndStep, PayloadFailure,
    WalkEvent, WalkPiece, WalkSource, WalkStep, WalkSteps,
};

use super::compression::{LogType, StatedPayload, cached_size};
use super::event_address::EventAddress;
use super::stats_tally::{ChunkTally, ContinuedTransaction};
use super::tables::{RowChangeCounts, RowOperation};
use super::transaction_tally::{TransactionStamp, TransactionTally};
use crate::log_pieces::{PieceEvents, PieceOrigin};

/// Error that stopped a count, and its place.
#[derive(Debug)]
pub(crate) struct CountError {
    pub(crate) offset: u64,
    pub(crate) cause: CountErrorKind,
}

/// Kind of an error that stopped a count.
#[derive(Debug)]
pub(crate) enum CountErrorKind {
    /// An event cannot be decoded.
    Event(DecodeError),
    /// A payload, or an event in it, cannot be decoded.
    Payload(PayloadError),
}

/// Counts the events of a piece.
pub(crate) fn count_events(
    events: &PieceEvents,
    top: usize,
    walk: &mut EventWalk,
) -> Result<ChunkTally, CountError> {
    match &events.piece {
        WalkPiece::Chunk(chunk) => {
            let mut counter = ChunkCounter::new(events, chunk.format(), top);
            counter.learn_tables(&events.context).map_err(|error| CountError {
                offset: chunk.offset(),
                cause: CountErrorKind::Event(error),
            })?;
            counter.count(walk.start(WalkSource::Chunk(chunk)))?;
            let log = counter.part.tally.logs.entry(events.origin.log).or_default();
            log.events += chunk.len() as u64;
            Ok(counter.finish())
        }
        WalkPiece::PayloadPart(part) => {
            let mut counter = ChunkCounter::new(events, &part.format, top);
            counter.learn_tables(&events.context).map_err(|error| {
                let inner_offset = part.first.offset;
                let cause = CountErrorKind::Payload(PayloadError { inner_offset, payload_offset: 0, error });
                CountError { offset: part.head.offset, cause }
            })?;
            counter.count(walk.start(WalkSource::Part(part)))?;
            counter.is_head = true;
            Ok(counter.finish())
        }
        WalkPiece::PayloadStart(_) => Ok(ChunkTally::new(top)),
        WalkPiece::PayloadEnd { head, .. } => Ok(count_payload_end(events.origin, head, top)),
    }
}

/// Counts the payload event itself of a large payload. Its transaction ends with it.
fn count_payload_end(origin: PieceOrigin, head: &LargePayloadHead, top: usize) -> ChunkTally {
    let mut part = ChunkTally::new(top);
    let size = u64::from(head.header.size);
    part.tally.add_event(head.header.event_type, size);
    part.tally.logs.entry(origin.log).or_default().events += 1;
    let mut open = TransactionTally::continued(log_type(origin.kind));
    open.bytes_stored = size;
    open.payload = Some(StatedPayload::new(head.fields.payload_size, head.fields.uncompressed_size));
    part.head = Some(ContinuedTransaction::Ends(open));
    part
}

struct ChunkCounter {
    /// Number of the log.
    log: u32,
    format_inside: EventFormat,
    log_type: LogType,
    part: ChunkTally,
    grammar: TransactionGrammar,
    open: Option<TransactionTally>,
    /// True if the open transaction started before this chunk.
    is_head: bool,
    maps: HashMap<u64, MappedTable>,
    /// Buffer for an event that was compressed individually.
    plain: Vec<u8>,
}

/// A table known from its table map.
struct MappedTable {
    /// Body of its table map: equal bytes mean the same table.
    body: Box<[u8]>,
    place: usize,
    table: Arc<Table>,
    decoders: Vec<RowDecoder>,
}

impl ChunkCounter {
    fn new(events: &PieceEvents, format: &EventFormat, top: usize) -> Self {
        let PieceEvents { origin, context, .. } = events;
        let log_type = log_type(origin.kind);
        let is_open = context.grammar.is_open();
        Self {
            log: origin.log,
            format_inside: format.inside_payload(),
            log_type,
            part: ChunkTally::new(top),
            grammar: context.grammar,
            open: is_open.then(|| TransactionTally::continued(log_type)),
            is_head: is_open,
            maps: HashMap::new(),
            plain: Vec::new(),
        }
    }

    /// Adds the tables of a statement that started in the chunk before.
    fn learn_tables(&mut self, context: &ChunkContext) -> Result<(), DecodeError> {
        context.maps.iter().try_for_each(|map| self.learn_table(&map).map(drop))
    }

    fn finish(mut self) -> ChunkTally {
        match (self.open, self.is_head) {
            (Some(open), true) => self.part.head = Some(ContinuedTransaction::Continues(open)),
            (open, _) => self.part.tail = open,
        }
        self.part
    }

    fn count(&mut self, mut steps: WalkSteps<'_, '_>) -> Result<(), CountError> {
        while let Some(step) = steps.next() {
            match step {
                WalkStep::Event(event) => self.count_event(&event).map_err(|error| {
                    let cause = match event.inner {
                        None => CountErrorKind::Event(error),
                        Some(InnerPosition { offset: inner_offset, .. }) => {
                            CountErrorKind::Payload(PayloadError { inner_offset, payload_offset: 0, error })
                        }
                    };
                    CountError { offset: event.offset, cause }
                })?,
                WalkStep::PayloadEnd(PayloadEndStep { offset, result, .. }) => match result {
                    Ok(_) => self.end_transaction(),
                    Err(PayloadFailure::Event(error)) => {
                        return Err(CountError { offset, cause: CountErrorKind::Event(error) });
                    }
                    Err(PayloadFailure::Payload(error)) => {
                        return Err(CountError { offset, cause: CountErrorKind::Payload(error) });
                    }
                },
                WalkStep::LargePayload(_) => {}
            }
        }
        Ok(())
    }

    fn count_event(&mut self, event: &WalkEvent<'_>) -> Result<(), DecodeError> {
        let WalkEvent { raw, format, .. } = event;
        self.part.tally.add_event(raw.event_type(), u64::from(raw.header().size));
        let role = EventRole::of(raw, format)?;
        if event.inner.is_some() {
            return self.count_content(raw, role, format);
        }
        let step = match self.grammar.step(role) {
            Ok(step) => step,
            Err(fault) => {
                // Interrupted by a crash, or in a relay log by a lost connection.
                if fault.lost == GrammarLoss::Transaction {
                    self.abandon_transaction();
                }
                fault.step
            }
        };
        if step.transaction == binlog::EventPlace::Outside {
            return Ok(());
        }
        if step.transaction.is_first() {
            self.open = Some(TransactionTally::started(self.log_type, self.start(event, role)?));
        }
        self.add_stored_size(raw, role);
        match role {
            // The transaction ends at the payload's end.
            EventRole::Payload => return self.note_payload(raw, format),
            EventRole::Gtid => {}
            _ => self.count_content(raw, role, format)?,
        }
        if step.transaction.is_last() {
            self.end_transaction();
        }
        Ok(())
    }

    /// Returns the data in a transaction's first event.
    fn start(&self, event: &WalkEvent<'_>, role: EventRole) -> Result<TransactionStamp, DecodeError> {
        let place = EventAddress { log: self.log, offset: event.offset };
        let mut start =
            TransactionStamp { id: TransactionId::Unsaid, place, commit_us: None, original_commit_us: None };
        if !matches!(role, EventRole::Gtid | EventRole::GtidAndBegin) {
            return Ok(start);
        }
        let (id, stamps) = match event.raw.decode(event.format)? {
            Event::Gtid(event) => (event.gtid().map(TransactionId::Gtid), event.stamps),
            Event::GtidTagged(event) => (event.gtid().map(TransactionId::Gtid), Some(event.stamps)),
            Event::AnonymousGtid(event) => (None, event.stamps),
            Event::MariadbGtid(gtid) => {
                (Some(TransactionId::Mariadb(gtid.gtid(event.raw.header().server_id))), None)
            }
            _ => (None, None),
        };
        start.id = id.unwrap_or(TransactionId::Anonymous);
        start.commit_us = stamps.as_ref().map(|stamps: &CommitStamps| stamps.immediate_commit_us);
        start.original_commit_us = stamps.as_ref().map(|stamps| stamps.original_commit_us);
        Ok(start)
    }

    /// Adds an event's size in the log to its transaction.
    fn add_stored_size(&mut self, raw: &RawEvent<'_>, role: EventRole) {
        let Some(open) = &mut self.open else { return };
        let size = u64::from(raw.header().size);
        let is_gtid = matches!(role, EventRole::Gtid | EventRole::GtidAndBegin);
        open.bytes_stored += size;
        if is_gtid {
            open.bytes_plain += size;
            open.events += 1;
            open.last_s = raw.header().timestamp;
        }
        open.bytes_cached += cached_size(self.log_type, role, raw);
    }

    /// Counts an event of a transaction, from the log or from a payload.
    fn count_content(
        &mut self,
        raw: &RawEvent<'_>,
        role: EventRole,
        format: &EventFormat,
    ) -> Result<(), DecodeError> {
        if let Some(open) = &mut self.open
            && role != EventRole::GtidAndBegin
        {
            open.add(raw.header());
        }
        match role {
            EventRole::Statement | EventRole::XaFinish => self.part.tally.statements += 1,
            EventRole::RowsBegin if raw.event_type() == EventType::TableMap => self.count_map(raw)?,
            EventRole::Rows | EventRole::RowsEnd => self.count_rows(raw, format)?,
            _ => {}
        }
        Ok(())
    }

    fn count_map(&mut self, raw: &RawEvent<'_>) -> Result<(), DecodeError> {
        let place = self.learn_table(raw)?;
        if let Some(place) = place {
            self.part.tally.tables.add_map(place, u64::from(raw.header().size));
        }
        Ok(())
    }

    /// Adds the table for a table id. Returns the table's index.
    fn learn_table(&mut self, raw: &RawEvent<'_>) -> Result<Option<usize>, DecodeError> {
        let Event::TableMap(map) = raw.decode(&self.format_inside)? else { return Ok(None) };
        if let Some(known) = self.maps.get(&map.table_id).filter(|known| *known.body == *raw.body()) {
            return Ok(Some(known.place));
        }
        let place = self.part.tally.tables.table_index(map.database, map.table);
        self.maps.insert(map.table_id, MappedTable::new(&map, raw, place)?);
        Ok(Some(place))
    }

    fn count_rows(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> Result<(), DecodeError> {
        let mut plain = std::mem::take(&mut self.plain);
        let result =
            raw.plain(format, EVENT_SIZE_MAX, &mut plain).and_then(|raw| self.count_plain_rows(&raw, format));
        self.plain = plain;
        result
    }

    fn count_plain_rows(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> Result<(), DecodeError> {
        let event = raw.decode(format)?;
        let Some(rows) = event.rows() else { return Ok(()) };
        let Some(mapped) = self.maps.get_mut(&rows.table_id) else {
            return match rows.column_count {
                // Servers write rows events without columns only to end a statement.
                0 => Ok(()),
                _ => Err(unknown_table(rows.table_id)),
            };
        };
        if let Some(open) = &mut self.open {
            let amount =
                RowChangeCounts { rows: mapped.count(rows)?, events: 1, bytes: u64::from(raw.header().size) };
            self.part.tally.add_rows(open, mapped.place, RowOperation::from(rows.kind), amount);
        }
        Ok(())
    }

    /// Records the sizes of the transaction's payload.
    fn note_payload(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> Result<(), DecodeError> {
        let (Event::TransactionPayload(payload), Some(open)) = (raw.decode(format)?, &mut self.open) else {
            return Ok(());
        };
        open.payload = Some(StatedPayload::new(payload.payload.len() as u64, payload.uncompressed_size));
        Ok(())
    }

    fn end_transaction(&mut self) {
        match self.open.take() {
            Some(open) if self.is_head => self.part.head = Some(ContinuedTransaction::Ends(open)),
            Some(open) => self.part.tally.add_transaction(&open),
            None => {}
        }
        self.is_head = false;
    }

    /// Closes the open transaction as incomplete.
    fn abandon_transaction(&mut self) {
        match self.open.take() {
            Some(_) if self.is_head => self.part.head = Some(ContinuedTransaction::Lost),
            Some(_) => self.part.tally.incomplete += 1,
            None => {}
        }
        self.is_head = false;
    }
}

impl MappedTable {
    fn new(map: &TableMap<'_>, raw: &RawEvent<'_>, place: usize) -> Result<Self, DecodeError> {
        // Only sizes are needed, which do not depend on the optional metadata.
        let table = Arc::new(Table::without_optional(map)?);
        Ok(Self { body: raw.body().into(), place, table, decoders: Vec::new() })
    }

    fn count(&mut self, rows: &Rows<'_>) -> Result<u64, DecodeError> {
        let known = self.decoders.iter().position(|decoder| decoder.fits(rows));
        let index = match known {
            Some(index) => index,
            None => {
                // Minimal row images differ from statement to statement: keep the latest ones.
                if self.decoders.len() == DECODERS_MAX {
                    self.decoders.remove(0);
                }
                self.decoders.push(RowDecoder::new(Arc::clone(&self.table), rows)?);
                self.decoders.len() - 1
            }
        };
        self.decoders[index].count(rows)
    }
}

const fn log_type(kind: LogKind) -> LogType {
    match kind {
        LogKind::Binary => LogType::Binary,
        LogKind::Relay => LogType::Relay,
    }
}

fn unknown_table(table_id: u64) -> DecodeError {
    let (field, wanted) = ("table id", "one from a table map");
    DecodeError::new(HEADER_SIZE, DecodeReason::Unexpected { field, found: table_id, wanted })
}

/// Maximum number of decoders for one table: one for each kind of change and set of columns.
const DECODERS_MAX: usize = 16;
