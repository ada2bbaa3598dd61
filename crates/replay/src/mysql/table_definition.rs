//! Table definitions of a server.

use std::collections::HashMap;

use binlog::KeyPart;
use servers::{ResultRow, SqlConnection};
use sql::quote;

use crate::error::TargetFailure;
use crate::target_table::{ForeignKeys, StorageEngine, TargetTableDefinition, TargetTableName, UniqueKey};

/// Reads a table's definition; `None` if there is no such table.
pub(super) fn read_definition(
    connection: &mut SqlConnection,
    database: &[u8],
    table: &[u8],
) -> Result<Option<TargetTableDefinition>, TargetFailure> {
    let condition = quote::table_condition(database, table);
    let question = format!("SELECT engine FROM information_schema.tables WHERE {condition}");
    let Some(engine) = connection.value(&question)? else { return Ok(None) };
    let engine =
        if engine.eq_ignore_ascii_case("InnoDB") { StorageEngine::InnoDb } else { StorageEngine::Other };
    let columns = read_columns(connection, &condition)?;
    let mut definition = TargetTableDefinition {
        name: TargetTableName { database: database.into(), table: table.into() },
        engine,
        auto_increment: columns.values().find(|column| column.is_auto_increment).map(|column| column.index),
        foreign_keys: read_foreign_keys(connection, database, table)?,
        ..TargetTableDefinition::default()
    };
    let question = format!(
        "SELECT index_name, column_name, sub_part FROM information_schema.statistics
         WHERE non_unique = 0 AND {condition} ORDER BY index_name, seq_in_index"
    );
    let parts = connection.rows(&question)?;
    for key in parts.chunk_by(|one, next| one.first() == next.first()) {
        let is_primary = key.first().is_some_and(|part| bytes(part, 0) == b"PRIMARY");
        match (key_parts(key, &columns), is_primary) {
            (Some(parts), true) => definition.primary_key = Some(parts),
            (Some(parts), false) => definition.unique_keys.push(UniqueKey::Columns(parts)),
            (None, _) => definition.unique_keys.push(UniqueKey::Other),
        }
    }
    Ok(Some(definition))
}

struct ColumnAttributes {
    index: usize,
    /// True for an AUTO_INCREMENT column.
    is_auto_increment: bool,
    is_virtual: bool,
}

fn read_columns(
    connection: &mut SqlConnection,
    condition: &str,
) -> Result<HashMap<Vec<u8>, ColumnAttributes>, TargetFailure> {
    let question = format!(
        "SELECT column_name, ordinal_position, extra FROM information_schema.columns WHERE {condition}"
    );
    let mut columns = HashMap::new();
    for row in connection.rows(&question)? {
        let extra = String::from_utf8_lossy(bytes(&row, 2)).to_ascii_lowercase();
        let column = ColumnAttributes {
            index: number(&row, 1).saturating_sub(1),
            is_auto_increment: extra.contains("auto_increment"),
            is_virtual: extra.contains("virtual generated"),
        };
        columns.insert(bytes(&row, 0).to_vec(), column);
    }
    Ok(columns)
}

/// Returns the key's parts; `None` if the log lacks one of their columns.
fn key_parts(key: &[ResultRow], columns: &HashMap<Vec<u8>, ColumnAttributes>) -> Option<Vec<KeyPart>> {
    let part = |row: &ResultRow| {
        let column = columns.get(bytes(row, 1)).filter(|column| !column.is_virtual)?;
        Some(KeyPart { column: column.index, prefix: number(row, 2) as u64 })
    };
    key.iter().map(part).collect()
}

fn read_foreign_keys(
    connection: &mut SqlConnection,
    database: &[u8],
    table: &[u8],
) -> Result<ForeignKeys, TargetFailure> {
    let rows = connection.rows(
        "SELECT constraint_schema, table_name, unique_constraint_schema, referenced_table_name
         FROM information_schema.referential_constraints",
    )?;
    let name = |row: &ResultRow, at| TargetTableName {
        database: bytes(row, at).into(),
        table: bytes(row, at + 1).into(),
    };
    let keys: Vec<_> = rows.iter().map(|row| (name(row, 0), name(row, 2))).collect();
    let wanted = TargetTableName { database: database.into(), table: table.into() };
    Ok(ForeignKeys::of_all(&keys).remove(&wanted).unwrap_or_default())
}

fn bytes(row: &ResultRow, at: usize) -> &[u8] {
    row.get(at).and_then(|value| value.as_deref()).unwrap_or_default()
}

/// Parses a number; 0 if there is none.
fn number(row: &ResultRow, at: usize) -> usize {
    str::from_utf8(bytes(row, at)).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}
