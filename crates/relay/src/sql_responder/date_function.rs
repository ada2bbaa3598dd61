//! Bodies of MySQL's functions of dates and times. All times are in UTC.

use wire::ServerError;

use super::date_time::{CalendarFields, SqlDateTime, TimeUnit, parse_time, time_text};
use super::refusals::unsupported;
use super::sql_function::{FunctionContext, FunctionResult};
use crate::sql_answer::SqlValue;

pub(super) fn date(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(time_of(&values[0]).map(|time| time.date_text()).into())
}

pub(super) fn time(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(time_of(&values[0]).filter(|time| time.has_time).map(|time| time.clock_text()).into())
}

pub(super) fn cast_datetime(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let whole = |time: SqlDateTime| {
        // A server rounds the fraction.
        let seconds = (time.micros() + 500_000).div_euclid(1_000_000);
        SqlDateTime::of_micros(seconds * 1_000_000).map(SqlDateTime::to_text)
    };
    Ok(time_of(&values[0]).and_then(whole).into())
}

/// `YEAR`, `MONTH`, `DAY`, `HOUR`, `MINUTE`, `SECOND`, `MICROSECOND`
pub(super) fn part(values: &[SqlValue], part: fn(CalendarFields) -> i64) -> FunctionResult {
    Ok(time_of(&values[0]).map_or(SqlValue::Null, |time| SqlValue::Int(part(time.fields()))))
}

/// `DAYOFWEEK`: 1 is Sunday.
pub(super) fn day_of_week(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(time_of(&values[0]).map_or(SqlValue::Null, |time| SqlValue::Int((time.days() + 4).rem_euclid(7) + 1)))
}

pub(super) fn date_format(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    formatted(time_of(&values[0]), &values[1])
}

pub(super) fn date_add(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    moved(&values[0], &values[1], &values[2], 1)
}

pub(super) fn date_sub(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    moved(&values[0], &values[1], &values[2], -1)
}

/// `TIMESTAMPADD(unit, count, time)`
pub(super) fn timestamp_add(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    moved(&values[2], &values[1], &values[0], 1)
}

pub(super) fn timestamp_diff(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let unit = unit_of(&values[0])?;
    let times = time_of(&values[1]).zip(time_of(&values[2]));
    Ok(times.map_or(SqlValue::Null, |(start, end)| SqlValue::Int(start.units_until(end, unit))))
}

pub(super) fn date_diff(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let times = time_of(&values[0]).zip(time_of(&values[1]));
    Ok(times.map_or(SqlValue::Null, |(end, start)| SqlValue::Int(end.days() - start.days())))
}

pub(super) fn time_diff(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let texts = values[0].to_text().zip(values[1].to_text());
    let Some((end, start)) = texts else { return Ok(SqlValue::Null) };
    let digits = [&end, &start].map(|text| text.trim().split_once('.').map_or(0, |(_, digits)| digits.len()));
    let digits = digits[0].max(digits[1]);
    let date_times = SqlDateTime::parse(&end).zip(SqlDateTime::parse(&start));
    let difference_us = match date_times {
        Some((end, start)) if end.has_time && start.has_time => Some(end.micros() - start.micros()),
        Some(_) => None,
        None => parse_time(&end).zip(parse_time(&start)).map(|(end, start)| end - start),
    };
    Ok(difference_us.map(|difference_us| time_text(difference_us, digits)).into())
}

pub(super) fn unix_timestamp(context: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let Some(value) = values.first() else { return Ok((context.now_us / 1_000_000).into()) };
    Ok(match (value, time_of(value)) {
        (SqlValue::Null, _) => SqlValue::Null,
        (_, Some(time)) if time.micros() >= 0 && time.has_fraction => {
            SqlValue::Double(time.micros() as f64 / 1e6)
        }
        (_, Some(time)) => SqlValue::Int(time.micros().max(0) / 1_000_000),
        (_, None) => SqlValue::Int(0),
    })
}

pub(super) fn from_unixtime(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    // 3001-01-18 23:59:59, the last time of a server.
    let range = 0.0..=32_536_771_199.0;
    let time = match &values[0] {
        SqlValue::Int(seconds) => Some(*seconds as f64).filter(|seconds| range.contains(seconds)),
        value => value.to_number().filter(|seconds| range.contains(seconds)),
    };
    let time = time.and_then(|seconds| SqlDateTime::of_micros((seconds * 1e6).round() as i64));
    match values.get(1) {
        Some(format) => formatted(time, format),
        None => Ok(time.map(SqlDateTime::to_text).into()),
    }
}

fn time_of(value: &SqlValue) -> Option<SqlDateTime> {
    match value {
        SqlValue::Text(text) => SqlDateTime::parse(text),
        _ => None,
    }
}

fn formatted(time: Option<SqlDateTime>, format: &SqlValue) -> FunctionResult {
    let Some((time, format)) = time.zip(format.to_text()) else { return Ok(SqlValue::Null) };
    time.format(&format).map(SqlValue::from).ok_or_else(|| unsupported("weeks in DATE_FORMAT"))
}

fn unit_of(unit: &SqlValue) -> Result<TimeUnit, ServerError> {
    unit.to_text().and_then(|name| TimeUnit::of(&name)).ok_or_else(|| unsupported("this unit of time"))
}

fn moved(time: &SqlValue, count: &SqlValue, unit: &SqlValue, sign: i64) -> FunctionResult {
    let unit = unit_of(unit)?;
    let Some(count) = count.to_number() else { return Ok(SqlValue::Null) };
    // The bounds keep the negated number in range; the time would be out of range anyway.
    let count = sign * count.round().clamp(-9e18, 9e18) as i64;
    Ok(time_of(time).and_then(|time| time.after(count, unit)).map(SqlDateTime::to_text).into())
}
