//! Values of conditions, compared with a column by value: text such as `1.5` has many forms.

use binlog::{Column, ColumnType, Date, DateTime, Time, Value};

/// A value that a column must have, of a type with several texts for one value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ExpectedValue {
    Date(Date),
    /// Microseconds.
    Time(i64),
    /// The fraction has six digits.
    DateTime(DateTime),
    /// Microseconds since 1970, UTC; 0 is the zero date.
    Timestamp(i64),
    /// The number in its shortest form: `-0.5`, `12`.
    Decimal(String),
}

/// Error for a text that is no value of a column. Contains the expected form, such as "a number".
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ImpossibleValue(pub(crate) String);

impl ExpectedValue {
    /// Parses a value of the column; `None` if values of its type are compared as numbers or texts.
    ///
    /// # Errors
    ///
    /// Fails if the column cannot have the value.
    pub(crate) fn parse(text: &str, column: &Column) -> Result<Option<Self>, ImpossibleValue> {
        let column_type = &column.column_type;
        let parsed = match *column_type {
            ColumnType::Date => parse_date(text).map(Self::Date),
            ColumnType::Time { fraction } => parse_time(text, fraction).map(Self::Time),
            ColumnType::OldTime => parse_time(text, 0).map(Self::Time),
            ColumnType::DateTime { fraction } => parse_date_time(text, fraction).map(Self::DateTime),
            ColumnType::OldDateTime => parse_date_time(text, 0).map(Self::DateTime),
            ColumnType::Timestamp { fraction } => parse_timestamp(text, fraction).map(Self::Timestamp),
            ColumnType::OldTimestamp => parse_timestamp(text, 0).map(Self::Timestamp),
            ColumnType::Decimal { scale, .. } => parse_decimal(text, scale).map(Self::Decimal),
            _ => {
                return match is_possible(text, column_type) {
                    true => Ok(None),
                    false => Err(ImpossibleValue(expected_form(column_type))),
                };
            }
        };
        parsed.map(Some).ok_or_else(|| ImpossibleValue(expected_form(column_type)))
    }

    /// Returns whether a field has this value.
    pub(crate) fn is(&self, found: &Value<'_>) -> bool {
        match (self, found) {
            (Self::Date(expected), Value::Date(found)) => expected == found,
            (Self::Time(expected), Value::Time(found)) => *expected == found.total_micros(),
            (Self::DateTime(expected), Value::DateTime(found)) => {
                *expected == DateTime { fraction: FRACTION_MAX, ..*found }
            }
            (Self::Timestamp(expected), Value::Timestamp(found)) => {
                *expected == i64::from(found.seconds) * MICROS + i64::from(found.micros)
            }
            (Self::Decimal(expected), Value::Decimal(found)) => {
                shortest_decimal(&found.to_string()).is_some_and(|found| found == *expected)
            }
            _ => false,
        }
    }
}

/// Microseconds in a second.
const MICROS: i64 = 1_000_000;

/// Digits of microseconds.
const FRACTION_MAX: u8 = 6;

/// Returns whether a column whose values are compared as numbers or texts can have the value.
fn is_possible(text: &str, column_type: &ColumnType) -> bool {
    let is_integer = |bits: u32| {
        // Logs of servers before 8.0.1 do not have the sign of a column.
        text.parse::<i128>().is_ok_and(|number| (-(1 << (bits - 1))..1 << bits).contains(&number))
    };
    match column_type {
        ColumnType::TinyInt => is_integer(8),
        ColumnType::SmallInt => is_integer(16),
        ColumnType::MediumInt => is_integer(24),
        ColumnType::Int => is_integer(32),
        ColumnType::BigInt => is_integer(64),
        ColumnType::Year | ColumnType::Bit { .. } => text.parse::<i128>().is_ok(),
        ColumnType::Float => text.parse::<f32>().is_ok(),
        ColumnType::Double => text.parse::<f64>().is_ok(),
        _ => true,
    }
}

/// Returns the form of a column's values, for messages.
fn expected_form(column_type: &ColumnType) -> String {
    let with_fraction = |form: &str, fraction: u8| match fraction {
        0 => format!("{form}, without a fraction"),
        digits => format!("{form}, with at most {digits} digits of a fraction"),
    };
    match *column_type {
        ColumnType::Date => "a date such as 2024-01-02".to_owned(),
        ColumnType::Time { fraction } => with_fraction("a time such as 01:02:03", fraction),
        ColumnType::OldTime => with_fraction("a time such as 01:02:03", 0),
        ColumnType::DateTime { fraction } => {
            with_fraction("a date and time such as 2024-01-02 03:04:05", fraction)
        }
        ColumnType::OldDateTime => with_fraction("a date and time such as 2024-01-02 03:04:05", 0),
        ColumnType::Timestamp { fraction } => with_fraction(TIMESTAMP_FORM, fraction),
        ColumnType::OldTimestamp => with_fraction(TIMESTAMP_FORM, 0),
        ColumnType::Decimal { scale: 0, .. } => "a whole number".to_owned(),
        ColumnType::Decimal { scale, .. } => {
            format!("a decimal number with at most {scale} digits after the point")
        }
        ColumnType::Float | ColumnType::Double => "a number".to_owned(),
        _ => "a whole number in the range of the column's type".to_owned(),
    }
}

/// Form of TIMESTAMP values.
const TIMESTAMP_FORM: &str =
    "a date and time in UTC such as 2024-01-02 03:04:05, or with an offset such as 2024-01-02 03:04:05+02:00";

/// Parses a number of exactly `digits` digits, at most `max`.
fn parse_part(text: &str, digits: usize, max: u16) -> Option<u16> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_number && *number <= max)
}

/// Parses `YYYY-MM-DD`.
fn parse_date(text: &str) -> Option<Date> {
    let mut parts = text.split('-');
    let year = parse_part(parts.next()?, 4, 9999)?;
    let month = parse_part(parts.next()?, 2, 12)? as u8;
    let day = parse_part(parts.next()?, 2, 31)? as u8;
    parts.next().is_none().then_some(Date { year, month, day })
}

/// Parses `[-]hh:mm:ss[.fraction]` as microseconds. Hours can have one to three digits.
fn parse_time(text: &str, fraction: u8) -> Option<i64> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |text| (true, text));
    let (hours, clock) = text.split_once(':')?;
    let hours = parse_part(hours, hours.len().clamp(1, 3), 838)?;
    let (minutes, seconds, micros) = parse_minutes(clock, fraction)?;
    Some(Time { negative, hours, minutes, seconds, micros, fraction }.total_micros())
}

/// Parses `mm:ss[.fraction]`: minutes, seconds and microseconds.
fn parse_minutes(text: &str, fraction: u8) -> Option<(u8, u8, u32)> {
    let (minutes, seconds) = text.split_once(':')?;
    let (seconds, micros) = match seconds.split_once('.') {
        Some((seconds, digits)) => (seconds, parse_fraction(digits, fraction)?),
        None => (seconds, 0),
    };
    Some((parse_part(minutes, 2, 59)? as u8, parse_part(seconds, 2, 59)? as u8, micros))
}

/// Parses the digits of a fraction as microseconds. Beyond the column's digits, all must be 0.
fn parse_fraction(digits: &str, fraction: u8) -> Option<u32> {
    let significant = digits.trim_end_matches('0');
    let is_fraction = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_fraction || significant.len() > usize::from(fraction.min(FRACTION_MAX)) {
        return None;
    }
    format!("{significant:0<6}").parse().ok()
}

/// Parses `YYYY-MM-DD hh:mm:ss[.fraction]`, also with a `T` between date and time.
fn parse_date_time(text: &str, fraction: u8) -> Option<DateTime> {
    let (date, clock) = text.split_once([' ', 'T'])?;
    let (hour, clock) = clock.split_once(':')?;
    let (minute, second, micros) = parse_minutes(clock, fraction)?;
    let hour = parse_part(hour, 2, 23)? as u8;
    Some(DateTime { date: parse_date(date)?, hour, minute, second, micros, fraction: FRACTION_MAX })
}

/// Parses a date and time in UTC, or with `Z` or an offset, as microseconds since 1970. Also parses seconds since 1970.
fn parse_timestamp(text: &str, fraction: u8) -> Option<i64> {
    let (whole, digits) = text.split_once('.').unwrap_or((text, "0"));
    if !whole.is_empty() && whole.bytes().all(|byte| byte.is_ascii_digit()) {
        let seconds: u32 = whole.parse().ok()?;
        return Some(i64::from(seconds) * MICROS + i64::from(parse_fraction(digits, fraction)?));
    }
    let (text, offset_minutes) = split_offset(text)?;
    let time = parse_date_time(text, fraction)?;
    if time == (DateTime { fraction: FRACTION_MAX, ..DateTime::default() }) {
        return Some(0);
    }
    let micros = time.epoch_micros()? - offset_minutes * 60 * MICROS;
    (0..=i64::from(u32::MAX) * MICROS + MICROS - 1).contains(&micros).then_some(micros)
}

/// Splits off `Z`, `+hh:mm` or `-hh:mm`. Returns the offset from UTC in minutes; 0 if there is none.
fn split_offset(text: &str) -> Option<(&str, i64)> {
    if let Some(text) = text.strip_suffix('Z') {
        return Some((text, 0));
    }
    // The time contains no sign.
    let Some(at) = text.rfind(['+', '-']).filter(|at| text[..*at].contains(':')) else {
        return Some((text, 0));
    };
    let (hours, minutes) = text[at + 1..].split_once(':')?;
    let minutes = i64::from(parse_part(hours, 2, 14)?) * 60 + i64::from(parse_part(minutes, 2, 59)?);
    Some((&text[..at], if text[at..].starts_with('-') { -minutes } else { minutes }))
}

/// Parses a decimal number in its shortest form. Beyond the column's scale, all digits must be 0.
fn parse_decimal(text: &str, scale: u8) -> Option<String> {
    let shortest = shortest_decimal(text)?;
    let digits = shortest.split_once('.').map_or(0, |(_, digits)| digits.len());
    (digits <= usize::from(scale)).then_some(shortest)
}

/// Returns the shortest form of `[sign]digits[.digits]`; `None` if the text is another one.
fn shortest_decimal(text: &str) -> Option<String> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.len() + fraction.len() == 0 || !is_number(whole) || !is_number(fraction) {
        return None;
    }
    let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
    Some(match (whole, fraction) {
        ("", "") => "0".to_owned(),
        ("", fraction) => format!("{sign}0.{fraction}"),
        (whole, "") => format!("{sign}{whole}"),
        (whole, fraction) => format!("{sign}{whole}.{fraction}"),
    })
}

#[cfg(test)]
mod tests {
    use super::{is_possible, parse_date, parse_date_time, parse_time, parse_timestamp, shortest_decimal};
    use binlog::ColumnType;

    #[test]
    fn decimals_have_one_shortest_form() {
        let check = |text: &str, expected: Option<&str>| {
            assert_eq!(shortest_decimal(text).as_deref(), expected, "{text}");
        };
        check("12.50", Some("12.5"));
        check("-.5", Some("-0.5"));
        check("-0.50", Some("-0.5"));
        check("+007.", Some("7"));
        check("100", Some("100"));
        check("-0.00", Some("0"));
        check("1e3", None);
        check(".", None);
        check("", None);
        check("--1", None);
        check("1.5.0", None);
    }

    #[test]
    fn dates_and_times_are_parsed() {
        let date = |text: &str, is_date: bool| assert_eq!(parse_date(text).is_some(), is_date, "{text}");
        date("2024-01-02", true);
        date("0000-00-00", true);
        date("2024-1-2", false);
        date("2024-13-01", false);
        date("2024-01-02-03", false);
        let time = |text: &str, expected: Option<i64>| assert_eq!(parse_time(text, 2), expected, "{text}");
        time("01:02:03", Some(3_723_000_000));
        time("1:02:03.00", Some(3_723_000_000));
        time("-01:02:03.5", Some(-3_723_500_000));
        time("838:59:59.000000", Some(3_020_399_000_000));
        time("01:02:03.125", None);
        time("01:02", None);
        time("01:02:60", None);
        time(":02:03", None);
        let same = |one: &str, other: &str| {
            let (one, other) = (parse_date_time(one, 3), parse_date_time(other, 3));
            assert!(one.is_some() && one == other, "{one:?} {other:?}");
        };
        same("2024-01-02 03:04:05", "2024-01-02T03:04:05.000");
        same("2024-01-02 03:04:05.5", "2024-01-02 03:04:05.500000");
        assert_eq!(parse_date_time("2024-01-02", 3), None);
        assert_eq!(parse_date_time("2024-01-02 03:04:05.1234", 3), None);
        assert_eq!(parse_date_time("2024-01-02 03:04:05Z", 3), None);
    }

    #[test]
    fn timestamps_are_parsed() {
        let check = |text: &str, expected: Option<i64>| {
            assert_eq!(parse_timestamp(text, 6), expected, "{text}");
        };
        const MICROS: i64 = 1_704_164_645_000_000;
        check("2024-01-02 03:04:05", Some(MICROS));
        check("2024-01-02T03:04:05.000000Z", Some(MICROS));
        check("2024-01-02 05:04:05+02:00", Some(MICROS));
        check("2024-01-01 21:34:05.25-05:30", Some(MICROS + 250_000));
        check("1704164645.25", Some(MICROS + 250_000));
        check("0000-00-00 00:00:00", Some(0));
        check("2024-02-30 03:04:05", None);
        check("1960-01-02 03:04:05", None);
        check("2024-01-02 03:04:05+2", None);
        check("2024-01-02", None);
        check("now", None);
    }

    #[test]
    fn numbers_must_be_possible() {
        let check = |text: &str, column_type: ColumnType, expected: bool| {
            assert_eq!(is_possible(text, &column_type), expected, "{text} {column_type:?}");
        };
        check("255", ColumnType::TinyInt, true);
        check("-128", ColumnType::TinyInt, true);
        check("256", ColumnType::TinyInt, false);
        check("18446744073709551615", ColumnType::BigInt, true);
        check("5.0", ColumnType::Int, false);
        check("five", ColumnType::Int, false);
        check("1.5e3", ColumnType::Double, true);
        check("x", ColumnType::Float, false);
        check("x", ColumnType::Varchar { size_max: 9 }, true);
    }
}
