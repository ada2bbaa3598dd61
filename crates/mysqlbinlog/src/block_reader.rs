//! Reads a log with mysqlbinlog's rules and errors.
//!
//! Returns whole events without decoding them. The log need not start with a format description, positions may be
//! anywhere, and each way in which a log can end has its own result.
//!
//! The walk of `logs` cannot be used here: it frames events by a known format, stops at damage, and reports it in our
//! words. mysqlbinlog continues where it can, and its texts and exit codes must be the same.

use std::ffi::OsStr;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use binlog::encryption::Keyring;
use binlog::events::PayloadFields;
use binlog::{
    CHECKSUM_SIZE, Cursor, EVENT_SIZE_MAX, EventChecksum, EventType, HEADER_SIZE, MAGIC, MAGIC_ENCRYPTED,
};
use logs::open_archived_log;

use crate::decode::{LogFormat, read_format};
use crate::dump_spool::{DumpSpool, SpooledBytes};
use crate::event_buffer::{BufferReserve, EventBuffer};
use crate::event_ref::EventRef;
use crate::input_log_file::InputLogFile;
use crate::read_error::ReadError;

/// Size of a read, in bytes.
const BLOCK_SIZE: usize = 512 << 10;

/// Consecutive whole events.
pub(crate) struct EventBlock {
    /// Start of the block, in bytes from the start of the input.
    pub(crate) start: u64,
    pub(crate) buffer: Arc<EventBuffer>,
    /// Start of the buffer, in bytes from the start of the input, modulo 2^64.
    base: u64,
    /// Ranges of the events in the buffer.
    pub(crate) events: Vec<Range<usize>>,
    /// Format of the events.
    pub(crate) format: Arc<LogFormat>,
    /// Result at the end of the log, if the log ends after this block.
    pub(crate) end: Option<Result<(), ReadError>>,
    /// One event too large for memory. If set, the block has no other events.
    pub(crate) large: Option<LargePayloadEvent>,
}

/// Treatment of payloads too large for memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LargePayloadMode {
    InMemory,
    InPieces,
}

/// Size from which a payload is read in pieces, in bytes.
const LARGE_SIZE: usize = 16 << 20;

/// Bytes read of a large payload to find its fields.
const LARGE_HEAD_SIZE: usize = 4096;

/// A transaction payload event that is too large for memory.
pub(crate) struct LargePayloadEvent {
    /// Start of the event in its log.
    pub(crate) at: u64,
    pub(crate) fields: PayloadFields,
    /// The event without its payload, with its size adjusted.
    pub(crate) stub: Arc<EventBuffer>,
    /// The event's bytes in a file.
    event: SpooledBytes,
    /// Offset of the payload in the event.
    payload_at: u64,
}

impl LargePayloadEvent {
    /// Finds the payload in an event stored in a file.
    fn new(event: SpooledBytes, at: u64, checksum: EventChecksum) -> Result<Self, ReadError> {
        let size = event.size();
        let mut head = vec![0; LARGE_HEAD_SIZE.min(size)];
        event.read_at(0, &mut head).map_err(ReadError::of_event)?;
        let mut cursor = Cursor::at(&head[HEADER_SIZE..], HEADER_SIZE);
        let fields = PayloadFields::decode(&mut cursor).map_err(|_| ReadError::INVALID_EVENT)?;
        let payload_at = cursor.offset();
        if fields.payload_size > (size - checksum.size()).saturating_sub(payload_at) as u64 {
            return Err(ReadError::INVALID_EVENT);
        }
        let mut stub = head;
        stub.truncate(payload_at);
        let mut stored = vec![0; checksum.size()];
        let stored_at = (size - stored.len()) as u64;
        event.read_at(stored_at, &mut stored).map_err(ReadError::of_event)?;
        stub.append(&mut stored);
        let stub_size = (stub.len() as u32).to_le_bytes();
        stub[SIZE_OFFSETS].copy_from_slice(&stub_size);
        Ok(Self { at, fields, stub: Arc::new(EventBuffer::new(stub)), event, payload_at: payload_at as u64 })
    }

    /// Returns up to `size` bytes of the payload, starting at byte `from`; none after its end.
    pub(crate) fn payload(&self, from: u64, size: usize) -> Result<Vec<u8>, ReadError> {
        self.read(self.payload_at + from, (self.fields.payload_size - from).min(size as u64))
    }

    fn read(&self, from: u64, size: u64) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; size as usize];
        self.event.read_at(from, &mut bytes).map_err(ReadError::of_event)?;
        Ok(bytes)
    }

    /// Verifies the event's checksum.
    pub(crate) fn verify(&self) -> Result<(), ReadError> {
        let covered = (self.event.size() - CHECKSUM_SIZE) as u64;
        let mut hasher = crc32fast::Hasher::new();
        for from in (0..covered).step_by(BLOCK_SIZE) {
            hasher.update(&self.read(from, (covered - from).min(BLOCK_SIZE as u64))?);
        }
        match self.stub.ends_with(&hasher.finalize().to_le_bytes()) {
            true => Ok(()),
            false => Err(ReadError::CHECKSUM),
        }
    }
}

/// Range of the event's size in its header.
const SIZE_OFFSETS: Range<usize> = 9..13;

/// Offset of the event's type in its header.
pub(crate) const EVENT_TYPE_OFFSET: usize = 4;

impl EventBlock {
    /// Creates a block of consecutive events that are in no file. The first one starts at position `start`.
    pub(crate) fn of_events(
        start: u64,
        bytes: Vec<u8>,
        events: Vec<Range<usize>>,
        format: Arc<LogFormat>,
    ) -> Self {
        Self {
            start,
            buffer: Arc::new(EventBuffer::new(bytes)),
            base: start,
            events,
            format,
            end: None,
            large: None,
        }
    }

    /// Converts an offset in the buffer to bytes from the start of the input.
    pub(crate) fn position(&self, offset: usize) -> u64 {
        self.base.wrapping_add(offset as u64)
    }
}

/// Reader of one file, or of standard input.
pub(crate) struct BlockReader<'i> {
    input: ReaderInput<'i>,
    /// Bytes read but not returned. The events returned share the buffer.
    block: Arc<EventBuffer>,
    spare: Arc<BufferReserve>,
    taken: usize,
    /// Start of the next event.
    position: u64,
    /// Seeking to the position failed.
    seek_failed: bool,
    /// Format from the last format description.
    format: Arc<LogFormat>,
    large: LargePayloadMode,
}

/// The next content of the log.
enum NextContent {
    Event,
    Large(Box<LargePayloadEvent>),
    End,
}

enum ReaderInput<'i> {
    File(Arc<InputLogFile>),
    Stream(LogStream<'i>),
}

/// Log that can be read only once.
enum LogStream<'i> {
    /// Stream of the caller.
    Given(&'i mut (dyn Read + Send)),
    /// Log of an archive.
    Archived(Box<dyn Read + Send>),
}

impl Read for LogStream<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Given(stream) => stream.read(out),
            Self::Archived(log) => log.read(out),
        }
    }
}

impl<'i> BlockReader<'i> {
    /// Opens a log and checks its first four bytes.
    pub(crate) fn open(
        name: &[u8],
        keyring: Option<&Keyring>,
        large: LargePayloadMode,
        spare: &Arc<BufferReserve>,
    ) -> Result<Self, ReadError> {
        if let Some(log) = open_archived_log(Path::new(OsStr::from_bytes(name))) {
            let log = log.map_err(|error| ReadError::Open(io::Error::other(error.to_string())))?;
            return Self::from_input(ReaderInput::Stream(LogStream::Archived(log)), Vec::new(), large, spare);
        }
        let (file, head) = InputLogFile::open(name, keyring)?;
        Self::from_input(ReaderInput::File(Arc::new(file)), head, large, spare)
    }

    /// Reads a stream of one or more logs.
    pub(crate) fn stream(
        stream: &'i mut (dyn Read + Send),
        large: LargePayloadMode,
        spare: &Arc<BufferReserve>,
    ) -> Result<Self, ReadError> {
        Self::from_input(ReaderInput::Stream(LogStream::Given(stream)), Vec::new(), large, spare)
    }

    /// Creates a reader. `head` has the bytes read from the input so far.
    fn from_input(
        input: ReaderInput<'i>,
        head: Vec<u8>,
        large: LargePayloadMode,
        spare: &Arc<BufferReserve>,
    ) -> Result<Self, ReadError> {
        let (block, format) = (Arc::new(EventBuffer::new(head)), Arc::new(LogFormat::initial()));
        let spare = Arc::clone(spare);
        let mut reader =
            Self { input, block, spare, taken: 0, position: 0, seek_failed: false, format, large };
        match reader.fill(MAGIC.len()) {
            Ok(true) => {}
            Ok(false) => return Err(ReadError::Other(ReadError::NO_MAGIC)),
            Err(error) => return Err(ReadError::Io(error, ReadError::NO_MAGIC)),
        }
        match reader.unread().first_chunk() {
            Some(&MAGIC) => {}
            Some(&MAGIC_ENCRYPTED) => return Err(ReadError::ENCRYPTED),
            _ => return Err(ReadError::BAD_MAGIC),
        }
        reader.consume(MAGIC.len());
        Ok(reader)
    }

    /// Returns the start of the next event, in bytes from the start of the input.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Skips to `position`, which must not be before the current one. An error is returned with the next event.
    pub(crate) fn skip_to(&mut self, position: u64) {
        let ahead = position - self.position;
        let ready = self.unread().len() as u64;
        if ahead <= ready {
            return self.consume(ahead as usize);
        }
        let skipped = match &mut self.input {
            ReaderInput::File(file) => file.seek(position),
            ReaderInput::Stream(stream) => {
                io::copy(&mut stream.by_ref().take(ahead - ready), &mut io::sink()).map(drop)
            }
        };
        self.seek_failed = skipped.is_err();
        self.block = Arc::default();
        self.taken = 0;
        self.position = position;
    }

    /// Returns the next event, or `None` at the end.
    pub(crate) fn next_event(&mut self) -> Result<Option<EventRef>, ReadError> {
        self.fill_header()?;
        match self.next_size()? {
            None => Ok(None),
            Some(size) => {
                self.fill_event(size)?;
                let event = EventRef::new(Arc::clone(&self.block), self.taken..self.taken + size);
                self.learn_format();
                self.consume(size);
                Ok(Some(event))
            }
        }
    }

    /// Returns the next block. No block follows one with an end.
    pub(crate) fn next_block(&mut self) -> EventBlock {
        let start = self.position;
        let mut end = None;
        let mut large = None;
        match self.prepare_block() {
            Ok(NextContent::Event) => self.learn_format(),
            Ok(NextContent::Large(payload)) => large = Some(*payload),
            Ok(NextContent::End) => end = Some(Ok(())),
            Err(error) => end = Some(Err(error)),
        }
        let base = self.position.wrapping_sub(self.taken as u64);
        let (buffer, format) = (Arc::clone(&self.block), Arc::clone(&self.format));
        let mut block = EventBlock { start, buffer, base, events: Vec::new(), format, end, large };
        while block.end.is_none() && block.large.is_none() {
            match self.whole_size(&block) {
                Ok(Some(size)) => {
                    block.events.push(self.taken..self.taken + size);
                    self.consume(size);
                }
                // The next block starts with this event, and reports its error.
                Ok(None) | Err(_) => break,
            }
        }
        block
    }

    /// Reads until the next event is available.
    fn prepare_block(&mut self) -> Result<NextContent, ReadError> {
        self.fill_header()?;
        match self.next_size()? {
            None => Ok(NextContent::End),
            Some(size) if size >= LARGE_SIZE && self.is_large_payload() => {
                self.read_large(size).map(|large| NextContent::Large(Box::new(large)))
            }
            Some(size) => self.fill_event(size).map(|()| NextContent::Event),
        }
    }

    fn is_large_payload(&self) -> bool {
        let event_type = self.unread().get(EVENT_TYPE_OFFSET).copied().map(EventType::from_code);
        // Bytes that have passed through a named pipe cannot be read again.
        let is_kept = match &self.input {
            ReaderInput::File(file) => file.is_regular(),
            ReaderInput::Stream(_) => true,
        };
        is_kept
            && self.large == LargePayloadMode::InPieces
            && event_type == Some(EventType::TransactionPayload)
    }

    /// Skips an event that remains in its file, or is copied into a temporary one.
    fn read_large(&mut self, size: usize) -> Result<LargePayloadEvent, ReadError> {
        let (at, end) = (self.position, self.position + size as u64);
        let checksum = self.format.checksum.for_events();
        let event = match &mut self.input {
            ReaderInput::File(file) => {
                if file.size().map_err(ReadError::of_event)? < end {
                    return Err(ReadError::Truncated);
                }
                SpooledBytes::of_log(file, at, size)
            }
            ReaderInput::Stream(stream) => {
                let ready = &self.block[self.taken..];
                let ready = &ready[..ready.len().min(size)];
                let left = (size - ready.len()) as u64;
                let event = DumpSpool::default().put_stream(ready, &mut stream.by_ref().take(left));
                event.map_err(ReadError::of_event)?
            }
        };
        if event.size() < size {
            return Err(ReadError::Truncated);
        }
        let large = LargePayloadEvent::new(event, at, checksum)?;
        let ready = self.unread().len();
        match (&self.input, ready >= size) {
            (_, true) => self.consume(size),
            (ReaderInput::File(_), false) => self.skip_to(end),
            (ReaderInput::Stream(_), false) => {
                self.block = Arc::default();
                self.taken = 0;
                self.position = end;
            }
        }
        Ok(large)
    }

    /// Updates the format, if the next event is a format description.
    fn learn_format(&mut self) {
        let ready = self.unread();
        if ready.get(EVENT_TYPE_OFFSET) == Some(&EventType::FormatDescription.code())
            && let Ok(Some(size)) = self.next_size()
            && let Some(bytes) = ready.get(..size)
            && let Ok((_, format)) = read_format(bytes)
        {
            self.format = Arc::new(format);
        }
    }

    /// Returns the size of the next event, if all of it is available and it may be part of this block. A format
    /// description and the magic of a next log may only start a block.
    fn whole_size(&self, block: &EventBlock) -> Result<Option<usize>, ReadError> {
        let ready = self.unread();
        let starts_anew = ready.starts_with(&MAGIC)
            || ready.get(EVENT_TYPE_OFFSET) == Some(&EventType::FormatDescription.code());
        if ready.len() < HEADER_SIZE || (starts_anew && !block.events.is_empty()) {
            return Ok(None);
        }
        Ok(self.next_size()?.filter(|size| *size <= ready.len()))
    }

    /// Reads the next event's header, unless the input ends before it.
    fn fill_header(&mut self) -> Result<(), ReadError> {
        if self.seek_failed {
            return Err(ReadError::Other(ReadError::FAILED));
        }
        if !self.fill(HEADER_SIZE).map_err(ReadError::of_event)? {
            return if self.unread().is_empty() { Ok(()) } else { Err(ReadError::Truncated) };
        }
        if matches!(self.input, ReaderInput::Stream(_)) && self.unread().starts_with(&MAGIC) {
            // A stream may contain several logs: skips the magic of the next one.
            self.consume(MAGIC.len());
            if !self.fill(HEADER_SIZE).map_err(ReadError::of_event)? {
                return Err(ReadError::Truncated);
            }
        }
        Ok(())
    }

    /// Returns the next event's size from its header, if there is an event.
    fn next_size(&self) -> Result<Option<usize>, ReadError> {
        if self.unread().is_empty() {
            return Ok(None);
        }
        match event_size(self.unread()) {
            size if size < HEADER_SIZE => Err(ReadError::CORRUPTED),
            size if size > EVENT_SIZE_MAX as usize => Err(ReadError::TOO_LARGE),
            size => Ok(Some(size)),
        }
    }

    fn fill_event(&mut self, size: usize) -> Result<(), ReadError> {
        match self.fill(size).map_err(ReadError::of_event)? {
            true => Ok(()),
            false => Err(ReadError::Truncated),
        }
    }

    fn unread(&self) -> &[u8] {
        &self.block[self.taken..]
    }

    fn consume(&mut self, size: usize) {
        self.taken += size;
        self.position += size as u64;
    }

    /// Reads until `size` bytes are available. Returns false if the input ends before.
    ///
    /// Memory grows only as bytes arrive, whatever size a header claims.
    fn fill(&mut self, size: usize) -> io::Result<bool> {
        if self.unread().len() >= size {
            return Ok(true);
        }
        let mut block = self.spare.take();
        block.reserve(BLOCK_SIZE.max(self.unread().len()));
        block.extend_from_slice(self.unread());
        let mut outcome = Ok(());
        while block.len() < size {
            let room = size.max(BLOCK_SIZE) - block.len();
            let step = room.min(block.len().max(BLOCK_SIZE));
            let before = block.len();
            outcome = match &mut self.input {
                ReaderInput::File(file) => file.read_next(self.position + before as u64, step, &mut block),
                ReaderInput::Stream(stream) => {
                    stream.by_ref().take(step as u64).read_to_end(&mut block).map(drop)
                }
            };
            if outcome.is_err() || block.len() == before {
                break;
            }
        }
        let block = EventBuffer::pooled(block, &self.spare);
        self.block = Arc::new(match &self.input {
            ReaderInput::File(file) if file.is_regular() => block.with_origin(file, self.position),
            ReaderInput::File(_) | ReaderInput::Stream(_) => block,
        });
        self.taken = 0;
        outcome.map(|()| self.unread().len() >= size)
    }
}

/// Returns the event's size from its header.
pub(crate) fn event_size(header: &[u8]) -> usize {
    match header.get(9..13).and_then(|bytes| bytes.first_chunk()) {
        Some(bytes) => u32::from_le_bytes(*bytes) as usize,
        None => 0,
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::{Seek, SeekFrom, Write};
    use std::sync::Arc;

    use binlog::{Cursor, Event, EventChecksum, EventHeader};

    use crate::decode::decode;
    use crate::dump_spool::SpooledBytes;
    use crate::input_log_file::InputLogFile;

    use super::{BlockReader, LargePayloadEvent, LargePayloadMode};

    const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/types-compressed.binlog");

    fn away(file: &File, offset: u64, size: usize) -> SpooledBytes {
        let log = InputLogFile::new(file.try_clone().unwrap()).unwrap();
        SpooledBytes::of_log(&Arc::new(log), offset, size)
    }

    #[test]
    fn a_payload_in_pieces_is_the_payload() {
        let mut reader =
            BlockReader::open(SAMPLE.as_bytes(), None, LargePayloadMode::InPieces, &Arc::default()).unwrap();
        let sample = File::open(SAMPLE).unwrap();
        let mut payloads = 0;
        while let block = reader.next_block()
            && block.end.is_none()
        {
            for range in &block.events {
                let bytes = &block.buffer[range.clone()];
                let header = EventHeader::decode(&mut Cursor::new(bytes)).unwrap();
                let event = decode(bytes, &header, EventChecksum::Crc32, &block.format);
                let Some(Event::TransactionPayload(payload)) = event else { continue };
                let at = block.position(range.start);
                let large =
                    LargePayloadEvent::new(away(&sample, at, bytes.len()), at, EventChecksum::Crc32).unwrap();
                large.verify().unwrap();
                let mut read = Vec::new();
                while let piece = large.payload(read.len() as u64, 7).unwrap()
                    && !piece.is_empty()
                {
                    read.extend_from_slice(&piece);
                }
                assert_eq!(read, payload.payload);
                assert_eq!(large.stub.last_chunk::<4>(), bytes.last_chunk());
                payloads += 1;
            }
        }
        assert!(payloads > 10, "{payloads}");
    }

    #[test]
    fn a_payload_in_pieces_can_be_wrong() {
        let mut file = tempfile::tempfile().unwrap();
        let fields = [2, 1, 0, 1, 1, 3, 0];
        let header = [0, 0, 0, 0, 40, 1, 0, 0, 0, 33, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        file.write_all(&[&header[..], &fields, b"abc", &[0; 4]].concat()).unwrap();
        let large = |file: &File| LargePayloadEvent::new(away(file, 0, 33), 4, EventChecksum::Crc32);
        let whole = large(&file).unwrap_or_else(|error| panic!("{}", error.text()));
        assert_eq!(whole.payload(1, 10).unwrap(), b"bc");
        assert!(whole.verify().is_err());
        // A size that extends beyond the end of the event.
        file.seek(SeekFrom::Start(24)).unwrap();
        file.write_all(&[4]).unwrap();
        assert!(large(&file).is_err());
    }
}
