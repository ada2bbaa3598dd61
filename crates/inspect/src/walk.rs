//! Reads logs into pieces that can be worked on apart from each other.

use std::ops::ControlFlow;
use std::sync::Arc;

use binlog::{
    DecodeError, EventType, Format, Framed, Framer, HEADER_SIZE, Header, PayloadError, PayloadLimits,
    PayloadOpener, RawEvent, Reason, Role, SizeClaim,
};
use logs::{Chunk, End, LargeEnd, LargePayload, LogKind, LogReader, Next, Piece, StatementMaps};

use crate::carry::Carry;
use crate::error::Error;

/// How logs are cut into pieces.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Bytes handed to a worker at once: enough to keep it busy, little enough to hold several.
    pub(crate) chunk_size: usize,
    /// Payloads of more bytes than this are opened piece by piece while they are read.
    pub(crate) large_size: usize,
}

impl Cut {
    pub(crate) const USUAL: Self = Self { chunk_size: 1 << 20, large_size: 4 << 20 };
}

/// What to do about a place that cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnDamage {
    /// Leave the log.
    Stop,
    /// Go on with the next transaction that can be found.
    Resume,
}

impl OnDamage {
    /// Opens payloads: where reading goes on behind damage, all inner events are wanted, whatever size is stated.
    pub(crate) fn opener(self) -> PayloadOpener {
        let claim = match self {
            Self::Stop => SizeClaim::Binding,
            Self::Resume => SizeClaim::Ignored,
        };
        PayloadOpener::with_limits(PayloadLimits { claim, ..PayloadLimits::default() })
    }
}

/// Which log a piece is of.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Origin {
    /// Its number, from 0, in the order read.
    pub(crate) log: u32,
    pub(crate) kind: LogKind,
}

/// A piece of a log, in the order in which they stand there.
#[derive(Debug)]
pub(crate) enum Work {
    /// A log starts.
    Begins { name: Arc<str> },
    /// Whole events.
    Chunk { origin: Origin, chunk: Chunk, carry: Carry },
    /// Events of a large payload.
    Inside(Inside),
    /// A large payload ends.
    PayloadEnds(PayloadEnds),
    /// A log cannot be read on, or not before another place.
    Broken { offset: u64, error: logs::Error, resumed: Option<u64> },
    /// A log ends.
    Ends { origin: Origin, end: End, position: u64 },
}

/// Some events of a large payload.
#[derive(Debug)]
pub(crate) struct Inside {
    pub(crate) origin: Origin,
    /// Where the payload's event starts.
    pub(crate) offset: u64,
    /// Bytes of events in the payload in front of these.
    pub(crate) inner_offset: u64,
    pub(crate) bytes: Vec<u8>,
    /// Without checksums.
    pub(crate) format: Arc<Format>,
    pub(crate) carry: Carry,
}

/// What shows at a large payload's end.
#[derive(Debug)]
pub(crate) struct PayloadEnds {
    pub(crate) origin: Origin,
    pub(crate) offset: u64,
    pub(crate) header: Header,
    pub(crate) payload_size: u64,
    pub(crate) claimed_size: Option<u64>,
    /// Of the log.
    pub(crate) format: Arc<Format>,
    /// In front of the payload's event.
    pub(crate) before: Carry,
    /// Behind the last event inside.
    pub(crate) inside: Carry,
    /// How it ended, or why it could not be read to its end.
    pub(crate) end: Result<LargeEnd, logs::Error>,
}

/// Takes pieces, and how many bytes they take.
pub(crate) type Take<'t> = &'t mut dyn FnMut(Work, usize) -> Result<(), Error>;

/// Reads one log, or several copied one behind the other, whose numbers start at `log`. Gives the number behind.
///
/// # Errors
///
/// Those of `take`. What is wrong with the log is a piece: [`Work::Broken`].
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

/// Where the reader goes on behind what cannot be read.
fn resume(reader: &mut LogReader, error: &logs::Error, on_damage: OnDamage) -> Option<u64> {
    match (error, on_damage) {
        // What the system refuses now it refuses again.
        (logs::Error::Corrupt { .. }, OnDamage::Resume) => reader.resume_at(starts_anew).ok().flatten(),
        _ => None,
    }
}

/// An event that reaches beyond the log's end although others stand within it has a wrong size.
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

/// Where an event's size stands in its header.
const SIZE_OFFSET: usize = 9;

/// What makes sense without what came before.
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

/// Opens a large payload while it is read; gives what holds behind it.
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

/// Why a large payload is not read to its end.
enum Refusal {
    Log(logs::Error),
    /// A statement in it has no end.
    Statement(PayloadError),
}

/// Gives the events inside, some at a time. The inner result is what the log says, the outer what the taker does.
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

/// Gives each of the whole events in `bytes`, and where it starts there.
pub(crate) fn each_event(bytes: &[u8], format: &Format, mut give: impl FnMut(u64, &RawEvent<'_>)) {
    let mut framer = Framer::with_format(format.clone());
    let mut rest = bytes;
    while let Ok(Framed::Event(raw)) = framer.next(rest) {
        give((bytes.len() - rest.len()) as u64, &raw);
        rest = &rest[raw.bytes().len()..];
    }
}
