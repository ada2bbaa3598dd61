//! The nineteen bytes in front of every event.

use crate::cursor::Cursor;
use crate::error::DecodeError;
use crate::event::EventType;

/// Bytes in a header.
pub const HEADER_SIZE: usize = 19;

/// The nineteen bytes in front of every event.
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
pub struct Header {
    /// When the statement started, in seconds since 1970.
    pub timestamp: u32,
    /// What the body holds.
    pub event_type: EventType,
    /// The server that made the event first.
    pub server_id: u32,
    /// The whole event, header and checksum included, in bytes.
    pub size: u32,
    /// `end_log_pos`: where the next event starts, modulo 2^32. 0 in made-up and compressed events.
    pub next_position: u32,
    /// See [`Flags`].
    pub flags: Flags,
}

impl Header {
    /// Reads the nineteen bytes; any values pass.
    #[inline]
    pub fn decode(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        Ok(Self::from_bytes(&cursor.array()?))
    }

    /// Any nineteen bytes.
    #[inline]
    const fn from_bytes(bytes: &[u8; HEADER_SIZE]) -> Self {
        let [a, b, c, d, event_type, e, f, g, h, i, j, k, l, m, n, o, p, q, r] = *bytes;
        Self {
            timestamp: u32::from_le_bytes([a, b, c, d]),
            event_type: EventType::from_code(event_type),
            server_id: u32::from_le_bytes([e, f, g, h]),
            size: u32::from_le_bytes([i, j, k, l]),
            next_position: u32::from_le_bytes([m, n, o, p]),
            flags: Flags(u16::from_le_bytes([q, r])),
        }
    }

    /// The nineteen bytes.
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

/// Who made an event, when, and how it is marked: what its header says beside what follows from the body and from
/// its place in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Origin {
    /// When the statement started, in seconds since 1970.
    pub timestamp: u32,
    /// The server that made the event first.
    pub server_id: u32,
    /// See [`Flags`].
    pub flags: Flags,
}

impl Header {
    /// Who made the event, when, and how it is marked.
    pub const fn origin(&self) -> Origin {
        Origin { timestamp: self.timestamp, server_id: self.server_id, flags: self.flags }
    }
}

/// The header's sixteen flags. Unknown ones are kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Flags(pub u16);

impl Flags {
    /// The file is being written, or its server crashed. Only in a format description, and outside its checksum.
    pub const IN_USE: Self = Self(0x0001);
    /// Obsolete.
    pub const FORCED_ROTATE: Self = Self(0x0002);
    /// The statement depends on its connection (temporary tables).
    pub const THREAD_SPECIFIC: Self = Self(0x0004);
    /// The statement needs no `USE`.
    pub const SUPPRESS_USE: Self = Self(0x0008);
    /// Obsolete.
    pub const UPDATE_TABLE_MAP_VERSION: Self = Self(0x0010);
    /// Made up by the sender, not read from its file.
    pub const ARTIFICIAL: Self = Self(0x0020);
    /// Made by a replica for its relay log.
    pub const RELAY_LOG: Self = Self(0x0040);
    /// Who does not know this event type may pass over it.
    pub const IGNORABLE: Self = Self(0x0080);
    /// Not subject to replication filters.
    pub const NO_FILTER: Self = Self(0x0100);
    /// Must be applied alone.
    pub const MTS_ISOLATE: Self = Self(0x0200);

    /// Are all of `flags` set?
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }
}
