//! Cuts a log into units that can be worked on apart: whole transactions, and what stands between them.

use std::sync::Arc;

use binlog::{Candidate, Format, Outline, Refusal, TrackError, Tracker, TransactionKind};
use logs::ordered::Feed;
use logs::{Chunk, End, LogEvent, LogKind, LogReader, Next};

use crate::error::{At, Error};
use crate::{Action, Compressed, Sizes};

/// What a large transaction counts for, in bytes: its worker's buffers.
const LARGE_COST: usize = 4 << 20;

/// What one worker does at once.
pub(crate) struct Unit {
    pub(crate) kind: LogKind,
    pub(crate) work: Work,
}

pub(crate) enum Work {
    /// Events in memory.
    Small(Vec<Segment>),
    /// One transaction, to be read again.
    Large(LargeTransaction),
}

/// Events that share a fate.
pub(crate) struct Segment {
    pub(crate) fate: Fate,
    /// Their bytes, in order.
    pub(crate) parts: Vec<Chunk>,
}

/// One transaction that is not in memory.
pub(crate) struct LargeTransaction {
    pub(crate) fate: Fate,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// The bytes of its events inside a payload.
    pub(crate) inner_size: u64,
}

/// What is to happen to some events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// They stand between transactions, and pass.
    Between,
    /// A transaction that passes.
    Pass(Passing),
    /// A plain transaction that is compressed.
    Compress,
    /// A compressed transaction that is opened.
    Open,
    /// A compressed transaction that is compressed again.
    Recompress,
}

/// Why a transaction passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passing {
    /// It cannot be compressed.
    Refused(Refusal),
    /// It is not meant: a plain one, when compressed ones are opened.
    Unmeant,
}

/// Reads the log to its end.
pub(crate) fn feed(
    reader: &mut LogReader,
    action: Action,
    sizes: &Sizes,
    line: &Feed<'_, Unit>,
) -> Result<End, Error> {
    let mut grouper = Grouper::new(action, sizes.clone(), reader.name().to_owned());
    loop {
        match reader.next_chunk(sizes.unit)? {
            Next::Some(chunk) => {
                if chunk.log_number() > 0 {
                    let at = At { name: reader.name(), offset: chunk.offset() };
                    return Err(at.corrupt(&"this is a second log in the same file: cut the file in two"));
                }
                grouper.kind = reader.kind();
                grouper.check_format(chunk.format())?;
                grouper.take(&chunk, line)?;
            }
            Next::End(End::Torn(torn)) => return Err(reader.torn(torn).into()),
            Next::End(end) => {
                grouper.finish(line)?;
                return Ok(end);
            }
        }
    }
}

struct Grouper {
    action: Action,
    sizes: Sizes,
    name: String,
    kind: LogKind,
    format: Option<Arc<Format>>,
    tracker: Tracker,
    candidate: Candidate,
    /// Did the open transaction break the grammar?
    is_faulty: bool,
    open: OpenTransaction,
    segments: Vec<Segment>,
    segments_size: usize,
}

/// The events of the open transaction that earlier chunks brought.
#[derive(Default)]
struct OpenTransaction {
    parts: Vec<Chunk>,
    size: u64,
    start: u64,
    is_large: bool,
}

impl Grouper {
    fn new(action: Action, sizes: Sizes, name: String) -> Self {
        Self {
            action,
            sizes,
            name,
            kind: LogKind::Binary,
            format: None,
            tracker: Tracker::new(),
            candidate: Candidate::default(),
            is_faulty: false,
            open: OpenTransaction::default(),
            segments: Vec::new(),
            segments_size: 0,
        }
    }

    /// Could the log hold compressed transactions?
    fn check_format(&mut self, format: &Arc<Format>) -> Result<(), Error> {
        if self.format.as_ref().is_some_and(|known| Arc::ptr_eq(known, format)) {
            return Ok(());
        }
        self.format = Some(Arc::clone(format));
        match (self.action, format.knows_payloads()) {
            (Action::Decompress, _) | (Action::Compress(_), true) => Ok(()),
            (Action::Compress(_), false) => Err(Error::Format {
                name: self.name.clone(),
                server: String::from_utf8_lossy(&format.server_version).into_owned(),
                event_types: format.post_header_sizes.len(),
            }),
        }
    }

    fn take(&mut self, chunk: &Chunk, line: &Feed<'_, Unit>) -> Result<(), Error> {
        // Where the events start that no segment has yet.
        let mut start = 0;
        for (index, event) in chunk.iter().enumerate() {
            let was_open = self.tracker.open().is_some();
            let (ended, cut) = self.track(&event, chunk.format())?;
            if let Some(cut) = &cut {
                self.open.extend(chunk.part(start..index), self.sizes.large);
                self.give_up(cut, line)?;
                start = index;
            }
            let was_open = was_open && cut.is_none();
            let is_open = self.tracker.open().is_some();
            if !was_open && (is_open || ended.is_some()) {
                self.push(Fate::Between, chunk.part(start..index), line)?;
                start = index;
                self.open.start = event.offset;
            }
            if let Some(ended) = ended {
                self.end(&ended, chunk.part(start..index + 1), line)?;
                start = index + 1;
            }
        }
        let rest = chunk.part(start..chunk.len());
        match self.tracker.open() {
            Some(_) => self.open.extend(rest, self.sizes.large),
            None => self.push(Fate::Between, rest, line)?,
        }
        Ok(())
    }

    /// Follows the grammar; gives the transaction that the event ends, and the one that it cuts short. What breaks
    /// the grammar passes as it is: judging logs is another command's business, and nothing is lost.
    fn track(
        &mut self,
        event: &LogEvent<'_>,
        format: &Format,
    ) -> Result<(Option<Outline>, Option<Outline>), Error> {
        let at = At { name: &self.name, offset: event.offset };
        let was_open = self.tracker.open().is_some();
        let (tracked, cut, is_fault) = match self.tracker.track(event.offset, &event.raw, format) {
            Ok(tracked) => (tracked, None, false),
            Err(TrackError::Fault(broken)) => (broken.tracked, broken.cut, true),
            Err(TrackError::Decode(error)) => return Err(at.decode(error)),
        };
        if !was_open || cut.is_some() {
            (self.candidate, self.is_faulty) = (Candidate::default(), false);
        }
        self.is_faulty |= is_fault;
        self.candidate.take(tracked.role, &event.raw, format).map_err(|error| at.decode(error))?;
        Ok((tracked.ended, cut))
    }

    /// The open transaction was cut short: its events pass.
    fn give_up(&mut self, cut: &Outline, line: &Feed<'_, Unit>) -> Result<(), Error> {
        let open = std::mem::take(&mut self.open);
        if open.is_large {
            return self.push_large(Fate::Between, cut, line);
        }
        self.segments_size += open.size as usize;
        if !open.parts.is_empty() {
            self.segments.push(Segment { fate: Fate::Between, parts: open.parts });
        }
        self.flush_if_full(line)
    }

    fn end(&mut self, outline: &Outline, last: Chunk, line: &Feed<'_, Unit>) -> Result<(), Error> {
        let fate = self.fate(outline);
        let is_payload = outline.kind == TransactionKind::Payload;
        if is_payload {
            // Only its GTID event came before, and the payload itself is one event and in memory already.
            self.open.is_large = false;
        }
        self.open.extend(last, if is_payload { u64::MAX } else { self.sizes.large });
        let open = std::mem::take(&mut self.open);
        if open.is_large {
            return self.push_large(fate, outline, line);
        }
        self.segments_size += open.size as usize;
        self.segments.push(Segment { fate, parts: open.parts });
        self.flush_if_full(line)
    }

    fn push_large(&mut self, fate: Fate, outline: &Outline, line: &Feed<'_, Unit>) -> Result<(), Error> {
        self.flush(line)?;
        let (start, end, inner_size) = (outline.position, outline.end, self.candidate.inner_size());
        let work = Work::Large(LargeTransaction { fate, start, end, inner_size });
        Ok(line.push(Unit { kind: self.kind, work }, LARGE_COST)?)
    }

    fn fate(&self, outline: &Outline) -> Fate {
        let faulty = self.is_faulty.then_some(Refusal::Interrupted);
        match (self.action, faulty.or_else(|| self.candidate.refusal(outline))) {
            (Action::Decompress, Some(Refusal::Compressed)) => Fate::Open,
            (Action::Decompress, _) => Fate::Pass(Passing::Unmeant),
            (Action::Compress(_), None) => Fate::Compress,
            (Action::Compress(how), Some(Refusal::Compressed)) if how.compressed == Compressed::Again => {
                Fate::Recompress
            }
            (Action::Compress(_), Some(refusal)) => Fate::Pass(Passing::Refused(refusal)),
        }
    }

    fn push(&mut self, fate: Fate, part: Chunk, line: &Feed<'_, Unit>) -> Result<(), Error> {
        if part.is_empty() {
            return Ok(());
        }
        self.segments_size += part.bytes().len();
        self.segments.push(Segment { fate, parts: vec![part] });
        self.flush_if_full(line)
    }

    fn flush_if_full(&mut self, line: &Feed<'_, Unit>) -> Result<(), Error> {
        match self.segments_size < self.sizes.unit {
            true => Ok(()),
            false => self.flush(line),
        }
    }

    fn flush(&mut self, line: &Feed<'_, Unit>) -> Result<(), Error> {
        if self.segments.is_empty() {
            return Ok(());
        }
        let work = Work::Small(std::mem::take(&mut self.segments));
        let size = std::mem::take(&mut self.segments_size);
        Ok(line.push(Unit { kind: self.kind, work }, size)?)
    }

    /// A transaction that has not ended passes as it is.
    fn finish(&mut self, line: &Feed<'_, Unit>) -> Result<(), Error> {
        if let Some(outline) = self.tracker.open().cloned() {
            self.give_up(&outline, line)?;
        }
        self.flush(line)
    }
}

impl OpenTransaction {
    fn extend(&mut self, part: Chunk, large: u64) {
        self.size += part.bytes().len() as u64;
        self.is_large |= self.size > large;
        self.parts.push(part);
        if self.is_large {
            // The first part tells which log; its bytes are few.
            self.parts.truncate(1);
        }
    }
}
