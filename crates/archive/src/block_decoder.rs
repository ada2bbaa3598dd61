//! Puts the events of a block together again.

use binlog::{EventChecksum, EventFlags, EventFormat, EventHeader, EventType, HEADER_SIZE, MAGIC};

use crate::block_encoder::{FORMS, MAPS};
use crate::block_frame::{BlockFrame, BlockKind, parse_body, parse_head};
use crate::event_fields::FieldReader;
use crate::event_form::{BodyForm, EventForm, PositionForm};
use crate::log_block::BlockContext;
use crate::payload_frames::{FrameSettings, INNER_SIZE_MAX, PayloadFrames, put_payload};
use crate::row_layout::{
    LayoutScratch, RowLayout, bare_event, parse_shape, parse_table, split_rows, stream_count,
};
use crate::segment_error::{BlockDamage, SegmentError};
use crate::stream_codec::{StreamExpander, StreamForm};
use crate::stream_set::{FixedStream, StreamBuffers, StreamId, TextReader};

/// Puts blocks together, one after another. Each thread needs its own decoder.
pub struct BlockDecoder {
    expander: StreamExpander,
    buffers: StreamBuffers,
    frames: PayloadFrames,
    scratch: LayoutScratch,
    inner: Vec<u8>,
}

/// State of one block while its events are put together.
struct BlockEvents<'a, 'd> {
    fields: FieldReader<'a>,
    description: &'a [u8],
    format: EventFormat,
    inner_format: EventFormat,
    forms: TextReader<'a>,
    maps: TextReader<'a>,
    tables: Vec<KnownStreams>,
    shapes: Vec<(EventType, &'a [u8], RowLayout)>,
    frames: &'d mut PayloadFrames,
    scratch: &'d mut LayoutScratch,
    size_max: usize,
}

/// Table map of a block.
struct KnownStreams {
    /// Absent until its first rows.
    first: Option<StreamId>,
}

/// Event whose body is put together.
struct UnfinishedEvent {
    /// Header, without the size. Its position may lack the size.
    header: EventHeader,
    position: PositionForm,
    destination: EventDestination,
    /// Start of the event in the output.
    start: usize,
}

/// Destination of an event that is rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventDestination {
    /// In the log, which starts at this position.
    Log(u64),
    Payload,
}

impl Default for BlockDecoder {
    fn default() -> Self {
        Self::new()
    }
}

impl BlockDecoder {
    /// Creates a decoder.
    pub fn new() -> Self {
        Self {
            expander: StreamExpander::new(),
            buffers: StreamBuffers::default(),
            frames: PayloadFrames::default(),
            scratch: LayoutScratch::default(),
            inner: Vec::new(),
        }
    }

    /// Returns the log's bytes of one block, given with its head.
    pub fn decode_one(&mut self, block: &[u8]) -> Result<Vec<u8>, SegmentError> {
        let mut out = Vec::new();
        self.decode_into(block, &mut out)?;
        Ok(out)
    }

    /// Replaces `out` with the log's bytes of one block, given with its head.
    pub(crate) fn decode_into(&mut self, block: &[u8], out: &mut Vec<u8>) -> Result<(), SegmentError> {
        let (head, body) = block.split_first_chunk().ok_or(SegmentError::Truncated { offset: 0 })?;
        let (_, checksum) = parse_head(*head, 0)?;
        let frame = parse_body(body, checksum).map_err(|damage| damage.at(0))?;
        self.decode(&frame, out).map_err(|damage| damage.at(0))
    }

    /// Replaces `out` with the log's bytes of a block.
    pub(crate) fn decode(&mut self, frame: &BlockFrame<'_>, out: &mut Vec<u8>) -> Result<(), BlockDamage> {
        out.clear();
        out.reserve_exact(frame.log_size);
        match frame.kind {
            BlockKind::End => {}
            BlockKind::Opaque => {
                self.expander.expand(frame.content, StreamForm::Plain, frame.log_size, out)?;
            }
            BlockKind::Events => self.decode_events(frame, out)?,
        }
        match out.len() == frame.log_size {
            true => Ok(()),
            false => Err(BlockDamage("a block does not have the stated size")),
        }
    }

    fn decode_events(&mut self, frame: &BlockFrame<'_>, out: &mut Vec<u8>) -> Result<(), BlockDamage> {
        self.buffers.read(frame.content, &mut self.expander)?;
        let mut streams = self.buffers.cursors();
        let context = BlockContext::take(streams.of(FixedStream::Context))?;
        let format = context.format().ok_or(BlockDamage("the format description is invalid"))?;
        let mut events = BlockEvents {
            fields: FieldReader::new(streams),
            description: &context.description,
            inner_format: format.inside_payload(),
            format,
            forms: TextReader::default(),
            maps: TextReader::default(),
            tables: Vec::new(),
            shapes: Vec::new(),
            frames: &mut self.frames,
            scratch: &mut self.scratch,
            size_max: frame.log_size,
        };
        if frame.offset == 0 {
            out.extend_from_slice(&MAGIC);
        }
        for _ in &context.maps {
            events.take_map()?;
        }
        while !events.fields.streams.of(FixedStream::Form).is_empty() {
            events.append_event(EventDestination::Log(frame.offset), &mut self.inner, out)?;
            if out.len() > frame.log_size {
                return Err(BlockDamage("a block is larger than stated"));
            }
        }
        match events.fields.streams.are_empty() {
            true => Ok(()),
            false => Err(BlockDamage("streams have bytes after the last event")),
        }
    }
}

impl<'a> BlockEvents<'a, '_> {
    fn append_event(
        &mut self,
        destination: EventDestination,
        inner: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockDamage> {
        let (_, form) = self.forms.take(&mut self.fields.streams, FORMS)?;
        let form = EventForm::decode(form)?;
        match form.body {
            BodyForm::Description if matches!(destination, EventDestination::Log(_)) => {
                out.extend_from_slice(self.description);
                return Ok(());
            }
            BodyForm::Whole if matches!(destination, EventDestination::Log(_)) => {
                out.extend_from_slice(self.fields.streams.of(FixedStream::Whole).sized()?);
                return Ok(());
            }
            _ => {}
        }
        let start = out.len();
        let open = self.append_header(form, start, destination)?;
        out.extend_from_slice(&[0; HEADER_SIZE]);
        match form.body {
            BodyForm::Payload if matches!(destination, EventDestination::Log(_)) => {
                self.append_payload(inner, out)?
            }
            body => self.append_event_body(body, form.event_type, destination, out)?,
        }
        self.finish_event(open, out)
    }

    fn append_event_body(
        &mut self,
        body: BodyForm,
        event_type: EventType,
        destination: EventDestination,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockDamage> {
        match body {
            BodyForm::Plain => self.fields.append_body(out),
            BodyForm::LongText => self.fields.append_long_text(out),
            BodyForm::TableMap => {
                let map = self.take_map()?;
                out.extend_from_slice(map);
                Ok(())
            }
            BodyForm::Rows => self.append_rows(event_type, out),
            BodyForm::Gtid => {
                let format =
                    if destination == EventDestination::Payload { &self.inner_format } else { &self.format };
                self.fields.append_gtid(event_type, format, out)
            }
            BodyForm::MariadbGtid => self.fields.append_mariadb_gtid(out),
            BodyForm::Query => self.fields.append_query(out),
            BodyForm::Xid => self.fields.append_xid(out),
            BodyForm::Payload | BodyForm::Whole | BodyForm::Description => {
                Err(BlockDamage("a payload has an impossible event"))
            }
        }
    }

    /// Reads the fields of a header. Size and some positions are known only once the body is complete.
    fn append_header(
        &mut self,
        form: EventForm,
        start: usize,
        destination: EventDestination,
    ) -> Result<UnfinishedEvent, BlockDamage> {
        let last = &mut self.fields.last;
        let timestamp =
            self.fields.streams.of(FixedStream::Timestamp).difference(u64::from(last.timestamp))?;
        last.timestamp = u32::try_from(timestamp).map_err(|_| BlockDamage("a time is too large"))?;
        let next_position = match (form.position, destination) {
            (PositionForm::Zero, _) => 0,
            (PositionForm::End, EventDestination::Log(offset)) => offset.wrapping_add(start as u64) as u32,
            (PositionForm::Chained, EventDestination::Log(_)) => last.next_position,
            (PositionForm::Stored, _) => self.fields.streams.of(FixedStream::NextPosition).varint()? as u32,
            (PositionForm::End | PositionForm::Chained, EventDestination::Payload) => {
                return Err(BlockDamage("an event of a payload has a position"));
            }
        };
        let header = EventHeader {
            timestamp: last.timestamp,
            event_type: form.event_type,
            server_id: form.server_id,
            size: 0,
            next_position,
            flags: EventFlags(form.flags),
        };
        Ok(UnfinishedEvent { header, position: form.position, destination, start })
    }

    /// Completes the header of an event, and appends its checksum.
    fn finish_event(&mut self, open: UnfinishedEvent, out: &mut Vec<u8>) -> Result<(), BlockDamage> {
        let UnfinishedEvent { mut header, position, destination, start } = open;
        let checksum = match destination {
            EventDestination::Log(_) => self.format.checksum.for_events(),
            EventDestination::Payload => EventChecksum::Absent,
        };
        let size = out.len() - start + checksum.size();
        header.size = u32::try_from(size).map_err(|_| BlockDamage("an event is too large"))?;
        if let PositionForm::End | PositionForm::Chained = position {
            header.next_position = header.next_position.wrapping_add(header.size);
        }
        if let EventDestination::Log(_) = destination {
            self.fields.last.next_position = header.next_position;
        }
        out[start..start + HEADER_SIZE].copy_from_slice(&header.encode());
        if checksum == EventChecksum::Crc32 {
            let checksum = crc32fast::hash(&out[start..]);
            out.extend_from_slice(&checksum.to_le_bytes());
        }
        Ok(())
    }

    fn take_map(&mut self) -> Result<&'a [u8], BlockDamage> {
        let (number, body) = self.maps.take(&mut self.fields.streams, MAPS)?;
        if number == self.tables.len() {
            self.tables.push(KnownStreams { first: None });
        }
        Ok(body)
    }

    fn append_rows(&mut self, event_type: EventType, out: &mut Vec<u8>) -> Result<(), BlockDamage> {
        let shape = match self.fields.streams.of(FixedStream::RowShape).size()? {
            0 => {
                let shape = self.fields.streams.of(FixedStream::RowShapeText).sized()?;
                self.add_shape(shape)?;
                self.shapes.last()
            }
            number => self.shapes.get(number - 1),
        };
        let Some((_, head, layout)) = shape.filter(|(shape, ..)| *shape == event_type) else {
            return Err(BlockDamage("rows have an unknown shape"));
        };
        out.extend_from_slice(head);
        let count = self.fields.streams.of(FixedStream::RowCount).varint()?;
        self.scratch.size_max = self.size_max.max(INNER_SIZE_MAX) + out.len();
        layout.take(count, &mut self.fields.streams, self.scratch, out)
    }

    fn add_shape(&mut self, shape: &'a [u8]) -> Result<(), BlockDamage> {
        const UNKNOWN: BlockDamage = BlockDamage("the shape of rows is invalid");
        let (number, event_type, head) = parse_shape(shape)?;
        let map = self.maps.get(number).ok_or(UNKNOWN)?;
        let table = parse_table(map, &self.format).ok_or(UNKNOWN)?;
        let known = self.tables.get_mut(number).ok_or(UNKNOWN)?;
        let first = match known.first {
            Some(first) => first,
            None => self.fields.streams.add(stream_count(table.columns.len()))?,
        };
        known.first = Some(first);
        let mut bytes = Vec::new();
        let raw = bare_event(event_type, head, &mut bytes).ok_or(UNKNOWN)?;
        let (rows, _) = split_rows(&raw, &self.format).ok_or(UNKNOWN)?;
        let layout = RowLayout::new(&table, &rows, first).ok_or(UNKNOWN)?;
        self.shapes.push((event_type, head, layout));
        Ok(())
    }

    fn append_payload(&mut self, inner: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<(), BlockDamage> {
        let settings = FrameSettings::decode(self.fields.streams.of(FixedStream::Payload).varint()?)
            .ok_or(BlockDamage("a payload has unknown settings"))?;
        let events = self.fields.streams.of(FixedStream::Payload).varint()?;
        inner.clear();
        let mut nothing = Vec::new();
        for _ in 0..events {
            self.append_event(EventDestination::Payload, &mut nothing, inner)?;
            if inner.len() > 2 * INNER_SIZE_MAX {
                return Err(BlockDamage("a payload is too large"));
            }
        }
        let frame = self.frames.compress(settings, inner);
        let frame = frame.map_err(|_| BlockDamage("a payload cannot be compressed again"))?;
        put_payload(inner.len(), frame, out);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
