//! Times of events in the local time zone.

use std::env;
use std::fs;
use std::path::Path;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use sql::numbers::{put_four, put_two, put_u64};

/// Directory of the system's time zones.
const ZONES: &str = "/usr/share/zoneinfo";
/// Rule for daylight saving time of the C library, for a time zone that has such a time, but no rule: that of the USA.
const DEFAULT_RULE: &str = ",M3.2.0,M11.1.0";

/// Returns the time zone of the environment, as the C library finds it; UTC if there is none.
pub fn local_zone() -> TimeZone {
    let zone = TimeZone::system();
    if !zone.is_unknown() {
        return zone;
    }
    env::var("TZ").ok().and_then(|name| find_zone(&name)).unwrap_or(TimeZone::UTC)
}

/// Returns a time zone that is known to the C library, but not to jiff: in a directory of its own, such as
/// `posix/Europe/Berlin`, or without a rule, such as `AEST-10AEDT`.
fn find_zone(name: &str) -> Option<TimeZone> {
    let name = name.strip_prefix(':').unwrap_or(name);
    match fs::read(Path::new(ZONES).join(name)) {
        Ok(bytes) => TimeZone::tzif(name, &bytes).ok(),
        Err(_) => TimeZone::posix(&format!("{name}{DEFAULT_RULE}")).ok(),
    }
}

/// Writes times, and caches the last one, because most events have the time of the one before.
pub(crate) struct LocalTime {
    zone: TimeZone,
    short_second: Option<u32>,
    short: Vec<u8>,
    long_second: Option<u64>,
    long: Vec<u8>,
    zone_name: Vec<u8>,
}

impl LocalTime {
    pub(crate) fn new(zone: TimeZone) -> Self {
        let empty = Vec::new;
        Self {
            zone,
            short_second: None,
            short: empty(),
            long_second: None,
            long: empty(),
            zone_name: empty(),
        }
    }

    /// Appends `YYMMDD HH:MM:SS`, the hour without its leading zero.
    pub(crate) fn put_short(&mut self, out: &mut Vec<u8>, second: u32) {
        if self.short_second != Some(second) {
            self.short.clear();
            let at = self.zone.to_datetime(timestamp(u64::from(second)));
            let digits = |value: i8| value.unsigned_abs().into();
            put_two(&mut self.short, at.year().unsigned_abs().into());
            put_two(&mut self.short, digits(at.month()));
            put_two(&mut self.short, digits(at.day()));
            self.short.push(b' ');
            if at.hour() < 10 {
                self.short.push(b' ');
            }
            put_u64(&mut self.short, at.hour().unsigned_abs().into());
            for part in [at.minute(), at.second()] {
                self.short.push(b':');
                put_two(&mut self.short, digits(part));
            }
            self.short_second = Some(second);
        }
        out.extend_from_slice(&self.short);
    }

    /// Appends `YYYY-MM-DD HH:MM:SS.ffffff ZONE`.
    pub(crate) fn put_long(&mut self, out: &mut Vec<u8>, microsecond: u64) {
        let second = microsecond / 1_000_000;
        if self.long_second != Some(second) {
            self.set_long(second);
        }
        let fraction = (microsecond % 1_000_000) as u32;
        out.extend_from_slice(&self.long);
        put_two(out, fraction / 10_000);
        put_four(out, fraction % 10_000);
        out.push(b' ');
        out.extend_from_slice(&self.zone_name);
    }

    fn set_long(&mut self, second: u64) {
        self.long.clear();
        let at = timestamp(second);
        let info = self.zone.to_offset_info(at);
        let civil = info.offset().to_datetime(at);
        let digits = |value: i8| value.unsigned_abs().into();
        put_four(&mut self.long, civil.year().unsigned_abs().into());
        for (separator, part) in [
            (b'-', civil.month()),
            (b'-', civil.day()),
            (b' ', civil.hour()),
            (b':', civil.minute()),
            (b':', civil.second()),
        ] {
            self.long.push(separator);
            put_two(&mut self.long, digits(part));
        }
        self.long.push(b'.');
        self.zone_name.clear();
        self.zone_name.extend_from_slice(info.abbreviation().as_bytes());
        self.long_second = Some(second);
    }
}

fn timestamp(second: u64) -> Timestamp {
    Timestamp::from_second(second.cast_signed()).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::{LocalTime, find_zone};

    #[test]
    fn zones_of_the_c_library_are_found() {
        let check = |name: &str, expected: Option<&str>| {
            let zone = find_zone(name);
            let at = jiff::Timestamp::from_second(1_593_600_000).unwrap();
            let shown = zone.map(|zone| zone.to_datetime(at).to_string());
            assert_eq!(shown.as_deref(), expected, "{name}");
        };
        check("AEST-10AEDT", Some("2020-07-01T21:40:00"));
        check("EST5EDT4", Some("2020-07-01T06:40:00"));
        check("no/such/zone", None);
        check(":", None);
    }

    #[test]
    fn both_forms() {
        let mut time = LocalTime::new(TimeZone::get("Europe/Berlin").unwrap());
        let mut out = Vec::new();
        time.put_short(&mut out, 1_577_837_045);
        out.push(b'|');
        time.put_long(&mut out, 1_593_600_000_000_042);
        assert_eq!(String::from_utf8(out).unwrap(), "200101  1:04:05|2020-07-01 12:40:00.000042 CEST");
    }
}
