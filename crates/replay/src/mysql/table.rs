//! Table definitions of a server.

use std::collections::HashMap;

use binlog::KeyPart;
use servers::quote;
use servers::{Connection, Row};

use crate::definition::{Definition, Engine, Relatives, TableName, UniqueKey};
use crate::error::Failure;

/// Reads a table's definition; `None` if there is no such table.
pub(super) fn definition(
    connection: &mut Connection,
    database: &[u8],
    table: &[u8],
) -> Result<Option<Definition>, Failure> {
    let condition = quote::is_of(database, table);
    let question = format!("SELECT engine FROM information_schema.tables WHERE {condition}");
    let Some(engine) = connection.value(&question)? else { return Ok(None) };
    let engine = if engine.eq_ignore_ascii_case("InnoDB") { Engine::InnoDb } else { Engine::Other };
    let columns = columns(connection, &condition)?;
    let mut definition = Definition {
        name: TableName { database: database.into(), table: table.into() },
        engine,
        auto_increment: columns.values().find(|column| column.counts).map(|column| column.index),
        relatives: relatives(connection, database, table)?,
        ..Definition::default()
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

struct Column {
    index: usize,
    /// True for an AUTO_INCREMENT column.
    counts: bool,
    is_virtual: bool,
}

fn columns(connection: &mut Connection, condition: &str) -> Result<HashMap<Vec<u8>, Column>, Failure> {
    let question = format!(
        "SELECT column_name, ordinal_position, extra FROM information_schema.columns WHERE {condition}"
    );
    let mut columns = HashMap::new();
    for row in connection.rows(&question)? {
        let extra = String::from_utf8_lossy(bytes(&row, 2)).to_ascii_lowercase();
        let column = Column {
            index: number(&row, 1).saturating_sub(1),
            counts: extra.contains("auto_increment"),
            is_virtual: extra.contains("virtual generated"),
        };
        columns.insert(bytes(&row, 0).to_vec(), column);
    }
    Ok(columns)
}

/// Returns the key's parts; `None` if the log lacks one of their columns.
fn key_parts(key: &[Row], columns: &HashMap<Vec<u8>, Column>) -> Option<Vec<KeyPart>> {
    let part = |row: &Row| {
        let column = columns.get(bytes(row, 1)).filter(|column| !column.is_virtual)?;
        Some(KeyPart { column: column.index, prefix: number(row, 2) as u64 })
    };
    key.iter().map(part).collect()
}

fn relatives(connection: &mut Connection, database: &[u8], table: &[u8]) -> Result<Relatives, Failure> {
    let rows = connection.rows(
        "SELECT constraint_schema, table_name, unique_constraint_schema, referenced_table_name
         FROM information_schema.referential_constraints",
    )?;
    let name =
        |row: &Row, at| TableName { database: bytes(row, at).into(), table: bytes(row, at + 1).into() };
    let keys: Vec<_> = rows.iter().map(|row| (name(row, 0), name(row, 2))).collect();
    let wanted = TableName { database: database.into(), table: table.into() };
    Ok(Relatives::of_all(&keys).remove(&wanted).unwrap_or_default())
}

fn bytes(row: &Row, at: usize) -> &[u8] {
    row.get(at).and_then(|value| value.as_deref()).unwrap_or_default()
}

/// Parses a number; 0 if there is none.
fn number(row: &Row, at: usize) -> usize {
    str::from_utf8(bytes(row, at)).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}
