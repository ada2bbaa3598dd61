//! JSON documents as Debezium and Maxwell write them: without whitespace, and values of non-JSON types as strings.

use binlog::{DateTime, DecodeError, JsonContainer, JsonDocument, JsonQuotes, JsonValue, Time};
use sql::numbers::{put_i64, put_u64};

use crate::json_writer::{put_base64, put_escaped, put_float, put_quoted};

/// Appends a document as JSON text.
///
/// # Errors
///
/// Fails if a part of the document is corrupt.
pub(crate) fn put_document(
    out: &mut Vec<u8>,
    document: &[u8],
    scratch: &mut Vec<u8>,
) -> Result<(), DecodeError> {
    let json = JsonDocument::new(document);
    // `write` checks depth and size. A document that passes can be walked without further checks.
    scratch.clear();
    json.write(JsonQuotes::Always, scratch)?;
    put_value(out, &json.root()?)
}

fn put_value(out: &mut Vec<u8>, value: &JsonValue<'_>) -> Result<(), DecodeError> {
    match value {
        JsonValue::Null => out.extend_from_slice(b"null"),
        JsonValue::Bool(true) => out.extend_from_slice(b"true"),
        JsonValue::Bool(false) => out.extend_from_slice(b"false"),
        JsonValue::Int(number) => put_i64(out, *number),
        JsonValue::UInt(number) => put_u64(out, *number),
        JsonValue::Double(number) => put_float(out, *number),
        JsonValue::Decimal(decimal) => decimal.write(out),
        JsonValue::String(text) => put_text(out, text),
        JsonValue::Array(array) => return put_container(out, array, [b'[', b']']),
        JsonValue::Object(object) => return put_container(out, object, [b'{', b'}']),
        JsonValue::Date(date) => put_quoted(out, |out| date.write(out)),
        JsonValue::Time(time) => put_quoted(out, |out| trim_time_fraction(*time).write(out)),
        JsonValue::DateTime(moment) => put_quoted(out, |out| trim_fraction(*moment).write(out)),
        JsonValue::Opaque { bytes, .. } => put_base64(out, bytes),
        // Servers store no other kinds of values.
        _ => out.extend_from_slice(b"null"),
    }
    Ok(())
}

fn put_container(
    out: &mut Vec<u8>,
    container: &JsonContainer<'_>,
    signs: [u8; 2],
) -> Result<(), DecodeError> {
    out.push(signs[0]);
    for (index, entry) in container.iter().enumerate() {
        let (name, value) = entry?;
        if index > 0 {
            out.push(b',');
        }
        if let Some(name) = name {
            put_text(out, name);
            out.push(b':');
        }
        put_value(out, &value)?;
    }
    out.push(signs[1]);
    Ok(())
}

fn put_text(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    put_escaped(out, String::from_utf8_lossy(text).as_bytes());
    out.push(b'"');
}

/// Removes the fraction if it is zero.
fn trim_fraction(moment: DateTime) -> DateTime {
    let fraction = if moment.micros == 0 { 0 } else { 6 };
    DateTime { fraction, ..moment }
}

fn trim_time_fraction(time: Time) -> Time {
    let fraction = if time.micros == 0 { 0 } else { 6 };
    Time { fraction, ..time }
}
