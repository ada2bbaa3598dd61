//! Reads a log as mysqlbinlog does, and fails as it fails.
//!
//! Whole events come out whatever they hold; what they mean is for others to say. The log need not start with a
//! format description, positions may lie anywhere, and each way in which a log can end has its own name.

use std::io::{self, Read};
use std::ops::Range;
use std::sync::Arc;

use binlog::encryption::Keyring;
use binlog::events::PayloadFields;
use binlog::{
    CHECKSUM_SIZE, Checksum, Cursor, EVENT_SIZE_MAX, EventType, HEADER_SIZE, MAGIC, MAGIC_ENCRYPTED,
};

use crate::bytes::{Bytes, Spare};
use crate::decode::{LogFormat, describe};
use crate::event_ref::EventRef;
use crate::log_file::LogFile;
use crate::spool::{Away, Spool};

/// How much is read at a time.
const BLOCK_SIZE: usize = 512 << 10;

/// Why no event comes.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The file cannot be opened.
    Open(io::Error),
    /// Reading it failed: mysqlbinlog says more of it than of other errors.
    Io(io::Error, &'static str),
    /// Anything else; the text says what.
    Other(&'static str),
    /// The log ends within an event.
    Truncated,
}

impl ReadError {
    pub(crate) const INVALID_EVENT: Self = Self::Other("Found invalid event in binary log");
    pub(crate) const INVALID_FORMAT: Self =
        Self::Other("Found invalid Format description event in binary log");
    pub(crate) const CHECKSUM: Self =
        Self::Other("Event crc check failed! Most likely there is event corruption.");
    pub(crate) const MEMORY: Self = Self::Other("memory allocation failed reading log event");
    pub(crate) const FROM_FUTURE: Self =
        Self::Other("Unrecognized event format. The event appears to originate from a future server version");
    const BOGUS: Self = Self::Other("corrupted data in log event");
    const TOO_LARGE: Self = Self::Other("Event too big");
    const FAILED: &'static str = "I/O error reading log event";
    const NO_MAGIC: &'static str = "I/O error reading the header from the binary log";
    const BAD_MAGIC: Self = Self::Other(
        "Binlog has bad magic number;  It's not a binary log file that can be used by this version of MySQL",
    );
    const ENCRYPTED: Self = Self::Other("Reading encrypted log files directly is not supported.");
    pub(crate) const ENCRYPTION_HEADER: Self = Self::Other("Found invalid binary log encryption header");
    pub(crate) const NO_PASSWORD: Self = Self::Other(
        "Cannot get file password for encrypted replication log file, please check if keyring plugin is loaded",
    );

    fn of_event(error: io::Error) -> Self {
        Self::Io(error, Self::FAILED)
    }

    /// As mysqlbinlog says it.
    pub(crate) const fn text(&self) -> &'static str {
        match self {
            Self::Open(_) => "Could not open log file",
            Self::Io(_, text) | Self::Other(text) => text,
            Self::Truncated => "binlog truncated in the middle of event; consider out of disk space",
        }
    }
}

/// Some whole events, one behind the other.
pub(crate) struct Block {
    /// Where it starts, in bytes from the start of the input.
    pub(crate) start: u64,
    pub(crate) buffer: Arc<Bytes>,
    /// Where the buffer starts, in bytes from the start of the input, modulo 2^64.
    base: u64,
    /// Where each event stands in the buffer.
    pub(crate) events: Vec<Range<usize>>,
    /// What holds for them.
    pub(crate) format: Arc<LogFormat>,
    /// How the log ends behind them, if it does.
    pub(crate) end: Option<Result<(), ReadError>>,
    /// Instead of all that: one event that is too large to be in memory.
    pub(crate) large: Option<LargePayload>,
}

/// What becomes of payloads that are too large to be in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LargePayloads {
    InMemory,
    InPieces,
}

/// From this size on, a payload is read in pieces.
const LARGE_SIZE: usize = 16 << 20;

/// What is read of a large payload to find its fields.
const LARGE_HEAD_SIZE: usize = 4096;

/// A transaction payload event that is too large to be in memory.
pub(crate) struct LargePayload {
    /// Where it starts in its log.
    pub(crate) at: u64,
    pub(crate) fields: PayloadFields,
    /// The event without its payload, as if that were all of it.
    pub(crate) stub: Arc<Bytes>,
    /// The event, in a file.
    event: Away,
    /// Where the payload starts in the event.
    payload_at: u64,
}

impl LargePayload {
    /// Finds the payload in an event that is in a file.
    fn new(event: Away, at: u64, checksum: Checksum) -> Result<Self, ReadError> {
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
        stub[SIZE_AT].copy_from_slice(&stub_size);
        Ok(Self { at, fields, stub: Arc::new(Bytes::new(stub)), event, payload_at: payload_at as u64 })
    }

    /// Up to `size` bytes of the payload, from its byte `from` on; none behind its end.
    pub(crate) fn payload(&self, from: u64, size: usize) -> Result<Vec<u8>, ReadError> {
        self.read(self.payload_at + from, (self.fields.payload_size - from).min(size as u64))
    }

    fn read(&self, from: u64, size: u64) -> Result<Vec<u8>, ReadError> {
        let mut bytes = vec![0; size as usize];
        self.event.read_at(from, &mut bytes).map_err(ReadError::of_event)?;
        Ok(bytes)
    }

    /// Compares the checksum behind the event with the event.
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

/// Where a header has its event's size.
const SIZE_AT: Range<usize> = 9..13;

/// Where a header has its event's type.
pub(crate) const EVENT_TYPE_AT: usize = 4;

impl Block {
    /// Of events that did not come from a file: they stand one behind the other from `start` on.
    pub(crate) fn of_events(
        start: u64,
        bytes: Vec<u8>,
        events: Vec<Range<usize>>,
        format: Arc<LogFormat>,
    ) -> Self {
        Self {
            start,
            buffer: Arc::new(Bytes::new(bytes)),
            base: start,
            events,
            format,
            end: None,
            large: None,
        }
    }

    /// Where a place in the buffer stands, in bytes from the start of the input.
    pub(crate) fn position(&self, place: usize) -> u64 {
        self.base.wrapping_add(place as u64)
    }
}

/// Reads one file, or standard input.
pub(crate) struct Reader<'i> {
    input: Input<'i>,
    /// Read, but not handed out; events that were handed out share what they need of it.
    block: Arc<Bytes>,
    spare: Arc<Spare>,
    taken: usize,
    /// Where the next event starts.
    position: u64,
    /// That is a place that no file has.
    is_lost: bool,
    /// What the last format description said.
    format: Arc<LogFormat>,
    large: LargePayloads,
}

/// What comes next.
enum Front {
    Event,
    Large(Box<LargePayload>),
    End,
}

enum Input<'i> {
    File(Arc<LogFile>),
    Stream(&'i mut (dyn Read + Send)),
}

impl<'i> Reader<'i> {
    /// Opens a log and looks at its first four bytes.
    pub(crate) fn open(
        name: &[u8],
        keyring: Option<&Keyring>,
        large: LargePayloads,
        spare: &Arc<Spare>,
    ) -> Result<Self, ReadError> {
        let (file, head) = LogFile::open(name, keyring)?;
        Self::begin(Input::File(Arc::new(file)), head, large, spare)
    }

    /// Reads from a stream, behind whose first log others may follow.
    pub(crate) fn stream(
        stream: &'i mut (dyn Read + Send),
        large: LargePayloads,
        spare: &Arc<Spare>,
    ) -> Result<Self, ReadError> {
        Self::begin(Input::Stream(stream), Vec::new(), large, spare)
    }

    /// `head` is what has been read of the input.
    fn begin(
        input: Input<'i>,
        head: Vec<u8>,
        large: LargePayloads,
        spare: &Arc<Spare>,
    ) -> Result<Self, ReadError> {
        let (block, format) = (Arc::new(Bytes::new(head)), Arc::new(LogFormat::at_first()));
        let spare = Arc::clone(spare);
        let mut reader = Self { input, block, spare, taken: 0, position: 0, is_lost: false, format, large };
        match reader.fill(MAGIC.len()) {
            Ok(true) => {}
            Ok(false) => return Err(ReadError::Other(ReadError::NO_MAGIC)),
            Err(error) => return Err(ReadError::Io(error, ReadError::NO_MAGIC)),
        }
        match reader.ready().first_chunk() {
            Some(&MAGIC) => {}
            Some(&MAGIC_ENCRYPTED) => return Err(ReadError::ENCRYPTED),
            _ => return Err(ReadError::BAD_MAGIC),
        }
        reader.take(MAGIC.len());
        Ok(reader)
    }

    /// Where the next event starts, in bytes from the start of the input.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Goes on at `position`, which must not lie behind. What is wrong with that shows with the next event.
    pub(crate) fn skip_to(&mut self, position: u64) {
        let ahead = position - self.position;
        let ready = self.ready().len() as u64;
        if ahead <= ready {
            return self.take(ahead as usize);
        }
        let skipped = match &mut self.input {
            Input::File(file) => file.seek(position),
            Input::Stream(stream) => {
                io::copy(&mut stream.by_ref().take(ahead - ready), &mut io::sink()).map(drop)
            }
        };
        self.is_lost = skipped.is_err();
        self.block = Arc::default();
        self.taken = 0;
        self.position = position;
    }

    /// The next event, or `None` at the end.
    pub(crate) fn next_event(&mut self) -> Result<Option<EventRef>, ReadError> {
        self.fill_header()?;
        match self.next_size()? {
            None => Ok(None),
            Some(size) => {
                self.fill_event(size)?;
                let event = EventRef::new(Arc::clone(&self.block), self.taken..self.taken + size);
                self.learn_format();
                self.take(size);
                Ok(Some(event))
            }
        }
    }

    /// Some whole events. Nothing comes behind a block that says how the log ends.
    pub(crate) fn next_block(&mut self) -> Block {
        let start = self.position;
        let mut end = None;
        let mut large = None;
        match self.begin_block() {
            Ok(Front::Event) => self.learn_format(),
            Ok(Front::Large(payload)) => large = Some(*payload),
            Ok(Front::End) => end = Some(Ok(())),
            Err(error) => end = Some(Err(error)),
        }
        let base = self.position.wrapping_sub(self.taken as u64);
        let (buffer, format) = (Arc::clone(&self.block), Arc::clone(&self.format));
        let mut block = Block { start, buffer, base, events: Vec::new(), format, end, large };
        while block.end.is_none() && block.large.is_none() {
            match self.whole_size(&block) {
                Ok(Some(size)) => {
                    block.events.push(self.taken..self.taken + size);
                    self.take(size);
                }
                // It comes first in the next block, which also says what is wrong with it.
                Ok(None) | Err(_) => break,
            }
        }
        block
    }

    /// Sees to it that the next event is ready.
    fn begin_block(&mut self) -> Result<Front, ReadError> {
        self.fill_header()?;
        match self.next_size()? {
            None => Ok(Front::End),
            Some(size) if size >= LARGE_SIZE && self.is_large_payload() => {
                self.take_large(size).map(|large| Front::Large(Box::new(large)))
            }
            Some(size) => self.fill_event(size).map(|()| Front::Event),
        }
    }

    fn is_large_payload(&self) -> bool {
        let event_type = self.ready().get(EVENT_TYPE_AT).copied().map(EventType::from_code);
        // What has gone through a named pipe is nowhere to be read again.
        let is_kept = match &self.input {
            Input::File(file) => file.is_regular(),
            Input::Stream(_) => true,
        };
        is_kept && self.large == LargePayloads::InPieces && event_type == Some(EventType::TransactionPayload)
    }

    /// Passes over an event that stays in its file, or goes into a temporary one.
    fn take_large(&mut self, size: usize) -> Result<LargePayload, ReadError> {
        let (at, end) = (self.position, self.position + size as u64);
        let checksum = self.format.checksum.for_events();
        let event = match &mut self.input {
            Input::File(file) => {
                if file.size().map_err(ReadError::of_event)? < end {
                    return Err(ReadError::Truncated);
                }
                Away::in_log(file, at, size)
            }
            Input::Stream(stream) => {
                let ready = &self.block[self.taken..];
                let ready = &ready[..ready.len().min(size)];
                let left = (size - ready.len()) as u64;
                let event = Spool::default().put_all(ready, &mut stream.by_ref().take(left));
                event.map_err(ReadError::of_event)?
            }
        };
        if event.size() < size {
            return Err(ReadError::Truncated);
        }
        let large = LargePayload::new(event, at, checksum)?;
        let ready = self.ready().len();
        match (&self.input, ready >= size) {
            (_, true) => self.take(size),
            (Input::File(_), false) => self.skip_to(end),
            (Input::Stream(_), false) => {
                self.block = Arc::default();
                self.taken = 0;
                self.position = end;
            }
        }
        Ok(large)
    }

    /// What the event at hand says of those behind it, if it is a format description.
    fn learn_format(&mut self) {
        let ready = self.ready();
        if ready.get(EVENT_TYPE_AT) == Some(&EventType::FormatDescription.code())
            && let Ok(Some(size)) = self.next_size()
            && let Some(bytes) = ready.get(..size)
            && let Ok((_, format)) = describe(bytes)
        {
            self.format = Arc::new(format);
        }
    }

    /// The size of the next event, if all of it is ready and it can stand in this block: only in front of all others
    /// can a format description, and what follows the magic of a next log.
    fn whole_size(&self, block: &Block) -> Result<Option<usize>, ReadError> {
        let ready = self.ready();
        let starts_anew = ready.starts_with(&MAGIC)
            || ready.get(EVENT_TYPE_AT) == Some(&EventType::FormatDescription.code());
        if ready.len() < HEADER_SIZE || (starts_anew && !block.events.is_empty()) {
            return Ok(None);
        }
        Ok(self.next_size()?.filter(|size| *size <= ready.len()))
    }

    /// Sees to it that the next event's header is ready, or that nothing is.
    fn fill_header(&mut self) -> Result<(), ReadError> {
        if self.is_lost {
            return Err(ReadError::Other(ReadError::FAILED));
        }
        if !self.fill(HEADER_SIZE).map_err(ReadError::of_event)? {
            return if self.ready().is_empty() { Ok(()) } else { Err(ReadError::Truncated) };
        }
        if matches!(self.input, Input::Stream(_)) && self.ready().starts_with(&MAGIC) {
            // One log behind the other: the magic of the next is passed over.
            self.take(MAGIC.len());
            if !self.fill(HEADER_SIZE).map_err(ReadError::of_event)? {
                return Err(ReadError::Truncated);
            }
        }
        Ok(())
    }

    /// What the next event's header says of its size, if there is one.
    fn next_size(&self) -> Result<Option<usize>, ReadError> {
        if self.ready().is_empty() {
            return Ok(None);
        }
        match event_size(self.ready()) {
            size if size < HEADER_SIZE => Err(ReadError::BOGUS),
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

    fn ready(&self) -> &[u8] {
        &self.block[self.taken..]
    }

    fn take(&mut self, size: usize) {
        self.taken += size;
        self.position += size as u64;
    }

    /// Sees to it that `wanted` bytes are ready; false if the input ends before.
    ///
    /// Memory grows only as bytes come, whatever a header claims.
    fn fill(&mut self, wanted: usize) -> io::Result<bool> {
        if self.ready().len() >= wanted {
            return Ok(true);
        }
        let mut block = self.spare.take();
        block.reserve(BLOCK_SIZE.max(self.ready().len()));
        block.extend_from_slice(self.ready());
        let mut outcome = Ok(());
        while block.len() < wanted {
            let room = wanted.max(BLOCK_SIZE) - block.len();
            let step = room.min(block.len().max(BLOCK_SIZE));
            let before = block.len();
            outcome = match &mut self.input {
                Input::File(file) => file.read_next(self.position + before as u64, step, &mut block),
                Input::Stream(stream) => stream.by_ref().take(step as u64).read_to_end(&mut block).map(drop),
            };
            if outcome.is_err() || block.len() == before {
                break;
            }
        }
        let block = Bytes::at_home(block, &self.spare);
        self.block = Arc::new(match &self.input {
            Input::File(file) if file.is_regular() => block.of_log(file, self.position),
            Input::File(_) | Input::Stream(_) => block,
        });
        self.taken = 0;
        outcome.map(|()| self.ready().len() >= wanted)
    }
}

/// What an event's header says of its size.
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

    use binlog::{Checksum, Cursor, Event, Header};

    use crate::decode::decode;
    use crate::log_file::LogFile;
    use crate::spool::Away;

    use super::{LargePayload, LargePayloads, Reader};

    const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../samples/types-compressed.binlog");

    fn away(file: &File, offset: u64, size: usize) -> Away {
        let log = LogFile::new(file.try_clone().unwrap()).unwrap();
        Away::in_log(&Arc::new(log), offset, size)
    }

    #[test]
    fn a_payload_in_pieces_is_the_payload() {
        let mut reader =
            Reader::open(SAMPLE.as_bytes(), None, LargePayloads::InPieces, &Arc::default()).unwrap();
        let sample = File::open(SAMPLE).unwrap();
        let mut payloads = 0;
        while let block = reader.next_block()
            && block.end.is_none()
        {
            for range in &block.events {
                let bytes = &block.buffer[range.clone()];
                let header = Header::decode(&mut Cursor::new(bytes)).unwrap();
                let event = decode(bytes, &header, Checksum::Crc32, &block.format);
                let Some(Event::TransactionPayload(payload)) = event else { continue };
                let at = block.position(range.start);
                let large = LargePayload::new(away(&sample, at, bytes.len()), at, Checksum::Crc32).unwrap();
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
        let large = |file: &File| LargePayload::new(away(file, 0, 33), 4, Checksum::Crc32);
        let whole = large(&file).unwrap_or_else(|error| panic!("{}", error.text()));
        assert_eq!(whole.payload(1, 10).unwrap(), b"bc");
        assert!(whole.verify().is_err());
        // A size that reaches over the end of the event.
        file.seek(SeekFrom::Start(24)).unwrap();
        file.write_all(&[4]).unwrap();
        assert!(large(&file).is_err());
    }
}
