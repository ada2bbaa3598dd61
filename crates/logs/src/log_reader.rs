//! Sequential reader of one log.

mod resume;

use std::fmt;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

use binlog::encryption::{ENCRYPTED_HEADER_SIZE, Keyring};
use binlog::{
    Cursor, EVENT_SIZE_MAX, EventChecksum, EventFlags, EventFormat, EventHeader, EventType, Framer,
    FramerOutput, HEADER_SIZE, MAGIC, MAGIC_ENCRYPTED, RawEvent,
};

use crate::archived_logs::open_archived_log;
use crate::error::LogError;
use crate::event_chunk::{EventChunk, InputPosition, LogEvent};
use crate::keyring::{open_header, read_keyring};
use crate::large_payload::LargePayload;
use crate::log_input::{LogInput, ReadMode};
use crate::regular_file::open_regular;

/// Sequential reader of one log. A stream may contain several concatenated logs, as for mysqlbinlog on standard input.
/// In a file, a second log is an error: servers and mysqlbinlog ignore it.
///
/// At the end, reports the state of the log's end. Each further call checks for new events, so that callers can follow
/// a growing log by calling at intervals.
#[derive(Debug)]
pub struct LogReader {
    name: String,
    input: LogInput,
    framer: Framer,
    format: Option<Arc<EventFormat>>,
    /// Bytes that were read, but are not part of a chunk yet.
    tail: Vec<u8>,
    /// Position of the start of `tail`.
    tail_start: InputPosition,
    state: ReadState,
    keyring: Option<Arc<Keyring>>,
    /// Name of the key, if the log is encrypted.
    decryption_key_id: Option<String>,
    kind: LogKind,
    in_use: bool,
    /// End of the format description.
    format_end: u64,
    /// Time of the first event: the log's creation, in seconds since 1970.
    created_at: Option<u32>,
    /// Chunk from which [`LogReader::next_event`] takes events.
    current: Option<EventChunk>,
    current_index: usize,
    buffer_pool: BufferPool,
}

/// State of a reader: what it reads next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadState {
    /// The magic number, or the header of an encrypted log.
    LogStart,
    /// An event.
    Events,
    /// Nothing, unless the log grows: the last event has closed it.
    Closed,
    /// The rest of an event that is too large for memory.
    LargeEvent {
        /// Start of the event.
        start: u64,
        /// End of the event.
        end: u64,
    },
    /// Events that MariaDB has encrypted.
    MariadbCiphertext,
}

/// Result of a read: an item, or the end of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadOutcome<T> {
    /// Item that was read.
    Some(T),
    /// End of the log, at least for now.
    End(EndOfLog),
}

/// Result of [`LogReader::next_piece`].
#[derive(Debug)]
pub enum LogPiece<'r> {
    /// Whole events.
    Chunk(EventChunk),
    /// Transaction payload that is too large for memory.
    LargePayload(LargePayload<'r>),
}

/// Result of [`LogReader::next_raw_piece`].
#[derive(Clone, Debug)]
pub enum RawPiece {
    /// Whole events.
    Chunk(EventChunk),
    /// Header of an event that is too large for memory. [`LogReader::read_raw_bytes`] reads the event's bytes, including
    /// the header.
    LargeEvent(EventHeader),
}

/// End of a log. Only the caller knows whether more events can follow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndOfLog {
    /// The log ends with a Rotate or Stop event: the server has closed it.
    Closed,
    /// The log ends with another whole event: the server still writes the log, or crashed, or the log was truncated.
    Open {
        /// True if the format description has the in-use flag. Relay logs never have it.
        in_use: bool,
    },
    /// The log ends within an event, or before its first event: the event is incomplete or torn.
    Torn(TornEvent),
}

/// Incomplete event at the end of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TornEvent {
    /// Start of the event: the log is whole up to here.
    pub offset: u64,
    /// Number of bytes of the event in the log.
    pub found: usize,
    /// Expected size of the event, or of its header if the size is still unknown.
    pub expected: usize,
    /// True if the log's format description has the in-use flag.
    pub in_use: bool,
}

impl TornEvent {
    /// Returns whether the log has whole events before this one, at least its format description.
    pub const fn follows_events(&self) -> bool {
        self.offset > MAGIC.len() as u64
    }
}

impl fmt::Display for TornEvent {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { offset, found, expected, in_use } = self;
        match (offset, found) {
            (0, 0) => out.write_str("is empty: omit it, or give the complete log")?,
            (0, _) => write!(out, "is torn at its start: it has {found} bytes")?,
            (4, 0) => out.write_str("has no events: it contains only the magic number of a binary log")?,
            _ => write!(out, "is torn at {offset}: it has {found} bytes of an event of at least {expected}")?,
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
    /// Fails if the file cannot be opened. The first read checks whether the file is a log.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LogError> {
        let path = path.as_ref();
        Ok(Self::new(path.display().to_string(), LogInput::open(path)?))
    }

    /// Opens a log listed by a directory or an index. Must be a regular file, because reading a pipe could block
    /// forever.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be opened, or is not a regular file.
    pub fn open_stored(path: impl AsRef<Path>) -> Result<Self, LogError> {
        let path = path.as_ref();
        let name = path.display().to_string();
        if let Some(archived) = open_archived_log(path) {
            return Ok(Self::new(name, LogInput::archived(archived?)));
        }
        let file = open_regular(path).map_err(|cause| LogError::io("open", &name, cause))?;
        Ok(Self::new(name, LogInput::file(file)))
    }

    /// Creates a reader of standard input.
    pub fn from_stdin() -> Self {
        Self::new("standard input".to_owned(), LogInput::stdin())
    }

    /// Creates a reader of a log in memory.
    pub fn from_bytes(name: String, bytes: Arc<[u8]>) -> Self {
        Self::new(name, LogInput::bytes(bytes))
    }

    fn new(name: String, input: LogInput) -> Self {
        Self {
            name,
            input,
            framer: Framer::new(),
            format: None,
            tail: Vec::new(),
            tail_start: InputPosition { number: 0, offset: 0 },
            state: ReadState::LogStart,
            keyring: None,
            decryption_key_id: None,
            kind: LogKind::Binary,
            in_use: false,
            format_end: 0,
            created_at: None,
            current: None,
            current_index: 0,
            buffer_pool: BufferPool::default(),
        }
    }

    /// Sets the keyring for an encrypted log. Call it before anything is read.
    #[must_use]
    pub fn with_keyring(mut self, keyring: Arc<Keyring>) -> Self {
        self.keyring = Some(keyring);
        self
    }

    /// Sets the keyring of this file, if one is given. Call it before anything is read. The file is read again for each
    /// log, because keys are rotated.
    ///
    /// # Errors
    ///
    /// Fails as [`read_keyring`] does.
    pub fn with_keyring_file(self, keyring: Option<impl AsRef<Path>>) -> Result<Self, LogError> {
        match keyring {
            Some(keyring) => Ok(self.with_keyring(Arc::new(read_keyring(keyring)?))),
            None => Ok(self),
        }
    }

    /// Returns the next event, borrowed until the next call.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is not a log, or has no valid event at this position. All events before the
    /// fault have been returned before.
    pub fn next_event(&mut self) -> Result<ReadOutcome<LogEvent<'_>>, LogError> {
        if self.current.as_ref().is_none_or(|chunk| self.current_index == chunk.len()) {
            self.current = None;
            match self.read_chunk(EVENTS_READ_SIZE, ReadMode::Available, LargeEvents::None)? {
                NextChunk::Chunk(chunk) => (self.current, self.current_index) = (Some(chunk), 0),
                NextChunk::End(end) => return Ok(ReadOutcome::End(end)),
                NextChunk::Large(_) => unreachable!("ours: large events are returned whole"),
            }
        }
        let index = self.current_index;
        self.current_index += 1;
        match self.current.as_ref().and_then(|chunk| chunk.get(index)) {
            Some(event) => Ok(ReadOutcome::Some(event)),
            None => unreachable!("ours: the chunk has further events"),
        }
    }

    /// Returns as many whole events as fit in `size` bytes, at least one.
    ///
    /// # Errors
    ///
    /// Fails as [`LogReader::next_event`] does.
    pub fn next_chunk(&mut self, size: usize) -> Result<ReadOutcome<EventChunk>, LogError> {
        if let Some(chunk) = self.take_current() {
            return Ok(ReadOutcome::Some(chunk));
        }
        match self.read_chunk(size, ReadMode::Full, LargeEvents::None)? {
            NextChunk::Chunk(chunk) => Ok(ReadOutcome::Some(chunk)),
            NextChunk::End(end) => Ok(ReadOutcome::End(end)),
            NextChunk::Large(_) => unreachable!("ours: large events are returned whole"),
        }
    }

    /// Does the same as [`LogReader::next_chunk`], but returns a reader of pieces for a transaction payload event of
    /// more than `large` bytes.
    ///
    /// # Errors
    ///
    /// Fails as [`LogReader::next_chunk`] does.
    pub fn next_piece(&mut self, size: usize, large: usize) -> Result<ReadOutcome<LogPiece<'_>>, LogError> {
        if let Some(chunk) = self.take_current() {
            return Ok(ReadOutcome::Some(LogPiece::Chunk(chunk)));
        }
        match self.read_chunk(size, ReadMode::Full, LargeEvents::Payloads(large))? {
            NextChunk::Chunk(chunk) => Ok(ReadOutcome::Some(LogPiece::Chunk(chunk))),
            NextChunk::End(end) => Ok(ReadOutcome::End(end)),
            NextChunk::Large(header) => {
                Ok(ReadOutcome::Some(LogPiece::LargePayload(self.begin_large(header)?)))
            }
        }
    }

    /// Does the same as [`LogReader::next_chunk`], but returns only the header of an event of more than `large` bytes. For
    /// callers that forward events. The next call skips unread bytes of the event.
    ///
    /// # Errors
    ///
    /// Fails as [`LogReader::next_chunk`] does.
    pub fn next_raw_piece(&mut self, size: usize, large: usize) -> Result<ReadOutcome<RawPiece>, LogError> {
        if let Some(chunk) = self.take_current() {
            return Ok(ReadOutcome::Some(RawPiece::Chunk(chunk)));
        }
        Ok(match self.read_chunk(size, ReadMode::Full, LargeEvents::Any(large))? {
            NextChunk::Chunk(chunk) => ReadOutcome::Some(RawPiece::Chunk(chunk)),
            NextChunk::End(end) => ReadOutcome::End(end),
            NextChunk::Large(header) => {
                self.begin_large_event(&header);
                ReadOutcome::Some(RawPiece::LargeEvent(header))
            }
        })
    }

    /// Appends the next bytes of the event that the last [`LogReader::next_raw_piece`] returned, until `out` has `size`
    /// bytes or the event ends.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read, or ends within the event.
    pub fn read_raw_bytes(&mut self, size: usize, out: &mut Vec<u8>) -> Result<(), LogError> {
        while let ReadState::LargeEvent { start: offset, end } = self.state
            && out.len() < size
            && self.tail_start.offset < end
        {
            if self.append_large(size - out.len(), out)? == 0 {
                let in_use = self.in_use;
                let [found, expected] = [self.tail_start.offset, end].map(|to| (to - offset) as usize);
                return Err(self.torn_error(TornEvent { offset, found, expected, in_use }));
            }
        }
        Ok(())
    }

    fn take_current(&mut self) -> Option<EventChunk> {
        let chunk = self.current.take()?;
        let rest = chunk.part(self.current_index..chunk.len());
        (!rest.is_empty()).then_some(rest)
    }

    fn begin_large(&mut self, header: EventHeader) -> Result<LargePayload<'_>, LogError> {
        let Some(format) = self.format.clone() else {
            unreachable!("ours: the framer requires a format first")
        };
        let offset = self.begin_large_event(&header);
        LargePayload::new(self, header, offset, format)
    }

    /// Records that the bytes of a large event are read next. Returns the start of the event.
    fn begin_large_event(&mut self, header: &EventHeader) -> u64 {
        assert!(header.size as usize > HEADER_SIZE, "ours: a large event has more than its header");
        let start = self.tail_start.offset;
        self.state = ReadState::LargeEvent { start, end: start + u64::from(header.size) };
        start
    }

    /// Records that an event is read next, after a change of the position.
    fn expect_event(&mut self) {
        self.state = match self.state {
            ReadState::LogStart | ReadState::MariadbCiphertext => self.state,
            ReadState::Events | ReadState::Closed | ReadState::LargeEvent { .. } => ReadState::Events,
        };
    }

    /// Reads the next bytes of the large event, at least one and up to `count`. They count as read.
    pub(crate) fn read_large(&mut self, count: usize, out: &mut Vec<u8>) -> Result<(), LogError> {
        out.clear();
        self.append_large(count, out).map(drop)
    }

    /// Appends the next bytes of the large event, up to `count`. Returns their number.
    fn append_large(&mut self, count: usize, out: &mut Vec<u8>) -> Result<usize, LogError> {
        let before = out.len();
        let count = match self.state {
            ReadState::LargeEvent { end, .. } => {
                count.min(usize::try_from(end - self.tail_start.offset).unwrap_or(usize::MAX))
            }
            _ => 0,
        };
        let from_tail = count.min(self.tail.len());
        out.extend_from_slice(&self.tail[..from_tail]);
        self.tail.drain(..from_tail);
        let read = self.input.read(count - from_tail, ReadMode::Full, out);
        read.map_err(|cause| LogError::io("read", &self.name, cause))?;
        self.tail_start.offset += (out.len() - before) as u64;
        Ok(out.len() - before)
    }

    /// Skips to `offset` of the same log, where an event must start. The offset must not be before the present
    /// position.
    ///
    /// The log's format must be known: read its first event before.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read, or ends before `offset`.
    ///
    /// # Panics
    ///
    /// If `offset` is less than [`LogReader::position`].
    pub fn skip_to(&mut self, offset: u64) -> Result<(), LogError> {
        assert!(offset >= self.position(), "ours: {offset} is before {}", self.position());
        if let Some(chunk) = self.current.take() {
            // Move events that were read but not returned back into the tail.
            let rest = chunk.part(self.current_index..chunk.len());
            self.tail_start.offset = rest.offset();
            self.tail.splice(..0, rest.bytes().iter().copied());
        }
        let ahead = offset - self.tail_start.offset;
        let kept = self.tail.len() as u64;
        if ahead <= kept {
            self.tail.drain(..ahead as usize);
        } else {
            self.tail.clear();
            let skipped = self.input.skip(ahead - kept);
            let skipped = skipped.map_err(|cause| LogError::io("seek in", &self.name, cause))?;
            if skipped < ahead - kept {
                let size = self.tail_start.offset + kept + skipped;
                return Err(LogError::PastEnd { name: self.name.clone(), offset, size });
            }
        }
        self.tail_start.offset = offset;
        assert_eq!(self.position(), offset, "ours: the next event starts at the requested offset");
        Ok(())
    }

    /// Puts back the end of the last returned chunk. The next call returns it.
    ///
    /// # Panics
    ///
    /// If the part does not end at the present position.
    pub fn put_back(&mut self, rest: EventChunk) {
        assert_eq!(rest.end(), self.position(), "ours: the part is the end of the last chunk");
        (self.current, self.current_index) = (Some(rest), 0);
    }

    /// Returns the present size of the log's file, including the header of an encrypted log; `None` for a stream.
    ///
    /// # Errors
    ///
    /// Fails if the file's metadata cannot be read.
    pub fn size(&self) -> Result<Option<u64>, LogError> {
        let rest = self
            .input
            .remaining_size()
            .map_err(|cause| LogError::io("read the metadata of", &self.name, cause))?;
        Ok(rest.map(|rest| self.input.position() + rest))
    }

    /// Returns the start of the next event, in bytes from the start of its log.
    pub fn position(&self) -> u64 {
        match &self.current {
            Some(chunk) => chunk.part(self.current_index..chunk.len()).offset(),
            None => self.tail_start.offset,
        }
    }

    /// Returns the file's name, as given, or `standard input`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the format of the last returned event; `None` before the first event.
    pub fn format(&self) -> Option<&Arc<EventFormat>> {
        self.current.as_ref().map(EventChunk::format).or(self.format.as_ref())
    }

    /// Returns whether the log is encrypted. Valid after its first event has been read.
    pub const fn is_encrypted(&self) -> bool {
        self.decryption_key_id.is_some()
    }

    /// Returns the kind of the log. Valid after its first event has been read.
    pub const fn kind(&self) -> LogKind {
        self.kind
    }

    /// Returns whether the log's format description has the in-use flag: the log is still open, or a crash left the
    /// flag set.
    pub const fn in_use(&self) -> bool {
        self.in_use
    }

    /// Returns whether no event after the format description has been read.
    pub(crate) fn is_at_head(&self) -> bool {
        self.position() <= self.format_end.max(MAGIC.len() as u64)
    }

    /// Returns whether the file was removed: it never grows again.
    pub(crate) fn is_removed(&self) -> Result<bool, LogError> {
        self.input.is_removed().map_err(|cause| LogError::io("read the metadata of", &self.name, cause))
    }

    /// Returns whether the file was removed, and `path` is a log that was created at another time, in whole seconds.
    /// Rewriting a log, for example to compress it, replaces the file, but keeps the time.
    pub(crate) fn is_replaced_by_log(&self, path: &Path) -> Result<bool, LogError> {
        if !self.is_removed()? || !path.exists() {
            return Ok(false);
        }
        let mut other = match Self::open_stored(path) {
            Err(LogError::Io { cause, .. }) if cause.kind() == ErrorKind::NotFound => return Ok(false),
            other => other?,
        };
        other.keyring.clone_from(&self.keyring);
        if let Err(error) = other.next_event() {
            return match error {
                // The key was rotated: only a new log has another key.
                LogError::MissingKey { .. } => Ok(true),
                error => Err(error),
            };
        }
        Ok(other.created_at.is_some() && other.created_at != self.created_at)
    }

    /// Returns the error for a torn log. For callers that know that the log no longer grows.
    pub fn torn_error(&self, torn: TornEvent) -> LogError {
        LogError::Torn { name: self.name.clone(), torn }
    }

    fn read_chunk(&mut self, size: usize, mode: ReadMode, large: LargeEvents) -> Result<NextChunk, LogError> {
        if let ReadState::LargeEvent { end, .. } = self.state {
            self.state = ReadState::Events;
            self.skip_to(end)?;
        }
        if self.state == ReadState::LogStart && !self.read_magic()? {
            return Ok(NextChunk::End(self.end_of_log(self.tail.len(), MAGIC.len())));
        }
        let mut run =
            ChunkBuilder::new(self.buffer_pool.take_buffer(&mut self.tail, size), size.min(CHUNK_SIZE_MAX));
        match self.fill(&mut run, mode, large) {
            Ok(_) if !run.bounds.is_empty() => Ok(NextChunk::Chunk(self.build_chunk(run))),
            Ok(stop) => {
                self.tail = run.bytes;
                Ok(match stop {
                    FillStop::Large(header) => NextChunk::Large(header),
                    FillStop::NeedMore(needed) => NextChunk::End(self.end_of_log(self.tail.len(), needed)),
                    FillStop::Torn { found, expected } => NextChunk::End(self.end_of_log(found, expected)),
                    FillStop::Full => unreachable!("ours: a run without events is not full"),
                })
            }
            Err(error) => {
                self.tail = run.bytes;
                Err(error)
            }
        }
    }

    /// Reads the magic number, after the header if the log is encrypted. Returns whether both are complete.
    fn read_magic(&mut self) -> Result<bool, LogError> {
        if !self.read_head(MAGIC.len())? {
            return Ok(false);
        }
        if self.tail.starts_with(&MAGIC_ENCRYPTED) && self.decryption_key_id.is_none() {
            if !self.read_head(ENCRYPTED_HEADER_SIZE)? {
                return Ok(false);
            }
            self.read_encrypted_header()?;
            return self.read_magic();
        }
        match (self.tail.first_chunk(), &self.decryption_key_id) {
            (Some(&MAGIC), _) => {}
            (_, Some(key_id)) => {
                return Err(LogError::WrongKey { name: self.name.clone(), key_id: key_id.clone() });
            }
            (found, None) => {
                let found = found.copied().unwrap_or_default();
                return Err(LogError::NotALog { name: self.name.clone(), found });
            }
        }
        self.tail.drain(..MAGIC.len());
        self.tail_start.offset = MAGIC.len() as u64;
        self.state = ReadState::Events;
        Ok(true)
    }

    /// Reads until the tail has `size` bytes. Returns whether it has that many bytes.
    fn read_head(&mut self, size: usize) -> Result<bool, LogError> {
        while self.tail.len() < size {
            let read = self.input.read(size - self.tail.len(), ReadMode::Full, &mut self.tail);
            if read.map_err(|cause| LogError::io("read", &self.name, cause))? == 0 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn read_encrypted_header(&mut self) -> Result<(), LogError> {
        let Some(header) = self.tail.first_chunk() else { unreachable!("ours: the header was read") };
        let (password, key_id) = open_header(&self.name, header, self.keyring.as_deref())?;
        self.input.decrypt_from_here(password.cipher());
        self.tail.clear();
        self.decryption_key_id = Some(key_id);
        Ok(())
    }

    /// Adds whole events to the run.
    fn fill(
        &mut self,
        run: &mut ChunkBuilder,
        mode: ReadMode,
        large: LargeEvents,
    ) -> Result<FillStop, LogError> {
        loop {
            // The framer reports an event that is not allowed here, however large it is.
            let is_expected = self.framer.format().is_some() && self.state != ReadState::MariadbCiphertext;
            if is_expected && let Some(header) = large.header(&run.bytes[run.end..]) {
                return match run.bounds.is_empty() {
                    true => self.check_large(header, run),
                    false => Ok(FillStop::Full),
                };
            }
            match self.take_event(run)? {
                FillStep::Event => self.take_plain_events(run, large),
                FillStep::Full => return Ok(FillStop::Full),
                FillStep::NextLog => self.begin_next_log(run)?,
                FillStep::NeedMore(needed) => {
                    let is_enough = mode == ReadMode::Available && !run.bounds.is_empty();
                    if is_enough || self.read_more(run, needed, mode)? == 0 {
                        return Ok(FillStop::NeedMore(needed));
                    }
                }
            }
        }
    }

    /// Checks that the large event is complete, because a torn or incomplete event must not be returned.
    fn check_large(&mut self, header: EventHeader, run: &mut ChunkBuilder) -> Result<FillStop, LogError> {
        assert!(run.bounds.is_empty(), "ours: the events in front of a large event are returned first");
        let rest = self
            .input
            .remaining_size()
            .map_err(|cause| LogError::io("read the metadata of", &self.name, cause))?;
        let expected = header.size as usize;
        let found =
            rest.map(|rest| run.bytes.len().saturating_add(usize::try_from(rest).unwrap_or(usize::MAX)));
        match found {
            Some(0..) if found < Some(expected) => {
                self.check_truncation(run)?;
                // The size can be smaller if the file was truncated.
                let found = found.filter(|_| !run.bytes.is_empty()).unwrap_or(0);
                Ok(FillStop::Torn { found, expected })
            }
            _ => Ok(FillStop::Large(header)),
        }
    }

    /// Adds one event to the run, if it is whole and fits.
    fn take_event(&mut self, run: &mut ChunkBuilder) -> Result<FillStep, LogError> {
        if self.state == ReadState::MariadbCiphertext {
            return match run.bounds.is_empty() {
                true => Err(LogError::EncryptedByMariadb {
                    name: self.name.clone(),
                    offset: self.tail_start.offset,
                }),
                false => Ok(FillStep::Full),
            };
        }
        let rest = &run.bytes[run.end..];
        if rest.starts_with(&MAGIC) {
            match starts_log(rest) {
                None => return Ok(FillStep::NeedMore(LOG_START_SIZE)),
                Some(true) => {
                    return Ok(if run.bounds.is_empty() { FillStep::NextLog } else { FillStep::Full });
                }
                Some(false) => {}
            }
        }
        let is_format = rest.get(4) == Some(&EventType::FormatDescription.code());
        // The framer has state, so it must not get an event that is left for the next chunk.
        if is_format && !run.bounds.is_empty() || !run.has_room_for(rest) {
            return Ok(FillStep::Full);
        }
        match self.framer.next(rest) {
            Ok(FramerOutput::NeedMore { needed }) => Ok(FillStep::NeedMore(needed)),
            Ok(FramerOutput::Event(raw)) => {
                if is_format {
                    self.set_format(&raw);
                    self.format_end = self.tail_start.offset + raw.bytes().len() as u64;
                }
                if raw.header().starts_encryption() {
                    self.state = ReadState::MariadbCiphertext;
                }
                run.first_checksum.get_or_insert(raw.checksum());
                let size = raw.bytes().len();
                run.push(size);
                Ok(FillStep::Event)
            }
            // Events before the fault are returned first.
            Err(_) if !run.bounds.is_empty() => Ok(FillStep::Full),
            Err(error) => {
                let (name, offset) = (self.name.clone(), self.tail_start.offset);
                Err(LogError::Corrupt { name, offset, error })
            }
        }
    }

    /// Adds events to a non-empty run, as long as only their sizes need to be checked.
    fn take_plain_events(&self, run: &mut ChunkBuilder, large: LargeEvents) {
        if self.state == ReadState::MariadbCiphertext {
            return;
        }
        let checksum =
            self.format.as_ref().map_or(EventChecksum::Absent, |format| format.checksum.for_events());
        let size_min = HEADER_SIZE + checksum.size();
        while let Some(head) = run.bytes[run.end..].first_chunk::<HEADER_SIZE>() {
            let size = EventHeader::peek_size(head) as usize;
            let end = run.end + size;
            if head[4] == EventType::FormatDescription.code()
                || head[4] == EventType::MariadbStartEncryption.code()
                || head.starts_with(&MAGIC)
                || large.contains(head[4], size)
                || !(size_min..=EVENT_SIZE_MAX as usize).contains(&size)
                || end > run.size
                || end > run.bytes.len()
            {
                return;
            }
            run.push(size);
        }
    }

    fn set_format(&mut self, raw: &RawEvent<'_>) {
        self.format = self.framer.format().cloned().map(Arc::new);
        // A relay log also contains the source's format description, after its own.
        if self.tail_start.offset == MAGIC.len() as u64 {
            self.created_at = Some(raw.header().timestamp);
            let flags = raw.header().flags;
            self.in_use = flags.contains(EventFlags::IN_USE);
            self.kind = if flags.contains(EventFlags::RELAY_LOG) { LogKind::Relay } else { LogKind::Binary };
        }
    }

    fn begin_next_log(&mut self, run: &mut ChunkBuilder) -> Result<(), LogError> {
        assert!(run.bounds.is_empty() && run.end == 0, "ours: a chunk has events of one log");
        let is_stream = self.input.is_stream();
        if !is_stream.map_err(|cause| LogError::io("read the metadata of", &self.name, cause))? {
            return Err(LogError::SecondLog { name: self.name.clone(), offset: self.tail_start.offset });
        }
        run.bytes.drain(..MAGIC.len());
        self.tail_start = InputPosition { number: self.tail_start.number + 1, offset: MAGIC.len() as u64 };
        self.framer = Framer::new();
        self.state = ReadState::Events;
        Ok(())
    }

    fn read_more(
        &mut self,
        run: &mut ChunkBuilder,
        needed: usize,
        mode: ReadMode,
    ) -> Result<usize, LogError> {
        let (have, needed) = (run.bytes.len(), run.end + needed);
        // Do not trust the size in a large event's header: memory grows only as bytes arrive.
        let target = if needed <= run.size { run.size } else { needed.min(run.size.max(2 * have)) };
        run.bytes.reserve_exact(target - have);
        let read = self.input.read(target - have, mode, &mut run.bytes);
        let read = read.map_err(|cause| LogError::io("read", &self.name, cause))?;
        if read == 0 {
            self.check_truncation(run)?;
        }
        Ok(read)
    }

    /// Checks that the file still has the bytes that were read. After a lost connection, a replica truncates its relay
    /// log after the last whole event. The read bytes of the incomplete event are then dropped.
    fn check_truncation(&mut self, run: &mut ChunkBuilder) -> Result<(), LogError> {
        let io = |cause| LogError::io("read the metadata of", &self.name, cause);
        let partial = (run.bytes.len() - run.end) as u64;
        let offset = self.input.position();
        match self.input.shrunk_to().map_err(io)? {
            Some(size) if size + partial >= offset => {
                run.bytes.truncate(run.end);
                self.input.seek_back(partial).map_err(io)
            }
            Some(size) => Err(LogError::Truncated { name: self.name.clone(), offset, size }),
            None => Ok(()),
        }
    }

    fn end_of_log(&self, found: usize, expected: usize) -> EndOfLog {
        let (offset, in_use) = (self.tail_start.offset, self.in_use);
        match found {
            0 if self.state == ReadState::Closed => EndOfLog::Closed,
            0 if self.format.is_some() => EndOfLog::Open { in_use },
            _ => EndOfLog::Torn(TornEvent { offset, found, expected, in_use }),
        }
    }

    /// Creates a chunk from the run. Keeps the remaining bytes in the tail for the next chunk.
    fn build_chunk(&mut self, mut run: ChunkBuilder) -> EventChunk {
        self.tail.clear();
        self.tail.extend_from_slice(&run.bytes[run.end..]);
        run.bytes.truncate(run.end);
        let is_closed = run.last().is_some_and(|last| match last.event_type {
            EventType::Stop => true,
            // A relay log also contains the source's Rotate events, artificial and real ones.
            EventType::Rotate if self.kind == LogKind::Relay => last.flags.contains(EventFlags::RELAY_LOG),
            EventType::Rotate => !last.flags.contains(EventFlags::ARTIFICIAL),
            _ => false,
        });
        self.state = match self.state {
            ReadState::MariadbCiphertext => ReadState::MariadbCiphertext,
            _ if is_closed => ReadState::Closed,
            _ => ReadState::Events,
        };
        let Some(format) = self.format.clone() else {
            unreachable!("ours: the framer requires a format first")
        };
        assert!(run.bounds.len() > 1, "ours: a chunk has an event");
        assert_eq!(run.bytes.len(), run.end, "ours: a chunk ends with its last event");
        let log = self.tail_start;
        self.tail_start.offset += run.end as u64;
        let range = 0..run.bounds.len() - 1;
        let first_checksum = run.first_checksum.unwrap_or(EventChecksum::Absent);
        let bytes = self.buffer_pool.share(run.bytes);
        EventChunk { bytes, bounds: Arc::new(run.bounds), range, log, format, first_checksum }
    }
}

/// Number of bytes that [`LogReader::next_event`] reads at once.
const EVENTS_READ_SIZE: usize = 256 << 10;

/// Maximum size of a chunk: its offsets have 32 bits.
const CHUNK_SIZE_MAX: usize = 1 << 30;

/// Number of bytes that identify the start of another log: the magic number, and the header of a format description.
const LOG_START_SIZE: usize = MAGIC.len() + HEADER_SIZE;

/// Possible sizes of a format description.
const FORMAT_SIZES: std::ops::RangeInclusive<u32> = 76..=1024;

/// Returns whether another log starts here. An event of 13 September 2028 can have a timestamp with the bytes of the
/// magic number. `None` if there are too few bytes to decide.
fn starts_log(bytes: &[u8]) -> Option<bool> {
    let head = bytes.get(MAGIC.len()..LOG_START_SIZE)?;
    let header = EventHeader::decode(&mut Cursor::new(head)).ok()?;
    let is_format = header.event_type == EventType::FormatDescription && FORMAT_SIZES.contains(&header.size);
    Some(is_format && (header.next_position == header.size + 4 || header.next_position == 0))
}

/// Events that are not returned whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LargeEvents {
    None,
    /// Transaction payload events of more than this number of bytes.
    Payloads(usize),
    /// Events of more than this number of bytes.
    Any(usize),
}

impl LargeEvents {
    /// Returns whether an event is not returned whole, by the code of its type and its size.
    fn contains(self, code: u8, size: usize) -> bool {
        // The framer reports a size that is too small for an event.
        let exceeds = |large: usize| size > large.max(HEADER_SIZE);
        match self {
            Self::None => false,
            Self::Payloads(large) => exceeds(large) && code == EventType::TransactionPayload.code(),
            // The framer reports an impossible size, and needs all events that change the format.
            Self::Any(large) => {
                let changes_format = [EventType::FormatDescription, EventType::MariadbStartEncryption]
                    .iter()
                    .any(|changing| changing.code() == code);
                exceeds(large) && size <= EVENT_SIZE_MAX as usize && !changes_format
            }
        }
    }

    /// Returns the header of the event at the start of these bytes, if the event is not returned whole.
    fn header(self, bytes: &[u8]) -> Option<EventHeader> {
        let header = EventHeader::decode(&mut Cursor::new(bytes.first_chunk::<HEADER_SIZE>()?)).ok()?;
        let is_large =
            self.contains(header.event_type.code(), header.size as usize) && !bytes.starts_with(&MAGIC);
        is_large.then_some(header)
    }
}

/// Events collected for a chunk.
#[derive(Debug)]
struct ChunkBuilder {
    bytes: Vec<u8>,
    /// End of the whole events in `bytes`.
    end: usize,
    /// Bounds as in [`EventChunk`]; empty without events.
    bounds: Vec<u32>,
    first_checksum: Option<EventChecksum>,
    size: usize,
}

impl ChunkBuilder {
    fn new(bytes: Vec<u8>, size: usize) -> Self {
        Self { bytes, end: 0, bounds: Vec::new(), first_checksum: None, size }
    }

    /// Returns the header of the last event.
    fn last(&self) -> Option<EventHeader> {
        let start = *self.bounds.get(self.bounds.len().checked_sub(2)?)? as usize;
        EventHeader::decode(&mut Cursor::new(&self.bytes[start..])).ok()
    }

    /// Returns whether the event at the start of `rest` fits. An event of unknown size is taken to fit.
    fn has_room_for(&self, rest: &[u8]) -> bool {
        let fits = |head| self.end + EventHeader::peek_size(head) as usize <= self.size;
        self.bounds.is_empty() || rest.first_chunk().is_none_or(fits)
    }

    fn push(&mut self, size: usize) {
        if self.bounds.is_empty() {
            self.bounds.push(0);
        }
        self.end += size;
        debug_assert!(self.end <= self.bytes.len(), "ours: an event is added once it is whole");
        debug_assert!(u32::try_from(self.end).is_ok(), "ours: the offsets in a chunk have 32 bits");
        self.bounds.push(self.end as u32);
    }
}

/// Result of reading a chunk.
enum NextChunk {
    Chunk(EventChunk),
    Large(EventHeader),
    End(EndOfLog),
}

/// Reason why no more events are added to a run.
enum FillStop {
    Full,
    Large(EventHeader),
    /// The first incomplete event has this size.
    NeedMore(usize),
    /// A large event is incomplete. `found` counts its bytes in the log, including unread ones.
    Torn {
        found: usize,
        expected: usize,
    },
}

/// Result of trying to add one event to a run.
enum FillStep {
    Event,
    Full,
    NextLog,
    NeedMore(usize),
}

/// Pool of chunk buffers. A buffer is reused once no chunk refers to it: fresh memory costs more than reading into it.
#[derive(Debug, Default)]
struct BufferPool {
    shared: Vec<Arc<Vec<u8>>>,
}

/// Maximum number of buffers in the pool.
const POOL_BUFFERS_MAX: usize = 64;

impl BufferPool {
    /// Returns a buffer that starts with the tail, with a capacity of at least `size` bytes.
    fn take_buffer(&mut self, tail: &mut Vec<u8>, size: usize) -> Vec<u8> {
        if tail.len() >= size {
            return std::mem::take(tail);
        }
        let free = self.shared.iter().position(|shared| Arc::strong_count(shared) == 1);
        let mut buffer = match free.map(|index| Arc::try_unwrap(self.shared.swap_remove(index))) {
            // Do not keep the memory of one huge event forever.
            Some(Ok(buffer)) if buffer.capacity() <= 2 * size => buffer,
            _ => Vec::with_capacity(size),
        };
        buffer.clear();
        buffer.append(tail);
        buffer
    }

    fn share(&mut self, buffer: Vec<u8>) -> Arc<Vec<u8>> {
        let shared = Arc::new(buffer);
        if self.shared.len() == POOL_BUFFERS_MAX {
            self.shared.swap_remove(0);
        }
        assert!(self.shared.len() < POOL_BUFFERS_MAX, "ours: the pool has room for the buffer");
        self.shared.push(Arc::clone(&shared));
        shared
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::{EndOfLog, LogReader, ReadOutcome};

    #[test]
    fn torn_logs_name_the_incomplete_event() {
        let log =
            std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/xa.binlog")).unwrap();
        for (size, expected) in [
            (0, "log is empty: omit it, or give the complete log"),
            (3, "log is torn at its start: it has 3 bytes"),
            (4, "log has no events: it contains only the magic number of a binary log"),
            (10, "log is torn at 4: it has 6 bytes of an event of at least 19"),
            (100, "log is torn at 4: it has 96 bytes of an event of at least 123"),
        ] {
            let mut reader = LogReader::from_bytes("log".to_owned(), Arc::from(&log[..size]));
            match reader.next_event().unwrap() {
                ReadOutcome::End(EndOfLog::Torn(torn)) => {
                    assert_eq!(reader.torn_error(torn).to_string(), expected)
                }
                other => panic!("{size}: {other:?}"),
            }
        }
    }

    #[test]
    fn large_first_events_that_are_no_format_description_are_errors() {
        let mut log = b"\xfebin".to_vec();
        // A payload event of 5 MiB: time, type, server, size, next position, flags.
        log.extend_from_slice(b"\0\0\0\0\x28\x01\0\0\0\0\0\x50\0\0\0\0\0\0\0");
        log.resize(4 + (5 << 20), 0);
        for size in [23, log.len()] {
            let mut reader = LogReader::from_bytes("log".to_owned(), Arc::from(&log[..size]));
            let error = reader.next_piece(1 << 16, 4 << 20).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("event type is 40, expected 15"), "{error}");
        }
    }
}
