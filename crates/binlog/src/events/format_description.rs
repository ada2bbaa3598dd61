//! Format description: the first event of every log.

use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeReason, EncodeError, check_size};
use crate::event::{BodyContext, EventBody};
use crate::format::{ChecksumAlgorithm, EventFormat, Flavour};
use crate::header::HEADER_SIZE;
use crate::raw::EventChecksum;

/// Format description: the first event of every log, with the server's version and the format of the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct FormatDescription<'a> {
    /// Version of the format: 4 for all logs since MySQL 5.0.
    pub binlog_version: u16,
    /// Version of the server: fifty bytes, zero-padded.
    #[cfg_attr(feature = "serde", serde(serialize_with = "crate::serial::padded_text"))]
    pub server_version: &'a [u8; SERVER_VERSION_SIZE],
    /// Start time of the server, in seconds since 1970, in the first log after the start; otherwise 0.
    pub created: u32,
    /// Size of an event's header in bytes: 19.
    pub header_size: u8,
    /// Sizes of the fixed part of each event body: entry i belongs to event type i + 1.
    pub post_header_sizes: &'a [u8],
    /// Number of the checksum algorithm; absent before MySQL 5.6.1.
    pub checksum_algorithm: Option<u8>,
}

/// Size of the fields before the post-header sizes.
const FIXED_SIZE: usize = 2 + SERVER_VERSION_SIZE + 4 + 1;
const SERVER_VERSION_SIZE: usize = 50;

/// Maximum number of event types of a server without checksums.
const TYPES_WITHOUT_CHECKSUMS: usize = 40;

/// First version of MySQL with checksums.
const CHECKSUMS_SINCE: (u32, u32, u32) = (5, 6, 1);

/// First version of MariaDB with checksums.
const MARIADB_CHECKSUMS_SINCE: (u32, u32, u32) = (5, 3, 0);

// size  field
//    2  binlog_version
//   50  server_version
//    4  created
//    1  header_size
//    *  post_header_sizes
//  0-1  checksum_algorithm
impl<'a> FormatDescription<'a> {
    pub(crate) fn decode_body(body: &'a [u8]) -> Result<Self, DecodeError> {
        let mut cursor = Cursor::at(body, HEADER_SIZE);
        let binlog_version = cursor.u16()?;
        let server_version = cursor.array_ref()?;
        let created = cursor.u32()?;
        let header_size = cursor.u8()?;
        let rest = cursor.rest();
        let (post_header_sizes, checksum_algorithm) = match rest.split_last() {
            _ if !has_checksum(server_version) => (rest, None),
            Some((algorithm, sizes)) => (sizes, Some(*algorithm)),
            None => return Err(cursor.error(DecodeReason::Short { expected: 1, found: 0 })),
        };
        Ok(Self {
            binlog_version,
            server_version,
            created,
            header_size,
            post_header_sizes,
            checksum_algorithm,
        })
    }

    /// Returns the server's version without the padding.
    pub fn version(&self) -> &'a [u8] {
        version_text(self.server_version)
    }

    /// Returns the checksum of this event. Since MySQL 5.6.1 this is always CRC32, even if other events have none.
    pub const fn checksum(&self) -> EventChecksum {
        match self.checksum_algorithm {
            Some(_) => EventChecksum::Crc32,
            None => EventChecksum::Absent,
        }
    }

    /// Returns the checksum of the format description in `bytes`, which is not decoded yet.
    pub(crate) fn checksum_in(bytes: &[u8]) -> EventChecksum {
        let version = bytes.get(HEADER_SIZE + 2..HEADER_SIZE + 2 + SERVER_VERSION_SIZE);
        match version {
            Some(version) if has_checksum(version) && bytes.len() > HEADER_SIZE + FIXED_SIZE + 4 => {
                EventChecksum::Crc32
            }
            _ => EventChecksum::Absent,
        }
    }

    /// Returns the format of the events after this one.
    ///
    /// # Errors
    ///
    /// Fails if the binary log version is not 4, if the header size is not 19, or if the checksum algorithm is
    /// unknown.
    pub fn format(&self) -> Result<EventFormat, DecodeError> {
        if self.binlog_version != 4 {
            let (field, found) = ("binary log version", u64::from(self.binlog_version));
            return Err(DecodeError::new(
                HEADER_SIZE,
                DecodeReason::Unexpected { field, found, expected: "4" },
            ));
        }
        if usize::from(self.header_size) != HEADER_SIZE {
            let (field, found) = ("header size", u64::from(self.header_size));
            let offset = HEADER_SIZE + FIXED_SIZE - 1;
            return Err(DecodeError::new(offset, DecodeReason::Unexpected { field, found, expected: "19" }));
        }
        let types = self.post_header_sizes.len();
        if self.checksum_algorithm.is_none() && types > TYPES_WITHOUT_CHECKSUMS {
            // The version must be corrupt. With it, a reader would take checksums for parts of the events.
            let (field, found) = ("number of event types", types as u64);
            let expected = "at most 40, because servers of this version write no checksums";
            let offset = HEADER_SIZE + FIXED_SIZE;
            return Err(DecodeError::new(offset, DecodeReason::Unexpected { field, found, expected }));
        }
        let checksum = match self.checksum_algorithm {
            Some(0) => ChecksumAlgorithm::Off,
            Some(1) => ChecksumAlgorithm::Crc32,
            Some(255) | None => ChecksumAlgorithm::Undefined,
            Some(code) => {
                let (field, found) = ("checksum algorithm", u64::from(code));
                let offset = HEADER_SIZE + FIXED_SIZE + self.post_header_sizes.len();
                return Err(DecodeError::new(
                    offset,
                    DecodeReason::Unexpected { field, found, expected: "0, 1 or 255" },
                ));
            }
        };
        let server_version = self.version().to_vec();
        let flavour = match is_mariadb(&server_version) {
            true => Flavour::MariaDb,
            false => Flavour::MySql,
        };
        Ok(EventFormat {
            server_version,
            post_header_sizes: self.post_header_sizes.to_vec(),
            checksum,
            flavour,
        })
    }
}

impl<'a> EventBody<'a> for FormatDescription<'a> {
    fn decode(cursor: &mut Cursor<'a>, _: BodyContext<'_>) -> Result<Self, DecodeError> {
        Self::decode_body(cursor.take_rest())
    }

    fn encode(&self, _: BodyContext<'_>, out: &mut Vec<u8>) -> Result<(), EncodeError> {
        match self.checksum_algorithm {
            None if has_checksum(self.server_version) => {
                let (field, next) = ("checksum_algorithm", "the end of the event since server version 5.6.1");
                return Err(EncodeError::Missing { field, next });
            }
            Some(_) if !has_checksum(self.server_version) => check_size("checksum_algorithm", 1, 0)?,
            _ => {}
        }
        out.extend_from_slice(&self.binlog_version.to_le_bytes());
        out.extend_from_slice(self.server_version);
        out.extend_from_slice(&self.created.to_le_bytes());
        out.push(self.header_size);
        out.extend_from_slice(self.post_header_sizes);
        out.extend(self.checksum_algorithm);
        Ok(())
    }
}

fn version_text(padded: &[u8]) -> &[u8] {
    let end = padded.iter().position(|byte| *byte == 0).unwrap_or(padded.len());
    &padded[..end]
}

pub(crate) fn has_checksum(server_version: &[u8]) -> bool {
    let since = if is_mariadb(server_version) { MARIADB_CHECKSUMS_SINCE } else { CHECKSUMS_SINCE };
    version_numbers(server_version) >= since
}

/// Returns the three numbers of a version; missing ones are 0.
pub(crate) fn version_numbers(server_version: &[u8]) -> (u32, u32, u32) {
    let mut parts = version_text(server_version).splitn(3, |byte| *byte == b'.').map(leading_number);
    let mut part = || parts.next().unwrap_or(0);
    (part(), part(), part())
}

fn is_mariadb(server_version: &[u8]) -> bool {
    server_version.windows(7).any(|part| part.eq_ignore_ascii_case(b"mariadb"))
}

fn leading_number(text: &[u8]) -> u32 {
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit());
    digits.fold(0, |number: u32, digit| number.saturating_mul(10).saturating_add(u32::from(digit - b'0')))
}
