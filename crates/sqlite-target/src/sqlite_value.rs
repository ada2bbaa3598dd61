//! Column values as SQLite stores them.

use binlog::{Column as LogColumn, Flavour, JsonDocument, JsonQuotes, RowChange, RowField, Value};
use replay::TargetFailure;
use replay::row_reader::{column_charset, enum_text, json_document, set_text};
use rusqlite::types::{Value as SqliteValue, ValueRef};

use crate::catalogue_table::CatalogueColumn;
use crate::json_patch::apply_changes;
use crate::mysql_type::MysqlType;

/// Maximum size of MariaDB's compressed values after decompression, in bytes.
const DECOMPRESSED_MAX: usize = 1 << 30;

/// The column for which a value is converted.
pub(crate) struct ValueContext<'c> {
    pub(crate) column: &'c CatalogueColumn,
    pub(crate) flavour: Flavour,
    /// The target's present value, if it was read.
    pub(crate) old: Option<&'c SqliteValue>,
}

/// Converts a field's value for SQLite. The result borrows from the row or from `space`.
pub(crate) fn to_sqlite_value<'s, 'a: 's>(
    row: &RowChange<'_, 'a>,
    field: &RowField<'_, 'a>,
    reading: &ValueContext<'_>,
    space: &'s mut Vec<u8>,
) -> Result<ValueRef<'s>, TargetFailure> {
    space.clear();
    match field.value()? {
        Value::Null => return Ok(ValueRef::Null),
        Value::Int(number) => return Ok(integer(number, field.column(), &reading.column.kind, space)),
        Value::UInt(number) => return Ok(unsigned(number, space)),
        Value::Float(number) => return Ok(ValueRef::Real(f64::from(number))),
        Value::Double(number) => return Ok(ValueRef::Real(number)),
        Value::Year(year) => return Ok(ValueRef::Integer(year.into())),
        Value::Bit(bit) => return Ok(unsigned(bit.value, space)),
        Value::Decimal(decimal) => decimal.write(space),
        Value::Date(date) => date.write(space),
        Value::Time(time) => time.write(space),
        Value::DateTime(moment) => moment.write(space),
        Value::Timestamp(moment) => moment.to_utc().write(space),
        Value::Enum(number) => return enum_value(number, field.column(), reading, space),
        Value::Set(bits) => return set_value(bits, field.column(), reading, space),
        Value::Text(text) => {
            let charset = column_charset(field.column(), reading.flavour);
            return Ok(put_text(charset, text.bytes, space));
        }
        Value::Bytes(bytes) => match reading.column.kind {
            // The log has no character set for this column.
            MysqlType::Text { .. } => return Ok(put_text(reading.column.kind.charset(), bytes.bytes, space)),
            _ => {
                let size = bytes.bytes.len() + usize::from(bytes.padding);
                return Ok(put_bytes(&reading.column.kind, bytes.bytes, size, space));
            }
        },
        Value::Json(document) => document.write(JsonQuotes::Always, space)?,
        Value::JsonChanges(changes) => match (lacks_before(row, field.index()), reading.old) {
            (true, Some(SqliteValue::Text(text))) => apply_changes(text, &changes, space)?,
            _ => match json_document(row, field)? {
                None => return Ok(ValueRef::Null),
                Some(bytes) => JsonDocument::new(&bytes).write(JsonQuotes::Always, space)?,
            },
        },
        Value::Geometry(geometry) => return Ok(ValueRef::Blob(geometry.bytes)),
        Value::Vector(vector) => return Ok(ValueRef::Blob(vector.bytes)),
        Value::Compressed(value) => {
            let bytes = value.decompress(DECOMPRESSED_MAX)?;
            if matches!(reading.column.kind, MysqlType::Bytes { .. }) {
                space.extend_from_slice(&bytes);
                return Ok(ValueRef::Blob(space));
            }
            let text = column_charset(field.column(), reading.flavour).decode_lossy(&bytes).into_owned();
            *space = text.into_bytes();
        }
        _ => {
            return Err(TargetFailure::refused(format!(
                "{} has a value of an unknown type",
                reading.column.name
            )));
        }
    }
    Ok(ValueRef::Text(space))
}

/// Returns true if the log lacks the column's value before the change.
fn lacks_before(row: &RowChange<'_, '_>, column: usize) -> bool {
    row.before.as_ref().is_none_or(|image| image.field(column).is_none())
}

/// Converts an integer. The log may not say whether the column is unsigned.
fn integer<'s>(number: i64, logged: &LogColumn, kind: &MysqlType, space: &'s mut Vec<u8>) -> ValueRef<'s> {
    match kind {
        MysqlType::Integer { bits, unsigned: true } if logged.unsigned.is_none() => {
            let mask = u64::MAX >> (64 - u32::from(*bits));
            unsigned(number.cast_unsigned() & mask, space)
        }
        _ => ValueRef::Integer(number),
    }
}

/// Converts an unsigned integer: text if it exceeds SQLite's signed range.
fn unsigned(number: u64, space: &mut Vec<u8>) -> ValueRef<'_> {
    match i64::try_from(number) {
        Ok(number) => ValueRef::Integer(number),
        Err(_) => {
            space.extend_from_slice(number.to_string().as_bytes());
            ValueRef::Text(space)
        }
    }
}

/// Returns bytes with zeros at their end, up to this size, and up to that of a BINARY column: without the table's
/// metadata, the log does not say that it lacks them.
fn put_bytes<'s, 'a: 's>(
    kind: &MysqlType,
    bytes: &'a [u8],
    size: usize,
    space: &'s mut Vec<u8>,
) -> ValueRef<'s> {
    let size = match kind {
        MysqlType::Bytes { size: Some(own) } => size.max((*own).into()),
        _ => size,
    };
    if size == bytes.len() {
        return ValueRef::Blob(bytes);
    }
    space.extend_from_slice(bytes);
    space.resize(size, 0);
    ValueRef::Blob(space)
}

fn put_text<'s, 'a: 's>(charset: binlog::Charset, bytes: &'a [u8], space: &'s mut Vec<u8>) -> ValueRef<'s> {
    match charset.decode_lossy(bytes) {
        std::borrow::Cow::Borrowed(text) => ValueRef::Text(text.as_bytes()),
        std::borrow::Cow::Owned(text) => {
            *space = text.into_bytes();
            ValueRef::Text(space)
        }
    }
}

fn enum_value<'s>(
    number: u16,
    logged: &LogColumn,
    reading: &ValueContext<'_>,
    space: &'s mut Vec<u8>,
) -> Result<ValueRef<'s>, TargetFailure> {
    let MysqlType::Enum { texts } = &reading.column.kind else { return Ok(ValueRef::Integer(number.into())) };
    if texts.is_empty() {
        return Ok(ValueRef::Integer(number.into()));
    }
    let text = match enum_text(logged, number, reading.flavour) {
        Some(text) => text,
        None => texts.get(usize::from(number).wrapping_sub(1)).map(|text| text.as_str().into()).ok_or_else(
            || {
                TargetFailure::refused(format!(
                    "{} has a value that its definition does not contain",
                    reading.column.name
                ))
            },
        )?,
    };
    space.extend_from_slice(text.as_bytes());
    Ok(ValueRef::Text(space))
}

fn set_value<'s>(
    bits: u64,
    logged: &LogColumn,
    reading: &ValueContext<'_>,
    space: &'s mut Vec<u8>,
) -> Result<ValueRef<'s>, TargetFailure> {
    let MysqlType::Set { texts } = &reading.column.kind else { return Ok(unsigned(bits, space)) };
    if texts.is_empty() {
        return Ok(unsigned(bits, space));
    }
    if let Some(text) = set_text(logged, bits, reading.flavour) {
        *space = text.into_bytes();
        return Ok(ValueRef::Text(space));
    }
    for (bit, text) in
        texts.iter().take(u64::BITS as usize).enumerate().filter(|(bit, _)| bits >> bit & 1 == 1)
    {
        if !space.is_empty() || bits & ((1 << bit) - 1) != 0 {
            space.push(b',');
        }
        space.extend_from_slice(text.as_bytes());
    }
    Ok(ValueRef::Text(space))
}

#[cfg(test)]
mod tests {
    use binlog::events::TableMap;
    use binlog::{Flavour, Table};
    use rusqlite::types::ValueRef;

    use super::{ValueContext, set_value};
    use crate::catalogue_table::CatalogueColumn;
    use crate::default_value::DefaultValue;
    use crate::mysql_type::MysqlType;

    /// A crafted log with more members than a server allows.
    #[test]
    fn sets_have_no_more_members_than_bits() {
        let kind = MysqlType::Set { texts: (0..70).map(|number| number.to_string()).collect() };
        let (name, default) = ("s".to_owned(), DefaultValue::None);
        let column = CatalogueColumn { name, kind, nullable: true, default, generated: false };
        let map = TableMap {
            table_id: 7,
            flags: 1,
            database: b"d",
            table: b"t",
            column_types: &[3],
            metadata: &[],
            nullable: &[0xff],
            optional: &[3, 0],
            flavour: Flavour::MySql,
        };
        let logged = Table::new(&map).unwrap().columns[0].clone();
        let reading = ValueContext { column: &column, flavour: Flavour::MySql, old: None };
        let mut space = Vec::new();
        let found = set_value(1 << 63 | 2, &logged, &reading, &mut space).unwrap();
        assert_eq!(found, ValueRef::Text(b"1,63"));
    }
}
