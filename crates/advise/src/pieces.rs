//! Reads logs as transactions: a whole log, or one cell.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use binlog::{
    EventFormat, EventType, Flavour, PayloadOpener, RawEventBuf, TransactionOutline,
    encryption::ENCRYPTED_HEADER_SIZE,
};
use logs::{
    CutError, EventChunk, LargePayload, LogReader, LogSegment, ReadOutcome, SegmentContent, TransactionCutter,
};

use super::LogSource;
use super::cell_grid::SampleCell;
use super::measurement_plan::MemoryLimits;
use super::record::CellShare;
use super::report::MeasuredLog;
use inspect::InspectError;

/// A transaction or the events between two, and its share in the current cell.
#[derive(Debug)]
pub(crate) struct WeightedPiece {
    pub(crate) content: WeightedContent,
    pub(crate) share: CellShare,
}

#[derive(Debug)]
pub(crate) enum WeightedContent {
    Segment(LogSegment),
    CompressedLargePayload(Box<CompressedLargePayload>),
}

/// A compressed transaction whose payload is not held in memory.
#[derive(Debug)]
pub(crate) struct CompressedLargePayload {
    /// Start of the transaction in the log.
    pub(crate) start: u64,
    /// GTID event of the transaction, if it has one.
    pub(crate) gtid: Option<RawEventBuf>,
    /// Commit time of the transaction, in microseconds since 1970; 0 if unknown.
    pub(crate) commit_us: u64,
    pub(crate) format: Arc<EventFormat>,
    /// Bytes of the transaction in the log.
    pub(crate) now: u64,
    /// Start of the transaction's payload event.
    pub(crate) offset: u64,
}

/// Item returned by the reader.
pub(crate) enum ReadItem {
    Piece(WeightedPiece),
    /// The pieces so far use enough memory: process them now.
    Pause,
}

/// Properties of a log that its first events show.
#[derive(Clone, Debug)]
pub(crate) struct LogPreview {
    pub(crate) report: MeasuredLog,
    /// Range of the log's events.
    pub(crate) bytes: Range<u64>,
    /// Bytes of the file that are not events: the magic number, and the header of an encrypted file.
    pub(crate) overhead: u64,
    /// True if the reader can seek in the log.
    pub(crate) can_seek: bool,
    /// True if the log's format has compressed transactions.
    pub(crate) knows_payloads: bool,
}

/// Bytes per read.
const CHUNK_SIZE: usize = 256 << 10;

/// Maximum number of events before the first transaction.
pub(crate) const HEAD_EVENTS: usize = 16;

/// Opens a log and reads its first events.
pub(crate) fn preview_log(source: &LogSource<'_>) -> Result<LogPreview, InspectError> {
    let mut reader = (source.open)()?;
    for _ in 0..HEAD_EVENTS {
        match reader.next_event()? {
            ReadOutcome::Some(event) if starts_transaction(event.raw.event_type()) => break,
            ReadOutcome::Some(_) => {}
            ReadOutcome::End(_) => break,
        }
    }
    let Some(format) = reader.format().cloned() else {
        // The log is empty: it does not even have a format description.
        let report = MeasuredLog { name: source.name.clone(), bytes: source.bytes, ..MeasuredLog::default() };
        let bytes = 0..0;
        return Ok(LogPreview {
            report,
            bytes,
            overhead: source.bytes,
            can_seek: false,
            knows_payloads: true,
        });
    };
    let server_version = String::from_utf8_lossy(&format.server_version).into_owned();
    if format.flavour != Flavour::MySql {
        return Err(InspectError::Mariadb { name: source.name.clone(), server: server_version });
    }
    let is_encrypted = reader.is_encrypted();
    let header = if is_encrypted { ENCRYPTED_HEADER_SIZE as u64 } else { 0 };
    let overhead = header + MAGIC_SIZE;
    let report = MeasuredLog {
        name: source.name.clone(),
        bytes: source.bytes,
        server_version,
        is_relay: reader.kind() == logs::LogKind::Relay,
        is_encrypted,
        has_events: true,
    };
    let bytes = MAGIC_SIZE..source.bytes.saturating_sub(header).max(MAGIC_SIZE);
    let (can_seek, knows_payloads) = (reader.can_seek(), format.knows_payloads());
    Ok(LogPreview { report, bytes, overhead, can_seek, knows_payloads })
}

const MAGIC_SIZE: u64 = binlog::MAGIC.len() as u64;

const fn starts_transaction(event_type: EventType) -> bool {
    matches!(event_type, EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged)
}

/// Receives the items of a reader.
pub(crate) type ReadSink<'g> = &'g mut dyn FnMut(ReadItem) -> Result<(), InspectError>;

/// Reads a log from start to end.
pub(crate) fn read_all(
    source: &LogSource<'_>,
    sizes: &MemoryLimits,
    give: ReadSink<'_>,
) -> Result<(), InspectError> {
    let mut reader = (source.open)()?;
    read(&mut reader, u64::MAX, sizes, &mut |extent, content| {
        let share = CellShare::whole(extent.end - extent.start);
        give(ReadItem::Piece(WeightedPiece { content, share }))
    })
}

/// Reads the transactions of a cell.
pub(crate) fn read_cell(
    source: &LogSource<'_>,
    cell: SampleCell,
    width: u64,
    sizes: &MemoryLimits,
    give: ReadSink<'_>,
) -> Result<(), InspectError> {
    let mut reader = open_for_cell(source, cell, width)?;
    let mut given = 0;
    read(&mut reader, cell.end, sizes, &mut |extent, content| {
        let Some(share) = share(&extent, &content, cell, width) else { return Ok(()) };
        given += content.memory();
        give(ReadItem::Piece(WeightedPiece { content, share }))?;
        if given >= PAUSE_SIZE {
            given = 0;
            give(ReadItem::Pause)?;
        }
        Ok(())
    })
}

/// Bytes of a cell between two pauses.
const PAUSE_SIZE: usize = 4 << 20;

/// Returns the share of a transaction in a cell.
fn share(extent: &Range<u64>, content: &WeightedContent, cell: SampleCell, width: u64) -> Option<CellShare> {
    let of = extent.end - extent.start;
    let is_between = matches!(
        content,
        WeightedContent::Segment(LogSegment {
            content: SegmentContent::Between | SegmentContent::LargeBetween(_),
            ..
        })
    );
    if of <= width && !is_between {
        return (cell.start <= extent.start && extent.start < cell.end).then_some(CellShare::whole(of));
    }
    let (from, to) = (extent.start.max(cell.start), extent.end.min(cell.end));
    (from < to).then(|| CellShare { from: from - extent.start, to: to - extent.start, of })
}

/// Opens a log at or before the first transaction that overlaps the cell.
fn open_for_cell(source: &LogSource<'_>, cell: SampleCell, width: u64) -> Result<LogReader, InspectError> {
    let mut back = width;
    loop {
        let mut reader = (source.open)()?;
        read_head(&mut reader)?;
        let target = cell.start.saturating_sub(back);
        if target <= reader.position() || !reader.can_seek() {
            return Ok((source.open)()?);
        }
        match reader.seek_transaction(target, cell.start.saturating_add(1))? {
            Some(_) => return Ok(reader),
            // The transaction that overlaps the cell starts even earlier.
            None => back = back.saturating_mul(4),
        }
    }
}

/// Opens a log at `offset`, or at its start if `offset` is among its first events.
pub(crate) fn open_before(source: &LogSource<'_>, offset: u64) -> Result<LogReader, InspectError> {
    let mut reader = (source.open)()?;
    read_head(&mut reader)?;
    match reader.position() <= offset {
        true => {
            reader.skip_to(offset)?;
            Ok(reader)
        }
        false => Ok((source.open)()?),
    }
}

/// Reads up to the first transaction, so that the format description for all transactions is known.
pub(crate) fn read_head(reader: &mut LogReader) -> Result<(), InspectError> {
    for _ in 0..HEAD_EVENTS {
        match reader.next_event()? {
            ReadOutcome::Some(event) if starts_transaction(event.raw.event_type()) => break,
            ReadOutcome::Some(_) => {}
            ReadOutcome::End(_) => break,
        }
    }
    Ok(())
}

/// Receives the content of a part of the log, and its range.
type ContentSink<'t> = &'t mut dyn FnMut(Range<u64>, WeightedContent) -> Result<(), InspectError>;

/// Reads transactions up to the end of the log, or until a transaction has ended at or after `until`.
fn read(
    reader: &mut LogReader,
    until: u64,
    sizes: &MemoryLimits,
    take: ContentSink<'_>,
) -> Result<(), InspectError> {
    let mut cutter = TransactionCutter::new(sizes.kept);
    let payload_max = usize::try_from(sizes.kept).unwrap_or(usize::MAX);
    let name = reader.name().to_owned();
    // A large payload, kept back until the next read shows that the log contains all of it.
    let mut begun: Option<(Range<u64>, CompressedLargePayload)> = None;
    loop {
        if begun.is_none() && cutter.open_outline().is_none() && reader.position() >= until {
            return Ok(());
        }
        let piece = match reader.next_piece(CHUNK_SIZE, payload_max) {
            Err(logs::LogError::PastEnd { .. }) if begun.is_some() => return Ok(()),
            other => other?,
        };
        if let Some((extent, opened)) = begun.take() {
            take(extent, WeightedContent::CompressedLargePayload(Box::new(opened)))?;
        }
        match piece {
            ReadOutcome::Some(logs::LogPiece::Chunk(chunk)) => cut_chunk(&mut cutter, &chunk, &name, take)?,
            ReadOutcome::Some(logs::LogPiece::LargePayload(payload)) => {
                let open = std::mem::replace(&mut cutter, TransactionCutter::new(sizes.kept));
                begun = Some(large_compressed(&payload, &open));
            }
            ReadOutcome::End(_) => return cutter.finish(&mut |segment| take_segment(segment, take)),
        }
    }
}

fn cut_chunk(
    cutter: &mut TransactionCutter,
    chunk: &EventChunk,
    name: &str,
    take: ContentSink<'_>,
) -> Result<(), InspectError> {
    let result =
        cutter.cut_chunk(chunk, &mut |segment| take_segment(segment, take).map_err(CutterError::Other));
    result.map_err(|stop| match stop {
        CutterError::Other(error) => error,
        CutterError::Cut(CutError { offset, error }) => {
            InspectError::Event { name: name.to_owned(), offset, error }
        }
    })
}

/// Error of the cutter. The log's name is added later.
enum CutterError {
    Cut(CutError),
    Other(InspectError),
}

impl From<CutError> for CutterError {
    fn from(error: CutError) -> Self {
        Self::Cut(error)
    }
}

fn take_segment(segment: LogSegment, take: ContentSink<'_>) -> Result<(), InspectError> {
    let extent = match &segment.content {
        SegmentContent::Between => {
            let (Some(first), Some(last)) = (segment.parts.first(), segment.parts.last()) else {
                return Ok(());
            };
            first.offset()..last.end()
        }
        SegmentContent::LargeBetween(outline) => outline.position..outline.end,
        SegmentContent::Transaction(whole) => whole.outline.position..whole.outline.end,
    };
    take(extent, WeightedContent::Segment(segment))
}

/// Describes a payload that is not held in memory, with the events before it.
fn large_compressed(
    payload: &LargePayload<'_>,
    cutter: &TransactionCutter,
) -> (Range<u64>, CompressedLargePayload) {
    let head = payload.head();
    let (offset, end) = (head.offset, head.end());
    let first = cutter.first_open_event();
    let start = first.as_ref().map_or(offset, |(start, _)| *start);
    let gtid = first.map(|(_, event)| event).filter(|event| starts_transaction(event.as_raw().event_type()));
    let opened = CompressedLargePayload {
        start,
        gtid,
        commit_us: cutter.open_outline().map_or(0, commit_us),
        format: Arc::clone(&head.format),
        now: end - start,
        offset,
    };
    (start..end, opened)
}

/// Returns the time of a transaction's commit, in microseconds since 1970; 0 if unknown. A session can set an event's
/// timestamp, so the timestamp is used only if the server wrote no commit time.
pub(crate) fn commit_us(outline: &TransactionOutline) -> u64 {
    let stamped = outline.stamps.map(|stamps| stamps.immediate_commit_us).filter(|us| *us > 0);
    stamped.unwrap_or_else(|| u64::from(outline.timestamp) * 1_000_000)
}

/// Receives whole events of a payload.
type PayloadSink<'t> = &'t mut dyn FnMut(&[u8]) -> Result<ControlFlow<()>, InspectError>;

/// Reads the events of a payload again and passes whole events to `take`, until `take` breaks.
pub(crate) fn reread_payload(
    source: &LogSource<'_>,
    offset: u64,
    opener: &mut PayloadOpener,
    scratch: &mut Vec<u8>,
    take: PayloadSink<'_>,
) -> Result<PayloadClaim, InspectError> {
    let mut reader = open_before(source, offset)?;
    loop {
        match reader.next_piece(CHUNK_SIZE, 0)? {
            ReadOutcome::Some(logs::LogPiece::Chunk(chunk)) if chunk.offset() <= offset => {}
            ReadOutcome::Some(logs::LogPiece::LargePayload(payload)) if payload.head().offset < offset => {}
            ReadOutcome::Some(logs::LogPiece::LargePayload(payload)) if payload.head().offset == offset => {
                let fields = payload.head().fields;
                let (claimed, payload_size) = (fields.uncompressed_size, fields.payload_size);
                let mut events = payload.open(opener)?;
                let mut is_broken = false;
                while !is_broken {
                    scratch.clear();
                    if events.next_chunk(CHUNK_SIZE, scratch)? == 0 {
                        break;
                    }
                    is_broken = take(scratch)?.is_break();
                }
                return Ok(PayloadClaim { claimed: claimed.filter(|_| is_broken), payload_size });
            }
            _ => return Err(InspectError::Changed { name: source.name.clone() }),
        }
    }
}

/// Sizes that a payload states of itself.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PayloadClaim {
    /// Stated bytes of all events, if not all of them were read.
    claimed: Option<u64>,
    payload_size: u64,
}

/// Maximum expansion of zstd: bytes of output per byte of input.
const EXPANSION_MAX: u64 = 1 << 16;

impl PayloadClaim {
    /// Returns the bytes of all events, of which `seen` bytes were read. Limits the stated size to the maximum that
    /// zstd can produce.
    pub(crate) fn size(&self, seen: u64) -> u64 {
        let most = self.payload_size.saturating_mul(EXPANSION_MAX);
        self.claimed.unwrap_or(seen).min(most).max(seen)
    }
}

/// Bytes that a payload to be read again counts as in memory.
const LARGE_PIECE_COST: usize = 64 << 10;

impl WeightedContent {
    /// Returns the bytes held in memory.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Segment(segment) => segment.size(),
            Self::CompressedLargePayload(_) => LARGE_PIECE_COST,
        }
    }
}
