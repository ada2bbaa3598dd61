//! The Arrow schema of the changes of one table.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};
use binlog::{Charset, Collation, Column, ColumnType, Flavour, Table};
use stream::UnnamedColumnPolicy;

/// Time zone of points in time.
pub(crate) const UTC: &str = "UTC";

/// Maximum precisions of Arrow's two decimal types.
const DECIMAL128_DIGITS_MAX: u8 = 38;
const DECIMAL256_DIGITS_MAX: u8 = 76;

/// Names of the columns that every batch has, before the images.
pub(crate) mod names {
    pub(crate) const OPERATION: &str = "operation";
    pub(crate) const GTID: &str = "gtid";
    pub(crate) const COMMIT_TIME: &str = "commit_time";
    pub(crate) const CHANGE_NUMBER: &str = "change_number";
    pub(crate) const THREAD_ID: &str = "thread_id";
    pub(crate) const LOG_NAME: &str = "log_name";
    pub(crate) const LOG_POSITION: &str = "log_position";
    pub(crate) const BEFORE: &str = "before";
    pub(crate) const AFTER: &str = "after";
    pub(crate) const BEFORE_OMITTED: &str = "before_omitted";
    pub(crate) const AFTER_OMITTED: &str = "after_omitted";
    pub(crate) const BEFORE_EXACT: &str = "before_exact";
    pub(crate) const AFTER_EXACT: &str = "after_exact";
}

/// Arrow schema of the changes of one table, and the table's columns prepared for it.
#[derive(Clone, Debug)]
pub struct ChangeSchema {
    /// Name of the database.
    pub database: String,
    /// Name of the table.
    pub table: String,
    /// Schema of the batches.
    pub arrow: SchemaRef,
    /// Columns of the images, in the table's order.
    pub(crate) columns: Arc<[SchemaColumn]>,
    /// For each column of the table, its index in `columns`; `None` for hidden columns.
    pub(crate) indexes: Box<[Option<usize>]>,
}

/// Column of an image, prepared for building arrays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SchemaColumn {
    pub(crate) name: Arc<str>,
    pub(crate) data_type: DataType,
    /// Character set of texts; `None` if the log does not state it.
    pub(crate) charset: Option<Charset>,
    /// Members of an ENUM or SET.
    pub(crate) members: Arc<[String]>,
    /// MySQL's type as text.
    mysql_type: String,
}

impl ChangeSchema {
    /// Prepares a table; `None` if its columns have no names and are not to be numbered.
    pub fn new(table: &Table, flavour: Flavour, unnamed: UnnamedColumnPolicy) -> Option<Self> {
        let mut columns = Vec::new();
        let mut indexes = Vec::new();
        for (index, column) in table.columns.iter().enumerate() {
            let name = match (&column.name, unnamed) {
                // Hidden columns of functional indexes are in no row.
                (Some(name), _) if name.is_empty() => {
                    indexes.push(None);
                    continue;
                }
                (Some(name), _) => String::from_utf8_lossy(name).into_owned(),
                (None, UnnamedColumnPolicy::Number) => format!("@{}", index + 1),
                (None, UnnamedColumnPolicy::Refuse) => return None,
            };
            indexes.push(Some(columns.len()));
            columns.push(SchemaColumn::new(&name, column, flavour));
        }
        let [database, name] =
            [&table.database, &table.name].map(|name| String::from_utf8_lossy(name).into_owned());
        let key = table.primary_key.iter().flatten().filter_map(|part| {
            let index = indexes.get(part.column).copied().flatten()?;
            columns.get(index).map(|column: &SchemaColumn| &*column.name)
        });
        let key: Vec<&str> = key.collect();
        let mut metadata = HashMap::from([
            ("mysql.database".to_owned(), database.clone()),
            ("mysql.table".to_owned(), name.clone()),
        ]);
        if !key.is_empty() {
            metadata.insert("mysql.primary_key".to_owned(), key.join(","));
        }
        let arrow = Arc::new(Schema::new_with_metadata(batch_fields(&columns), metadata));
        Some(Self { database, table: name, arrow, columns: columns.into(), indexes: indexes.into() })
    }

    /// Returns whether batches of both schemas can be in the same table: they are equal up to members of ENUMs.
    pub(crate) fn has_same_columns(&self, other: &Self) -> bool {
        self.arrow == other.arrow && self.columns == other.columns && self.indexes == other.indexes
    }

    /// Returns the fields of the structs `before` and `after`.
    pub fn image_fields(&self) -> Fields {
        image_fields(&self.columns)
    }
}

fn batch_fields(columns: &[SchemaColumn]) -> Fields {
    let texts = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let image = || DataType::Struct(image_fields(columns));
    Fields::from(vec![
        Field::new(names::OPERATION, texts(), false),
        Field::new(names::GTID, texts(), true),
        Field::new(names::COMMIT_TIME, DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into())), false),
        Field::new(names::CHANGE_NUMBER, DataType::Int64, false),
        Field::new(names::THREAD_ID, DataType::Int64, true),
        Field::new(names::LOG_NAME, texts(), false),
        Field::new(names::LOG_POSITION, DataType::Int64, false),
        Field::new(names::BEFORE, image(), true),
        Field::new(names::AFTER, image(), true),
        Field::new(names::BEFORE_OMITTED, name_list(), true),
        Field::new(names::AFTER_OMITTED, name_list(), true),
        Field::new(names::BEFORE_EXACT, exact_texts(), true),
        Field::new(names::AFTER_EXACT, exact_texts(), true),
    ])
}

fn image_fields(columns: &[SchemaColumn]) -> Fields {
    columns.iter().map(SchemaColumn::field).collect()
}

/// Returns the type of a list of column names.
pub(crate) fn name_list() -> DataType {
    DataType::List(Arc::new(Field::new_list_field(DataType::Utf8, false)))
}

/// Returns the type of a map from column names to exact texts.
pub(crate) fn exact_texts() -> DataType {
    let [keys, values] = exact_text_fields();
    let entries = DataType::Struct(Fields::from(vec![keys, values]));
    DataType::Map(Arc::new(Field::new("entries", entries, false)), false)
}

/// Returns the fields of keys and values of a map of exact texts.
pub(crate) fn exact_text_fields() -> [Field; 2] {
    [Field::new("keys", DataType::Utf8, false), Field::new("values", DataType::Utf8, false)]
}

/// Returns the fields of a geometry.
pub(crate) fn geometry_fields() -> Fields {
    Fields::from(vec![
        Field::new("srid", DataType::UInt32, false),
        Field::new("wkb", DataType::Binary, false),
    ])
}

impl SchemaColumn {
    fn new(name: &str, column: &Column, flavour: Flavour) -> Self {
        let charset = column.collation.and_then(|id| Collation::new(id, flavour));
        let charset = charset.map(|collation| collation.charset());
        let texts = charset.unwrap_or(Charset::Utf8mb4);
        let members = column.texts.iter().map(|text| texts.decode_lossy(text).into_owned());
        Self {
            name: name.into(),
            data_type: data_type(column, charset),
            charset,
            members: members.collect(),
            mysql_type: mysql_type(column, charset),
        }
    }

    fn field(&self) -> Field {
        let metadata = HashMap::from([("mysql.type".to_owned(), self.mysql_type.clone())]);
        // Every column may be omitted from an image.
        Field::new(&*self.name, self.data_type.clone(), true).with_metadata(metadata)
    }
}

/// Returns the Arrow type of a column's values.
fn data_type(column: &Column, charset: Option<Charset>) -> DataType {
    let integer = |signed, unsigned| if column.unsigned == Some(true) { unsigned } else { signed };
    match column.column_type {
        ColumnType::TinyInt => integer(DataType::Int8, DataType::UInt8),
        ColumnType::SmallInt => integer(DataType::Int16, DataType::UInt16),
        ColumnType::MediumInt | ColumnType::Int => integer(DataType::Int32, DataType::UInt32),
        ColumnType::BigInt => integer(DataType::Int64, DataType::UInt64),
        ColumnType::Float => DataType::Float32,
        ColumnType::Double => DataType::Float64,
        ColumnType::Decimal { precision, scale } => decimal(precision, scale),
        ColumnType::Timestamp { .. } | ColumnType::OldTimestamp => {
            DataType::Timestamp(TimeUnit::Microsecond, Some(UTC.into()))
        }
        ColumnType::DateTime { .. } | ColumnType::OldDateTime => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        ColumnType::Time { .. } | ColumnType::OldTime => DataType::Time64(TimeUnit::Microsecond),
        ColumnType::Date => DataType::Date32,
        ColumnType::Year => DataType::UInt16,
        ColumnType::Enum { .. } if column.texts.is_empty() => DataType::UInt16,
        ColumnType::Enum { .. } => DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        ColumnType::Set { .. } if !column.texts.is_empty() => name_list(),
        ColumnType::Set { .. } | ColumnType::Bit { .. } => DataType::UInt64,
        ColumnType::Json { .. } | ColumnType::TypedArray => DataType::Utf8,
        ColumnType::Geometry { .. } => DataType::Struct(geometry_fields()),
        ColumnType::Vector { .. } => {
            DataType::List(Arc::new(Field::new_list_field(DataType::Float32, false)))
        }
        _ => match charset {
            None | Some(Charset::Binary) => DataType::Binary,
            Some(_) => DataType::Utf8,
        },
    }
}

fn decimal(precision: u8, scale: u8) -> DataType {
    let precision = precision.max(1);
    // At most 76 digits.
    let scale_signed = scale.min(DECIMAL256_DIGITS_MAX).cast_signed();
    match precision {
        ..=DECIMAL128_DIGITS_MAX => DataType::Decimal128(precision, scale_signed),
        // DuckDB reads wrong numbers if the size of a number is no multiple of 8 bytes, as with most precisions.
        39..=DECIMAL256_DIGITS_MAX => DataType::Decimal256(DECIMAL256_DIGITS_MAX, scale_signed),
        // No server has such columns.
        _ => DataType::Utf8,
    }
}

/// Returns MySQL's type as text: `decimal(10,2)`, `datetime(6)`, `enum`.
fn mysql_type(column: &Column, charset: Option<Charset>) -> String {
    let is_binary = charset == Some(Charset::Binary);
    let sign = if column.unsigned == Some(true) { " unsigned" } else { "" };
    let fraction = |name: &str, digits: u8| match digits {
        0 => name.to_owned(),
        digits => format!("{name}({digits})"),
    };
    match column.column_type {
        ColumnType::Decimal { precision, scale } => format!("decimal({precision},{scale}){sign}"),
        ColumnType::Timestamp { fraction: digits } => fraction("timestamp", digits),
        ColumnType::DateTime { fraction: digits } => fraction("datetime", digits),
        ColumnType::Time { fraction: digits } => fraction("time", digits),
        ColumnType::Bit { bits } => format!("bit({bits})"),
        ColumnType::Geometry { .. } => "geometry".to_owned(),
        ColumnType::Vector { .. } => match column.dimension {
            Some(dimension) => format!("vector({dimension})"),
            None => "vector".to_owned(),
        },
        column_type => {
            let names = column_type.data_types();
            // Types that differ only in their character set are listed with the text type first.
            let name = if is_binary { names.last() } else { names.first() };
            format!("{}{sign}", name.copied().unwrap_or("unknown"))
        }
    }
}
