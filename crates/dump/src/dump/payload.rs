//! Compressed transactions. Other threads decompress small payloads ahead; large ones are decompressed in pieces.

use std::mem::take;
use std::ops::Range;
use std::sync::Arc;

use binlog::events::{PayloadCompression, TransactionPayload};
use binlog::{
    Checksum, Cursor, DecodeError, Event, EventType, HEADER_SIZE, Header, PayloadError, PayloadOpener,
    PayloadStream, Reason,
};

use super::{BATCH_SIZE, Dump, Halt, Item, PositionCheck};
use crate::bytes::{Bytes, Spare};
use crate::decode::{LogFormat, decode};
use crate::event_text;
use crate::reader::{Block, LargePayload, ReadError, event_size};
use crate::rewrite::{Rules, rewrite};

/// Maximum size of a payload that is decompressed ahead, in bytes.
const PAYLOAD_AHEAD_MAX: usize = 2 << 20;

/// Maximum size of the events of such a payload, in bytes.
const EVENTS_AHEAD_MAX: usize = 8 << 20;

/// Bytes of a large payload read at a time.
const PIECE_SIZE: usize = 1 << 20;

/// The contents of an event's payload, as far as they are known.
#[derive(Clone, Copy)]
pub(super) enum Inside<'b> {
    /// No payload, or not decompressed yet.
    Unopened,
    /// The decompressed events.
    Opened(&'b Opened, &'b [Range<usize>]),
    /// The payload is not in memory.
    Large(&'b LargePayload),
}

/// Events from inside payloads, converted to the form of events outside.
#[derive(Default)]
pub(crate) struct Opened {
    buffer: Arc<Bytes>,
    /// Checksum of the events.
    checksum: Option<Checksum>,
    /// Ranges of all payloads' events in the buffer.
    events: Vec<Range<usize>>,
    /// Index in the block of each event with a decompressed payload, and the range of its entries in `events`.
    payloads: Vec<(usize, Range<usize>)>,
}

impl Opened {
    /// Decompresses the payloads of a block. Skips payloads with errors; the main thread reports them in order.
    pub(super) fn new(block: &Block, opener: &mut PayloadOpener, rules: &Rules, spare: &Arc<Spare>) -> Self {
        const EVENT_TYPE_AT: usize = 4;
        const PAYLOAD: u8 = 40;
        let mut opened = Self { checksum: Some(block.format.checksum.for_events()), ..Self::default() };
        let mut buffer = spare.take();
        for (index, range) in block.events.iter().enumerate() {
            let bytes = &block.buffer[range.clone()];
            if bytes.get(EVENT_TYPE_AT) != Some(&PAYLOAD) || bytes.len() > PAYLOAD_AHEAD_MAX {
                continue;
            }
            let first = opened.events.len();
            match open_one(bytes, &block.format, opener, rules, &mut buffer, &mut opened.events) {
                Some(()) => opened.payloads.push((index, first..opened.events.len())),
                None => opened.events.truncate(first),
            }
        }
        opened.buffer = Arc::new(Bytes::at_home(buffer, spare));
        opened
    }

    /// Returns the contents of the payload of the event at `index` in the block.
    pub(super) fn inside(&self, index: usize) -> Inside<'_> {
        match self.payloads.binary_search_by_key(&index, |(index, _)| *index) {
            Ok(found) => Inside::Opened(self, &self.events[self.payloads[found].1.clone()]),
            Err(_) => Inside::Unopened,
        }
    }

    /// Returns the size in memory, in bytes.
    pub(super) fn size(&self) -> usize {
        self.buffer.len() + self.events.len() * size_of::<Range<usize>>()
    }
}

fn open_one(
    bytes: &[u8],
    format: &LogFormat,
    opener: &mut PayloadOpener,
    rules: &Rules,
    buffer: &mut Vec<u8>,
    events: &mut Vec<Range<usize>>,
) -> Option<()> {
    let header = Header::decode(&mut Cursor::new(bytes)).ok()?;
    let decoded = decode(bytes, &header, format.checksum.for_events(), format)?;
    let Event::TransactionPayload(payload) = decoded else { return None };
    let mut inner = opener.open(&payload).ok()?;
    let mut chunk = Vec::new();
    while inner.next_chunk(BATCH_SIZE, &mut chunk).ok()? > 0 {
        if chunk.len() > EVENTS_AHEAD_MAX {
            return None;
        }
    }
    if chunk.is_empty() {
        return None;
    }
    put_outside(buffer, events, &chunk, format, rules);
    Some(())
}

/// Appends inner events in the form of events outside: with checksum and renamed database. Adds their ranges to
/// `places`.
fn put_outside(
    out: &mut Vec<u8>,
    places: &mut Vec<Range<usize>>,
    events: &[u8],
    format: &LogFormat,
    rules: &Rules,
) {
    out.reserve(events.len() + events.len() / 8);
    let inside = (!rules.is_empty()).then(|| format.inside_payload());
    let mut rest = events;
    while rest.len() >= HEADER_SIZE {
        let (event, behind) = rest.split_at(event_size(rest).clamp(HEADER_SIZE, rest.len()));
        rest = behind;
        let start = out.len();
        match inside.as_ref().map(|inside| rewrite(event, inside, rules)) {
            Some(Ok(Some(rewritten))) => out.extend_from_slice(&rewritten),
            _ => out.extend_from_slice(event),
        }
        if format.checksum.for_events() == Checksum::Crc32 {
            let whole = (out.len() - start + 4) as u32;
            out[start + 9..start + 13].copy_from_slice(&whole.to_le_bytes());
            let checksum = crc32fast::hash(&out[start..]);
            out.extend_from_slice(&checksum.to_le_bytes());
        }
        places.push(start..out.len());
    }
}

/// Reason why no more events can be read from a payload.
enum Fault {
    Payload(DecodeError),
    Read(ReadError),
}

impl From<PayloadError> for Fault {
    fn from(error: PayloadError) -> Self {
        Self::Payload(error.error)
    }
}

/// The events of a large payload, in chunks.
struct Pieces<'l, 'o> {
    large: &'l LargePayload,
    stream: PayloadStream<'o>,
    piece: Vec<u8>,
    taken: usize,
    /// Bytes of the payload read so far.
    read: u64,
}

impl Pieces<'_, '_> {
    /// Appends some events, and returns their number.
    fn next_chunk(&mut self, out: &mut Vec<u8>) -> Result<usize, Fault> {
        loop {
            let mut input = &self.piece[self.taken..];
            let count = self.stream.next_chunk(&mut input, BATCH_SIZE, out)?;
            self.taken = self.piece.len() - input.len();
            if count > 0 {
                return Ok(count);
            }
            self.piece.drain(..self.taken);
            self.taken = 0;
            let piece = self.large.payload(self.read, PIECE_SIZE).map_err(Fault::Read)?;
            if piece.is_empty() {
                self.stream.finish()?;
                return Ok(0);
            }
            self.read += piece.len() as u64;
            self.piece.extend_from_slice(&piece);
        }
    }
}

impl Dump<'_, '_> {
    pub(super) fn payload(
        &mut self,
        item: Item<'_>,
        payload: &TransactionPayload<'_>,
        name: &[u8],
    ) -> Result<(), Halt> {
        if self.put_header(item) {
            let size = match item.inside {
                Inside::Large(large) => large.fields.payload_size,
                Inside::Opened(..) | Inside::Unopened => payload.payload.len() as u64,
            };
            event_text::payload_line(self.batch.text(), payload, size);
        }
        match item.inside {
            Inside::Opened(opened, events) if opened.checksum == Some(self.format.checksum.for_events()) => {
                self.inner_events(item, &opened.buffer, events, name)?;
            }
            Inside::Large(large) => {
                self.with_opener(|dump, opener| dump.large_payload(item, large, opener, name))?
            }
            Inside::Opened(..) | Inside::Unopened => {
                self.with_opener(|dump, opener| dump.whole_payload(item, payload, opener, name))?;
            }
        }
        if !self.settings.short_form {
            self.batch.text().extend_from_slice(b"# End of compressed events.\n");
        }
        Ok(())
    }

    fn with_opener(
        &mut self,
        open: impl FnOnce(&mut Self, &mut PayloadOpener) -> Result<(), Halt>,
    ) -> Result<(), Halt> {
        let mut opener = take(&mut self.opener);
        let outcome = open(self, &mut opener);
        self.opener = opener;
        outcome
    }

    fn whole_payload(
        &mut self,
        outer: Item<'_>,
        payload: &TransactionPayload<'_>,
        opener: &mut PayloadOpener,
        name: &[u8],
    ) -> Result<(), Halt> {
        let mut events = opener.open(payload).map_err(|error| self.complain_of_payload(&error.error))?;
        self.chunks(outer, name, payload.compression, |chunk| Ok(events.next_chunk(BATCH_SIZE, chunk)?))
    }

    fn large_payload(
        &mut self,
        outer: Item<'_>,
        large: &LargePayload,
        opener: &mut PayloadOpener,
        name: &[u8],
    ) -> Result<(), Halt> {
        let stream = opener.open_stream(large.fields.compression, large.fields.uncompressed_size);
        let stream = stream.map_err(|error| self.complain_of_payload(&error.error))?;
        let mut pieces = Pieces { large, stream, piece: Vec::new(), taken: 0, read: 0 };
        self.chunks(outer, name, large.fields.compression, |chunk| pieces.next_chunk(chunk))
    }

    /// Prints a payload's events in chunks, until no more follow.
    fn chunks(
        &mut self,
        outer: Item<'_>,
        name: &[u8],
        compression: PayloadCompression,
        mut next_chunk: impl FnMut(&mut Vec<u8>) -> Result<usize, Fault>,
    ) -> Result<(), Halt> {
        let mut chunk = Vec::new();
        loop {
            let is_first = chunk.is_empty();
            chunk.clear();
            match next_chunk(&mut chunk) {
                // No bytes at all are less than zstd makes of empty contents.
                Ok(0) if is_first && compression == PayloadCompression::Zstd => {
                    let nothing = Reason::Short { wanted: HEADER_SIZE as u64, found: 0 };
                    return Err(self.complain_of_payload(&DecodeError::new(0, nothing)));
                }
                Ok(0) => return Ok(()),
                Ok(_) => {}
                Err(Fault::Payload(error)) => return Err(self.complain_of_payload(&error)),
                Err(Fault::Read(error)) => return Err(self.complain(name, &error)),
            }
            let (mut buffer, mut events) = (self.spare_bytes.take(), Vec::new());
            put_outside(&mut buffer, &mut events, &chunk, &self.format, &self.settings.rewrites);
            let buffer = Arc::new(Bytes::at_home(buffer, &self.spare_bytes));
            self.inner_events(outer, &buffer, &events, name)?;
        }
    }

    fn inner_events(
        &mut self,
        outer: Item<'_>,
        buffer: &Arc<Bytes>,
        events: &[Range<usize>],
        name: &[u8],
    ) -> Result<(), Halt> {
        let at = u64::from(outer.header.next_position);
        let format = Arc::clone(&self.format);
        for range in events {
            let mut inner = Item::new(buffer, range.clone(), at, &format)
                .map_err(|error| self.complain_of_inner(&error))?;
            inner.header.next_position = outer.header.next_position;
            let Some(event) = self.decode(&inner) else {
                return Err(self.complain_of_inner(&inner.why_invalid()));
            };
            // Inside a payload, neither a refused event nor a stop condition ends the dump; a failed output does.
            if let Err(halt @ (Halt::Unwanted | Halt::TemporaryFile)) =
                self.event(inner, &event, name, PositionCheck::Passed)
            {
                return Err(halt);
            }
            self.hand_on_if_full()?;
        }
        Ok(())
    }

    /// Prints the error that ends a payload.
    fn complain_of_payload(&mut self, error: &DecodeError) -> Halt {
        const SIZE: &str = "Length field of embedded event in Payload_log_event is";
        let text = match error.reason {
            _ if error.is_short() => {
                "Payload_log_event corrupted: the compressed payload has been truncated.".to_owned()
            }
            Reason::Unexpected { field: "event size", found, .. } => {
                format!("{SIZE} only {found} bytes, but {HEADER_SIZE} are required.")
            }
            Reason::OutOfRange { field: "event size", found, max } => {
                format!("{SIZE} {found} bytes, exceeding the maximum of {max} bytes.")
            }
            Reason::Unexpected { field: "event type", found, .. }
                if found == u64::from(EventType::TransactionPayload.code()) =>
            {
                "Payload_log_event corrupted: contains an embedded Payload_log_event".to_owned()
            }
            Reason::Unexpected { field: "event type", .. } => {
                return self.complain_of_inner(&ReadError::INVALID_FORMAT);
            }
            // bintide's own text: mysqlbinlog does not compare the uncompressed size.
            Reason::Differs { .. } => format!("Payload_log_event corrupted: {}.", error.reason),
            _ => "Payload_log_event corrupted: compression stream is corrupted.".to_owned(),
        };
        self.talk.error(&[text.as_bytes()]);
        Halt::Failed
    }

    fn complain_of_inner(&mut self, error: &ReadError) -> Halt {
        self.talk.error(&[b"Error decoding Payload_log_event: ", error.text().as_bytes(), b"."]);
        Halt::Failed
    }
}
