//! Values as Debezium's MySQL connector writes them.

use binlog::{BitValue, GeometryValue, Value};
use sql::numbers::{put_i64, put_u32, put_u64};

use crate::error::CorruptEvent;
use crate::json_document::put_document;
use crate::json_writer::{put_base64, put_escaped, put_float, put_quoted};
use crate::table_plan::ColumnPlan;
use crate::unscaled_decimal::{unscaled_from_text, unscaled_integer};
use crate::value::debezium_times::{put_date, put_datetime, put_time, put_timestamp};
use crate::value::{BytesKind, ValueBuffers, put_bytes, put_compressed, put_enum, put_text, set_texts};
use crate::value_modes::{DecimalMode, UnsignedBigintMode};

/// Appends a value.
pub(crate) fn put(
    out: &mut Vec<u8>,
    column: &ColumnPlan,
    value: &Value<'_>,
    buffers: &mut ValueBuffers,
) -> Result<(), CorruptEvent> {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Int(number) => put_i64(out, *number),
        Value::UInt(number) => put_unsigned(out, column, *number),
        Value::Float(number) => put_float(out, *number),
        Value::Double(number) => put_float(out, *number),
        Value::Text(text) => put_text(out, column, text),
        Value::Bytes(bytes) => put_bytes(out, column, BytesKind::of(column), bytes, buffers),
        Value::Decimal(decimal) => {
            let ValueBuffers { text, bytes } = buffers;
            text.clear();
            decimal.write(text);
            put_decimal(out, column, text, bytes);
        }
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
        Value::Date(date) => put_date(out, column, *date),
        Value::Time(time) => put_time(out, column, time),
        Value::DateTime(moment) => put_datetime(out, column, moment),
        Value::Timestamp(moment) => put_timestamp(out, moment),
        Value::Year(year) => put_u32(out, u32::from(*year)),
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

fn put_unsigned(out: &mut Vec<u8>, column: &ColumnPlan, number: u64) {
    match column.modes.unsigned_bigints {
        UnsignedBigintMode::Precise if column.is_bigint => {
            unscaled_integer(number, |bytes| put_base64(out, bytes));
        }
        // Values that do not fit become negative.
        _ => put_i64(out, number as i64),
    }
}

/// Appends a decimal, given as text.
pub(crate) fn put_decimal(out: &mut Vec<u8>, column: &ColumnPlan, text: &[u8], bytes: &mut Vec<u8>) {
    match column.modes.decimals {
        DecimalMode::Precise => put_base64(out, unscaled_from_text(text, bytes)),
        DecimalMode::Text => put_quoted(out, |out| out.extend_from_slice(text)),
        DecimalMode::Double => {
            let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
            put_float(out, number.unwrap_or(f64::NAN));
        }
    }
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
        put_u64(out, bits);
        return Ok(());
    }
    out.push(b'"');
    for (index, text) in set_texts(column, bits).enumerate() {
        let text = text?;
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
        Some(srid) => put_u32(out, srid),
    }
    out.push(b'}');
}
