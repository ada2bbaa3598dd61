//! Reads logs as pieces that workers can process independently.

use std::ops::ControlFlow;
use std::sync::Arc;

use binlog::{
    DecodeError, EventType, Format, Framed, Framer, HEADER_SIZE, Header, PayloadError, PayloadLimits,
    PayloadOpener, RawEvent, Reason, Role, SizeClaim,
};
use logs::{Chunk, End, LargeEnd, LargePayload, LogKind, LogReader, Next, Piece, StatementMaps};

use crate::carry::Carry;
use crate::error::Error;

/// Sizes of the pieces of a log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Bytes per chunk: enough to keep a worker busy, few enough to hold several chunks in memory.
    pub(crate) chunk_size: usize,
    /// Larger payloads are decompressed piece by piece while they are read.
    pub(crate) large_size: usize,
}

impl Cut {
    pub(crate) const USUAL: Self = Self { chunk_size: 1 << 20, large_size: 4 << 20 };
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
            Self::Stop => SizeClaim::Binding,
            Self::Resume => SizeClaim::Ignored,
        };
        PayloadOpener::with_limits(PayloadLimits { claim, ..PayloadLimits::default() })
    }
}

/// The log that a piece belongs to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// Number of the log, from 0, in the order read.
    pub(crate) log: u32,
    pub(crate) kind: LogKind,
}

/// A piece of a log. Pieces come in the order of the log.
#[derive(Debug)]
pub(crate) enum Work {
    /// Start of a log.
    Begins { name: Arc<str> },
    /// Whole events.
    Chunk { origin: Origin, chunk: Chunk, carry: Carry },
    /// Events of a large payload.
    Inside(Inside),
    /// End of a large payload.
    PayloadEnds(PayloadEnds),
    /// A log cannot be read any further, or only from another place on.
    Broken { offset: u64, error: logs::Error, resumed: Option<u64> },
    /// End of a log.
    Ends { origin: Origin, end: End, position: u64 },
}

/// Some events of a large payload.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) origin: Origin,
    /// Start of the payload event.
    pub(crate) offset: u64,
    /// Bytes of the payload's events before these.
    pub(crate) inner_offset: u64,
    pub(crate) bytes: Vec<u8>,
    /// Format without checksums.
    pub(crate) format: Arc<Format>,
    pub(crate) carry: Carry,
}

/// End of a large payload.
#[derive(Debug)]
pub(crate) struct PayloadEnds {
    pub(crate) origin: Origin,
    pub(crate) offset: u64,
    pub(crate) header: Header,
    pub(crate) payload_size: u64,
    pub(crate) claimed_size: Option<u64>,
    /// Format of the log.
    pub(crate) format: Arc<Format>,
    /// State before the payload event.
    pub(crate) before: Carry,
    /// State behind the last event of the payload.
    pub(crate) inside: Carry,
    /// The payload's end, or the error that prevented reading it.
    pub(crate) end: Result<LargeEnd, logs::Error>,
}

/// Receives pieces and their sizes in memory.
pub(crate) type Take<'t> = &'t mut dyn FnMut(Work, usize) -> Result<(), Error>;

/// Reads one log, or several concatenated ones, numbered from `log` on. Returns the next number.
///
/// # Errors
///
/// The errors of `take`. Damage in the log is a piece: [`Work::Broken`].
pub(crate) fn walk(
    mut reader: LogReader,
    mut log: u32,
    cut: Cut,
    on_damage: OnDamage,
    take: Take<'_>,
) -> Result<u32, Error> {
    let name: Arc<str> = reader.name().into();
    let first = log;
    let mut opener = on_damage.opener();
    let mut carry = Carry::default();
    take(Work::Begins { name: Arc::clone(&name) }, 0)?;
    loop {
        let (kind, position) = (reader.kind(), reader.position());
        let chunk = match reader.next_piece(cut.chunk_size, cut.large_size) {
            Ok(Next::Some(Piece::Chunk(chunk))) => chunk,
            Ok(Next::Some(Piece::LargePayload(payload))) => {
                let origin = Origin { log, kind };
                carry = open_large(payload, (origin, &name), carry, &mut opener, cut.chunk_size, take)?;
                continue;
            }
            Ok(Next::End(end)) => match resume_within(&mut reader, end, on_damage) {
                Some((error, resumed)) => {
                    take(Work::Broken { offset: position, error, resumed: Some(resumed) }, 0)?;
                    carry = Carry::default();
                    continue;
                }
                None => {
                    take(Work::Ends { origin: Origin { log, kind }, end, position }, 0)?;
                    return Ok(log + 1);
                }
            },
            Err(error) => {
                let resumed = resume(&mut reader, &error, on_damage);
                take(Work::Broken { offset: position, error, resumed }, 0)?;
                if resumed.is_none() {
                    return Ok(log + 1);
                }
                carry = Carry::default();
                continue;
            }
        };
        while u64::from(log - first) < chunk.log_number() {
            log += 1;
            take(Work::Begins { name: Arc::clone(&name) }, 0)?;
        }
        let after = carry.clone().behind(&chunk);
        let bytes = chunk.bytes().len();
        take(Work::Chunk { origin: Origin { log, kind: reader.kind() }, chunk, carry }, bytes)?;
        carry = match after {
            Ok(after) => after,
            Err((offset, error)) => {
                let error = logs::Error::Corrupt { name: name.to_string(), offset, error };
                take(Work::Broken { offset, error, resumed: None }, 0)?;
                return Ok(log + 1);
            }
        };
    }
}

/// Returns the place where the reader continues behind damage.
fn resume(reader: &mut LogReader, error: &logs::Error, on_damage: OnDamage) -> Option<u64> {
    match (error, on_damage) {
        // Errors of the operating system would occur again.
        (logs::Error::Corrupt { .. }, OnDamage::Resume) => reader.resume_at(starts_anew).ok().flatten(),
        _ => None,
    }
}

/// Continues behind an event with a wrong size: it reaches beyond the end of the log, although other events follow it.
fn resume_within(reader: &mut LogReader, end: End, on_damage: OnDamage) -> Option<(logs::Error, u64)> {
    let End::Torn(torn) = end else { return None };
    if on_damage == OnDamage::Stop || torn.found < HEADER_SIZE {
        return None;
    }
    let resumed = reader.resume_at(starts_anew).ok().flatten()?;
    let (field, wanted) = ("event size", "one that ends where another event starts");
    let reason = Reason::Unexpected { field, found: torn.wanted as u64, wanted };
    let (name, error) = (reader.name().to_owned(), DecodeError::new(SIZE_OFFSET, reason));
    Some((logs::Error::Corrupt { name, offset: torn.offset, error }, resumed))
}

/// Offset of the size in an event's header.
const SIZE_OFFSET: usize = 9;

/// Returns true if an event of this type makes sense without the events before it.
const fn starts_anew(event_type: EventType) -> bool {
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
    (origin, name): (Origin, &str),
    before: Carry,
    opener: &mut PayloadOpener,
    chunk_size: usize,
    take: Take<'_>,
) -> Result<Carry, Error> {
    let (offset, header) = (payload.offset(), *payload.header());
    let fields = payload.fields();
    let (payload_size, claimed_size) = (fields.payload_size, fields.uncompressed_size);
    let outer = Arc::clone(payload.format());
    let format = Arc::new(outer.inside_payload());
    let mut behind =
        Carry { next_position: header.next_position, maps: StatementMaps::default(), ..before.clone() };
    let _ = behind.grammar.step(Role::Payload);
    let mut inside = Carry::inside_payload();
    let mut inner_offset = 0;
    let end = read_large(payload, opener, chunk_size, &mut |bytes| {
        let after = behind_events(inside.clone(), &bytes, &format);
        let carry = inside.clone();
        let (size, format) = (bytes.len(), Arc::clone(&format));
        take(Work::Inside(Inside { origin, offset, inner_offset, bytes, format, carry }), size)?;
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
        Refusal::Log(error) => error,
        Refusal::Statement(error) => logs::Error::Payload { name: name.to_owned(), offset, error },
    });
    let ends = PayloadEnds {
        origin,
        offset,
        header,
        payload_size,
        claimed_size,
        before,
        inside,
        end,
        format: outer,
    };
    take(Work::PayloadEnds(ends), 0)?;
    Ok(behind)
}

/// Reason why a large payload is not read to its end.
enum Refusal {
    Log(logs::Error),
    /// One of its statements has too many table maps.
    Statement(PayloadError),
}

/// Passes the events of a payload to `give`, some at a time. The inner result is for errors of the log, the outer one
/// for those of `give`.
fn read_large(
    payload: LargePayload<'_>,
    opener: &mut PayloadOpener,
    chunk_size: usize,
    give: &mut dyn FnMut(Vec<u8>) -> Result<ControlFlow<PayloadError>, Error>,
) -> Result<Result<LargeEnd, Refusal>, Error> {
    let mut events = match payload.open(opener) {
        Ok(events) => events,
        Err(error) => return Ok(Err(Refusal::Log(error))),
    };
    loop {
        let mut bytes = Vec::new();
        match events.next_chunk(chunk_size, &mut bytes) {
            Ok(0) => return Ok(events.finish().map_err(Refusal::Log)),
            Ok(_) => {
                if let ControlFlow::Break(error) = give(bytes)? {
                    return Ok(Err(Refusal::Statement(error)));
                }
            }
            Err(error) => return Ok(Err(Refusal::Log(error))),
        }
    }
}

fn behind_events(mut carry: Carry, bytes: &[u8], format: &Format) -> Result<Carry, (u64, DecodeError)> {
    let mut stepped = Ok(());
    each_event(bytes, format, |offset, raw| {
        if stepped.is_ok() {
            stepped = carry.step(raw, format).map_err(|error| (offset, error));
        }
    });
    stepped.map(|()| carry)
}

/// Passes each event in `bytes` to `give`, with its offset.
pub(crate) fn each_event(bytes: &[u8], format: &Format, mut give: impl FnMut(u64, &RawEvent<'_>)) {
    let mut framer = Framer::with_format(format.clone());
    let mut rest = bytes;
    while let Ok(Framed::Event(raw)) = framer.next(rest) {
        give((bytes.len() - rest.len()) as u64, &raw);
        rest = &rest[raw.bytes().len()..];
    }
}
