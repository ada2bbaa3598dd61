//! Format descriptions, and what they promise of the events behind them.

use binlog::events::FormatDescription;
use binlog::{Checksum, EventType, Flags, HEADER_SIZE};

use super::fields::Fields;
use crate::reader::ReadError;

/// What a format description promises of the events behind it.
#[derive(Clone, Debug)]
pub(crate) struct LogFormat {
    /// Of the fixed parts of bodies: entry i belongs to event type i + 1.
    fixed_sizes: Vec<u8>,
    /// Of the part in front of each body.
    pub(super) header_size: usize,
    pub(crate) checksum: LogChecksum,
}

/// What a log's events have behind them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogChecksum {
    /// Nothing, in a log from a time before checksums.
    Undefined,
    /// Nothing, but for the format description.
    Off,
    Crc32,
    /// Four bytes of some kind.
    Unknown,
}

impl LogChecksum {
    /// Behind all events but the format description.
    pub(crate) const fn for_events(self) -> Checksum {
        match self {
            Self::Undefined | Self::Off => Checksum::Absent,
            Self::Crc32 | Self::Unknown => Checksum::Crc32,
        }
    }

    /// Behind the format description.
    pub(crate) const fn for_format(self) -> Checksum {
        match self {
            Self::Undefined => Checksum::Absent,
            Self::Off | Self::Crc32 | Self::Unknown => Checksum::Crc32,
        }
    }

    /// Its name, if header lines show it.
    pub(crate) const fn name(self) -> Option<&'static str> {
        match self {
            Self::Undefined | Self::Off => None,
            Self::Crc32 => Some("CRC32"),
            Self::Unknown => Some("?"),
        }
    }
}

impl LogFormat {
    /// What mysqlbinlog 9.7 takes for granted before a format description says otherwise.
    pub(crate) fn at_first() -> Self {
        Self {
            fixed_sizes: vec![
                0, 13, 0, 8, 0, 0, 0, 0, 4, 0, 4, 0, 0, 0, 99, 0, 4, 26, 8, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 10,
                10, 10, 42, 42, 0, 18, 52, 0, 10, 40, 0, 0,
            ],
            header_size: HEADER_SIZE,
            checksum: LogChecksum::Undefined,
        }
    }

    /// The same log's format inside a transaction payload, where events carry no checksum.
    pub(crate) fn inside_payload(&self) -> Self {
        Self { checksum: LogChecksum::Off, ..self.clone() }
    }

    /// Does the description list this type?
    pub(crate) fn lists(&self, event_type: EventType) -> bool {
        // MySQL takes codes from 128 on for negative, and so for too large.
        event_type.code() < 128 && usize::from(event_type.code()) <= self.fixed_sizes.len()
    }

    /// The fixed part of an event's body, in bytes.
    pub(crate) fn fixed_size(&self, event_type: EventType) -> usize {
        let index = usize::from(event_type.code()).wrapping_sub(1);
        self.fixed_sizes.get(index).copied().unwrap_or(0).into()
    }
}

/// Where a format description has the server's version.
const VERSION_AT: usize = HEADER_SIZE + 2;
const VERSION_SIZE: usize = 50;

/// Where it has the size of the part in front of each body.
const HEADER_SIZE_AT: usize = VERSION_AT + VERSION_SIZE + 4;

/// Where an event has its flags.
const FLAGS_AT: usize = 17;

/// The first version with checksums.
const CHECKSUMS_SINCE: [u8; 3] = [5, 6, 1];

/// Reads a format description.
pub(crate) fn describe(bytes: &[u8]) -> Result<(FormatDescription<'_>, LogFormat), ReadError> {
    let header_size = *bytes.get(HEADER_SIZE_AT).ok_or(ReadError::INVALID_FORMAT)?;
    // The byte has a sign here.
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

/// The algorithm stands in front of the checksum at the end, if the server is new enough to have one.
fn checksum_of(bytes: &[u8], header_size: u8) -> LogChecksum {
    let version_at = usize::from(header_size) + 2;
    let Some(version) = bytes.get(version_at..version_at + VERSION_SIZE) else {
        return LogChecksum::Undefined;
    };
    if bytes.len() <= HEADER_SIZE_AT + 1 || numbers_of(version) < CHECKSUMS_SINCE {
        return LogChecksum::Undefined;
    }
    match bytes[bytes.len() - 5] {
        0 => LogChecksum::Off,
        1 => LogChecksum::Crc32,
        _ => LogChecksum::Unknown,
    }
}

/// Is the checksum behind the event that of its bytes? An event that has none fits.
pub(crate) fn checksum_fits(bytes: &[u8], format: &LogFormat) -> bool {
    let is_format = bytes.get(4) == Some(&EventType::FormatDescription.code());
    let checksum = match bytes.get(HEADER_SIZE_AT) {
        Some(header_size) if is_format => checksum_of(bytes, *header_size),
        _ if is_format => LogChecksum::Undefined,
        _ => format.checksum,
    };
    if checksum.for_events() == Checksum::Absent {
        return true;
    }
    let Some((covered, stored)) = bytes.split_last_chunk::<4>() else { return true };
    let mut hasher = crc32fast::Hasher::new();
    match covered.split_at_checked(FLAGS_AT) {
        // Whoever closes a log clears the flag that it is in use, and leaves the checksum.
        Some((front, [flags, behind @ ..])) if is_format => {
            hasher.update(front);
            hasher.update(&[flags & !(Flags::IN_USE.0 as u8)]);
            hasher.update(behind);
        }
        _ => hasher.update(covered),
    }
    hasher.finalize() == u32::from_le_bytes(*stored)
}

fn read(bytes: &[u8], checksum: LogChecksum) -> Option<FormatDescription<'_>> {
    let mut fields = Fields::of(bytes, checksum.for_format())?;
    let binlog_version = fields.u16()?;
    let server_version = fields.array()?;
    let created = fields.u32()?;
    let header_size = fields.u8()?;
    let rest = fields.take_rest();
    let numbers = numbers_of(server_version);
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

/// The three numbers of a version; zeros if it is none.
fn numbers_of(version: &[u8]) -> [u8; 3] {
    let mut numbers = [0; 3];
    // The last byte is a zero, whatever stands there.
    let mut rest = &version[..version.len().saturating_sub(1)];
    for (index, place) in numbers.iter_mut().enumerate() {
        let (number, behind) = leading_number(rest);
        let has_dot = behind.first() == Some(&b'.');
        match number {
            Some(number) if has_dot || index > 0 => *place = number,
            _ => return [0; 3],
        }
        rest = if has_dot { &behind[1..] } else { behind };
    }
    numbers
}

/// As C's strtoul has it, with 0 for no number: `None` if it is larger than a byte.
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
    use super::numbers_of;

    #[test]
    fn versions_are_read_as_far_as_they_are_numbers() {
        for (text, wanted) in [
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
            assert_eq!(numbers_of(&version), wanted, "{text}");
        }
    }
}
