//! Dates and times as numbers since 1970.

use binlog::{Date, DateTime, Time};

/// Returns the days from 1970-01-01 to a date. `None` for an invalid date: MySQL allows 0000-00-00, and others
/// depending on `sql_mode`.
#[inline]
pub fn epoch_day(date: Date) -> Option<i64> {
    // Numbers of 32 bits: divisions of wider ones take longer.
    let (year, month, day) = (u32::from(date.year), u32::from(date.month), u32::from(date.day));
    let is_one = year >= 1 && (1..=12).contains(&month) && (1..=days_in_month(year, month)).contains(&day);
    is_one.then(|| {
        // In years that start in March, the leap day comes last, so that one formula fits all months.
        let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let (era, year_of_era) = (year / 400, year % 400);
        let day_of_year = (153 * month + 2) / 5 + day - 1;
        let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        i64::from(days) - 719_468
    })
}

#[inline]
fn days_in_month(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Returns the microseconds from 1970-01-01 to a date and time, taken as UTC. `None` if it is invalid.
pub fn epoch_micros(moment: &DateTime) -> Option<i64> {
    let is_one = moment.hour < 24 && moment.minute < 60 && moment.second < 60;
    let seconds = i64::from(moment.hour) * 3600 + i64::from(moment.minute) * 60 + i64::from(moment.second);
    let day = epoch_day(moment.date).filter(|_| is_one)?;
    Some((day * 86_400 + seconds) * 1_000_000 + i64::from(moment.micros))
}

/// Returns a duration in microseconds.
pub fn time_micros(time: &Time) -> i64 {
    let seconds = i64::from(time.hours) * 3600 + i64::from(time.minutes) * 60 + i64::from(time.seconds);
    let micros = seconds * 1_000_000 + i64::from(time.micros);
    if time.negative { -micros } else { micros }
}

#[cfg(test)]
mod tests {
    use binlog::{Date, DateTime, Time};

    use super::{epoch_day, epoch_micros, time_micros};

    #[test]
    fn days() {
        let check = |year, month, day, expected| assert_eq!(epoch_day(Date { year, month, day }), expected);
        check(1970, 1, 1, Some(0));
        check(1969, 12, 31, Some(-1));
        check(2000, 2, 29, Some(11_016));
        check(1900, 2, 29, None);
        check(2026, 2, 29, None);
        check(1000, 1, 1, Some(-354_285));
        check(9999, 12, 31, Some(2_932_896));
        check(0, 1, 1, None);
        check(2026, 0, 1, None);
        check(2026, 1, 0, None);
        check(2026, 13, 1, None);
    }

    #[test]
    fn moments() {
        let date = Date { year: 1000, month: 1, day: 1 };
        let moment = DateTime { date, micros: 123_456, fraction: 6, ..DateTime::default() };
        assert_eq!(epoch_micros(&moment), Some(-30_610_223_999_876_544));
        assert_eq!(epoch_micros(&DateTime { hour: 24, ..moment }), None);
        let time = Time { negative: true, hours: 838, minutes: 59, seconds: 59, micros: 0, fraction: 0 };
        assert_eq!(time_micros(&time), -3_020_399_000_000);
    }
}
