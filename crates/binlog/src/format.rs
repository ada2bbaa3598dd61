//! What a format description promises of the events behind it.

use crate::event::EventType;
use crate::raw::Checksum;

/// What a format description promises of the events behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Format {
    /// As written, without the padding: `9.7.4`, `10.11.6-MariaDB-log`.
    pub server_version: Vec<u8>,
    /// Of the bytes in front of each body: entry i belongs to event type i + 1.
    pub post_header_sizes: Vec<u8>,
    /// Whether events carry one.
    pub checksum: ChecksumAlgorithm,
    /// Whose event types these are.
    pub flavour: Flavour,
}

/// Whose event types a log holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Flavour {
    /// MySQL and its close relatives.
    MySql,
    /// MariaDB, by its server version.
    MariaDb,
}

/// The checksum algorithm byte of a format description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum ChecksumAlgorithm {
    /// 0: none.
    Off,
    /// 1: CRC32 behind each event.
    Crc32,
    /// 255, or a server before 5.6.1: none.
    Undefined,
}

impl ChecksumAlgorithm {
    /// What follows each event's body, the format description itself apart.
    pub const fn for_events(self) -> Checksum {
        match self {
            Self::Crc32 => Checksum::Crc32,
            Self::Off | Self::Undefined => Checksum::Absent,
        }
    }
}

impl Format {
    /// The fixed part of an event's body, in bytes; `None` for a type that the description does not list.
    pub fn post_header_size(&self, event_type: EventType) -> Option<u8> {
        let index = usize::from(event_type.code()).checked_sub(1)?;
        self.post_header_sizes.get(index).copied()
    }

    /// The same log's format inside a transaction payload, where events carry no checksum.
    #[must_use]
    pub fn inside_payload(&self) -> Self {
        Self { checksum: ChecksumAlgorithm::Off, ..self.clone() }
    }
}
