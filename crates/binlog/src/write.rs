//! Encoding of whole events: header, body, checksum.

use crate::error::{EncodeError, narrow};
use crate::event::{Event, EventType};
use crate::format::Format;
use crate::framer::EVENT_SIZE_MAX;
use crate::header::{HEADER_SIZE, Header, Origin};
use crate::raw::{Checksum, RawEvent, checksum};

/// Value for an event's [`Header::next_position`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextPosition {
    /// The end of the event, modulo 2^32; the event starts at this position of its file.
    Behind(u64),
    /// This exact value: 0 inside a transaction payload and in artificial events, the source's position in a relay
    /// log.
    Is(u32),
}

impl Event<'_> {
    /// Appends the whole event to `out`: header, body, and the checksum that `format` states.
    ///
    /// Format descriptions have the checksum of their own version, whatever `format` states.
    ///
    /// # Errors
    ///
    /// As [`Event::encode`]; also fails if the event becomes larger than [`EVENT_SIZE_MAX`]. `out` is then unchanged.
    pub fn write(
        &self,
        origin: Origin,
        next: NextPosition,
        format: &Format,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        let checksum = match self {
            Self::FormatDescription(description) => description.checksum(),
            _ => format.checksum.for_events(),
        };
        write(self.event_type(), origin, next, checksum, out, |out| self.encode(format, out))
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
        origin: Origin,
        next: NextPosition,
        checksum: Checksum,
        out: &mut Vec<u8>,
    ) -> Result<(), EncodeError> {
        write(self.event_type(), origin, next, checksum, out, |out| {
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
pub fn move_event(bytes: &mut [u8], kind: Checksum, next: NextPosition) {
    assert!(bytes.len() >= HEADER_SIZE + kind.size(), "ours: an event is at least a header long");
    let position = next.after(bytes.len() as u32);
    bytes[13..17].copy_from_slice(&position.to_le_bytes());
    if kind == Checksum::Crc32 {
        let covered = bytes.len() - kind.size();
        let sum = checksum(EventType::from_code(bytes[4]), &bytes[..covered]);
        bytes[covered..].copy_from_slice(&sum.to_le_bytes());
    }
}

pub(crate) fn write(
    event_type: EventType,
    origin: Origin,
    next: NextPosition,
    checksum: Checksum,
    out: &mut Vec<u8>,
    body: impl FnOnce(&mut Vec<u8>) -> Result<(), EncodeError>,
) -> Result<(), EncodeError> {
    let start = out.len();
    out.extend_from_slice(&[0; HEADER_SIZE]);
    let sized = body(out).and_then(|()| {
        let size = out.len() - start + checksum.size();
        narrow("size of an event", size as u64, EVENT_SIZE_MAX)
    });
    let size = sized.inspect_err(|_| out.truncate(start))?;
    let Origin { timestamp, server_id, flags } = origin;
    let next_position = next.after(size);
    let header = Header { timestamp, event_type, server_id, size, next_position, flags };
    out[start..start + HEADER_SIZE].copy_from_slice(&header.encode());
    put_checksum(checksum, event_type, start, out);
    Ok(())
}

fn put_checksum(kind: Checksum, event_type: EventType, start: usize, out: &mut Vec<u8>) {
    match kind {
        Checksum::Absent => {}
        Checksum::Crc32 => {
            let sum = checksum(event_type, &out[start..]);
            out.extend_from_slice(&sum.to_le_bytes());
        }
    }
}

impl NextPosition {
    fn after(self, size: u32) -> u32 {
        match self {
            // Servers also keep only the low 32 bits: files can exceed 4 GiB.
            Self::Behind(start) => (start as u32).wrapping_add(size),
            Self::Is(position) => position,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::NextPosition;
    use crate::error::EncodeError;
    use crate::event::{Event, EventType};
    use crate::events::{Incident, Xid};
    use crate::format::{ChecksumAlgorithm, Flavour, Format};
    use crate::header::{Flags, Origin};
    use crate::raw::{Checksum, RawEvent};

    const ORIGIN: Origin = Origin { timestamp: 0x6bf9_3041, server_id: 1, flags: Flags(0) };

    fn format(checksum: ChecksumAlgorithm) -> Format {
        let (server_version, post_header_sizes) = (b"9.7.4".to_vec(), Vec::new());
        Format { server_version, post_header_sizes, checksum, flavour: Flavour::MySql }
    }

    fn write(event: &Event<'_>, next: NextPosition, checksum: ChecksumAlgorithm) -> Vec<u8> {
        let mut out = b"before".to_vec();
        event.write(ORIGIN, next, &format(checksum), &mut out).unwrap();
        out.split_off(6)
    }

    #[test]
    fn sizes_positions_and_checksums_are_right() {
        let xid = Event::Xid(Xid { xid: 0x1122 });
        let check = |next, checksum, size: u32, position: u32| {
            let bytes = write(&xid, next, checksum);
            let raw = RawEvent::new(&bytes, checksum.for_events()).unwrap();
            assert_eq!((raw.header().size, raw.header().next_position), (size, position));
            assert_eq!((raw.event_type(), raw.header().origin()), (EventType::Xid, ORIGIN));
            assert_eq!((raw.verify(), raw.decode(&format(checksum))), (Ok(()), Ok(xid.clone())));
        };
        check(NextPosition::Behind(4), ChecksumAlgorithm::Crc32, 31, 35);
        check(NextPosition::Behind(4), ChecksumAlgorithm::Off, 27, 31);
        check(NextPosition::Is(0), ChecksumAlgorithm::Off, 27, 0);
        check(NextPosition::Behind(0xffff_fff0), ChecksumAlgorithm::Crc32, 31, 15);
        check(NextPosition::Behind(0x3_0000_0000), ChecksumAlgorithm::Crc32, 31, 31);
    }

    #[test]
    fn an_event_moves_into_a_payload_and_out_again() {
        let bytes = write(&Event::Xid(Xid { xid: 7 }), NextPosition::Behind(100), ChecksumAlgorithm::Crc32);
        let raw = RawEvent::new(&bytes, Checksum::Crc32).unwrap();
        let mut inner = Vec::new();
        raw.rewrite(ORIGIN, NextPosition::Is(0), Checksum::Absent, &mut inner).unwrap();
        assert_eq!((inner.len(), &inner[13..17]), (27, &[0; 4][..]));
        let inner = RawEvent::new(&inner, Checksum::Absent).unwrap();
        let mut again = Vec::new();
        inner.rewrite(ORIGIN, NextPosition::Behind(100), Checksum::Crc32, &mut again).unwrap();
        assert_eq!(again, bytes);
    }

    #[test]
    fn what_cannot_be_written_leaves_nothing_behind() {
        let event = Event::Incident(Incident { incident: 1, message: &[b'x'; 256], rest: &[] });
        let mut out = b"before".to_vec();
        let result = event.write(ORIGIN, NextPosition::Is(0), &format(ChecksumAlgorithm::Off), &mut out);
        let wanted = EncodeError::TooLarge { field: "size of the message", found: 256, max: 255 };
        assert_eq!((result, out), (Err(wanted), b"before".to_vec()));
    }
}
