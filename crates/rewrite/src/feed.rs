//! Cuts a log into units that can be worked on apart: whole transactions, and what stands between them.

use std::sync::Arc;

use binlog::{Candidate, Format, Outline, Refusal, TrackError, Tracker};
use logs::ordered::Feed;
use logs::{Chunk, End, LogEvent, LogKind, LogReader, Next};

use crate::error::{At, Error};
use crate::{Action, Compressed};

/// What is read at once, and roughly what is handed on at once.
const UNIT_SIZE: usize = 1024 * 1024;

/// A transaction of more bytes is not kept in memory: its worker reads it again.
const LARGE_SIZE: u64 = 32 * 1024 * 1024;

/// What a large transaction counts for, in bytes: its worker's buffers.
const LARGE_COST: usize = 4 * UNIT_SIZE;

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
pub(crate) fn feed(reader: &mut LogReader, action: Action, line: &Feed<'_, Unit>) -> Result<End, Error> {
    let mut grouper = Grouper::new(action, reader.name().to_owned());
    loop {
        match reader.next_chunk(UNIT_SIZE)? {
            Next::Some(chunk) => {
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
    name: String,
    kind: LogKind,
    format: Option<Arc<Format>>,
    tracker: Tracker,
    candidate: Candidate,
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
    fn new(action: Action, name: String) -> Self {
        Self {
            action,
            name,
            kind: LogKind::Binary,
            format: None,
            tracker: Tracker::new(),
            candidate: Candidate::default(),
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
            let ended = self.track(&event, chunk.format())?;
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
            Some(_) => self.open.extend(rest),
            None => self.push(Fate::Between, rest, line)?,
        }
        Ok(())
    }

    /// Follows the grammar; gives the transaction that the event ends. What breaks the grammar passes as it is:
    /// judging logs is another tool's business, and nothing is lost.
    fn track(&mut self, event: &LogEvent<'_>, format: &Format) -> Result<Option<Outline>, Error> {
        let at = At { name: &self.name, offset: event.offset };
        if self.tracker.open().is_none() {
            self.candidate = Candidate::default();
        }
        let tracked = match self.tracker.track(event.offset, &event.raw, format) {
            Ok(tracked) => tracked,
            Err(TrackError::Decode(error)) => return Err(at.decode(error)),
            Err(TrackError::Fault(broken)) => return Err(at.corrupt(&broken.fault)),
        };
        self.candidate.take(tracked.role, &event.raw, format).map_err(|error| at.decode(error))?;
        Ok(tracked.ended)
    }

    fn end(&mut self, outline: &Outline, last: Chunk, line: &Feed<'_, Unit>) -> Result<(), Error> {
        let fate = self.fate(outline);
        self.open.extend(last);
        let open = std::mem::take(&mut self.open);
        if open.is_large {
            return self.push_large(fate, &open, outline, line);
        }
        self.segments_size += open.size as usize;
        self.segments.push(Segment { fate, parts: open.parts });
        self.flush_if_full(line)
    }

    fn push_large(
        &mut self,
        fate: Fate,
        open: &OpenTransaction,
        outline: &Outline,
        line: &Feed<'_, Unit>,
    ) -> Result<(), Error> {
        self.flush(line)?;
        if open.parts.first().is_some_and(|part| part.log_number() > 0) {
            let at = At { name: &self.name, offset: outline.position };
            let size = outline.size;
            return Err(at.corrupt(&format_args!(
                "a transaction of {size} bytes in a log behind another in one file: cut the file in two"
            )));
        }
        let (start, end, inner_size) = (outline.position, outline.end, self.candidate.inner_size());
        let work = Work::Large(LargeTransaction { fate, start, end, inner_size });
        Ok(line.push(Unit { kind: self.kind, work }, LARGE_COST)?)
    }

    fn fate(&self, outline: &Outline) -> Fate {
        match (self.action, self.candidate.refusal(outline)) {
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
        match self.segments_size < UNIT_SIZE {
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
        let open = std::mem::take(&mut self.open);
        if let (true, Some(outline)) = (open.is_large, self.tracker.open().cloned()) {
            return self.push_large(Fate::Between, &open, &outline, line);
        }
        if !open.parts.is_empty() {
            self.segments.push(Segment { fate: Fate::Between, parts: open.parts });
        }
        self.flush(line)
    }
}

impl OpenTransaction {
    fn extend(&mut self, part: Chunk) {
        self.size += part.bytes().len() as u64;
        self.is_large |= self.size > LARGE_SIZE;
        self.parts.push(part);
        if self.is_large {
            // The first part tells which log; its bytes are few.
            self.parts.truncate(1);
        }
    }
}
