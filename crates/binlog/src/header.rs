//! Event header: the nineteen bytes at the start of every event.

use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeReason};
use crate::event::EventType;

/// Size of an event header in bytes.
pub const HEADER_SIZE: usize = 19;

/// Offset of the event's size in a header.
const SIZE_OFFSET: usize = 9;

/// Event header: the nineteen bytes at the start of every event.
///
/// | size | field |
/// |---|---|
/// | 4 | `timestamp` |
/// | 1 | `event_type` |
/// | 4 | `server_id` |
/// | 4 | `size` |
/// | 4 | `next_position` |
/// | 2 | `flags` |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EventHeader {
    /// Start time of the statement, in seconds since 1970.
    pub timestamp: u32,
    /// Type of the event.
    pub event_type: EventType,
    /// Server where the event originated.
    pub server_id: u32,
    /// Size of the whole event in bytes, header and checksum included.
    pub size: u32,
    /// `end_log_pos`: position of the next event, modulo 2^32. 0 in artificial and compressed events.
    pub next_position: u32,
    /// See [`EventFlags`].
    pub flags: EventFlags,
}

impl EventHeader {
    /// Decodes a header. All values are accepted.
    #[inline]
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        Ok(Self::from_bytes(&cursor.array()?))
    }

    /// Decodes a header.
    #[inline]
    const fn from_bytes(bytes: &[u8; HEADER_SIZE]) -> Self {
        let [a, b, c, d, event_type, e, f, g, h, i, j, k, l, m, n, o, p, q, r] = *bytes;
        Self {
            timestamp: u32::from_le_bytes([a, b, c, d]),
            event_type: EventType::from_code(event_type),
            server_id: u32::from_le_bytes([e, f, g, h]),
            size: u32::from_le_bytes([i, j, k, l]),
            next_position: u32::from_le_bytes([m, n, o, p]),
            flags: EventFlags(u16::from_le_bytes([q, r])),
        }
    }

    /// Returns the event's size from the bytes of a header, without decoding the other fields or checking it.
    #[inline]
    pub const fn peek_size(head: &[u8; HEADER_SIZE]) -> u32 {
        u32::from_le_bytes([head[9], head[10], head[11], head[12]])
    }

    /// Returns whether this is the event after which MariaDB has encrypted all events of the file. In a copy that a server
    /// has sent, the event is flagged as ignorable, and no event is encrypted (seen with MariaDB 11.8.9).
    pub fn starts_encryption(&self) -> bool {
        self.event_type == EventType::MariadbStartEncryption && !self.flags.contains(EventFlags::IGNORABLE)
    }

    /// Returns the size of the whole event, if it has at least a header and at most `max` bytes.
    ///
    /// # Errors
    ///
    /// Fails if the size is impossible, or greater than `max`.
    pub fn checked_size(&self, max: u32) -> Result<usize, DecodeError> {
        let (field, found) = ("event size", u64::from(self.size));
        if self.size < HEADER_SIZE as u32 {
            let expected = "19 bytes or more";
            return Err(DecodeError::new(SIZE_OFFSET, DecodeReason::Unexpected { field, found, expected }));
        }
        if self.size > max {
            let max = u64::from(max);
            return Err(DecodeError::new(SIZE_OFFSET, DecodeReason::OutOfRange { field, found, max }));
        }
        Ok(self.size as usize)
    }

    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_SIZE] {
        let mut bytes = [0; HEADER_SIZE];
        bytes[0..4].copy_from_slice(&self.timestamp.to_le_bytes());
        bytes[4] = self.event_type.code();
        bytes[5..9].copy_from_slice(&self.server_id.to_le_bytes());
        bytes[9..13].copy_from_slice(&self.size.to_le_bytes());
        bytes[13..17].copy_from_slice(&self.next_position.to_le_bytes());
        bytes[17..19].copy_from_slice(&self.flags.0.to_le_bytes());
        bytes
    }
}

/// The fields of a header that do not follow from the event's body and position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EventOrigin {
    /// Start time of the statement, in seconds since 1970.
    pub timestamp: u32,
    /// Server where the event originated.
    pub server_id: u32,
    /// See [`EventFlags`].
    pub flags: EventFlags,
}

impl EventHeader {
    /// Returns timestamp, server and flags of the header.
    pub const fn origin(&self) -> EventOrigin {
        EventOrigin { timestamp: self.timestamp, server_id: self.server_id, flags: self.flags }
    }
}

/// The header's sixteen flags. Unknown flags are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct EventFlags(pub u16);

impl EventFlags {
    /// The file is being written, or its server crashed. Only in format descriptions, where the checksum does not
    /// cover it.
    pub const IN_USE: Self = Self(0x0001);
    /// Obsolete.
    pub const FORCED_ROTATE: Self = Self(0x0002);
    /// The statement depends on its connection (temporary tables).
    pub const THREAD_SPECIFIC: Self = Self(0x0004);
    /// The statement needs no `USE`.
    pub const SUPPRESS_USE: Self = Self(0x0008);
    /// Obsolete.
    pub const UPDATE_TABLE_MAP_VERSION: Self = Self(0x0010);
    /// Generated by the sender, not read from its file.
    pub const ARTIFICIAL: Self = Self(0x0020);
    /// Generated by a replica for its relay log.
    pub const RELAY_LOG: Self = Self(0x0040);
    /// Readers that do not support this event type may skip it.
    pub const IGNORABLE: Self = Self(0x0080);
    /// Not subject to replication filters.
    pub const NO_FILTER: Self = Self(0x0100);
    /// Must be applied alone.
    pub const MTS_ISOLATE: Self = Self(0x0200);

    /// Returns true if all of `flags` are set.
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}
