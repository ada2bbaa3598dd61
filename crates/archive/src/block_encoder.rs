//! Takes the events of a block apart.

use binlog::events::{PayloadCompression, Rows, TransactionPayload};
use binlog::{
    Event, EventChecksum, EventFlags, EventFormat, EventHeader, EventType, HEADER_SIZE, MAGIC, PayloadLimits,
    PayloadOpener, RawEvent, SizeClaimPolicy, Table, TransactionVerb,
};
use hashbrown::HashMap;

use crate::archive_error::ArchiveError;
use crate::block_decoder::BlockDecoder;
use crate::block_frame::{BlockKind, put_block};
use crate::block_summary::{BlockSummary, WRONG_CHECKSUM};
use crate::event_fields::EventFieldWriter;
use crate::event_form::{BodyForm, EventForm, PositionForm};
use crate::log_block::{BlockContent, BlockContext, LogBlock, OpaqueReason};
use crate::payload_frames::{INNER_SIZE_MAX, PayloadFrames, put_payload};
use crate::row_layout::{LayoutScratch, RowLayout, parse_table, put_shape, split_rows, stream_count};
use crate::stream_codec::{StreamCompressor, ZstdFailure};
use crate::stream_set::{FixedStream, STREAMS_MAX, StreamId, TextStreams, TextWriter};
use crate::varint::put_sized;

/// Takes blocks apart, one after another. Each thread needs its own encoder.
pub struct BlockEncoder {
    compressor: StreamCompressor,
    fields: EventFieldWriter,
    forms: TextWriter,
    maps: TextWriter,
    tables: Vec<BlockTable>,
    /// Number of the table map that last had each table number.
    table_ids: HashMap<u64, usize>,
    shapes: Vec<RowLayout>,
    shape_numbers: HashMap<Box<[u8]>, usize>,
    /// Buffer for a shape.
    shape: Vec<u8>,
    scratch: LayoutScratch,
    opener: PayloadOpener,
    frames: PayloadFrames,
    inner: Vec<u8>,
    decoder: BlockDecoder,
    /// Block that was rebuilt as a trial.
    restored: Vec<u8>,
    summary: BlockSummary,
}

/// Table map of a block.
struct BlockTable {
    table: Option<Table>,
    /// First stream of its rows, once there are any.
    streams: Option<StreamId>,
    /// Number of its rows in the block.
    rows: u64,
}

/// A block in its stored form.
#[derive(Clone, Debug)]
pub struct EncodedBlock {
    /// Bytes of the segment.
    pub bytes: Vec<u8>,
    /// Contents of the block.
    pub summary: BlockSummary,
}

/// Place and format of events that are divided into fields.
#[derive(Clone, Copy)]
struct EncodedEventContext<'f> {
    format: &'f EventFormat,
    /// Position of the event; `None` inside a payload.
    position: Option<u64>,
}

pub(crate) const FORMS: TextStreams =
    TextStreams { numbers: FixedStream::Form, texts: FixedStream::FormText };
pub(crate) const MAPS: TextStreams =
    TextStreams { numbers: FixedStream::TableMap, texts: FixedStream::TableMapText };

/// Largest size of a block's streams for which further payloads are decompressed. Bounds memory.
const EXPANDED_MAX: usize = 64 << 20;

impl Default for BlockEncoder {
    fn default() -> Self {
        Self::new()
    }
}

impl BlockEncoder {
    /// Creates an encoder.
    pub fn new() -> Self {
        let limits = PayloadLimits {
            event_size_max: INNER_SIZE_MAX as u32,
            total_size_max: INNER_SIZE_MAX as u64,
            claim_policy: SizeClaimPolicy::Binding,
        };
        Self {
            compressor: StreamCompressor::new(),
            fields: EventFieldWriter::default(),
            forms: TextWriter::default(),
            maps: TextWriter::default(),
            tables: Vec::new(),
            table_ids: HashMap::new(),
            shapes: Vec::new(),
            shape_numbers: HashMap::new(),
            shape: Vec::new(),
            scratch: LayoutScratch::default(),
            opener: PayloadOpener::with_limits(limits),
            frames: PayloadFrames::default(),
            inner: Vec::new(),
            decoder: BlockDecoder::new(),
            restored: Vec::new(),
            summary: BlockSummary::default(),
        }
    }

    /// Takes a block apart, and puts it together again as a trial. A block that does not come back exactly is kept as
    /// it is.
    ///
    /// # Errors
    ///
    /// Fails if zstd lacks memory.
    pub fn encode(&mut self, block: &LogBlock) -> Result<EncodedBlock, ArchiveError> {
        self.summary = BlockSummary { log_size: block.bytes.len() as u64, ..BlockSummary::default() };
        let reason = match &block.content {
            BlockContent::Events(context) => match self.encode_events(block, context)? {
                Some(encoded) => return Ok(encoded),
                None => OpaqueReason::Differs,
            },
            BlockContent::Opaque(reason) => *reason,
        };
        let mut bytes = Vec::new();
        put_block(BlockKind::Opaque, block, &mut bytes, |out| {
            self.compressor.compress(&block.bytes, 0, out).map(drop)
        })?;
        *self.summary.kept.entry(reason.name()).or_default() += block.bytes.len() as u64;
        Ok(EncodedBlock { bytes, summary: std::mem::take(&mut self.summary) })
    }

    /// Returns the block that comes back exactly; `None` if there is none.
    fn encode_events(
        &mut self,
        block: &LogBlock,
        context: &BlockContext,
    ) -> Result<Option<EncodedBlock>, ZstdFailure> {
        let mut bytes = Vec::new();
        let is_restored = match self.encode_fields(block, context) {
            None => false,
            Some(()) => {
                put_block(BlockKind::Events, block, &mut bytes, |out| {
                    self.fields.streams.write(&mut self.compressor, out)
                })?;
                let restored = self.decoder.decode_into(&bytes, &mut self.restored);
                restored.is_ok() && self.restored == block.bytes
            }
        };
        if !is_restored {
            let log_size = block.bytes.len() as u64;
            self.summary = BlockSummary { log_size, ..BlockSummary::default() };
            return Ok(None);
        }
        Ok(Some(EncodedBlock { bytes, summary: std::mem::take(&mut self.summary) }))
    }

    /// Puts the fields of a block's events into streams. `None` if the block is damaged.
    fn encode_fields(&mut self, block: &LogBlock, context: &BlockContext) -> Option<()> {
        let format = context.format()?;
        self.clear();
        context.put(self.fields.streams.of(FixedStream::Context));
        for map in &context.maps {
            self.put_map(map, &format);
        }
        let mut position = block.offset;
        let mut rest = &block.bytes[..];
        if position == 0 {
            rest = rest.strip_prefix(&MAGIC)?;
            position += MAGIC.len() as u64;
        }
        let inner_format = format.inside_payload();
        while !rest.is_empty() {
            let event = self.split_event(rest, context, &format)?;
            let size = event.bytes().len();
            let event_context = EncodedEventContext { format: &format, position: Some(position) };
            self.put_outer(&event, event_context, context, &inner_format);
            rest = &rest[size..];
            position += size as u64;
        }
        self.summarize_tables();
        Some(())
    }

    fn summarize_tables(&mut self) {
        for BlockTable { table, rows, .. } in &self.tables {
            match table {
                Some(table) => {
                    self.summary.add_table(&[table.database.clone(), table.name.clone()], *rows);
                }
                None => self.summary.has_unknown_tables = true,
            }
        }
    }

    fn clear(&mut self) {
        self.fields.clear();
        self.forms.clear();
        self.maps.clear();
        self.tables.clear();
        self.table_ids.clear();
        self.shapes.clear();
        self.shape_numbers.clear();
    }

    fn split_event<'a>(
        &self,
        bytes: &'a [u8],
        context: &BlockContext,
        format: &EventFormat,
    ) -> Option<RawEvent<'a>> {
        let head = bytes.first_chunk::<HEADER_SIZE>()?;
        let size = u32::from_le_bytes([head[9], head[10], head[11], head[12]]) as usize;
        let event = bytes.get(..size)?;
        // The checksum of the format description does not follow from the format.
        let checksum = match event == &*context.description {
            true => EventChecksum::Absent,
            false => format.checksum.for_events(),
        };
        RawEvent::new(event, checksum).ok()
    }

    fn put_outer(
        &mut self,
        raw: &RawEvent<'_>,
        event_context: EncodedEventContext<'_>,
        context: &BlockContext,
        inner_format: &EventFormat,
    ) {
        self.summary.events += 1;
        self.summary.see_time(raw.header().timestamp);
        self.summary.is_relay_log |= raw.header().flags.contains(EventFlags::RELAY_LOG);
        if raw.bytes() == &*context.description {
            self.put_form(EventForm::whole(BodyForm::Description));
            return;
        }
        let reason = match raw.event_type() {
            _ if raw.verify().is_err() => Some(WRONG_CHECKSUM),
            EventType::FormatDescription => Some("another format description"),
            _ => None,
        };
        if let Some(reason) = reason {
            *self.summary.whole_events.entry(reason).or_default() += 1;
            self.put_form(EventForm::whole(BodyForm::Whole));
            self.fields.put_whole(raw.bytes());
            return;
        }
        if raw.event_type() == EventType::TransactionPayload {
            match self.put_payload(raw, event_context, inner_format) {
                true => self.summary.payloads_opened += 1,
                false => {
                    self.summary.payloads_kept += 1;
                    self.put_plain(raw, event_context);
                }
            }
            return;
        }
        self.put_event(raw, event_context);
    }

    fn put_payload(
        &mut self,
        raw: &RawEvent<'_>,
        event_context: EncodedEventContext<'_>,
        inner_format: &EventFormat,
    ) -> bool {
        let Ok(Event::TransactionPayload(payload)) = raw.decode(event_context.format) else { return false };
        let mut inner = std::mem::take(&mut self.inner);
        inner.clear();
        let events = open_payload(&mut self.opener, &payload, &mut inner);
        let settings = events.and_then(|events| {
            let settings = self.frames.find(&inner, payload.payload)?;
            let mut body = Vec::new();
            put_payload(inner.len(), payload.payload, &mut body);
            (body == raw.body() && self.fields.streams.size() + inner.len() <= EXPANDED_MAX)
                .then_some((events, settings))
        });
        let is_opened = settings.is_some();
        if let Some((events, settings)) = settings {
            self.put_header(raw, event_context, BodyForm::Payload);
            self.fields.streams.put(FixedStream::Payload, settings.encode());
            self.fields.streams.put(FixedStream::Payload, events);
            let mut rest = &inner[..];
            let event_context = EncodedEventContext { format: inner_format, position: None };
            while let Some((event, after)) = RawEvent::split_first(rest, EventChecksum::Absent) {
                self.summary.inner_events += 1;
                self.put_event(&event, event_context);
                rest = after;
            }
        }
        self.inner = inner;
        is_opened
    }

    fn put_event(&mut self, raw: &RawEvent<'_>, event_context: EncodedEventContext<'_>) {
        use EventType as T;
        let body = raw.body();
        self.summary.statements += u64::from(may_be_statement(raw, event_context.format));
        let form = match raw.event_type() {
            T::TableMap => {
                self.put_map(body, event_context.format);
                BodyForm::TableMap
            }
            T::WriteRows
            | T::UpdateRows
            | T::DeleteRows
            | T::WriteRowsV1
            | T::UpdateRowsV1
            | T::DeleteRowsV1
                if self.put_rows(raw, event_context.format) =>
            {
                BodyForm::Rows
            }
            T::Gtid | T::AnonymousGtid | T::GtidTagged if self.put_gtid(raw, event_context.format) => {
                BodyForm::Gtid
            }
            T::MariadbGtid if self.put_mariadb_gtid(body) => BodyForm::MariadbGtid,
            T::Query if self.fields.put_query(body) => BodyForm::Query,
            T::Xid if self.fields.put_xid(body) => BodyForm::Xid,
            T::RowsQuery | T::MariadbAnnotateRows => {
                self.fields.put_long_text(body);
                BodyForm::LongText
            }
            _ => {
                self.fields.put_body(body);
                BodyForm::Plain
            }
        };
        self.put_header(raw, event_context, form);
    }

    fn put_gtid(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> bool {
        let Ok(event) = raw.decode(format) else { return false };
        self.summary.see_transaction(&event);
        self.fields.put_gtid(&event, raw.body(), format)
    }

    fn put_mariadb_gtid(&mut self, body: &[u8]) -> bool {
        self.summary.see_mariadb_transaction(body);
        self.fields.put_mariadb_gtid(body)
    }

    fn put_plain(&mut self, raw: &RawEvent<'_>, event_context: EncodedEventContext<'_>) {
        self.fields.put_body(raw.body());
        self.put_header(raw, event_context, BodyForm::Plain);
    }

    fn put_header(&mut self, raw: &RawEvent<'_>, event_context: EncodedEventContext<'_>, body: BodyForm) {
        let header = raw.header();
        let position = position_form(header, event_context.position, self.fields.last.next_position);
        self.put_form(EventForm::of(header, position, body));
        let timestamp = u64::from(header.timestamp);
        self.fields.streams.put_difference(
            FixedStream::Timestamp,
            timestamp,
            u64::from(self.fields.last.timestamp),
        );
        if position == PositionForm::Stored {
            self.fields.streams.put(FixedStream::NextPosition, u64::from(header.next_position));
        }
        self.fields.last.timestamp = header.timestamp;
        if event_context.position.is_some() {
            self.fields.last.next_position = header.next_position;
        }
    }

    fn put_form(&mut self, form: EventForm) {
        self.forms.put(&form.encode(), &mut self.fields.streams, FORMS);
    }

    fn put_map(&mut self, body: &[u8], format: &EventFormat) {
        let (number, is_new) = self.maps.put(body, &mut self.fields.streams, MAPS);
        if is_new {
            self.tables.push(BlockTable { table: parse_table(body, format), streams: None, rows: 0 });
        }
        if let Some(table) = &self.tables[number].table {
            self.table_ids.insert(table.table_id, number);
        }
    }

    /// Appends the rows of an event. Returns false, and appends nothing, if they cannot be divided into columns.
    fn put_rows(&mut self, raw: &RawEvent<'_>, format: &EventFormat) -> bool {
        let Some((rows, head)) = split_rows(raw, format) else { return false };
        let Some(table) = self.table_ids.get(&rows.table_id).copied() else { return false };
        let mut shape = std::mem::take(&mut self.shape);
        shape.clear();
        put_shape(&mut shape, table, raw.event_type(), head);
        let count = self.put_shape(&shape, table, &rows);
        self.shape = shape;
        let Some((count, number)) = count else { return false };
        self.fields.streams.put(FixedStream::RowCount, count);
        self.summary.rows += count;
        self.tables[table].rows += count;
        self.shapes[number].put(rows.rows, &mut self.fields.streams, &mut self.scratch);
        true
    }

    /// Appends the shape of a rows event. Returns the number of rows and of the shape.
    fn put_shape(&mut self, shape: &[u8], table: usize, rows: &Rows<'_>) -> Option<(u64, usize)> {
        if let Some(number) = self.shape_numbers.get(shape) {
            let count = self.shapes[*number].count(rows.rows).filter(|count| *count > 0)?;
            self.fields.streams.put(FixedStream::RowShape, *number as u64 + 1);
            return Some((count, *number));
        }
        let known = &mut self.tables[table];
        let definition = known.table.as_ref()?;
        let first = known.streams.unwrap_or(self.fields.streams.count());
        let streams = stream_count(definition.columns.len());
        if first + streams > STREAMS_MAX {
            return None;
        }
        let layout = RowLayout::new(definition, rows, first)?;
        let count = layout.count(rows.rows).filter(|count| *count > 0)?;
        if known.streams.is_none() {
            known.streams = Some(self.fields.streams.add(streams));
        }
        layout.set_widths(&mut self.fields.streams);
        self.shapes.push(layout);
        let number = self.shapes.len() - 1;
        self.shape_numbers.insert(shape.into(), number);
        self.fields.streams.put(FixedStream::RowShape, 0);
        put_sized(self.fields.streams.of(FixedStream::RowShapeText), shape);
        Some((count, number))
    }
}

/// Returns whether an event may be a statement that changes tables. Events of rows and of transactions are none.
fn may_be_statement(raw: &RawEvent<'_>, format: &EventFormat) -> bool {
    use EventType as T;
    match raw.event_type() {
        T::Query => match raw.decode(format) {
            Ok(Event::Query(query)) => TransactionVerb::of(query.sql) == TransactionVerb::Other,
            _ => true,
        },
        T::TableMap
        | T::WriteRows
        | T::UpdateRows
        | T::DeleteRows
        | T::PartialUpdateRows
        | T::WriteRowsV1
        | T::UpdateRowsV1
        | T::DeleteRowsV1
        | T::MariadbWriteRowsCompressedV1
        | T::MariadbUpdateRowsCompressedV1
        | T::MariadbDeleteRowsCompressedV1
        | T::Gtid
        | T::AnonymousGtid
        | T::GtidTagged
        | T::MariadbGtid
        | T::Xid
        | T::XaPrepare
        | T::RowsQuery
        | T::MariadbAnnotateRows
        | T::Rotate
        | T::Stop
        | T::FormatDescription
        | T::PreviousGtids
        | T::MariadbGtidList
        | T::MariadbBinlogCheckpoint
        | T::Heartbeat
        | T::HeartbeatV2
        | T::TransactionContext
        | T::ViewChange => false,
        _ => true,
    }
}

fn position_form(header: &EventHeader, position: Option<u64>, before: u32) -> PositionForm {
    let end = position.map(|position| (position + u64::from(header.size)) as u32);
    match header.next_position {
        found if Some(found) == end => PositionForm::End,
        0 => PositionForm::Zero,
        found if position.is_some() && found == before.wrapping_add(header.size) => PositionForm::Chained,
        _ => PositionForm::Stored,
    }
}

/// Appends the events of a payload to `inner`, and returns their number.
fn open_payload(
    opener: &mut PayloadOpener,
    payload: &TransactionPayload<'_>,
    inner: &mut Vec<u8>,
) -> Option<u64> {
    if payload.compression != PayloadCompression::Zstd || !payload.rest.is_empty() {
        return None;
    }
    let mut events = opener.open(payload).ok()?;
    while events.next_chunk(INNER_SIZE_MAX, inner).ok()? > 0 {}
    Some(events.summary().events)
}
