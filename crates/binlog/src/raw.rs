//! One event, framed but not decoded.

use crate::cursor::Cursor;
use crate::error::{DecodeError, Reason};
use crate::event::{Event, EventType};
use crate::format::Format;
use crate::header::{Flags, HEADER_SIZE, Header};

/// Bytes in the checksum behind an event.
pub const CHECKSUM_SIZE: usize = 4;

/// Does a CRC32 follow this event's body?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksum {
    /// No: the log has none, or the event is inside a transaction payload.
    Absent,
    /// Yes: the last four bytes, over all bytes before them.
    Crc32,
}

impl Checksum {
    /// Its size in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Crc32 => CHECKSUM_SIZE,
        }
    }
}

/// One event's bytes: nineteen of header, the body, perhaps a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent<'a> {
    bytes: &'a [u8],
    header: Header,
    checksum: Checksum,
}

impl<'a> RawEvent<'a> {
    /// Takes exactly one event. Its checksum is not verified: see [`RawEvent::verify`].
    ///
    /// # Errors
    ///
    /// When `bytes` is not as long as its header says, or too short for a header and a checksum.
    #[inline]
    pub fn new(bytes: &'a [u8], checksum: Checksum) -> Result<Self, DecodeError> {
        let header = Header::decode(&mut Cursor::new(bytes))?;
        let wanted = (header.size as usize).max(HEADER_SIZE + checksum.size());
        match bytes.len() {
            found if found < wanted => {
                let wanted = (wanted - found) as u64;
                Err(DecodeError::new(bytes.len(), Reason::Short { wanted, found: 0 }))
            }
            found if found > header.size as usize => {
                let count = found - header.size as usize;
                Err(DecodeError::new(header.size as usize, Reason::Trailing { count }))
            }
            _ => Ok(Self { bytes, header, checksum }),
        }
    }

    /// The event at the front of bytes that are known to be whole events, and what is behind it; `None` at the end, or
    /// when there is no whole event.
    pub fn split_first(bytes: &'a [u8], checksum: Checksum) -> Option<(Self, &'a [u8])> {
        let header = Header::decode(&mut Cursor::new(bytes)).ok()?;
        let (bytes, rest) = bytes.split_at_checked(header.size as usize)?;
        Some((Self { bytes, header, checksum }, rest))
    }

    /// The decoded header.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// What the body holds.
    pub const fn event_type(&self) -> EventType {
        self.header.event_type
    }

    /// The whole event as it stands in the log.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// What stands between header and checksum.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[HEADER_SIZE..self.bytes.len() - self.checksum.size()]
    }

    /// Whether a checksum follows the body.
    pub const fn checksum(&self) -> Checksum {
        self.checksum
    }

    /// The checksum as stored.
    pub fn checksum_stored(&self) -> Option<u32> {
        match self.checksum {
            Checksum::Absent => None,
            Checksum::Crc32 => self.bytes.last_chunk().map(|bytes| u32::from_le_bytes(*bytes)),
        }
    }

    /// Compares the stored checksum with the bytes; an event without one passes.
    pub fn verify(&self) -> Result<(), DecodeError> {
        let Some(stored) = self.checksum_stored() else { return Ok(()) };
        let covered = &self.bytes[..self.bytes.len() - CHECKSUM_SIZE];
        let computed = checksum(self.header.event_type, covered);
        if stored == computed {
            return Ok(());
        }
        Err(DecodeError::new(covered.len(), Reason::Checksum { stored, computed }))
    }

    /// The body's fields, as views of these bytes.
    pub fn decode(&self, format: &Format) -> Result<Event<'a>, DecodeError> {
        Event::decode(self, format)
    }

    /// A copy that owns its bytes.
    pub fn to_buf(&self) -> RawEventBuf {
        RawEventBuf { bytes: self.bytes.into(), checksum: self.checksum }
    }
}

/// One event that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEventBuf {
    bytes: Box<[u8]>,
    checksum: Checksum,
}

impl RawEventBuf {
    /// A view of it.
    ///
    /// # Panics
    ///
    /// Never: the bytes were checked when this was made.
    pub fn as_raw(&self) -> RawEvent<'_> {
        match RawEvent::new(&self.bytes, self.checksum) {
            Ok(raw) => raw,
            Err(error) => unreachable!("checked when it was made: {error}"),
        }
    }
}

impl From<RawEvent<'_>> for RawEventBuf {
    fn from(raw: RawEvent<'_>) -> Self {
        raw.to_buf()
    }
}

/// The CRC32 (zlib's) that stands behind an event whose other bytes are `covered`.
///
/// The in-use flag of a format description is left out: a server clears it in place when it closes the file.
pub(crate) fn checksum(event_type: EventType, covered: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    match covered.split_first_chunk::<HEADER_SIZE>() {
        Some((header, body)) if event_type == EventType::FormatDescription => {
            let mut header = *header;
            header[17] &= !(Flags::IN_USE.0 as u8);
            hasher.update(&header);
            hasher.update(body);
        }
        _ => hasher.update(covered),
    }
    hasher.finalize()
}
