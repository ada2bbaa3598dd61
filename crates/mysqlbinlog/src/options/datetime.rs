//! Dates and times in MySQL's notation, converted from the local time zone.

use jiff::tz::{AmbiguousOffset, TimeZone};
use option_files::{is_space, trim_start};

/// A date and a time of day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DateTimeArgument {
    year: u32,
    month: u32,
    day: u32,
    hour: u32,
    minute: u32,
    second: u32,
}

/// Number of fields: year, month, day, hour, minute, second, fraction.
const FIELD_COUNT: usize = 7;
const YEAR: usize = 0;
const DAY: usize = 2;
const SECOND: usize = 5;
const FRACTION: usize = 6;

/// First two-digit year of the 20th century; smaller ones belong to the 21st.
const CENTURY_SPLIT: u32 = 70;

/// Maximum of any field: a fraction has six digits.
const FIELD_MAX: u32 = 999_999;

/// Last year of a timestamp.
const YEAR_MAX: u32 = 3001;

/// Parses a date with a time; `None` if a part is missing or text follows.
///
/// Fields are separated by punctuation, day and hour also by spaces or `T`. Fields without separators have two digits
/// each; the year has four if there are 4, 8 or 14 digits in total.
pub(crate) fn parse(text: &[u8]) -> Option<DateTimeArgument> {
    let text = trim_start(text, is_space);
    let fields = DateTimeFields::scan(text)?;
    if trim_start(&text[fields.end..], is_space).iter().next().is_some() || fields.count <= 3 {
        return None;
    }
    let [mut year, month, day, hour, minute, second, _] = fields.values;
    let is_zero = fields.values.iter().all(|value| *value == 0);
    if fields.sizes[YEAR] == 2 && !is_zero {
        year += if year < CENTURY_SPLIT { 2000 } else { 1900 };
    }
    let in_range = month <= 12 && day <= 31 && hour < 24 && minute < 60 && second < 60;
    in_range.then_some(DateTimeArgument { year, month, day, hour, minute, second })
}

/// Returns seconds since 1970 for a local date and time; 0 outside the range of timestamps.
///
/// Days after a month's end count as days of the next month. A time that the clock skips becomes the first second after
/// the gap; a time that occurs twice means the first one.
pub(crate) fn to_timestamp(at: DateTimeArgument, zone: &TimeZone) -> i64 {
    if !(1969..=YEAR_MAX).contains(&at.year) {
        return 0;
    }
    let since_midnight = i64::from(at.hour * 3600 + at.minute * 60 + at.second);
    let seconds = (day_number(at.year, at.month, at.day) - day_number(1970, 1, 1)) * 86_400 + since_midnight;
    let Ok(as_if_utc) = jiff::Timestamp::from_second(seconds) else { return 0 };
    let civil = TimeZone::UTC.to_datetime(as_if_utc);
    let ambiguous = zone.to_ambiguous_timestamp(civil);
    let seconds = match ambiguous.offset() {
        AmbiguousOffset::Unambiguous { offset } | AmbiguousOffset::Fold { before: offset, .. } => {
            offset.to_timestamp(civil).map(jiff::Timestamp::as_second)
        }
        AmbiguousOffset::Gap { before, .. } => before.to_timestamp(civil).map(|inside| {
            let skipped = zone.preceding(inside).next();
            skipped.map_or(inside.as_second(), |transition| transition.timestamp().as_second())
        }),
    };
    seconds.unwrap_or(0).max(0)
}

/// Returns the number of days since year 0. Month 0 is the month before the first.
fn day_number(year: u32, month: u32, day: u32) -> i64 {
    let [year, month, day] = [year, month, day].map(i64::from);
    let days = 365 * year + 31 * (month - 1) + day;
    let (days, year) = match month {
        0..=2 => (days, year - 1),
        _ => (days - (month * 4 + 23) / 10, year),
    };
    days + year / 4 - (year / 100 + 1) * 3 / 4
}

struct DateTimeFields {
    values: [u32; FIELD_COUNT],
    /// Number of digits of each field.
    sizes: [usize; FIELD_COUNT],
    count: usize,
    /// End of the last field and the separators after it.
    end: usize,
}

impl DateTimeFields {
    fn scan(text: &[u8]) -> Option<Self> {
        let first = text.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'T').count();
        if !text.first()?.is_ascii_digit() {
            return None;
        }
        let packed = matches!(text.get(first), None | Some(b'.'));
        let year_size = if !packed || matches!(first, 4 | 8 | 14..) { 4 } else { 2 };
        let mut fields = Self { values: [0; FIELD_COUNT], sizes: [0; FIELD_COUNT], count: 0, end: 0 };
        let mut size_max = year_size;
        let mut at = 0;
        while fields.count < FIELD_COUNT && text.get(at).is_some_and(u8::is_ascii_digit) {
            let index = fields.count;
            let fixed = packed || index == FRACTION;
            let size = read_number(
                &text[at..],
                if fixed { size_max } else { usize::MAX },
                &mut fields.values[index],
            )?;
            fields.sizes[index] = size;
            fields.count += 1;
            at += size;
            fields.end = at;
            size_max = 2;
            match text.get(at) {
                None => break,
                Some(b'T') if index == DAY => {
                    at += 1;
                    continue;
                }
                Some(b'.') if index == SECOND => {
                    at += 1;
                    size_max = 6;
                    fields.end = at;
                    continue;
                }
                Some(_) if index == SECOND => break,
                // An offset from UTC, which this argument must not have.
                Some(b'+' | b'-') if index == FRACTION => return None,
                Some(_) => {}
            }
            at += count_separators(&text[at..], index)?;
            fields.end = at;
        }
        if !packed && fields.sizes[YEAR] == 0 {
            return None;
        }
        fields.skip_digits(text);
        Some(fields)
    }

    /// Skips digits of the fraction after the sixth.
    fn skip_digits(&mut self, text: &[u8]) {
        if self.sizes[FRACTION] == 6 {
            self.end += text[self.end..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        }
    }
}

/// Reads at most `size_max` digits into `value`, and returns their number.
fn read_number(text: &[u8], size_max: usize, value: &mut u32) -> Option<usize> {
    let size = text.iter().take(size_max).take_while(|byte| byte.is_ascii_digit()).count();
    for digit in &text[..size] {
        *value = *value * 10 + u32::from(digit - b'0');
        if *value > FIELD_MAX {
            return None;
        }
    }
    Some(size)
}

/// Returns the number of bytes that separate the field at `index` from the next.
fn count_separators(text: &[u8], index: usize) -> Option<usize> {
    let mut count = 0;
    for byte in text {
        match byte {
            b' ' | b'\t'..=b'\r' if index == DAY || index == FRACTION => {}
            b' ' | b'\t'..=b'\r' => return None,
            byte if byte.is_ascii_punctuation() => {}
            _ => break,
        }
        count += 1;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use jiff::tz::TimeZone;

    use super::{parse, to_timestamp};

    #[track_caller]
    fn check(text: &str, zone: &str, expected: Option<i64>) {
        let zone = TimeZone::get(zone).unwrap();
        let found = parse(text.as_bytes()).map(|at| to_timestamp(at, &zone));
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn forms() {
        let y2020 = Some(1_577_880_000);
        check("2020-01-01 12:00:00", "UTC", y2020);
        check("2020-1-1 12:0:0", "UTC", y2020);
        check("20-01-01 12:00", "UTC", y2020);
        check("20200101120000", "UTC", y2020);
        check("200101120000", "UTC", y2020);
        check("20200101T120000", "UTC", y2020);
        check("2020-01-01T12:00:00", "UTC", y2020);
        check("2020/01/01 12.00.00", "UTC", y2020);
        check("  2020-01-01 12:00:00.1234567  ", "UTC", y2020);
        check("2020-01-01", "UTC", None);
        check("2020-01-01 12:00:00 x", "UTC", None);
        check("2020-01-01 12:00:00+01:00", "UTC", None);
        check("2020-01-01 12:00:00,", "UTC", None);
        check("2020-01-01 12:00:00.12 .", "UTC", y2020);
        check("2020-01-01 12:00 ", "UTC", None);
        check("2020-01-01 12:00:", "UTC", y2020);
        check("2020-02-30 12:00:00", "UTC", Some(1_583_064_000));
        check("2020-00-01 12:00:00", "UTC", Some(1_575_201_600));
        check("2020-01-32 12:00:00", "UTC", None);
        check("2020-13-01 12:00:00", "UTC", None);
        check("x", "UTC", None);
        check("", "UTC", None);
    }

    #[test]
    fn zones() {
        check("2020-01-01 12:00:00", "Europe/Berlin", Some(1_577_876_400));
        check("1969-01-01 12:00:00", "UTC", Some(0));
        // The clock skips from two to three.
        check("2020-03-29 02:30:00", "Europe/Berlin", Some(1_585_443_600));
        // The clock goes back from three to two.
        check("2020-10-25 02:30:00", "Europe/Berlin", Some(1_603_585_800));
    }
}
