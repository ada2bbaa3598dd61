//! Cuts a log into whole transactions, and what stands between them.

use std::fmt;
use std::ops::Range;

use binlog::{
    Candidate, DecodeError, Format, Outline, RawEventBuf, Refusal, TrackError, Tracked, Tracker,
    TransactionKind,
};

use crate::chunk::{Chunk, LogEvent};
use crate::error::Error;
use crate::reader::{LogReader, Next};

/// Cuts a log's chunks into whole transactions, and what stands between them.
///
/// What breaks the grammar is no error here: a transaction that was cut short is a [`Segment`] between transactions,
/// and no event is lost.
#[derive(Debug)]
pub struct TransactionCutter {
    /// Transactions of more bytes are not kept.
    large: u64,
    tracker: Tracker,
    candidate: Candidate,
    /// Did the open transaction break the grammar?
    is_faulty: bool,
    open: OpenTransaction,
}

/// Events that belong together.
#[derive(Clone, Debug)]
pub struct Segment {
    /// Their bytes, in order; of a large transaction only the first part.
    pub parts: Vec<Chunk>,
    /// What they are.
    pub content: Content,
}

/// What a [`Segment`] is.
#[derive(Clone, Debug)]
pub enum Content {
    /// Events between transactions, or of one that was cut short.
    Between,
    /// The same, of a transaction too large to be kept, with where it starts and ends.
    LargeBetween(Box<Outline>),
    /// A whole transaction.
    Transaction(Box<Whole>),
}

/// A whole transaction.
#[derive(Clone, Debug)]
pub struct Whole {
    /// What it says of itself.
    pub outline: Outline,
    /// Why a server would leave it as it is; `None`: it would compress it.
    pub refusal: Option<Refusal>,
    /// The bytes of its events inside a payload, if it is plain.
    pub inner_size: u64,
    /// Is it too large to be kept, so that it has to be read again?
    pub is_large: bool,
}

/// An event that cannot be decoded as far as is needed to tell transactions apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CutError {
    /// Where the event starts, in bytes from the start of its log.
    pub offset: u64,
    /// What is wrong, with a place counted from the event's first byte.
    pub error: DecodeError,
}

impl fmt::Display for CutError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "at {}: {}", self.offset, self.error)
    }
}

impl std::error::Error for CutError {}

/// The events of the open transaction that earlier chunks brought.
#[derive(Debug, Default)]
struct OpenTransaction {
    parts: Vec<Chunk>,
    size: u64,
    is_large: bool,
    /// Are parts of it gone, so that it has to be read again?
    is_cut: bool,
}

/// Takes segments in order.
type Give<'g, E> = &'g mut dyn FnMut(Segment) -> Result<(), E>;

impl TransactionCutter {
    /// Plain transactions of more than `large` bytes are not kept: who wants them reads them again.
    pub fn new(large: u64) -> Self {
        Self {
            large,
            tracker: Tracker::new(),
            candidate: Candidate::default(),
            is_faulty: false,
            open: OpenTransaction::default(),
        }
    }

    /// The transaction that has started and not ended.
    pub const fn open(&self) -> Option<&Outline> {
        self.tracker.open()
    }

    /// The first event of the transaction that has started and not ended, and where it starts.
    pub fn first(&self) -> Option<(u64, RawEventBuf)> {
        let event = self.open.parts.first()?.get(0)?;
        Some((event.offset, event.raw.to_buf()))
    }

    /// Takes the log's next chunk.
    ///
    /// # Errors
    ///
    /// When an event cannot be decoded, and those of `give`.
    pub fn take<E: From<CutError>>(&mut self, chunk: &Chunk, give: Give<'_, E>) -> Result<(), E> {
        // Where the events start that no segment has yet.
        let mut start = 0;
        for (index, event) in chunk.iter().enumerate() {
            let was_open = self.tracker.open().is_some();
            let (ended, cut) = self.track(&event, chunk.format())?;
            if let Some(cut) = &cut {
                self.open.extend(chunk.part(start..index), self.large);
                self.give_up(cut, give)?;
                start = index;
            }
            let was_open = was_open && cut.is_none();
            let is_open = self.tracker.open().is_some();
            if !was_open && (is_open || ended.is_some()) {
                give_between(chunk.part(start..index), give)?;
                start = index;
            }
            if let Some(ended) = ended {
                self.end(ended, chunk.part(start..index + 1), give)?;
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

    /// The log has ended: a transaction that has not is given between transactions.
    ///
    /// # Errors
    ///
    /// Those of `give`.
    pub fn finish<E>(&mut self, give: Give<'_, E>) -> Result<(), E> {
        match self.tracker.open().cloned() {
            Some(outline) => self.give_up(&outline, give),
            None => Ok(()),
        }
    }

    /// Follows the grammar; gives the transaction that the event ends, and the one that it cuts short.
    fn track(
        &mut self,
        event: &LogEvent<'_>,
        format: &Format,
    ) -> Result<(Option<Outline>, Option<Outline>), CutError> {
        let was_open = self.tracker.open().is_some();
        let wrong = |error| CutError { offset: event.offset, error };
        let (tracked, cut, is_fault): (Tracked, _, _) =
            match self.tracker.track(event.offset, &event.raw, format) {
                Ok(tracked) => (tracked, None, false),
                Err(TrackError::Fault(broken)) => (broken.tracked, broken.cut, true),
                Err(TrackError::Decode(error)) => return Err(wrong(error)),
            };
        if !was_open || cut.is_some() {
            (self.candidate, self.is_faulty) = (Candidate::default(), false);
        }
        self.is_faulty |= is_fault;
        self.candidate.take(tracked.role, &event.raw, format).map_err(wrong)?;
        Ok((tracked.ended, cut))
    }

    /// The open transaction was cut short.
    fn give_up<E>(&mut self, cut: &Outline, give: Give<'_, E>) -> Result<(), E> {
        let open = std::mem::take(&mut self.open);
        if open.is_large {
            let content = Content::LargeBetween(Box::new(cut.clone()));
            return give(Segment { parts: open.parts, content });
        }
        match open.parts.is_empty() {
            true => Ok(()),
            false => give(Segment { parts: open.parts, content: Content::Between }),
        }
    }

    fn end<E>(&mut self, outline: Outline, last: Chunk, give: Give<'_, E>) -> Result<(), E> {
        let faulty = self.is_faulty.then_some(Refusal::Interrupted);
        let refusal = faulty.or_else(|| self.candidate.refusal(&outline));
        let is_payload = outline.kind == TransactionKind::Payload;
        if is_payload {
            // Mostly only its GTID event came before, and the payload itself is one event and in memory already. But
            // events without a part in it may stand between, and they can be so many that they were not kept.
            self.open.is_large = self.open.is_cut;
        }
        self.open.extend(last, if is_payload { u64::MAX } else { self.large });
        let OpenTransaction { parts, is_large, .. } = std::mem::take(&mut self.open);
        let whole = Whole { outline, refusal, inner_size: self.candidate.inner_size(), is_large };
        give(Segment { parts, content: Content::Transaction(Box::new(whole)) })
    }
}

fn give_between<E>(part: Chunk, give: Give<'_, E>) -> Result<(), E> {
    match part.is_empty() {
        true => Ok(()),
        false => give(Segment { parts: vec![part], content: Content::Between }),
    }
}

impl Segment {
    /// Its events, in order; of a large transaction only the first ones.
    pub fn events(&self) -> impl Iterator<Item = LogEvent<'_>> {
        self.parts.iter().flat_map(Chunk::iter)
    }

    /// The bytes that it holds in memory.
    pub fn size(&self) -> usize {
        self.parts.iter().map(|part| part.bytes().len()).sum()
    }
}

impl OpenTransaction {
    fn extend(&mut self, part: Chunk, large: u64) {
        self.size += part.bytes().len() as u64;
        self.is_large |= self.size > large;
        self.parts.push(part);
        if self.is_large {
            // The first part tells which log; its bytes are few.
            self.is_cut |= self.parts.len() > 1;
            self.parts.truncate(1);
        }
    }
}

/// Gives the events that start within a range of a log, which the reader has not passed yet, and what holds for them;
/// chunks of `size` bytes are read at once. Gives whether the range's end was reached.
///
/// # Errors
///
/// When the log cannot be read, and those of `take`.
pub fn each_event_within<E: From<Error>>(
    reader: &mut LogReader,
    range: Range<u64>,
    size: usize,
    take: &mut dyn FnMut(LogEvent<'_>, &Format) -> Result<(), E>,
) -> Result<bool, E> {
    loop {
        match reader.next_chunk(size)? {
            Next::End(_) => return Ok(false),
            Next::Some(chunk) if chunk.end() <= range.start => {}
            Next::Some(chunk) => {
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
