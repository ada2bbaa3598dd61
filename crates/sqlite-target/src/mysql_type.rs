//! Column types: MySQL's, from definitions and table maps, and SQLite's types for their values.

use std::fmt;

use binlog::{Charset, Column, ColumnType, Flavour};
use replay::row_reader::column_charset;
use serde::{Deserialize, Serialize};
use sql::data_type::{BINARY_TYPES, GEOMETRY_TYPES};
use sql::ddl::{ColumnTypeDefinition, TypeArgument};

/// The collation `binary`: its columns hold bytes, not text.
const BINARY: u16 = 63;

/// A column's MySQL type, with the attributes that affect its values.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum MysqlType {
    /// TINYINT to BIGINT, BOOL.
    Integer {
        bits: u8,
        unsigned: bool,
    },
    Year,
    Bit {
        bits: u8,
    },
    Float,
    Double,
    Decimal {
        scale: u8,
    },
    Date,
    Time {
        fraction: u8,
    },
    DateTime {
        fraction: u8,
    },
    Timestamp {
        fraction: u8,
    },
    /// CHAR, VARCHAR and the TEXT types; the character set, if known.
    Text {
        charset: Option<String>,
    },
    /// BINARY with its padded size; VARBINARY and the BLOB types without a size.
    Bytes {
        size: Option<u16>,
    },
    /// ENUM and its texts; empty if the log does not have them.
    Enum {
        texts: Vec<String>,
    },
    Set {
        texts: Vec<String>,
    },
    Json,
    Geometry,
    Vector,
}

impl fmt::Display for MysqlType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer { bits, unsigned: false } => write!(out, "an integer of {bits} bits"),
            Self::Integer { bits, unsigned: true } => write!(out, "an unsigned integer of {bits} bits"),
            Self::Year => out.write_str("YEAR"),
            Self::Bit { bits } => write!(out, "BIT({bits})"),
            Self::Float => out.write_str("FLOAT"),
            Self::Double => out.write_str("DOUBLE"),
            Self::Decimal { scale } => write!(out, "DECIMAL with {scale} digits after the point"),
            Self::Date => out.write_str("DATE"),
            Self::Time { fraction } => write!(out, "TIME({fraction})"),
            Self::DateTime { fraction } => write!(out, "DATETIME({fraction})"),
            Self::Timestamp { fraction } => write!(out, "TIMESTAMP({fraction})"),
            Self::Text { .. } => out.write_str("text"),
            Self::Bytes { .. } => out.write_str("bytes"),
            Self::Enum { .. } => out.write_str("ENUM"),
            Self::Set { .. } => out.write_str("SET"),
            Self::Json => out.write_str("JSON"),
            Self::Geometry => out.write_str("a geometry"),
            Self::Vector => out.write_str("VECTOR"),
        }
    }
}

/// The SQLite type of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StrictType {
    Integer,
    Real,
    Text,
    Blob,
    /// Integers; as text if they exceed SQLite's range.
    Any,
}

impl StrictType {
    /// Returns the type's name in a STRICT table.
    pub(crate) const fn sql(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Text => "TEXT",
            Self::Blob => "BLOB",
            Self::Any => "ANY",
        }
    }
}

impl MysqlType {
    pub(crate) fn strict_type(&self) -> StrictType {
        match self {
            Self::Integer { bits: 64, unsigned: true } | Self::Bit { bits: 64 } => StrictType::Any,
            Self::Integer { .. } | Self::Year | Self::Bit { .. } => StrictType::Integer,
            Self::Enum { texts } if texts.is_empty() => StrictType::Integer,
            Self::Set { texts } if texts.is_empty() => StrictType::Any,
            Self::Float | Self::Double => StrictType::Real,
            Self::Bytes { .. } | Self::Geometry | Self::Vector => StrictType::Blob,
            _ => StrictType::Text,
        }
    }

    /// Returns the type in a definition; `None` if it is unknown. With the character set `binary`, text types become
    /// byte types.
    pub(crate) fn of_definition(definition: &ColumnTypeDefinition, charset: Option<&str>) -> Option<Self> {
        let integer = |bits| Self::Integer { bits, unsigned: definition.is_unsigned };
        let number = |at: usize| match definition.arguments.get(at) {
            Some(TypeArgument::Number(number)) => number.parse::<u16>().ok(),
            _ => None,
        };
        let small = |at: usize| number(at).and_then(|number| u8::try_from(number).ok());
        let fraction = small(0).unwrap_or(0);
        let texts = || {
            let text = |argument: &TypeArgument| match argument {
                TypeArgument::Text(text) => Some(text.clone()),
                TypeArgument::Number(_) => None,
            };
            definition.arguments.iter().filter_map(text).collect()
        };
        let data_type = definition.data_type();
        let bytes = ColumnTypeDefinition::binary_type(data_type).filter(|_| charset == Some("binary"));
        Some(match bytes.unwrap_or(data_type) {
            "tinyint" => integer(8),
            "smallint" => integer(16),
            "mediumint" => integer(24),
            "int" => integer(32),
            "bigint" => integer(64),
            "float" => Self::Float,
            "double" => Self::Double,
            "decimal" => Self::Decimal { scale: small(1).unwrap_or(0) },
            "bit" if definition.arguments.is_empty() => Self::Bit { bits: 1 },
            "bit" => Self::Bit { bits: small(0).filter(|bits| *bits <= 64)? },
            "date" => Self::Date,
            "year" => Self::Year,
            "time" => Self::Time { fraction },
            "datetime" => Self::DateTime { fraction },
            "timestamp" => Self::Timestamp { fraction },
            "char" | "varchar" | "tinytext" | "text" | "mediumtext" | "longtext" => {
                Self::Text { charset: charset.map(str::to_owned) }
            }
            "binary" => Self::Bytes { size: Some(number(0).unwrap_or(1)) },
            bytes if BINARY_TYPES.contains(&bytes) => Self::Bytes { size: None },
            "enum" => Self::Enum { texts: texts() },
            "set" => Self::Set { texts: texts() },
            "json" => Self::Json,
            geometry if GEOMETRY_TYPES.contains(&geometry) => Self::Geometry,
            "vector" => Self::Vector,
            _ => return None,
        })
    }

    /// Returns the type of a column known only from a table map; `None` if the type of its values is ambiguous.
    pub(crate) fn of(column: &Column, flavour: Flavour) -> Option<Self> {
        let texts = || {
            let charset = column_charset(column, flavour);
            column.texts.iter().map(|text| charset.decode_lossy(text).into_owned()).collect()
        };
        Some(match column.column_type {
            ColumnType::TinyInt => Self::integer(8, column),
            ColumnType::SmallInt => Self::integer(16, column),
            ColumnType::MediumInt => Self::integer(24, column),
            ColumnType::Int => Self::integer(32, column),
            ColumnType::BigInt => Self::integer(64, column),
            ColumnType::Float => Self::Float,
            ColumnType::Double => Self::Double,
            ColumnType::Decimal { scale, .. } => Self::Decimal { scale },
            ColumnType::Timestamp { fraction } => Self::Timestamp { fraction },
            ColumnType::DateTime { fraction } => Self::DateTime { fraction },
            ColumnType::Time { fraction } => Self::Time { fraction },
            ColumnType::OldTimestamp => Self::Timestamp { fraction: 0 },
            ColumnType::OldDateTime => Self::DateTime { fraction: 0 },
            ColumnType::OldTime => Self::Time { fraction: 0 },
            ColumnType::Date => Self::Date,
            ColumnType::Year => Self::Year,
            ColumnType::Bit { bits } => Self::Bit { bits },
            ColumnType::Enum { .. } => Self::Enum { texts: texts() },
            ColumnType::Set { .. } => Self::Set { texts: texts() },
            ColumnType::Json { .. } => Self::Json,
            ColumnType::Geometry { .. } => Self::Geometry,
            ColumnType::Vector { .. } => Self::Vector,
            ColumnType::Char { size_max } if is_bytes(column) => Self::Bytes { size: Some(size_max) },
            _ if column.column_type.is_character() && is_bytes(column) => Self::Bytes { size: None },
            _ if column.column_type.is_character() => {
                Self::Text { charset: Some(column_charset(column, flavour).name().to_owned()) }
            }
            _ => return None,
        })
    }

    fn integer(bits: u8, column: &Column) -> Self {
        Self::Integer { bits, unsigned: column.unsigned == Some(true) }
    }

    /// Returns true if values of a logged column fit this type.
    pub(crate) fn fits(&self, column: &Column, flavour: Flavour) -> bool {
        let Some(logged) = Self::of(column, flavour) else { return false };
        match (self, &logged) {
            (Self::Integer { bits, unsigned }, Self::Integer { bits: logged_bits, unsigned: logged }) => {
                bits == logged_bits && (column.unsigned.is_none() || unsigned == logged)
            }
            (Self::Text { .. }, Self::Bytes { .. }) => column.collation.is_none(),
            (Self::Text { .. }, Self::Text { .. })
            | (Self::Bytes { .. }, Self::Bytes { .. })
            | (Self::Enum { .. }, Self::Enum { .. })
            | (Self::Set { .. }, Self::Set { .. }) => true,
            (own, logged) => own == logged,
        }
    }

    /// Returns the character set of a text column, for logs without character sets.
    pub(crate) fn charset(&self) -> Charset {
        match self {
            Self::Text { charset: Some(name) } => Charset::from_name(name).unwrap_or(Charset::Utf8mb4),
            _ => Charset::Utf8mb4,
        }
    }
}

fn is_bytes(column: &Column) -> bool {
    column.collation.is_none_or(|collation| collation == BINARY)
}
