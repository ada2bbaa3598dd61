//! Values as Maxwell writes them.

use binlog::{DateTime, GeometryValue, Value};
use sql::numbers::{put_i64, put_u32, put_u64};

use crate::error::CorruptEvent;
use crate::geometry::put_wkt;
use crate::json_document::put_document;
use crate::json_writer::{put_base64, put_float, put_quoted};
use crate::table_plan::ColumnPlan;
use crate::value::{BytesKind, ValueBuffers, put_bytes, put_compressed, put_enum, put_text, set_texts};

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
        Value::UInt(number) => put_u64(out, *number),
        Value::Float(number) => put_float(out, *number),
        Value::Double(number) => put_float(out, *number),
        Value::Text(text) => put_text(out, column, text),
        Value::Bytes(bytes) => put_bytes(out, column, BytesKind::of(column), bytes, buffers),
        Value::Decimal(decimal) => decimal.write(out),
        Value::Enum(number) => put_enum(out, column, *number)?,
        Value::Set(bits) => put_set(out, column, *bits)?,
        Value::Json(json) => put_document(out, json.bytes(), &mut buffers.bytes)?,
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
        Value::Date(date) => put_quoted(out, |out| date.write(out)),
        Value::Time(time) => put_quoted(out, |out| time.write(out)),
        Value::DateTime(moment) => put_moment(out, moment),
        Value::Timestamp(moment) => put_moment(out, &moment.to_utc()),
        Value::Year(year) => put_u32(out, u32::from(*year)),
        Value::Bit(bit) => put_u64(out, bit.value),
        Value::Geometry(geometry) => put_geometry(out, geometry),
        Value::Vector(vector) => put_base64(out, vector.bytes),
        Value::Compressed(value) => put_compressed(out, column, value, buffers)?,
        _ => out.extend_from_slice(b"null"),
    }
    Ok(())
}

fn put_moment(out: &mut Vec<u8>, moment: &DateTime) {
    put_quoted(out, |out| moment.write(out));
}

fn put_set(out: &mut Vec<u8>, column: &ColumnPlan, bits: u64) -> Result<(), CorruptEvent> {
    if column.texts.is_empty() {
        put_u64(out, bits);
        return Ok(());
    }
    out.push(b'[');
    for (index, text) in set_texts(column, bits).enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(&text?);
    }
    out.push(b']');
    Ok(())
}

/// Appends a geometry as well-known text, or as base64 if it is malformed.
fn put_geometry(out: &mut Vec<u8>, geometry: &GeometryValue<'_>) {
    let start = out.len();
    out.push(b'"');
    match geometry.wkb().and_then(|wkb| put_wkt(out, wkb)) {
        Some(()) => out.push(b'"'),
        None => {
            out.truncate(start);
            put_base64(out, geometry.bytes);
        }
    }
}
