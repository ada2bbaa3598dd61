//! Cuts a log into units that workers can process independently: whole transactions, and the events between them.

use std::sync::Arc;

use binlog::{Flavour, Format, Outline, Refusal};
use logs::ordered::Feed;
use logs::{Chunk, Content, CutError, End, LogKind, LogReader, Next, TransactionCutter, Whole};

use crate::error::{At, Error};
use crate::{Action, Compressed, OldFormat, Sizes};

/// Bytes that a large transaction counts as in the queue: the buffers of its worker.
const LARGE_COST: usize = 4 << 20;

/// Work for one worker at a time.
pub(crate) struct Unit {
    pub(crate) kind: LogKind,
    pub(crate) work: Work,
}

pub(crate) enum Work {
    /// Events in memory.
    Small(Vec<Segment>),
    /// One transaction, to be read again from the log.
    Large(LargeTransaction),
}

/// Events that are all treated the same way.
pub(crate) struct Segment {
    pub(crate) fate: Fate,
    /// Their bytes, in order.
    pub(crate) parts: Vec<Chunk>,
}

/// One transaction that is too large to be held in memory.
pub(crate) struct LargeTransaction {
    pub(crate) fate: Fate,
    /// Start of the format description that applies to it.
    pub(crate) format_at: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Bytes of its events when they are inside a payload.
    pub(crate) inner_size: u64,
}

/// Treatment of some events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Events between transactions: copied.
    Between,
    /// A transaction that is copied.
    Pass(Passing),
    /// A plain transaction: compressed.
    Compress,
    /// A compressed transaction: decompressed.
    Open,
    /// A compressed transaction: compressed again.
    Recompress,
}

/// Reason why a transaction is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passing {
    /// It cannot be compressed.
    Refused(Refusal),
    /// It is plain already, and the action is to decompress.
    Unmeant,
}

/// Reads the log to its end and pushes its units to the workers.
pub(crate) fn feed(
    reader: &mut LogReader,
    action: Action,
    sizes: &Sizes,
    line: &Feed<'_, Unit>,
) -> Result<End, Error> {
    let mut grouper = Grouper::new(action, sizes.clone(), reader.name().to_owned());
    let mut cutter = TransactionCutter::new(sizes.large);
    loop {
        match reader.next_chunk(sizes.unit)? {
            Next::Some(chunk) => {
                if chunk.log_number() > 0 {
                    let at = At { name: reader.name(), offset: chunk.offset() };
                    return Err(
                        at.corrupt(&"a second log starts here in the same file: split the file into two")
                    );
                }
                grouper.kind = reader.kind();
                grouper.check_format(&chunk)?;
                cutter
                    .take(&chunk, &mut |segment| grouper.take(segment, line))
                    .map_err(|stop| stop.at(reader.name()))?;
            }
            Next::End(End::Torn(torn)) => return Err(reader.torn(torn).into()),
            Next::End(end) => {
                cutter
                    .finish(&mut |segment| grouper.take(segment, line))
                    .map_err(|stop| stop.at(reader.name()))?;
                grouper.flush(line)?;
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
    /// Offsets of the format descriptions: one, and in a relay log also the one of its source.
    formats_at: Vec<u64>,
    segments: Vec<Segment>,
    segments_size: usize,
}

/// Error of cutting the log. The log's name is added later.
enum Stop {
    Cut(CutError),
    Other(Error),
}

impl Stop {
    fn at(self, name: &str) -> Error {
        match self {
            Self::Cut(cut) => At { name, offset: cut.offset }.decode(cut.error),
            Self::Other(error) => error,
        }
    }
}

impl From<CutError> for Stop {
    fn from(cut: CutError) -> Self {
        Self::Cut(cut)
    }
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Other(error)
    }
}

impl Grouper {
    fn new(action: Action, sizes: Sizes, name: String) -> Self {
        let kind = LogKind::Binary;
        Self {
            action,
            sizes,
            name,
            kind,
            format: None,
            formats_at: Vec::new(),
            segments: Vec::new(),
            segments_size: 0,
        }
    }

    /// Checks that the log can contain compressed transactions.
    fn check_format(&mut self, chunk: &Chunk) -> Result<(), Error> {
        let format = chunk.format();
        if self.format.as_ref().is_some_and(|known| Arc::ptr_eq(known, format)) {
            return Ok(());
        }
        // A format description is always the first event of its chunk.
        self.format = Some(Arc::clone(format));
        self.formats_at.push(chunk.offset());
        let Action::Compress(how) = self.action else { return Ok(()) };
        let (name, server) =
            (self.name.clone(), String::from_utf8_lossy(&format.server_version).into_owned());
        match (format.flavour, how.old_format) {
            (Flavour::MariaDb, _) => Err(Error::Mariadb { name, server }),
            (Flavour::MySql, OldFormat::Refuse) if !format.knows_payloads() => {
                Err(Error::Format { name, server, event_types: format.post_header_sizes.len() })
            }
            (Flavour::MySql, _) => Ok(()),
        }
    }

    fn take(&mut self, segment: logs::Segment, line: &Feed<'_, Unit>) -> Result<(), Stop> {
        match segment.content {
            Content::Between => self.push(Fate::Between, segment.parts, line)?,
            Content::LargeBetween(outline) => self.push_large(Fate::Between, &outline, 0, line)?,
            Content::Transaction(whole) => {
                let fate = self.fate(&whole);
                match whole.is_large {
                    true => self.push_large(fate, &whole.outline, whole.inner_size, line)?,
                    false => self.push(fate, segment.parts, line)?,
                }
            }
        }
        Ok(())
    }

    fn fate(&self, whole: &Whole) -> Fate {
        match (self.action, whole.refusal) {
            (Action::Decompress, Some(Refusal::Compressed)) => Fate::Open,
            (Action::Decompress, _) => Fate::Pass(Passing::Unmeant),
            (Action::Compress(_), None) => Fate::Compress,
            (Action::Compress(how), Some(Refusal::Compressed)) if how.compressed == Compressed::Again => {
                Fate::Recompress
            }
            (Action::Compress(_), Some(refusal)) => Fate::Pass(Passing::Refused(refusal)),
        }
    }

    fn push_large(
        &mut self,
        fate: Fate,
        outline: &Outline,
        inner_size: u64,
        line: &Feed<'_, Unit>,
    ) -> Result<(), Error> {
        self.flush(line)?;
        let (start, end) = (outline.position, outline.end);
        let format_at = self.formats_at.iter().rfind(|at| **at <= start).copied().unwrap_or_default();
        let work = Work::Large(LargeTransaction { fate, format_at, start, end, inner_size });
        Ok(line.push(Unit { kind: self.kind, work }, LARGE_COST)?)
    }

    fn push(&mut self, fate: Fate, parts: Vec<Chunk>, line: &Feed<'_, Unit>) -> Result<(), Error> {
        self.segments_size += parts.iter().map(|part| part.bytes().len()).sum::<usize>();
        self.segments.push(Segment { fate, parts });
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
}
