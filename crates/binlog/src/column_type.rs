//! Type of a column: how its values are stored.

use crate::cursor::Cursor;
use crate::error::{DecodeError, DecodeReason};

/// Type of a column, with the sizes needed to read its values.
///
/// `fraction` is the number of digits of fractional seconds, 0 to 6.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ColumnType {
    /// TINYINT, BOOL: one byte.
    TinyInt,
    /// SMALLINT: two bytes.
    SmallInt,
    /// MEDIUMINT: three bytes.
    MediumInt,
    /// INT: four bytes.
    Int,
    /// BIGINT: eight bytes.
    BigInt,
    /// FLOAT: four bytes.
    Float,
    /// DOUBLE: eight bytes.
    Double,
    /// DECIMAL.
    Decimal {
        /// Total number of digits, 1 to 65.
        precision: u8,
        /// Number of digits after the decimal point.
        scale: u8,
    },
    /// Always NULL: no bytes.
    Null,
    /// TIMESTAMP since 5.6.
    Timestamp {
        /// Digits of fractional seconds.
        fraction: u8,
    },
    /// DATETIME since 5.6.
    DateTime {
        /// Digits of fractional seconds.
        fraction: u8,
    },
    /// TIME since 5.6.
    Time {
        /// Digits of fractional seconds.
        fraction: u8,
    },
    /// TIMESTAMP before 5.6: four bytes of seconds.
    OldTimestamp,
    /// DATETIME before 5.6: eight bytes, a number with the digits YYYYMMDDhhmmss.
    OldDateTime,
    /// TIME before 5.6: three bytes, a number with the digits hhmmss.
    OldTime,
    /// DATE: three bytes.
    Date,
    /// YEAR: one byte.
    Year,
    /// VARCHAR, VARBINARY.
    Varchar {
        /// Maximum size of a value in bytes.
        size_max: u16,
    },
    /// CHAR, BINARY.
    Char {
        /// Maximum size of a value in bytes.
        size_max: u16,
    },
    /// ENUM.
    Enum {
        /// Size of a value in bytes: 1 or 2.
        size: u8,
    },
    /// SET.
    Set {
        /// Size of a value in bytes: 1 to 8.
        size: u8,
    },
    /// BIT.
    Bit {
        /// Number of bits in a value: 0 to 64.
        bits: u8,
    },
    /// TEXT, BLOB and their other sizes.
    Blob {
        /// Size of the length prefix in bytes: 1 to 4.
        prefix: u8,
    },
    /// JSON.
    Json {
        /// Size of the length prefix in bytes: 1 to 4.
        prefix: u8,
    },
    /// GEOMETRY and its subtypes.
    Geometry {
        /// Size of the length prefix in bytes: 1 to 4.
        prefix: u8,
    },
    /// VECTOR.
    Vector {
        /// Size of the length prefix in bytes: 1 to 4.
        prefix: u8,
    },
    /// Keys of a multi-valued index; servers never log it.
    TypedArray,
    /// MariaDB's VARCHAR … COMPRESSED.
    CompressedVarchar {
        /// Maximum size of a value in bytes.
        size_max: u16,
    },
    /// MariaDB's BLOB … COMPRESSED.
    CompressedBlob {
        /// Size of the length prefix in bytes: 1 to 4.
        prefix: u8,
    },
    /// Type whose values have no known size: an unknown code, or DECIMAL before 5.0.
    Unknown,
}

/// Size of a value in a row, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueSize {
    /// Fixed number of bytes.
    Fixed(u8),
    /// Length prefix of this many bytes, little-endian, then the value.
    Prefixed(u8),
    /// Unknown size.
    Unknown,
}

impl ColumnType {
    /// Returns true if the signedness field has a bit for this type.
    pub const fn is_numeric(self) -> bool {
        matches!(
            self,
            Self::TinyInt
                | Self::SmallInt
                | Self::MediumInt
                | Self::Int
                | Self::BigInt
                | Self::Float
                | Self::Double
                | Self::Decimal { .. }
                | Self::Year
        )
    }

    /// Returns true if the character set fields have an entry for this type. Vectors have an entry, with the collation
    /// `binary`.
    pub const fn is_character(self) -> bool {
        matches!(
            self,
            Self::Char { .. }
                | Self::Varchar { .. }
                | Self::Blob { .. }
                | Self::Vector { .. }
                | Self::CompressedVarchar { .. }
                | Self::CompressedBlob { .. }
        )
    }

    /// Returns the values of `information_schema.columns.data_type` (MySQL) that match this type; empty if unknown.
    pub const fn data_types(self) -> &'static [&'static str] {
        match self {
            Self::TinyInt => &["tinyint"],
            Self::SmallInt => &["smallint"],
            Self::MediumInt => &["mediumint"],
            Self::Int => &["int"],
            Self::BigInt => &["bigint"],
            Self::Float => &["float"],
            Self::Double => &["double"],
            Self::Decimal { .. } => &["decimal"],
            Self::Timestamp { .. } | Self::OldTimestamp => &["timestamp"],
            Self::DateTime { .. } | Self::OldDateTime => &["datetime"],
            Self::Time { .. } | Self::OldTime => &["time"],
            Self::Date => &["date"],
            Self::Year => &["year"],
            Self::Varchar { .. } => &["varchar", "varbinary"],
            Self::Char { .. } => &["char", "binary"],
            Self::Enum { .. } => &["enum"],
            Self::Set { .. } => &["set"],
            Self::Bit { .. } => &["bit"],
            Self::Blob { prefix: 1 } => &["tinytext", "tinyblob"],
            Self::Blob { prefix: 2 } => &["text", "blob"],
            Self::Blob { prefix: 3 } => &["mediumtext", "mediumblob"],
            Self::Blob { .. } => &["longtext", "longblob"],
            Self::Json { .. } => &["json"],
            Self::Vector { .. } => &["vector"],
            _ => &[],
        }
    }

    /// Reinterprets an integer that was decoded as signed because the log lacks the signedness field: `-1` of a
    /// SMALLINT becomes 65535.
    pub const fn unsigned(self, number: i64) -> u64 {
        let unused = match self {
            Self::TinyInt => 56,
            Self::SmallInt => 48,
            Self::MediumInt => 40,
            Self::Int => 32,
            _ => 0,
        };
        number.cast_unsigned() << unused >> unused
    }

    /// Returns the number of bytes that a value takes in a row.
    pub const fn value_size(self) -> ValueSize {
        match self {
            Self::Null => ValueSize::Fixed(0),
            Self::TinyInt | Self::Year => ValueSize::Fixed(1),
            Self::SmallInt => ValueSize::Fixed(2),
            Self::MediumInt | Self::Date | Self::OldTime => ValueSize::Fixed(3),
            Self::Int | Self::Float | Self::OldTimestamp => ValueSize::Fixed(4),
            Self::BigInt | Self::Double | Self::OldDateTime => ValueSize::Fixed(8),
            Self::Decimal { precision, scale } => ValueSize::Fixed(decimal_size(precision, scale)),
            Self::Timestamp { fraction } => ValueSize::Fixed(4 + fraction_size(fraction)),
            Self::DateTime { fraction } => ValueSize::Fixed(5 + fraction_size(fraction)),
            Self::Time { fraction } => ValueSize::Fixed(3 + fraction_size(fraction)),
            Self::Enum { size } | Self::Set { size } => ValueSize::Fixed(size),
            Self::Bit { bits } => ValueSize::Fixed(bits.div_ceil(8)),
            Self::Char { size_max } | Self::Varchar { size_max } | Self::CompressedVarchar { size_max } => {
                ValueSize::Prefixed(if size_max > 255 { 2 } else { 1 })
            }
            Self::Blob { prefix }
            | Self::Json { prefix }
            | Self::Geometry { prefix }
            | Self::Vector { prefix }
            | Self::CompressedBlob { prefix } => ValueSize::Prefixed(prefix),
            Self::TypedArray => ValueSize::Prefixed(4),
            Self::Unknown => ValueSize::Unknown,
        }
    }
}

const fn fraction_size(digits: u8) -> u8 {
    digits.div_ceil(2)
}

/// Returns the size of a stored DECIMAL in bytes. Nine digits take four bytes; the remaining digits on either side
/// take fewer.
pub(crate) const fn decimal_size(precision: u8, scale: u8) -> u8 {
    const LEFT_OVER: [u8; 9] = [0, 1, 1, 2, 2, 3, 3, 4, 4];
    let whole = precision - scale;
    whole / 9 * 4 + LEFT_OVER[(whole % 9) as usize] + scale / 9 * 4 + LEFT_OVER[(scale % 9) as usize]
}

/// A column's type, resolved from its type code and its metadata.
pub(crate) struct ResolvedType {
    pub(crate) column_type: ColumnType,
    pub(crate) metadata: u32,
}

/// Reads the metadata of one column from `cursor`.
// code  bytes  metadata
// 0-3, 6-14  0
//  4,5      1  bytes of a value
//  15       2  size_max, little-endian
//  16       2  bits beyond whole bytes, whole bytes
//  17-19    1  fraction
//   20      *  element's type code, then its metadata (three bytes if it is 15)
//  140      1  prefix (MariaDB)
//  141      2  size_max, little-endian (MariaDB)
//  242      1  prefix
//  245      1  prefix
//  246      2  precision, scale
//  247,248  2  real type, size
//  249-252  1  prefix
//  253,254  2  real type and size_max, see `string`
//  255      1  prefix
pub(crate) fn resolve(type_code: u8, cursor: &mut Cursor<'_>) -> Result<ResolvedType, DecodeError> {
    let plain = |column_type| Ok(ResolvedType { column_type, metadata: 0 });
    match type_code {
        1 => plain(ColumnType::TinyInt),
        2 => plain(ColumnType::SmallInt),
        3 => plain(ColumnType::Int),
        4 => small(cursor, "size of FLOAT", 4..=4, |_| ColumnType::Float),
        5 => small(cursor, "size of DOUBLE", 8..=8, |_| ColumnType::Double),
        6 => plain(ColumnType::Null),
        7 => plain(ColumnType::OldTimestamp),
        8 => plain(ColumnType::BigInt),
        9 => plain(ColumnType::MediumInt),
        10 | 14 => plain(ColumnType::Date),
        11 => plain(ColumnType::OldTime),
        12 => plain(ColumnType::OldDateTime),
        13 => plain(ColumnType::Year),
        15 => varchar(cursor, |size_max| ColumnType::Varchar { size_max }),
        16 => bit(cursor),
        17 => small(cursor, "number of fractional digits of TIMESTAMP", 0..=6, |fraction| {
            ColumnType::Timestamp { fraction }
        }),
        18 => small(cursor, "number of fractional digits of DATETIME", 0..=6, |fraction| {
            ColumnType::DateTime { fraction }
        }),
        19 => small(cursor, "number of fractional digits of TIME", 0..=6, |fraction| ColumnType::Time {
            fraction,
        }),
        20 => typed_array(cursor),
        140 => small(cursor, "prefix of BLOB", 1..=4, |prefix| ColumnType::CompressedBlob { prefix }),
        141 => varchar(cursor, |size_max| ColumnType::CompressedVarchar { size_max }),
        242 => small(cursor, "prefix of VECTOR", 1..=4, |prefix| ColumnType::Vector { prefix }),
        245 => small(cursor, "prefix of JSON", 1..=4, |prefix| ColumnType::Json { prefix }),
        246 => decimal(cursor),
        247 | 248 | 253 | 254 => string(cursor),
        249..=252 => small(cursor, "prefix of BLOB", 1..=4, |prefix| ColumnType::Blob { prefix }),
        255 => small(cursor, "prefix of GEOMETRY", 1..=4, |prefix| ColumnType::Geometry { prefix }),
        _ => plain(ColumnType::Unknown),
    }
}

fn small(
    cursor: &mut Cursor<'_>,
    field: &'static str,
    range: std::ops::RangeInclusive<u8>,
    make: impl FnOnce(u8) -> ColumnType,
) -> Result<ResolvedType, DecodeError> {
    let offset = cursor.offset();
    let byte = cursor.u8()?;
    if !range.contains(&byte) {
        let found = u64::from(byte);
        let reason = match byte > *range.end() {
            true => DecodeReason::OutOfRange { field, found, max: u64::from(*range.end()) },
            false => DecodeReason::Differs { field, found, expected: u64::from(*range.start()) },
        };
        return Err(DecodeError::new(offset, reason));
    }
    Ok(ResolvedType { column_type: make(byte), metadata: u32::from(byte) })
}

fn varchar(
    cursor: &mut Cursor<'_>,
    make: impl FnOnce(u16) -> ColumnType,
) -> Result<ResolvedType, DecodeError> {
    let size_max = cursor.u16()?;
    Ok(ResolvedType { column_type: make(size_max), metadata: u32::from(size_max) })
}

fn bit(cursor: &mut Cursor<'_>) -> Result<ResolvedType, DecodeError> {
    let offset = cursor.offset();
    let metadata = cursor.u16()?;
    let [bits, bytes] = metadata.to_le_bytes();
    let total = u64::from(bytes) * 8 + u64::from(bits);
    match u8::try_from(total) {
        Ok(total @ 0..=64) if bits < 8 => {
            Ok(ResolvedType { column_type: ColumnType::Bit { bits: total }, metadata: u32::from(metadata) })
        }
        _ => Err(DecodeError::new(
            offset,
            DecodeReason::OutOfRange { field: "number of bits of BIT", found: total, max: 64 },
        )),
    }
}

fn typed_array(cursor: &mut Cursor<'_>) -> Result<ResolvedType, DecodeError> {
    match cursor.u8()? {
        15 => {
            cursor.u24()?;
        }
        // Arrays of arrays do not exist; without this arm, corrupt input could recurse.
        20 => return Ok(ResolvedType { column_type: ColumnType::Unknown, metadata: 0 }),
        element => {
            resolve(element, cursor)?;
        }
    }
    Ok(ResolvedType { column_type: ColumnType::TypedArray, metadata: 0 })
}

fn decimal(cursor: &mut Cursor<'_>) -> Result<ResolvedType, DecodeError> {
    let offset = cursor.offset();
    let [precision, scale] = cursor.array()?;
    if precision > 65 {
        let reason =
            DecodeReason::OutOfRange { field: "precision of DECIMAL", found: u64::from(precision), max: 65 };
        return Err(DecodeError::new(offset, reason));
    }
    if scale > precision {
        let max = u64::from(precision);
        let reason = DecodeReason::OutOfRange { field: "scale of DECIMAL", found: u64::from(scale), max };
        return Err(DecodeError::new(offset + 1, reason));
    }
    let metadata = u32::from(u16::from_be_bytes([precision, scale]));
    Ok(ResolvedType { column_type: ColumnType::Decimal { precision, scale }, metadata })
}

/// Reads the metadata of CHAR, BINARY, ENUM and SET. The first byte is the real type. This byte also holds the two
/// upper bits of sizes above 255, inverted. Their positions are 1 in each of these type codes.
fn string(cursor: &mut Cursor<'_>) -> Result<ResolvedType, DecodeError> {
    const SHARED: u8 = 0x30;
    let offset = cursor.offset();
    let [first, second] = cursor.array()?;
    let metadata = u32::from(u16::from_be_bytes([first, second]));
    // Before 5.0.3, this byte is the map's type code for all of these types, and no size exceeds 255.
    let (real_type, size) = match first & SHARED == SHARED {
        true => (first, u16::from(second)),
        false => (first | SHARED, u16::from(second) | u16::from((first & SHARED) ^ SHARED) << 4),
    };
    let column_type = match (real_type, size) {
        (247, 1 | 2) => ColumnType::Enum { size: second },
        (248, 1..=8) => ColumnType::Set { size: second },
        (247 | 248, _) => {
            let found = u64::from(size);
            let max = if real_type == 247 { 2 } else { 8 };
            let reason = DecodeReason::OutOfRange { field: "size of ENUM or SET", found, max };
            return Err(DecodeError::new(offset + 1, reason));
        }
        (253 | 254, size_max) => ColumnType::Char { size_max },
        _ => {
            let reason = DecodeReason::Unexpected {
                field: "real type of a column",
                found: u64::from(real_type),
                expected: "247, 248, 253 or 254",
            };
            return Err(DecodeError::new(offset, reason));
        }
    };
    Ok(ResolvedType { column_type, metadata })
}
