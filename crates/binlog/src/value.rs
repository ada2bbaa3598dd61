//! Decoded column values.

#[cfg(feature = "serde")]
mod serial;

use std::borrow::Cow;

use crate::column::Column;
use crate::column_type::ColumnType;
use crate::cursor::Cursor;
use crate::decimal::Decimal;
use crate::error::{DecodeError, DecodeReason};
use crate::json::{JsonChanges, JsonDocument};
use crate::mariadb::decompress_value;
use crate::temporal::{Date, DateTime, Time, Timestamp};

/// Number of the collation `binary`, for bytes that are not text.
pub(crate) const BINARY: u16 = 63;

/// Decoded column value: a view of the row it was decoded from.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// Integer of a signed column, or of a column whose signedness is not logged.
    Int(i64),
    /// Integer of an unsigned column.
    UInt(u64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// DECIMAL.
    Decimal(Decimal<'a>),
    /// DATE.
    Date(Date),
    /// TIME.
    Time(Time),
    /// DATETIME.
    DateTime(DateTime),
    /// TIMESTAMP.
    Timestamp(Timestamp),
    /// YEAR: 0, or 1901 to 2155.
    Year(u16),
    /// ENUM: 0 for the empty error value, otherwise an index of [`Column::texts`] plus 1.
    Enum(u16),
    /// SET: one bit for each of [`Column::texts`], the first in bit 0.
    Set(u64),
    /// BIT.
    Bit(BitValue),
    /// CHAR, VARCHAR, TEXT and its other sizes.
    Text(TextValue<'a>),
    /// BINARY, VARBINARY, BLOB and its other sizes; also text if the log lacks character sets.
    Bytes(BytesValue<'a>),
    /// JSON document.
    Json(JsonDocument<'a>),
    /// Changes to a JSON document.
    JsonChanges(JsonChanges<'a>),
    /// GEOMETRY and its subtypes.
    Geometry(GeometryValue<'a>),
    /// VECTOR.
    Vector(VectorValue<'a>),
    /// Value of a compressed column of MariaDB.
    Compressed(CompressedValue<'a>),
}

/// BIT value of up to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct BitValue {
    /// Value as a number.
    pub value: u64,
    /// Number of bits.
    pub bits: u8,
}

/// Text in the character set of its collation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TextValue<'a> {
    /// Stored bytes; for a CHAR without the trailing spaces.
    pub bytes: &'a [u8],
    /// Number of the collation.
    pub collation: u16,
}

/// Bytes that are not text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BytesValue<'a> {
    /// Stored bytes; for a BINARY without the trailing zeros.
    pub bytes: &'a [u8],
    /// Number of trailing zeros that were removed from a BINARY.
    pub padding: u16,
}

/// Geometry: the number of a spatial reference system, then the geometry in well-known binary format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GeometryValue<'a> {
    /// Stored bytes.
    pub bytes: &'a [u8],
}

impl<'a> GeometryValue<'a> {
    /// Returns the number of the spatial reference system (SRID).
    pub fn srid(&self) -> Option<u32> {
        self.bytes.first_chunk().map(|srid| u32::from_le_bytes(*srid))
    }

    /// Returns the geometry in well-known binary format (WKB).
    pub fn wkb(&self) -> Option<&'a [u8]> {
        self.bytes.get(4..)
    }
}

/// Vector of little-endian floating-point numbers of four bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VectorValue<'a> {
    /// Stored bytes, a multiple of four.
    pub bytes: &'a [u8],
}

impl<'a> VectorValue<'a> {
    /// Returns the numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = f32> + use<'a> {
        let numbers: &'a [[u8; 4]] = self.bytes.as_chunks().0;
        numbers.iter().map(|number| f32::from_le_bytes(*number))
    }
}

/// Value that MariaDB compressed separately.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CompressedValue<'a> {
    /// Stored bytes.
    pub bytes: &'a [u8],
    /// Number of the collation, if it is logged.
    pub collation: Option<u16>,
}

impl<'a> CompressedValue<'a> {
    /// Decompresses the value: text in the character set of its collation, or bytes. `size_max` limits its size in
    /// bytes, and thus memory.
    ///
    /// # Errors
    ///
    /// Fails if the value is corrupt, too large, or uses a compression that is unknown or not in this build.
    pub fn decompress(&self, size_max: usize) -> Result<Cow<'a, [u8]>, DecodeError> {
        decompress_value(self.bytes, size_max)
    }
}

impl Column {
    /// Decodes a value of this column from its stored bytes, without the length prefix.
    ///
    /// # Errors
    ///
    /// Fails if the bytes are no value of the column's type. Offsets count from the first of the bytes.
    pub fn value<'a>(&self, bytes: &'a [u8]) -> Result<Value<'a>, DecodeError> {
        self.value_decoder().value(bytes)
    }

    pub(crate) fn value_decoder(&self) -> ValueDecoder {
        ValueDecoder {
            column_type: self.column_type,
            type_code: self.type_code,
            is_unsigned: self.unsigned == Some(true),
            collation: self.collation,
        }
    }
}

/// The properties of a column needed to decode its values. Small, because it is used for each value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ValueDecoder {
    column_type: ColumnType,
    type_code: u8,
    is_unsigned: bool,
    collation: Option<u16>,
}

impl ValueDecoder {
    #[inline]
    pub(crate) fn value<'a>(&self, bytes: &'a [u8]) -> Result<Value<'a>, DecodeError> {
        match self.column_type {
            ColumnType::TinyInt => {
                exact_array(bytes).map(|[a]: [u8; 1]| self.integer([a, 0, 0, 0, 0, 0, 0, 0], 8))
            }
            ColumnType::SmallInt => {
                exact_array(bytes).map(|[a, b]| self.integer([a, b, 0, 0, 0, 0, 0, 0], 16))
            }
            ColumnType::MediumInt => {
                exact_array(bytes).map(|[a, b, c]| self.integer([a, b, c, 0, 0, 0, 0, 0], 24))
            }
            ColumnType::Int => {
                exact_array(bytes).map(|[a, b, c, d]| self.integer([a, b, c, d, 0, 0, 0, 0], 32))
            }
            ColumnType::BigInt => exact_array(bytes).map(|bytes| self.integer(bytes, 64)),
            ColumnType::Float => exact_array(bytes).map(|bytes| Value::Float(f32::from_le_bytes(bytes))),
            ColumnType::Double => exact_array(bytes).map(|bytes| Value::Double(f64::from_le_bytes(bytes))),
            ColumnType::Date => decode_all(bytes, |cursor| Date::decode(cursor).map(Value::Date)),
            ColumnType::Char { .. } | ColumnType::Varchar { .. } | ColumnType::Blob { .. } => {
                Ok(self.characters(bytes))
            }
            ColumnType::Enum { .. } => {
                little_endian(bytes, "size of ENUM", 2).map(|number| Value::Enum(number as u16))
            }
            ColumnType::Set { .. } => little_endian(bytes, "size of SET", 8).map(Value::Set),
            _ => self.value_rare(bytes),
        }
    }

    /// Returns the number of trailing zeros that the server removed from a BINARY.
    fn padding(&self, bytes: &[u8]) -> u16 {
        match self.column_type {
            ColumnType::Char { size_max } if self.collation == Some(BINARY) => {
                size_max.saturating_sub(bytes.len() as u16)
            }
            _ => 0,
        }
    }

    fn value_rare<'a>(&self, bytes: &'a [u8]) -> Result<Value<'a>, DecodeError> {
        match self.column_type {
            ColumnType::Decimal { precision, scale } => {
                Decimal::new(bytes, precision, scale).map(Value::Decimal)
            }
            ColumnType::Timestamp { fraction } => {
                decode_all(bytes, |cursor| Timestamp::decode(cursor, fraction).map(Value::Timestamp))
            }
            ColumnType::DateTime { fraction } => {
                decode_all(bytes, |cursor| DateTime::decode(cursor, fraction).map(Value::DateTime))
            }
            ColumnType::Time { fraction } => {
                decode_all(bytes, |cursor| Time::decode(cursor, fraction).map(Value::Time))
            }
            ColumnType::OldTimestamp => {
                decode_all(bytes, |cursor| Timestamp::decode_old(cursor).map(Value::Timestamp))
            }
            ColumnType::OldDateTime => {
                decode_all(bytes, |cursor| DateTime::decode_old(cursor).map(Value::DateTime))
            }
            ColumnType::OldTime => decode_all(bytes, |cursor| Time::decode_old(cursor).map(Value::Time)),
            ColumnType::Year => exact_array(bytes).map(|[stored]| match stored {
                0 => Value::Year(0),
                stored => Value::Year(1900 + u16::from(stored)),
            }),
            ColumnType::Bit { bits } => bit(bytes, bits),
            ColumnType::Json { .. } | ColumnType::TypedArray => Ok(Value::Json(JsonDocument::new(bytes))),
            ColumnType::Geometry { .. } => Ok(Value::Geometry(GeometryValue { bytes })),
            ColumnType::Vector { .. } => match bytes.len() % 4 {
                0 => Ok(Value::Vector(VectorValue { bytes })),
                count => Err(DecodeError::new(bytes.len() - count, DecodeReason::Trailing { count })),
            },
            ColumnType::CompressedVarchar { .. } | ColumnType::CompressedBlob { .. } => {
                Ok(Value::Compressed(CompressedValue { bytes, collation: self.collation }))
            }
            ColumnType::Null => decode_all(bytes, |_| Ok(Value::Null)),
            _ => {
                let found = u64::from(self.type_code);
                let expected = "a known type";
                Err(DecodeError::new(0, DecodeReason::Unexpected { field: "column type", found, expected }))
            }
        }
    }

    #[inline]
    fn integer<'a>(&self, bytes: [u8; 8], bits: u32) -> Value<'a> {
        match self.is_unsigned {
            true => Value::UInt(u64::from_le_bytes(bytes)),
            false => {
                let unused = 64 - bits;
                Value::Int(i64::from_le_bytes(bytes) << unused >> unused)
            }
        }
    }

    #[inline]
    fn characters<'a>(&self, bytes: &'a [u8]) -> Value<'a> {
        match self.collation {
            None | Some(BINARY) => Value::Bytes(BytesValue { bytes, padding: self.padding(bytes) }),
            Some(collation) => Value::Text(TextValue { bytes, collation }),
        }
    }
}

#[inline]
fn exact_array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], DecodeError> {
    bytes.try_into().map_err(|_| {
        let (found, expected) = (bytes.len() as u64, N as u64);
        DecodeError::new(0, DecodeReason::Differs { field: "size of the value", found, expected })
    })
}

/// Decodes a value from all of the bytes.
#[inline]
fn decode_all<'a>(
    bytes: &'a [u8],
    decode: impl FnOnce(&mut Cursor<'a>) -> Result<Value<'a>, DecodeError>,
) -> Result<Value<'a>, DecodeError> {
    let mut cursor = Cursor::new(bytes);
    let value = decode(&mut cursor)?;
    cursor.finish()?;
    Ok(value)
}

#[inline]
fn little_endian(bytes: &[u8], field: &'static str, max: usize) -> Result<u64, DecodeError> {
    if bytes.len() > max {
        let (found, max) = (bytes.len() as u64, max as u64);
        return Err(DecodeError::new(0, DecodeReason::OutOfRange { field, found, max }));
    }
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn bit(bytes: &[u8], bits: u8) -> Result<Value<'_>, DecodeError> {
    let (found, expected) = (bytes.len() as u64, u64::from(bits.div_ceil(8)));
    if found != expected {
        return Err(DecodeError::new(0, DecodeReason::Differs { field: "size of BIT", found, expected }));
    }
    let value = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Ok(Value::Bit(BitValue { value, bits }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{BINARY, BitValue, BytesValue, TextValue, Value};
    use crate::column::Column;
    use crate::column_type::resolve;
    use crate::cursor::Cursor;

    fn column(type_code: u8, metadata: &[u8]) -> Option<Column> {
        let resolved = resolve(type_code, &mut Cursor::new(metadata)).ok()?;
        Some(Column { nullable: true, ..Column::new(type_code, resolved) })
    }

    fn check(column: &Column, bytes: &[u8], expected: Result<Value<'_>, &str>) {
        let value = column.value(bytes).map_err(|error| error.to_string());
        assert_eq!(value, expected.map_err(str::to_owned), "{column:?} {bytes:02x?}");
    }

    #[test]
    fn integers_have_the_sign_in_the_metadata() {
        for (type_code, size) in [(1, 1), (2, 2), (9, 3), (3, 4), (8, 8)] {
            let unknown = column(type_code, &[]).unwrap();
            let unsigned = Column { unsigned: Some(true), ..unknown.clone() };
            let signed = Column { unsigned: Some(false), ..unknown.clone() };
            let ones = &[0xff; 8][..size];
            check(&unknown, ones, Ok(Value::Int(-1)));
            check(&signed, ones, Ok(Value::Int(-1)));
            check(&unsigned, ones, Ok(Value::UInt(u64::MAX >> (64 - 8 * size))));
            let size_expected = format!("byte 0: size of the value is 0, expected {size}");
            check(&unknown, &[], Err(&size_expected));
        }
    }

    #[test]
    fn characters_have_the_collation_in_the_metadata() {
        for (type_code, metadata) in [(254, &[254, 4][..]), (15, &[4, 0]), (252, &[2])] {
            let unknown = column(type_code, metadata).unwrap();
            let text = Column { collation: Some(255), ..unknown.clone() };
            let bytes = Column { collation: Some(BINARY), ..unknown.clone() };
            // Only BINARY(4) is padded with zeros.
            let padding = if type_code == 254 { 3 } else { 0 };
            check(&unknown, b"a", Ok(Value::Bytes(BytesValue { bytes: b"a", padding: 0 })));
            check(&text, b"a", Ok(Value::Text(TextValue { bytes: b"a", collation: 255 })));
            check(&bytes, b"a", Ok(Value::Bytes(BytesValue { bytes: b"a", padding })));
        }
    }

    #[test]
    fn bits_and_indexes() {
        check(&column(16, &[1, 1]).unwrap(), &[1, 2], Ok(Value::Bit(BitValue { value: 258, bits: 9 })));
        check(&column(16, &[1, 1]).unwrap(), &[1], Err("byte 0: size of BIT is 1, expected 2"));
        check(&column(254, &[247, 2]).unwrap(), &[1, 2], Ok(Value::Enum(513)));
        check(&column(254, &[248, 3]).unwrap(), &[1, 2, 3], Ok(Value::Set(0x03_0201)));
        check(
            &column(254, &[247, 2]).unwrap(),
            &[1, 2, 3],
            Err("byte 0: size of ENUM is 3, expected at most 2"),
        );
        check(&column(254, &[248, 8]).unwrap(), &[0; 9], Err("byte 0: size of SET is 9, expected at most 8"));
        check(&column(5, &[8]).unwrap(), &[0; 4], Err("byte 0: size of the value is 4, expected 8"));
        check(&column(13, &[]).unwrap(), &[0], Ok(Value::Year(0)));
        check(&column(13, &[]).unwrap(), &[255], Ok(Value::Year(2155)));
        check(&column(242, &[4]).unwrap(), &[0; 5], Err("byte 4: expected the end, found 1 extra bytes"));
        check(&column(6, &[]).unwrap(), &[], Ok(Value::Null));
        check(&column(200, &[]).unwrap(), &[], Err("byte 0: column type is 200, expected a known type"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_a_value_or_an_error(
            type_code in any::<u8>(), metadata: [u8; 4], bytes: Vec<u8>, unsigned: Option<bool>, collation: Option<u16>,
        ) {
            if let Some(column) = column(type_code, &metadata) {
                let column = Column { unsigned, collation, ..column };
                if let Err(error) = column.value(&bytes) {
                    assert!(error.offset <= bytes.len());
                }
            }
        }
    }
}
