//! Lists the events of a log in a form, as `SHOW BINLOG EVENTS` does.

use std::ops::ControlFlow;
use std::sync::Arc;

use binlog::events::{PayloadFields, TransactionPayload};
use binlog::{
    Cursor, DecodeError, EVENT_SIZE_MAX, Event, EventChecksum, EventFormat, EventHeader, EventType, Framer,
    FramerOutput, PayloadError, PayloadOpener, RawEvent,
};
use sql::event_info::put_info;

use crate::error::RelayError;
use crate::form_chunk::{EventSlice, FormChunk};
use crate::form_source::{FormRead, FormSource, FormStart};
use crate::statement_interrupt::StatementInterrupt;

/// Event of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ListedRelayEvent {
    /// Start of the event. Inside a payload, the end of the payload's event, as on a server.
    pub(crate) position: u64,
    pub(crate) event_type: EventType,
    pub(crate) server_id: u32,
    /// End of the event, from its header. Inside a payload, the end of the payload's event.
    pub(crate) end_position: u32,
    /// Description.
    pub(crate) info: String,
}

/// Maximum size in bytes of an event that is read as a whole. The description of a larger event uses only its start.
const WHOLE_EVENT_MAX: u32 = 16 << 20;
/// Bytes read from a payload at once.
const INNER_SIZE: usize = 256 << 10;

/// Receiver of the events, which can end the list.
pub(crate) type EventVisitor<'v> = dyn FnMut(ListedRelayEvent) -> ControlFlow<()> + 'v;

/// Lists the events of a log, starting at an event that [`FormSource::locate`] found. Ends at the end of the log, or of
/// its available part.
///
/// # Errors
///
/// Fails if the log cannot be read or decoded; [`RelayError::Interrupted`] after a request of `interrupt`.
pub(crate) fn list_events(
    source: &FormSource,
    log: &Arc<str>,
    start: FormStart,
    interrupt: &StatementInterrupt,
    visit: &mut EventVisitor<'_>,
) -> Result<(), RelayError> {
    let mut listing = EventListing { log, visit, pieces: Vec::new(), payload: None };
    let mut position = start.position;
    while let FormRead::Chunk(chunk) = source.read(log, position)? {
        if interrupt.is_requested() {
            return Err(RelayError::Interrupted);
        }
        let changed = || RelayError::Changed { name: log.to_string() };
        let first = chunk.slice_at(position).ok_or_else(changed)?;
        for slice in &chunk.slices()[first..] {
            if listing.take(&chunk, *slice)?.is_break() {
                return Ok(());
            }
        }
        position = chunk.end();
    }
    Ok(())
}

/// State of a list.
struct EventListing<'l, 'v> {
    log: &'l Arc<str>,
    visit: &'l mut EventVisitor<'v>,
    /// Bytes so far of an event that comes in pieces.
    pieces: Vec<u8>,
    payload: Option<OpenPayload>,
}

/// Payload whose events are listed while it is read.
struct OpenPayload {
    opener: PayloadOpener,
    header: EventHeader,
    /// Start and end of the payload's event.
    start: u64,
    end: u64,
    /// Number of the event's bytes before the payload that are not read yet.
    skip: usize,
    /// Number of the payload's bytes that are not read yet.
    left: u64,
    format: EventFormat,
    /// Description of the payload's event.
    info: String,
}

impl EventListing<'_, '_> {
    fn take(&mut self, chunk: &FormChunk, slice: EventSlice) -> Result<ControlFlow<()>, RelayError> {
        let bytes = &chunk.bytes()[slice.range()];
        let start = chunk.offset() + slice.range().start as u64 - u64::from(slice.skipped);
        if slice.event_type == EventType::TransactionPayload {
            if slice.is_first() {
                let wrong = |error| event_error(self.log, start, error);
                let payload = OpenPayload::begin(bytes, start, chunk.format()).map_err(wrong)?;
                let listed = payload.listed();
                self.payload = Some(payload);
                if (self.visit)(listed).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
            return self.list_payload(bytes, slice);
        }
        if slice.is_whole() {
            return self.describe(bytes, start, chunk.format());
        }
        // The start of an event is enough for its description, except for a long statement.
        let is_complete = slice.event_size <= WHOLE_EVENT_MAX;
        if is_complete || slice.is_first() {
            self.pieces.extend_from_slice(bytes);
        }
        if !slice.is_last() {
            return Ok(ControlFlow::Continue(()));
        }
        let mut event = std::mem::take(&mut self.pieces);
        if is_complete {
            return self.describe(&event, start, chunk.format());
        }
        let size = event.len() as u32;
        if let Some(field) = event.get_mut(SIZE_FIELD) {
            field.copy_from_slice(&size.to_le_bytes());
        }
        self.describe(&event, start, &chunk.format().inside_payload())
    }

    fn describe(
        &mut self,
        bytes: &[u8],
        start: u64,
        format: &EventFormat,
    ) -> Result<ControlFlow<()>, RelayError> {
        let listed = describe(bytes, start, format).map_err(|error| event_error(self.log, start, error))?;
        Ok((self.visit)(listed))
    }

    /// Lists the events of the payload's bytes read so far.
    fn list_payload(&mut self, bytes: &[u8], slice: EventSlice) -> Result<ControlFlow<()>, RelayError> {
        let Some(payload) = &mut self.payload else { return Ok(ControlFlow::Continue(())) };
        let start = payload.start;
        let wrong = |error: PayloadError| event_error(self.log, start, error.error);
        if payload.take(bytes, self.visit).map_err(wrong)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        if slice.is_last() {
            payload.opener.resume_stream().finish().map_err(wrong)?;
            self.payload = None;
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Range of the event's size in its header.
const SIZE_FIELD: std::ops::Range<usize> = 9..13;

impl OpenPayload {
    /// Reads the fields at the start of the event.
    fn begin(bytes: &[u8], start: u64, format: &EventFormat) -> Result<Self, DecodeError> {
        let (header, fields, size) = read_fields(bytes)?;
        let event = Event::TransactionPayload(TransactionPayload {
            compression: fields.compression,
            uncompressed_size: fields.uncompressed_size,
            fields: &[],
            payload: &[],
            rest: &[],
        });
        let mut info = Vec::new();
        put_info(&mut info, &header, format, &event)?;
        let mut opener = PayloadOpener::new();
        opener.open_stream(fields.compression, fields.uncompressed_size).map_err(|error| error.error)?;
        Ok(Self {
            opener,
            header,
            start,
            end: start + u64::from(header.size),
            skip: size,
            left: fields.payload_size,
            format: format.inside_payload(),
            info: String::from_utf8_lossy(&info).into_owned(),
        })
    }

    /// Returns the payload's event itself.
    fn listed(&self) -> ListedRelayEvent {
        self.row(self.start, &self.header, self.info.clone())
    }

    fn row(&self, position: u64, header: &EventHeader, info: String) -> ListedRelayEvent {
        ListedRelayEvent {
            position,
            event_type: header.event_type,
            server_id: header.server_id,
            // The server gives the payload's end as position of the events inside.
            end_position: self.header.next_position,
            info,
        }
    }

    /// Takes the next bytes of the event, and lists the events that they complete.
    fn take(&mut self, bytes: &[u8], visit: &mut EventVisitor<'_>) -> Result<ControlFlow<()>, PayloadError> {
        let skipped = self.skip.min(bytes.len());
        self.skip -= skipped;
        let left = usize::try_from(self.left).unwrap_or(usize::MAX);
        let mut input = &bytes[skipped..];
        input = &input[..input.len().min(left)];
        self.left -= input.len() as u64;
        let mut inner = Vec::new();
        while self.opener.resume_stream().next_chunk(&mut input, INNER_SIZE, &mut inner)? > 0 {
            let mut rest = inner.as_slice();
            while let Some((raw, after)) = RawEvent::split_first(rest, EventChecksum::Absent) {
                let info = info_of(&raw, &self.format).map_err(|error| PayloadError {
                    inner_offset: 0,
                    payload_offset: 0,
                    error,
                })?;
                if visit(self.row(self.end, raw.header(), info)).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
                rest = after;
            }
            inner.clear();
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Reads the header and the fields of a payload's event. Also returns their size.
fn read_fields(bytes: &[u8]) -> Result<(EventHeader, PayloadFields, usize), DecodeError> {
    let mut cursor = Cursor::new(bytes);
    let header = EventHeader::decode(&mut cursor)?;
    let fields = PayloadFields::decode(&mut cursor)?;
    Ok((header, fields, cursor.offset()))
}

fn describe(bytes: &[u8], start: u64, format: &EventFormat) -> Result<ListedRelayEvent, DecodeError> {
    // A format description has its own checksum.
    let raw = match Framer::new().next(bytes) {
        Ok(FramerOutput::Event(raw)) if raw.event_type() == EventType::FormatDescription => raw,
        _ => RawEvent::new(bytes, format.checksum.for_events())?,
    };
    let header = raw.header();
    Ok(ListedRelayEvent {
        position: start,
        event_type: header.event_type,
        server_id: header.server_id,
        end_position: header.next_position,
        info: info_of(&raw, format)?,
    })
}

fn info_of(raw: &RawEvent<'_>, format: &EventFormat) -> Result<String, DecodeError> {
    let mut plain = Vec::new();
    // MariaDB's compressed events have the same description as plain events.
    let event = match raw.event_type().decompressed() {
        None => raw.decode(format)?,
        Some(_) => raw.plain(format, EVENT_SIZE_MAX, &mut plain)?.decode(format)?,
    };
    let mut info = Vec::new();
    put_info(&mut info, raw.header(), format, &event)?;
    Ok(String::from_utf8_lossy(&info).into_owned())
}

fn event_error(log: &Arc<str>, position: u64, error: DecodeError) -> RelayError {
    RelayError::Event { name: log.to_string(), position, error }
}
