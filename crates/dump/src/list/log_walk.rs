//! Reads logs in order, processes chunks in parallel, and passes the results on in order.

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use binlog::encryption::Keyring;
use binlog::events::{PayloadFields, TransactionPayload};
use binlog::{
    DecodeError, DecodeReason, EVENT_SIZE_MAX, Event, EventChecksum, EventFlags, EventFormat, EventHeader,
    EventType, PayloadError, PayloadOpener, RawEvent,
};
use logs::ordered::{PipelineLimits, PipelineShutdown, run_ordered};
use logs::{
    EndOfLog, EventChunk, LargePayload, LargePayloadEvents, LogPiece, LogReader, ReadOutcome, TornEvent,
};

use super::event_context::{ChunkStart, EventContext, ends_statement, transaction_at};
use super::event_range::{EventRange, LogRank, RangeVerdict};
use super::list_settings::{ChecksumPolicy, ListDamagePolicy};

/// Size of a chunk for one worker, in bytes.
const CHUNK_SIZE: usize = 256 << 10;

/// Size above which a part is passed on before its chunk is finished, in bytes.
const PART_SIZE: usize = 256 << 10;

/// An event and its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocatedEvent<'a> {
    /// The log's name without its directory.
    pub(crate) log_name: &'a str,
    /// Start of the event; inside a payload, start of the payload's event.
    pub(crate) position: u64,
    /// End of the event; inside a payload, end of the payload's event.
    pub(crate) end: u64,
    /// Position inside a payload.
    pub(crate) inner: Option<InnerPosition>,
    /// `end_log_pos` of the event's header; inside a payload, of the payload's event.
    pub(crate) end_log_pos: u32,
    /// The event's header.
    pub(crate) header: EventHeader,
    /// The event's bytes; `None` for a payload too large for memory.
    pub(crate) raw: Option<RawEvent<'a>>,
    /// Size of the event's payload, if it has one.
    pub(crate) payload_size: Option<u64>,
    /// Format of the event.
    pub(crate) format: &'a EventFormat,
}

/// A position inside a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct InnerPosition {
    /// Index of the event, from 0.
    pub(crate) number: u64,
    /// Start of the event, in bytes from the start of the uncompressed payload.
    pub(crate) offset: u64,
}

impl InnerPosition {
    /// Returns the position of the next event.
    fn next(self, raw: &RawEvent<'_>) -> Self {
        Self { number: self.number + 1, offset: self.offset + raw.bytes().len() as u64 }
    }
}

impl<'a> LocatedEvent<'a> {
    fn in_chunk(log_name: &'a str, chunk: &'a EventChunk, index: usize) -> Option<Self> {
        let event = chunk.get(index)?;
        Some(LocatedEvent {
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
    fn inside(&self, inner: InnerPosition, raw: RawEvent<'a>, format: &'a EventFormat) -> Self {
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
pub(crate) trait ListOutput: Sync {
    /// State that a worker keeps from event to event.
    type ListWorker;
    /// Output for some events. A part grows until its size is large enough to pass on.
    type Part: Default + Send;

    /// Creates the state of a worker.
    fn worker(&self) -> Self::ListWorker;

    /// Adds one event to a part, or leaves the part unchanged. `event` is decompressed if the bytes are a compressed
    /// event of MariaDB.
    fn put(
        &self,
        worker: &mut Self::ListWorker,
        context: &mut EventContext,
        located: &LocatedEvent<'_>,
        event: &Event<'_>,
        part: &mut Self::Part,
    ) -> Result<(), OutputRefusal>;

    /// Adds one event that cannot be decoded.
    fn put_damaged(
        &self,
        context: &EventContext,
        located: &LocatedEvent<'_>,
        error: DecodeError,
        part: &mut Self::Part,
    );

    /// Returns the approximate size in bytes.
    fn size(part: &Self::Part) -> usize;
}

/// Reason why an output refuses an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputRefusal {
    /// The event is corrupt.
    Damaged(DecodeError),
    /// A condition names a column, but the log has no column names.
    NoColumnNames,
}

impl From<DecodeError> for OutputRefusal {
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
    Log(#[from] logs::LogError),
    /// An event is corrupt.
    #[error("{log_name} at {position}{}: {error}", InnerOffset(inner))]
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

struct InnerOffset<'e>(&'e Option<u64>);

impl std::fmt::Display for InnerOffset<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            Some(offset) => write!(out, ", in the event at uncompressed byte {offset} of its payload"),
            None => Ok(()),
        }
    }
}

impl From<PipelineShutdown> for ListError {
    fn from(_: PipelineShutdown) -> Self {
        Self::Stopped
    }
}

/// A log to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListSource {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
    /// Bytes in memory, and a name for them.
    Bytes(String, Arc<[u8]>),
}

impl ListSource {
    fn open(&self, keyring: Option<&Arc<Keyring>>) -> Result<LogReader, logs::LogError> {
        let reader = match self {
            Self::File(path) => LogReader::open(path)?,
            Self::Stdin => LogReader::from_stdin(),
            Self::Bytes(name, bytes) => LogReader::from_bytes(name.clone(), Arc::clone(bytes)),
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
pub(crate) struct LogWalk {
    pub(crate) range: EventRange,
    pub(crate) bounds: PipelineLimits,
    pub(crate) checksums: ChecksumPolicy,
    pub(crate) damage: ListDamagePolicy,
    pub(crate) keyring: Option<Arc<Keyring>>,
    pub(crate) payload_size_large: usize,
}

impl LogWalk {
    /// Reads the logs one after the other. `take` gets the parts in order, and may stop the reading. Returns the torn
    /// tails of logs in use, which are not errors.
    pub(crate) fn run<O: ListOutput>(
        &self,
        sources: &[ListSource],
        output: &O,
        take: impl FnMut(O::Part) -> Result<ControlFlow<()>, ListError>,
    ) -> Result<Vec<logs::LogError>, ListError> {
        match self.bounds.workers.get() {
            1 => self.run_here(sources, output, take),
            _ => self.run_in_parallel(sources, output, take),
        }
    }

    fn run_in_parallel<O: ListOutput>(
        &self,
        sources: &[ListSource],
        output: &O,
        take: impl FnMut(O::Part) -> Result<ControlFlow<()>, ListError>,
    ) -> Result<Vec<logs::LogError>, ListError> {
        let mut torn = Vec::new();
        run_ordered(
            self.bounds,
            |feed| {
                let mut push = |item, size| Ok(feed.push(item, size)?);
                LogFeeder::new(self, &mut push).feed_logs(sources, &mut torn)
            },
            || Worker::new(self, output),
            |worker, item, sender| {
                worker.work(item, &mut |part| {
                    let size = O::size(&part);
                    Ok(sender.push(part, size)?)
                })
            },
            take,
        )?;
        Ok(torn)
    }

    /// Reads the logs without other threads.
    fn run_here<O: ListOutput>(
        &self,
        sources: &[ListSource],
        output: &O,
        mut take: impl FnMut(O::Part) -> Result<ControlFlow<()>, ListError>,
    ) -> Result<Vec<logs::LogError>, ListError> {
        let mut torn = Vec::new();
        let mut worker = Worker::new(self, output);
        let mut push = |item, _| {
            worker.work(item, &mut |part| match take(part)? {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(ListError::Stopped),
            })
        };
        match LogFeeder::new(self, &mut push).feed_logs(sources, &mut torn) {
            Err(ListError::Stopped) | Ok(()) => Ok(torn),
            Err(error) => Err(error),
        }
    }
}

/// Events for one worker, and the context before them.
struct WalkItem {
    log_name: Arc<str>,
    before: ChunkStart,
    events: WalkEvents,
}

enum WalkEvents {
    /// Events of a log.
    Log(EventChunk),
    /// A payload's event. The events inside follow as [`WalkEvents::Inner`].
    Large(OuterPayloadEvent),
    /// Events inside that payload.
    Inner { bytes: Vec<u8>, first: InnerPosition, outer: OuterPayloadEvent, format: Arc<EventFormat> },
    /// A payload that cannot be decompressed to its end, after the events that could.
    Broken { outer: OuterPayloadEvent, error: DecodeError },
}

/// A payload's event, without the payload.
#[derive(Clone, Debug)]
struct OuterPayloadEvent {
    position: u64,
    end: u64,
    header: EventHeader,
    fields: PayloadFields,
    format: Arc<EventFormat>,
}

impl OuterPayloadEvent {
    fn new(payload: &LargePayload<'_>) -> Self {
        Self {
            position: payload.offset(),
            end: payload.end(),
            header: *payload.header(),
            fields: *payload.fields(),
            format: Arc::clone(payload.format()),
        }
    }

    fn located<'a>(&'a self, log_name: &'a str) -> LocatedEvent<'a> {
        LocatedEvent {
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
type WalkItemSender<'p> = dyn FnMut(WalkItem, usize) -> Result<(), ListError> + 'p;

/// Reads the logs, and passes on items for the workers.
struct LogFeeder<'w, 'p> {
    walk: &'w LogWalk,
    range: EventRange,
    push: &'w mut WalkItemSender<'p>,
    before: ChunkStart,
    opener: PayloadOpener,
}

impl<'w, 'p> LogFeeder<'w, 'p> {
    fn new(walk: &'w LogWalk, push: &'w mut WalkItemSender<'p>) -> Self {
        Self { walk, range: walk.range, push, before: ChunkStart::default(), opener: PayloadOpener::new() }
    }

    fn feed_logs(&mut self, sources: &[ListSource], torn: &mut Vec<logs::LogError>) -> Result<(), ListError> {
        for (index, source) in sources.iter().enumerate() {
            let place = LogRank { is_first: index == 0, is_last: index + 1 == sources.len() };
            let log_name = source.log_name();
            let mut reader = source.open(self.walk.keyring.as_ref())?;
            self.before = ChunkStart::default();
            self.skip_to_start(&mut reader, place)?;
            match self.feed_log(&log_name, &mut reader, place)? {
                FeedOutcome::All => {}
                FeedOutcome::Torn(tail) => torn.push(tail),
                FeedOutcome::Enough => return Ok(()),
            }
        }
        Ok(())
    }

    /// Skips the events before the start position, except the format description.
    fn skip_to_start(&mut self, reader: &mut LogReader, place: LogRank) -> Result<(), ListError> {
        let Some(start) = self.range.start_of(place) else { return Ok(()) };
        if let ReadOutcome::Some(event) = reader.next_event()? {
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
        place: LogRank,
    ) -> Result<FeedOutcome, ListError> {
        loop {
            let fed = match reader.next_piece(CHUNK_SIZE, self.walk.payload_size_large)? {
                ReadOutcome::Some(LogPiece::Chunk(chunk)) => self.feed_chunk(log_name, &chunk, place),
                ReadOutcome::Some(LogPiece::LargePayload(payload)) => {
                    self.feed_payload(log_name, payload, place)
                }
                ReadOutcome::End(EndOfLog::Torn(tail @ TornEvent { in_use: true, .. })) => {
                    return Ok(FeedOutcome::Torn(reader.torn_error(tail)));
                }
                ReadOutcome::End(EndOfLog::Torn(tail)) => return Err(reader.torn_error(tail).into()),
                ReadOutcome::End(_) => return Ok(FeedOutcome::All),
            };
            match fed {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => return Ok(FeedOutcome::Enough),
                Err(ListError::Log(
                    torn @ logs::LogError::Torn { torn: TornEvent { in_use: true, .. }, .. },
                )) => {
                    return Ok(FeedOutcome::Torn(torn));
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn feed_chunk(
        &mut self,
        log_name: &Arc<str>,
        chunk: &EventChunk,
        place: LogRank,
    ) -> Result<ControlFlow<()>, ListError> {
        let mut from = 0;
        for (index, event) in chunk.iter().enumerate() {
            match self.range.judge(event.offset, event.raw.header(), place) {
                RangeVerdict::Take => {}
                RangeVerdict::Skip => {
                    self.push_chunk(log_name, chunk.part(from..index))?;
                    self.pass(log_name, chunk.part(index..index + 1))?;
                    from = index + 1;
                }
                RangeVerdict::Stop => {
                    self.push_chunk(log_name, chunk.part(from..index))?;
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        self.push_chunk(log_name, chunk.part(from..chunk.len()))?;
        Ok(ControlFlow::Continue(()))
    }

    fn push_chunk(&mut self, log_name: &Arc<str>, chunk: EventChunk) -> Result<(), ListError> {
        if chunk.is_empty() {
            return Ok(());
        }
        let (before, size) = (self.before.clone(), chunk.bytes().len());
        let passed = self.pass(log_name, chunk.clone());
        (self.push)(
            WalkItem { log_name: Arc::clone(log_name), before, events: WalkEvents::Log(chunk) },
            size,
        )?;
        passed
    }

    fn pass(&mut self, log_name: &Arc<str>, chunk: EventChunk) -> Result<(), ListError> {
        let passed = self.before.advance(chunk.iter().map(|event| event.raw), chunk.format());
        passed.map_err(|error| ListError::Event {
            log_name: log_name.to_string(),
            position: chunk.offset(),
            inner: None,
            error,
        })
    }

    fn push_events(&mut self, log_name: &Arc<str>, events: WalkEvents, size: usize) -> Result<(), ListError> {
        let before = self.before.clone();
        (self.push)(WalkItem { log_name: Arc::clone(log_name), before, events }, size)
    }

    fn feed_payload(
        &mut self,
        log_name: &Arc<str>,
        payload: LargePayload<'_>,
        place: LogRank,
    ) -> Result<ControlFlow<()>, ListError> {
        let outer = OuterPayloadEvent::new(&payload);
        match self.range.judge(outer.position, &outer.header, place) {
            RangeVerdict::Take => {}
            RangeVerdict::Skip => return Ok(ControlFlow::Continue(())),
            RangeVerdict::Stop => return Ok(ControlFlow::Break(())),
        }
        self.push_events(log_name, WalkEvents::Large(outer.clone()), 0)?;
        let mut opener = std::mem::take(&mut self.opener);
        let fed = match payload.open(&mut opener) {
            Ok(inner) => self.feed_inner(log_name, inner, &outer),
            Err(error) => Err(error.into()),
        };
        self.opener = opener;
        match fed {
            Err(ListError::Log(logs::LogError::Payload { error, .. }))
                if self.walk.damage == ListDamagePolicy::Show =>
            {
                self.push_events(log_name, WalkEvents::Broken { outer, error: error.error }, 0)?;
            }
            Err(ListError::Event { error, .. }) if self.walk.damage == ListDamagePolicy::Show => {
                self.push_events(log_name, WalkEvents::Broken { outer, error }, 0)?;
            }
            fed => fed?,
        }
        Ok(ControlFlow::Continue(()))
    }

    fn feed_inner(
        &mut self,
        log_name: &Arc<str>,
        mut inner: LargePayloadEvents<'_, '_>,
        outer: &OuterPayloadEvent,
    ) -> Result<(), ListError> {
        let format = Arc::new(outer.format.inside_payload());
        let mut first = InnerPosition { number: 0, offset: 0 };
        loop {
            let mut bytes = Vec::with_capacity(CHUNK_SIZE);
            let count = inner.next_chunk(CHUNK_SIZE, &mut bytes)?;
            if count == 0 {
                break;
            }
            let before = self.before.clone();
            let passed = self.before.advance(raw_events(&bytes), &format);
            let behind = InnerPosition {
                number: first.number + count as u64,
                offset: first.offset + bytes.len() as u64,
            };
            let size = bytes.capacity();
            let events =
                WalkEvents::Inner { bytes, first, outer: outer.clone(), format: Arc::clone(&format) };
            (self.push)(WalkItem { log_name: Arc::clone(log_name), before, events }, size)?;
            passed.map_err(|error| event_error(&outer.located(log_name), error))?;
            first = behind;
        }
        let end = inner.finish()?;
        match (end.checksum, self.walk.checksums) {
            (Err(error), ChecksumPolicy::Verify) => Err(event_error(&outer.located(log_name), error)),
            _ => Ok(()),
        }
    }
}

/// Result of reading a log.
enum FeedOutcome {
    All,
    /// The log is in use, and ends within an event.
    Torn(logs::LogError),
    /// No later event is in range.
    Enough,
}

/// Returns the events of decompressed bytes, one after the other.
fn raw_events(mut bytes: &[u8]) -> impl Iterator<Item = RawEvent<'_>> {
    std::iter::from_fn(move || {
        let size = u32::from_le_bytes(*bytes.get(9..)?.first_chunk()?) as usize;
        let (event, rest) = bytes.split_at_checked(size)?;
        bytes = rest;
        RawEvent::new(event, EventChecksum::Absent).ok()
    })
}

fn payload_error(log_name: &str, position: u64, error: PayloadError) -> ListError {
    ListError::Payload { log_name: log_name.to_owned(), position, error }
}

/// Converts items to parts.
struct Worker<'w, O: ListOutput> {
    walk: &'w LogWalk,
    output: &'w O,
    state: O::ListWorker,
    context: EventContext,
    opener: PayloadOpener,
    /// The current compressed event of MariaDB, decompressed.
    plain: Vec<u8>,
}

impl<'w, O: ListOutput> Worker<'w, O> {
    fn new(walk: &'w LogWalk, output: &'w O) -> Self {
        Self {
            walk,
            output,
            state: output.worker(),
            context: EventContext::default(),
            opener: PayloadOpener::new(),
            plain: Vec::new(),
        }
    }

    fn work(&mut self, item: WalkItem, hand_on: &mut ListPartSender<'_, O::Part>) -> Result<(), ListError> {
        let WalkItem { log_name, before, events } = item;
        let mut filling = PartBuilder { part: O::Part::default(), hand_on };
        match events {
            WalkEvents::Log(chunk) => {
                self.context.start_chunk(&before, chunk.format());
                for index in 0..chunk.len() {
                    let Some(located) = LocatedEvent::in_chunk(&log_name, &chunk, index) else { continue };
                    self.put(&located, &mut filling)?;
                    if located.header.event_type == EventType::TransactionPayload {
                        let mut opener = std::mem::take(&mut self.opener);
                        let put = self.put_payload(&mut opener, &located, &mut filling);
                        self.opener = opener;
                        put?;
                    }
                }
            }
            WalkEvents::Large(outer) => {
                self.context.start_chunk(&before, &outer.format);
                self.put_event(&outer.located(&log_name), Ok(outer.event()), &mut filling)?;
            }
            WalkEvents::Inner { bytes, first, outer, format } => {
                self.context.start_chunk(&before, &format);
                let outer = outer.located(&log_name);
                let mut place = first;
                for raw in raw_events(&bytes) {
                    self.put(&outer.inside(place, raw, &format), &mut filling)?;
                    place = place.next(&raw);
                }
            }
            WalkEvents::Broken { outer, error } => {
                self.context.start_chunk(&before, &outer.format);
                self.output.put_damaged(&self.context, &outer.located(&log_name), error, &mut filling.part);
            }
        }
        filling.hand_on()
    }

    /// Processes the events inside a payload.
    fn put_payload(
        &mut self,
        opener: &mut PayloadOpener,
        outer: &LocatedEvent<'_>,
        filling: &mut PartBuilder<'_, O>,
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
        let mut place = InnerPosition { number: 0, offset: 0 };
        loop {
            match inner.next_event() {
                Ok(Some(raw)) => {
                    self.put(&outer.inside(place, raw, &format), filling)?;
                    place = place.next(&raw);
                }
                Ok(None) => return Ok(()),
                Err(error) => return self.put_broken(outer, error, filling),
            }
        }
    }

    fn put_broken(
        &mut self,
        outer: &LocatedEvent<'_>,
        error: PayloadError,
        filling: &mut PartBuilder<'_, O>,
    ) -> Result<(), ListError> {
        match self.walk.damage {
            ListDamagePolicy::Stop => {
                filling.hand_on()?;
                Err(payload_error(outer.log_name, outer.position, error))
            }
            ListDamagePolicy::Show => {
                self.output.put_damaged(&self.context, outer, error.error, &mut filling.part);
                Ok(())
            }
        }
    }

    fn put(&mut self, located: &LocatedEvent<'_>, filling: &mut PartBuilder<'_, O>) -> Result<(), ListError> {
        let Some(raw) = located.raw else { return Ok(()) };
        self.context.id = transaction_at(&raw, located.format, self.context.id);
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
            self.context.tables.end();
        }
        Ok(())
    }

    fn put_event(
        &mut self,
        located: &LocatedEvent<'_>,
        event: Result<Event<'_>, DecodeError>,
        filling: &mut PartBuilder<'_, O>,
    ) -> Result<(), ListError> {
        let put = event.map_err(OutputRefusal::Damaged).and_then(|event| {
            self.output.put(&mut self.state, &mut self.context, located, &event, &mut filling.part)
        });
        match (put, self.walk.damage) {
            (Ok(()), _) => {}
            (Err(OutputRefusal::Damaged(error)), ListDamagePolicy::Show) => {
                self.output.put_damaged(&self.context, located, error, &mut filling.part);
            }
            (Err(refusal), _) => {
                filling.hand_on()?;
                return Err(match refusal {
                    OutputRefusal::Damaged(error) => event_error(located, error),
                    OutputRefusal::NoColumnNames => {
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

    fn decode<'a>(&self, raw: &RawEvent<'a>, format: &EventFormat) -> Result<Event<'a>, DecodeError> {
        if self.walk.checksums == ChecksumPolicy::Verify {
            raw.verify()?;
        }
        match raw.decode(format)? {
            // An event of an unknown type may be skipped only if its header says so.
            Event::Unknown(event) if !raw.header().flags.contains(EventFlags::IGNORABLE) => {
                let (field, found) = ("event type", u64::from(event.code));
                let wanted = "a known type, because the event is not flagged ignorable";
                Err(DecodeError::new(4, DecodeReason::Unexpected { field, found, wanted }))
            }
            event => Ok(event),
        }
    }

    /// Decompresses and decodes a compressed event of MariaDB.
    fn decompress<'p>(
        &self,
        raw: &RawEvent<'_>,
        format: &EventFormat,
        plain: &'p mut Vec<u8>,
    ) -> Result<Event<'p>, DecodeError> {
        self.decode(raw, format)?;
        raw.decompress_mariadb(format, EVENT_SIZE_MAX, plain)?;
        RawEvent::new(plain, raw.checksum())?.decode(format)
    }
}

fn event_error(located: &LocatedEvent<'_>, error: DecodeError) -> ListError {
    ListError::Event {
        log_name: located.log_name.to_owned(),
        position: located.position,
        inner: located.inner.map(|inner| inner.offset),
        error,
    }
}

/// Passes on a part.
type ListPartSender<'h, Part> = dyn FnMut(Part) -> Result<(), ListError> + 'h;

/// A part that is being filled, and its receiver.
struct PartBuilder<'f, O: ListOutput> {
    part: O::Part,
    hand_on: &'f mut ListPartSender<'f, O::Part>,
}

impl<O: ListOutput> PartBuilder<'_, O> {
    fn hand_on(&mut self) -> Result<(), ListError> {
        let part = std::mem::take(&mut self.part);
        match O::size(&part) {
            0 => Ok(()),
            _ => (self.hand_on)(part),
        }
    }
}
