//! Bodies of MySQL's functions of numbers, and conversions to numbers.

use std::cmp::Ordering;

use super::refusals::unsupported;
use super::sql_function::{FunctionContext, FunctionResult};
use crate::sql_answer::SqlValue;

/// Maximum number of digits after the point in `ROUND` and `FORMAT`.
const DIGITS_MAX: f64 = 30.0;

pub(super) fn ceiling(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(whole(&values[0], f64::ceil))
}

pub(super) fn floor(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(whole(&values[0], f64::floor))
}

pub(super) fn modulo(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(match (&values[0], &values[1]) {
        (SqlValue::Int(_), SqlValue::Int(0)) => SqlValue::Null,
        (SqlValue::Int(number), SqlValue::Int(divisor)) => SqlValue::Int(number.wrapping_rem(*divisor)),
        (number, divisor) => match (number.to_number(), divisor.to_number()) {
            (Some(number), Some(divisor)) if divisor != 0.0 => SqlValue::Double(number % divisor),
            _ => SqlValue::Null,
        },
    })
}

pub(super) fn power(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(match (values[0].to_number(), values[1].to_number()) {
        (Some(base), Some(exponent)) => SqlValue::Double(base.powf(exponent)),
        _ => SqlValue::Null,
    })
}

pub(super) fn sign(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let sign = |number: f64| i64::from(number > 0.0) - i64::from(number < 0.0);
    Ok(values[0].to_number().map_or(SqlValue::Null, |number| SqlValue::Int(sign(number))))
}

pub(super) fn round(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(with_digits(values, f64::round))
}

pub(super) fn truncate(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(with_digits(values, f64::trunc))
}

pub(super) fn format(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let [Some(number), Some(digits)] = [values[0].to_number(), values[1].to_number()] else {
        return Ok(SqlValue::Null);
    };
    let digits = digits.round().clamp(0.0, DIGITS_MAX) as usize;
    let text = std::format!("{:.digits$}", rounded(number, digits as i32, f64::round).abs());
    let (whole, fraction) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut out = String::new();
    out.push_str(if number < 0.0 && text.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) {
        "-"
    } else {
        ""
    });
    for (at, digit) in whole.chars().enumerate() {
        out.push_str(if at > 0 && (whole.len() - at).is_multiple_of(3) { "," } else { "" });
        out.push(digit);
    }
    out.push_str(fraction);
    Ok(out.into())
}

pub(super) fn hex(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(match &values[0] {
        SqlValue::Null => SqlValue::Null,
        SqlValue::Text(text) => {
            text.bytes().map(|byte| std::format!("{byte:02X}")).collect::<String>().into()
        }
        SqlValue::UInt(number) => std::format!("{number:X}").into(),
        number => std::format!("{:X}", to_integer(number)).into(),
    })
}

pub(super) fn greatest(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(extreme(values, Ordering::Greater))
}

pub(super) fn least(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(extreme(values, Ordering::Less))
}

pub(super) fn cast_signed(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(match &values[0] {
        SqlValue::Null => SqlValue::Null,
        value => SqlValue::Int(to_integer(value)),
    })
}

pub(super) fn cast_unsigned(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    match &values[0] {
        SqlValue::Null => Ok(SqlValue::Null),
        value => match to_integer(value) {
            number @ 0.. => Ok(SqlValue::Int(number)),
            // The engine has no larger integers.
            _ => Err(unsupported("CAST of negative or large numbers AS UNSIGNED")),
        },
    }
}

pub(super) fn cast_decimal(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let digits = values[1].to_number().unwrap_or(0.0).clamp(0.0, DIGITS_MAX) as i32;
    Ok(values[0].to_number().map_or(SqlValue::Null, |number| match rounded(number, digits, f64::round) {
        number if digits == 0 && number.abs() < 9e15 => SqlValue::Int(number as i64),
        number => SqlValue::Double(number),
    }))
}

/// Returns the integer in a value: a number rounded, the digits at the start of a text.
fn to_integer(value: &SqlValue) -> i64 {
    match value {
        SqlValue::Int(number) => *number,
        SqlValue::UInt(number) => *number as i64,
        SqlValue::Double(number) => number.round() as i64,
        SqlValue::Text(text) => {
            let text = text.trim_start();
            let sign = usize::from(text.starts_with(['-', '+']));
            let digits = text[sign..].bytes().take_while(u8::is_ascii_digit).count();
            text[..sign + digits].parse().unwrap_or(match (digits, text.starts_with('-')) {
                (0, _) => 0,
                (_, true) => i64::MIN,
                (_, false) => i64::MAX,
            })
        }
        SqlValue::Null => 0,
    }
}

fn whole(value: &SqlValue, round: fn(f64) -> f64) -> SqlValue {
    match value {
        SqlValue::Int(_) | SqlValue::UInt(_) | SqlValue::Null => value.clone(),
        value => {
            let number = round(value.to_number().unwrap_or(0.0));
            if number.abs() < 9e15 { SqlValue::Int(number as i64) } else { SqlValue::Double(number) }
        }
    }
}

fn with_digits(values: &[SqlValue], round: fn(f64) -> f64) -> SqlValue {
    let digits = match values.get(1) {
        Some(digits) => digits.to_number(),
        None => Some(0.0),
    };
    match (&values[0], digits) {
        (SqlValue::Null, _) | (_, None) => SqlValue::Null,
        (SqlValue::Int(_) | SqlValue::UInt(_), Some(digits)) if digits >= 0.0 => values[0].clone(),
        (value, Some(digits)) => {
            let digits = digits.clamp(-DIGITS_MAX, DIGITS_MAX) as i32;
            let number = rounded(value.to_number().unwrap_or(0.0), digits, round);
            let is_integer = digits <= 0 && number.abs() < 9e15;
            if is_integer { SqlValue::Int(number as i64) } else { SqlValue::Double(number) }
        }
    }
}

/// Returns a number rounded at a decimal digit. Uses the shortest decimal text of the number, as MySQL does for literals.
fn rounded(number: f64, digits: i32, round: fn(f64) -> f64) -> f64 {
    let shifted: Result<f64, _> =
        std::format!("{number:e}").split_once('e').map_or(Ok(number), |(mantissa, exponent)| {
            let exponent: i32 = exponent.parse().unwrap_or(0);
            std::format!("{mantissa}e{}", exponent + digits).parse()
        });
    match shifted.map(round) {
        Ok(whole) if whole.is_finite() && whole.abs() < 9e15 => {
            std::format!("{whole}e{}", -digits).parse().unwrap_or(number)
        }
        _ => number,
    }
}

/// Returns the largest or the smallest value: of numbers as numbers, otherwise as texts without case.
fn extreme(values: &[SqlValue], direction: Ordering) -> SqlValue {
    if values.contains(&SqlValue::Null) {
        return SqlValue::Null;
    }
    let are_numbers = !values.iter().any(|value| matches!(value, SqlValue::Text(_)));
    let compare = |one: &SqlValue, other: &SqlValue| match are_numbers {
        true => one.to_number().partial_cmp(&other.to_number()).unwrap_or(Ordering::Equal),
        false => lower(one).cmp(&lower(other)),
    };
    let pick =
        |best: SqlValue, value: SqlValue| if compare(&value, &best) == direction { value } else { best };
    values.iter().cloned().reduce(pick).unwrap_or(SqlValue::Null)
}

fn lower(value: &SqlValue) -> String {
    value.to_text().unwrap_or_default().to_lowercase()
}
