//! Encoding of whole events: header, body, checksum.

use crate::error::{EncodeError, checked_number};
use crate::event::{Event, EventType};
use crate::format::EventFormat;
use crate::framer::EVENT_SIZE_MAX;
use crate::header::{EventHeader, EventOrigin, HEADER_SIZE};
use crate::raw::{EventChecksum, RawEvent, checksum};

/// Value for an event's [`EventHeader::next_position`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextPosition {
    /// The end of the event, modulo 2^32; the event starts at this position of its file.
    FromStart(u64),
    /// This exact value: 0 inside a transaction payload and in artificial events, the source's position in a relay
    /// log.
    Fixed(u32),
}

impl Event<'_> {
    /// Appends the whole event to `out`: header, body, and the checksum that `format` states.
    ///
    /// Format descriptions have the checksum of their own version, whatever `format` states.
    ///
    /// # Errors
    ///
    /// Fails as [`Event::encode`] does, and if the event becomes larger than [`EVENT_SIZE_MAX`]. `out` is then
    /// unchanged.
    pub fn write(
        &self,
        origin: EventOrigin,
        next: NextPosition,
        format: &EventFormat,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let checksum = match self {
            Self::FormatDescription(description) => description.checksum(),
            _ => format.checksum.for_events(),
        };
        let frame = EventFrame { event_type: self.event_type(), origin, next, checksum };
        write(frame, out, |out| self.encode(format, out))
    }
}

impl RawEvent<'_> {
    /// Appends the same body under another header, with or without a checksum.
    ///
    /// This moves an event to another position, another log, or into and out of a payload.
    ///
    /// # Errors
    ///
    /// Fails if the checksum makes the event larger than [`EVENT_SIZE_MAX`]. `out` is then unchanged.
    pub fn rewrite(
        &self,
        origin: EventOrigin,
        next: NextPosition,
        checksum: EventChecksum,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let frame = EventFrame { event_type: self.event_type(), origin, next, checksum };
        write(frame, out, |out| {
            out.extend_from_slice(self.body());
            Ok(())
        })
    }
}

/// Changes the position of an encoded event in its log, and updates its checksum.
///
/// # Panics
///
/// Panics if `bytes` is shorter than a header and the checksum.
pub fn move_event(bytes: &mut [u8], kind: EventChecksum, next: NextPosition) {
    assert!(bytes.len() >= HEADER_SIZE + kind.size(), "ours: an event has at least a header");
    let position = next.after(bytes.len() as u32);
    bytes[13..17].copy_from_slice(&position.to_le_bytes());
    if kind == EventChecksum::Crc32 {
        let covered = bytes.len() - kind.size();
        let sum = checksum(EventType::from_code(bytes[4]), &bytes[..covered]);
        bytes[covered..].copy_from_slice(&sum.to_le_bytes());
    }
}

/// Header fields and checksum around the body of an event.
pub(crate) struct EventFrame {
    pub(crate) event_type: EventType,
    pub(crate) origin: EventOrigin,
    pub(crate) next: NextPosition,
    pub(crate) checksum: EventChecksum,
}

pub(crate) fn write(
    frame: EventFrame,
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let EventFrame { event_type, origin, next, checksum } = frame;
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_SIZE]);
    let sized = body(out).and_then(|()| {
        let size = out.len() - start + checksum.size();
        checked_number("size of an event", size as u64, EVENT_SIZE_MAX)
    });
    let size = sized.inspect_err(|_| out.truncate(start))?;
    let EventOrigin { timestamp, server_id, flags } = origin;
    let next_position = next.after(size);
    let header = EventHeader { timestamp, event_type, server_id, size, next_position, flags };
    out[start..start + HEADER_SIZE].copy_from_slice(&header.encode());
    put_checksum(checksum, event_type, start, out);
    Ok(())
}

fn put_checksum(kind: EventChecksum, event_type: EventType, start: usize, out: &mut Vec<u8>) {
    match kind {
        EventChecksum::Absent => {}
        EventChecksum::Crc32 => {
            let sum = checksum(event_type, &out[start..]);
            out.extend_from_slice(&sum.to_le_bytes());
        }
    }
}

impl NextPosition {
    fn after(self, size: u32) -> u32 {
        match self {
            // Servers also write only the low 32 bits: files can exceed 4 GiB.
            Self::FromStart(start) => (start as u32).wrapping_add(size),
            Self::Fixed(position) => position,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NextPosition;
    use crate::error::EncodeError;
    use crate::event::{Event, EventType};
    use crate::events::{Incident, Xid};
    use crate::format::{ChecksumAlgorithm, EventFormat, Flavour};
    use crate::header::{EventFlags, EventOrigin};
    use crate::raw::{EventChecksum, RawEvent};

    const ORIGIN: EventOrigin = EventOrigin { timestamp: 0x6bf9_3041, server_id: 1, flags: EventFlags(0) };

    fn format(checksum: ChecksumAlgorithm) -> EventFormat {
        let (server_version, post_header_sizes) = (b"9.7.4".to_vec(), Vec::new());
        EventFormat { server_version, post_header_sizes, checksum, flavour: Flavour::MySql }
    }

    fn write(event: &Event<'_>, next: NextPosition, checksum: ChecksumAlgorithm) -> Vec<u8> {
        let mut out = b"before".to_vec();
        event.write(ORIGIN, next, &format(checksum), &mut out).unwrap();
        out.split_off(6)
    }

    #[test]
    fn sizes_positions_and_checksums_are_written() {
        let xid = Event::Xid(Xid { xid: 0x1122 });
        let check = |next, checksum, size: u32, position: u32| {
            let bytes = write(&xid, next, checksum);
            let raw = RawEvent::new(&bytes, checksum.for_events()).unwrap();
            assert_eq!((raw.header().size, raw.header().next_position), (size, position));
            assert_eq!((raw.event_type(), raw.header().origin()), (EventType::Xid, ORIGIN));
            assert_eq!((raw.verify(), raw.decode(&format(checksum))), (Ok(()), Ok(xid.clone())));
        };
        check(NextPosition::FromStart(4), ChecksumAlgorithm::Crc32, 31, 35);
        check(NextPosition::FromStart(4), ChecksumAlgorithm::Off, 27, 31);
        check(NextPosition::Fixed(0), ChecksumAlgorithm::Off, 27, 0);
        check(NextPosition::FromStart(0xffff_fff0), ChecksumAlgorithm::Crc32, 31, 15);
        check(NextPosition::FromStart(0x3_0000_0000), ChecksumAlgorithm::Crc32, 31, 31);
    }

    #[test]
    fn events_round_trip_through_a_payload() {
        let bytes =
            write(&Event::Xid(Xid { xid: 7 }), NextPosition::FromStart(100), ChecksumAlgorithm::Crc32);
        let raw = RawEvent::new(&bytes, EventChecksum::Crc32).unwrap();
        let mut inner = Vec::new();
        raw.rewrite(ORIGIN, NextPosition::Fixed(0), EventChecksum::Absent, &mut inner).unwrap();
        assert_eq!((inner.len(), &inner[13..17]), (27, &[0; 4][..]));
        let inner = RawEvent::new(&inner, EventChecksum::Absent).unwrap();
        let mut again = Vec::new();
        inner.rewrite(ORIGIN, NextPosition::FromStart(100), EventChecksum::Crc32, &mut again).unwrap();
        assert_eq!(again, bytes);
    }

    #[test]
    fn failed_write_leaves_the_buffer_unchanged() {
        let event = Event::Incident(Incident { incident: 1, message: &[b'x'; 256], rest: &[] });
        let mut out = b"before".to_vec();
        let result = event.write(ORIGIN, NextPosition::Fixed(0), &format(ChecksumAlgorithm::Off), &mut out);
        let expected = EncodeError::TooLarge { field: "size of the message", found: 256, max: 255 };
        assert_eq!((result, out), (Err(expected), b"before".to_vec()));
    }
}
