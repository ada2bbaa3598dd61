//! Values as Debezium's MySQL connector writes them with its default settings.

use binlog::{BitValue, GeometryValue, Timestamp, Value};

use crate::epoch::{epoch_day, epoch_micros, time_micros};
use crate::error::CorruptEvent;
use crate::json_document::put_document;
use crate::json_writer::{put_base64, put_digits, put_escaped, put_float, put_integer};
use crate::table_plan::ColumnPlan;
use crate::unscaled_decimal::unscaled;
use crate::value::{ValueBuffers, put_bytes, put_compressed, put_enum, put_text, set_texts};

/// Appends a value.
pub(crate) fn put(
    out: &mut Vec<u8>,
    column: &ColumnPlan,
    value: &Value<'_>,
    buffers: &mut ValueBuffers,
) -> Result<(), CorruptEvent> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Int(number) => put_integer(out, *number),
        // `bigint.unsigned.handling.mode=long`: values that do not fit become negative.
        Value::UInt(number) => put_integer(out, *number as i64),
        Value::Float(number) => put_float(out, *number),
        Value::Double(number) => put_float(out, *number),
        Value::Text(text) => put_text(out, column, text),
        Value::Bytes(bytes) => put_bytes(out, is_binary(column), bytes, buffers),
        Value::Decimal(decimal) => put_base64(out, unscaled(decimal, &mut buffers.unscaled)),
        Value::Enum(number) => put_enum(out, column, *number)?,
        Value::Set(bits) => put_set(out, column, *bits)?,
        Value::Json(json) => put_json(out, json.bytes(), buffers)?,
        _ => put_rare(out, column, value, buffers)?,
    }
    Ok(())
}

fn put_rare(
    out: &mut Vec<u8>,
    column: &ColumnPlan,
    value: &Value<'_>,
    buffers: &mut ValueBuffers,
) -> Result<(), CorruptEvent> {
    match value {
        Value::Date(date) => put_epoch(out, column, epoch_day(*date)),
        Value::Time(time) => put_integer(out, time_micros(time)),
        Value::DateTime(moment) => {
            let unit = if moment.fraction > 3 { 1 } else { 1000 };
            put_epoch(out, column, epoch_micros(moment).map(|micros| micros.div_euclid(unit)));
        }
        Value::Timestamp(moment) => put_zoned(out, moment),
        Value::Year(year) => put_integer(out, *year),
        Value::Bit(bit) => put_bit(out, bit),
        Value::Geometry(geometry) => put_geometry(out, column, geometry),
        Value::Vector(vector) => {
            out.push(b'[');
            for (index, number) in vector.iter().enumerate() {
                if index > 0 {
                    out.push(b',');
                }
                put_float(out, number);
            }
            out.push(b']');
        }
        Value::Compressed(value) => put_compressed(out, column, value, buffers)?,
        _ => out.extend_from_slice(b"null"),
    }
    Ok(())
}

fn is_binary(column: &ColumnPlan) -> bool {
    column.charset == binlog::Charset::Binary
}

/// Appends a date or time; for an invalid one NULL, or 0 if the column is NOT NULL.
fn put_epoch(out: &mut Vec<u8>, column: &ColumnPlan, number: Option<i64>) {
    match number {
        Some(number) => put_integer(out, number),
        None if column.nullable => out.extend_from_slice(b"null"),
        None => out.push(b'0'),
    }
}

/// Appends `"2026-11-21T10:20:30.5Z"`; the zero date becomes 1970-01-01.
fn put_zoned(out: &mut Vec<u8>, moment: &Timestamp) {
    let utc = moment.to_utc();
    out.push(b'"');
    match utc.date.month {
        0 => out.extend_from_slice(b"1970-01-01"),
        _ => utc.date.write(out),
    }
    for (sign, number) in [(b'T', utc.hour), (b':', utc.minute), (b':', utc.second)] {
        out.push(sign);
        put_digits(out, u32::from(number), 2);
    }
    let digits = usize::from(utc.fraction.min(6));
    if digits > 0 {
        out.push(b'.');
        put_digits(out, utc.micros / 10_u32.pow(6 - digits as u32), digits);
    }
    out.extend_from_slice(b"Z\"");
}

fn put_bit(out: &mut Vec<u8>, bit: &BitValue) {
    match (bit.bits, bit.value) {
        (1, 0) => out.extend_from_slice(b"false"),
        (1, _) => out.extend_from_slice(b"true"),
        (bits, value) => put_base64(out, &value.to_le_bytes()[..usize::from(bits.div_ceil(8)).min(8)]),
    }
}

fn put_set(out: &mut Vec<u8>, column: &ColumnPlan, bits: u64) -> Result<(), CorruptEvent> {
    if column.texts.is_empty() {
        put_integer(out, bits);
        return Ok(());
    }
    out.push(b'"');
    for (index, text) in set_texts(column, bits)?.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        // Without the quotes.
        out.extend_from_slice(&text[1..text.len() - 1]);
    }
    out.push(b'"');
    Ok(())
}

/// Appends a document as a string that contains JSON.
pub(crate) fn put_json(
    out: &mut Vec<u8>,
    document: &[u8],
    buffers: &mut ValueBuffers,
) -> Result<(), CorruptEvent> {
    let mut text = std::mem::take(&mut buffers.text);
    text.clear();
    let put = put_document(&mut text, document, &mut buffers.bytes);
    if put.is_ok() {
        out.push(b'"');
        put_escaped(out, &text);
        out.push(b'"');
    }
    buffers.text = text;
    Ok(put?)
}

// size  field (of a point)
//    1  1: little-endian
//    4  1: a point
//    8  x
//    8  y
fn put_geometry(out: &mut Vec<u8>, column: &ColumnPlan, geometry: &GeometryValue<'_>) {
    let wkb = geometry.wkb().unwrap_or_default();
    out.push(b'{');
    if column.is_point
        && let Some(([1, 1, 0, 0, 0], numbers)) = wkb.split_first_chunk()
        && let ([x, y], []) = numbers.as_chunks()
    {
        out.extend_from_slice(b"\"x\":");
        put_float(out, f64::from_le_bytes(*x));
        out.extend_from_slice(b",\"y\":");
        put_float(out, f64::from_le_bytes(*y));
        out.push(b',');
    }
    out.extend_from_slice(b"\"wkb\":");
    put_base64(out, wkb);
    out.extend_from_slice(b",\"srid\":");
    match geometry.srid() {
        None | Some(0) => out.extend_from_slice(b"null"),
        Some(srid) => put_integer(out, srid),
    }
    out.push(b'}');
}
