//! Parsers of option values that several commands have.

use std::fmt::Display;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::str::FromStr;

use anyhow::anyhow;
use binlog::ZstdLevel;
use binlog::events::MariadbGtid;
use binlog::gtid::{GtidSet, GtidTextError};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::fmt::temporal::Pieces;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};
use list::RowCondition;
use mysqlbinlog::local_zone;

use crate::exit::CommandFailure;

/// Parses a condition on rows, `COLUMN=VALUE`.
pub(crate) fn parse_row_condition(text: &str) -> Result<RowCondition, String> {
    RowCondition::new(text).map_err(|error| error.to_string())
}

/// Parses a number of at least one.
pub(crate) fn parse_at_least_one(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "expected a whole number, at least 1".to_owned())
}

/// Parses a whole number.
pub(crate) fn parse_number<N: FromStr>(text: &str) -> Result<N, String> {
    text.parse().map_err(|_| "expected a whole number".to_owned())
}

/// Returns a parser of whole numbers in a range.
pub(crate) fn number_within<N>(range: RangeInclusive<N>) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: FromStr + PartialOrd + Display + Clone + Send + Sync + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| format!("expected a whole number from {} to {}", range.start(), range.end()))
    }
}

/// Parses a number of bytes, with or without a unit. A kilobyte has 1000 bytes.
pub(crate) fn parse_size(text: &str) -> Result<u64, String> {
    let refusal = || "expected a size such as 300M: a number with an optional unit k, M or G".to_owned();
    let unit = text.trim_end_matches(|end: char| end.eq_ignore_ascii_case(&'b'));
    let (digits, factor) = match unit.char_indices().next_back() {
        Some((at, 'k' | 'K')) => (&unit[..at], 1000),
        Some((at, 'm' | 'M')) => (&unit[..at], 1_000_000),
        Some((at, 'g' | 'G')) => (&unit[..at], 1_000_000_000),
        _ => (unit, 1),
    };
    let number: u64 = digits.trim().parse().map_err(|_| refusal())?;
    number.checked_mul(factor).ok_or_else(refusal)
}

/// Parses a number of bytes that is not 0, with or without a unit.
pub(crate) fn parse_positive_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err("expected a size of at least one byte, such as 100M".to_owned()),
        size => Ok(size),
    }
}

/// Parses a memory limit of at least 1 MB.
pub(crate) fn parse_memory(text: &str) -> Result<u64, String> {
    const MEMORY_MIN: u64 = 1_000_000;
    match parse_size(text)? {
        size if size < MEMORY_MIN => Err("expected a size of at least 1M, such as 300M".to_owned()),
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

/// Parses a time with a UTC offset or `Z`, otherwise a local time; fractions of a second are allowed. Returns
/// microseconds since 1970. Refuses a local time that a change of the clocks repeats or leaves out.
pub(crate) fn parse_time(text: &str) -> Result<u64, String> {
    parse_time_in(text, &local_zone())
}

/// Error for times outside the range. Excludes the last day, so that the time is valid in every time zone.
const TIME_RANGE: &str = "expected a time from 1970-01-01 to 9999-12-30";

fn parse_time_in(text: &str, zone: &TimeZone) -> Result<u64, String> {
    // A civil time would ignore an offset.
    let time = match (text.parse::<Timestamp>(), text.parse::<DateTime>()) {
        (Ok(time), _) => {
            check_offset(text)?;
            time
        }
        (Err(_), Ok(local)) => local_time(local, zone)?,
        (Err(_), Err(_)) => {
            return Err("expected a time such as 2026-11-22 01:00:00, 2026-11-22 01:00:00Z or \
                        2026-11-22 01:00:00.5+02:00"
                .to_owned());
        }
    };
    u64::try_from(time.as_microsecond()).map_err(|_| TIME_RANGE.to_owned())
}

/// Refuses a UTC offset of more than 14 hours, as MySQL does: a typing error would shift the time by hours.
fn check_offset(text: &str) -> Result<(), String> {
    const OFFSET_MAX_S: i32 = 14 * 3600;
    let offset = Pieces::parse(text).ok().and_then(|pieces| pieces.to_numeric_offset());
    match offset {
        Some(offset) if offset.seconds().abs() > OFFSET_MAX_S => {
            Err("expected an offset from -14:00 to +14:00".to_owned())
        }
        _ => Ok(()),
    }
}

/// Returns the only time that a local time can mean.
fn local_time(local: DateTime, zone: &TimeZone) -> Result<Timestamp, String> {
    let with_offset = |offset: Offset| {
        let (sign, minutes) = (if offset.is_negative() { '-' } else { '+' }, offset.seconds().abs() / 60);
        format!("{}{sign}{:02}:{:02}", local.to_string().replace('T', " "), minutes / 60, minutes % 60)
    };
    match zone.to_ambiguous_timestamp(local).offset() {
        AmbiguousOffset::Unambiguous { offset } => {
            offset.to_timestamp(local).map_err(|_| TIME_RANGE.to_owned())
        }
        AmbiguousOffset::Fold { before, after } => Err(format!(
            "this local time exists twice: write {} or {}",
            with_offset(before),
            with_offset(after)
        )),
        AmbiguousOffset::Gap { before, after } => Err(format!(
            "this local time does not exist, because the clocks change: write {} or {}",
            with_offset(before),
            with_offset(after)
        )),
    }
}

/// Parses a GTID set that selects transactions. Refuses an empty set, which would select none.
pub(crate) fn parse_gtids(text: &str) -> Result<GtidSet, String> {
    match parse_any_gtids(text)? {
        set if set.is_empty() => Err("the GTID set is empty: no transaction is selected".to_owned()),
        set => Ok(set),
    }
}

/// Parses a GTID set, which can be empty: the set of a server's purged transactions often is.
pub(crate) fn parse_any_gtids(text: &str) -> Result<GtidSet, String> {
    text.parse().map_err(|error: GtidTextError| match is_mariadb_gtid(text) {
        true => {
            let refused = "GTIDs of MariaDB cannot be selected: this option accepts only GTIDs of MySQL";
            format!("{refused}. Select by time or log instead")
        }
        false => error.to_string(),
    })
}

/// Returns whether a text starts with a GTID of MariaDB: domain, `server_id` and number.
fn is_mariadb_gtid(text: &str) -> bool {
    text.split(',').next().is_some_and(|first| first.trim().parse::<MariadbGtid>().is_ok())
}

/// Parses an address. Does not look up the host.
pub(crate) fn parse_host_and_port(text: &str) -> Result<String, String> {
    match text.rsplit_once(':') {
        Some((host, port)) if !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0) => {
            Ok(text.to_owned())
        }
        _ => Err("expected HOST:PORT, with a port from 1 to 65535".to_owned()),
    }
}

/// Parses the name of a database. Only `--table` accepts patterns.
pub(crate) fn parse_database(text: &str) -> Result<String, String> {
    match text {
        "" => Err("expected the name of a database".to_owned()),
        _ if text.contains(['*', '?']) => {
            Err(format!("expected the name of a database, not a pattern: use --table '{text}.*'"))
        }
        name => Ok(name.to_owned()),
    }
}

/// Refuses a period that ends before it starts: it contains no transaction. Times are in microseconds since 1970.
pub(crate) fn check_period(start: Option<u64>, stop: Option<u64>) -> Result<(), CommandFailure> {
    match start.zip(stop) {
        Some((start, stop)) if start >= stop => Err(CommandFailure::NotStarted(anyhow!(
            "--start-datetime is not before the stop: no transaction is selected"
        ))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::{
        check_period, parse_any_gtids, parse_database, parse_gtids, parse_memory, parse_size, parse_time,
        parse_time_in,
    };

    #[test]
    fn selections_of_nothing_are_refused() {
        assert!(parse_gtids("").is_err() && parse_gtids(" ").is_err() && parse_any_gtids("").is_ok());
        assert!(parse_gtids("3e11fa47-71ca-11e1-9e33-c80aa9429562:1").is_ok());
        for text in ["0-21-1", "0-21-1,1-21-7"] {
            assert!(parse_any_gtids(text).unwrap_err().starts_with("GTIDs of MariaDB"), "{text}");
        }
        for text in ["0-21", "0-21-1-4", "-1-2", "0--1"] {
            assert!(parse_any_gtids(text).unwrap_err().starts_with("expected a UUID"), "{text}");
        }
        for (start, stop, is_valid) in [
            (Some(1), Some(2), true),
            (Some(2), Some(2), false),
            (Some(2), Some(1), false),
            (Some(2), None, true),
            (None, Some(0), true),
        ] {
            assert_eq!(check_period(start, stop).is_ok(), is_valid, "{start:?} {stop:?}");
        }
    }

    #[test]
    fn databases_are_names() {
        assert_eq!(parse_database("shop%"), Ok("shop%".to_owned()));
        for text in ["", "shop*", "sho?"] {
            assert!(parse_database(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_have_offsets_and_fractions() {
        let check = |text: &str, expected: u64| assert_eq!(parse_time(text), Ok(expected), "{text}");
        check("2026-11-22 01:00:00Z", 1_795_309_200_000_000);
        check("2026-11-22T01:00:00.25Z", 1_795_309_200_250_000);
        check("2026-11-22 03:00:00+02:00", 1_795_309_200_000_000);
        check("2026-11-22 01:00:00.000001+00", 1_795_309_200_000_001);
        for text in ["9999-12-31 23:59:59", "1960-01-01 00:00:00Z"] {
            let error = parse_time(text).unwrap_err();
            assert_eq!(error, "expected a time from 1970-01-01 to 9999-12-30", "{text}");
        }
        for text in ["yesterday", "2026-11-22 25:00:00", "1960-01-01 00:00:00Z", ""] {
            assert!(parse_time(text).is_err(), "{text}");
        }
    }

    #[test]
    fn times_that_the_clocks_repeat_or_leave_out_are_refused() {
        let zone = TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").unwrap();
        let check = |text: &str, expected: Result<u64, &str>| {
            let found = parse_time_in(text, &zone).map(|time| time / 1_000_000);
            assert_eq!(found, expected.map_err(str::to_owned), "{text}");
        };
        check("2026-10-25 01:59:59", Ok(1_792_886_399));
        check(
            "2026-10-25 02:30:00",
            Err("this local time exists twice: write 2026-10-25 02:30:00+02:00 or 2026-10-25 02:30:00+01:00"),
        );
        check("2026-10-25 02:30:00+02:00", Ok(1_792_888_200));
        check("2026-10-25 02:30:00+01:00", Ok(1_792_891_800));
        check("2026-10-25 03:00:00", Ok(1_792_893_600));
        check(
            "2026-03-29 02:30:00",
            Err(
                "this local time does not exist, because the clocks change: write 2026-03-29 02:30:00+01:00 or \
                 2026-03-29 02:30:00+02:00",
            ),
        );
        check("2026-03-29 03:00:00", Ok(1_774_746_000));
        check("2026-11-29 13:57:48+14:00", Ok(1_795_910_268));
        for offset in ["+14:01", "-14:01", "+25:00"] {
            let text = format!("2026-11-29 13:57:48{offset}");
            check(&text, Err("expected an offset from -14:00 to +14:00"));
        }
    }

    #[test]
    fn memory_limits_leave_room() {
        assert_eq!(parse_memory("1M"), Ok(1_000_000));
        for text in ["0", "1", "1k", "999999"] {
            assert_eq!(
                parse_memory(text),
                Err("expected a size of at least 1M, such as 300M".to_owned()),
                "{text}"
            );
        }
    }

    #[test]
    fn sizes_have_units() {
        for (text, expected) in
            [("300M", Some(300_000_000)), ("2G", Some(2_000_000_000)), ("1 kB", Some(1000)), ("7", Some(7))]
        {
            assert_eq!(parse_size(text).ok(), expected, "{text}");
        }
        for text in ["", "M", "-1", "1T", "99999999999G"] {
            assert!(parse_size(text).is_err(), "{text}");
        }
    }
}
