//! The JSON members of a table map.

use binlog::events::TableMap;
use binlog::{Column, ColumnType, EventFormat, GeometryType, Table};

use super::session::put_collation;
use super::writer::{JsonObject, put_decoded, put_flags};
use crate::column_charset::charset_of;

/// Flags of table maps, by their names in the server's source code.
const FLAGS: [(u16, &str); 3] = [
    (TableMap::BIT_SIZE_EXACT, "BIT_LEN_EXACT"),
    (TableMap::REFERRED_FOREIGN_KEY_DATABASE, "REFERRED_FK_DB"),
    (TableMap::GENERATED_INVISIBLE_PRIMARY_KEY, "GENERATED_INVISIBLE_PK"),
];

/// Writes all members.
pub(super) fn put(object: &mut JsonObject<'_>, format: &EventFormat, table: &Table) {
    object.uint("table_id", table.table_id);
    put_flags(object, "flags", &FLAGS, table.flags);
    object.text_or_bytes("database", &table.database);
    object.text_or_bytes("table", &table.name);
    let mut columns = object.array("columns");
    for column in &table.columns {
        put_column(columns.object(), format, column);
    }
    columns.close();
    if let Some(key) = &table.primary_key {
        let mut parts = object.array("primary_key");
        for part in key {
            let mut key_part = parts.object();
            match table.columns.get(part.column).and_then(|column| column.name.as_deref()) {
                Some(name) => key_part.text_or_bytes("column", name),
                None => key_part.text("column", format!("@{}", part.column + 1)),
            }
            if part.prefix > 0 {
                key_part.uint("prefix", part.prefix);
            }
            key_part.close();
        }
        parts.close();
    }
    if !table.unknown.is_empty() {
        let mut fields = object.array("unknown_fields");
        for field in &table.unknown {
            let mut unknown = fields.object();
            unknown.uint("type", field.field_type);
            unknown.bytes("value", &field.value);
            unknown.close();
        }
        fields.close();
    }
}

fn put_column(mut object: JsonObject<'_>, format: &EventFormat, column: &Column) {
    if let Some(name) = &column.name {
        object.text_or_bytes("name", name);
    }
    object.text("type", type_name(column, format));
    object.boolean("nullable", column.nullable);
    if let Some(unsigned) = column.unsigned {
        object.boolean("unsigned", unsigned);
    }
    if let Some(collation) = column.collation {
        put_collation(&mut object, format, "collation", collation);
    }
    if !column.texts.is_empty() {
        let charset = charset_of(column, format);
        let mut texts = object.array("values");
        column.texts.iter().for_each(|text| put_decoded(texts.element(), charset, text));
        texts.close();
    }
    if let Some(visible) = column.visible {
        object.boolean("visible", visible);
    }
    object.uint("type_code", column.type_code);
    object.uint("metadata", column.metadata);
    object.close();
}

/// Returns the type as in a CREATE TABLE statement, with the attributes in the log.
fn type_name(column: &Column, format: &EventFormat) -> String {
    let charset = charset_of(column, format);
    let is_binary = charset == Some(binlog::Charset::Binary);
    let sized = |text: &str, binary: &str, size: u16| match is_binary {
        true => format!("{binary}({size})"),
        false => {
            let width = charset.map_or(1, |charset| u16::from(charset.character_size_max()));
            format!("{text}({})", size / width.max(1))
        }
    };
    let fraction = |name: &str, fraction: u8| match fraction {
        0 => name.to_owned(),
        digits => format!("{name}({digits})"),
    };
    match column.column_type {
        ColumnType::TinyInt => "tinyint".into(),
        ColumnType::SmallInt => "smallint".into(),
        ColumnType::MediumInt => "mediumint".into(),
        ColumnType::Int => "int".into(),
        ColumnType::BigInt => "bigint".into(),
        ColumnType::Float => "float".into(),
        ColumnType::Double => "double".into(),
        ColumnType::Decimal { precision, scale } => format!("decimal({precision},{scale})"),
        ColumnType::Null => "null".into(),
        ColumnType::Timestamp { fraction: digits } => fraction("timestamp", digits),
        ColumnType::DateTime { fraction: digits } => fraction("datetime", digits),
        ColumnType::Time { fraction: digits } => fraction("time", digits),
        ColumnType::OldTimestamp => "timestamp".into(),
        ColumnType::OldDateTime => "datetime".into(),
        ColumnType::OldTime => "time".into(),
        ColumnType::Date => "date".into(),
        ColumnType::Year => "year".into(),
        ColumnType::Varchar { size_max } | ColumnType::CompressedVarchar { size_max } => {
            sized("varchar", "varbinary", size_max)
        }
        ColumnType::Char { size_max } => sized("char", "binary", size_max),
        ColumnType::Enum { .. } => "enum".into(),
        ColumnType::Set { .. } => "set".into(),
        ColumnType::Bit { bits } => format!("bit({bits})"),
        ColumnType::Blob { prefix } | ColumnType::CompressedBlob { prefix } => {
            let size = ["tiny", "", "medium", "long"].get(usize::from(prefix).wrapping_sub(1)).copied();
            let kind = if charset.is_none() || is_binary { "blob" } else { "text" };
            format!("{}{kind}", size.unwrap_or_default())
        }
        ColumnType::Json { .. } => "json".into(),
        ColumnType::Geometry { .. } => geometry_name(column.geometry_type).into(),
        ColumnType::Vector { .. } => match column.dimension {
            Some(dimension) => format!("vector({dimension})"),
            None => "vector".into(),
        },
        ColumnType::TypedArray => "array".into(),
        _ => "unknown".into(),
    }
}

const fn geometry_name(geometry_type: Option<GeometryType>) -> &'static str {
    match geometry_type {
        Some(GeometryType::Point) => "point",
        Some(GeometryType::LineString) => "linestring",
        Some(GeometryType::Polygon) => "polygon",
        Some(GeometryType::MultiPoint) => "multipoint",
        Some(GeometryType::MultiLineString) => "multilinestring",
        Some(GeometryType::MultiPolygon) => "multipolygon",
        Some(GeometryType::GeometryCollection) => "geomcollection",
        _ => "geometry",
    }
}
