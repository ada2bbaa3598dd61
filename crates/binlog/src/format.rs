//! Format of a log's events, as stated by its format description event.

use crate::event::EventType;
use crate::events::format_description::{has_checksum, version_numbers};
use crate::raw::EventChecksum;

/// Format of a log's events, as stated by its format description event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventFormat {
    /// Version as written, without the padding: `9.7.4`, `10.11.6-MariaDB-log`.
    pub server_version: Vec<u8>,
    /// Sizes of the fixed part of each event body: entry i belongs to event type i + 1.
    pub post_header_sizes: Vec<u8>,
    /// Checksum algorithm of the events.
    pub checksum: ChecksumAlgorithm,
    /// Server family that defines the event types.
    pub flavour: Flavour,
}

/// Server family that defines the event types of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum Flavour {
    /// MySQL and servers derived from it.
    MySql,
    /// MariaDB, recognized by its server version.
    MariaDb,
}

/// Checksum algorithm of a log, one byte in its format description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize), serde(rename_all = "snake_case"))]
pub enum ChecksumAlgorithm {
    /// 0: none.
    Off,
    /// 1: CRC32 after each event.
    Crc32,
    /// 255, or a server before 5.6.1: none.
    Undefined,
}

impl ChecksumAlgorithm {
    /// Returns the checksum of all events except the format description.
    pub const fn for_events(self) -> EventChecksum {
        match self {
            Self::Crc32 => EventChecksum::Crc32,
            Self::Off | Self::Undefined => EventChecksum::Absent,
        }
    }
}

/// Number of event types in a format description of MySQL 5.1 and 5.5.
const TYPES_OF_5_5: usize = 27;

/// Post-header sizes of the types that MySQL 5.6 added, up to version 2 rows events: Ignorable, Rows_query,
/// Write_rows, Update_rows, Delete_rows.
const SIZES_SINCE_5_6: [u8; 5] = [0, 0, 10, 10, 10];

impl EventFormat {
    /// Returns the size in bytes of the fixed part of an event's body; `None` for a type that the description does
    /// not list.
    pub fn post_header_size(&self, event_type: EventType) -> Option<u8> {
        let index = usize::from(event_type.code()).checked_sub(1)?;
        self.post_header_sizes.get(index).copied()
    }

    /// Returns this format for events inside a transaction payload, which have no checksum.
    #[must_use]
    pub fn inside_payload(&self) -> Self {
        Self { checksum: ChecksumAlgorithm::Off, ..self.clone() }
    }

    /// Returns this format with version 2 rows events, which servers before MySQL 5.6 do not list.
    #[must_use]
    pub fn with_rows_v2(&self) -> Self {
        let mut format = self.clone();
        // No server since 5.1 lists fewer types.
        if let Some(listed) = format.post_header_sizes.len().checked_sub(TYPES_OF_5_5) {
            format.post_header_sizes.extend(SIZES_SINCE_5_6.iter().skip(listed));
        }
        format
    }

    /// Returns true if the log's table maps list the hidden columns of functional indexes. These follow the other
    /// columns, and row images have no values for them. MySQL 8.0.15 lists them, 8.0.33 does not.
    pub fn shows_hidden_columns(&self) -> bool {
        const FUNCTIONAL_INDEXES_SINCE: (u32, u32, u32) = (8, 0, 13);
        const LEFT_OUT_SINCE: (u32, u32, u32) = (8, 0, 33);
        let version = self.version_numbers();
        self.flavour == Flavour::MySql && (FUNCTIONAL_INDEXES_SINCE..LEFT_OUT_SINCE).contains(&version)
    }

    /// Returns true if the server writes `TIME`, `DATETIME` and `TIMESTAMP` in the formats used before MySQL 5.6.4.
    /// MySQL 9.7 rejects them in rows events (error 1610).
    pub fn has_old_temporals(&self) -> bool {
        self.flavour == Flavour::MySql && self.version_numbers() < (5, 6, 4)
    }

    /// Returns the version of the server that wrote the log, such as 8, 0, 43.
    pub fn version_numbers(&self) -> (u32, u32, u32) {
        version_numbers(&self.server_version)
    }

    /// Returns true if format descriptions of this server version state the checksum algorithm.
    pub fn has_checksum_byte(&self) -> bool {
        has_checksum(&self.server_version)
    }
}

#[cfg(test)]
mod tests {
    use super::{ChecksumAlgorithm, EventFormat, Flavour};

    #[test]
    fn servers_with_old_temporals() {
        let check = |version: &str, flavour, expected| {
            let (server_version, checksum) = (version.as_bytes().to_vec(), ChecksumAlgorithm::Off);
            let format = EventFormat { server_version, post_header_sizes: Vec::new(), checksum, flavour };
            assert_eq!(format.has_old_temporals(), expected, "{version}");
        };
        check("5.5.34-log", Flavour::MySql, true);
        check("5.6.4-m7", Flavour::MySql, false);
        check("9.7.4", Flavour::MySql, false);
        check("5.5.68-MariaDB", Flavour::MariaDb, false);
    }

    #[test]
    fn servers_that_show_hidden_columns() {
        let check = |version: &str, flavour, expected| {
            let (server_version, checksum) = (version.as_bytes().to_vec(), ChecksumAlgorithm::Crc32);
            let format = EventFormat { server_version, post_header_sizes: Vec::new(), checksum, flavour };
            assert_eq!(format.shows_hidden_columns(), expected, "{version}");
        };
        check("8.0.12", Flavour::MySql, false);
        check("8.0.15-log", Flavour::MySql, true);
        check("8.0.33", Flavour::MySql, false);
        check("9.7.4", Flavour::MySql, false);
        check("10.11.6-MariaDB", Flavour::MariaDb, false);
    }

    #[test]
    fn old_formats_get_row_events_of_version_2() {
        let check = |listed: usize, expected: &[u8]| {
            let sizes = (0..listed).map(|number| number as u8 + 100).collect();
            let (server_version, checksum) = (b"5.5.34-log".to_vec(), ChecksumAlgorithm::Undefined);
            let format =
                EventFormat { server_version, post_header_sizes: sizes, checksum, flavour: Flavour::MySql };
            assert_eq!(&format.with_rows_v2().post_header_sizes[listed..], expected, "{listed} types");
        };
        check(27, &[0, 0, 10, 10, 10]);
        check(28, &[0, 10, 10, 10]);
        check(32, &[]);
        check(42, &[]);
        check(0, &[]);
    }
}
