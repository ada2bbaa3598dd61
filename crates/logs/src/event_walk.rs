//! Walks over events and into their payloads.

use std::ops::Range;
use std::sync::Arc;

use binlog::{DecodeError, Event, EventFormat, EventType, PayloadError, PayloadOpener, RawEvent};
use thiserror::Error;

use crate::error::LogError;
use crate::event_chunk::{EventChunk, LogEvent};
use crate::large_payload::{LargePayloadHead, PayloadEnd};
use crate::piece_reader::PayloadPart;

/// Event of a log, outside or inside of a payload.
#[derive(Clone, Copy, Debug)]
pub struct WalkEvent<'a> {
    /// Start of the event, in bytes from the start of its log; inside a payload, start of the payload's event.
    pub offset: u64,
    /// End of the event; inside a payload, end of the payload's event.
    pub end: u64,
    /// Position inside the payload; `None` for an event of the log itself.
    pub inner: Option<InnerPosition>,
    /// The event. Inside a payload, it has no checksum.
    pub raw: RawEvent<'a>,
    /// Format of the event.
    pub format: &'a EventFormat,
}

/// Position inside a payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InnerPosition {
    /// Index of the event, from 0.
    pub number: u64,
    /// Start of the event, in bytes from the start of the uncompressed payload.
    pub offset: u64,
}

impl InnerPosition {
    pub(crate) fn next(self, raw: &RawEvent<'_>) -> Self {
        Self { number: self.number + 1, offset: self.offset + raw.bytes().len() as u64 }
    }
}

/// Step of a walk.
#[derive(Debug)]
pub enum WalkStep<'a> {
    /// An event. If the event has a payload, the events inside and the payload's end follow, unless
    /// [`WalkSteps::skip_payload`] is called first.
    Event(WalkEvent<'a>),
    /// Event of a payload too large for memory. The events inside follow, and then the payload's end. Only a
    /// [`LogWalk`](crate::LogWalk) has this step.
    LargePayload(&'a Arc<LargePayloadHead>),
    /// End of a payload.
    PayloadEnd(PayloadEndStep),
}

/// End of a payload in a walk.
#[derive(Clone, Copy, Debug)]
pub struct PayloadEndStep {
    /// Start of the payload's event, in bytes from the start of its log.
    pub offset: u64,
    /// End of the payload's event.
    pub end: u64,
    /// Findings at the payload's end, or the reason why some of its events are missing.
    pub result: Result<PayloadEnd, PayloadFailure>,
}

/// Reason why a payload cannot be read to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PayloadFailure {
    /// The payload's event cannot be decoded.
    #[error(transparent)]
    Event(DecodeError),
    /// The payload is corrupt.
    #[error(transparent)]
    Payload(PayloadError),
}

impl PayloadFailure {
    /// Returns the failure to decode an event, which may be inside a payload.
    pub fn of_event(inner: Option<InnerPosition>, error: DecodeError) -> Self {
        match inner {
            None => Self::Event(error),
            Some(InnerPosition { offset: inner_offset, .. }) => {
                Self::Payload(PayloadError { inner_offset, payload_offset: 0, error })
            }
        }
    }

    /// Adds the log, and the position of the payload's event in it.
    pub fn at(self, name: String, offset: u64) -> LogError {
        match self {
            Self::Event(error) => LogError::Corrupt { name, offset, error },
            Self::Payload(error) => LogError::Payload { name, offset, error },
        }
    }
}

/// Events to walk over.
#[derive(Clone, Copy, Debug)]
pub enum WalkSource<'c> {
    /// Events of a log.
    Chunk(&'c EventChunk),
    /// A single event, and its format. It may come from a server.
    Event(LogEvent<'c>, &'c EventFormat),
    /// Events of a large payload.
    Part(&'c PayloadPart),
}

impl<'c> WalkSource<'c> {
    /// Returns the bytes of an event, without decoding its header.
    #[inline]
    fn bytes(&self, index: usize) -> Option<&'c [u8]> {
        match self {
            Self::Chunk(chunk) => chunk.event_bytes(index),
            Self::Event(event, _) => (index == 0).then_some(event.raw.bytes()),
            Self::Part(_) => None,
        }
    }

    #[inline]
    fn get(&self, index: usize) -> Option<LogEvent<'c>> {
        match self {
            Self::Chunk(chunk) => chunk.get(index),
            Self::Event(event, _) => (index == 0).then_some(*event),
            Self::Part(_) => None,
        }
    }

    /// Returns the event of the log that starts at this position.
    pub fn event_at(&self, offset: u64) -> Option<WalkEvent<'c>> {
        let event = (0..).map_while(|index| self.get(index)).find(|event| event.offset == offset)?;
        let LogEvent { offset, raw } = event;
        Some(WalkEvent { offset, end: event.end(), inner: None, raw, format: self.format() })
    }

    fn format(&self) -> &'c EventFormat {
        match self {
            Self::Chunk(chunk) => &chunk.format,
            Self::Event(_, format) => format,
            Self::Part(part) => &part.format,
        }
    }
}

/// Walks over events and into their payloads, one source after the other. A walk never fails: [`WalkStep::PayloadEnd`]
/// reports a payload that cannot be decompressed, and the walk continues after it. Each thread needs its own walk.
#[derive(Debug, Default)]
pub struct EventWalk {
    opener: PayloadOpener,
    position: WalkPosition,
    formats: Option<WalkFormats>,
}

/// Formats of a log with payloads.
#[derive(Debug)]
struct WalkFormats {
    of_log: EventFormat,
    /// Format of events inside payloads.
    inside: EventFormat,
}

/// Position of a walk in its source.
#[derive(Clone, Debug)]
enum WalkPosition {
    /// Before the event with this index.
    Outside(usize),
    /// Before the payload of the event with this index.
    Opening(usize),
    /// Inside the payload of the event with this index.
    Inside(PayloadWalk),
    /// Inside a large payload.
    Part(InnerPosition),
}

impl Default for WalkPosition {
    fn default() -> Self {
        Self::Outside(0)
    }
}

/// Payload in memory, and the position of the walk inside it.
#[derive(Clone, Debug)]
struct PayloadWalk {
    /// Index of the payload's event.
    index: usize,
    /// Start and end of the payload's event in its log.
    extent: Range<u64>,
    /// Range of the payload in the event.
    payload: Range<usize>,
    /// Number of bytes after the payload.
    trailing: usize,
    next: InnerPosition,
}

/// Next step of a walk, without borrowing from it.
pub(crate) enum NextStep {
    /// The event with this index.
    Event(usize),
    /// The next event inside the payload, of this size.
    Inner(usize),
    /// The event at this position in a large payload.
    InPart(InnerPosition),
    PayloadEnd(PayloadEndStep),
}

/// Steps of a walk over one source.
#[derive(Debug)]
pub struct WalkSteps<'w, 'c> {
    walk: &'w mut EventWalk,
    source: WalkSource<'c>,
}

impl WalkSteps<'_, '_> {
    /// Returns the next step; `None` at the end of the source. Not an `Iterator`: the step is borrowed until the next
    /// call.
    // Inlined into the loops of the workers, because a step has more than a hundred bytes.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "the step is borrowed")]
    pub fn next(&mut self) -> Option<WalkStep<'_>> {
        let next = self.walk.advance(&self.source)?;
        Some(self.walk.step(&self.source, next))
    }

    /// Skips the payload, if the last step was an event with a payload or an event inside a payload in memory.
    pub fn skip_payload(&mut self) {
        self.walk.skip_payload();
    }
}

impl EventWalk {
    /// Creates a walk that decompresses payloads with this opener.
    pub fn new(opener: PayloadOpener) -> Self {
        Self { opener, ..Self::default() }
    }

    /// Starts the walk over a source.
    pub fn start<'w, 'c>(&'w mut self, source: WalkSource<'c>) -> WalkSteps<'w, 'c> {
        self.begin(&source);
        WalkSteps { walk: self, source }
    }

    pub(crate) fn begin(&mut self, source: &WalkSource<'_>) {
        self.position = match source {
            WalkSource::Chunk(_) | WalkSource::Event(..) => WalkPosition::Outside(0),
            WalkSource::Part(part) => WalkPosition::Part(part.first),
        };
    }

    pub(crate) fn skip_payload(&mut self) {
        if let WalkPosition::Opening(index) | WalkPosition::Inside(PayloadWalk { index, .. }) = self.position
        {
            self.position = WalkPosition::Outside(index + 1);
        }
    }

    #[inline]
    pub(crate) fn advance(&mut self, source: &WalkSource<'_>) -> Option<NextStep> {
        match &mut self.position {
            WalkPosition::Outside(next) => {
                let index = *next;
                *next += 1;
                if source.bytes(index)?.get(TYPE_OFFSET) == Some(&EventType::TransactionPayload.code()) {
                    self.position = WalkPosition::Opening(index);
                }
                Some(NextStep::Event(index))
            }
            WalkPosition::Opening(index) => {
                let index = *index;
                match self.open(source, index)? {
                    Ok(inner) => {
                        self.position = WalkPosition::Inside(inner);
                        self.advance_inside(source)
                    }
                    Err(ended) => {
                        self.position = WalkPosition::Outside(index + 1);
                        Some(NextStep::PayloadEnd(ended))
                    }
                }
            }
            WalkPosition::Inside(_) => self.advance_inside(source),
            WalkPosition::Part(next) => {
                let WalkSource::Part(part) = source else { return None };
                let this = *next;
                *next = this.next(&part.event_at(this)?);
                Some(NextStep::InPart(this))
            }
        }
    }

    /// Opens the payload of an event.
    fn open(&mut self, source: &WalkSource<'_>, index: usize) -> Option<Result<PayloadWalk, PayloadEndStep>> {
        let event = source.get(index)?;
        let extent = event.offset..event.end();
        let failed =
            |failure| PayloadEndStep { offset: event.offset, end: event.end(), result: Err(failure) };
        let payload = match event.raw.decode(source.format()) {
            Ok(Event::TransactionPayload(payload)) => payload,
            Ok(event) => unreachable!("ours: the type of the event has a payload: {:?}", event.event_type()),
            Err(error) => return Some(Err(failed(PayloadFailure::Event(error)))),
        };
        if let Err(error) = self.opener.open(&payload) {
            return Some(Err(failed(PayloadFailure::Payload(error))));
        }
        if self.formats.as_ref().is_none_or(|formats| formats.of_log != *source.format()) {
            let of_log = source.format().clone();
            self.formats = Some(WalkFormats { inside: of_log.inside_payload(), of_log });
        }
        let trailing = payload.rest.len();
        let end = event.raw.bytes().len() - event.raw.checksum().size() - trailing;
        let payload = end - payload.payload.len()..end;
        Some(Ok(PayloadWalk { index, extent, payload, trailing, next: InnerPosition::default() }))
    }

    fn advance_inside(&mut self, source: &WalkSource<'_>) -> Option<NextStep> {
        let WalkPosition::Inside(inner) = &self.position else { return None };
        let mut events = self.opener.resume(&source.bytes(inner.index)?[inner.payload.clone()]);
        let result = match events.next_size() {
            Ok(Some(size)) => return Some(NextStep::Inner(size)),
            Ok(None) => Ok(PayloadEnd {
                summary: *events.summary(),
                trailing: inner.trailing as u64,
                checksum: Ok(()),
            }),
            Err(error) => Err(PayloadFailure::Payload(error)),
        };
        let ended = PayloadEndStep { offset: inner.extent.start, end: inner.extent.end, result };
        self.position = WalkPosition::Outside(inner.index + 1);
        Some(NextStep::PayloadEnd(ended))
    }

    /// Returns the step found by [`EventWalk::advance`].
    #[inline]
    pub(crate) fn step<'a>(&'a mut self, source: &WalkSource<'a>, next: NextStep) -> WalkStep<'a> {
        match next {
            NextStep::Event(index) => match source.get(index) {
                Some(event) => WalkStep::Event(WalkEvent {
                    offset: event.offset,
                    end: event.end(),
                    inner: None,
                    raw: event.raw,
                    format: source.format(),
                }),
                None => unreachable!("ours: `advance` has found event {index}"),
            },
            NextStep::Inner(size) => self.inner_step(source, size),
            NextStep::InPart(position) => match source {
                WalkSource::Part(part) => WalkStep::Event(WalkEvent {
                    offset: part.head.offset,
                    end: part.head.end(),
                    inner: Some(position),
                    raw: part
                        .event_at(position)
                        .unwrap_or_else(|| unreachable!("ours: `advance` has found the event")),
                    format: &part.format,
                }),
                _ => unreachable!("ours: `advance` has found a part"),
            },
            NextStep::PayloadEnd(ended) => WalkStep::PayloadEnd(ended),
        }
    }

    fn inner_step<'a>(&'a mut self, source: &WalkSource<'a>, size: usize) -> WalkStep<'a> {
        let (WalkPosition::Inside(inner), Some(WalkFormats { inside: format, .. })) =
            (&mut self.position, &self.formats)
        else {
            unreachable!("ours: `advance` has opened a payload")
        };
        let Some(bytes) = source.bytes(inner.index) else {
            unreachable!("ours: `advance` has found the event")
        };
        let raw = self.opener.resume(&bytes[inner.payload.clone()]).into_event(size);
        let position = inner.next;
        inner.next = position.next(&raw);
        let Range { start: offset, end } = inner.extent;
        WalkStep::Event(WalkEvent { offset, end, inner: Some(position), raw, format })
    }
}

/// Offset of the type in an event's header.
const TYPE_OFFSET: usize = 4;
