//! Splits a log into whole transactions and the events between them.

use std::fmt;
use std::ops::Range;

use binlog::{
    CompressionCheck, CompressionRefusal, DecodeError, EventFormat, RawEventBuf, TrackError, TrackedEvent,
    TransactionKind, TransactionOutline, TransactionTracker,
};

use crate::error::LogError;
use crate::event_chunk::{EventChunk, LogEvent};
use crate::log_reader::{LogReader, ReadOutcome};

/// Splits a log's chunks into whole transactions and the events between them.
///
/// A violation of the grammar is no error here: an unfinished transaction becomes a [`LogSegment`] between
/// transactions. No event is lost.
#[derive(Debug)]
pub struct TransactionCutter {
    /// Maximum size in bytes of a transaction that is kept.
    large: u64,
    tracker: TransactionTracker,
    candidate: CompressionCheck,
    /// True if the open transaction violates the grammar.
    is_faulty: bool,
    open: OpenTransaction,
}

/// Consecutive events: a transaction, or events between transactions.
#[derive(Clone, Debug)]
pub struct LogSegment {
    /// Chunks with the events, in order; only the first part of a large transaction.
    pub parts: Vec<EventChunk>,
    /// Kind of the segment.
    pub content: SegmentContent,
}

/// Kind of a [`LogSegment`].
#[derive(Clone, Debug)]
pub enum SegmentContent {
    /// Events between transactions, or of an unfinished transaction.
    Between,
    /// Events of an unfinished transaction too large to keep, with its start and end.
    LargeBetween(Box<TransactionOutline>),
    /// Whole transaction.
    Transaction(Box<WholeTransaction>),
}

/// Whole transaction.
#[derive(Clone, Debug)]
pub struct WholeTransaction {
    /// Outline of the transaction: its position, size, identifier and kind.
    pub outline: TransactionOutline,
    /// Reason why a server would not compress the transaction; `None` if the server would compress it.
    pub refusal: Option<CompressionRefusal>,
    /// Size of the transaction's events inside a payload, if the transaction is not compressed.
    pub inner_size: u64,
    /// True if the transaction was too large to keep, and must be read again.
    pub is_large: bool,
}

/// Error: a field that the split into transactions needs cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutError {
    /// Start of the event, in bytes from the start of its log.
    pub offset: u64,
    /// Cause, with an offset from the event's first byte.
    pub error: DecodeError,
}

impl fmt::Display for CutError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at {}: {}", self.offset, self.error)
    }
}

impl std::error::Error for CutError {}

/// Events of the open transaction from earlier chunks.
#[derive(Debug, Default)]
struct OpenTransaction {
    parts: Vec<EventChunk>,
    size: u64,
    is_large: bool,
    /// True if parts were dropped: the transaction must be read again.
    is_incomplete: bool,
}

/// Transactions that an event ends.
struct TransactionEnds {
    /// Transaction that ends with the event.
    ended: Option<TransactionOutline>,
    /// Unfinished transaction that the event interrupts.
    discarded: Option<TransactionOutline>,
}

/// Callback that takes segments in order.
pub type TakeSegment<'g, E> = &'g mut dyn FnMut(LogSegment) -> Result<(), E>;

impl TransactionCutter {
    /// Creates a cutter that does not keep uncompressed transactions of more than `large` bytes: a caller that needs
    /// such a transaction reads it again.
    pub fn new(large: u64) -> Self {
        Self {
            large,
            tracker: TransactionTracker::new(),
            candidate: CompressionCheck::default(),
            is_faulty: false,
            open: OpenTransaction::default(),
        }
    }

    /// Returns the transaction that has started but not ended.
    pub const fn open_outline(&self) -> Option<&TransactionOutline> {
        self.tracker.open()
    }

    /// Returns the first event of the open transaction, and its position.
    pub fn first_open_event(&self) -> Option<(u64, RawEventBuf)> {
        let event = self.open.parts.first()?.get(0)?;
        Some((event.offset, event.raw.to_buf()))
    }

    /// Processes the log's next chunk.
    ///
    /// # Errors
    ///
    /// Fails if an event cannot be decoded, and the errors of `give`.
    pub fn cut_chunk<E: From<CutError>>(
        &mut self,
        chunk: &EventChunk,
        give: TakeSegment<'_, E>,
    ) -> Result<(), E> {
        // Index of the first event that is not yet in a segment.
        let mut start = 0;
        for (index, event) in chunk.iter().enumerate() {
            let was_open = self.tracker.open().is_some();
            let TransactionEnds { ended, discarded } = self.track(&event, chunk.format())?;
            if let Some(discarded) = &discarded {
                self.open.extend(chunk.part(start..index), self.large);
                self.give_unfinished(discarded, give)?;
                start = index;
            }
            let was_open = was_open && discarded.is_none();
            let is_open = self.tracker.open().is_some();
            if !was_open && (is_open || ended.is_some()) {
                give_between(chunk.part(start..index), give)?;
                start = index;
            }
            if let Some(ended) = ended {
                self.end_transaction(ended, chunk.part(start..index + 1), give)?;
                start = index + 1;
            }
        }
        let rest = chunk.part(start..chunk.len());
        match self.tracker.open() {
            Some(_) => {
                self.open.extend(rest, self.large);
                Ok(())
            }
            None => give_between(rest, give),
        }
    }

    /// Passes an unfinished transaction to `give` as a segment between transactions, at the end of the log.
    ///
    /// # Errors
    ///
    /// Fails as `give` does.
    pub fn finish<E>(&mut self, give: TakeSegment<'_, E>) -> Result<(), E> {
        match self.tracker.open().cloned() {
            Some(outline) => self.give_unfinished(&outline, give),
            None => Ok(()),
        }
    }

    /// Passes the event to the tracker.
    fn track(&mut self, event: &LogEvent<'_>, format: &EventFormat) -> Result<TransactionEnds, CutError> {
        let was_open = self.tracker.open().is_some();
        let wrong = |error| CutError { offset: event.offset, error };
        let (tracked, discarded, is_fault): (TrackedEvent, _, _) =
            match self.tracker.track(event.offset, &event.raw, format) {
                Ok(tracked) => (tracked, None, false),
                Err(TrackError::Fault(broken)) => (broken.tracked, broken.discarded, true),
                Err(TrackError::Decode(error)) => return Err(wrong(error)),
            };
        if !was_open || discarded.is_some() {
            (self.candidate, self.is_faulty) = (CompressionCheck::default(), false);
        }
        self.is_faulty |= is_fault;
        self.candidate.take(tracked.role, &event.raw, format).map_err(wrong)?;
        Ok(TransactionEnds { ended: tracked.ended, discarded })
    }

    /// Passes the unfinished open transaction to `give` as a segment between transactions.
    fn give_unfinished<E>(
        &mut self,
        discarded: &TransactionOutline,
        give: TakeSegment<'_, E>,
    ) -> Result<(), E> {
        let open = std::mem::take(&mut self.open);
        if open.is_large {
            let content = SegmentContent::LargeBetween(Box::new(discarded.clone()));
            return give(LogSegment { parts: open.parts, content });
        }
        match open.parts.is_empty() {
            true => Ok(()),
            false => give(LogSegment { parts: open.parts, content: SegmentContent::Between }),
        }
    }

    fn end_transaction<E>(
        &mut self,
        outline: TransactionOutline,
        last: EventChunk,
        give: TakeSegment<'_, E>,
    ) -> Result<(), E> {
        let faulty = self.is_faulty.then_some(CompressionRefusal::Interrupted);
        let refusal = faulty.or_else(|| self.candidate.refusal(&outline));
        let is_payload = outline.kind == TransactionKind::Payload;
        if is_payload {
            // Usually only the GTID event precedes the payload, which is one event already in memory. But events
            // outside the grammar may be between them, possibly too many to keep.
            self.open.is_large = self.open.is_incomplete;
        }
        self.open.extend(last, if is_payload { u64::MAX } else { self.large });
        let OpenTransaction { parts, is_large, .. } = std::mem::take(&mut self.open);
        let whole = WholeTransaction { outline, refusal, inner_size: self.candidate.inner_size(), is_large };
        give(LogSegment { parts, content: SegmentContent::Transaction(Box::new(whole)) })
    }
}

fn give_between<E>(part: EventChunk, give: TakeSegment<'_, E>) -> Result<(), E> {
    match part.is_empty() {
        true => Ok(()),
        false => give(LogSegment { parts: vec![part], content: SegmentContent::Between }),
    }
}

impl LogSegment {
    /// Returns the events, in order; only the first events of a large transaction.
    pub fn events(&self) -> impl Iterator<Item = LogEvent<'_>> {
        self.parts.iter().flat_map(EventChunk::iter)
    }

    /// Returns the number of bytes that the segment holds in memory.
    pub fn size(&self) -> usize {
        self.parts.iter().map(|part| part.bytes().len()).sum()
    }
}

impl OpenTransaction {
    fn extend(&mut self, part: EventChunk, large: u64) {
        self.size += part.bytes().len() as u64;
        self.is_large |= self.size > large;
        self.parts.push(part);
        if self.is_large {
            // Keep the first part, which identifies the log and is small.
            self.is_incomplete |= self.parts.len() > 1;
            self.parts.truncate(1);
        }
    }
}

/// Calls `take` with each event that starts within a range of a log, and its format. The reader must not be past the
/// range. Reads chunks of `size` bytes. Returns whether the end of the range was reached.
///
/// # Errors
///
/// Fails if the log cannot be read, and the errors of `take`.
pub fn read_events_within<E: From<LogError>>(
    reader: &mut LogReader,
    range: Range<u64>,
    size: usize,
    take: &mut dyn FnMut(LogEvent<'_>, &EventFormat) -> Result<(), E>,
) -> Result<bool, E> {
    loop {
        match reader.next_chunk(size)? {
            ReadOutcome::End(_) => return Ok(false),
            ReadOutcome::Some(chunk) if chunk.end() <= range.start => {}
            ReadOutcome::Some(chunk) => {
                for event in chunk.iter().filter(|event| event.offset >= range.start) {
                    take(event, chunk.format())?;
                    if event.end() >= range.end {
                        return Ok(true);
                    }
                }
            }
        }
    }
}
