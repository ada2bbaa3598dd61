//! Reads logs in order, processes chunks in parallel, and passes the results on in order.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use binlog::encryption::Keyring;
use binlog::events::{PayloadFields, TransactionPayload};
use binlog::{
    Checksum, DecodeError, EVENT_SIZE_MAX, Event, EventType, Flags, Format, Header, PayloadError,
    PayloadOpener, RawEvent, Reason,
};
use logs::ordered::{Bounds, Stopped, ordered};
use logs::{Chunk, End, LargeEvents, LargePayload, LogReader, Next, Piece, Torn};

use super::range::{Place, Range, Verdict};
use super::scene::{Before, Scene, ends_statement, transaction_at};
use super::settings::{Checksums, Damage};

/// Size of a chunk for one worker, in bytes.
const CHUNK_SIZE: usize = 256 << 10;

/// Size above which a part is passed on before its chunk is finished, in bytes.
const PART_SIZE: usize = 256 << 10;

/// An event and its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located<'a> {
    /// The log's name without its directory.
    pub(crate) log_name: &'a str,
    /// Start of the event; inside a payload, start of the payload's event.
    pub(crate) position: u64,
    /// End of the event; inside a payload, end of the payload's event.
    pub(crate) end: u64,
    /// Position inside a payload.
    pub(crate) inner: Option<Inner>,
    /// `end_log_pos` of the event's header; inside a payload, of the payload's event.
    pub(crate) end_log_pos: u32,
    /// The event's header.
    pub(crate) header: Header,
    /// The event's bytes; `None` for a payload too large for memory.
    pub(crate) raw: Option<RawEvent<'a>>,
    /// Size of the event's payload, if it has one.
    pub(crate) payload_size: Option<u64>,
    /// Format of the event.
    pub(crate) format: &'a Format,
}

/// A position inside a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inner {
    /// Index of the event, from 0.
    pub(crate) number: u64,
    /// Start of the event, in bytes from the start of the uncompressed payload.
    pub(crate) offset: u64,
}

impl Inner {
    /// Returns the position of the next event.
    fn behind(self, raw: &RawEvent<'_>) -> Self {
        Self { number: self.number + 1, offset: self.offset + raw.bytes().len() as u64 }
    }
}

impl<'a> Located<'a> {
    fn in_chunk(log_name: &'a str, chunk: &'a Chunk, index: usize) -> Option<Self> {
        let event = chunk.get(index)?;
        Some(Located {
            log_name,
            position: event.offset,
            end: event.end(),
            inner: None,
            end_log_pos: event.raw.header().next_position,
            header: *event.raw.header(),
            raw: Some(event.raw),
            payload_size: None,
            format: chunk.format(),
        })
    }

    /// Returns an event inside this event's payload.
    fn inside(&self, inner: Inner, raw: RawEvent<'a>, format: &'a Format) -> Self {
        Self {
            inner: Some(inner),
            header: *raw.header(),
            raw: Some(raw),
            payload_size: None,
            format,
            ..*self
        }
    }
}

/// Converts events to output.
pub(crate) trait Output: Sync {
    /// State that a worker keeps from event to event.
    type Worker;
    /// Output for some events. A part grows until its size is large enough to pass on.
    type Part: Default + Send;

    /// Creates the state of a worker.
    fn worker(&self) -> Self::Worker;

    /// Adds one event to a part, or leaves the part unchanged. `event` is decompressed if the bytes are a compressed
    /// event of MariaDB.
    fn put(
        &self,
        worker: &mut Self::Worker,
        scene: &mut Scene,
        located: &Located<'_>,
        event: &Event<'_>,
        part: &mut Self::Part,
    ) -> Result<(), Refusal>;

    /// Adds one event that cannot be decoded.
    fn put_damaged(&self, scene: &Scene, located: &Located<'_>, error: DecodeError, part: &mut Self::Part);

    /// Returns the approximate size in bytes.
    fn size(part: &Self::Part) -> usize;
}

/// Reason why an output refuses an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// The event is corrupt.
    Damaged(DecodeError),
    /// A condition names a column, but the log has no column names.
    NoColumnNames,
}

impl From<DecodeError> for Refusal {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(error)
    }
}

/// Errors of a list.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// A log cannot be read, or is corrupt.
    #[error(transparent)]
    Log(#[from] logs::Error),
    /// An event is corrupt.
    #[error("{log_name} at {position}{}: {error}", Within(inner))]
    Event {
        /// The log's name.
        log_name: String,
        /// Start of the event; inside a payload, start of the payload's event.
        position: u64,
        /// Start of the event inside a payload.
        inner: Option<u64>,
        /// The error, with an offset from the event's first byte.
        #[source]
        error: DecodeError,
    },
    /// A payload cannot be decompressed to its end.
    #[error("{log_name} at {position}: {error}")]
    Payload {
        /// The log's name.
        log_name: String,
        /// Start of the payload's event.
        position: u64,
        /// The error.
        #[source]
        error: PayloadError,
    },
    /// A condition names a column, but the log has no column names.
    #[error("{log_name} at {position}: the log has no column names (binlog_row_metadata=MINIMAL)")]
    NoColumnNames {
        /// The log's name.
        log_name: String,
        /// Start of the event.
        position: u64,
    },
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Write(#[source] io::Error),
    /// The output was closed. Used between threads only, never returned to callers.
    #[error("the output was closed")]
    Stopped,
}

struct Within<'e>(&'e Option<u64>);

impl std::fmt::Display for Within<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(offset) => write!(out, ", in the event at uncompressed byte {offset} of its payload"),
            None => Ok(()),
        }
    }
}

impl From<Stopped> for ListError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

/// A log to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
    /// Bytes in memory, and a name for them.
    Bytes(String, Arc<[u8]>),
}

impl Source {
    fn open(&self, keyring: Option<&Arc<Keyring>>) -> Result<LogReader, logs::Error> {
        let reader = match self {
            Self::File(path) => LogReader::open(path)?,
            Self::Stdin => LogReader::stdin(),
            Self::Bytes(name, bytes) => LogReader::bytes(name.clone(), Arc::clone(bytes)),
        };
        Ok(match keyring {
            Some(keyring) => reader.with_keyring(Arc::clone(keyring)),
            None => reader,
        })
    }

    /// Returns the log's name as the server has it: without its directory.
    fn log_name(&self) -> Arc<str> {
        match self {
            Self::File(path) => base_name(path).into(),
            Self::Stdin => "-".into(),
            Self::Bytes(name, _) => name.as_str().into(),
        }
    }
}

fn base_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// Parameters of reading the logs.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    pub(crate) range: Range,
    pub(crate) bounds: Bounds,
    pub(crate) checksums: Checksums,
    pub(crate) damage: Damage,
    pub(crate) keyring: Option<Arc<Keyring>>,
    pub(crate) payload_size_large: usize,
}

impl Walk {
    /// Reads the logs one after the other. `take` gets the parts in order, and may stop the reading. Returns the torn
    /// tails of logs in use, which are not errors.
    pub(crate) fn run<O: Output>(
        &self,
        sources: &[Source],
        output: &O,
        take: impl FnMut(O::Part) -> Result<ControlFlow<()>, ListError>,
    ) -> Result<Vec<logs::Error>, ListError> {
        match self.bounds.workers.get() {
            1 => self.run_here(sources, output, take),
            _ => self.run_in_parallel(sources, output, take),
        }
    }

    fn run_in_parallel<O: Output>(
        &self,
        sources: &[Source],
        output: &O,
        take: impl FnMut(O::Part) -> Result<ControlFlow<()>, ListError>,
    ) -> Result<Vec<logs::Error>, ListError> {
        let mut torn = Vec::new();
        ordered(
            self.bounds,
            |feed| {
                let mut push = |item, size| Ok(feed.push(item, size)?);
                Feeder::new(self, &mut push).feed_logs(sources, &mut torn)
            },
            || Worker::new(self, output),
            |worker, item, outlet| {
                worker.work(item, &mut |part| {
                    let size = O::size(&part);
                    Ok(outlet.push(part, size)?)
                })
            },
            take,
        )?;
        Ok(torn)
    }

    /// Reads the logs without other threads.
    fn run_here<O: Output>(
        &self,
        sources: &[Source],
        output: &O,
        mut take: impl FnMut(O::Part) -> Result<ControlFlow<()>, ListError>,
    ) -> Result<Vec<logs::Error>, ListError> {
        let mut torn = Vec::new();
        let mut worker = Worker::new(self, output);
        let mut push = |item, _| {
            worker.work(item, &mut |part| match take(part)? {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(ListError::Stopped),
            })
        };
        match Feeder::new(self, &mut push).feed_logs(sources, &mut torn) {
            Err(ListError::Stopped) | Ok(()) => Ok(torn),
            Err(error) => Err(error),
        }
    }
}

/// Events for one worker, and the context before them.
struct Item {
    log_name: Arc<str>,
    before: Before,
    events: Events,
}

enum Events {
    /// Events of a log.
    Log(Chunk),
    /// A payload's event. The events inside follow as [`Events::Inner`].
    Large(Outer),
    /// Events inside that payload.
    Inner { bytes: Vec<u8>, first: Inner, outer: Outer, format: Arc<Format> },
    /// A payload that cannot be decompressed to its end, after the events that could.
    Broken { outer: Outer, error: DecodeError },
}

/// A payload's event, without the payload.
#[derive(Clone, Debug)]
struct Outer {
    position: u64,
    end: u64,
    header: Header,
    fields: PayloadFields,
    format: Arc<Format>,
}

impl Outer {
    fn new(payload: &LargePayload<'_>) -> Self {
        Self {
            position: payload.offset(),
            end: payload.end(),
            header: *payload.header(),
            fields: *payload.fields(),
            format: Arc::clone(payload.format()),
        }
    }

    fn located<'a>(&'a self, log_name: &'a str) -> Located<'a> {
        Located {
            log_name,
            position: self.position,
            end: self.end,
            inner: None,
            end_log_pos: self.header.next_position,
            header: self.header,
            raw: None,
            payload_size: Some(self.fields.payload_size),
            format: &self.format,
        }
    }

    fn event(&self) -> Event<'static> {
        Event::TransactionPayload(TransactionPayload {
            compression: self.fields.compression,
            uncompressed_size: self.fields.uncompressed_size,
            fields: &[],
            payload: &[],
            rest: &[],
        })
    }
}

/// Passes on an item and its size in bytes.
type Push<'p> = dyn FnMut(Item, usize) -> Result<(), ListError> + 'p;

/// Reads the logs, and passes on items for the workers.
struct Feeder<'w, 'p> {
    walk: &'w Walk,
    range: Range,
    push: &'w mut Push<'p>,
    before: Before,
    opener: PayloadOpener,
}

impl<'w, 'p> Feeder<'w, 'p> {
    fn new(walk: &'w Walk, push: &'w mut Push<'p>) -> Self {
        Self { walk, range: walk.range, push, before: Before::default(), opener: PayloadOpener::new() }
    }

    fn feed_logs(&mut self, sources: &[Source], torn: &mut Vec<logs::Error>) -> Result<(), ListError> {
        for (index, source) in sources.iter().enumerate() {
            let place = Place { is_first: index == 0, is_last: index + 1 == sources.len() };
            let log_name = source.log_name();
            let mut reader = source.open(self.walk.keyring.as_ref())?;
            self.before = Before::default();
            self.skip_to_start(&mut reader, place)?;
            match self.feed_log(&log_name, &mut reader, place)? {
                Fed::All => {}
                Fed::Torn(tail) => torn.push(tail),
                Fed::Enough => return Ok(()),
            }
        }
        Ok(())
    }

    /// Skips the events before the start position, except the format description.
    fn skip_to_start(&mut self, reader: &mut LogReader, place: Place) -> Result<(), ListError> {
        let Some(start) = self.range.start_of(place) else { return Ok(()) };
        if let Next::Some(event) = reader.next_event()? {
            let behind = event.end();
            if behind <= start {
                reader.skip_to(start)?;
            }
        }
        Ok(())
    }

    fn feed_log(
        &mut self,
        log_name: &Arc<str>,
        reader: &mut LogReader,
        place: Place,
    ) -> Result<Fed, ListError> {
        loop {
            let fed = match reader.next_piece(CHUNK_SIZE, self.walk.payload_size_large)? {
                Next::Some(Piece::Chunk(chunk)) => self.feed_chunk(log_name, &chunk, place),
                Next::Some(Piece::LargePayload(payload)) => self.feed_payload(log_name, payload, place),
                Next::End(End::Torn(tail @ Torn { in_use: true, .. })) => {
                    return Ok(Fed::Torn(reader.torn(tail)));
                }
                Next::End(End::Torn(tail)) => return Err(reader.torn(tail).into()),
                Next::End(_) => return Ok(Fed::All),
            };
            match fed {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return Ok(Fed::Enough),
                Err(ListError::Log(torn @ logs::Error::Torn { torn: Torn { in_use: true, .. }, .. })) => {
                    return Ok(Fed::Torn(torn));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn feed_chunk(
        &mut self,
        log_name: &Arc<str>,
        chunk: &Chunk,
        place: Place,
    ) -> Result<ControlFlow<()>, ListError> {
        let mut from = 0;
        for (index, event) in chunk.iter().enumerate() {
            match self.range.judge(event.offset, event.raw.header(), place) {
                Verdict::Take => {}
                Verdict::Skip => {
                    self.push_chunk(log_name, chunk.part(from..index))?;
                    self.pass(log_name, chunk.part(index..index + 1))?;
                    from = index + 1;
                }
                Verdict::Stop => {
                    self.push_chunk(log_name, chunk.part(from..index))?;
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        self.push_chunk(log_name, chunk.part(from..chunk.len()))?;
        Ok(ControlFlow::Continue(()))
    }

    fn push_chunk(&mut self, log_name: &Arc<str>, chunk: Chunk) -> Result<(), ListError> {
        if chunk.is_empty() {
            return Ok(());
        }
        let (before, size) = (self.before.clone(), chunk.bytes().len());
        let passed = self.pass(log_name, chunk.clone());
        (self.push)(Item { log_name: Arc::clone(log_name), before, events: Events::Log(chunk) }, size)?;
        passed
    }

    fn pass(&mut self, log_name: &Arc<str>, chunk: Chunk) -> Result<(), ListError> {
        let passed = self.before.pass(chunk.iter().map(|event| event.raw), chunk.format());
        passed.map_err(|error| ListError::Event {
            log_name: log_name.to_string(),
            position: chunk.offset(),
            inner: None,
            error,
        })
    }

    fn push_events(&mut self, log_name: &Arc<str>, events: Events, size: usize) -> Result<(), ListError> {
        let before = self.before.clone();
        (self.push)(Item { log_name: Arc::clone(log_name), before, events }, size)
    }

    fn feed_payload(
        &mut self,
        log_name: &Arc<str>,
        payload: LargePayload<'_>,
        place: Place,
    ) -> Result<ControlFlow<()>, ListError> {
        let outer = Outer::new(&payload);
        match self.range.judge(outer.position, &outer.header, place) {
            Verdict::Take => {}
            Verdict::Skip => return Ok(ControlFlow::Continue(())),
            Verdict::Stop => return Ok(ControlFlow::Break(())),
        }
        self.push_events(log_name, Events::Large(outer.clone()), 0)?;
        let mut opener = std::mem::take(&mut self.opener);
        let fed = match payload.open(&mut opener) {
            Ok(inner) => self.feed_inner(log_name, inner, &outer),
            Err(error) => Err(error.into()),
        };
        self.opener = opener;
        match fed {
            Err(ListError::Log(logs::Error::Payload { error, .. })) if self.walk.damage == Damage::Show => {
                self.push_events(log_name, Events::Broken { outer, error: error.error }, 0)?;
            }
            Err(ListError::Event { error, .. }) if self.walk.damage == Damage::Show => {
                self.push_events(log_name, Events::Broken { outer, error }, 0)?;
            }
            fed => fed?,
        }
        Ok(ControlFlow::Continue(()))
    }

    fn feed_inner(
        &mut self,
        log_name: &Arc<str>,
        mut inner: LargeEvents<'_, '_>,
        outer: &Outer,
    ) -> Result<(), ListError> {
        let format = Arc::new(outer.format.inside_payload());
        let mut first = Inner { number: 0, offset: 0 };
        loop {
            let mut bytes = Vec::with_capacity(CHUNK_SIZE);
            let count = inner.next_chunk(CHUNK_SIZE, &mut bytes)?;
            if count == 0 {
                break;
            }
            let before = self.before.clone();
            let passed = self.before.pass(raw_events(&bytes), &format);
            let behind =
                Inner { number: first.number + count as u64, offset: first.offset + bytes.len() as u64 };
            let size = bytes.capacity();
            let events = Events::Inner { bytes, first, outer: outer.clone(), format: Arc::clone(&format) };
            (self.push)(Item { log_name: Arc::clone(log_name), before, events }, size)?;
            passed.map_err(|error| event_error(&outer.located(log_name), error))?;
            first = behind;
        }
        let end = inner.finish()?;
        match (end.checksum, self.walk.checksums) {
            (Err(error), Checksums::Verify) => Err(event_error(&outer.located(log_name), error)),
            _ => Ok(()),
        }
    }
}

/// Result of reading a log.
enum Fed {
    All,
    /// The log is in use, and ends within an event.
    Torn(logs::Error),
    /// No later event is in range.
    Enough,
}

/// Returns the events of decompressed bytes, one after the other.
fn raw_events(mut bytes: &[u8]) -> impl Iterator<Item = RawEvent<'_>> {
    std::iter::from_fn(move || {
        let size = u32::from_le_bytes(*bytes.get(9..)?.first_chunk()?) as usize;
        let (event, rest) = bytes.split_at_checked(size)?;
        bytes = rest;
        RawEvent::new(event, Checksum::Absent).ok()
    })
}

fn payload_error(log_name: &str, position: u64, error: PayloadError) -> ListError {
    ListError::Payload { log_name: log_name.to_owned(), position, error }
}

/// Converts items to parts.
struct Worker<'w, O: Output> {
    walk: &'w Walk,
    output: &'w O,
    own: O::Worker,
    scene: Scene,
    opener: PayloadOpener,
    /// The current compressed event of MariaDB, decompressed.
    plain: Vec<u8>,
}

impl<'w, O: Output> Worker<'w, O> {
    fn new(walk: &'w Walk, output: &'w O) -> Self {
        Self {
            walk,
            output,
            own: output.worker(),
            scene: Scene::default(),
            opener: PayloadOpener::new(),
            plain: Vec::new(),
        }
    }

    fn work(&mut self, item: Item, hand_on: &mut HandOn<'_, O::Part>) -> Result<(), ListError> {
        let Item { log_name, before, events } = item;
        let mut filling = Filling { part: O::Part::default(), hand_on };
        match events {
            Events::Log(chunk) => {
                self.scene.set(&before, chunk.format());
                for index in 0..chunk.len() {
                    let Some(located) = Located::in_chunk(&log_name, &chunk, index) else { continue };
                    self.put(&located, &mut filling)?;
                    if located.header.event_type == EventType::TransactionPayload {
                        let mut opener = std::mem::take(&mut self.opener);
                        let put = self.put_payload(&mut opener, &located, &mut filling);
                        self.opener = opener;
                        put?;
                    }
                }
            }
            Events::Large(outer) => {
                self.scene.set(&before, &outer.format);
                self.put_event(&outer.located(&log_name), Ok(outer.event()), &mut filling)?;
            }
            Events::Inner { bytes, first, outer, format } => {
                self.scene.set(&before, &format);
                let outer = outer.located(&log_name);
                let mut place = first;
                for raw in raw_events(&bytes) {
                    self.put(&outer.inside(place, raw, &format), &mut filling)?;
                    place = place.behind(&raw);
                }
            }
            Events::Broken { outer, error } => {
                self.scene.set(&before, &outer.format);
                self.output.put_damaged(&self.scene, &outer.located(&log_name), error, &mut filling.part);
            }
        }
        filling.hand_on()
    }

    /// Processes the events inside a payload.
    fn put_payload(
        &mut self,
        opener: &mut PayloadOpener,
        outer: &Located<'_>,
        filling: &mut Filling<'_, O>,
    ) -> Result<(), ListError> {
        // An invalid payload event was reported before.
        let Some(Ok(Event::TransactionPayload(payload))) = outer.raw.map(|raw| raw.decode(outer.format))
        else {
            return Ok(());
        };
        let format = outer.format.inside_payload();
        let mut inner = match opener.open(&payload) {
            Ok(inner) => inner,
            Err(error) => return self.put_broken(outer, error, filling),
        };
        let mut place = Inner { number: 0, offset: 0 };
        loop {
            match inner.next_event() {
                Ok(Some(raw)) => {
                    self.put(&outer.inside(place, raw, &format), filling)?;
                    place = place.behind(&raw);
                }
                Ok(None) => return Ok(()),
                Err(error) => return self.put_broken(outer, error, filling),
            }
        }
    }

    fn put_broken(
        &mut self,
        outer: &Located<'_>,
        error: PayloadError,
        filling: &mut Filling<'_, O>,
    ) -> Result<(), ListError> {
        match self.walk.damage {
            Damage::Stop => {
                filling.hand_on()?;
                Err(payload_error(outer.log_name, outer.position, error))
            }
            Damage::Show => {
                self.output.put_damaged(&self.scene, outer, error.error, &mut filling.part);
                Ok(())
            }
        }
    }

    fn put(&mut self, located: &Located<'_>, filling: &mut Filling<'_, O>) -> Result<(), ListError> {
        let Some(raw) = located.raw else { return Ok(()) };
        self.scene.id = transaction_at(&raw, located.format, self.scene.id);
        match raw.event_type().decompressed() {
            None => self.put_event(located, self.decode(&raw, located.format), filling)?,
            Some(_) => {
                let mut plain = std::mem::take(&mut self.plain);
                plain.clear();
                let event = self.decompress(&raw, located.format, &mut plain);
                let put = self.put_event(located, event, filling);
                self.plain = plain;
                put?;
            }
        }
        if ends_statement(&raw, located.format) {
            self.scene.tables.end();
        }
        Ok(())
    }

    fn put_event(
        &mut self,
        located: &Located<'_>,
        event: Result<Event<'_>, DecodeError>,
        filling: &mut Filling<'_, O>,
    ) -> Result<(), ListError> {
        let put = event.map_err(Refusal::Damaged).and_then(|event| {
            self.output.put(&mut self.own, &mut self.scene, located, &event, &mut filling.part)
        });
        match (put, self.walk.damage) {
            (Ok(()), _) => {}
            (Err(Refusal::Damaged(error)), Damage::Show) => {
                self.output.put_damaged(&self.scene, located, error, &mut filling.part);
            }
            (Err(refusal), _) => {
                filling.hand_on()?;
                return Err(match refusal {
                    Refusal::Damaged(error) => event_error(located, error),
                    Refusal::NoColumnNames => {
                        let (log_name, position) = (located.log_name.to_owned(), located.position);
                        ListError::NoColumnNames { log_name, position }
                    }
                });
            }
        }
        match O::size(&filling.part) > PART_SIZE {
            true => filling.hand_on(),
            false => Ok(()),
        }
    }

    fn decode<'a>(&self, raw: &RawEvent<'a>, format: &Format) -> Result<Event<'a>, DecodeError> {
        if self.walk.checksums == Checksums::Verify {
            raw.verify()?;
        }
        match raw.decode(format)? {
            // An event of an unknown type may be skipped only if its header says so.
            Event::Unknown(event) if !raw.header().flags.contains(Flags::IGNORABLE) => {
                let (field, found) = ("event type", u64::from(event.code));
                let wanted = "a known type, because the event is not flagged ignorable";
                Err(DecodeError::new(4, Reason::Unexpected { field, found, wanted }))
            }
            event => Ok(event),
        }
    }

    /// Decompresses and decodes a compressed event of MariaDB.
    fn decompress<'p>(
        &self,
        raw: &RawEvent<'_>,
        format: &Format,
        plain: &'p mut Vec<u8>,
    ) -> Result<Event<'p>, DecodeError> {
        self.decode(raw, format)?;
        raw.decompress_mariadb(format, EVENT_SIZE_MAX, plain)?;
        RawEvent::new(plain, raw.checksum())?.decode(format)
    }
}

fn event_error(located: &Located<'_>, error: DecodeError) -> ListError {
    ListError::Event {
        log_name: located.log_name.to_owned(),
        position: located.position,
        inner: located.inner.map(|inner| inner.offset),
        error,
    }
}

/// Passes on a part.
type HandOn<'h, Part> = dyn FnMut(Part) -> Result<(), ListError> + 'h;

/// A part that is being filled, and its receiver.
struct Filling<'f, O: Output> {
    part: O::Part,
    hand_on: &'f mut HandOn<'f, O::Part>,
}

impl<O: Output> Filling<'_, O> {
    fn hand_on(&mut self) -> Result<(), ListError> {
        let part = std::mem::take(&mut self.part);
        match O::size(&part) {
            0 => Ok(()),
            _ => (self.hand_on)(part),
        }
    }
}
