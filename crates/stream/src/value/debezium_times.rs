//! Dates and times in Debezium's forms.

use binlog::{Date, DateTime, Time, Timestamp};
use sql::numbers::{put_i64, put_padded};

use crate::json_writer::put_quoted;
use crate::table_plan::ColumnPlan;
use crate::value_modes::TimeMode;

/// Microseconds of a day.
const DAY_MICROS: i64 = 86_400_000_000;

/// Appends a DATE; for an invalid one NULL, or 1970-01-01 if the column is NOT NULL.
pub(crate) fn put_date(out: &mut Vec<u8>, column: &ColumnPlan, date: Date) {
    let Some(day) = or_epoch(column, date.epoch_day()) else { return put_null(out) };
    match (column.modes.times, day) {
        (TimeMode::IsoString, 0) => out.extend_from_slice(b"\"1970-01-01Z\""),
        (TimeMode::IsoString, _) => put_quoted(out, |out| {
            date.write(out);
            out.push(b'Z');
        }),
        _ => put_i64(out, day),
    }
}

/// Appends a TIME. Two forms have only times of a day: for another time NULL, or 0 if the column is NOT NULL.
pub(crate) fn put_time(out: &mut Vec<u8>, column: &ColumnPlan, time: &Time) {
    let micros = time.total_micros();
    let in_day = || or_epoch(column, (0..=DAY_MICROS).contains(&micros).then_some(micros));
    match column.modes.times {
        TimeMode::AdaptiveTimeMicroseconds | TimeMode::Microseconds => put_i64(out, micros),
        TimeMode::Nanoseconds => put_i64(out, micros.wrapping_mul(1000)),
        TimeMode::Connect => match in_day() {
            Some(micros) => put_i64(out, micros / 1000),
            None => put_null(out),
        },
        TimeMode::IsoString => match in_day() {
            Some(micros) => put_quoted(out, |out| put_iso_clock(out, micros % DAY_MICROS)),
            None => put_null(out),
        },
    }
}

/// Appends a DATETIME; for an invalid one NULL, or 1970-01-01 if the column is NOT NULL.
pub(crate) fn put_datetime(out: &mut Vec<u8>, column: &ColumnPlan, moment: &DateTime) {
    let Some(micros) = or_epoch(column, moment.epoch_micros()) else { return put_null(out) };
    match column.modes.times {
        TimeMode::AdaptiveTimeMicroseconds if moment.fraction > 3 => put_i64(out, micros),
        TimeMode::AdaptiveTimeMicroseconds | TimeMode::Connect => put_i64(out, micros.div_euclid(1000)),
        TimeMode::Microseconds => put_i64(out, micros),
        // Like the connector, it overflows before 1677 and after 2262.
        TimeMode::Nanoseconds => put_i64(out, micros.wrapping_mul(1000)),
        TimeMode::IsoString => put_quoted(out, |out| {
            match micros {
                0 => out.extend_from_slice(b"1970-01-01"),
                _ => moment.date.write(out),
            }
            out.push(b'T');
            put_iso_clock(out, micros.rem_euclid(DAY_MICROS));
        }),
    }
}

/// Appends `"2026-11-21T10:20:30.5Z"`; the zero date becomes 1970-01-01.
pub(crate) fn put_timestamp(out: &mut Vec<u8>, moment: &Timestamp) {
    let utc = moment.to_utc();
    out.push(b'"');
    match utc.date.month {
        0 => out.extend_from_slice(b"1970-01-01"),
        _ => utc.date.write(out),
    }
    for (sign, number) in [(b'T', utc.hour), (b':', utc.minute), (b':', utc.second)] {
        out.push(sign);
        put_padded(out, u64::from(number), 2);
    }
    let digits = usize::from(utc.fraction.min(6));
    if digits > 0 {
        out.push(b'.');
        put_padded(out, u64::from(utc.micros / 10_u32.pow(6 - digits as u32)), digits);
    }
    out.extend_from_slice(b"Z\"");
}

/// Appends the time of a day, with as few fractional digits as it has: `10:20:30.5Z`.
fn put_iso_clock(out: &mut Vec<u8>, micros: i64) {
    let seconds = (micros / 1_000_000).unsigned_abs();
    put_padded(out, seconds / 3600, 2);
    for number in [seconds / 60 % 60, seconds % 60] {
        out.push(b':');
        put_padded(out, number, 2);
    }
    let fraction = (micros % 1_000_000).unsigned_abs();
    if fraction > 0 {
        out.push(b'.');
        put_padded(out, fraction, 6);
        let zeros = out.iter().rev().take_while(|byte| **byte == b'0').count();
        out.truncate(out.len() - zeros);
    }
    out.push(b'Z');
}

/// Returns the number; without one, 0 for a column that is NOT NULL.
fn or_epoch(column: &ColumnPlan, number: Option<i64>) -> Option<i64> {
    number.or_else(|| (!column.nullable).then_some(0))
}

fn put_null(out: &mut Vec<u8>) {
    out.extend_from_slice(b"null");
}
