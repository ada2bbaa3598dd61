//! Walk over a log event by event, including events in payloads.

use crate::error::LogError;
use crate::event_walk::{EventWalk, NextStep, PayloadEndStep, WalkSource, WalkStep};
use crate::log_reader::{LogReader, ReadOutcome};
use crate::piece_reader::{PieceReader, WalkPiece};

/// Walk over a log event by event, and into payloads of any size. At the end, reports the state of the log's end. Each
/// further call checks for new events.
///
/// To process a log in parallel, read it with a [`PieceReader`], and give each thread an [`EventWalk`].
#[derive(Debug)]
pub struct LogWalk {
    pieces: PieceReader,
    walk: EventWalk,
    piece: Option<WalkPiece>,
}

/// Next step, without borrowing from the walk.
enum NextLogStep {
    Walk(NextStep),
    LargePayload,
    PayloadEnd(PayloadEndStep),
}

impl LogWalk {
    /// Starts at the present position of a reader. The opener of `pieces` decompresses large payloads; the opener of
    /// `walk` decompresses other payloads.
    pub const fn new(pieces: PieceReader, walk: EventWalk) -> Self {
        Self { pieces, walk, piece: None }
    }

    /// Returns the reader of the log, which is ahead of the walk by up to a chunk.
    pub const fn reader(&self) -> &LogReader {
        self.pieces.reader()
    }

    /// Returns the next step, borrowed until the next call.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read, or has no valid event at this position, or if a large payload cannot be read to
    /// its end. All events before the fault have been returned before.
    #[expect(clippy::should_implement_trait, reason = "the step is borrowed")]
    pub fn next(&mut self) -> Result<ReadOutcome<WalkStep<'_>>, LogError> {
        let next = loop {
            if let Some(source) = source(self.piece.as_ref())
                && let Some(next) = self.walk.advance(&source)
            {
                break NextLogStep::Walk(next);
            }
            if let Some(WalkPiece::PayloadPart(part)) = self.piece.take() {
                self.pieces.recycle(part);
            }
            let piece = match self.pieces.next_piece()? {
                ReadOutcome::End(end) => return Ok(ReadOutcome::End(end)),
                ReadOutcome::Some(piece) => piece,
            };
            match piece {
                WalkPiece::PayloadEnd { head, end } => {
                    let (offset, event_end) = (head.offset, head.end());
                    break NextLogStep::PayloadEnd(PayloadEndStep {
                        offset,
                        end: event_end,
                        result: Ok(end?),
                    });
                }
                WalkPiece::PayloadStart(_) => {
                    self.piece = Some(piece);
                    break NextLogStep::LargePayload;
                }
                WalkPiece::Chunk(_) | WalkPiece::PayloadPart(_) => {
                    if let Some(source) = source(Some(self.piece.insert(piece))) {
                        self.walk.begin(&source);
                    }
                }
            }
        };
        Ok(ReadOutcome::Some(match (next, &self.piece) {
            (NextLogStep::PayloadEnd(ended), _) => WalkStep::PayloadEnd(ended),
            (NextLogStep::LargePayload, Some(WalkPiece::PayloadStart(head))) => WalkStep::LargePayload(head),
            (NextLogStep::Walk(next), piece) => match source(piece.as_ref()) {
                Some(source) => self.walk.step(&source, next),
                None => unreachable!("ours: the step is from this piece"),
            },
            (NextLogStep::LargePayload, _) => unreachable!("ours: the payload was read just now"),
        }))
    }

    /// Skips the payload, if the last step was an event with a payload, or an event inside a payload.
    pub fn skip_payload(&mut self) {
        match &self.piece {
            Some(WalkPiece::Chunk(_)) => self.walk.skip_payload(),
            _ => {
                self.piece = None;
                self.pieces.skip_payload();
            }
        }
    }
}

fn source(piece: Option<&WalkPiece>) -> Option<WalkSource<'_>> {
    match piece? {
        WalkPiece::Chunk(chunk) => Some(WalkSource::Chunk(chunk)),
        WalkPiece::PayloadPart(part) => Some(WalkSource::Part(part)),
        WalkPiece::PayloadStart(_) | WalkPiece::PayloadEnd { .. } => None,
    }
}
