//! Reads a log as mysqlbinlog does, and fails as it fails.
//!
//! Whole events come out whatever they hold; what they mean is for others to say. The log need not start with a
//! format description, positions may lie anywhere, and each way in which a log can end has its own name.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use binlog::{EVENT_SIZE_MAX, EventType, HEADER_SIZE, MAGIC, MAGIC_ENCRYPTED};

use crate::event_ref::EventRef;

/// How much is read at a time.
const BLOCK_SIZE: usize = 256 << 10;

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
    const BOGUS: Self = Self::Other("corrupted data in log event");
    const TOO_LARGE: Self = Self::Other("Event too big");
    const FAILED: &'static str = "I/O error reading log event";
    const NO_MAGIC: &'static str = "I/O error reading the header from the binary log";
    const BAD_MAGIC: Self = Self::Other(
        "Binlog has bad magic number;  It's not a binary log file that can be used by this version of MySQL",
    );
    const ENCRYPTED: Self = Self::Other("Reading encrypted log files directly is not supported.");

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
    pub(crate) buffer: Arc<Vec<u8>>,
    /// Where the buffer starts, in bytes from the start of the input, modulo 2^64.
    base: u64,
    /// Where each event stands in the buffer.
    pub(crate) events: Vec<Range<usize>>,
    /// How the log ends behind them, if it does.
    pub(crate) end: Option<Result<(), ReadError>>,
}

impl Block {
    /// Where a place in the buffer stands, in bytes from the start of the input.
    pub(crate) fn position(&self, place: usize) -> u64 {
        self.base.wrapping_add(place as u64)
    }
}

/// Reads one file, or standard input.
pub(crate) struct Reader<'i> {
    input: Input<'i>,
    /// Read, but not handed out; events that were handed out share what they need of it.
    block: Arc<Vec<u8>>,
    taken: usize,
    /// Where the next event starts.
    position: u64,
    /// That is a place that no file has.
    is_lost: bool,
}

enum Input<'i> {
    File(File),
    Stream(&'i mut (dyn Read + Send)),
}

impl<'i> Reader<'i> {
    /// Opens a log and looks at its first four bytes.
    pub(crate) fn open(name: &[u8]) -> Result<Self, ReadError> {
        let file = File::open(Path::new(OsStr::from_bytes(name))).map_err(ReadError::Open)?;
        Self::begin(Input::File(file))
    }

    /// Reads from a stream, behind whose first log others may follow.
    pub(crate) fn stream(stream: &'i mut (dyn Read + Send)) -> Result<Self, ReadError> {
        Self::begin(Input::Stream(stream))
    }

    fn begin(input: Input<'i>) -> Result<Self, ReadError> {
        let mut reader = Self { input, block: Arc::default(), taken: 0, position: 0, is_lost: false };
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
            Input::File(file) => file.seek(SeekFrom::Start(position)).map(drop),
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
                self.take(size);
                Ok(Some(event))
            }
        }
    }

    /// Some whole events. Nothing comes behind a block that says how the log ends.
    pub(crate) fn next_block(&mut self) -> Block {
        let start = self.position;
        let end = self.fill_header().and_then(|()| match self.next_size()? {
            None => Ok(true),
            Some(size) => self.fill_event(size).map(|()| false),
        });
        let base = self.position.wrapping_sub(self.taken as u64);
        let mut block = Block { start, buffer: Arc::clone(&self.block), base, events: Vec::new(), end: None };
        match end {
            Ok(true) => block.end = Some(Ok(())),
            Ok(false) => {}
            Err(error) => block.end = Some(Err(error)),
        }
        while block.end.is_none() {
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

    /// The size of the next event, if all of it is ready and it can stand in this block: only in front of all others
    /// can a format description, and what follows the magic of a next log.
    fn whole_size(&self, block: &Block) -> Result<Option<usize>, ReadError> {
        const EVENT_TYPE_AT: usize = 4;
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
        let mut block = Vec::with_capacity(BLOCK_SIZE.max(self.ready().len()));
        block.extend_from_slice(self.ready());
        let mut outcome = Ok(());
        while block.len() < wanted {
            let room = wanted.max(BLOCK_SIZE) - block.len();
            let step = room.min(block.len().max(BLOCK_SIZE));
            let before = block.len();
            outcome = match &mut self.input {
                Input::File(file) => file.take(step as u64).read_to_end(&mut block).map(drop),
                Input::Stream(stream) => stream.by_ref().take(step as u64).read_to_end(&mut block).map(drop),
            };
            if outcome.is_err() || block.len() == before {
                break;
            }
        }
        self.block = Arc::new(block);
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
