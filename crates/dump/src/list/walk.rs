//! From logs to an output: read in order, work on chunks in parallel, leave in order.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use binlog::events::TransactionPayload;
use binlog::{
    Checksum, DecodeError, EVENT_SIZE_MAX, Event, EventType, Flags, Format, PayloadError, PayloadOpener,
    RawEvent, Reason,
};
use logs::ordered::{Bounds, Feed, Outlet, Stopped, ordered};
use logs::{Chunk, End, LogReader, Next, Torn};

use super::range::{Place, Range, Verdict};
use super::scene::{Before, Scene, ends_statement, transaction_at};
use super::settings::{Checksums, Damage};

/// Bytes of events that one worker takes at a time.
const CHUNK_SIZE: usize = 256 << 10;

/// Payloads that claim to be larger are cut into chunks for all workers; the others are opened by the worker that
/// comes across them.
const PAYLOAD_SIZE_INLINE: u64 = 1 << 20;

/// A part that has become larger is handed on before its chunk is done.
const PART_SIZE: usize = 256 << 10;

/// An event, and where it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Located<'a> {
    /// The log's name, without a folder.
    pub(crate) log_name: &'a str,
    /// Where it starts; of an event inside a payload, where the payload's event starts.
    pub(crate) position: u64,
    /// Where the next event starts; behind an event inside a payload, the next one outside.
    pub(crate) end: u64,
    /// Its place inside a payload.
    pub(crate) inner: Option<Inner>,
    /// As its header says; of an event inside a payload, as the header of the payload's event says.
    pub(crate) end_log_pos: u32,
    /// Its bytes.
    pub(crate) raw: RawEvent<'a>,
    /// What holds for it.
    pub(crate) format: &'a Format,
}

/// A place inside a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Inner {
    /// Which of its events, from 0.
    pub(crate) number: u64,
    /// Where the event starts, in bytes from the start of the uncompressed payload.
    pub(crate) offset: u64,
}

impl Inner {
    /// The place of the next event.
    fn behind(self, raw: &RawEvent<'_>) -> Self {
        Self { number: self.number + 1, offset: self.offset + raw.bytes().len() as u64 }
    }
}

impl<'a> Located<'a> {
    fn in_chunk(log_name: &'a str, chunk: &'a Chunk, index: usize) -> Option<Self> {
        let event = chunk.get(index)?;
        let end_log_pos = event.raw.header().next_position;
        let (raw, format) = (event.raw, &**chunk.format());
        let (position, end) = (event.offset, event.end());
        Some(Located { log_name, position, end, inner: None, end_log_pos, raw, format })
    }
}

/// What becomes of events.
pub(crate) trait Output: Sync {
    /// What a worker keeps from event to event.
    type Worker;
    /// What it makes of some events: of as many as there are until its size is large enough.
    type Part: Default + Send;

    /// What a worker begins with.
    fn worker(&self) -> Self::Worker;

    /// Adds one event to a part, or leaves the part as it was. `event` is what the bytes hold: MariaDB's compressed
    /// events come decompressed.
    fn put(
        &self,
        worker: &mut Self::Worker,
        scene: &mut Scene,
        located: &Located<'_>,
        event: &Event<'_>,
        part: &mut Self::Part,
    ) -> Result<(), DecodeError>;

    /// Adds one event that cannot be decoded.
    fn put_damaged(&self, scene: &Scene, located: &Located<'_>, error: DecodeError, part: &mut Self::Part);

    /// In bytes, about.
    fn size(part: &Self::Part) -> usize;
}

/// What can go wrong on the way.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// A log cannot be read, or is not as it must be.
    #[error(transparent)]
    Log(#[from] logs::Error),
    /// An event is not as it must be.
    #[error("{log_name} at {position}{}: {error}", Within(inner))]
    Event {
        /// The log's name.
        log_name: String,
        /// Where the event starts; of an event inside a payload, where the payload's event starts.
        position: u64,
        /// Where it starts inside a payload.
        inner: Option<u64>,
        /// What is wrong, with a place counted from the event's first byte.
        #[source]
        error: DecodeError,
    },
    /// A payload cannot be opened, or not to its end.
    #[error("{log_name} at {position}: {error}")]
    Payload {
        /// The log's name.
        log_name: String,
        /// Where its event starts.
        position: u64,
        /// What is wrong.
        #[source]
        error: PayloadError,
    },
    /// What was made of the logs cannot be written.
    #[error("could not write: {0}")]
    Write(#[source] io::Error),
    /// Nobody wants more: only between threads, and never given out.
    #[error("nobody wants more")]
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
}

impl Source {
    fn open(&self) -> Result<LogReader, logs::Error> {
        match self {
            Self::File(path) => LogReader::open(path),
            Self::Stdin => Ok(LogReader::stdin()),
        }
    }

    /// As the server names it: without a folder.
    fn log_name(&self) -> Arc<str> {
        match self {
            Self::File(path) => base_name(path).into(),
            Self::Stdin => "-".into(),
        }
    }
}

fn base_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

/// How to walk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    pub(crate) range: Range,
    pub(crate) bounds: Bounds,
    pub(crate) checksums: Checksums,
    pub(crate) damage: Damage,
}

impl Walk {
    /// Walks the logs one after the other; `take` gets the parts in order, and may end it. Gives the tails of logs in
    /// use that are torn, which is no error.
    pub(crate) fn run<O: Output>(
        &self,
        sources: &[Source],
        output: &O,
        take: impl FnMut(O::Part) -> Result<ControlFlow<()>, ListError>,
    ) -> Result<Vec<logs::Error>, ListError> {
        let mut torn = Vec::new();
        ordered(
            self.bounds,
            |feed| {
                let mut feeder = Feeder::new(self, feed);
                for (index, source) in sources.iter().enumerate() {
                    let place = Place { is_first: index == 0, is_last: index + 1 == sources.len() };
                    if feeder.feed_log(source, place, &mut torn)?.is_break() {
                        break;
                    }
                }
                Ok(())
            },
            || Worker::new(self, output),
            |worker, item, outlet| worker.work(item, outlet),
            take,
        )?;
        Ok(torn)
    }
}

/// Some events for one worker, and what stands before them.
struct Item {
    log_name: Arc<str>,
    before: Before,
    events: Events,
}

enum Events {
    /// Of a log.
    Log { chunk: Chunk, payloads: Payloads },
    /// Of a payload.
    Inner { bytes: Vec<u8>, first: Inner, outer: Outer, format: Arc<Format> },
    /// A payload that cannot be opened to its end: what was inside has gone before.
    Broken { chunk: Chunk, error: PayloadError },
}

/// Where a payload's event stands.
#[derive(Clone, Copy, Debug)]
struct Outer {
    position: u64,
    end: u64,
    end_log_pos: u32,
}

/// Who opens the payload in a chunk's last event?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Payloads {
    /// The worker, as all others.
    Worker,
    /// The feeder: its events come as the next items.
    LastByFeeder,
}

/// Reads the logs.
struct Feeder<'w, 'f> {
    damage: Damage,
    range: Range,
    feed: &'w Feed<'f, Item>,
    before: Before,
    opener: PayloadOpener,
}

impl<'w, 'f> Feeder<'w, 'f> {
    fn new(walk: &'w Walk, feed: &'w Feed<'f, Item>) -> Self {
        Self {
            damage: walk.damage,
            range: walk.range,
            feed,
            before: Before::default(),
            opener: PayloadOpener::new(),
        }
    }

    fn feed_log(
        &mut self,
        source: &Source,
        place: Place,
        torn: &mut Vec<logs::Error>,
    ) -> Result<ControlFlow<()>, ListError> {
        let log_name = source.log_name();
        let mut reader = source.open()?;
        self.before = Before::default();
        self.skip_to_start(&mut reader, place)?;
        loop {
            match reader.next_chunk(CHUNK_SIZE)? {
                Next::Some(chunk) => {
                    if self.feed_chunk(&log_name, &chunk, place)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Next::End(End::Torn(tail @ Torn { in_use: true, .. })) => {
                    torn.push(reader.torn(tail));
                    return Ok(ControlFlow::Continue(()));
                }
                Next::End(End::Torn(tail)) => return Err(reader.torn(tail).into()),
                Next::End(_) => return Ok(ControlFlow::Continue(())),
            }
        }
    }

    /// Nothing in front of the first position is looked at but the format description.
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

    fn feed_chunk(
        &mut self,
        log_name: &Arc<str>,
        chunk: &Chunk,
        place: Place,
    ) -> Result<ControlFlow<()>, ListError> {
        let mut from = 0;
        for (index, event) in chunk.iter().enumerate() {
            match self.range.judge(&event, place) {
                Verdict::Take => {}
                Verdict::Skip => {
                    self.push(log_name, chunk.part(from..index), Payloads::Worker)?;
                    self.before.pass([event.raw].into_iter(), chunk.format());
                    from = index + 1;
                    continue;
                }
                Verdict::Stop => {
                    self.push(log_name, chunk.part(from..index), Payloads::Worker)?;
                    return Ok(ControlFlow::Break(()));
                }
            }
            if event.raw.event_type() == EventType::TransactionPayload
                && let Ok(Event::TransactionPayload(payload)) = event.raw.decode(chunk.format())
                && !is_inline(&payload)
            {
                self.push(log_name, chunk.part(from..index + 1), Payloads::LastByFeeder)?;
                self.feed_payload(log_name, chunk.part(index..index + 1), &payload)?;
                from = index + 1;
            }
        }
        self.push(log_name, chunk.part(from..chunk.len()), Payloads::Worker)?;
        Ok(ControlFlow::Continue(()))
    }

    fn push(&mut self, log_name: &Arc<str>, chunk: Chunk, payloads: Payloads) -> Result<(), ListError> {
        if chunk.is_empty() {
            return Ok(());
        }
        let (before, bytes) = (self.before.clone(), chunk.bytes().len());
        self.before.pass(chunk.iter().map(|event| event.raw), chunk.format());
        let events = Events::Log { chunk, payloads };
        Ok(self.feed.push(Item { log_name: Arc::clone(log_name), before, events }, bytes)?)
    }

    fn feed_payload(
        &mut self,
        log_name: &Arc<str>,
        outer: Chunk,
        payload: &TransactionPayload<'_>,
    ) -> Result<(), ListError> {
        match self.feed_inner(log_name, &outer, payload)? {
            Ok(()) => Ok(()),
            Err(error) if self.damage == Damage::Stop => Err(payload_error(log_name, outer.offset(), error)),
            Err(error) => {
                let before = self.before.clone();
                let events = Events::Broken { chunk: outer, error };
                Ok(self.feed.push(Item { log_name: Arc::clone(log_name), before, events }, 0)?)
            }
        }
    }

    /// Feeds what is inside the payload of a chunk's only event.
    fn feed_inner(
        &mut self,
        log_name: &Arc<str>,
        outer: &Chunk,
        payload: &TransactionPayload<'_>,
    ) -> Result<Result<(), PayloadError>, Stopped> {
        let end_log_pos = outer.get(0).map_or(0, |event| event.raw.header().next_position);
        let place = Outer { position: outer.offset(), end: outer.end(), end_log_pos };
        let format = Arc::new(outer.format().inside_payload());
        let mut inner = match self.opener.open(payload) {
            Ok(inner) => inner,
            Err(error) => return Ok(Err(error)),
        };
        let mut first = Inner { number: 0, offset: 0 };
        loop {
            let mut bytes = Vec::with_capacity(CHUNK_SIZE);
            match inner.next_chunk(CHUNK_SIZE, &mut bytes) {
                Ok(0) => return Ok(Ok(())),
                Ok(count) => {
                    let before = self.before.clone();
                    self.before.pass(raw_events(&bytes), &format);
                    let behind = Inner {
                        number: first.number + count as u64,
                        offset: first.offset + bytes.len() as u64,
                    };
                    let size = bytes.capacity();
                    let events = Events::Inner { bytes, first, outer: place, format: Arc::clone(&format) };
                    self.feed.push(Item { log_name: Arc::clone(log_name), before, events }, size)?;
                    first = behind;
                }
                Err(error) => return Ok(Err(error)),
            }
        }
    }
}

/// Is a payload small enough for whoever comes across it?
fn is_inline(payload: &TransactionPayload<'_>) -> bool {
    let compressed = payload.payload.len() as u64;
    let claimed = payload.uncompressed_size.unwrap_or(compressed.saturating_mul(8));
    compressed.max(claimed) <= PAYLOAD_SIZE_INLINE
}

/// Events that were cut out of a payload, one behind the other.
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

/// Makes parts of events.
struct Worker<'w, O: Output> {
    walk: &'w Walk,
    output: &'w O,
    own: O::Worker,
    scene: Scene,
    opener: PayloadOpener,
    /// A compressed event of MariaDB, decompressed.
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

    fn work(&mut self, item: Item, outlet: &Outlet<'_, O::Part>) -> Result<(), ListError> {
        let Item { log_name, before, events } = item;
        let mut filling = Filling { part: O::Part::default(), outlet };
        match events {
            Events::Log { chunk, payloads } => {
                self.scene.set(&before, chunk.format());
                self.put_log(&log_name, &chunk, payloads, &mut filling)?;
            }
            Events::Inner { bytes, first, outer, format } => {
                self.scene.set(&before, &format);
                let Outer { position, end, end_log_pos } = outer;
                let mut place = first;
                for raw in raw_events(&bytes) {
                    let (inner, format) = (Some(place), &*format);
                    let located =
                        Located { log_name: &log_name, position, end, inner, end_log_pos, raw, format };
                    self.put(&located, &mut filling)?;
                    place = place.behind(&raw);
                }
            }
            Events::Broken { chunk, error } => {
                self.scene.set(&before, chunk.format());
                if let Some(located) = Located::in_chunk(&log_name, &chunk, 0) {
                    self.output.put_damaged(&self.scene, &located, error.error, &mut filling.part);
                }
            }
        }
        filling.hand_on()
    }

    fn put_log(
        &mut self,
        log_name: &Arc<str>,
        chunk: &Chunk,
        payloads: Payloads,
        filling: &mut Filling<'_, O>,
    ) -> Result<(), ListError> {
        for index in 0..chunk.len() {
            let Some(located) = Located::in_chunk(log_name, chunk, index) else { continue };
            self.put(&located, filling)?;
            let by_feeder = payloads == Payloads::LastByFeeder && index + 1 == chunk.len();
            if located.raw.event_type() == EventType::TransactionPayload && !by_feeder {
                let mut opener = std::mem::take(&mut self.opener);
                let put = self.put_payload(&mut opener, &located, filling);
                self.opener = opener;
                put?;
            }
        }
        Ok(())
    }

    /// The events inside a payload.
    fn put_payload(
        &mut self,
        opener: &mut PayloadOpener,
        outer: &Located<'_>,
        filling: &mut Filling<'_, O>,
    ) -> Result<(), ListError> {
        // What cannot be decoded has been complained about by now.
        let Ok(Event::TransactionPayload(payload)) = outer.raw.decode(outer.format) else { return Ok(()) };
        let format = outer.format.inside_payload();
        let mut inner = match opener.open(&payload) {
            Ok(inner) => inner,
            Err(error) => return self.put_broken(outer, error, filling),
        };
        let mut place = Inner { number: 0, offset: 0 };
        loop {
            match inner.next_event() {
                Ok(Some(raw)) => {
                    self.put(&Located { inner: Some(place), raw, format: &format, ..*outer }, filling)?;
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
        self.scene.id = transaction_at(&located.raw, located.format, self.scene.id);
        let put = self.decode(located).and_then(|event| match located.raw.event_type().decompressed() {
            None => self.output.put(&mut self.own, &mut self.scene, located, &event, &mut filling.part),
            Some(_) => {
                self.plain.clear();
                located.raw.decompress_mariadb(located.format, EVENT_SIZE_MAX, &mut self.plain)?;
                let plain = RawEvent::new(&self.plain, located.raw.checksum())?.decode(located.format)?;
                self.output.put(&mut self.own, &mut self.scene, located, &plain, &mut filling.part)
            }
        });
        if let Err(error) = put {
            match self.walk.damage {
                Damage::Stop => {
                    filling.hand_on()?;
                    return Err(event_error(located, error));
                }
                Damage::Show => self.output.put_damaged(&self.scene, located, error, &mut filling.part),
            }
        }
        if ends_statement(&located.raw, located.format) {
            self.scene.tables.end();
        }
        match O::size(&filling.part) > PART_SIZE {
            true => filling.hand_on(),
            false => Ok(()),
        }
    }

    fn decode<'a>(&self, located: &Located<'a>) -> Result<Event<'a>, DecodeError> {
        if self.walk.checksums == Checksums::Verify {
            located.raw.verify()?;
        }
        let event = located.raw.decode(located.format)?;
        let header = located.raw.header();
        match event {
            // Who does not know an event may pass over it only if it says so.
            Event::Unknown(_) if !header.flags.contains(Flags::IGNORABLE) => {
                let found = u64::from(header.event_type.code());
                let wanted = "a known one, as the event is not flagged ignorable";
                Err(DecodeError::new(4, Reason::Unexpected { field: "event type", found, wanted }))
            }
            event => Ok(event),
        }
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

/// A part that is being filled, and where it goes.
struct Filling<'o, O: Output> {
    part: O::Part,
    outlet: &'o Outlet<'o, O::Part>,
}

impl<O: Output> Filling<'_, O> {
    fn hand_on(&mut self) -> Result<(), ListError> {
        let part = std::mem::take(&mut self.part);
        match O::size(&part) {
            0 => Ok(()),
            size => Ok(self.outlet.push(part, size)?),
        }
    }
}
