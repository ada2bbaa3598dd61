//! Reads a log as mysqlbinlog does, and fails as it fails.
//!
//! Whole events come out whatever they hold; what they mean is for others to say. The log need not start with a
//! format description, positions may lie anywhere, and each way in which a log can end has its own name.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use binlog::{EVENT_SIZE_MAX, HEADER_SIZE, MAGIC, MAGIC_ENCRYPTED};

use crate::event_ref::EventRef;

/// How much is read at a time.
const BLOCK_SIZE: usize = 1 << 20;

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
    const NO_MAGIC: &'static str = "I/O error reading the header from the binary log";
    const BAD_MAGIC: Self = Self::Other(
        "Binlog has bad magic number;  It's not a binary log file that can be used by this version of MySQL",
    );
    const ENCRYPTED: Self = Self::Other("Reading encrypted log files directly is not supported.");

    /// As mysqlbinlog says it.
    pub(crate) const fn text(&self) -> &'static str {
        match self {
            Self::Open(_) => "Could not open log file",
            Self::Io(_, text) | Self::Other(text) => text,
            Self::Truncated => "binlog truncated in the middle of event; consider out of disk space",
        }
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
        const FAILED: &str = "I/O error reading log event";
        let failed = |error| ReadError::Io(error, FAILED);
        if self.is_lost {
            return Err(ReadError::Other(FAILED));
        }
        if !self.fill(HEADER_SIZE).map_err(failed)? {
            return if self.ready().is_empty() { Ok(None) } else { Err(ReadError::Truncated) };
        }
        if matches!(self.input, Input::Stream(_)) && self.ready().starts_with(&MAGIC) {
            // One log behind the other: the magic of the next is passed over.
            self.take(MAGIC.len());
            if !self.fill(HEADER_SIZE).map_err(failed)? {
                return Err(ReadError::Truncated);
            }
        }
        let size = event_size(self.ready());
        if size < HEADER_SIZE {
            return Err(ReadError::BOGUS);
        }
        if size > EVENT_SIZE_MAX as usize {
            return Err(ReadError::TOO_LARGE);
        }
        if !self.fill(size).map_err(failed)? {
            return Err(ReadError::Truncated);
        }
        let event = EventRef::new(Arc::clone(&self.block), self.taken..self.taken + size);
        self.take(size);
        Ok(Some(event))
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
