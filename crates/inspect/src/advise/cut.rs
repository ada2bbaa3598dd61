//! Reads logs into transactions: all of one, or those of a cell.

use std::ops::Range;
use std::sync::Arc;

use binlog::{EventType, Flavour, Format, PayloadOpener, RawEventBuf, encryption::ENCRYPTED_HEADER_SIZE};
use logs::{Chunk, Content, CutError, LargePayload, LogReader, Next, Segment, TransactionCutter};

use super::Source;
use super::cells::Cell;
use super::record::Share;
use super::report::LogReport;
use crate::error::Error;

/// A transaction, or events between two, and how much of it counts.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(crate) content: PieceContent,
    pub(crate) share: Share,
}

#[derive(Debug)]
pub(crate) enum PieceContent {
    Segment(Segment),
    Opened(Box<Opened>),
}

/// A compressed transaction whose payload is not kept in memory.
#[derive(Debug)]
pub(crate) struct Opened {
    /// Where it starts.
    pub(crate) start: u64,
    /// Its GTID event, if one stands in front.
    pub(crate) gtid: Option<RawEventBuf>,
    pub(crate) timestamp: u32,
    pub(crate) format: Arc<Format>,
    /// Its bytes as it stands.
    pub(crate) now: u64,
    /// The bytes of its events.
    pub(crate) inner_size: u64,
    /// The first of these.
    pub(crate) front: Vec<u8>,
}

/// What reading gives.
pub(crate) enum Given {
    Piece(Piece),
    /// What was given so far takes memory enough.
    Pause,
}

/// What shows before a log is read.
#[derive(Clone, Debug)]
pub(crate) struct Look {
    pub(crate) report: LogReport,
    /// Where its first event starts, and where it ends.
    pub(crate) bytes: Range<u64>,
    /// Bytes of the file that are not the log's: the header of an encrypted file.
    pub(crate) overhead: u64,
    /// Can it be entered at any place?
    pub(crate) can_seek: bool,
    /// May it hold compressed transactions?
    pub(crate) knows_payloads: bool,
}

/// Read at once.
const CHUNK_SIZE: usize = 256 << 10;

/// Transactions of more bytes are not kept in memory, as `bintide compress` does it.
pub(crate) const KEPT_MAX: u64 = 32 << 20;

/// Payloads of more bytes are not kept in memory, and measured by the front of what is in them.
const PAYLOAD_KEPT_MAX: usize = 32 << 20;

/// That front, in bytes.
pub(crate) const FRONT: u64 = 8 << 20;

/// What a relay log's own events at its start may take.
const HEAD_EVENTS: usize = 16;

/// Opens a log and looks at its first events.
pub(crate) fn look(source: &Source<'_>) -> Result<Look, Error> {
    let mut reader = (source.open)()?;
    for _ in 0..HEAD_EVENTS {
        match reader.next_event()? {
            Next::Some(event) if starts_transaction(event.raw.event_type()) => break,
            Next::Some(_) => {}
            Next::End(_) => break,
        }
    }
    let Some(format) = reader.format().cloned() else {
        // Nothing is in it, not even a format description.
        let report = LogReport { name: source.name.clone(), bytes: source.bytes, ..LogReport::default() };
        let bytes = 0..0;
        return Ok(Look { report, bytes, overhead: source.bytes, can_seek: false, knows_payloads: true });
    };
    let server_version = String::from_utf8_lossy(&format.server_version).into_owned();
    if format.flavour != Flavour::MySql {
        return Err(Error::Mariadb { name: source.name.clone(), server: server_version });
    }
    let is_encrypted = reader.is_encrypted();
    let header = if is_encrypted { ENCRYPTED_HEADER_SIZE as u64 } else { 0 };
    let overhead = header + MAGIC_SIZE;
    let report = LogReport {
        name: source.name.clone(),
        bytes: source.bytes,
        server_version,
        is_relay: reader.kind() == logs::LogKind::Relay,
        is_encrypted,
    };
    let bytes = MAGIC_SIZE..source.bytes.saturating_sub(header).max(MAGIC_SIZE);
    let (can_seek, knows_payloads) = (reader.can_seek(), format.knows_payloads());
    Ok(Look { report, bytes, overhead, can_seek, knows_payloads })
}

const MAGIC_SIZE: u64 = binlog::MAGIC.len() as u64;

const fn starts_transaction(event_type: EventType) -> bool {
    matches!(event_type, EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged)
}

/// Takes what reading gives.
pub(crate) type Give<'g> = &'g mut dyn FnMut(Given) -> Result<(), Error>;

/// Reads a log from its start to its end.
pub(crate) fn read_all(source: &Source<'_>, give: Give<'_>) -> Result<(), Error> {
    let mut reader = (source.open)()?;
    read(&mut reader, u64::MAX, &mut |extent, content| {
        let share = Share::whole(extent.end - extent.start);
        give(Given::Piece(Piece { content, share }))
    })
}

/// Reads what belongs to a cell.
pub(crate) fn read_cell(source: &Source<'_>, cell: Cell, width: u64, give: Give<'_>) -> Result<(), Error> {
    let mut reader = enter(source, cell, width)?;
    let mut given = 0;
    read(&mut reader, cell.end, &mut |extent, content| {
        let Some(share) = share(&extent, &content, cell, width) else { return Ok(()) };
        given += content.memory();
        give(Given::Piece(Piece { content, share }))?;
        if given >= PAUSE_SIZE {
            given = 0;
            give(Given::Pause)?;
        }
        Ok(())
    })
}

/// What a cell gives between pauses, in bytes.
const PAUSE_SIZE: usize = 4 << 20;

/// How much of a transaction counts in a cell.
fn share(extent: &Range<u64>, content: &PieceContent, cell: Cell, width: u64) -> Option<Share> {
    let of = extent.end - extent.start;
    let is_between = matches!(
        content,
        PieceContent::Segment(Segment { content: Content::Between | Content::LargeBetween(_), .. })
    );
    if of <= width && !is_between {
        return (cell.start <= extent.start && extent.start < cell.end).then_some(Share::whole(of));
    }
    let (from, to) = (extent.start.max(cell.start), extent.end.min(cell.end));
    (from < to).then(|| Share { from: from - extent.start, to: to - extent.start, of })
}

/// Opens a log where a transaction starts, at or before the cell's start: the last one that may reach into it.
fn enter(source: &Source<'_>, cell: Cell, width: u64) -> Result<LogReader, Error> {
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
            // What reaches into the cell starts further in front.
            None => back = back.saturating_mul(4),
        }
    }
}

/// Opens a log so that what starts at `offset` is still to come.
pub(crate) fn open_before(source: &Source<'_>, offset: u64) -> Result<LogReader, Error> {
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

/// Reads on until the first transaction starts, so that the format is known that holds for all of them.
pub(crate) fn read_head(reader: &mut LogReader) -> Result<(), Error> {
    for _ in 0..HEAD_EVENTS {
        match reader.next_event()? {
            Next::Some(event) if starts_transaction(event.raw.event_type()) => break,
            Next::Some(_) => {}
            Next::End(_) => break,
        }
    }
    Ok(())
}

/// Takes what a stretch of the log holds, and where it stands.
type Take<'t> = &'t mut dyn FnMut(Range<u64>, PieceContent) -> Result<(), Error>;

/// Reads transactions until the log ends, or one has ended at `until` or behind and none is open.
fn read(reader: &mut LogReader, until: u64, take: Take<'_>) -> Result<(), Error> {
    let mut opener = PayloadOpener::new();
    let mut cutter = TransactionCutter::new(KEPT_MAX);
    let name = reader.name().to_owned();
    loop {
        if cutter.open().is_none() && reader.position() >= until {
            return Ok(());
        }
        match reader.next_piece(CHUNK_SIZE, PAYLOAD_KEPT_MAX)? {
            Next::Some(logs::Piece::Chunk(chunk)) if chunk.log_number() > 0 => {
                return Err(Error::SecondLog { name });
            }
            Next::Some(logs::Piece::Chunk(chunk)) => cut(&mut cutter, &chunk, &name, take)?,
            Next::Some(logs::Piece::LargePayload(payload)) => {
                let open = std::mem::replace(&mut cutter, TransactionCutter::new(KEPT_MAX));
                let (extent, opened) = open_large(payload, open, &mut opener)?;
                take(extent, PieceContent::Opened(Box::new(opened)))?;
            }
            Next::End(_) => return cutter.finish(&mut |segment| take_segment(segment, take)),
        }
    }
}

fn cut(cutter: &mut TransactionCutter, chunk: &Chunk, name: &str, take: Take<'_>) -> Result<(), Error> {
    let result = cutter.take(chunk, &mut |segment| take_segment(segment, take).map_err(Stop::Other));
    result.map_err(|stop| match stop {
        Stop::Other(error) => error,
        Stop::Cut(CutError { offset, error }) => Error::Event { name: name.to_owned(), offset, error },
    })
}

/// What stops the cutting, before it is known in which log.
enum Stop {
    Cut(CutError),
    Other(Error),
}

impl From<CutError> for Stop {
    fn from(error: CutError) -> Self {
        Self::Cut(error)
    }
}

fn take_segment(segment: Segment, take: Take<'_>) -> Result<(), Error> {
    let extent = match &segment.content {
        Content::Between => {
            let (Some(first), Some(last)) = (segment.parts.first(), segment.parts.last()) else {
                return Ok(());
            };
            first.offset()..last.end()
        }
        Content::LargeBetween(outline) => outline.position..outline.end,
        Content::Transaction(whole) => whole.outline.position..whole.outline.end,
    };
    take(extent, PieceContent::Segment(segment))
}

/// Opens the front of a payload that is not kept in memory.
fn open_large(
    payload: LargePayload<'_>,
    cutter: TransactionCutter,
    opener: &mut PayloadOpener,
) -> Result<(Range<u64>, Opened), Error> {
    let (offset, end) = (payload.offset(), payload.end());
    let gtid = cutter.first();
    let start = gtid.as_ref().map_or(offset, |(start, _)| *start);
    let timestamp = payload.header().timestamp;
    let format = Arc::clone(payload.format());
    let claimed = payload.fields().uncompressed_size;
    let mut events = payload.open(opener)?;
    let mut front = Vec::new();
    let mut is_whole = false;
    while (front.len() as u64) < FRONT && !is_whole {
        is_whole = events.next_chunk(CHUNK_SIZE, &mut front)? == 0;
    }
    let inner_size = if is_whole { front.len() as u64 } else { claimed.unwrap_or(front.len() as u64) };
    let gtid = gtid.map(|(_, gtid)| gtid);
    Ok((start..end, Opened { start, gtid, timestamp, format, now: end - start, inner_size, front }))
}

impl PieceContent {
    /// Bytes held in memory.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Self::Segment(segment) => segment.size(),
            Self::Opened(opened) => opened.front.len(),
        }
    }
}
