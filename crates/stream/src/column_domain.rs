//! Types of columns as Debezium's connector sees them, and their schemas.

use binlog::{Charset, Column, ColumnType};
use sql::data_type::{BINARY_TYPES, GEOMETRY_TYPES, fixed_byte_size};

use crate::column_catalogue::{ColumnSchema, parse_texts};
use crate::connect_schema::{ConnectKind, ConnectSchema};
use crate::table_plan::ColumnPlan;
use crate::value_modes::{BinaryMode, DecimalMode, TimeMode, UnsignedBigintMode, ValueModes};

/// Name of Kafka Connect's exact number.
const DECIMAL_NAME: &str = "org.apache.kafka.connect.data.Decimal";
/// Parameter with the precision of an exact number.
const PRECISION_PARAMETER: &str = "connect.decimal.precision";

/// Type of a column as Debezium's connector sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ColumnDomain {
    Int16,
    Int32,
    Int64,
    UnsignedBigint,
    Float,
    Double,
    Decimal { precision: u8, scale: u8 },
    Bit { bits: u8 },
    Year,
    Date,
    Time { fraction: u8 },
    DateTime { fraction: u8 },
    Timestamp,
    Text,
    Bytes,
    Enum(Vec<String>),
    Set(Vec<String>),
    Json,
    Point,
    Geometry,
    Vector,
}

impl ColumnDomain {
    /// Returns the type of a column in the log, prepared as `plan`.
    pub(crate) fn from_log(column: &Column, plan: &ColumnPlan) -> Self {
        let is_unsigned = column.unsigned == Some(true);
        let is_binary = plan.charset == Charset::Binary;
        match column.column_type {
            ColumnType::TinyInt => Self::Int16,
            ColumnType::SmallInt => {
                if is_unsigned {
                    Self::Int32
                } else {
                    Self::Int16
                }
            }
            ColumnType::MediumInt => Self::Int32,
            ColumnType::Int => {
                if is_unsigned {
                    Self::Int64
                } else {
                    Self::Int32
                }
            }
            ColumnType::BigInt => {
                if is_unsigned {
                    Self::UnsignedBigint
                } else {
                    Self::Int64
                }
            }
            ColumnType::Float => Self::Float,
            ColumnType::Double => Self::Double,
            ColumnType::Decimal { precision, scale } => Self::Decimal { precision, scale },
            ColumnType::Bit { bits } => Self::Bit { bits },
            ColumnType::Year => Self::Year,
            ColumnType::Date => Self::Date,
            ColumnType::Time { fraction } => Self::Time { fraction },
            ColumnType::OldTime => Self::Time { fraction: 0 },
            ColumnType::DateTime { fraction } => Self::DateTime { fraction },
            ColumnType::OldDateTime => Self::DateTime { fraction: 0 },
            ColumnType::Timestamp { .. } | ColumnType::OldTimestamp => Self::Timestamp,
            ColumnType::Enum { .. } => Self::Enum(plan_texts(plan)),
            ColumnType::Set { .. } => Self::Set(plan_texts(plan)),
            ColumnType::Json { .. } => Self::Json,
            ColumnType::Geometry { .. } => {
                if plan.is_point {
                    Self::Point
                } else {
                    Self::Geometry
                }
            }
            ColumnType::Vector { .. } => Self::Vector,
            _ if is_binary => Self::Bytes,
            _ => Self::Text,
        }
    }

    /// Returns the type of a column in a catalogue.
    pub(crate) fn from_catalogue(column: &ColumnSchema) -> Self {
        let is_unsigned = column.column_type.contains("unsigned");
        let numbers = type_arguments(&column.column_type);
        let number = |index: usize| numbers.get(index).copied();
        match &*column.data_type {
            "tinyint" => Self::Int16,
            "smallint" => {
                if is_unsigned {
                    Self::Int32
                } else {
                    Self::Int16
                }
            }
            "mediumint" => Self::Int32,
            "int" => {
                if is_unsigned {
                    Self::Int64
                } else {
                    Self::Int32
                }
            }
            "bigint" => {
                if is_unsigned {
                    Self::UnsignedBigint
                } else {
                    Self::Int64
                }
            }
            "float" => Self::Float,
            "double" => Self::Double,
            "decimal" => Self::Decimal { precision: number(0).unwrap_or(10), scale: number(1).unwrap_or(0) },
            "bit" => Self::Bit { bits: number(0).unwrap_or(1) },
            "year" => Self::Year,
            "date" => Self::Date,
            "time" => Self::Time { fraction: number(0).unwrap_or(0) },
            "datetime" => Self::DateTime { fraction: number(0).unwrap_or(0) },
            "timestamp" => Self::Timestamp,
            "enum" => Self::Enum(parse_texts(&column.column_type)),
            "set" => Self::Set(parse_texts(&column.column_type)),
            "json" => Self::Json,
            "point" => Self::Point,
            "vector" => Self::Vector,
            bytes if BINARY_TYPES.contains(&bytes) || fixed_byte_size(bytes).is_some() => Self::Bytes,
            geometry if GEOMETRY_TYPES.contains(&geometry) => Self::Geometry,
            _ => Self::Text,
        }
    }

    /// Returns whether a column accepts null in Debezium's schema. It calls geometries other than points nullable.
    pub(crate) fn is_optional(&self, nullable: bool) -> bool {
        nullable || *self == Self::Geometry
    }

    /// Returns the schema of the values in these forms.
    pub(crate) fn schema(&self, modes: ValueModes) -> ConnectSchema {
        let plain = ConnectSchema::new;
        match self {
            Self::Int16 => plain(ConnectKind::Int16),
            Self::Int32 => plain(ConnectKind::Int32),
            Self::UnsignedBigint if modes.unsigned_bigints == UnsignedBigintMode::Precise => decimal(20, 0),
            Self::Int64 | Self::UnsignedBigint => plain(ConnectKind::Int64),
            Self::Float => plain(ConnectKind::Float32),
            Self::Double => plain(ConnectKind::Float64),
            Self::Decimal { precision, scale } => match modes.decimals {
                DecimalMode::Precise => decimal(*precision, *scale),
                DecimalMode::Double => plain(ConnectKind::Float64),
                DecimalMode::Text => plain(ConnectKind::Text),
            },
            Self::Bit { bits: 1 } => plain(ConnectKind::Boolean),
            Self::Bit { bits } => {
                ConnectSchema::named(ConnectKind::Bytes, "io.debezium.data.Bits").parameter("length", bits)
            }
            Self::Year => ConnectSchema::named(ConnectKind::Int32, "io.debezium.time.Year"),
            Self::Date | Self::Time { .. } | Self::DateTime { .. } => self.time_schema(modes.times),
            Self::Timestamp => ConnectSchema::named(ConnectKind::Text, "io.debezium.time.ZonedTimestamp"),
            Self::Text => plain(ConnectKind::Text),
            Self::Bytes if modes.bytes == BinaryMode::Bytes => plain(ConnectKind::Bytes),
            Self::Bytes => plain(ConnectKind::Text),
            Self::Enum(texts) => ConnectSchema::named(ConnectKind::Text, "io.debezium.data.Enum")
                .parameter("allowed", allowed(texts)),
            Self::Set(texts) => ConnectSchema::named(ConnectKind::Text, "io.debezium.data.EnumSet")
                .parameter("allowed", allowed(texts)),
            Self::Json => ConnectSchema::named(ConnectKind::Text, "io.debezium.data.Json"),
            Self::Point => geometry(true),
            Self::Geometry => geometry(false),
            Self::Vector => {
                let item = Box::new(plain(ConnectKind::Float32));
                ConnectSchema::named(ConnectKind::Array(item), "io.debezium.data.FloatVector")
            }
        }
    }

    /// Returns the schema of a DATE, TIME or DATETIME.
    fn time_schema(&self, mode: TimeMode) -> ConnectSchema {
        use ConnectKind::{Int32, Int64, Text};
        let (kind, name) = match (mode, self) {
            (TimeMode::Connect, Self::Date) => (Int32, "org.apache.kafka.connect.data.Date"),
            (TimeMode::Connect, Self::Time { .. }) => (Int32, "org.apache.kafka.connect.data.Time"),
            (TimeMode::Connect, _) => (Int64, "org.apache.kafka.connect.data.Timestamp"),
            (TimeMode::IsoString, Self::Date) => (Text, "io.debezium.time.IsoDate"),
            (TimeMode::IsoString, Self::Time { .. }) => (Text, "io.debezium.time.IsoTime"),
            (TimeMode::IsoString, _) => (Text, "io.debezium.time.IsoTimestamp"),
            (_, Self::Date) => (Int32, "io.debezium.time.Date"),
            (TimeMode::Nanoseconds, Self::Time { .. }) => (Int64, "io.debezium.time.NanoTime"),
            (TimeMode::Nanoseconds, _) => (Int64, "io.debezium.time.NanoTimestamp"),
            (_, Self::Time { .. }) => (Int64, "io.debezium.time.MicroTime"),
            (TimeMode::AdaptiveTimeMicroseconds, Self::DateTime { fraction: 0..=3 }) => {
                (Int64, "io.debezium.time.Timestamp")
            }
            _ => (Int64, "io.debezium.time.MicroTimestamp"),
        };
        ConnectSchema::named(kind, name)
    }
}

/// Returns the members of an ENUM or SET as Debezium lists them.
fn allowed(texts: &[String]) -> String {
    texts.iter().map(|text| text.replace(',', "\\,")).collect::<Vec<String>>().join(",")
}

fn decimal(precision: u8, scale: u8) -> ConnectSchema {
    ConnectSchema::named(ConnectKind::Bytes, DECIMAL_NAME)
        .parameter("scale", scale)
        .parameter(PRECISION_PARAMETER, precision)
}

fn geometry(is_point: bool) -> ConnectSchema {
    let bytes = ConnectSchema::new(ConnectKind::Bytes);
    let number = || ConnectSchema::new(ConnectKind::Float64);
    let srid = ConnectSchema::new(ConnectKind::Int32).optional().field("srid");
    match is_point {
        true => ConnectSchema::named_struct(
            "io.debezium.data.geometry.Point",
            vec![number().field("x"), number().field("y"), bytes.optional().field("wkb"), srid],
        )
        .described("Geometry (POINT)"),
        false => {
            let fields = vec![bytes.field("wkb"), srid];
            ConnectSchema::named_struct("io.debezium.data.geometry.Geometry", fields).described("Geometry")
        }
    }
}

/// Returns the members of an ENUM or SET without their quotes. Escaped characters stay as JSON has them.
fn plan_texts(plan: &ColumnPlan) -> Vec<String> {
    let text = |quoted: &[u8]| {
        let plain = crate::value_mask::unescaped(quoted).unwrap_or_default();
        String::from_utf8_lossy(&plain).into_owned()
    };
    plan.texts.iter().map(|quoted| text(quoted)).collect()
}

/// Returns the numbers in `decimal(10,2)`.
fn type_arguments(column_type: &str) -> Vec<u8> {
    let inner = column_type.split_once('(').and_then(|(_, rest)| rest.split_once(')'));
    inner.map_or_else(Vec::new, |(inner, _)| {
        inner.split(',').filter_map(|text| text.trim().parse().ok()).collect()
    })
}
