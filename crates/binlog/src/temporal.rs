//! Dates and times in rows.

use std::fmt;
use std::ops::RangeInclusive;

use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeReason};

/// Days from 0000-03-01 to 1970-01-01.
const MARCH_OFFSET: i64 = 719_468;

/// Calendar date. Month and day may be 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Date {
    /// 0 to 9999; larger if corrupt.
    pub year: u16,
    /// 0 to 12; up to 15 if corrupt.
    pub month: u8,
    /// 0 to 31.
    pub day: u8,
}

/// TIME value, -838:59:59 to 838:59:59.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Time {
    /// True if negative.
    pub negative: bool,
    /// 0 to 838; up to 1023 if corrupt.
    pub hours: u16,
    /// 0 to 59; up to 63 if corrupt.
    pub minutes: u8,
    /// 0 to 59; up to 63 if corrupt.
    pub seconds: u8,
    /// Microseconds, less than 1,000,000.
    pub micros: u32,
    /// Number of fractional digits shown.
    pub fraction: u8,
}

/// Date and time without a time zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct DateTime {
    /// Date.
    pub date: Date,
    /// 0 to 23; larger if corrupt.
    pub hour: u8,
    /// 0 to 59; larger if corrupt.
    pub minute: u8,
    /// 0 to 59; larger if corrupt.
    pub second: u8,
    /// Microseconds, less than 1,000,000.
    pub micros: u32,
    /// Number of fractional digits shown.
    pub fraction: u8,
}

/// Point in time; 0 is the zero date.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Timestamp {
    /// Seconds since 1970, UTC.
    pub seconds: u32,
    /// Microseconds, less than 1,000,000.
    pub micros: u32,
    /// Number of fractional digits shown.
    pub fraction: u8,
}

impl Date {
    /// Days of the years 1 to 9999, counted from 1970-01-01.
    pub const EPOCH_DAYS: RangeInclusive<i64> = -719_162..=2_932_896;

    // bits  field, high bits first
    //   15  year
    //    4  month
    //    5  day
    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let packed = cursor.u24()?;
        let year = (packed >> 9) as u16;
        Ok(Self { year, month: (packed >> 5 & 0xf) as u8, day: (packed & 0x1f) as u8 })
    }

    /// Returns the Gregorian date of a day, counted from 1970-01-01. A day outside of [`Date::EPOCH_DAYS`] gives the
    /// nearest date in these years.
    pub fn from_epoch_day(day: i64) -> Self {
        let day = day.clamp(*Self::EPOCH_DAYS.start(), *Self::EPOCH_DAYS.end());
        Self::from_march_day((day + MARCH_OFFSET) as u32)
    }

    /// Returns the date of a day, counted from 0000-03-01.
    fn from_march_day(days: u32) -> Self {
        // Counting years from March puts the leap day last, so that one formula gives the month.
        let era = days / 146_097;
        let day_of_era = days % 146_097;
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let (month, year) = match month < 10 {
            true => (month + 3, year_of_era + era * 400),
            false => (month - 9, year_of_era + era * 400 + 1),
        };
        Self { year: year as u16, month: month as u8, day: day as u8 }
    }

    /// Returns the days from 1970-01-01 to the date. `None` for an invalid date: MySQL allows 0000-00-00, and others
    /// depending on `sql_mode`.
    #[inline]
    pub fn epoch_day(self) -> Option<i64> {
        // Numbers of 32 bits: divisions of wider ones take longer.
        let (year, month, day) = (u32::from(self.year), u32::from(self.month), u32::from(self.day));
        let is_valid =
            year >= 1 && (1..=12).contains(&month) && (1..=self.days_in_month()).contains(&self.day);
        is_valid.then(|| {
            let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
            let (era, year_of_era) = (year / 400, year % 400);
            let day_of_year = (153 * month + 2) / 5 + day - 1;
            let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
            i64::from(days) - MARCH_OFFSET
        })
    }

    /// Returns the number of days of the date's month, which must be from 1 to 12.
    #[inline]
    pub const fn days_in_month(self) -> u8 {
        match self.month {
            2 if self.year.is_multiple_of(4)
                && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400)) =>
            {
                29
            }
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// Appends `YYYY-MM-DD`.
    pub fn write(&self, out: &mut Vec<u8>) {
        let [year, month, day] = [u32::from(self.year), u32::from(self.month), u32::from(self.day)];
        put_digits(out, year, 4);
        out.push(b'-');
        put_digits(out, month, 2);
        out.push(b'-');
        put_digits(out, day, 2);
    }
}

impl Time {
    // size  field
    //    3  bits, high bits first: 1 set unless negative, 1 unused, 10 hours, 6 minutes, 6 seconds
    //  0-3  fraction
    // All bits are one big-endian number; a negative value is the two's complement of the positive one.
    pub(crate) fn decode(cursor: &mut Cursor<'_>, fraction: u8) -> Result<Self, DecodeError> {
        let offset = cursor.offset();
        let size = 3 + usize::from(fraction.div_ceil(2));
        let packed = big_endian(cursor.bytes(size)?) as i64 - (1 << (8 * size - 1));
        let fraction_bits = 8 * (size - 3);
        let absolute = packed.unsigned_abs();
        let micros = micros(absolute & ((1 << fraction_bits) - 1), fraction, offset + 3)?;
        let whole = absolute >> fraction_bits;
        Ok(Self {
            negative: packed < 0,
            hours: (whole >> 12 & 0x3ff) as u16,
            minutes: (whole >> 6 & 0x3f) as u8,
            seconds: (whole & 0x3f) as u8,
            micros,
            fraction,
        })
    }

    /// Decodes the format of servers before 5.6: a signed three-byte number with the digits hhmmss.
    pub(crate) fn decode_old(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let packed = (cursor.u24()? << 8) as i32 >> 8;
        let absolute = packed.unsigned_abs();
        Ok(Self {
            negative: packed < 0,
            hours: (absolute / 10_000) as u16,
            minutes: (absolute / 100 % 100) as u8,
            seconds: (absolute % 100) as u8,
            micros: 0,
            fraction: 0,
        })
    }

    /// Decodes the format in JSON documents: see [`packed_parts`].
    pub(crate) fn from_packed(packed: i64) -> Self {
        let (whole, micros) = packed_parts(packed);
        Self {
            negative: packed < 0,
            hours: (whole >> 12 & 0x3ff) as u16,
            minutes: (whole >> 6 & 0x3f) as u8,
            seconds: (whole & 0x3f) as u8,
            micros,
            fraction: 6,
        }
    }

    /// Returns the whole time in microseconds.
    #[inline]
    pub fn total_micros(&self) -> i64 {
        let seconds = i64::from(self.hours) * 3600 + i64::from(self.minutes) * 60 + i64::from(self.seconds);
        let micros = seconds * 1_000_000 + i64::from(self.micros);
        if self.negative { -micros } else { micros }
    }

    /// Appends `[-]hh:mm:ss[.fraction]`.
    pub fn write(&self, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        put_digits(out, u32::from(self.hours), 2);
        put_clock(out, self.minutes, self.seconds);
        put_fraction(out, self.micros, self.fraction);
    }
}

impl DateTime {
    // size  field
    //    5  bits, high bits first: 1 set, 17 year * 13 + month, 5 day, 5 hour, 6 minute, 6 second
    //  0-3  fraction
    pub(crate) fn decode(cursor: &mut Cursor<'_>, fraction: u8) -> Result<Self, DecodeError> {
        const SET: u64 = 1 << 39;
        let offset = cursor.offset();
        let packed = big_endian(&cursor.array::<5>()?);
        if packed & SET == 0 {
            let reason = DecodeReason::Unexpected {
                field: "first bit of DATETIME",
                found: 0,
                expected: "1 (not negative)",
            };
            return Err(DecodeError::new(offset, reason));
        }
        let stored = big_endian(cursor.bytes(usize::from(fraction.div_ceil(2)))?);
        let micros = micros(stored, fraction, offset + 5)?;
        Ok(Self::from_whole(packed & !SET, micros, fraction))
    }

    fn from_whole(whole: u64, micros: u32, fraction: u8) -> Self {
        let months = whole >> 22;
        Self {
            date: Date {
                year: (months / 13) as u16,
                month: (months % 13) as u8,
                day: (whole >> 17 & 0x1f) as u8,
            },
            hour: (whole >> 12 & 0x1f) as u8,
            minute: (whole >> 6 & 0x3f) as u8,
            second: (whole & 0x3f) as u8,
            micros,
            fraction,
        }
    }

    /// Decodes the format of servers before 5.6: an eight-byte number with the digits YYYYMMDDhhmmss.
    pub(crate) fn decode_old(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        let packed = cursor.u64()?;
        let two = |divisor: u64| (packed / divisor % 100) as u8;
        Ok(Self {
            date: Date {
                year: (packed / 10_000_000_000) as u16,
                month: two(100_000_000),
                day: two(1_000_000),
            },
            hour: two(10_000),
            minute: two(100),
            second: two(1),
            micros: 0,
            fraction: 0,
        })
    }

    /// Decodes the format in JSON documents: see [`packed_parts`].
    pub(crate) fn from_packed(packed: i64) -> Self {
        let (whole, micros) = packed_parts(packed);
        Self::from_whole(whole, micros, 6)
    }

    /// Returns the microseconds from 1970-01-01 to the date and time, taken as UTC. `None` if it is invalid.
    #[inline]
    pub fn epoch_micros(&self) -> Option<i64> {
        let is_clock = self.hour < 24 && self.minute < 60 && self.second < 60;
        let seconds = i64::from(self.hour) * 3600 + i64::from(self.minute) * 60 + i64::from(self.second);
        let day = self.date.epoch_day().filter(|_| is_clock)?;
        Some((day * 86_400 + seconds) * 1_000_000 + i64::from(self.micros))
    }

    /// Appends `YYYY-MM-DD hh:mm:ss[.fraction]`.
    pub fn write(&self, out: &mut Vec<u8>) {
        self.date.write(out);
        out.push(b' ');
        put_digits(out, u32::from(self.hour), 2);
        put_clock(out, self.minute, self.second);
        put_fraction(out, self.micros, self.fraction);
    }
}

impl Timestamp {
    // size  field
    //    4  seconds: big-endian
    //  0-3  fraction
    pub(crate) fn decode(cursor: &mut Cursor<'_>, fraction: u8) -> Result<Self, DecodeError> {
        let seconds = u32::from_be_bytes(cursor.array()?);
        let offset = cursor.offset();
        let stored = big_endian(cursor.bytes(usize::from(fraction.div_ceil(2)))?);
        Ok(Self { seconds, micros: micros(stored, fraction, offset)?, fraction })
    }

    /// Decodes the format of servers before 5.6: seconds, little-endian.
    pub(crate) fn decode_old(cursor: &mut Cursor<'_>) -> Result<Self, DecodeError> {
        Ok(Self { seconds: cursor.u32()?, micros: 0, fraction: 0 })
    }

    /// Appends `seconds[.fraction]`.
    pub fn write(&self, out: &mut Vec<u8>) {
        put_digits(out, self.seconds, 1);
        put_fraction(out, self.micros, self.fraction);
    }

    /// Converts to date and time in UTC.
    pub fn to_utc(&self) -> DateTime {
        if self.seconds == 0 && self.micros == 0 {
            return DateTime { fraction: self.fraction, ..DateTime::default() };
        }
        let (days, second) = (self.seconds / 86_400, self.seconds % 86_400);
        DateTime {
            date: Date::from_march_day(days + MARCH_OFFSET as u32),
            hour: (second / 3600) as u8,
            minute: (second / 60 % 60) as u8,
            second: (second % 60) as u8,
            micros: self.micros,
            fraction: self.fraction,
        }
    }
}

/// Splits a packed number of a JSON document: date and time in the bits from 24 up, microseconds below. Negative
/// times are negated as a whole.
fn packed_parts(packed: i64) -> (u64, u32) {
    let absolute = packed.unsigned_abs();
    (absolute >> 24, (absolute & 0xff_ffff) as u32)
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Converts a stored fraction, in hundredths, ten-thousandths or millionths, to microseconds.
fn micros(stored: u64, fraction: u8, offset: usize) -> Result<u32, DecodeError> {
    let (unit, max) = match fraction {
        0 => return Ok(0),
        1 | 2 => (10_000, 99),
        3 | 4 => (100, 9999),
        _ => (1, 999_999),
    };
    if stored > max {
        let reason = DecodeReason::OutOfRange { field: "fraction of a second", found: stored, max };
        return Err(DecodeError::new(offset, reason));
    }
    Ok((stored * unit) as u32)
}

/// Appends at least `width` digits (1 to 10).
#[inline]
pub(crate) fn put_digits(out: &mut Vec<u8>, number: u32, width: usize) {
    let digit = |divisor: u32| b'0' + (number / divisor % 10) as u8;
    match (width, number) {
        (2, 0..100) => out.extend_from_slice(&[digit(10), digit(1)]),
        (4, 0..10_000) => out.extend_from_slice(&[1000, 100, 10, 1].map(digit)),
        _ => put_any_digits(out, number, width),
    }
}

fn put_any_digits(out: &mut Vec<u8>, mut number: u32, width: usize) {
    let mut digits = [b'0'; 10];
    let mut start = digits.len();
    while number > 0 {
        start -= 1;
        digits[start] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[start.min(digits.len() - width)..]);
}

fn put_clock(out: &mut Vec<u8>, minute: u8, second: u8) {
    out.push(b':');
    put_digits(out, u32::from(minute), 2);
    out.push(b':');
    put_digits(out, u32::from(second), 2);
}

fn put_fraction(out: &mut Vec<u8>, micros: u32, fraction: u8) {
    let width = usize::from(fraction.min(6));
    if width > 0 {
        out.push(b'.');
        put_digits(out, micros / 10_u32.pow(6 - width as u32), width);
    }
}

macro_rules! display {
    ($($name:ident)*) => {
        $(impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut text = Vec::with_capacity(32);
                self.write(&mut text);
                out.pad(&String::from_utf8_lossy(&text))
            }
        })*
    };
}

display!(Date Time DateTime Timestamp);

#[cfg(test)]
mod tests {
    use proptest::prelude::proptest;

    use super::{Date, DateTime, Time, Timestamp};
    use crate::cursor::Cursor;
    use crate::error::DecodeError;

    fn check(result: Result<impl ToString, DecodeError>, expected: &str) {
        let text = result.map_or_else(|error| error.to_string(), |value| value.to_string());
        assert_eq!(text, expected);
    }

    fn date(bytes: &[u8], expected: &str) {
        check(Date::decode(&mut Cursor::new(bytes)), expected);
    }

    fn time(bytes: &[u8], fraction: u8, expected: &str) {
        check(Time::decode(&mut Cursor::new(bytes), fraction), expected);
    }

    fn date_time(bytes: &[u8], fraction: u8, expected: &str) {
        check(DateTime::decode(&mut Cursor::new(bytes), fraction), expected);
    }

    fn timestamp(bytes: &[u8], fraction: u8, expected: &str, utc: &str) {
        let value = Timestamp::decode(&mut Cursor::new(bytes), fraction);
        check(value, expected);
        check(value.map(|value| value.to_utc()), utc);
    }

    #[test]
    fn dates() {
        date(&[0, 0, 0], "0000-00-00");
        date(&[0x5d, 0xd0, 0x0f], "2024-02-29");
        date(&[0x9f, 0x1f, 0x4e], "9999-12-31");
        date(&[0x00, 0xd0, 0x0f], "2024-00-00");
        date(&[0xff, 0xff, 0xff], "32767-15-31");
        date(&[0, 0], "byte 0: expected 3 more bytes, found 2");
    }

    #[test]
    fn dates_are_days() {
        let check = |year, month, day, expected| assert_eq!(Date { year, month, day }.epoch_day(), expected);
        check(1970, 1, 1, Some(0));
        check(1969, 12, 31, Some(-1));
        check(2000, 2, 29, Some(11_016));
        check(1900, 2, 29, None);
        check(2026, 2, 29, None);
        check(1000, 1, 1, Some(-354_285));
        check(1, 1, 1, Some(*Date::EPOCH_DAYS.start()));
        check(9999, 12, 31, Some(*Date::EPOCH_DAYS.end()));
        check(0, 1, 1, None);
        check(2026, 0, 1, None);
        check(2026, 1, 0, None);
        check(2026, 13, 1, None);
        assert!(Date::EPOCH_DAYS.step_by(13).all(|day| Date::from_epoch_day(day).epoch_day() == Some(day)));
        assert_eq!(Date::from_epoch_day(i64::MIN).to_string(), "0001-01-01");
        assert_eq!(Date::from_epoch_day(i64::MAX).to_string(), "9999-12-31");
    }

    #[test]
    fn moments_are_microseconds() {
        let date = Date { year: 1000, month: 1, day: 1 };
        let moment = DateTime { date, micros: 123_456, fraction: 6, ..DateTime::default() };
        assert_eq!(moment.epoch_micros(), Some(-30_610_223_999_876_544));
        assert_eq!(DateTime { hour: 24, ..moment }.epoch_micros(), None);
        let time = Time { negative: true, hours: 838, minutes: 59, seconds: 59, micros: 0, fraction: 0 };
        assert_eq!(time.total_micros(), -3_020_399_000_000);
    }

    #[test]
    fn times() {
        time(&[0x80, 0, 0], 0, "00:00:00");
        time(&[0x80, 0, 1], 0, "00:00:01");
        time(&[0x7f, 0xff, 0xff], 0, "-00:00:01");
        time(&[0xb4, 0x6e, 0xfb], 0, "838:59:59");
        time(&[0x4b, 0x91, 0x05], 0, "-838:59:59");
        time(&[0x80, 0, 0, 99], 2, "00:00:00.99");
        time(&[0x7f, 0xff, 0xff, 0x9d], 2, "-00:00:00.99");
        time(&[0x7f, 0xff, 0xff, 0xff], 1, "-00:00:00.0");
        time(&[0x7f, 0xff, 0xfe, 0xce], 1, "-00:00:01.5");
        time(&[0x7f, 0xff, 0xff, 0xff, 0xff], 4, "-00:00:00.0001");
        time(&[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff], 6, "-00:00:00.000001");
        time(&[0x80, 0, 0, 0x0f, 0x42, 0x3f], 6, "00:00:00.999999");
        time(&[0x80, 0, 0, 100], 2, "byte 3: fraction of a second is 100, expected at most 99");
        time(&[0x80, 0, 0], 6, "byte 0: expected 6 more bytes, found 3");
    }

    #[test]
    fn dates_and_times() {
        date_time(&[0x80, 0, 0, 0, 0], 0, "0000-00-00 00:00:00");
        date_time(&[0x99, 0xb2, 0xba, 0xc8, 0xb8], 0, "2024-02-29 12:34:56");
        date_time(&[0xfe, 0xf3, 0xff, 0x7e, 0xfb], 0, "9999-12-31 23:59:59");
        date_time(&[0x99, 0xb2, 0xba, 0xc8, 0xb8, 78], 1, "2024-02-29 12:34:56.7");
        date_time(&[0x99, 0xb2, 0xba, 0xc8, 0xb8, 0x1e, 0xd2], 3, "2024-02-29 12:34:56.789");
        date_time(&[0x99, 0xb2, 0xba, 0xc8, 0xb8, 0x0c, 0x0a, 0x14], 6, "2024-02-29 12:34:56.789012");
        let negative = "byte 0: first bit of DATETIME is 0, expected 1 (not negative)";
        date_time(&[0x7f, 0xff, 0xff, 0xff, 0xff], 0, negative);
        let fraction = "byte 5: fraction of a second is 1000000, expected at most 999999";
        date_time(&[0x80, 0, 0, 0, 0, 0x0f, 0x42, 0x40], 6, fraction);
    }

    #[test]
    fn timestamps() {
        timestamp(&[0, 0, 0, 0], 0, "0", "0000-00-00 00:00:00");
        timestamp(&[0, 0, 0, 1], 0, "1", "1970-01-01 00:00:01");
        timestamp(&[0x7f, 0xff, 0xff, 0xff], 0, "2147483647", "2038-01-19 03:14:07");
        timestamp(&[0xff, 0xff, 0xff, 0xff], 0, "4294967295", "2106-02-07 06:28:15");
        timestamp(&[0x38, 0xbc, 0x5d, 0x7f, 90], 2, "951868799.90", "2000-02-29 23:59:59.90");
        timestamp(&[0, 0, 0, 0, 0, 0, 1], 6, "0.000001", "1970-01-01 00:00:00.000001");
    }

    #[test]
    fn before_version_5_6() {
        let time = |packed: i32| Time::decode_old(&mut Cursor::new(&packed.to_le_bytes()[..3]));
        check(time(8_385_959), "838:59:59");
        check(time(-1), "-00:00:01");
        let date_time = |packed: u64| DateTime::decode_old(&mut Cursor::new(&packed.to_le_bytes()));
        check(date_time(20_240_229_123_456), "2024-02-29 12:34:56");
        check(date_time(0), "0000-00-00 00:00:00");
        check(Timestamp::decode_old(&mut Cursor::new(&[1, 0, 0, 0])), "1");
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_value_or_an_error(bytes: [u8; 8], fraction in 0_u8..7) {
            let cursor = || Cursor::new(&bytes);
            for value in [
                Time::decode(&mut cursor(), fraction).map(|time| (time.micros, time.to_string())),
                DateTime::decode(&mut cursor(), fraction).map(|time| (time.micros, time.to_string())),
                Timestamp::decode(&mut cursor(), fraction).map(|time| (time.micros, time.to_utc().to_string())),
            ].into_iter().flatten() {
                assert!(value.0 < 1_000_000);
                let digits = value.1.split_once('.').map_or(0, |(_, digits)| digits.len());
                assert_eq!(digits, usize::from(fraction));
            }
        }

        /// Negative times are stored as the two's complement of the positive time.
        #[test]
        fn times_negate(bytes: [u8; 6], fraction in 0_u8..7) {
            let size = 3 + usize::from(fraction.div_ceil(2));
            let stored = bytes[..size].iter().fold(0_i64, |number, byte| number << 8 | i64::from(*byte));
            let offset = 1_i64 << (8 * size - 1);
            let negated = (2 * offset - stored).to_be_bytes();
            let decode = |bytes: &[u8]| Time::decode(&mut Cursor::new(bytes), fraction);
            if let (Ok(one), Ok(other)) = (decode(&bytes[..size]), decode(&negated[8 - size..]))
                && stored != 0 && stored != offset
            {
                assert_eq!(Time { negative: !other.negative, ..other }, one);
            }
        }
    }
}
