//! `--print-table-metadata`: a table map's columns and keys, in comments.

use binlog::{Collation, Column, ColumnType, Flavour, GeometryType, KeyPart, Table};
use sql::numbers::{put_u32, put_u64};
use sql::quote;

use crate::quote::{put_escaped, put_quoted};

/// Name of a generated invisible primary key.
const GENERATED_KEY: &[u8] = b"my_row_id";

/// Appends the table's columns, and its primary key if the map has it.
pub(crate) fn put_table_metadata(out: &mut Vec<u8>, table: &Table) {
    out.extend_from_slice(b"# Columns(");
    let mut separator: &[u8] = b"";
    for (index, column) in table.columns.iter().enumerate() {
        out.extend_from_slice(separator);
        let is_generated = index == 0 && table.has_generated_key();
        separator = match put_column(out, column, is_generated) {
            TypeSupport::Known => b",\n#         ",
            TypeSupport::Unknown => b"",
        };
    }
    out.extend_from_slice(b")\n");
    if let Some(key) = key_of(table) {
        put_key(out, table, &key);
    }
}

/// Returns the primary key. A map without keys may still have the flag of a generated key.
fn key_of(table: &Table) -> Option<Vec<KeyPart>> {
    match &table.primary_key {
        Some(key) => Some(key.to_vec()),
        None if table.has_generated_key() => Some(vec![KeyPart { column: 0, prefix: 0 }]),
        None => None,
    }
}

/// Result of printing a column's type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypeSupport {
    Known,
    /// mysqlbinlog has no name for the type. Nothing else is printed of the column, not even a separator after it.
    Unknown,
}

fn put_column(out: &mut Vec<u8>, column: &Column, is_generated: bool) -> TypeSupport {
    let name = match &column.name {
        Some(name) => Some(&**name),
        None if is_generated => Some(GENERATED_KEY),
        None => None,
    };
    if let Some(name) = name {
        let mut quoted = Vec::with_capacity(name.len() + 2);
        quote::put_name(&mut quoted, name);
        // A line break in the name would end the comment, and the rest would be SQL. mysqlbinlog escapes names here, but
        // not in the primary key.
        put_escaped(out, &quoted);
        out.push(b' ');
    }
    let collation = column.collation.and_then(|id| Collation::new(id, Flavour::MySql));
    let shown = put_type(out, column, collation.filter(|collation| collation.id() != BINARY));
    if shown == TypeSupport::Unknown {
        return shown;
    }
    if column.unsigned == Some(true) && column.column_type != ColumnType::Year {
        out.extend_from_slice(b" UNSIGNED");
    }
    if !column.nullable {
        out.extend_from_slice(b" NOT NULL");
    }
    put_texts(out, column);
    let names_binary = matches!(column.column_type, ColumnType::Enum { .. } | ColumnType::Set { .. });
    if let Some(collation) = collation.filter(|collation| names_binary || collation.id() != BINARY) {
        out.extend_from_slice(b" CHARSET ");
        out.extend_from_slice(collation.charset().name().as_bytes());
        out.extend_from_slice(b" COLLATE ");
        out.extend_from_slice(collation.name().as_bytes());
    }
    if column.visible == Some(false) || is_generated {
        out.extend_from_slice(b" INVISIBLE");
    }
    if is_generated {
        out.extend_from_slice(b" AUTO_INCREMENT");
    }
    shown
}

/// Number of the collation `binary`, which marks a text type as binary.
const BINARY: u16 = 63;

/// Appends the type. `collation` is `None` for binary types.
fn put_type(out: &mut Vec<u8>, column: &Column, collation: Option<Collation>) -> TypeSupport {
    let mut shown = TypeSupport::Known;
    let (name, numbers): (&[u8], &[u32]) = match column.column_type {
        ColumnType::TinyInt => (b"TINYINT", &[]),
        ColumnType::SmallInt => (b"SMALLINT", &[]),
        ColumnType::MediumInt => (b"MEDIUMINT", &[]),
        ColumnType::Int => (b"INT", &[]),
        ColumnType::BigInt => (b"BIGINT", &[]),
        ColumnType::Float => (b"FLOAT", &[]),
        ColumnType::Double => (b"DOUBLE", &[]),
        ColumnType::Decimal { precision, scale } => (b"DECIMAL", &[u32::from(precision), u32::from(scale)]),
        ColumnType::Bit { bits } => (b"BIT", &[u32::from(bits)]),
        ColumnType::Timestamp { fraction: 0 } => (b"TIMESTAMP", &[]),
        ColumnType::Timestamp { fraction } => (b"TIMESTAMP", &[u32::from(fraction)]),
        ColumnType::DateTime { fraction: 0 } => (b"DATETIME", &[]),
        ColumnType::DateTime { fraction } => (b"DATETIME", &[u32::from(fraction)]),
        ColumnType::Time { fraction: 0 } => (b"TIME", &[]),
        ColumnType::Time { fraction } => (b"TIME", &[u32::from(fraction)]),
        ColumnType::Date => (b"DATE", &[]),
        ColumnType::Year => (b"YEAR", &[]),
        ColumnType::Enum { .. } => (b"ENUM", &[]),
        ColumnType::Set { .. } => (b"SET", &[]),
        ColumnType::Json { .. } => (b"JSON", &[]),
        ColumnType::Blob { prefix } => (blob_name(prefix, collation.is_some()), &[]),
        ColumnType::Varchar { size_max } => match collation {
            Some(collation) => (b"VARCHAR", &[characters(size_max, collation)]),
            None => (b"VARBINARY", &[u32::from(size_max)]),
        },
        ColumnType::Char { size_max } => match collation {
            Some(collation) => (b"CHAR", &[characters(size_max, collation)]),
            None => (b"BINARY", &[u32::from(size_max)]),
        },
        ColumnType::Geometry { .. } => (geometry_name(column.geometry_type), &[]),
        ColumnType::Vector { .. } => (b"VECTOR", &[column.dimension.unwrap_or_default()]),
        // Includes the temporal types before MySQL 5.6, for which mysqlbinlog has no names.
        _ => {
            shown = TypeSupport::Unknown;
            (b"INVALID_TYPE", &[u32::from(column.type_code)])
        }
    };
    out.extend_from_slice(name);
    for (index, number) in numbers.iter().enumerate() {
        out.push(if index == 0 { b'(' } else { b',' });
        put_u32(out, *number);
    }
    if !numbers.is_empty() {
        out.push(b')');
    }
    shown
}

fn characters(size_max: u16, collation: Collation) -> u32 {
    u32::from(size_max) / u32::from(collation.charset().character_size_max())
}

fn blob_name(prefix: u8, is_text: bool) -> &'static [u8] {
    match (prefix, is_text) {
        (1, false) => b"TINYBLOB",
        (1, true) => b"TINYTEXT",
        (2, false) => b"BLOB",
        (2, true) => b"TEXT",
        (3, false) => b"MEDIUMBLOB",
        (3, true) => b"MEDIUMTEXT",
        (_, false) => b"LONGBLOB",
        (_, true) => b"LONGTEXT",
    }
}

fn geometry_name(geometry_type: Option<GeometryType>) -> &'static [u8] {
    match geometry_type {
        Some(GeometryType::Point) => b"POINT",
        Some(GeometryType::LineString) => b"LINESTRING",
        Some(GeometryType::Polygon) => b"POLYGON",
        Some(GeometryType::MultiPoint) => b"MULTIPOINT",
        Some(GeometryType::MultiLineString) => b"MULTILINESTRING",
        Some(GeometryType::MultiPolygon) => b"MULTIPOLYGON",
        Some(GeometryType::GeometryCollection) => b"GEOMCOLLECTION",
        _ => b"GEOMETRY",
    }
}

/// Appends the texts of an ENUM or SET, if the map has them.
fn put_texts(out: &mut Vec<u8>, column: &Column) {
    for (index, text) in column.texts.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"(" } else { b", " });
        put_quoted(out, text);
    }
    if !column.texts.is_empty() {
        out.push(b')');
    }
}

fn put_key(out: &mut Vec<u8>, table: &Table, key: &[KeyPart]) {
    out.extend_from_slice(b"# Primary Key(");
    for (index, part) in key.iter().enumerate() {
        if index > 0 {
            out.extend_from_slice(b", ");
        }
        match table.columns.get(part.column).and_then(|column| column.name.as_deref()) {
            Some(name) => out.extend_from_slice(name),
            None if table.has_generated_key() && part.column == 0 => out.extend_from_slice(GENERATED_KEY),
            None => put_u64(out, part.column as u64),
        }
        if part.prefix > 0 {
            out.push(b'(');
            put_u64(out, part.prefix);
            out.push(b')');
        }
    }
    out.extend_from_slice(b")\n");
}

#[cfg(test)]
mod tests {
    use binlog::events::TableMap;
    use binlog::{Flavour, Table};

    use super::put_table_metadata;

    #[test]
    fn types_alone() {
        // INT, INT UNSIGNED NOT NULL, YEAR, VARCHAR(20) in utf8mb4, VARBINARY(80), DECIMAL(5,2), TIME, TIME(3).
        check(
            TableMap {
                flags: 1,
                column_types: &[3, 3, 13, 15, 15, 246, 19, 19],
                metadata: &[80, 0, 80, 0, 5, 2, 0, 3],
                nullable: &[0b1111_1101],
                optional: &[&[1, 1, 0b0110_0000], &[3, 4, 0xfc, 255, 0, 63][..]].concat(),
                ..map()
            },
            "# Columns(INT,\n#         INT UNSIGNED NOT NULL,\n#         YEAR,\n\
             #         VARCHAR(20) CHARSET utf8mb4 COLLATE utf8mb4_0900_ai_ci,\n#         VARBINARY(80),\n\
             #         DECIMAL(5,2),\n#         TIME,\n#         TIME(3))\n",
        );
    }

    #[test]
    fn names_texts_and_keys() {
        let names = &[4, 6, 1, b'a', 3, b'b', b'`', b'c'];
        let texts = &[6, 7, 2, 1, b'x', 3, b'i', b'\'', b's'];
        let collation = &[11, 1, 8];
        let key = &[9, 4, 1, 0, 0, 5];
        let visible = &[12, 1, 0b1000_0000];
        check(
            TableMap {
                flags: 1,
                column_types: &[252, 254],
                metadata: &[2, 0xf7, 1],
                nullable: &[0],
                optional: &[&names[..], texts, collation, key, visible, &[2, 1, 8]].concat(),
                ..map()
            },
            "# Columns(`a` TEXT NOT NULL CHARSET latin1 COLLATE latin1_swedish_ci,\n\
             #         `b``c` ENUM NOT NULL('x', 'i\\'s') CHARSET latin1 COLLATE latin1_swedish_ci INVISIBLE)\n\
             # Primary Key(b`c, a(5))\n",
        );
    }

    #[test]
    fn line_breaks_in_names_do_not_end_the_comment() {
        check(
            TableMap {
                column_types: &[3],
                nullable: &[1],
                optional: &[4, 6, 5, b'a', b'\n', b'\'', b'`', b'\\'],
                ..map()
            },
            "# Columns(`a\\n\\'``\\\\` INT)\n",
        );
    }

    #[test]
    fn a_key_that_the_server_made_up() {
        check(
            TableMap {
                flags: 5,
                column_types: &[8, 3],
                metadata: &[],
                nullable: &[2],
                optional: &[1, 1, 0x80],
                ..map()
            },
            "# Columns(`my_row_id` BIGINT UNSIGNED NOT NULL INVISIBLE AUTO_INCREMENT,\n#         INT)\n\
             # Primary Key(my_row_id)\n",
        );
    }

    fn map() -> TableMap<'static> {
        TableMap {
            table_id: 71,
            flags: 1,
            database: b"d",
            table: b"t",
            column_types: &[],
            metadata: &[],
            nullable: &[],
            optional: &[],
            flavour: Flavour::MySql,
        }
    }

    #[track_caller]
    fn check(map: TableMap<'_>, expected: &str) {
        let mut out = Vec::new();
        put_table_metadata(&mut out, &Table::new(&map).unwrap());
        assert_eq!(String::from_utf8_lossy(&out), expected);
    }
}
