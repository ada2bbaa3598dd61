//! Reads one log from front to back.

mod resume;

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use binlog::encryption::{ENCRYPTED_HEADER_SIZE, Keyring};
use binlog::{
    Checksum, Cursor, EVENT_SIZE_MAX, EventType, Flags, Format, Framed, Framer, HEADER_SIZE, Header, MAGIC,
    MAGIC_ENCRYPTED, RawEvent,
};

use crate::chunk::{Chunk, LogEvent, LogPlace};
use crate::error::Error;
use crate::input::{Input, Patience};
use crate::keyring::open_header;
use crate::large::LargePayload;
use crate::regular_file::open_regular;

/// Reads one log from front to back, or several concatenated logs.
///
/// At the end, it reports how the log ends. Each further call checks for new events, so that callers follow a growing
/// log by asking from time to time.
#[derive(Debug)]
pub struct LogReader {
    name: String,
    input: Input,
    framer: Framer,
    format: Option<Arc<Format>>,
    /// Bytes that were read, but are not part of a chunk yet.
    tail: Vec<u8>,
    /// Position of the start of `tail`.
    place: LogPlace,
    /// True if the magic number has been read.
    begun: bool,
    keyring: Option<Arc<Keyring>>,
    /// Name of the key, if the log is encrypted.
    decrypting: Option<String>,
    kind: LogKind,
    in_use: bool,
    /// End of the format description.
    format_end: u64,
    closed: bool,
    /// True if the rest of the log is encrypted by MariaDB.
    sealed: bool,
    /// Chunk that [`LogReader::next_event`] takes events from.
    current: Option<Chunk>,
    current_index: usize,
    /// End of the large payload that is being read.
    large_end: Option<u64>,
    recycler: Recycler,
}

/// Result of a read: an item, or the end of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// Item that was read.
    Some(T),
    /// End of the log, at least for now.
    End(End),
}

/// Result of [`LogReader::next_piece`].
#[derive(Debug)]
pub enum Piece<'r> {
    /// Whole events.
    Chunk(Chunk),
    /// Transaction payload that is too large to be read into memory.
    LargePayload(LargePayload<'r>),
}

/// End of a log. Only the caller knows whether more events can follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The log ends with a Rotate or Stop event: its server has closed it.
    Closed,
    /// The log ends with another whole event: its server still writes to it, or crashed, or the log was truncated.
    Open {
        /// True if the format description has the in-use flag. Relay logs never have it.
        in_use: bool,
    },
    /// The log ends within an event: the event is incomplete or torn.
    Torn(Torn),
}

/// Incomplete event at the end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn {
    /// Start of the event: the log is whole up to here.
    pub offset: u64,
    /// Number of bytes of the event in the log.
    pub found: usize,
    /// Expected size of the event, as far as it is known.
    pub wanted: usize,
    /// True if the log's format description has the in-use flag.
    pub in_use: bool,
}

impl fmt::Display for Torn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, found, wanted, in_use } = self;
        match offset {
            0 => write!(out, "is torn at its start: it has {found} bytes")?,
            _ => write!(out, "is torn at {offset}: it has {found} bytes of an event of at least {wanted}")?,
        }
        match in_use {
            true => out.write_str("; its server still writes to it, or crashed"),
            false => Ok(()),
        }
    }
}

/// Kind of a log, by its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Binary log: a server writes the transactions that it commits.
    Binary,
    /// Relay log: a replica writes the events that it receives.
    Relay,
}

impl LogReader {
    /// Opens a file.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened. Only the first read shows whether it is a log.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        Ok(Self::new(path.display().to_string(), Input::open(path)?))
    }

    /// Opens a log that a directory or an index names. It must be a regular file: reading a pipe could wait forever.
    ///
    /// # Errors
    ///
    /// If the file cannot be opened, or is not a regular file.
    pub fn open_stored(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let name = path.display().to_string();
        let file = open_regular(path).map_err(|cause| Error::io("open", &name, cause))?;
        Ok(Self::new(name, Input::file(file)))
    }

    /// Creates a reader of standard input.
    pub fn stdin() -> Self {
        Self::new("standard input".to_owned(), Input::stdin())
    }

    /// Creates a reader of a log in memory.
    pub fn bytes(name: String, bytes: Arc<[u8]>) -> Self {
        Self::new(name, Input::bytes(bytes))
    }

    fn new(name: String, input: Input) -> Self {
        Self {
            name,
            input,
            framer: Framer::new(),
            format: None,
            tail: Vec::new(),
            place: LogPlace { number: 0, offset: 0 },
            begun: false,
            keyring: None,
            decrypting: None,
            kind: LogKind::Binary,
            in_use: false,
            format_end: 0,
            closed: false,
            sealed: false,
            current: None,
            current_index: 0,
            large_end: None,
            recycler: Recycler::default(),
        }
    }

    /// Sets the keyring for an encrypted log. Call it before anything is read.
    #[must_use]
    pub fn with_keyring(mut self, keyring: Arc<Keyring>) -> Self {
        self.keyring = Some(keyring);
        self
    }

    /// Returns the next event, borrowed until the next call.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, is not a log, or has no valid event at this position. All events in front of the
    /// fault have been returned before.
    pub fn next_event(&mut self) -> Result<Next<LogEvent<'_>>, Error> {
        if self.current.as_ref().is_none_or(|chunk| self.current_index == chunk.len()) {
            self.current = None;
            match self.read_chunk(EVENTS_SIZE, Patience::Some, usize::MAX)? {
                Found::Chunk(chunk) => (self.current, self.current_index) = (Some(chunk), 0),
                Found::End(end) => return Ok(Next::End(end)),
                Found::Large(_) => unreachable!("nothing is larger than usize::MAX"),
            }
        }
        let index = self.current_index;
        self.current_index += 1;
        match self.current.as_ref().and_then(|chunk| chunk.get(index)) {
            Some(event) => Ok(Next::Some(event)),
            None => unreachable!("a chunk with events left was seen to"),
        }
    }

    /// Returns as many whole events as fit in `size` bytes, at least one.
    ///
    /// # Errors
    ///
    /// Those of [`LogReader::next_event`].
    pub fn next_chunk(&mut self, size: usize) -> Result<Next<Chunk>, Error> {
        if let Some(chunk) = self.take_current() {
            return Ok(Next::Some(chunk));
        }
        match self.read_chunk(size, Patience::Full, usize::MAX)? {
            Found::Chunk(chunk) => Ok(Next::Some(chunk)),
            Found::End(end) => Ok(Next::End(end)),
            Found::Large(_) => unreachable!("nothing is larger than usize::MAX"),
        }
    }

    /// Does the same as [`LogReader::next_chunk`], except for a transaction payload whose event has more than `large`
    /// bytes: it is returned as a reader of its pieces.
    ///
    /// # Errors
    ///
    /// Those of [`LogReader::next_chunk`].
    pub fn next_piece(&mut self, size: usize, large: usize) -> Result<Next<Piece<'_>>, Error> {
        if let Some(chunk) = self.take_current() {
            return Ok(Next::Some(Piece::Chunk(chunk)));
        }
        match self.read_chunk(size, Patience::Full, large)? {
            Found::Chunk(chunk) => Ok(Next::Some(Piece::Chunk(chunk))),
            Found::End(end) => Ok(Next::End(end)),
            Found::Large(header) => Ok(Next::Some(Piece::LargePayload(self.begin_large(header)?))),
        }
    }

    fn take_current(&mut self) -> Option<Chunk> {
        let chunk = self.current.take()?;
        let rest = chunk.part(self.current_index..chunk.len());
        (!rest.is_empty()).then_some(rest)
    }

    fn begin_large(&mut self, header: Header) -> Result<LargePayload<'_>, Error> {
        let Some(format) = self.format.clone() else { unreachable!("the framer wants a format first") };
        let offset = self.place.offset;
        self.large_end = Some(offset + u64::from(header.size));
        LargePayload::new(self, header, offset, format)
    }

    /// Reads the next bytes of the large payload's event, at least one and up to `count`. They count as read.
    pub(crate) fn read_large(&mut self, count: usize, out: &mut Vec<u8>) -> Result<(), Error> {
        out.clear();
        let count = match self.large_end {
            Some(end) => count.min(usize::try_from(end - self.place.offset).unwrap_or(usize::MAX)),
            None => 0,
        };
        let from_tail = count.min(self.tail.len());
        out.extend(self.tail.drain(..from_tail));
        let read = self.input.read(count - from_tail, Patience::Full, out);
        read.map_err(|cause| Error::io("read", &self.name, cause))?;
        self.place.offset += out.len() as u64;
        Ok(())
    }

    /// Skips to `offset` of the same log, where an event must start. It must not be before the present position.
    ///
    /// The log's format must be known: read its first event before.
    ///
    /// # Errors
    ///
    /// If the log cannot be read, or ends before `offset`.
    ///
    /// # Panics
    ///
    /// If `offset` is less than [`LogReader::position`].
    pub fn skip_to(&mut self, offset: u64) -> Result<(), Error> {
        assert!(offset >= self.position(), "ours: {offset} lies behind {}", self.position());
        if let Some(chunk) = self.current.take() {
            // Events that were read but not returned go back into the tail.
            let rest = chunk.part(self.current_index..chunk.len());
            self.place.offset = rest.offset();
            self.tail.splice(..0, rest.bytes().iter().copied());
        }
        let ahead = offset - self.place.offset;
        let kept = self.tail.len() as u64;
        if ahead <= kept {
            self.tail.drain(..ahead as usize);
        } else {
            self.tail.clear();
            let skipped = self.input.skip(ahead - kept);
            let skipped = skipped.map_err(|cause| Error::io("seek in", &self.name, cause))?;
            if skipped < ahead - kept {
                let size = self.place.offset + kept + skipped;
                return Err(Error::Beyond { name: self.name.clone(), offset, size });
            }
        }
        self.place.offset = offset;
        Ok(())
    }

    /// Puts back the last part of the chunk that was returned last: it is returned next.
    ///
    /// # Panics
    ///
    /// If the part does not end at the present position.
    pub fn give_back(&mut self, rest: Chunk) {
        assert_eq!(rest.end(), self.position(), "ours: it is the end of what was given last");
        (self.current, self.current_index) = (Some(rest), 0);
    }

    /// Returns the present size of the log's file, including the header of an encrypted log; `None` for a stream.
    ///
    /// # Errors
    ///
    /// If the file's metadata cannot be read.
    pub fn size(&self) -> Result<Option<u64>, Error> {
        let rest =
            self.input.rest_size().map_err(|cause| Error::io("read the metadata of", &self.name, cause))?;
        Ok(rest.map(|rest| self.input.position() + rest))
    }

    /// Returns the start of the next event, in bytes from the start of its log.
    pub fn position(&self) -> u64 {
        match &self.current {
            Some(chunk) => chunk.part(self.current_index..chunk.len()).offset(),
            None => self.place.offset,
        }
    }

    /// Returns the file's name as it was given, or `standard input`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the format of the last returned event; `None` before the first event.
    pub fn format(&self) -> Option<&Arc<Format>> {
        self.current.as_ref().map(Chunk::format).or(self.format.as_ref())
    }

    /// Returns whether the log is encrypted. Valid after its first event has been read.
    pub const fn is_encrypted(&self) -> bool {
        self.decrypting.is_some()
    }

    /// Returns the kind of the log. Valid after its first event has been read.
    pub const fn kind(&self) -> LogKind {
        self.kind
    }

    /// Returns whether the log's format description has the in-use flag: the log is still open, or a crash left it so.
    pub const fn in_use(&self) -> bool {
        self.in_use
    }

    /// Returns whether no event after the format description has been read.
    pub(crate) fn is_at_head(&self) -> bool {
        self.position() <= self.format_end.max(MAGIC.len() as u64)
    }

    /// Returns whether the file has been removed, so that it never grows again.
    pub(crate) fn is_removed(&self) -> Result<bool, Error> {
        self.input.is_removed().map_err(|cause| Error::io("read the metadata of", &self.name, cause))
    }

    /// Returns the error for a torn log, for callers that know that it never grows again.
    pub fn torn(&self, torn: Torn) -> Error {
        Error::Torn { name: self.name.clone(), torn }
    }

    fn read_chunk(&mut self, size: usize, patience: Patience, large: usize) -> Result<Found, Error> {
        if let Some(end) = self.large_end.take() {
            self.closed = false;
            self.skip_to(end)?;
        }
        if !self.begun && !self.begin()? {
            return Ok(Found::End(self.end(self.tail.len(), MAGIC.len())));
        }
        let mut run = Run::new(self.recycler.buffer(&mut self.tail, size), size.min(CHUNK_SIZE_MAX));
        match self.fill(&mut run, patience, large) {
            Ok(_) if !run.bounds.is_empty() => Ok(Found::Chunk(self.finish(run))),
            Ok(stop) => {
                self.tail = run.bytes;
                Ok(match stop {
                    Stop::Large(header) => Found::Large(header),
                    Stop::NeedMore(wanted) => Found::End(self.end(self.tail.len(), wanted)),
                    Stop::Torn { found, wanted } => Found::End(self.end(found, wanted)),
                    Stop::Full => unreachable!("a run without events is not full"),
                })
            }
            Err(error) => {
                self.tail = run.bytes;
                Err(error)
            }
        }
    }

    /// Reads the magic number, and the header of an encrypted log in front of it. Returns whether they are complete.
    fn begin(&mut self) -> Result<bool, Error> {
        if !self.read_head(MAGIC.len())? {
            return Ok(false);
        }
        if self.tail.starts_with(&MAGIC_ENCRYPTED) && self.decrypting.is_none() {
            if !self.read_head(ENCRYPTED_HEADER_SIZE)? {
                return Ok(false);
            }
            self.begin_decrypting()?;
            return self.begin();
        }
        match (self.tail.first_chunk(), &self.decrypting) {
            (Some(&MAGIC), _) => {}
            (_, Some(key_id)) => {
                return Err(Error::WrongKey { name: self.name.clone(), key_id: key_id.clone() });
            }
            (found, None) => {
                let found = found.copied().unwrap_or_default();
                return Err(Error::NotALog { name: self.name.clone(), found });
            }
        }
        self.tail.drain(..MAGIC.len());
        self.place.offset = MAGIC.len() as u64;
        self.begun = true;
        Ok(true)
    }

    /// Reads until the tail has `size` bytes. Returns whether it has them.
    fn read_head(&mut self, size: usize) -> Result<bool, Error> {
        while self.tail.len() < size {
            let read = self.input.read(size - self.tail.len(), Patience::Full, &mut self.tail);
            if read.map_err(|cause| Error::io("read", &self.name, cause))? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn begin_decrypting(&mut self) -> Result<(), Error> {
        let Some(header) = self.tail.first_chunk() else { unreachable!("the header has been read") };
        let (password, key_id) = open_header(&self.name, header, self.keyring.as_deref())?;
        self.input.decrypt_from_here(password.cipher());
        self.tail.clear();
        self.decrypting = Some(key_id);
        Ok(())
    }

    /// Adds whole events to the run.
    fn fill(&mut self, run: &mut Run, patience: Patience, large: usize) -> Result<Stop, Error> {
        loop {
            if let Some(header) = large_payload(&run.bytes[run.end..], large) {
                return match run.bounds.is_empty() {
                    true => self.look_at_large(header, run),
                    false => Ok(Stop::Full),
                };
            }
            match self.step(run)? {
                Step::Event => self.take_plain(run, large),
                Step::Full => return Ok(Stop::Full),
                Step::NextLog => self.begin_next_log(run),
                Step::NeedMore(wanted) => {
                    let is_enough = patience == Patience::Some && !run.bounds.is_empty();
                    if is_enough || self.read_more(run, wanted, patience)? == 0 {
                        return Ok(Stop::NeedMore(wanted));
                    }
                }
            }
        }
    }

    /// Checks that the large payload is complete: a torn or unfinished payload must not be started.
    fn look_at_large(&mut self, header: Header, run: &mut Run) -> Result<Stop, Error> {
        let rest =
            self.input.rest_size().map_err(|cause| Error::io("read the metadata of", &self.name, cause))?;
        let wanted = header.size as usize;
        let found =
            rest.map(|rest| run.bytes.len().saturating_add(usize::try_from(rest).unwrap_or(usize::MAX)));
        match found {
            Some(0..) if found < Some(wanted) => {
                self.check_size(run)?;
                // Less, if the file has been truncated.
                let found = found.filter(|_| !run.bytes.is_empty()).unwrap_or(0);
                Ok(Stop::Torn { found, wanted })
            }
            _ => Ok(Stop::Large(header)),
        }
    }

    /// Adds one event to the run, if it is whole and fits.
    fn step(&mut self, run: &mut Run) -> Result<Step, Error> {
        if self.sealed {
            return match run.bounds.is_empty() {
                true => Err(Error::EncryptedByMariadb { name: self.name.clone(), offset: self.place.offset }),
                false => Ok(Step::Full),
            };
        }
        let rest = &run.bytes[run.end..];
        if rest.starts_with(&MAGIC) {
            match starts_log(rest) {
                None => return Ok(Step::NeedMore(LOG_START_SIZE)),
                Some(true) => return Ok(if run.bounds.is_empty() { Step::NextLog } else { Step::Full }),
                Some(false) => {}
            }
        }
        let is_format = rest.get(4) == Some(&EventType::FormatDescription.code());
        // The framer has state: it must not see an event that is left for the next chunk.
        if is_format && !run.bounds.is_empty() || !run.has_room_for(rest) {
            return Ok(Step::Full);
        }
        match self.framer.next(rest) {
            Ok(Framed::NeedMore { wanted }) => Ok(Step::NeedMore(wanted)),
            Ok(Framed::Event(raw)) => {
                if is_format {
                    self.note_format(&raw);
                    self.format_end = self.place.offset + raw.bytes().len() as u64;
                }
                self.sealed = raw.event_type() == EventType::MariadbStartEncryption;
                run.first_checksum.get_or_insert(raw.checksum());
                let size = raw.bytes().len();
                run.push(size);
                Ok(Step::Event)
            }
            // Events in front of the fault are returned first.
            Err(_) if !run.bounds.is_empty() => Ok(Step::Full),
            Err(error) => {
                let (name, offset) = (self.name.clone(), self.place.offset);
                Err(Error::Corrupt { name, offset, error })
            }
        }
    }

    /// Adds events to a non-empty run, as long as only their sizes need to be checked.
    fn take_plain(&self, run: &mut Run, large: usize) {
        let checksum = self.format.as_ref().map_or(Checksum::Absent, |format| format.checksum.for_events());
        let size_min = HEADER_SIZE + checksum.size();
        while let Some(head) = run.bytes[run.end..].first_chunk::<HEADER_SIZE>() {
            let size = u32::from_le_bytes([head[9], head[10], head[11], head[12]]) as usize;
            let end = run.end + size;
            let is_large = head[4] == EventType::TransactionPayload.code() && size > large;
            if head[4] == EventType::FormatDescription.code()
                || head[4] == EventType::MariadbStartEncryption.code()
                || head.starts_with(&MAGIC)
                || is_large
                || !(size_min..=EVENT_SIZE_MAX as usize).contains(&size)
                || end > run.size
                || end > run.bytes.len()
            {
                return;
            }
            run.push(size);
        }
    }

    fn note_format(&mut self, raw: &RawEvent<'_>) {
        self.format = self.framer.format().cloned().map(Arc::new);
        // A relay log also has its source's format description, after its own.
        if self.place.offset == MAGIC.len() as u64 {
            let flags = raw.header().flags;
            self.in_use = flags.contains(Flags::IN_USE);
            self.kind = if flags.contains(Flags::RELAY_LOG) { LogKind::Relay } else { LogKind::Binary };
        }
    }

    fn begin_next_log(&mut self, run: &mut Run) {
        run.bytes.drain(..MAGIC.len());
        self.place = LogPlace { number: self.place.number + 1, offset: MAGIC.len() as u64 };
        self.framer = Framer::new();
        (self.closed, self.sealed) = (false, false);
    }

    fn read_more(&mut self, run: &mut Run, wanted: usize, patience: Patience) -> Result<usize, Error> {
        let (have, wanted) = (run.bytes.len(), run.end + wanted);
        // The size of a large event is only a claim: memory grows only as bytes arrive.
        let target = if wanted <= run.size { run.size } else { wanted.min(run.size.max(2 * have)) };
        run.bytes.reserve_exact(target - have);
        let read = self.input.read(target - have, patience, &mut run.bytes);
        let read = read.map_err(|cause| Error::io("read", &self.name, cause))?;
        if read == 0 {
            self.check_size(run)?;
        }
        Ok(read)
    }

    /// Checks that the file still has the bytes that were read. When its connection breaks, a replica truncates its
    /// relay log after the last whole event: then the bytes read of an incomplete event are dropped.
    fn check_size(&mut self, run: &mut Run) -> Result<(), Error> {
        let io = |cause| Error::io("read the metadata of", &self.name, cause);
        let partial = (run.bytes.len() - run.end) as u64;
        let offset = self.input.position();
        match self.input.shrunk_to().map_err(io)? {
            Some(size) if size + partial >= offset => {
                run.bytes.truncate(run.end);
                self.input.go_back(partial).map_err(io)
            }
            Some(size) => Err(Error::Shrunk { name: self.name.clone(), offset, size }),
            None => Ok(()),
        }
    }

    fn end(&self, found: usize, wanted: usize) -> End {
        let (offset, in_use) = (self.place.offset, self.in_use);
        match found {
            0 if self.closed => End::Closed,
            0 if self.begun => End::Open { in_use },
            _ => End::Torn(Torn { offset, found, wanted, in_use }),
        }
    }

    /// Creates a chunk from the run. The rest of the bytes stays in the tail for the next chunk.
    fn finish(&mut self, mut run: Run) -> Chunk {
        self.tail.clear();
        self.tail.extend_from_slice(&run.bytes[run.end..]);
        run.bytes.truncate(run.end);
        self.closed = run.last().is_some_and(|last| match last.event_type {
            EventType::Stop => true,
            // A relay log also has its source's Rotate events, both artificial and real ones.
            EventType::Rotate if self.kind == LogKind::Relay => last.flags.contains(Flags::RELAY_LOG),
            EventType::Rotate => !last.flags.contains(Flags::ARTIFICIAL),
            _ => false,
        });
        let Some(format) = self.format.clone() else { unreachable!("the framer wants a format first") };
        let log = self.place;
        self.place.offset += run.end as u64;
        let range = 0..run.bounds.len() - 1;
        let first_checksum = run.first_checksum.unwrap_or(Checksum::Absent);
        let bytes = self.recycler.share(run.bytes);
        Chunk { bytes, bounds: Arc::new(run.bounds), range, log, format, first_checksum }
    }
}

/// Number of bytes that [`LogReader::next_event`] reads at once.
const EVENTS_SIZE: usize = 256 << 10;

/// Largest size of a chunk: offsets in it are 32 bits wide.
const CHUNK_SIZE_MAX: usize = 1 << 30;

/// Number of bytes that identify the start of another log: the magic number, and the header of a format description.
const LOG_START_SIZE: usize = MAGIC.len() + HEADER_SIZE;

/// Possible sizes of a format description.
const FORMAT_SIZES: std::ops::RangeInclusive<u32> = 76..=1024;

/// Returns whether another log starts here. An event of 13 September 2028 can have a timestamp with the bytes of the
/// magic number. `None` if there are too few bytes to decide.
fn starts_log(bytes: &[u8]) -> Option<bool> {
    let head = bytes.get(MAGIC.len()..LOG_START_SIZE)?;
    let header = Header::decode(&mut Cursor::new(head)).ok()?;
    let is_format = header.event_type == EventType::FormatDescription && FORMAT_SIZES.contains(&header.size);
    Some(is_format && (header.next_position == header.size + 4 || header.next_position == 0))
}

/// Returns the header if the bytes start with a transaction payload event of more than `large` bytes.
fn large_payload(bytes: &[u8], large: usize) -> Option<Header> {
    let header = Header::decode(&mut Cursor::new(bytes.first_chunk::<HEADER_SIZE>()?)).ok()?;
    let is_large = header.event_type == EventType::TransactionPayload && header.size as usize > large;
    is_large.then_some(header)
}

/// Events collected for a chunk.
#[derive(Debug)]
struct Run {
    bytes: Vec<u8>,
    /// End of the whole events in `bytes`.
    end: usize,
    /// Bounds as in [`Chunk`]; empty without events.
    bounds: Vec<u32>,
    first_checksum: Option<Checksum>,
    size: usize,
}

impl Run {
    fn new(bytes: Vec<u8>, size: usize) -> Self {
        Self { bytes, end: 0, bounds: Vec::new(), first_checksum: None, size }
    }

    /// Returns the header of the last event.
    fn last(&self) -> Option<Header> {
        let start = *self.bounds.get(self.bounds.len().checked_sub(2)?)? as usize;
        Header::decode(&mut Cursor::new(&self.bytes[start..])).ok()
    }

    /// Returns whether the event at the start of `rest` fits, as far as its size is known.
    fn has_room_for(&self, rest: &[u8]) -> bool {
        let size = rest.first_chunk().and_then(|head: &[u8; HEADER_SIZE]| head[9..13].first_chunk());
        let fits = |size: &[u8; 4]| self.end + u32::from_le_bytes(*size) as usize <= self.size;
        self.bounds.is_empty() || size.is_none_or(fits)
    }

    fn push(&mut self, size: usize) {
        if self.bounds.is_empty() {
            self.bounds.push(0);
        }
        self.end += size;
        self.bounds.push(self.end as u32);
    }
}

/// Result of reading a chunk.
enum Found {
    Chunk(Chunk),
    Large(Header),
    End(End),
}

/// Reason for which no more events are added to a run.
enum Stop {
    Full,
    Large(Header),
    /// The first incomplete event has this size.
    NeedMore(usize),
    /// A large payload is incomplete. `found` counts its bytes in the log, including those not read.
    Torn {
        found: usize,
        wanted: usize,
    },
}

/// Result of trying to add one event to a run.
enum Step {
    Event,
    Full,
    NextLog,
    NeedMore(usize),
}

/// Pool of chunk buffers. A buffer is reused once no chunk refers to it: fresh memory costs more than reading into it.
#[derive(Debug, Default)]
struct Recycler {
    shared: Vec<Arc<Vec<u8>>>,
}

/// Largest number of buffers in the pool.
const RECYCLER_MAX: usize = 64;

impl Recycler {
    /// Returns a buffer that starts with the tail, with a capacity of at least `size` bytes.
    fn buffer(&mut self, tail: &mut Vec<u8>, size: usize) -> Vec<u8> {
        if tail.len() >= size {
            return std::mem::take(tail);
        }
        let free = self.shared.iter().position(|shared| Arc::strong_count(shared) == 1);
        let mut buffer = match free.map(|index| Arc::try_unwrap(self.shared.swap_remove(index))) {
            // The memory of one huge event must not be kept forever.
            Some(Ok(buffer)) if buffer.capacity() <= 2 * size => buffer,
            _ => Vec::with_capacity(size),
        };
        buffer.clear();
        buffer.append(tail);
        buffer
    }

    fn share(&mut self, buffer: Vec<u8>) -> Arc<Vec<u8>> {
        let shared = Arc::new(buffer);
        if self.shared.len() == RECYCLER_MAX {
            self.shared.swap_remove(0);
        }
        self.shared.push(Arc::clone(&shared));
        shared
    }
}
