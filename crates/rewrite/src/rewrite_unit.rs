//! Splits a log into units that workers can process independently: whole transactions, and the events between them.

use std::sync::Arc;

use binlog::{CompressionRefusal, EventFormat, Flavour, TransactionOutline};
use logs::{
    CutError, EndOfLog, EventChunk, LogError, LogKind, LogReader, ReadOutcome, SegmentContent,
    TransactionCutter, WholeTransaction,
};

use crate::error::{ErrorContext, RewriteError};
use crate::{CompressedPolicy, OldFormatPolicy, RewriteAction, RewriteLimits, TornEndPolicy};

/// Queue size of a large transaction, in bytes: the buffers of its worker.
const LARGE_UNIT_COST: usize = 4 << 20;

/// Work for one worker at a time.
pub(crate) struct RewriteUnit {
    pub(crate) kind: LogKind,
    pub(crate) content: UnitContent,
}

pub(crate) enum UnitContent {
    /// Events in memory.
    Small(Vec<RewriteSegment>),
    /// One transaction, to be read again from the log.
    Large(LargeTransaction),
}

/// Events that are all treated the same way.
pub(crate) struct RewriteSegment {
    pub(crate) action: SegmentAction,
    /// Bytes of the events, in order.
    pub(crate) parts: Vec<EventChunk>,
}

/// One transaction that is too large to be held in memory.
pub(crate) struct LargeTransaction {
    pub(crate) action: SegmentAction,
    /// Start of the format description that applies to the transaction.
    pub(crate) format_at: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Bytes of the transaction's events inside a payload.
    pub(crate) inner_size: u64,
}

/// Treatment of some events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SegmentAction {
    /// Events between transactions: copied.
    NoTransaction,
    /// A transaction that is copied.
    Pass(PassReason),
    /// A plain transaction: compressed.
    Compress,
    /// A compressed transaction: decompressed.
    Decompress,
    /// A compressed transaction: compressed again.
    Recompress,
}

/// Reason why a transaction is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PassReason {
    /// The transaction cannot be compressed.
    Refused(CompressionRefusal),
    /// The transaction is already plain, and the action is to decompress.
    AlreadyPlain,
}

/// Receives a unit, and its size in the queue.
pub(crate) type TakeUnit<'g> = &'g mut dyn FnMut(RewriteUnit, usize) -> Result<(), RewriteError>;

/// Reads the log to its end and pushes its units to the workers.
pub(crate) fn feed_units(
    reader: &mut LogReader,
    units: &mut UnitBuilder,
    torn_end: TornEndPolicy,
    give: TakeUnit<'_>,
) -> Result<EndOfLog, RewriteError> {
    let mut cutter = TransactionCutter::new(units.sizes.large);
    loop {
        let outcome = match reader.next_chunk(units.sizes.unit) {
            Err(LogError::Torn { torn, .. }) => ReadOutcome::End(EndOfLog::Torn(torn)),
            outcome => outcome?,
        };
        match outcome {
            ReadOutcome::Some(chunk) => {
                units.check_chunk(&chunk, reader.kind())?;
                cutter
                    .cut_chunk(&chunk, &mut |segment| units.take(segment, give))
                    .map_err(|stop| stop.into_error(reader.name()))?;
            }
            ReadOutcome::End(EndOfLog::Torn(torn)) if !torn.in_use || torn_end == TornEndPolicy::Refuse => {
                return Err(reader.torn_error(torn).into());
            }
            ReadOutcome::End(end) => {
                cutter
                    .finish(&mut |segment| units.take(segment, give))
                    .map_err(|stop| stop.into_error(reader.name()))?;
                units.flush(give)?;
                return Ok(end);
            }
        }
    }
}

/// Collects the events of a log in units.
pub(crate) struct UnitBuilder {
    action: RewriteAction,
    sizes: RewriteLimits,
    name: String,
    kind: LogKind,
    format: Option<Arc<EventFormat>>,
    /// Offsets of the format descriptions: the log's own and, in a relay log, also the source's.
    formats_at: Vec<u64>,
    segments: Vec<RewriteSegment>,
    segments_size: usize,
}

/// Error of splitting the log into units. The caller adds the log's name.
pub(crate) enum FeedError {
    Cut(CutError),
    Other(RewriteError),
}

impl FeedError {
    pub(crate) fn into_error(self, name: &str) -> RewriteError {
        match self {
            Self::Cut(cut) => ErrorContext { name, offset: cut.offset }.decode_error(cut.error),
            Self::Other(error) => error,
        }
    }
}

impl From<CutError> for FeedError {
    fn from(cut: CutError) -> Self {
        Self::Cut(cut)
    }
}

impl From<RewriteError> for FeedError {
    fn from(error: RewriteError) -> Self {
        Self::Other(error)
    }
}

impl UnitBuilder {
    pub(crate) fn new(action: RewriteAction, sizes: RewriteLimits, name: String) -> Self {
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

    /// Checks the format of the chunk.
    pub(crate) fn check_chunk(&mut self, chunk: &EventChunk, kind: LogKind) -> Result<(), RewriteError> {
        self.kind = kind;
        self.check_format(chunk.format(), chunk.offset())
    }

    /// Checks that a log of this format, whose description starts at `offset`, can contain compressed transactions.
    pub(crate) fn check_format(
        &mut self,
        format: &Arc<EventFormat>,
        offset: u64,
    ) -> Result<(), RewriteError> {
        if self.format.as_ref().is_some_and(|known| Arc::ptr_eq(known, format)) {
            return Ok(());
        }
        // A format description is always the first event of its chunk.
        self.format = Some(Arc::clone(format));
        self.formats_at.push(offset);
        let RewriteAction::Compress(settings) = self.action else { return Ok(()) };
        let (name, server) =
            (self.name.clone(), String::from_utf8_lossy(&format.server_version).into_owned());
        match (format.flavour, settings.old_format) {
            (Flavour::MariaDb, _) => Err(RewriteError::Mariadb { name, server }),
            (Flavour::MySql, OldFormatPolicy::Refuse) if !format.knows_payloads() => {
                Err(RewriteError::Format { name, server, event_types: format.post_header_sizes.len() })
            }
            (Flavour::MySql, _) => Ok(()),
        }
    }

    pub(crate) fn take(&mut self, segment: logs::LogSegment, give: TakeUnit<'_>) -> Result<(), FeedError> {
        match segment.content {
            SegmentContent::Between => self.push(SegmentAction::NoTransaction, segment.parts, give)?,
            SegmentContent::LargeBetween(outline) => {
                self.push_large(SegmentAction::NoTransaction, &outline, 0, give)?
            }
            SegmentContent::Transaction(whole) => {
                let fate = self.action_for(&whole);
                match whole.is_large {
                    true => self.push_large(fate, &whole.outline, whole.inner_size, give)?,
                    false => self.push(fate, segment.parts, give)?,
                }
            }
        }
        Ok(())
    }

    fn action_for(&self, whole: &WholeTransaction) -> SegmentAction {
        match (self.action, whole.refusal) {
            (RewriteAction::Decompress, Some(CompressionRefusal::Compressed)) => SegmentAction::Decompress,
            (RewriteAction::Decompress, _) => SegmentAction::Pass(PassReason::AlreadyPlain),
            (RewriteAction::Compress(_), None) => SegmentAction::Compress,
            (RewriteAction::Compress(settings), Some(CompressionRefusal::Compressed))
                if settings.compressed == CompressedPolicy::Recompress =>
            {
                SegmentAction::Recompress
            }
            (RewriteAction::Compress(_), Some(refusal)) => SegmentAction::Pass(PassReason::Refused(refusal)),
        }
    }

    fn push_large(
        &mut self,
        fate: SegmentAction,
        outline: &TransactionOutline,
        inner_size: u64,
        give: TakeUnit<'_>,
    ) -> Result<(), RewriteError> {
        self.flush(give)?;
        let (start, end) = (outline.position, outline.end);
        let format_at = self.formats_at.iter().rfind(|at| **at <= start).copied().unwrap_or_default();
        let work = UnitContent::Large(LargeTransaction { action: fate, format_at, start, end, inner_size });
        give(RewriteUnit { kind: self.kind, content: work }, LARGE_UNIT_COST)
    }

    fn push(
        &mut self,
        fate: SegmentAction,
        parts: Vec<EventChunk>,
        give: TakeUnit<'_>,
    ) -> Result<(), RewriteError> {
        self.segments_size += parts.iter().map(|part| part.bytes().len()).sum::<usize>();
        self.segments.push(RewriteSegment { action: fate, parts });
        match self.segments_size < self.sizes.unit {
            true => Ok(()),
            false => self.flush(give),
        }
    }

    pub(crate) fn flush(&mut self, give: TakeUnit<'_>) -> Result<(), RewriteError> {
        if self.segments.is_empty() {
            return Ok(());
        }
        let work = UnitContent::Small(std::mem::take(&mut self.segments));
        let size = std::mem::take(&mut self.segments_size);
        give(RewriteUnit { kind: self.kind, content: work }, size)
    }
}
