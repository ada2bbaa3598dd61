//! Counts one piece of a log.

use std::collections::HashMap;
use std::sync::Arc;

use binlog::events::{CommitStamps, Rows, TableMap};
use binlog::{
    DecodeError, DecodeReason, EVENT_SIZE_MAX, Event, EventFormat, EventRole, EventType, GrammarLoss,
    HEADER_SIZE, PayloadError, PayloadOpener, RawEvent, RowDecoder, Table, TransactionGrammar, TransactionId,
};
use logs::{EventChunk, LogKind};

use super::compression::{LogType, cached_size};
use super::event_address::EventAddress;
use super::tables::{RowChangeCounts, RowOperation};
use super::tally::{ChunkTally, ContinuedTransaction};
use super::transaction_tally::{TransactionStamp, TransactionTally};
use crate::chunk_context::ChunkContext;
use crate::log_pieces::{PayloadEnd, PayloadPart, PieceOrigin, for_each_event};

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

/// Counts a chunk that starts in the state `context`.
pub(crate) fn count_chunk(
    chunk: &EventChunk,
    context: &ChunkContext,
    origin: PieceOrigin,
    top: usize,
    opener: &mut PayloadOpener,
) -> Result<ChunkTally, CountError> {
    let mut counter = ChunkCounter::new(chunk.format(), context, origin, top);
    counter
        .learn_tables(context)
        .map_err(|error| CountError { offset: chunk.offset(), cause: CountErrorKind::Event(error) })?;
    for event in chunk.iter() {
        let place = EventAddress { log: origin.log, offset: event.offset };
        let counted = counter.count_event(&event.raw, place, opener);
        counted.map_err(|cause| CountError { offset: event.offset, cause })?;
    }
    counter.part.tally.logs.entry(origin.log).or_default().events += chunk.len() as u64;
    Ok(counter.finish())
}

/// Counts some events of a large payload.
pub(crate) fn count_payload_part(inside: &PayloadPart, top: usize) -> Result<ChunkTally, CountError> {
    let mut counter = ChunkCounter::new(&inside.format, &inside.context, inside.origin, top);
    let mut counted = counter.learn_tables(&inside.context).map_err(|error| (0, error));
    for_each_event(&inside.bytes, &inside.format, |offset, raw| {
        if counted.is_ok() {
            counted = counter.count_inner_event(raw).map_err(|error| (offset, error));
        }
    });
    counted.map_err(|(offset, error)| {
        let inner_offset = inside.inner_offset + offset;
        let cause = CountErrorKind::Payload(PayloadError { inner_offset, payload_offset: 0, error });
        CountError { offset: inside.offset, cause }
    })?;
    counter.is_head = true;
    Ok(counter.finish())
}

/// Counts the payload event itself of a large payload. Its transaction ends with it.
pub(crate) fn count_payload_end(ends: &PayloadEnd, top: usize) -> ChunkTally {
    let mut part = ChunkTally::new(top);
    let size = u64::from(ends.header.size);
    part.tally.add_event(ends.header.event_type, size);
    part.tally.logs.entry(ends.origin.log).or_default().events += 1;
    let mut open = TransactionTally::continued(log_type(ends.origin.kind));
    open.bytes_stored = size;
    open.payload = Some((ends.payload_size, ends.claimed_size.unwrap_or_default()));
    part.head = Some(ContinuedTransaction::Ends(open));
    part
}

struct ChunkCounter {
    format: Arc<EventFormat>,
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
    fn new(format: &Arc<EventFormat>, context: &ChunkContext, origin: PieceOrigin, top: usize) -> Self {
        let log_type = log_type(origin.kind);
        let is_open = context.grammar.is_open();
        Self {
            format: Arc::clone(format),
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

    fn count_event(
        &mut self,
        raw: &RawEvent<'_>,
        place: EventAddress,
        opener: &mut PayloadOpener,
    ) -> Result<(), CountErrorKind> {
        self.part.tally.add_event(raw.event_type(), u64::from(raw.header().size));
        let role = EventRole::of(raw, &self.format).map_err(CountErrorKind::Event)?;
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
            self.open = Some(TransactionTally::started(
                self.log_type,
                self.start(raw, role, place).map_err(CountErrorKind::Event)?,
            ));
        }
        self.add_stored_size(raw, role);
        match role {
            EventRole::Payload => self.count_payload(raw, opener)?,
            EventRole::Gtid => {}
            _ => self.count_content(raw, role, EventLocation::Log).map_err(CountErrorKind::Event)?,
        }
        if step.transaction.is_last() {
            self.end_transaction();
        }
        Ok(())
    }

    /// Returns the data in a transaction's first event.
    fn start(
        &self,
        raw: &RawEvent<'_>,
        role: EventRole,
        place: EventAddress,
    ) -> Result<TransactionStamp, DecodeError> {
        let mut start =
            TransactionStamp { id: TransactionId::Unsaid, place, commit_us: None, original_commit_us: None };
        if !matches!(role, EventRole::Gtid | EventRole::GtidAndBegin) {
            return Ok(start);
        }
        let (id, stamps) = match raw.decode(&self.format)? {
            Event::Gtid(event) => (event.gtid().map(TransactionId::Gtid), event.stamps),
            Event::GtidTagged(event) => (event.gtid().map(TransactionId::Gtid), Some(event.stamps)),
            Event::AnonymousGtid(event) => (None, event.stamps),
            Event::MariadbGtid(event) => {
                (Some(TransactionId::Mariadb(event.gtid(raw.header().server_id))), None)
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
        inside: EventLocation,
    ) -> Result<(), DecodeError> {
        if let Some(open) = &mut self.open
            && role != EventRole::GtidAndBegin
        {
            open.add(raw.header());
        }
        match role {
            EventRole::Statement | EventRole::XaFinish => self.part.tally.statements += 1,
            EventRole::RowsBegin if raw.event_type() == EventType::TableMap => self.count_map(raw)?,
            EventRole::Rows | EventRole::RowsEnd => self.count_rows(raw, inside)?,
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

    fn count_rows(&mut self, raw: &RawEvent<'_>, inside: EventLocation) -> Result<(), DecodeError> {
        if raw.event_type().decompressed().is_some() {
            return self.count_compressed_rows(raw);
        }
        let format = match inside {
            EventLocation::Log => &self.format,
            EventLocation::Payload => &self.format_inside,
        };
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

    /// Counts rows that MariaDB compressed in its own way.
    fn count_compressed_rows(&mut self, raw: &RawEvent<'_>) -> Result<(), DecodeError> {
        let mut plain = std::mem::take(&mut self.plain);
        plain.clear();
        raw.decompress_mariadb(&self.format, EVENT_SIZE_MAX, &mut plain)?;
        let counted =
            RawEvent::new(&plain, raw.checksum()).and_then(|raw| self.count_rows(&raw, EventLocation::Log));
        self.plain = plain;
        counted
    }

    /// Counts a payload event: a whole transaction.
    fn count_payload(
        &mut self,
        raw: &RawEvent<'_>,
        opener: &mut PayloadOpener,
    ) -> Result<(), CountErrorKind> {
        let Event::TransactionPayload(payload) = raw.decode(&self.format).map_err(CountErrorKind::Event)?
        else {
            return Ok(());
        };
        if let Some(open) = &mut self.open {
            open.payload =
                Some((payload.payload.len() as u64, payload.uncompressed_size.unwrap_or_default()));
        }
        let mut events = opener.open(&payload).map_err(CountErrorKind::Payload)?;
        loop {
            let inner_offset = events.summary().uncompressed_size;
            let Some(inner) = events.next_event().map_err(CountErrorKind::Payload)? else { return Ok(()) };
            let at = |error| CountErrorKind::Payload(PayloadError { inner_offset, payload_offset: 0, error });
            self.count_inner_event(&inner).map_err(at)?;
        }
    }

    fn count_inner_event(&mut self, raw: &RawEvent<'_>) -> Result<(), DecodeError> {
        self.part.tally.add_event(raw.event_type(), u64::from(raw.header().size));
        let role = EventRole::of(raw, &self.format_inside)?;
        self.count_content(raw, role, EventLocation::Payload)
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

/// Source of an event. Events in a payload have no checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventLocation {
    Log,
    Payload,
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
