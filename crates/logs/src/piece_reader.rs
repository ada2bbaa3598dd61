//! Reader of a log as pieces for other threads, including events in payloads.

use std::sync::Arc;

use binlog::{EventChecksum, EventFormat, PayloadOpener, RawEvent};

use crate::error::LogError;
use crate::event_chunk::EventChunk;
use crate::event_walk::InnerPosition;
use crate::large_payload::{LargePayloadHead, PayloadEnd, PayloadProgress};
use crate::log_reader::{LogPiece, LogReader, ReadOutcome};

/// Sizes of the pieces of a log, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceSizes {
    /// Size of a chunk, and of a part of a large payload.
    pub chunk_size: usize,
    /// Size above which a payload's event is not read into memory as a whole.
    pub large_size: usize,
}

/// Piece of a log. Pieces come in the order of the log.
#[derive(Debug)]
pub enum WalkPiece {
    /// Whole events of the log.
    Chunk(EventChunk),
    /// Event of a large payload. Its parts follow, and then its end.
    PayloadStart(Arc<LargePayloadHead>),
    /// Some events of the open payload.
    PayloadPart(PayloadPart),
    /// End of the open payload.
    PayloadEnd {
        /// Event of the payload.
        head: Arc<LargePayloadHead>,
        /// Findings at the payload's end, or the error that prevented reading it.
        end: Result<PayloadEnd, LogError>,
    },
}

impl WalkPiece {
    /// Returns the approximate size of the piece in memory, in bytes.
    pub fn memory_size(&self) -> usize {
        match self {
            Self::Chunk(chunk) => chunk.bytes().len(),
            Self::PayloadPart(part) => part.bytes.capacity(),
            Self::PayloadStart(_) | Self::PayloadEnd { .. } => 0,
        }
    }
}

/// Some events of a large payload.
#[derive(Debug)]
pub struct PayloadPart {
    /// Event of the payload.
    pub head: Arc<LargePayloadHead>,
    /// Position of the first event.
    pub first: InnerPosition,
    /// Bytes of the events. They have no checksums.
    pub bytes: Vec<u8>,
    /// Format of the events.
    pub format: Arc<EventFormat>,
}

impl PayloadPart {
    /// Returns the events and their positions, in order.
    pub fn events(&self) -> impl Iterator<Item = (InnerPosition, RawEvent<'_>)> {
        let mut position = self.first;
        inner_events(&self.bytes).map(move |raw| {
            let this = position;
            position = position.next(&raw);
            (this, raw)
        })
    }

    /// Returns the event at a position.
    pub(crate) fn event_at(&self, position: InnerPosition) -> Option<RawEvent<'_>> {
        assert!(position.offset >= self.first.offset, "ours: {position:?} is before the part");
        let rest = self.bytes.get(usize::try_from(position.offset - self.first.offset).ok()?..)?;
        Some(RawEvent::split_first(rest, EventChecksum::Absent)?.0)
    }
}

/// Returns the events in decompressed bytes of a payload, one after the other.
pub fn inner_events(bytes: &[u8]) -> impl Iterator<Item = RawEvent<'_>> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let (raw, after) = RawEvent::split_first(rest, EventChecksum::Absent)?;
        rest = after;
        Some(raw)
    })
}

/// Reads a log piece by piece. Payloads too large for memory come in parts.
#[derive(Debug)]
pub struct PieceReader {
    reader: LogReader,
    sizes: PieceSizes,
    opener: PayloadOpener,
    phase: PiecePhase,
    /// Buffer for the next part.
    spare: Vec<u8>,
}

/// Maximum memory reserved for a part before its events are read.
const PART_RESERVED_MAX: usize = 1 << 20;

/// State of a [`PieceReader`].
#[derive(Debug)]
enum PiecePhase {
    /// Between two events of the log.
    Log,
    /// Before the first part of a large payload.
    PayloadOpening(PayloadProgress),
    /// Inside a large payload.
    PayloadParts { progress: PayloadProgress, next: InnerPosition, format: Arc<EventFormat> },
}

impl PieceReader {
    /// Continues a log. `opener` decompresses its large payloads.
    ///
    /// # Panics
    ///
    /// If `chunk_size` is 0.
    pub const fn new(reader: LogReader, sizes: PieceSizes, opener: PayloadOpener) -> Self {
        assert!(sizes.chunk_size > 0, "ours: a chunk has an event");
        Self { reader, sizes, opener, phase: PiecePhase::Log, spare: Vec::new() }
    }

    /// Returns the reader of the log.
    pub const fn reader(&self) -> &LogReader {
        &self.reader
    }

    /// Returns the reader of the log, to continue at another event.
    pub const fn reader_mut(&mut self) -> &mut LogReader {
        &mut self.reader
    }

    /// Returns the next piece. After an error inside a large payload, which is in [`WalkPiece::PayloadEnd`], the log
    /// continues after the payload.
    ///
    /// # Errors
    ///
    /// Fails as [`LogReader::next_event`] does.
    pub fn next_piece(&mut self) -> Result<ReadOutcome<WalkPiece>, LogError> {
        let piece = match std::mem::replace(&mut self.phase, PiecePhase::Log) {
            PiecePhase::Log => match self.reader.next_piece(self.sizes.chunk_size, self.sizes.large_size)? {
                ReadOutcome::Some(LogPiece::Chunk(chunk)) => WalkPiece::Chunk(chunk),
                ReadOutcome::Some(LogPiece::LargePayload(payload)) => {
                    let head = Arc::clone(payload.head());
                    self.phase = PiecePhase::PayloadOpening(payload.into_progress());
                    WalkPiece::PayloadStart(head)
                }
                ReadOutcome::End(end) => return Ok(ReadOutcome::End(end)),
            },
            PiecePhase::PayloadOpening(progress) => {
                if let Err(error) = progress.open(&self.reader, &mut self.opener) {
                    let head = progress.head;
                    return Ok(ReadOutcome::Some(WalkPiece::PayloadEnd { head, end: Err(error) }));
                }
                let format = Arc::new(progress.head.format.inside_payload());
                self.next_part(progress, InnerPosition::default(), format)
            }
            PiecePhase::PayloadParts { progress, next, format } => self.next_part(progress, next, format),
        };
        Ok(ReadOutcome::Some(piece))
    }

    fn next_part(
        &mut self,
        mut progress: PayloadProgress,
        first: InnerPosition,
        format: Arc<EventFormat>,
    ) -> WalkPiece {
        let (head, size) = (Arc::clone(&progress.head), self.sizes.chunk_size);
        let mut bytes = std::mem::take(&mut self.spare);
        assert!(bytes.is_empty(), "ours: the buffer for the next part is empty");
        bytes.reserve(size.min(PART_RESERVED_MAX));
        match progress.next_chunk(&mut self.reader, &mut self.opener, size, &mut bytes) {
            Ok(0) => {
                self.spare = bytes;
                let end = progress.finish(&mut self.reader, &mut self.opener);
                WalkPiece::PayloadEnd { head, end }
            }
            Ok(count) => {
                let next = InnerPosition {
                    number: first.number + count as u64,
                    offset: first.offset + bytes.len() as u64,
                };
                self.phase = PiecePhase::PayloadParts { progress, next, format: Arc::clone(&format) };
                WalkPiece::PayloadPart(PayloadPart { head, first, bytes, format })
            }
            Err(error) => WalkPiece::PayloadEnd { head, end: Err(error) },
        }
    }

    /// Skips the rest of the open large payload. The log continues after the payload.
    pub fn skip_payload(&mut self) {
        self.phase = PiecePhase::Log;
    }

    /// Takes back a part that is no longer needed, to reuse its memory.
    pub(crate) fn recycle(&mut self, part: PayloadPart) {
        self.spare = part.bytes;
        self.spare.clear();
    }
}
