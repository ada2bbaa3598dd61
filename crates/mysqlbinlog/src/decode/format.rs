//! Format descriptions, and the format that they declare for the events after them.

use binlog::events::FormatDescription;
use binlog::{EventChecksum, EventFlags, EventType, HEADER_SIZE};

use super::event_cursor::EventCursor;
use crate::read_error::ReadError;

/// The format that a format description declares for the events after it.
#[derive(Clone, Debug)]
pub(crate) struct LogFormat {
    /// Sizes of the fixed parts of event bodies: entry i belongs to event type i + 1.
    fixed_sizes: Vec<u8>,
    /// Size of the common header, in bytes.
    pub(super) header_size: usize,
    pub(crate) checksum: LogChecksum,
}

/// The checksum of a log's events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogChecksum {
    /// None: the log was written before checksums existed.
    Undefined,
    /// None, except for the format description.
    Off,
    Crc32,
    /// Four bytes of an unknown algorithm.
    Unknown,
}

impl LogChecksum {
    /// Returns the checksum of all events except the format description.
    pub(crate) const fn for_events(self) -> EventChecksum {
        match self {
            Self::Undefined | Self::Off => EventChecksum::Absent,
            Self::Crc32 | Self::Unknown => EventChecksum::Crc32,
        }
    }

    /// Returns the checksum of the format description.
    pub(crate) const fn for_format(self) -> EventChecksum {
        match self {
            Self::Undefined => EventChecksum::Absent,
            Self::Off | Self::Crc32 | Self::Unknown => EventChecksum::Crc32,
        }
    }

    /// Returns the name in header lines, if they show one.
    pub(crate) const fn name(self) -> Option<&'static str> {
        match self {
            Self::Undefined | Self::Off => None,
            Self::Crc32 => Some("CRC32"),
            Self::Unknown => Some("?"),
        }
    }
}

impl LogFormat {
    /// Returns the format that mysqlbinlog 9.7 assumes before the first format description.
    pub(crate) fn initial() -> Self {
        Self {
            fixed_sizes: vec![
                0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 99, 0, 4, 26, 8, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 10,
                10, 10, 42, 42, 0, 18, 52, 0, 10, 40, 0, 0,
            ],
            header_size: HEADER_SIZE,
            checksum: LogChecksum::Undefined,
        }
    }

    /// Returns the same log's format inside a transaction payload, where events have no checksum.
    pub(crate) fn inside_payload(&self) -> Self {
        Self { checksum: LogChecksum::Off, ..self.clone() }
    }

    /// Returns whether the description lists this event type.
    pub(crate) fn has_type(&self, event_type: EventType) -> bool {
        // MySQL reads the code as a signed byte, so codes from 128 on are invalid.
        event_type.code() < 128 && usize::from(event_type.code()) <= self.fixed_sizes.len()
    }

    /// Returns the size of the fixed part of the type's body, in bytes.
    pub(crate) fn fixed_size(&self, event_type: EventType) -> usize {
        let index = usize::from(event_type.code()).wrapping_sub(1);
        self.fixed_sizes.get(index).copied().unwrap_or(0).into()
    }
}

/// Offset of the server's version in a format description.
const VERSION_OFFSET: usize = HEADER_SIZE + 2;
const VERSION_SIZE: usize = 50;

/// Offset of the size of the common header.
const HEADER_SIZE_OFFSET: usize = VERSION_OFFSET + VERSION_SIZE + 4;

/// Offset of the flags in an event's header.
const FLAGS_OFFSET: usize = 17;

/// First server version that writes checksums.
const CHECKSUMS_SINCE: [u8; 3] = [5, 6, 1];

/// Decodes a format description.
pub(crate) fn read_format(bytes: &[u8]) -> Result<(FormatDescription<'_>, LogFormat), ReadError> {
    let header_size = *bytes.get(HEADER_SIZE_OFFSET).ok_or(ReadError::INVALID_FORMAT)?;
    // mysqlbinlog reads the byte as signed.
    let version_end = i32::from(header_size.cast_signed()) + 2 + VERSION_SIZE as i32;
    if usize::try_from(version_end).is_ok_and(|end| bytes.len() < end) || version_end < 0 {
        return Err(ReadError::INVALID_FORMAT);
    }
    let checksum = checksum_of(bytes, header_size);
    let description = read(bytes, checksum).ok_or(ReadError::INVALID_EVENT)?;
    let format = LogFormat {
        fixed_sizes: description.post_header_sizes.to_vec(),
        header_size: header_size.into(),
        checksum,
    };
    Ok((description, format))
}

/// Returns the checksum algorithm. It is the byte before the checksum, if the server version has checksums.
fn checksum_of(bytes: &[u8], header_size: u8) -> LogChecksum {
    let version_at = usize::from(header_size) + 2;
    let Some(version) = bytes.get(version_at..version_at + VERSION_SIZE) else {
        return LogChecksum::Undefined;
    };
    if bytes.len() <= HEADER_SIZE_OFFSET + 1 || version_numbers(version) < CHECKSUMS_SINCE {
        return LogChecksum::Undefined;
    }
    match bytes[bytes.len() - 5] {
        0 => LogChecksum::Off,
        1 => LogChecksum::Crc32,
        _ => LogChecksum::Unknown,
    }
}

/// Returns whether the event's checksum is correct. An event without a checksum passes.
pub(crate) fn checksum_matches(bytes: &[u8], format: &LogFormat) -> bool {
    let is_format = bytes.get(4) == Some(&EventType::FormatDescription.code());
    let checksum = match bytes.get(HEADER_SIZE_OFFSET) {
        Some(header_size) if is_format => checksum_of(bytes, *header_size),
        _ if is_format => LogChecksum::Undefined,
        _ => format.checksum,
    };
    if checksum.for_events() == EventChecksum::Absent {
        return true;
    }
    let Some((covered, stored)) = bytes.split_last_chunk::<4>() else { return true };
    let mut hasher = crc32fast::Hasher::new();
    match covered.split_at_checked(FLAGS_OFFSET) {
        // The checksum counts IN_USE as clear: a server that closes a log clears the flag in place.
        Some((front, [flags, after @ ..])) if is_format => {
            hasher.update(front);
            hasher.update(&[flags & !(EventFlags::IN_USE.0 as u8)]);
            hasher.update(after);
        }
        _ => hasher.update(covered),
    }
    hasher.finalize() == u32::from_le_bytes(*stored)
}

fn read(bytes: &[u8], checksum: LogChecksum) -> Option<FormatDescription<'_>> {
    let mut fields = EventCursor::of_event(bytes, checksum.for_format())?;
    let binlog_version = fields.u16()?;
    let server_version = fields.array()?;
    let created = fields.u32()?;
    let header_size = fields.u8()?;
    let rest = fields.take_rest();
    let numbers = version_numbers(server_version);
    let (post_header_sizes, checksum_algorithm) = match rest.split_last() {
        Some((algorithm, sizes)) if numbers >= CHECKSUMS_SINCE => (sizes, Some(*algorithm)),
        _ => (rest, None),
    };
    if usize::from(header_size) < HEADER_SIZE || post_header_sizes.is_empty() || numbers == [0; 3] {
        return None;
    }
    Some(FormatDescription {
        binlog_version,
        server_version,
        created,
        header_size,
        post_header_sizes,
        checksum_algorithm,
    })
}

/// Returns the three numbers of a version; zeros if it is invalid.
fn version_numbers(version: &[u8]) -> [u8; 3] {
    let mut numbers = [0; 3];
    // The last byte is always taken for the terminating zero.
    let mut rest = &version[..version.len().saturating_sub(1)];
    for (index, slot) in numbers.iter_mut().enumerate() {
        let (number, after) = leading_number(rest);
        let has_dot = after.first() == Some(&b'.');
        match number {
            Some(number) if has_dot || index > 0 => *slot = number,
            _ => return [0; 3],
        }
        rest = if has_dot { &after[1..] } else { after };
    }
    numbers
}

/// Parses a number as C's `strtoul` does: 0 without digits, `None` if it exceeds a byte.
fn leading_number(text: &[u8]) -> (Option<u8>, &[u8]) {
    let blanks = text.iter().take_while(|byte| matches!(byte, b' ' | b'\t'..=b'\r')).count();
    let unsigned = match &text[blanks..] {
        [b'+', rest @ ..] => rest,
        rest => rest,
    };
    let (is_negative, digits) = match &text[blanks..] {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, unsigned),
    };
    let count = digits.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if count == 0 {
        return (Some(0), text);
    }
    let number = digits[..count]
        .iter()
        .try_fold(0_u8, |number, digit| number.checked_mul(10)?.checked_add(digit - b'0'));
    (number.filter(|number| !is_negative || *number == 0), &digits[count..])
}

#[cfg(test)]
mod tests {
    use super::version_numbers;

    #[test]
    fn versions_are_read_as_far_as_they_are_numbers() {
        for (text, expected) in [
            ("9.7.4-2", [9, 7, 4]),
            ("5.6", [5, 6, 0]),
            ("10.11.6-MariaDB", [10, 11, 6]),
            ("8..1", [8, 0, 1]),
            (" 8.+4.1", [8, 4, 1]),
            ("8.0.256", [0, 0, 0]),
            ("8-0.1", [0, 0, 0]),
            ("8.-1.1", [0, 0, 0]),
            ("8", [0, 0, 0]),
            ("", [0, 0, 0]),
        ] {
            let mut version = [0; 50];
            version[..text.len()].copy_from_slice(text.as_bytes());
            assert_eq!(version_numbers(&version), expected, "{text}");
        }
    }
}
