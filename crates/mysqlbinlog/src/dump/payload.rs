//! Compressed transactions. Other threads decompress small payloads ahead; large ones are decompressed in pieces.
//!
//! The walk of `logs` cannot be used here: inner events get checksums and renamed databases before they are printed, and
//! of a corrupt payload exactly the events that mysqlbinlog prints are printed.

use std::mem::take;
use std::ops::Range;
use std::sync::Arc;

use binlog::events::{PayloadCompression, TransactionPayload};
use binlog::{
    Cursor, DecodeError, DecodeReason, Event, EventChecksum, EventHeader, EventType, HEADER_SIZE,
    PayloadError, PayloadOpener, PayloadStream,
};

use super::{BATCH_SIZE, BlockEvent, HaltReason, LogDumper, PositionCheck};
use crate::block_reader::{EventBlock, LargePayloadEvent, event_size};
use crate::decode::{LogFormat, decode};
use crate::event_buffer::{BufferReserve, EventBuffer};
use crate::event_text;
use crate::read_error::ReadError;
use crate::rewrite::{DatabaseRewrites, rewrite};

/// Maximum size of a payload that is decompressed ahead, in bytes.
const PAYLOAD_AHEAD_MAX: usize = 2 << 20;

/// Maximum size of the events of such a payload, in bytes.
const EVENTS_AHEAD_MAX: usize = 8 << 20;

/// Maximum size of the events of all such payloads of a block, in bytes. A block of 512 KiB can decompress to gigabytes if
/// its transactions repeat the same bytes.
const BLOCK_EVENTS_MAX: usize = 32 << 20;

/// Bytes of a large payload read at a time.
const PIECE_SIZE: usize = 1 << 20;

/// The contents of an event's payload, as far as they are known.
#[derive(Clone, Copy)]
pub(super) enum PayloadContents<'b> {
    /// No payload, or not decompressed yet.
    Unopened,
    /// The decompressed events.
    Opened(&'b PayloadEvents, &'b [Range<usize>]),
    /// The payload is not in memory.
    Large(&'b LargePayloadEvent),
}

/// Events from inside payloads, converted to the form of events outside.
#[derive(Default)]
pub(crate) struct PayloadEvents {
    buffer: Arc<EventBuffer>,
    /// Checksum of the events.
    checksum: Option<EventChecksum>,
    /// Ranges of all payloads' events in the buffer.
    events: Vec<Range<usize>>,
    /// Index in the block of each event with a decompressed payload, and the range of its entries in `events`.
    payloads: Vec<(usize, Range<usize>)>,
}

impl PayloadEvents {
    /// Decompresses the payloads of a block. Skips payloads with errors; the main thread reports them in order.
    pub(super) fn new(
        block: &EventBlock,
        opener: &mut PayloadOpener,
        rules: &DatabaseRewrites,
        spare: &Arc<BufferReserve>,
    ) -> Self {
        const EVENT_TYPE_AT: usize = 4;
        const PAYLOAD: u8 = 40;
        let mut opened = Self { checksum: Some(block.format.checksum.for_events()), ..Self::default() };
        let mut buffer = spare.take();
        for (index, range) in block.events.iter().enumerate() {
            let bytes = &block.buffer[range.clone()];
            if bytes.get(EVENT_TYPE_AT) != Some(&PAYLOAD) || bytes.len() > PAYLOAD_AHEAD_MAX {
                continue;
            }
            let size_max = EVENTS_AHEAD_MAX.min(BLOCK_EVENTS_MAX.saturating_sub(buffer.len()));
            let Some(chunk) = open_payload(bytes, &block.format, size_max, opener) else { continue };
            let first = opened.events.len();
            put_unwrapped(&mut buffer, &mut opened.events, &chunk, &block.format, rules);
            opened.payloads.push((index, first..opened.events.len()));
        }
        opened.buffer = Arc::new(EventBuffer::pooled(buffer, spare));
        opened
    }

    /// Returns the contents of the payload of the event at `index` in the block.
    pub(super) fn contents_of(&self, index: usize) -> PayloadContents<'_> {
        match self.payloads.binary_search_by_key(&index, |(index, _)| *index) {
            Ok(found) => PayloadContents::Opened(self, &self.events[self.payloads[found].1.clone()]),
            Err(_) => PayloadContents::Unopened,
        }
    }

    /// Returns the size in memory, in bytes.
    pub(super) fn size(&self) -> usize {
        self.buffer.len() + self.events.len() * size_of::<Range<usize>>()
    }
}

/// Returns the events of a payload; `None` if it is empty, has more than `size_max` bytes of events, or is damaged.
fn open_payload(
    bytes: &[u8],
    format: &LogFormat,
    size_max: usize,
    opener: &mut PayloadOpener,
) -> Option<Vec<u8>> {
    let header = EventHeader::decode(&mut Cursor::new(bytes)).ok()?;
    let decoded = decode(bytes, &header, format.checksum.for_events(), format)?;
    let Event::TransactionPayload(payload) = decoded else { return None };
    // The stated size may be wrong, so the loop checks the size again. This check saves decompressing payloads that are
    // too large.
    if payload.uncompressed_size.is_some_and(|stated| stated > size_max as u64) {
        return None;
    }
    let mut inner = opener.open(&payload).ok()?;
    let mut chunk = Vec::new();
    while inner.next_chunk(BATCH_SIZE, &mut chunk).ok()? > 0 {
        if chunk.len() > size_max {
            return None;
        }
    }
    Some(chunk).filter(|chunk| !chunk.is_empty())
}

/// Appends inner events in the form of events outside: with checksum and renamed database. Adds their ranges to
/// `ranges`.
fn put_unwrapped(
    out: &mut Vec<u8>,
    ranges: &mut Vec<Range<usize>>,
    events: &[u8],
    format: &LogFormat,
    rules: &DatabaseRewrites,
) {
    out.reserve(events.len() + events.len() / 8);
    let inside = (!rules.is_empty()).then(|| format.inside_payload());
    let mut rest = events;
    while rest.len() >= HEADER_SIZE {
        let (event, after) = rest.split_at(event_size(rest).clamp(HEADER_SIZE, rest.len()));
        rest = after;
        let start = out.len();
        match inside.as_ref().map(|inside| rewrite(event, inside, rules)) {
            Some(Ok(Some(rewritten))) => out.extend_from_slice(&rewritten),
            _ => out.extend_from_slice(event),
        }
        if format.checksum.for_events() == EventChecksum::Crc32 {
            let whole = (out.len() - start + 4) as u32;
            out[start + 9..start + 13].copy_from_slice(&whole.to_le_bytes());
            let checksum = crc32fast::hash(&out[start..]);
            out.extend_from_slice(&checksum.to_le_bytes());
        }
        ranges.push(start..out.len());
    }
}

/// Reason why no more events can be read from a payload.
enum ChunkError {
    Payload(DecodeError),
    Read(ReadError),
}

impl From<PayloadError> for ChunkError {
    fn from(error: PayloadError) -> Self {
        Self::Payload(error.error)
    }
}

/// The events of a large payload, in chunks.
struct LargePayloadChunks<'l, 'o> {
    large: &'l LargePayloadEvent,
    stream: PayloadStream<'o>,
    piece: Vec<u8>,
    taken: usize,
    /// Bytes of the payload read so far.
    read: u64,
}

impl LargePayloadChunks<'_, '_> {
    /// Appends some events, and returns their number.
    fn next_chunk(&mut self, out: &mut Vec<u8>) -> Result<usize, ChunkError> {
        loop {
            let mut input = &self.piece[self.taken..];
            let count = self.stream.next_chunk(&mut input, BATCH_SIZE, out)?;
            self.taken = self.piece.len() - input.len();
            if count > 0 {
                return Ok(count);
            }
            self.piece.drain(..self.taken);
            self.taken = 0;
            let piece = self.large.payload(self.read, PIECE_SIZE).map_err(ChunkError::Read)?;
            if piece.is_empty() {
                self.stream.finish()?;
                return Ok(0);
            }
            self.read += piece.len() as u64;
            self.piece.extend_from_slice(&piece);
        }
    }
}

impl LogDumper<'_, '_> {
    pub(super) fn dump_payload(
        &mut self,
        item: BlockEvent<'_>,
        payload: &TransactionPayload<'_>,
        name: &[u8],
    ) -> Result<(), HaltReason> {
        if self.put_header(item) {
            let size = match item.payload {
                PayloadContents::Large(large) => large.fields.payload_size,
                PayloadContents::Opened(..) | PayloadContents::Unopened => payload.payload.len() as u64,
            };
            event_text::put_payload_line(self.batch.text_mut(), payload, size);
        }
        match item.payload {
            PayloadContents::Opened(opened, events)
                if opened.checksum == Some(self.format.checksum.for_events()) =>
            {
                self.dump_inner_events(item, &opened.buffer, events, name)?;
            }
            PayloadContents::Large(large) => {
                self.with_opener(|dump, opener| dump.dump_large_payload(item, large, opener, name))?
            }
            PayloadContents::Opened(..) | PayloadContents::Unopened => {
                self.with_opener(|dump, opener| dump.dump_whole_payload(item, payload, opener, name))?;
            }
        }
        if !self.settings.short_form {
            self.batch.text_mut().extend_from_slice(b"# End of compressed events.\n");
        }
        Ok(())
    }

    fn with_opener(
        &mut self,
        open: impl FnOnce(&mut Self, &mut PayloadOpener) -> Result<(), HaltReason>,
    ) -> Result<(), HaltReason> {
        let mut opener = take(&mut self.opener);
        let outcome = open(self, &mut opener);
        self.opener = opener;
        outcome
    }

    fn dump_whole_payload(
        &mut self,
        outer: BlockEvent<'_>,
        payload: &TransactionPayload<'_>,
        opener: &mut PayloadOpener,
        name: &[u8],
    ) -> Result<(), HaltReason> {
        let mut events = opener.open(payload).map_err(|error| self.report_payload_error(&error.error))?;
        self.dump_chunks(outer, name, payload.compression, |chunk| Ok(events.next_chunk(BATCH_SIZE, chunk)?))
    }

    fn dump_large_payload(
        &mut self,
        outer: BlockEvent<'_>,
        large: &LargePayloadEvent,
        opener: &mut PayloadOpener,
        name: &[u8],
    ) -> Result<(), HaltReason> {
        let stream = opener.open_stream(large.fields.compression, large.fields.uncompressed_size);
        let stream = stream.map_err(|error| self.report_payload_error(&error.error))?;
        let mut pieces = LargePayloadChunks { large, stream, piece: Vec::new(), taken: 0, read: 0 };
        self.dump_chunks(outer, name, large.fields.compression, |chunk| pieces.next_chunk(chunk))
    }

    /// Prints a payload's events in chunks, until no more follow.
    fn dump_chunks(
        &mut self,
        outer: BlockEvent<'_>,
        name: &[u8],
        compression: PayloadCompression,
        mut next_chunk: impl FnMut(&mut Vec<u8>) -> Result<usize, ChunkError>,
    ) -> Result<(), HaltReason> {
        let mut chunk = Vec::new();
        loop {
            let is_first = chunk.is_empty();
            chunk.clear();
            match next_chunk(&mut chunk) {
                // No bytes at all are less than zstd makes of empty contents.
                Ok(0) if is_first && compression == PayloadCompression::Zstd => {
                    let nothing = DecodeReason::Short { expected: HEADER_SIZE as u64, found: 0 };
                    return Err(self.report_payload_error(&DecodeError::new(0, nothing)));
                }
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(ChunkError::Payload(error)) => return Err(self.report_payload_error(&error)),
                Err(ChunkError::Read(error)) => return Err(self.report_read_error(name, &error)),
            }
            let (mut buffer, mut events) = (self.event_pool.take(), Vec::new());
            put_unwrapped(&mut buffer, &mut events, &chunk, &self.format, &self.settings.rewrites);
            let buffer = Arc::new(EventBuffer::pooled(buffer, &self.event_pool));
            self.dump_inner_events(outer, &buffer, &events, name)?;
        }
    }

    fn dump_inner_events(
        &mut self,
        outer: BlockEvent<'_>,
        buffer: &Arc<EventBuffer>,
        events: &[Range<usize>],
        name: &[u8],
    ) -> Result<(), HaltReason> {
        let at = u64::from(outer.header.next_position);
        let format = Arc::clone(&self.format);
        for range in events {
            let mut inner = BlockEvent::new(buffer, range.clone(), at, &format)
                .map_err(|error| self.report_inner_error(&error))?;
            inner.header.next_position = outer.header.next_position;
            let Some(event) = self.decode(&inner) else {
                return Err(self.report_inner_error(&inner.invalid_reason()));
            };
            // Inside a payload, neither a refused event nor a stop condition ends the dump; a failed output does.
            if let Err(halt @ (HaltReason::OutputClosed | HaltReason::TemporaryFile)) =
                self.dump_event(inner, &event, name, PositionCheck::Passed)
            {
                return Err(halt);
            }
            self.send_if_full()?;
        }
        Ok(())
    }

    /// Prints the error that ends a payload.
    fn report_payload_error(&mut self, error: &DecodeError) -> HaltReason {
        const SIZE: &str = "Length field of embedded event in Payload_log_event is";
        let text = match error.reason {
            _ if error.is_short() => {
                "Payload_log_event corrupted: the compressed payload has been truncated.".to_owned()
            }
            DecodeReason::Unexpected { field: "event size", found, .. } => {
                format!("{SIZE} only {found} bytes, but {HEADER_SIZE} are required.")
            }
            DecodeReason::OutOfRange { field: "event size", found, max } => {
                format!("{SIZE} {found} bytes, exceeding the maximum of {max} bytes.")
            }
            DecodeReason::Unexpected { field: "event type", found, .. }
                if found == u64::from(EventType::TransactionPayload.code()) =>
            {
                "Payload_log_event corrupted: contains an embedded Payload_log_event".to_owned()
            }
            DecodeReason::Unexpected { field: "event type", .. } => {
                return self.report_inner_error(&ReadError::INVALID_FORMAT);
            }
            // bintide's own text: mysqlbinlog does not compare the uncompressed size.
            DecodeReason::Differs { .. } => format!("Payload_log_event corrupted: {}.", error.reason),
            _ => "Payload_log_event corrupted: compression stream is corrupted.".to_owned(),
        };
        self.diagnostics.error(&[text.as_bytes()]);
        HaltReason::Failed
    }

    fn report_inner_error(&mut self, error: &ReadError) -> HaltReason {
        self.diagnostics.error(&[b"Error decoding Payload_log_event: ", error.text().as_bytes(), b"."]);
        HaltReason::Failed
    }
}
