//! Column types: MySQL's as definitions and table maps have them, and what SQLite holds their values as.

use binlog::{Charset, Column, ColumnType, Flavour};
use serde::{Deserialize, Serialize};

use crate::changes::charset;

/// The collation `binary`: its columns hold bytes, not text.
const BINARY: u16 = 63;

/// A column's type, as far as its values depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Type {
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
    /// CHAR, VARCHAR, TEXT and their kin; the character set, where it is known.
    Text {
        charset: Option<String>,
    },
    /// BINARY with its size, to which values are filled up; VARBINARY, BLOB and their kin without.
    Bytes {
        size: Option<u16>,
    },
    /// The texts; none where the log does not tell them.
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

/// What SQLite holds a column's values as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Storage {
    Integer,
    Real,
    Text,
    Blob,
    /// Integers, and as text those that SQLite's integers cannot hold.
    Any,
}

impl Storage {
    /// As a STRICT table's definition names it.
    pub(super) const fn sql(self) -> &'static str {
        match self {
            Self::Integer => "INTEGER",
            Self::Real => "REAL",
            Self::Text => "TEXT",
            Self::Blob => "BLOB",
            Self::Any => "ANY",
        }
    }
}

impl Type {
    pub(super) fn storage(&self) -> Storage {
        match self {
            Self::Integer { bits: 64, unsigned: true } | Self::Bit { bits: 64 } => Storage::Any,
            Self::Integer { .. } | Self::Year | Self::Bit { .. } => Storage::Integer,
            Self::Enum { texts } if texts.is_empty() => Storage::Integer,
            Self::Set { texts } if texts.is_empty() => Storage::Any,
            Self::Float | Self::Double => Storage::Real,
            Self::Bytes { .. } | Self::Geometry | Self::Vector => Storage::Blob,
            _ => Storage::Text,
        }
    }

    /// The type of a column that only the log tells of. `None` if its values cannot be told apart.
    pub(super) fn of(column: &Column, flavour: Flavour) -> Option<Self> {
        let texts = || {
            let charset = charset(column, flavour);
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
                Self::Text { charset: Some(charset(column, flavour).name().to_owned()) }
            }
            _ => return None,
        })
    }

    fn integer(bits: u8, column: &Column) -> Self {
        Self::Integer { bits, unsigned: column.unsigned == Some(true) }
    }

    /// Can these be values of a column that the log has as this one?
    pub(super) fn fits(&self, column: &Column, flavour: Flavour) -> bool {
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

    /// The character set of a text column in a log that does not tell it.
    pub(super) fn charset(&self) -> Charset {
        match self {
            Self::Text { charset: Some(name) } => Charset::from_name(name).unwrap_or(Charset::Utf8mb4),
            _ => Charset::Utf8mb4,
        }
    }
}

fn is_bytes(column: &Column) -> bool {
    column.collation.is_none_or(|collation| collation == BINARY)
}
