//! Times as in logs: microseconds since 1970.

use std::fmt;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use serde::{Serialize, Serializer};

/// Time in microseconds since 1970. Displayed in UTC in the format of RFC 3339: `2026-11-21T21:13:05.123456Z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LogTime(pub u64);

impl LogTime {
    /// Formats the time in a time zone, to the second: `2026-11-21 21:13:05`. Times beyond the calendar are formatted
    /// in seconds.
    pub fn in_zone(self, zone: &TimeZone) -> String {
        match self.timestamp() {
            Some(timestamp) => timestamp.to_zoned(zone.clone()).strftime("%F %T").to_string(),
            None => format!("@{}", self.0 / 1_000_000),
        }
    }

    fn timestamp(self) -> Option<Timestamp> {
        Timestamp::from_microsecond(i64::try_from(self.0).ok()?).ok()
    }
}

impl fmt::Display for LogTime {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.timestamp() {
            Some(timestamp) => write!(out, "{timestamp:.6}"),
            None => write!(out, "@{}.{:06}", self.0 / 1_000_000, self.0 % 1_000_000),
        }
    }
}

impl Serialize for LogTime {
    fn serialize<S: Serializer>(&self, out: S) -> Result<S::Ok, S::Error> {
        out.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use jiff::tz::{TimeZone, offset};

    use super::LogTime;

    #[test]
    fn times_are_shown_in_microseconds() {
        assert_eq!(LogTime(1_763_759_585_123_400).to_string(), "2025-11-21T21:13:05.123400Z");
        assert_eq!(LogTime(0).to_string(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(LogTime(u64::MAX).to_string(), "@18446744073709.551615");
    }

    #[test]
    fn times_in_a_zone_are_shown_in_seconds() {
        let zone = TimeZone::fixed(offset(2));
        assert_eq!(LogTime(1_763_759_585_123_400).in_zone(&zone), "2025-11-21 23:13:05");
    }
}
