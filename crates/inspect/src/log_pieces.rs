//! Reads logs as pieces that workers can process independently.

use std::sync::Arc;

use binlog::{
    DecodeError, DecodeReason, EventType, HEADER_SIZE, PayloadError, PayloadLimits, PayloadOpener,
    SizeClaimPolicy, TransactionGrammar,
};
use logs::{
    ChunkContext, ContextError, ContextTracker, EndOfLog, LogKind, LogReader, PieceReader, PieceSizes,
    ReadOutcome, WalkPiece,
};

use crate::error::InspectError;

/// Sizes of pieces: enough to keep a worker busy, few enough to hold several in memory.
pub(crate) const PIECE_SIZES: PieceSizes = PieceSizes { chunk_size: 1 << 20, large_size: 4 << 20 };

/// Reaction to damage in a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDamage {
    /// Stop reading the log.
    Stop,
    /// Continue at the next transaction that can be found.
    Resume,
}

impl OnDamage {
    /// Returns a decompressor for payloads. If reading resumes after damage, returns all events of a payload, whatever
    /// its stated size.
    pub(crate) fn opener(self) -> PayloadOpener {
        let claim = match self {
            Self::Stop => SizeClaimPolicy::Binding,
            Self::Resume => SizeClaimPolicy::Ignored,
        };
        PayloadOpener::with_limits(PayloadLimits { claim_policy: claim, ..PayloadLimits::default() })
    }
}

/// The log of a piece.
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
    /// Events, or the end of a large payload.
    Events(PieceEvents),
    /// The log cannot be read from here, or only from a later position on.
    Unreadable { offset: u64, error: logs::LogError, resumed: Option<u64> },
    /// End of a log.
    LogEnd { origin: PieceOrigin, end: EndOfLog, position: u64 },
}

/// A piece with events, or the end of a large payload.
#[derive(Debug)]
pub(crate) struct PieceEvents {
    pub(crate) origin: PieceOrigin,
    pub(crate) piece: WalkPiece,
    /// Context of the piece; at the end of a large payload, of the payload's event.
    pub(crate) context: Box<ChunkContext>,
    /// State after the last event of a large payload, at its end.
    pub(crate) inside: TransactionGrammar,
}

impl PieceEvents {
    fn new(origin: PieceOrigin, piece: WalkPiece, contexts: &ContextTracker) -> Self {
        let inside = contexts.context().grammar;
        let context = match (&piece, contexts.outer()) {
            (WalkPiece::PayloadEnd { .. }, Some(outer)) => outer.clone(),
            _ => contexts.context().clone(),
        };
        Self { origin, piece, context: Box::new(context), inside }
    }
}

/// Receives pieces and their sizes in memory.
pub(crate) type PieceSink<'t> = &'t mut dyn FnMut(PieceContent, usize) -> Result<(), InspectError>;

/// Reads one log, or several concatenated logs, numbered from `log` on. Returns the next number.
///
/// # Errors
///
/// Fails if `take` fails. Damage in the log is a piece: [`PieceContent::Unreadable`].
pub(crate) fn read_pieces(
    reader: LogReader,
    mut log: u32,
    sizes: PieceSizes,
    on_damage: OnDamage,
    take: PieceSink<'_>,
) -> Result<u32, InspectError> {
    let name: Arc<str> = reader.name().into();
    let first = log;
    let mut pieces = PieceReader::new(reader, sizes, on_damage.opener());
    let mut contexts = ContextTracker::default();
    take(PieceContent::LogStart { name: Arc::clone(&name) }, 0)?;
    loop {
        let position = pieces.reader().position();
        let (error, resumed) = match pieces.next_piece() {
            Ok(ReadOutcome::Some(piece)) => {
                if let WalkPiece::Chunk(chunk) = &piece {
                    while u64::from(log - first) < chunk.log_number() {
                        log += 1;
                        take(PieceContent::LogStart { name: Arc::clone(&name) }, 0)?;
                    }
                }
                let origin = PieceOrigin { log, kind: pieces.reader().kind() };
                match give(piece, origin, &mut pieces, &mut contexts, take)? {
                    Ok(()) => continue,
                    Err(ContextError { offset, error }) => {
                        let error = logs::LogError::Corrupt { name: name.to_string(), offset, error };
                        take(PieceContent::Unreadable { offset, error, resumed: None }, 0)?;
                        return Ok(log + 1);
                    }
                }
            }
            Ok(ReadOutcome::End(end)) => match resume_within(pieces.reader_mut(), end, on_damage) {
                Some((error, resumed)) => (error, Some(resumed)),
                None => {
                    let origin = PieceOrigin { log, kind: pieces.reader().kind() };
                    take(PieceContent::LogEnd { origin, end, position }, 0)?;
                    return Ok(log + 1);
                }
            },
            Err(error) => {
                let resumed = resume(pieces.reader_mut(), &error, on_damage);
                (error, resumed)
            }
        };
        take(PieceContent::Unreadable { offset: position, error, resumed }, 0)?;
        if resumed.is_none() {
            return Ok(log + 1);
        }
        contexts = ContextTracker::default();
    }
}

/// Passes a piece to `take`, and advances the context. The inner result is an error if a statement in the log itself
/// has too many table maps. Such a statement in a large payload ends the payload.
fn give(
    piece: WalkPiece,
    origin: PieceOrigin,
    pieces: &mut PieceReader,
    contexts: &mut ContextTracker,
    take: PieceSink<'_>,
) -> Result<Result<(), ContextError>, InspectError> {
    let before = contexts.clone();
    let passed = contexts.pass(&piece);
    let head = match &piece {
        WalkPiece::PayloadPart(part) => Some(Arc::clone(&part.head)),
        _ => None,
    };
    if !matches!(piece, WalkPiece::PayloadStart(_)) {
        let size = piece.memory_size();
        take(PieceContent::Events(PieceEvents::new(origin, piece, &before)), size)?;
    }
    match (passed, head) {
        (Err(ContextError { offset: inner_offset, error }), Some(head)) => {
            pieces.skip_payload();
            let (name, offset) = (pieces.reader().name().to_owned(), head.offset);
            let error = PayloadError { inner_offset, payload_offset: 0, error };
            let end = Err(logs::LogError::Payload { name, offset, error });
            give(WalkPiece::PayloadEnd { head, end }, origin, pieces, contexts, take)
        }
        (passed, _) => Ok(passed),
    }
}

/// Returns the position where the reader continues after damage.
fn resume(reader: &mut LogReader, error: &logs::LogError, on_damage: OnDamage) -> Option<u64> {
    match (error, on_damage) {
        // Errors of the operating system would occur again.
        (logs::LogError::Corrupt { .. }, OnDamage::Resume) => {
            reader.resume_at(is_restart_point).ok().flatten()
        }
        _ => None,
    }
}

/// Continues after an event with a wrong size: it reaches beyond the end of the log, although other events follow it.
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
    let (field, expected) = ("event size", "one that ends where another event starts");
    let reason = DecodeReason::Unexpected { field, found: torn.expected as u64, expected };
    let (name, error) = (reader.name().to_owned(), DecodeError::new(SIZE_OFFSET, reason));
    Some((logs::LogError::Corrupt { name, offset: torn.offset, error }, resumed))
}

/// Offset of the size in an event's header.
const SIZE_OFFSET: usize = 9;

/// Returns true if an event of this type can be interpreted without earlier events.
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
