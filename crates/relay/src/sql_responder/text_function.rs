//! Bodies of MySQL's functions of texts.

use regex::bytes::RegexBuilder;
use wire::ServerError;

use super::refusals::wrong_pattern;
use super::sql_function::{FunctionContext, FunctionResult};
use crate::sql_answer::SqlValue;

/// Maximum size of a text that functions make, in bytes: the limit of the engine.
const TEXT_SIZE_MAX: usize = 1 << 18;
/// Maximum memory of a compiled regular expression, in bytes.
const PATTERN_SIZE_MAX: usize = 1 << 20;

pub(super) fn substr(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let count = values.get(2).map_or(Some(f64::MAX), SqlValue::to_number);
    let (Some(text), Some(start), Some(count)) = (values[0].to_text(), values[1].to_number(), count) else {
        return Ok(SqlValue::Null);
    };
    let length = text.chars().count() as f64;
    let start = start.round();
    let skipped = if start > 0.0 { start - 1.0 } else { length + start };
    if start == 0.0 || skipped < 0.0 || count < 1.0 {
        return Ok("".into());
    }
    Ok(text.chars().skip(skipped as usize).take(count.round() as usize).collect::<String>().into())
}

pub(super) fn substring_index(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let (Some(text), Some(separator), Some(count)) =
        (values[0].to_text(), values[1].to_text(), values[2].to_number())
    else {
        return Ok(SqlValue::Null);
    };
    let count = count.round();
    if separator.is_empty() || count == 0.0 {
        return Ok("".into());
    }
    let skipped = count.abs() as usize - 1;
    let part = match count > 0.0 {
        true => text.match_indices(&separator).nth(skipped).map(|(at, _)| &text[..at]),
        false => text.rmatch_indices(&separator).nth(skipped).map(|(at, _)| &text[at + separator.len()..]),
    };
    Ok(part.unwrap_or(&text).into())
}

/// `LOCATE(part, text[, start])`
pub(super) fn locate(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let start = values.get(2).map_or(Some(1.0), SqlValue::to_number);
    Ok(position(&values[1], &values[0], start))
}

/// `INSTR(text, part)`
pub(super) fn instr(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(position(&values[0], &values[1], Some(1.0)))
}

pub(super) fn field(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let are_texts = values.iter().all(|value| matches!(value, SqlValue::Text(_)));
    let is_equal = |value: &SqlValue| match are_texts {
        true => lower(value) == lower(&values[0]),
        false => value.to_number() == values[0].to_number(),
    };
    let found = values[1..].iter().position(is_equal).filter(|_| values[0] != SqlValue::Null);
    Ok(SqlValue::Int(found.map_or(0, |at| at as i64 + 1)))
}

pub(super) fn find_in_set(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let (Some(part), Some(set)) = (lower(&values[0]), lower(&values[1])) else { return Ok(SqlValue::Null) };
    let found = set.split(',').position(|member| member == part).filter(|_| !set.is_empty());
    Ok(SqlValue::Int(found.map_or(0, |at| at as i64 + 1)))
}

pub(super) fn strcmp(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let compared = lower(&values[0]).zip(lower(&values[1])).map(|(one, other)| one.cmp(&other) as i64);
    Ok(compared.map_or(SqlValue::Null, SqlValue::Int))
}

pub(super) fn concat_ws(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let Some(separator) = values[0].to_text() else { return Ok(SqlValue::Null) };
    let parts: Vec<String> = values[1..].iter().filter_map(SqlValue::to_text).collect();
    Ok(limited(parts.join(&separator)))
}

pub(super) fn trim(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(values[0].to_text().map(|text| text.trim_matches(' ').to_owned()).into())
}

pub(super) fn ltrim(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(values[0].to_text().map(|text| text.trim_start_matches(' ').to_owned()).into())
}

pub(super) fn rtrim(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(values[0].to_text().map(|text| text.trim_end_matches(' ').to_owned()).into())
}

pub(super) fn reverse(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    Ok(values[0].to_text().map(|text| text.chars().rev().collect::<String>()).into())
}

pub(super) fn regexp_like(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let Some((text, pattern)) = values[0].to_text().zip(values[1].to_text()) else {
        return Ok(SqlValue::Null);
    };
    is_match(&text, &pattern).map(|is_match| SqlValue::Int(is_match.into()))
}

/// `CAST(text AS CHAR(length))`
pub(super) fn cast_char(_: &FunctionContext, values: &[SqlValue]) -> FunctionResult {
    let length = values[1].to_number().map_or(usize::MAX, |length| length as usize);
    Ok(values[0].to_text().map(|text| text.chars().take(length).collect::<String>()).into())
}

/// Returns whether a text contains a match of a regular expression, ignoring the case of ASCII letters.
///
/// # Errors
///
/// Fails if the pattern is not a regular expression.
pub(crate) fn is_match(text: &str, pattern: &str) -> Result<bool, ServerError> {
    let mut builder = RegexBuilder::new(pattern);
    let builder = builder.case_insensitive(true).unicode(false).size_limit(PATTERN_SIZE_MAX);
    let regex = builder.build().map_err(|_| wrong_pattern())?;
    Ok(regex.is_match(text.as_bytes()))
}

/// Returns the texts joined; NULL if a value is NULL, or the result is too long.
pub(super) fn joined(values: &[SqlValue]) -> SqlValue {
    values.iter().map(SqlValue::to_text).collect::<Option<String>>().map_or(SqlValue::Null, limited)
}

fn limited(text: String) -> SqlValue {
    if text.len() > TEXT_SIZE_MAX { SqlValue::Null } else { text.into() }
}

/// Returns the position of a part in a text, from 1; 0 if there is none. Ignores case.
fn position(text: &SqlValue, part: &SqlValue, start: Option<f64>) -> SqlValue {
    let (Some(text), Some(part), Some(start)) = (lower(text), lower(part), start) else {
        return SqlValue::Null;
    };
    let length = text.chars().count() as f64;
    if start < 1.0 || start > length + 1.0 {
        return SqlValue::Int(0);
    }
    let skipped = text.char_indices().nth(start as usize - 1).map_or(text.len(), |(at, _)| at);
    let found = text[skipped..].find(&part).map(|at| text[..skipped + at].chars().count() as i64 + 1);
    SqlValue::Int(found.unwrap_or(0))
}

fn lower(value: &SqlValue) -> Option<String> {
    value.to_text().map(|text| text.to_lowercase())
}
