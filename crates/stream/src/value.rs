//! Column values as JSON, common to both envelopes.

pub(crate) mod debezium;
mod debezium_times;
pub(crate) mod maxwell;

use std::borrow::Cow;
use std::sync::Arc;

use binlog::{BytesValue, Charset, CompressedValue, DecodeError, RowChange, RowField, TextValue, Value};
use sql::numbers::put_u32;

use crate::error::CorruptEvent;
use crate::json_writer::{put_base64, put_quoted, put_string};
use crate::table_plan::{ColumnPlan, UnnamedColumnPolicy};
use crate::value_mask::ValueMask;
use crate::value_modes::BinaryMode;

/// Reusable buffers.
#[derive(Clone, Debug, Default)]
pub(crate) struct ValueBuffers {
    pub(crate) text: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
}

/// Size in bytes of a decompressed value of MariaDB's compressed columns: `max_allowed_packet` is at most this.
const DECOMPRESSED_MAX: usize = 1 << 30;

/// Returns the value of a field. Applies partial updates to JSON documents.
pub(crate) fn value_of<'a>(
    row: &RowChange<'_, 'a>,
    field: &RowField<'_, 'a>,
) -> Result<FieldValue<'a>, DecodeError> {
    if !field.is_partial() {
        return field.value().map(FieldValue::Value);
    }
    match row.document_after(field.index())? {
        None => Ok(FieldValue::Unknown),
        Some(Cow::Borrowed(bytes)) => Ok(FieldValue::Value(Value::Json(binlog::JsonDocument::new(bytes)))),
        Some(Cow::Owned(document)) => Ok(FieldValue::Document(document)),
    }
}

/// Value of a field.
pub(crate) enum FieldValue<'a> {
    Value(Value<'a>),
    /// JSON document after applying a partial update.
    Document(Vec<u8>),
    /// Partial update of a JSON document that the log does not contain.
    Unknown,
}

pub(crate) fn put_text(out: &mut Vec<u8>, column: &ColumnPlan, text: &TextValue<'_>) {
    put_string(out, &column.charset.decode_lossy(text.bytes));
}

/// Statement of a log about bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BytesKind {
    Binary,
    /// The log does not state whether they are binary or text.
    Unstated,
}

impl BytesKind {
    /// Returns the kind of a column's values.
    pub(crate) fn of(column: &ColumnPlan) -> Self {
        match column.charset {
            Charset::Binary => Self::Binary,
            _ => Self::Unstated,
        }
    }
}

/// Appends bytes in the column's form. `Unstated` bytes are appended as text if they are UTF-8.
pub(crate) fn put_bytes(
    out: &mut Vec<u8>,
    column: &ColumnPlan,
    kind: BytesKind,
    bytes: &BytesValue<'_>,
    buffers: &mut ValueBuffers,
) {
    if kind == BytesKind::Unstated
        && let Ok(text) = std::str::from_utf8(bytes.bytes)
    {
        return put_string(out, text);
    }
    if bytes.padding == 0 {
        return put_binary(out, column, bytes.bytes);
    }
    buffers.bytes.clear();
    buffers.bytes.extend_from_slice(bytes.bytes);
    buffers.bytes.resize(bytes.bytes.len() + usize::from(bytes.padding), 0);
    put_binary(out, column, &buffers.bytes);
}

fn put_binary(out: &mut Vec<u8>, column: &ColumnPlan, bytes: &[u8]) {
    /// Digits of hexadecimal numbers.
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let bytes = match &column.mask {
        Some(ValueMask::TruncateBytes(max)) => &bytes[..bytes.len().min(*max)],
        _ => bytes,
    };
    match column.modes.bytes {
        BinaryMode::Bytes | BinaryMode::Base64 => put_base64(out, bytes),
        BinaryMode::Base64UrlSafe => {
            let start = out.len();
            put_base64(out, bytes);
            for byte in &mut out[start..] {
                match byte {
                    b'+' => *byte = b'-',
                    b'/' => *byte = b'_',
                    _ => {}
                }
            }
        }
        BinaryMode::Hex => put_quoted(out, |out| {
            let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
            out.extend(digits.map(|digit| DIGITS[usize::from(digit)]));
        }),
    }
}

pub(crate) fn put_compressed(
    out: &mut Vec<u8>,
    column: &ColumnPlan,
    value: &CompressedValue<'_>,
    buffers: &mut ValueBuffers,
) -> Result<(), DecodeError> {
    let plain = value.decompress(DECOMPRESSED_MAX)?;
    let kind = match value.collation {
        Some(_) if column.charset != Charset::Binary => {
            put_string(out, &column.charset.decode_lossy(&plain));
            return Ok(());
        }
        Some(_) => BytesKind::Binary,
        None => BytesKind::Unstated,
    };
    put_bytes(out, column, kind, &BytesValue { bytes: &plain, padding: 0 }, buffers);
    Ok(())
}

/// Appends the text of an ENUM value, or its number if the log lacks the members.
pub(crate) fn put_enum(out: &mut Vec<u8>, column: &ColumnPlan, number: u16) -> Result<(), CorruptEvent> {
    match (usize::from(number), &*column.texts) {
        (_, []) => put_u32(out, u32::from(number)),
        (0, _) => out.extend_from_slice(b"\"\""),
        (number, _) => out.extend_from_slice(&member_text(column, number)?),
    }
    Ok(())
}

/// Returns the texts of a SET value, each in quotes.
pub(crate) fn set_texts(
    column: &ColumnPlan,
    bits: u64,
) -> impl Iterator<Item = Result<Cow<'_, [u8]>, CorruptEvent>> {
    let numbers = (1..=64_usize).filter(move |number| bits >> (number - 1) & 1 == 1);
    numbers.map(|number| member_text(column, number))
}

/// Returns the text of an ENUM or SET member in quotes. A member that the definition lacks has its number, if columns may
/// be numbered.
fn member_text(column: &ColumnPlan, number: usize) -> Result<Cow<'_, [u8]>, CorruptEvent> {
    match (column.texts.get(number - 1), column.unknown_members) {
        (Some(text), _) => Ok((&**text).into()),
        (None, UnnamedColumnPolicy::Number) => Ok(format!("\"@{number}\"").into_bytes().into()),
        (None, UnnamedColumnPolicy::Refuse) => {
            Err(CorruptEvent::UnknownMember { column: Arc::clone(&column.name) })
        }
    }
}
