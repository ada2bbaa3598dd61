//! Reads logs as pieces that workers can process independently.

use std::ops::ControlFlow;
use std::sync::Arc;

use binlog::{
    DecodeError, DecodeReason, EventFormat, EventHeader, EventRole, EventType, Framer, FramerOutput,
    HEADER_SIZE, PayloadError, PayloadLimits, PayloadOpener, RawEvent, SizeClaimPolicy,
};
use logs::{
    EndOfLog, EventChunk, LargePayload, LargePayloadEnd, LogKind, LogPiece, LogReader, ReadOutcome,
    StatementTableMaps,
};

use crate::chunk_context::ChunkContext;
use crate::error::InspectError;

/// Sizes of the pieces of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceSizes {
    /// Bytes per chunk: enough to keep a worker busy, few enough to hold several chunks in memory.
    pub(crate) chunk_size: usize,
    /// Larger payloads are decompressed piece by piece while they are read.
    pub(crate) large_size: usize,
}

impl PieceSizes {
    pub(crate) const DEFAULT: Self = Self { chunk_size: 1 << 20, large_size: 4 << 20 };
}

/// Reaction to damage in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDamage {
    /// Stop reading the log.
    Stop,
    /// Continue at the next transaction that can be found.
    Resume,
}

impl OnDamage {
    /// Returns a decompressor for payloads. If reading resumes behind damage, all events of a payload are wanted,
    /// whatever its stated size.
    pub(crate) fn opener(self) -> PayloadOpener {
        let claim = match self {
            Self::Stop => SizeClaimPolicy::Binding,
            Self::Resume => SizeClaimPolicy::Ignored,
        };
        PayloadOpener::with_limits(PayloadLimits { claim_policy: claim, ..PayloadLimits::default() })
    }
}

/// The log that a piece belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PieceOrigin {
    /// Number of the log, from 0, in the order read.
    pub(crate) log: u32,
    pub(crate) kind: LogKind,
}

/// A piece of a log. Pieces come in the order of the log.
#[derive(Debug)]
pub(crate) enum PieceContent {
    /// Start of a log.
    LogStart { name: Arc<str> },
    /// Whole events.
    Chunk { origin: PieceOrigin, chunk: EventChunk, context: ChunkContext },
    /// Events of a large payload.
    PayloadPart(PayloadPart),
    /// End of a large payload.
    PayloadEnd(PayloadEnd),
    /// A log cannot be read any further, or only from another place on.
    Unreadable { offset: u64, error: logs::LogError, resumed: Option<u64> },
    /// End of a log.
    LogEnd { origin: PieceOrigin, end: EndOfLog, position: u64 },
}

/// Some events of a large payload.
#[derive(Debug)]
pub(crate) struct PayloadPart {
    pub(crate) origin: PieceOrigin,
    /// Start of the payload event.
    pub(crate) offset: u64,
    /// Bytes of the payload's events before these.
    pub(crate) inner_offset: u64,
    pub(crate) bytes: Vec<u8>,
    /// Format without checksums.
    pub(crate) format: Arc<EventFormat>,
    pub(crate) context: ChunkContext,
}

/// End of a large payload.
#[derive(Debug)]
pub(crate) struct PayloadEnd {
    pub(crate) origin: PieceOrigin,
    pub(crate) offset: u64,
    pub(crate) header: EventHeader,
    pub(crate) payload_size: u64,
    pub(crate) claimed_size: Option<u64>,
    /// Format of the log.
    pub(crate) format: Arc<EventFormat>,
    /// State before the payload event.
    pub(crate) before: ChunkContext,
    /// State behind the last event of the payload.
    pub(crate) inside: ChunkContext,
    /// The payload's end, or the error that prevented reading it.
    pub(crate) end: Result<LargePayloadEnd, logs::LogError>,
}

/// Receives pieces and their sizes in memory.
pub(crate) type PieceSink<'t> = &'t mut dyn FnMut(PieceContent, usize) -> Result<(), InspectError>;

/// Reads one log, or several concatenated ones, numbered from `log` on. Returns the next number.
///
/// # Errors
///
/// The errors of `take`. Damage in the log is a piece: [`PieceContent::Unreadable`].
pub(crate) fn read_pieces(
    mut reader: LogReader,
    mut log: u32,
    cut: PieceSizes,
    on_damage: OnDamage,
    take: PieceSink<'_>,
) -> Result<u32, InspectError> {
    let name: Arc<str> = reader.name().into();
    let first = log;
    let mut opener = on_damage.opener();
    let mut context = ChunkContext::default();
    take(PieceContent::LogStart { name: Arc::clone(&name) }, 0)?;
    loop {
        let (kind, position) = (reader.kind(), reader.position());
        let chunk = match reader.next_piece(cut.chunk_size, cut.large_size) {
            Ok(ReadOutcome::Some(LogPiece::Chunk(chunk))) => chunk,
            Ok(ReadOutcome::Some(LogPiece::LargePayload(payload))) => {
                let origin = PieceOrigin { log, kind };
                context = open_large(payload, (origin, &name), context, &mut opener, cut.chunk_size, take)?;
                continue;
            }
            Ok(ReadOutcome::End(end)) => match resume_within(&mut reader, end, on_damage) {
                Some((error, resumed)) => {
                    take(PieceContent::Unreadable { offset: position, error, resumed: Some(resumed) }, 0)?;
                    context = ChunkContext::default();
                    continue;
                }
                None => {
                    take(PieceContent::LogEnd { origin: PieceOrigin { log, kind }, end, position }, 0)?;
                    return Ok(log + 1);
                }
            },
            Err(error) => {
                let resumed = resume(&mut reader, &error, on_damage);
                take(PieceContent::Unreadable { offset: position, error, resumed }, 0)?;
                if resumed.is_none() {
                    return Ok(log + 1);
                }
                context = ChunkContext::default();
                continue;
            }
        };
        while u64::from(log - first) < chunk.log_number() {
            log += 1;
            take(PieceContent::LogStart { name: Arc::clone(&name) }, 0)?;
        }
        let after = context.clone().after_chunk(&chunk);
        let bytes = chunk.bytes().len();
        take(
            PieceContent::Chunk { origin: PieceOrigin { log, kind: reader.kind() }, chunk, context },
            bytes,
        )?;
        context = match after {
            Ok(after) => after,
            Err((offset, error)) => {
                let error = logs::LogError::Corrupt { name: name.to_string(), offset, error };
                take(PieceContent::Unreadable { offset, error, resumed: None }, 0)?;
                return Ok(log + 1);
            }
        };
    }
}

/// Returns the place where the reader continues behind damage.
fn resume(reader: &mut LogReader, error: &logs::LogError, on_damage: OnDamage) -> Option<u64> {
    match (error, on_damage) {
        // Errors of the operating system would occur again.
        (logs::LogError::Corrupt { .. }, OnDamage::Resume) => {
            reader.resume_at(is_restart_point).ok().flatten()
        }
        _ => None,
    }
}

/// Continues behind an event with a wrong size: it reaches beyond the end of the log, although other events follow it.
fn resume_within(
    reader: &mut LogReader,
    end: EndOfLog,
    on_damage: OnDamage,
) -> Option<(logs::LogError, u64)> {
    let EndOfLog::Torn(torn) = end else { return None };
    if on_damage == OnDamage::Stop || torn.found < HEADER_SIZE {
        return None;
    }
    let resumed = reader.resume_at(is_restart_point).ok().flatten()?;
    let (field, wanted) = ("event size", "one that ends where another event starts");
    let reason = DecodeReason::Unexpected { field, found: torn.wanted as u64, wanted };
    let (name, error) = (reader.name().to_owned(), DecodeError::new(SIZE_OFFSET, reason));
    Some((logs::LogError::Corrupt { name, offset: torn.offset, error }, resumed))
}

/// Offset of the size in an event's header.
const SIZE_OFFSET: usize = 9;

/// Returns true if an event of this type makes sense without the events before it.
const fn is_restart_point(event_type: EventType) -> bool {
    matches!(
        event_type,
        EventType::Gtid
            | EventType::AnonymousGtid
            | EventType::GtidTagged
            | EventType::MariadbGtid
            | EventType::Rotate
            | EventType::Stop
    )
}

/// Decompresses a large payload while it is read. Returns the state behind it.
fn open_large(
    payload: LargePayload<'_>,
    (origin, name): (PieceOrigin, &str),
    before: ChunkContext,
    opener: &mut PayloadOpener,
    chunk_size: usize,
    take: PieceSink<'_>,
) -> Result<ChunkContext, InspectError> {
    let (offset, header) = (payload.offset(), *payload.header());
    let fields = payload.fields();
    let (payload_size, claimed_size) = (fields.payload_size, fields.uncompressed_size);
    let outer = Arc::clone(payload.format());
    let format = Arc::new(outer.inside_payload());
    let mut behind = ChunkContext {
        next_position: header.next_position,
        maps: StatementTableMaps::default(),
        ..before.clone()
    };
    let _ = behind.grammar.step(EventRole::Payload);
    let mut inside = ChunkContext::inside_payload();
    let mut inner_offset = 0;
    let end = read_large(payload, opener, chunk_size, &mut |bytes| {
        let after = context_after(inside.clone(), &bytes, &format);
        let context = inside.clone();
        let (size, format) = (bytes.len(), Arc::clone(&format));
        take(
            PieceContent::PayloadPart(PayloadPart { origin, offset, inner_offset, bytes, format, context }),
            size,
        )?;
        match after {
            Ok(after) => inside = after,
            Err((within, error)) => {
                let inner_offset = inner_offset + within;
                return Ok(ControlFlow::Break(PayloadError { inner_offset, payload_offset: 0, error }));
            }
        }
        inner_offset += size as u64;
        Ok(ControlFlow::Continue(()))
    })?;
    let end = end.map_err(|refusal| match refusal {
        PayloadFailure::Log(error) => error,
        PayloadFailure::Statement(error) => logs::LogError::Payload { name: name.to_owned(), offset, error },
    });
    let ends =
        PayloadEnd { origin, offset, header, payload_size, claimed_size, before, inside, end, format: outer };
    take(PieceContent::PayloadEnd(ends), 0)?;
    Ok(behind)
}

/// Reason why a large payload is not read to its end.
enum PayloadFailure {
    Log(logs::LogError),
    /// One of its statements has too many table maps.
    Statement(PayloadError),
}

/// Passes the events of a payload to `give`, some at a time. The inner result is for errors of the log, the outer one
/// for those of `give`.
fn read_large(
    payload: LargePayload<'_>,
    opener: &mut PayloadOpener,
    chunk_size: usize,
    give: &mut dyn FnMut(Vec<u8>) -> Result<ControlFlow<PayloadError>, InspectError>,
) -> Result<Result<LargePayloadEnd, PayloadFailure>, InspectError> {
    let mut events = match payload.open(opener) {
        Ok(events) => events,
        Err(error) => return Ok(Err(PayloadFailure::Log(error))),
    };
    loop {
        let mut bytes = Vec::new();
        match events.next_chunk(chunk_size, &mut bytes) {
            Ok(0) => return Ok(events.finish().map_err(PayloadFailure::Log)),
            Ok(_) => {
                if let ControlFlow::Break(error) = give(bytes)? {
                    return Ok(Err(PayloadFailure::Statement(error)));
                }
            }
            Err(error) => return Ok(Err(PayloadFailure::Log(error))),
        }
    }
}

fn context_after(
    mut context: ChunkContext,
    bytes: &[u8],
    format: &EventFormat,
) -> Result<ChunkContext, (u64, DecodeError)> {
    let mut stepped = Ok(());
    for_each_event(bytes, format, |offset, raw| {
        if stepped.is_ok() {
            stepped = context.step(raw, format).map_err(|error| (offset, error));
        }
    });
    stepped.map(|()| context)
}

/// Passes each event in `bytes` to `give`, with its offset.
pub(crate) fn for_each_event(bytes: &[u8], format: &EventFormat, mut give: impl FnMut(u64, &RawEvent<'_>)) {
    let mut framer = Framer::with_format(format.clone());
    let mut rest = bytes;
    while let Ok(FramerOutput::Event(raw)) = framer.next(rest) {
        give((bytes.len() - rest.len()) as u64, &raw);
        rest = &rest[raw.bytes().len()..];
    }
}
