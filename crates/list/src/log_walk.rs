//! Reads logs in order, processes chunks in parallel, and passes the results on in order.

use std::ops::ControlFlow;
use std::sync::Arc;

use binlog::encryption::Keyring;
use binlog::events::TransactionPayload;
use binlog::{
    DecodeError, DecodeReason, EVENT_SIZE_MAX, Event, EventFlags, EventFormat, PayloadError, PayloadOpener,
    RawEvent,
};
use logs::ordered::{PipelineLimits, run_ordered};
use logs::{
    ChunkContext, ContextError, ContextTracker, EndOfLog, EventChunk, EventWalk, LargePayloadHead, LogReader,
    PayloadEnd, PayloadEndStep, PayloadFailure, PieceReader, PieceSizes, ReadOutcome, TornEvent, WalkPiece,
    WalkSource, WalkStep, WalkSteps, ends_statement, transaction_at,
};

use crate::event_context::EventContext;
use crate::event_range::{EventRange, LogRank, RangeVerdict};
use crate::list_error::ListError;
use crate::list_output::ListOutput;
use crate::list_settings::{ChecksumPolicy, ListDamagePolicy};
use crate::list_source::ListSource;
use crate::located_event::{ListedEvent, LocatedEvent, OutputRefusal};

/// Size of a chunk for one worker, in bytes.
const CHUNK_SIZE: usize = 256 << 10;

/// Size above which a part is passed on before its chunk is finished, in bytes.
const PART_SIZE: usize = 256 << 10;

/// Error in the payload of the event at `offset`.
struct PayloadDamage {
    offset: u64,
    error: PayloadError,
}

/// Parameters of reading the logs.
#[derive(Clone, Debug)]
pub(crate) struct ListWalk {
    pub(crate) range: EventRange,
    pub(crate) bounds: PipelineLimits,
    pub(crate) checksums: ChecksumPolicy,
    pub(crate) damage: ListDamagePolicy,
    pub(crate) keyring: Option<Arc<Keyring>>,
    pub(crate) payload_size_large: usize,
}

impl ListWalk {
    /// Reads the logs one after the other. Passes the parts to `take`, in order; `take` may stop the reading. Returns
    /// the torn tails of logs in use, which are not errors.
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
    context: ChunkContext,
    content: WalkContent,
}

enum WalkContent {
    Piece(WalkPiece),
    /// A large payload that cannot be decompressed to its end, after the events that could.
    Broken {
        head: Arc<LargePayloadHead>,
        error: DecodeError,
    },
}

/// Returns the event of a large payload, without the payload.
fn large_payload_event(head: &LargePayloadHead) -> Event<'static> {
    Event::TransactionPayload(TransactionPayload {
        compression: head.fields.compression,
        uncompressed_size: head.fields.uncompressed_size,
        fields: &[],
        payload: &[],
        rest: &[],
    })
}

/// Passes on an item and its size in bytes.
type WalkItemSender<'p> = dyn FnMut(WalkItem, usize) -> Result<(), ListError> + 'p;

/// Reads the logs, and passes on items for the workers.
struct LogFeeder<'w, 'p> {
    walk: &'w ListWalk,
    range: EventRange,
    push: &'w mut WalkItemSender<'p>,
    contexts: ContextTracker,
}

impl<'w, 'p> LogFeeder<'w, 'p> {
    fn new(walk: &'w ListWalk, push: &'w mut WalkItemSender<'p>) -> Self {
        Self { walk, range: walk.range, push, contexts: ContextTracker::default() }
    }

    fn feed_logs(&mut self, sources: &[ListSource], torn: &mut Vec<logs::LogError>) -> Result<(), ListError> {
        for (index, source) in sources.iter().enumerate() {
            let rank = LogRank { is_first: index == 0, is_last: index + 1 == sources.len() };
            let log_name = source.log_name();
            let mut reader = source.open(self.walk.keyring.as_ref())?;
            self.contexts = ContextTracker::default();
            self.skip_to_start(&mut reader, rank)?;
            match self.feed_log(&log_name, reader, rank)? {
                FeedOutcome::All => {}
                FeedOutcome::Torn(tail) => torn.push(tail),
                FeedOutcome::Enough => return Ok(()),
            }
        }
        Ok(())
    }

    /// Skips the events before the start position, except the format description.
    fn skip_to_start(&mut self, reader: &mut LogReader, rank: LogRank) -> Result<(), ListError> {
        let Some(start) = self.range.start_of(rank) else { return Ok(()) };
        if let ReadOutcome::Some(event) = reader.next_event()? {
            let end = event.end();
            if end <= start {
                reader.skip_to(start)?;
            }
        }
        Ok(())
    }

    fn feed_log(
        &mut self,
        log_name: &Arc<str>,
        reader: LogReader,
        rank: LogRank,
    ) -> Result<FeedOutcome, ListError> {
        let sizes = PieceSizes { chunk_size: CHUNK_SIZE, large_size: self.walk.payload_size_large };
        let mut pieces = PieceReader::new(reader, sizes, PayloadOpener::new());
        loop {
            let fed = match pieces.next_piece()? {
                ReadOutcome::Some(piece) => self.feed_piece(log_name, piece, rank, &mut pieces),
                ReadOutcome::End(EndOfLog::Torn(tail @ TornEvent { in_use: true, .. })) => {
                    return Ok(FeedOutcome::Torn(pieces.reader().torn_error(tail)));
                }
                ReadOutcome::End(EndOfLog::Torn(tail)) => {
                    return Err(pieces.reader().torn_error(tail).into());
                }
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

    fn feed_piece(
        &mut self,
        log_name: &Arc<str>,
        piece: WalkPiece,
        rank: LogRank,
        pieces: &mut PieceReader,
    ) -> Result<ControlFlow<()>, ListError> {
        let head = match &piece {
            WalkPiece::Chunk(chunk) => return self.feed_chunk(log_name, chunk, rank),
            WalkPiece::PayloadStart(head) => {
                match self.range.judge(head.offset, &head.header, rank) {
                    RangeVerdict::Take => {}
                    RangeVerdict::Skip => {
                        pieces.skip_payload();
                        return Ok(ControlFlow::Continue(()));
                    }
                    RangeVerdict::Stop => return Ok(ControlFlow::Break(())),
                }
                Arc::clone(head)
            }
            WalkPiece::PayloadPart(part) => Arc::clone(&part.head),
            WalkPiece::PayloadEnd { head, .. } => Arc::clone(head),
        };
        let fed = match piece {
            WalkPiece::PayloadEnd { end, .. } => self.check_payload_end(log_name, &head, end),
            piece => self.push_piece(log_name, piece),
        };
        let error = match fed {
            Err(ListError::Log(logs::LogError::Payload { error, .. })) if self.shows_damage() => error.error,
            Err(ListError::Event { error, .. }) if self.shows_damage() => error,
            fed => return fed.map(|()| ControlFlow::Continue(())),
        };
        pieces.skip_payload();
        self.contexts.end_payload(&head);
        let context = self.contexts.context().clone();
        let content = WalkContent::Broken { head, error };
        (self.push)(WalkItem { log_name: Arc::clone(log_name), context, content }, 0)?;
        Ok(ControlFlow::Continue(()))
    }

    fn shows_damage(&self) -> bool {
        self.walk.damage == ListDamagePolicy::Show
    }

    fn feed_chunk(
        &mut self,
        log_name: &Arc<str>,
        chunk: &EventChunk,
        rank: LogRank,
    ) -> Result<ControlFlow<()>, ListError> {
        let mut from = 0;
        for (index, event) in chunk.iter().enumerate() {
            match self.range.judge(event.offset, event.raw.header(), rank) {
                RangeVerdict::Take => {}
                RangeVerdict::Skip => {
                    self.push_chunk(log_name, chunk.part(from..index))?;
                    self.pass(log_name, &WalkPiece::Chunk(chunk.part(index..index + 1)))?;
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
        match chunk.is_empty() {
            true => Ok(()),
            false => self.push_piece(log_name, WalkPiece::Chunk(chunk)),
        }
    }

    fn push_piece(&mut self, log_name: &Arc<str>, piece: WalkPiece) -> Result<(), ListError> {
        let context = self.contexts.context().clone();
        let passed = self.pass(log_name, &piece);
        let size = piece.memory_size();
        let content = WalkContent::Piece(piece);
        (self.push)(WalkItem { log_name: Arc::clone(log_name), context, content }, size)?;
        passed
    }

    fn pass(&mut self, log_name: &Arc<str>, piece: &WalkPiece) -> Result<(), ListError> {
        self.contexts.pass(piece).map_err(|ContextError { offset, error }| ListError::Event {
            log_name: log_name.to_string(),
            position: match piece {
                WalkPiece::PayloadPart(part) => part.head.offset,
                _ => offset,
            },
            inner: None,
            error,
        })
    }

    fn check_payload_end(
        &mut self,
        log_name: &Arc<str>,
        head: &LargePayloadHead,
        end: Result<PayloadEnd, logs::LogError>,
    ) -> Result<(), ListError> {
        self.contexts.end_payload(head);
        match (end?.checksum, self.walk.checksums) {
            (Err(error), ChecksumPolicy::Verify) => {
                Err(event_error(&LocatedEvent::large(log_name, head), error))
            }
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

fn payload_error(log_name: &str, position: u64, error: PayloadError) -> ListError {
    ListError::Payload { log_name: log_name.to_owned(), position, error }
}

/// Converts items to parts.
struct Worker<'w, O: ListOutput> {
    walk: &'w ListWalk,
    output: &'w O,
    state: O::ListWorker,
    context: EventContext,
    events: EventWalk,
    /// The current compressed event of MariaDB, decompressed.
    plain: Vec<u8>,
}

impl<'w, O: ListOutput> Worker<'w, O> {
    fn new(walk: &'w ListWalk, output: &'w O) -> Self {
        Self {
            walk,
            output,
            state: output.worker(),
            context: EventContext::default(),
            events: EventWalk::default(),
            plain: Vec::new(),
        }
    }

    fn work(&mut self, item: WalkItem, hand_on: &mut ListPartSender<'_, O::Part>) -> Result<(), ListError> {
        let WalkItem { log_name, context, content } = item;
        let mut filling = PartBuilder { part: O::Part::default(), hand_on };
        match content {
            WalkContent::Piece(WalkPiece::Chunk(chunk)) => {
                self.context.start_chunk(&context, chunk.format());
                self.put_events(&log_name, &WalkSource::Chunk(&chunk), &mut filling)?;
            }
            WalkContent::Piece(WalkPiece::PayloadPart(part)) => {
                self.context.start_chunk(&context, &part.format);
                self.put_events(&log_name, &WalkSource::Part(&part), &mut filling)?;
            }
            WalkContent::Piece(WalkPiece::PayloadStart(head) | WalkPiece::PayloadEnd { head, .. }) => {
                self.context.start_chunk(&context, &head.format);
                let located = LocatedEvent::large(&log_name, &head);
                self.put_event(&located, Ok(large_payload_event(&head)), &mut filling)?;
            }
            WalkContent::Broken { head, error } => {
                self.context.start_chunk(&context, &head.format);
                let located = LocatedEvent::large(&log_name, &head);
                self.output.put_damaged(&self.context, &located, error, &mut filling.part);
            }
        }
        filling.hand_on()
    }

    fn put_events(
        &mut self,
        log_name: &str,
        source: &WalkSource<'_>,
        filling: &mut PartBuilder<'_, O>,
    ) -> Result<(), ListError> {
        let mut walk = std::mem::take(&mut self.events);
        let put = self.put_steps(log_name, source, walk.start(*source), filling);
        self.events = walk;
        put
    }

    fn put_steps(
        &mut self,
        log_name: &str,
        source: &WalkSource<'_>,
        mut steps: WalkSteps<'_, '_>,
        filling: &mut PartBuilder<'_, O>,
    ) -> Result<(), ListError> {
        let mut outer_end_log_pos = match source {
            WalkSource::Part(part) => part.head.header.next_position,
            WalkSource::Chunk(_) | WalkSource::Event(..) => 0,
        };
        while let Some(step) = steps.next() {
            match step {
                WalkStep::Event(event) => {
                    if event.inner.is_none() {
                        outer_end_log_pos = event.raw.header().next_position;
                    }
                    self.put(&LocatedEvent::new(log_name, &event, outer_end_log_pos), filling)?;
                }
                WalkStep::PayloadEnd(PayloadEndStep {
                    offset,
                    result: Err(PayloadFailure::Payload(error)),
                    ..
                }) => {
                    self.put_broken(log_name, source, PayloadDamage { offset, error }, filling)?;
                }
                // An invalid payload event was reported before.
                WalkStep::PayloadEnd(_) | WalkStep::LargePayload(_) => {}
            }
        }
        Ok(())
    }

    /// Reports a payload in memory that cannot be decompressed to its end.
    fn put_broken(
        &mut self,
        log_name: &str,
        source: &WalkSource<'_>,
        damage: PayloadDamage,
        filling: &mut PartBuilder<'_, O>,
    ) -> Result<(), ListError> {
        if self.walk.damage == ListDamagePolicy::Stop {
            filling.hand_on()?;
            return Err(payload_error(log_name, damage.offset, damage.error));
        }
        if let Some(outer) = source.event_at(damage.offset) {
            let located = LocatedEvent::new(log_name, &outer, outer.raw.header().next_position);
            self.output.put_damaged(&self.context, &located, damage.error.error, &mut filling.part);
        }
        Ok(())
    }

    fn put(&mut self, located: &LocatedEvent<'_>, filling: &mut PartBuilder<'_, O>) -> Result<(), ListError> {
        let Some(raw) = located.raw else { return Ok(()) };
        self.context.id = transaction_at(&raw, located.format, self.context.id);
        if O::NEEDS_ORIGIN {
            self.context.origin.pass(&raw, located.format);
        }
        let mut plain = std::mem::take(&mut self.plain);
        let event =
            self.decode(&raw, located.format).and_then(|event| match raw.event_type().decompressed() {
                None => Ok(event),
                Some(_) => raw.plain(located.format, EVENT_SIZE_MAX, &mut plain)?.decode(located.format),
            });
        let put = self.put_event(located, event, filling);
        self.plain = plain;
        put?;
        if ends_statement(&raw, located.format) {
            self.context.tables.end();
            self.context.origin.end_statement();
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
            let listed = ListedEvent { located, event: &event };
            self.output.put(&mut self.state, &mut self.context, listed, &mut filling.part)
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
            // An event of an unknown type may be skipped only if its header has the ignorable flag.
            Event::Unknown(event) if !raw.header().flags.contains(EventFlags::IGNORABLE) => {
                let (field, found) = ("event type", u64::from(event.code));
                let expected = "a known type, because the event is not flagged ignorable";
                Err(DecodeError::new(4, DecodeReason::Unexpected { field, found, expected }))
            }
            event => Ok(event),
        }
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
