//! The array `tableChanges` of Debezium's records of DDL statements.

use sql::numbers::{put_i64, put_u64};

use crate::column_catalogue::{ColumnSchema, TableSchema};
use crate::ddl_schema::column::{column_charset, has_charset};
use crate::ddl_schema::{DdlSchema, DdlTableName, SchemaChanges};
use crate::json_writer::put_string;

/// Type of change to a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TableChangeType {
    Created,
    Altered,
    Dropped,
}

/// Values of `java.sql.Types` that Debezium uses, by the first word of the type name.
const JDBC_TYPES: [(&str, i64); 42] = [
    ("CHAR", 1),
    ("CHARACTER", 1),
    ("ENUM", 1),
    ("SET", 1),
    ("NUMERIC", 2),
    ("DECIMAL", 3),
    ("DEC", 3),
    ("FIXED", 3),
    ("INT", 4),
    ("INTEGER", 4),
    ("INT3", 4),
    ("INT4", 4),
    ("MEDIUMINT", 4),
    ("MIDDLEINT", 4),
    ("YEAR", 4),
    ("TINYINT", 5),
    ("SMALLINT", 5),
    ("INT1", 5),
    ("INT2", 5),
    ("FLOAT", 6),
    ("FLOAT4", 6),
    ("REAL", 7),
    ("DOUBLE", 8),
    ("FLOAT8", 8),
    ("VARCHAR", 12),
    ("TINYTEXT", 12),
    ("TEXT", 12),
    ("MEDIUMTEXT", 12),
    ("LONGTEXT", 12),
    ("LONG", 12),
    ("BOOL", 16),
    ("BOOLEAN", 16),
    ("DATE", 91),
    ("TIME", 92),
    ("DATETIME", 93),
    ("TIMESTAMP", 2014),
    ("BIGINT", -5),
    ("INT8", -5),
    ("BINARY", -2),
    ("VARBINARY", -3),
    ("BIT", -7),
    ("NVARCHAR", -9),
];

/// `java.sql.Types.BLOB`, for types whose first word ends in BLOB.
const JDBC_BLOB: i64 = 2004;

/// `java.sql.Types.OTHER`, for all remaining types.
const JDBC_OTHER: i64 = 1111;

/// Appends the changes of a statement as an array. `after` holds the definitions after it. The table `named` is
/// included even if it has not changed.
pub(crate) fn put_changes(
    out: &mut Vec<u8>,
    changes: &SchemaChanges,
    after: &DdlSchema,
    named: Option<[&str; 2]>,
) {
    out.push(b'[');
    for (index, (name, fate)) in table_change_types(changes, after, named).into_iter().enumerate() {
        out.extend_from_slice(if index > 0 { b"," } else { b"" });
        put_change(out, name, fate, after);
    }
    out.push(b']');
}

/// Returns the changed tables with the type of change; dropped tables come first.
fn table_change_types<'d>(
    changes: &'d SchemaChanges,
    after: &'d DdlSchema,
    named: Option<[&str; 2]>,
) -> Vec<(&'d DdlTableName, TableChangeType)> {
    let fate = |(name, was): (&'d DdlTableName, &Option<TableSchema>)| match was {
        Some(_) if !after.tables.contains_key(name) => (name, TableChangeType::Dropped),
        Some(_) => (name, TableChangeType::Altered),
        None => (name, TableChangeType::Created),
    };
    let mut fates: Vec<_> = changes.tables_before.iter().map(fate).collect();
    let named = named.and_then(|named| after.tables.get_key_value(&named.map(str::to_owned)));
    fates.extend(
        named
            .filter(|(name, _)| !changes.tables_before.contains_key(*name))
            .map(|(name, _)| (name, TableChangeType::Altered)),
    );
    fates.sort_by_key(|(name, fate)| (*fate != TableChangeType::Dropped, *name));
    fates
}

fn put_change(out: &mut Vec<u8>, [database, table]: &DdlTableName, fate: TableChangeType, after: &DdlSchema) {
    out.extend_from_slice(match fate {
        TableChangeType::Created => b"{\"type\":\"CREATE\",\"id\":",
        TableChangeType::Altered => b"{\"type\":\"ALTER\",\"id\":",
        TableChangeType::Dropped => b"{\"type\":\"DROP\",\"id\":",
    });
    put_string(out, &format!("\"{database}\".\"{table}\""));
    out.extend_from_slice(b",\"table\":");
    match after.table(database, table) {
        Some(facts) => put_table(out, facts),
        None => out.extend_from_slice(b"null"),
    }
    out.push(b'}');
}

fn put_table(out: &mut Vec<u8>, facts: &TableSchema) {
    out.extend_from_slice(b"{\"defaultCharsetName\":");
    put_optional(out, facts.charset.as_deref());
    out.extend_from_slice(b",\"primaryKeyColumnNames\":[");
    put_strings(out, &facts.primary_key);
    out.extend_from_slice(b"],\"columns\":[");
    for (column, index) in facts.columns.iter().zip(1_u64..) {
        out.extend_from_slice(if index > 1 { b"," } else { b"" });
        put_column(out, column, facts, index);
    }
    out.extend_from_slice(b"],\"comment\":null}");
}

fn put_column(out: &mut Vec<u8>, column: &ColumnSchema, table: &TableSchema, position: u64) {
    let is_key = table.primary_key.iter().any(|name| name.eq_ignore_ascii_case(&column.name));
    let written = &column.ddl;
    out.extend_from_slice(b"{\"name\":");
    put_string(out, &column.name);
    out.extend_from_slice(b",\"jdbcType\":");
    put_i64(out, jdbc_type(&written.type_name));
    out.extend_from_slice(b",\"nativeType\":null,\"typeName\":");
    put_string(out, &written.type_name);
    out.extend_from_slice(b",\"typeExpression\":");
    put_string(out, &written.type_name);
    out.extend_from_slice(b",\"charsetName\":");
    put_optional(
        out,
        has_charset(&column.data_type).then(|| column_charset(column).or(table.charset.as_deref())).flatten(),
    );
    let [length, scale] = length_and_scale(column);
    for (label, number) in [(&b",\"length\":"[..], length), (b",\"scale\":", scale)] {
        out.extend_from_slice(label);
        match number {
            Some(number) => put_u64(out, number),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.extend_from_slice(b",\"position\":");
    put_u64(out, position);
    let flags: [(&[u8], bool); 3] = [
        (b",\"optional\":", column.nullable && !is_key),
        (b",\"autoIncremented\":", written.is_auto_increment),
        (b",\"generated\":", written.is_auto_increment),
    ];
    for (label, is_so) in flags {
        out.extend_from_slice(label);
        out.extend_from_slice(if is_so { b"true" } else { b"false" });
    }
    out.extend_from_slice(b",\"comment\":null,\"defaultValueExpression\":");
    put_optional(out, written.default.as_deref());
    out.extend_from_slice(b",\"enumValues\":");
    match &*column.data_type {
        "enum" | "set" => {
            out.push(b'[');
            put_strings(out, &written.arguments);
            out.push(b']');
        }
        _ => out.extend_from_slice(b"null"),
    }
    out.push(b'}');
}

fn jdbc_type(type_name: &str) -> i64 {
    let word = type_name.split(' ').next().unwrap_or_default();
    let found = JDBC_TYPES.iter().find(|(name, _)| *name == word);
    found.map_or(if word.ends_with("BLOB") { JDBC_BLOB } else { JDBC_OTHER }, |(_, number)| *number)
}

/// Returns length and scale, where Debezium has them.
fn length_and_scale(column: &ColumnSchema) -> [Option<u64>; 2] {
    let arguments = &column.ddl.arguments;
    let number = |index: usize| arguments.get(index).and_then(|text| text.parse().ok());
    match &*column.data_type {
        "enum" => [Some(1), None],
        // One character per member, and commas between them.
        "set" => [Some((arguments.len() as u64 * 2).saturating_sub(1)), None],
        "decimal" => [number(0).or(Some(10)), number(1).or(Some(0))],
        "bit" => [number(0).or(Some(1)), None],
        _ => [number(0), number(1)],
    }
}

fn put_optional(out: &mut Vec<u8>, text: Option<&str>) {
    match text {
        Some(text) => put_string(out, text),
        None => out.extend_from_slice(b"null"),
    }
}

fn put_strings(out: &mut Vec<u8>, texts: &[String]) {
    for (index, text) in texts.iter().enumerate() {
        out.extend_from_slice(if index > 0 { b"," } else { b"" });
        put_string(out, text);
    }
}
