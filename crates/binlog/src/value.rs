//! A column's value, decoded.

#[cfg(feature = "serde")]
mod serial;

use std::borrow::Cow;

use crate::column::{Column, ColumnType};
use crate::cursor::Cursor;
use crate::decimal::Decimal;
use crate::error::{DecodeError, Reason};
use crate::json::{Json, JsonChanges};
use crate::mariadb::decompress_value;
use crate::temporal::{Date, DateTime, Time, Timestamp};

/// The collation `binary`: bytes that are no text.
pub(crate) const BINARY: u16 = 63;

/// A column's value, decoded: a view of the row it came from.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// An integer of a signed column, or of one whose signedness the log does not tell.
    Int(i64),
    /// An integer of an unsigned column.
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
    /// ENUM: 0 for the empty error value, else which of [`Column::texts`], from 1.
    Enum(u16),
    /// SET: a bit for each of [`Column::texts`], the first in bit 0.
    Set(u64),
    /// BIT.
    Bit(Bit),
    /// CHAR, VARCHAR, TEXT and their kin.
    Text(Text<'a>),
    /// BINARY, VARBINARY, BLOB and their kin, and text in a log that does not tell character sets.
    Bytes(Bytes<'a>),
    /// JSON: a document.
    Json(Json<'a>),
    /// JSON: what changed in a document.
    JsonChanges(JsonChanges<'a>),
    /// GEOMETRY and its kin.
    Geometry(Geometry<'a>),
    /// VECTOR.
    Vector(Vector<'a>),
    /// MariaDB's compressed columns: see [`Compressed`].
    Compressed(Compressed<'a>),
}

/// Up to 64 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
pub struct Bit {
    /// As a number.
    pub value: u64,
    /// How many there are.
    pub bits: u8,
}

/// Text, in the character set of its collation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Text<'a> {
    /// As stored; of a CHAR without the spaces that fill it up.
    pub bytes: &'a [u8],
    /// The collation's number.
    pub collation: u16,
}

/// Bytes that are no text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bytes<'a> {
    /// As stored; of a BINARY without the zeros that fill it up.
    pub bytes: &'a [u8],
    /// How many zeros a BINARY has behind them.
    pub padding: u16,
}

/// A geometry: a spatial reference, then its well-known binary form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Geometry<'a> {
    /// As stored.
    pub bytes: &'a [u8],
}

impl<'a> Geometry<'a> {
    /// The spatial reference system's number.
    pub fn srid(&self) -> Option<u32> {
        self.bytes.first_chunk().map(|srid| u32::from_le_bytes(*srid))
    }

    /// The well-known binary form.
    pub fn wkb(&self) -> Option<&'a [u8]> {
        self.bytes.get(4..)
    }
}

/// Floating-point numbers, little-endian, four bytes each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Vector<'a> {
    /// As stored: a whole number of numbers.
    pub bytes: &'a [u8],
}

impl<'a> Vector<'a> {
    /// The numbers.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = f32> + use<'a> {
        let numbers: &'a [[u8; 4]] = self.bytes.as_chunks().0;
        numbers.iter().map(|number| f32::from_le_bytes(*number))
    }
}

/// A value that MariaDB compressed by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Compressed<'a> {
    /// As stored.
    pub bytes: &'a [u8],
    /// The collation's number, if the log tells it.
    pub collation: Option<u16>,
}

impl<'a> Compressed<'a> {
    /// The plain value: text in the character set of its collation, or bytes. Memory is bounded by `size_max`, in
    /// bytes.
    ///
    /// # Errors
    ///
    /// When it is corrupt, larger, or compressed in a way that is unknown or that this build leaves out.
    pub fn decompress(&self, size_max: usize) -> Result<Cow<'a, [u8]>, DecodeError> {
        decompress_value(self.bytes, size_max)
    }
}

impl Column {
    /// Decodes one of this column's values from its stored bytes (without the size in front of them).
    ///
    /// # Errors
    ///
    /// When they are no value of the column's type. Offsets count from the first of the bytes.
    pub fn value<'a>(&self, bytes: &'a [u8]) -> Result<Value<'a>, DecodeError> {
        self.codec().value(bytes)
    }

    pub(crate) fn codec(&self) -> Codec {
        Codec {
            column_type: self.column_type,
            type_code: self.type_code,
            is_unsigned: self.unsigned == Some(true),
            collation: self.collation,
        }
    }
}

/// What it takes to decode a column's values, and nothing else: small, to be at hand for every one of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Codec {
    column_type: ColumnType,
    type_code: u8,
    is_unsigned: bool,
    collation: Option<u16>,
}

impl Codec {
    #[inline]
    pub(crate) fn value<'a>(&self, bytes: &'a [u8]) -> Result<Value<'a>, DecodeError> {
        match self.column_type {
            ColumnType::TinyInt => exact(bytes).map(|[a]: [u8; 1]| self.integer([a, 0, 0, 0, 0, 0, 0, 0], 8)),
            ColumnType::SmallInt => exact(bytes).map(|[a, b]| self.integer([a, b, 0, 0, 0, 0, 0, 0], 16)),
            ColumnType::MediumInt => exact(bytes).map(|[a, b, c]| self.integer([a, b, c, 0, 0, 0, 0, 0], 24)),
            ColumnType::Int => exact(bytes).map(|[a, b, c, d]| self.integer([a, b, c, d, 0, 0, 0, 0], 32)),
            ColumnType::BigInt => exact(bytes).map(|bytes| self.integer(bytes, 64)),
            ColumnType::Float => exact(bytes).map(|bytes| Value::Float(f32::from_le_bytes(bytes))),
            ColumnType::Double => exact(bytes).map(|bytes| Value::Double(f64::from_le_bytes(bytes))),
            ColumnType::Date => whole(bytes, |cursor| Date::decode(cursor).map(Value::Date)),
            ColumnType::Char { .. } | ColumnType::Varchar { .. } | ColumnType::Blob { .. } => {
                Ok(self.characters(bytes))
            }
            ColumnType::Enum { .. } => {
                little(bytes, "size of ENUM", 2).map(|number| Value::Enum(number as u16))
            }
            ColumnType::Set { .. } => little(bytes, "size of SET", 8).map(Value::Set),
            _ => self.value_rare(bytes),
        }
    }

    /// How many zeros the server cut off the end of a BINARY.
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
                whole(bytes, |cursor| Timestamp::decode(cursor, fraction).map(Value::Timestamp))
            }
            ColumnType::DateTime { fraction } => {
                whole(bytes, |cursor| DateTime::decode(cursor, fraction).map(Value::DateTime))
            }
            ColumnType::Time { fraction } => {
                whole(bytes, |cursor| Time::decode(cursor, fraction).map(Value::Time))
            }
            ColumnType::OldTimestamp => {
                whole(bytes, |cursor| Timestamp::decode_old(cursor).map(Value::Timestamp))
            }
            ColumnType::OldDateTime => {
                whole(bytes, |cursor| DateTime::decode_old(cursor).map(Value::DateTime))
            }
            ColumnType::OldTime => whole(bytes, |cursor| Time::decode_old(cursor).map(Value::Time)),
            ColumnType::Year => exact(bytes).map(|[stored]| match stored {
                0 => Value::Year(0),
                stored => Value::Year(1900 + u16::from(stored)),
            }),
            ColumnType::Bit { bits } => bit(bytes, bits),
            ColumnType::Json { .. } | ColumnType::TypedArray => Ok(Value::Json(Json::new(bytes))),
            ColumnType::Geometry { .. } => Ok(Value::Geometry(Geometry { bytes })),
            ColumnType::Vector { .. } => match bytes.len() % 4 {
                0 => Ok(Value::Vector(Vector { bytes })),
                count => Err(DecodeError::new(bytes.len() - count, Reason::Trailing { count })),
            },
            ColumnType::CompressedVarchar { .. } | ColumnType::CompressedBlob { .. } => {
                Ok(Value::Compressed(Compressed { bytes, collation: self.collation }))
            }
            ColumnType::Null => whole(bytes, |_| Ok(Value::Null)),
            _ => {
                let found = u64::from(self.type_code);
                let wanted = "one that is known";
                Err(DecodeError::new(0, Reason::Unexpected { field: "column type", found, wanted }))
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
            None | Some(BINARY) => Value::Bytes(Bytes { bytes, padding: self.padding(bytes) }),
            Some(collation) => Value::Text(Text { bytes, collation }),
        }
    }
}

#[inline]
fn exact<const N: usize>(bytes: &[u8]) -> Result<[u8; N], DecodeError> {
    bytes.try_into().map_err(|_| {
        let (found, wanted) = (bytes.len() as u64, N as u64);
        DecodeError::new(0, Reason::Differs { field: "size of the value", found, wanted })
    })
}

/// The decoder must use all of the bytes.
#[inline]
fn whole<'a>(
    bytes: &'a [u8],
    decode: impl FnOnce(&mut Cursor<'a>) -> Result<Value<'a>, DecodeError>,
) -> Result<Value<'a>, DecodeError> {
    let mut cursor = Cursor::new(bytes);
    let value = decode(&mut cursor)?;
    cursor.finish()?;
    Ok(value)
}

#[inline]
fn little(bytes: &[u8], field: &'static str, max: usize) -> Result<u64, DecodeError> {
    if bytes.len() > max {
        let (found, max) = (bytes.len() as u64, max as u64);
        return Err(DecodeError::new(0, Reason::OutOfRange { field, found, max }));
    }
    Ok(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

fn bit(bytes: &[u8], bits: u8) -> Result<Value<'_>, DecodeError> {
    let (found, wanted) = (bytes.len() as u64, u64::from(bits.div_ceil(8)));
    if found != wanted {
        return Err(DecodeError::new(0, Reason::Differs { field: "size of BIT", found, wanted }));
    }
    let value = bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
    Ok(Value::Bit(Bit { value, bits }))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::{any, proptest};

    use super::{BINARY, Bit, Bytes, Text, Value};
    use crate::column::{Column, resolve};
    use crate::cursor::Cursor;

    fn column(type_code: u8, metadata: &[u8]) -> Option<Column> {
        let resolved = resolve(type_code, &mut Cursor::new(metadata)).ok()?;
        Some(Column {
            column_type: resolved.column_type,
            type_code,
            metadata: resolved.metadata,
            nullable: true,
            unsigned: None,
            collation: None,
            name: None,
            texts: Box::default(),
            visible: None,
            geometry_type: None,
            dimension: None,
        })
    }

    fn check(column: &Column, bytes: &[u8], wanted: Result<Value<'_>, &str>) {
        let value = column.value(bytes).map_err(|error| error.to_string());
        assert_eq!(value, wanted.map_err(str::to_owned), "{column:?} {bytes:02x?}");
    }

    #[test]
    fn integers_have_the_sign_that_the_log_tells() {
        for (type_code, size) in [(1, 1), (2, 2), (9, 3), (3, 4), (8, 8)] {
            let unknown = column(type_code, &[]).unwrap();
            let unsigned = Column { unsigned: Some(true), ..unknown.clone() };
            let signed = Column { unsigned: Some(false), ..unknown.clone() };
            let ones = &[0xff; 8][..size];
            check(&unknown, ones, Ok(Value::Int(-1)));
            check(&signed, ones, Ok(Value::Int(-1)));
            check(&unsigned, ones, Ok(Value::UInt(u64::MAX >> (64 - 8 * size))));
            let size_wanted = format!("byte 0: size of the value is 0, wanted {size}");
            check(&unknown, &[], Err(&size_wanted));
        }
    }

    #[test]
    fn characters_have_the_collation_that_the_log_tells() {
        for (type_code, metadata) in [(254, &[254, 4][..]), (15, &[4, 0]), (252, &[2])] {
            let unknown = column(type_code, metadata).unwrap();
            let text = Column { collation: Some(255), ..unknown.clone() };
            let bytes = Column { collation: Some(BINARY), ..unknown.clone() };
            // A BINARY(4) is filled up with zeros, and so is nothing else.
            let padding = if type_code == 254 { 3 } else { 0 };
            check(&unknown, b"a", Ok(Value::Bytes(Bytes { bytes: b"a", padding: 0 })));
            check(&text, b"a", Ok(Value::Text(Text { bytes: b"a", collation: 255 })));
            check(&bytes, b"a", Ok(Value::Bytes(Bytes { bytes: b"a", padding })));
        }
    }

    #[test]
    fn bits_and_indexes() {
        check(&column(16, &[1, 1]).unwrap(), &[1, 2], Ok(Value::Bit(Bit { value: 258, bits: 9 })));
        check(&column(16, &[1, 1]).unwrap(), &[1], Err("byte 0: size of BIT is 1, wanted 2"));
        check(&column(254, &[247, 2]).unwrap(), &[1, 2], Ok(Value::Enum(513)));
        check(&column(254, &[248, 3]).unwrap(), &[1, 2, 3], Ok(Value::Set(0x03_0201)));
        check(&column(13, &[]).unwrap(), &[0], Ok(Value::Year(0)));
        check(&column(13, &[]).unwrap(), &[255], Ok(Value::Year(2155)));
        check(&column(242, &[4]).unwrap(), &[0; 5], Err("byte 4: wanted the end, found 1 more bytes"));
        check(&column(6, &[]).unwrap(), &[], Ok(Value::Null));
        check(&column(200, &[]).unwrap(), &[], Err("byte 0: column type is 200, wanted one that is known"));
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
