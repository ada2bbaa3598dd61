//! Parsers of option values that several commands have.

use std::num::NonZeroUsize;

use binlog::ZstdLevel;
use binlog::gtid::{GtidSet, GtidTextError};
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

/// Parses a number of at least one.
pub(crate) fn parse_at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a whole number, at least 1".to_owned())
}

/// Parses a whole number.
pub(crate) fn parse_number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "expected a whole number".to_owned())
}

/// Parses a number of bytes, with or without a unit. A kilobyte has 1000 bytes.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let wanted = || "expected a size such as 300M: a number with an optional unit k, M or G".to_owned();
    let unit = text.trim_end_matches(|end: char| end.eq_ignore_ascii_case(&'b'));
    let (digits, factor) = match unit.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&unit[..at], 1000),
        Some((at, 'm' | 'M')) => (&unit[..at], 1_000_000),
        Some((at, 'g' | 'G')) => (&unit[..at], 1_000_000_000),
        _ => (unit, 1),
    };
    let number: u64 = digits.trim().parse().map_err(|_| wanted())?;
    number.checked_mul(factor).ok_or_else(wanted)
}

/// Parses a number of bytes that is not 0, with or without a unit.
pub(crate) fn parse_positive_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("expected a size of at least one byte, such as 100M".to_owned()),
        size => Ok(size),
    }
}

/// Parses a zstd level.
pub(crate) fn parse_level(text: &str) -> Result<ZstdLevel, String> {
    text.trim()
        .parse()
        .ok()
        .and_then(ZstdLevel::new)
        .ok_or_else(|| "expected a level from 1 to 22".to_owned())
}

/// Parses a local time. Returns microseconds since 1970.
pub(crate) fn parse_local_time(text: &str) -> Result<u64, String> {
    let zoned = text.parse::<DateTime>().and_then(|time| time.to_zoned(TimeZone::system()));
    let time = zoned.map_err(|_| "expected a time such as 2026-11-22 01:00:00".to_owned())?;
    u64::try_from(time.timestamp().as_microsecond()).map_err(|_| "expected a time after 1970".to_owned())
}

/// Parses a GTID set.
pub(crate) fn parse_gtids(text: &str) -> Result<GtidSet, String> {
    text.parse().map_err(|error: GtidTextError| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::parse_size;

    #[test]
    fn sizes_have_units() {
        for (text, wanted) in
            [("300M", Some(300_000_000)), ("2G", Some(2_000_000_000)), ("1 kB", Some(1000)), ("7", Some(7))]
        {
            assert_eq!(parse_size(text).ok(), wanted, "{text}");
        }
        for text in ["", "M", "-1", "1T", "99999999999G"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
