//! Dates and times of MySQL in functions: `DATE_FORMAT`, `TIMESTAMPDIFF`, `INTERVAL` and others.

use binlog::Date;

/// Microseconds in a second.
const SECOND_US: i64 = 1_000_000;
/// Microseconds in a day.
const DAY_US: i64 = 86_400 * SECOND_US;
/// Largest time of `TIME` in microseconds: 838:59:59.
const TIME_MAX_US: i64 = (838 * 3600 + 59 * 60 + 59) * SECOND_US;
const WEEKDAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];

/// Date and time between the years 1 and 9999, without a time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SqlDateTime {
    /// Microseconds since 1970-01-01 00:00:00.
    time_us: i64,
    /// True if the text had a time, not only a date.
    pub(super) has_time: bool,
    /// True if the text had a fraction of a second.
    pub(super) has_fraction: bool,
}

/// Fields of a date and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CalendarFields {
    pub(super) year: i64,
    pub(super) month: i64,
    pub(super) day: i64,
    pub(super) hour: i64,
    pub(super) minute: i64,
    pub(super) second: i64,
    pub(super) micros: i64,
}

/// Unit of `INTERVAL` and `TIMESTAMPDIFF`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TimeUnit {
    /// A number of microseconds.
    Micros(i64),
    /// A number of months.
    Months(i64),
}

impl TimeUnit {
    /// Names of the units.
    pub(super) const NAMES: [&str; 9] =
        ["MICROSECOND", "SECOND", "MINUTE", "HOUR", "DAY", "WEEK", "MONTH", "QUARTER", "YEAR"];

    /// Returns the unit with this name, ignoring case.
    pub(super) fn of(name: &str) -> Option<Self> {
        Some(match name.to_ascii_uppercase().as_str() {
            "MICROSECOND" => Self::Micros(1),
            "SECOND" => Self::Micros(SECOND_US),
            "MINUTE" => Self::Micros(60 * SECOND_US),
            "HOUR" => Self::Micros(3600 * SECOND_US),
            "DAY" => Self::Micros(DAY_US),
            "WEEK" => Self::Micros(7 * DAY_US),
            "MONTH" => Self::Months(1),
            "QUARTER" => Self::Months(3),
            "YEAR" => Self::Months(12),
            _ => return None,
        })
    }
}

impl SqlDateTime {
    /// Reads `YYYY-MM-DD`, optionally with ` HH:MM[:SS[.fraction]]`. Returns `None` for other texts, and for dates that
    /// do not exist.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        let (date, time) = match text.split_once([' ', 'T']) {
            Some((date, time)) => (date, Some(time)),
            None => (text, None),
        };
        let mut parts = date.split('-').map(digits);
        let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
        if parts.next().is_some() {
            return None;
        }
        let day = epoch_day(year, month, day)?;
        let (of_day_us, has_fraction) = match time {
            Some(time) => {
                let is_clock = time.contains(':') && !time.starts_with('-');
                let of_day_us = parse_time(time).filter(|us| is_clock && *us < DAY_US)?;
                (of_day_us, time.contains('.'))
            }
            None => (0, false),
        };
        let time_us = day * DAY_US + of_day_us;
        Some(Self { time_us, has_time: time.is_some(), has_fraction })
    }

    /// Returns the time that is `time_us` microseconds after 1970-01-01 00:00:00; `None` outside of the years 1 to 9999.
    pub(super) fn of_micros(time_us: i64) -> Option<Self> {
        Self { time_us, has_time: true, has_fraction: time_us.rem_euclid(SECOND_US) != 0 }.in_range()
    }

    fn in_range(self) -> Option<Self> {
        Date::EPOCH_DAYS.contains(&self.days()).then_some(self)
    }

    /// Returns the microseconds since 1970-01-01 00:00:00.
    pub(super) fn micros(self) -> i64 {
        self.time_us
    }

    /// Returns the days since 1970-01-01.
    pub(super) fn days(self) -> i64 {
        self.time_us.div_euclid(DAY_US)
    }

    /// Returns the fields.
    pub(super) fn fields(self) -> CalendarFields {
        let Date { year, month, day } = Date::from_epoch_day(self.days());
        let of_day_us = self.time_us.rem_euclid(DAY_US);
        let second = of_day_us / SECOND_US;
        CalendarFields {
            year: year.into(),
            month: month.into(),
            day: day.into(),
            hour: second / 3600,
            minute: second / 60 % 60,
            second: second % 60,
            micros: of_day_us % SECOND_US,
        }
    }

    /// Returns the time after a number of units; `None` outside of the years 1 to 9999. As on a server, a day beyond
    /// the end of a shorter month becomes the last day of that month.
    pub(super) fn after(self, count: i64, unit: TimeUnit) -> Option<Self> {
        let moved = match unit {
            TimeUnit::Micros(size_us) => {
                let has_time = self.has_time || size_us < DAY_US;
                let time_us = self.time_us.checked_add(count.checked_mul(size_us)?)?;
                let has_fraction = self.has_fraction || time_us.rem_euclid(SECOND_US) != 0;
                Self { time_us, has_time, has_fraction }
            }
            TimeUnit::Months(size) => {
                let fields = self.fields();
                let months = (fields.year * 12 + fields.month - 1).checked_add(count.checked_mul(size)?)?;
                let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
                let last_day = i64::from(date(year, month, 1)?.days_in_month());
                let day = epoch_day(year, month, fields.day.min(last_day))?;
                let of_day_us = self.time_us.rem_euclid(DAY_US);
                Self { time_us: day * DAY_US + of_day_us, ..self }
            }
        };
        moved.in_range()
    }

    /// Returns the number of whole units from this time to another.
    pub(super) fn units_until(self, end: Self, unit: TimeUnit) -> i64 {
        match unit {
            TimeUnit::Micros(size_us) => (end.time_us - self.time_us) / size_us,
            TimeUnit::Months(size) if end >= self => whole_months(self, end) / size,
            TimeUnit::Months(size) => -(whole_months(end, self) / size),
        }
    }

    /// Returns the time as text: only the date if it has no time.
    pub(super) fn to_text(self) -> String {
        match (self.has_time, self.has_fraction) {
            (false, _) => self.date_text(),
            (true, false) => format!("{} {}", self.date_text(), self.clock_text()),
            (true, true) => format!("{} {}.{:06}", self.date_text(), self.clock_text(), self.fields().micros),
        }
    }

    /// Returns `YYYY-MM-DD`.
    pub(super) fn date_text(self) -> String {
        let CalendarFields { year, month, day, .. } = self.fields();
        format!("{year:04}-{month:02}-{day:02}")
    }

    /// Returns `HH:MM:SS`.
    pub(super) fn clock_text(self) -> String {
        let CalendarFields { hour, minute, second, .. } = self.fields();
        format!("{hour:02}:{minute:02}:{second:02}")
    }

    /// Returns the time in a format of `DATE_FORMAT`; `None` for specifiers of weeks.
    pub(super) fn format(self, format: &str) -> Option<String> {
        let fields = self.fields();
        let weekday = (self.days() + 4).rem_euclid(7);
        let mut out = String::new();
        let mut letters = format.chars();
        while let Some(letter) = letters.next() {
            let specifier = match letter {
                '%' => letters.next(),
                _ => None,
            };
            match specifier {
                None => out.push(letter),
                Some(specifier) => out.push_str(&self.specified(specifier, fields, weekday)?),
            }
        }
        Some(out)
    }

    fn specified(self, specifier: char, fields: CalendarFields, weekday: i64) -> Option<String> {
        let CalendarFields { year, month, day, hour, minute, second, micros } = fields;
        let hour_of_12 = (hour + 11) % 12 + 1;
        let half = if hour < 12 { "AM" } else { "PM" };
        let weekday_name = WEEKDAYS[weekday as usize];
        let month_name = MONTHS[month as usize - 1];
        Some(match specifier {
            'Y' => format!("{year:04}"),
            'y' => format!("{:02}", year % 100),
            'm' => format!("{month:02}"),
            'c' => month.to_string(),
            'M' => month_name.to_owned(),
            'b' => month_name[..3].to_owned(),
            'd' => format!("{day:02}"),
            'e' => day.to_string(),
            'D' => format!("{day}{}", ordinal_suffix(day)),
            'j' => format!("{:03}", self.days() - epoch_day(year, 1, 1)? + 1),
            'W' => weekday_name.to_owned(),
            'a' => weekday_name[..3].to_owned(),
            'w' => weekday.to_string(),
            'H' => format!("{hour:02}"),
            'k' => hour.to_string(),
            'h' | 'I' => format!("{hour_of_12:02}"),
            'l' => hour_of_12.to_string(),
            'i' => format!("{minute:02}"),
            'S' | 's' => format!("{second:02}"),
            'f' => format!("{micros:06}"),
            'p' => half.to_owned(),
            'r' => format!("{hour_of_12:02}:{minute:02}:{second:02} {half}"),
            'T' => self.clock_text(),
            'U' | 'u' | 'V' | 'v' | 'X' | 'x' => return None,
            other => other.to_string(),
        })
    }
}

/// Reads `[-]HH:MM[:SS[.fraction]]` in microseconds. Returns `None` for other texts.
pub(super) fn parse_time(text: &str) -> Option<i64> {
    let text = text.trim();
    let (sign, text) = text.strip_prefix('-').map_or((1, text), |rest| (-1, rest));
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':').map(digits);
    let (hours, minutes, seconds) = (parts.next()??, parts.next()??, parts.next().unwrap_or(Some(0))?);
    if parts.next().is_some() || minutes > 59 || seconds > 59 || hours > 838 || fraction.len() > 6 {
        return None;
    }
    let micros = if fraction.is_empty() { 0 } else { digits(&format!("{fraction:0<6}"))? };
    Some(sign * (((hours * 60 + minutes) * 60 + seconds) * SECOND_US + micros))
}

/// Returns a duration as `[-]HH:MM:SS[.fraction]`, limited to the range of `TIME`. `digits` is the length of the fraction.
pub(super) fn time_text(time_us: i64, digits: usize) -> String {
    let time_us = time_us.clamp(-TIME_MAX_US, TIME_MAX_US);
    let sign = if time_us < 0 { "-" } else { "" };
    let (seconds, micros) = (time_us.abs() / SECOND_US, time_us.abs() % SECOND_US);
    let clock = format!("{sign}{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = format!("{micros:06}");
    if digits == 0 { clock } else { format!("{clock}.{}", &fraction[..digits.min(6)]) }
}

fn digits(text: &str) -> Option<i64> {
    let is_number = (1..=6).contains(&text.len()) && text.bytes().all(|digit| digit.is_ascii_digit());
    is_number.then(|| text.parse().ok()).flatten()
}

fn whole_months(start: SqlDateTime, end: SqlDateTime) -> i64 {
    let (from, to) = (start.fields(), end.fields());
    let months = (to.year - from.year) * 12 + to.month - from.month;
    let rest = |time: SqlDateTime, day: i64| (day, time.time_us.rem_euclid(DAY_US));
    months - i64::from(rest(end, to.day) < rest(start, from.day))
}

fn ordinal_suffix(day: i64) -> &'static str {
    match day {
        11..=13 => "th",
        _ => match day % 10 {
            1 => "st",
            2 => "nd",
            3 => "rd",
            _ => "th",
        },
    }
}

/// Returns the date of these numbers, as far as they fit; its month and day may be wrong.
fn date(year: i64, month: i64, day: i64) -> Option<Date> {
    let year = u16::try_from(year).ok().filter(|year| *year <= 9999)?;
    Some(Date { year, month: month.try_into().ok()?, day: day.try_into().ok()? })
}

/// Returns the days since 1970-01-01; `None` for dates that do not exist.
fn epoch_day(year: i64, month: i64, day: i64) -> Option<i64> {
    date(year, month, day)?.epoch_day()
}

#[cfg(test)]
mod tests {
    use super::{SqlDateTime, TimeUnit};

    #[test]
    fn intervals() {
        let check = |text: &str, count: i64, unit: &str, expected: Option<&str>| {
            let time = SqlDateTime::parse(text).and_then(|time| time.after(count, TimeUnit::of(unit)?));
            assert_eq!(time.map(SqlDateTime::to_text).as_deref(), expected, "{text} {count} {unit}");
        };
        check("2024-01-31", 1, "month", Some("2024-02-29"));
        check("2024-02-29", -1, "year", Some("2023-02-28"));
        check("2024-02-29", 1, "day", Some("2024-03-01"));
        check("2024-02-29", 90, "MINUTE", Some("2024-02-29 01:30:00"));
        check("2024-02-29 10:00:00.5", 1, "week", Some("2024-03-07 10:00:00.500000"));
        check("9999-12-31", 1, "day", None);
        check("0001-01-01", -1, "month", None);
        check("2024-02-29", i64::MAX, "year", None);
        check("2023-02-29", 1, "day", None);
    }
}
