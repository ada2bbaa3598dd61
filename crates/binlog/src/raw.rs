//! Events that are framed but not decoded.

use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeReason};
use crate::event::{Event, EventType};
use crate::format::EventFormat;
use crate::header::{EventFlags, EventHeader, HEADER_SIZE};

/// Size of the checksum after an event.
pub const CHECKSUM_SIZE: usize = 4;

/// Checksum of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventChecksum {
    /// None: the log has no checksums, or the event is inside a transaction payload.
    Absent,
    /// CRC32 in the last four bytes, over all bytes before them.
    Crc32,
}

impl EventChecksum {
    /// Returns the size in bytes.
    pub const fn size(self) -> usize {
        match self {
            Self::Absent => 0,
            Self::Crc32 => CHECKSUM_SIZE,
        }
    }
}

/// Bytes of one event: the nineteen bytes of the header, the body, and possibly a checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawEvent<'a> {
    bytes: &'a [u8],
    header: EventHeader,
    checksum: EventChecksum,
}

impl<'a> RawEvent<'a> {
    /// Wraps the bytes of exactly one event. [`RawEvent::verify`] verifies the checksum.
    ///
    /// # Errors
    ///
    /// Fails if the size of `bytes` differs from the size in the header, or is too small for a header and a checksum.
    #[inline]
    pub fn new(bytes: &'a [u8], checksum: EventChecksum) -> Result<Self, DecodeError> {
        let header = EventHeader::decode(&mut Cursor::new(bytes))?;
        let expected = (header.size as usize).max(HEADER_SIZE + checksum.size());
        match bytes.len() {
            found if found < expected => {
                let expected = (expected - found) as u64;
                Err(DecodeError::new(bytes.len(), DecodeReason::Short { expected, found: 0 }))
            }
            found if found > header.size as usize => {
                let count = found - header.size as usize;
                Err(DecodeError::new(header.size as usize, DecodeReason::Trailing { count }))
            }
            _ => Ok(Self { bytes, header, checksum }),
        }
    }

    /// Splits the first event from bytes that are known to be whole events; returns `None` at the end, or if there is
    /// no whole event.
    pub fn split_first(bytes: &'a [u8], checksum: EventChecksum) -> Option<(Self, &'a [u8])> {
        let header = EventHeader::decode(&mut Cursor::new(bytes)).ok()?;
        let (bytes, rest) = bytes.split_at_checked(header.size as usize)?;
        Some((Self { bytes, header, checksum }, rest))
    }

    /// Returns the decoded header.
    pub const fn header(&self) -> &EventHeader {
        &self.header
    }

    /// Returns the type of the event.
    pub const fn event_type(&self) -> EventType {
        self.header.event_type
    }

    /// Returns the bytes of the whole event.
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the bytes between header and checksum.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[HEADER_SIZE..self.bytes.len() - self.checksum.size()]
    }

    /// Returns the kind of checksum after the body.
    pub const fn checksum(&self) -> EventChecksum {
        self.checksum
    }

    /// Returns the stored checksum.
    pub fn checksum_stored(&self) -> Option<u32> {
        match self.checksum {
            EventChecksum::Absent => None,
            EventChecksum::Crc32 => self.bytes.last_chunk().map(|bytes| u32::from_le_bytes(*bytes)),
        }
    }

    /// Verifies the checksum; an event without one passes.
    pub fn verify(&self) -> Result<(), DecodeError> {
        let Some(stored) = self.checksum_stored() else { return Ok(()) };
        let covered = &self.bytes[..self.bytes.len() - CHECKSUM_SIZE];
        let computed = checksum(self.header.event_type, covered);
        if stored == computed {
            return Ok(());
        }
        Err(DecodeError::new(covered.len(), DecodeReason::Checksum { stored, computed }))
    }

    /// Decodes the body into a view of these bytes.
    pub fn decode(&self, format: &EventFormat) -> Result<Event<'a>, DecodeError> {
        Event::decode(self, format)
    }

    /// Returns a copy that owns its bytes.
    pub fn to_buf(&self) -> RawEventBuf {
        RawEventBuf { bytes: self.bytes.into(), checksum: self.checksum }
    }
}

/// One event that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawEventBuf {
    bytes: Box<[u8]>,
    checksum: EventChecksum,
}

impl RawEventBuf {
    /// Returns a view of the event.
    ///
    /// # Panics
    ///
    /// Never: the bytes were checked at construction.
    pub fn as_raw(&self) -> RawEvent<'_> {
        match RawEvent::new(&self.bytes, self.checksum) {
            Ok(raw) => raw,
            Err(error) => unreachable!("ours: the bytes were checked at construction: {error}"),
        }
    }
}

impl From<RawEvent<'_>> for RawEventBuf {
    fn from(raw: RawEvent<'_>) -> Self {
        raw.to_buf()
    }
}

/// Computes the CRC32 (zlib's) of an event over `covered`, all its other bytes.
///
/// Does not cover the in-use flag of a format description, because the server clears the flag in place when it closes
/// the file.
pub(crate) fn checksum(event_type: EventType, covered: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    match covered.split_first_chunk::<HEADER_SIZE>() {
        Some((header, body)) if event_type == EventType::FormatDescription => {
            let mut header = *header;
            header[17] &= !(EventFlags::IN_USE.0 as u8);
            hasher.update(&header);
            hasher.update(body);
        }
        _ => hasher.update(covered),
    }
    hasher.finalize()
}
