//! Table definitions of a server.

use binlog::KeyPart;
use replay::{ForeignKeys, StorageEngine, TargetFailure, TargetTableDefinition, TargetTableName, UniqueKey};
use servers::{ForeignKeyTables, ServerCatalogue, ServerColumn, ServerIndexPart, SqlConnection};

use crate::server_failure::server_failure;

/// Reads a table's definition; `None` if there is no such table.
pub(crate) fn read_definition(
    connection: &mut SqlConnection,
    database: &[u8],
    table: &[u8],
) -> Result<Option<TargetTableDefinition>, TargetFailure> {
    let mut catalogue = ServerCatalogue::new(connection);
    let Some(engine) =
        catalogue.table(database, table).map_err(server_failure)?.and_then(|table| table.engine)
    else {
        return Ok(None);
    };
    let engine =
        if engine.eq_ignore_ascii_case("InnoDB") { StorageEngine::InnoDb } else { StorageEngine::Other };
    let columns = catalogue.columns(database, table).map_err(server_failure)?;
    let parts = catalogue.index_parts(database, table).map_err(server_failure)?;
    let name = TargetTableName { database: database.into(), table: table.into() };
    let mut definition = TargetTableDefinition {
        engine,
        auto_increment: columns
            .iter()
            .find(|column| column.extra.contains("auto_increment"))
            .map(|column| column.index),
        foreign_keys: read_foreign_keys(&mut catalogue, &name)?,
        name,
        ..TargetTableDefinition::default()
    };
    for key in parts.chunk_by(|one, next| one.index == next.index) {
        let Some(first) = key.first().filter(|part| part.is_unique) else { continue };
        match (key_parts(key, &columns), first.index == "PRIMARY") {
            (Some(parts), true) => definition.primary_key = Some(parts),
            (Some(parts), false) => definition.unique_keys.push(UniqueKey::Columns(parts)),
            (None, _) => definition.unique_keys.push(UniqueKey::Other),
        }
    }
    Ok(Some(definition))
}

/// Returns the key's parts; `None` if the log lacks one of their columns.
fn key_parts(key: &[ServerIndexPart], columns: &[ServerColumn]) -> Option<Vec<KeyPart>> {
    let part = |part: &ServerIndexPart| {
        let name = part.column.as_deref()?;
        let column = columns.iter().find(|column| column.name == name && !column.is_virtual())?;
        Some(KeyPart { column: column.index, prefix: part.prefix.unwrap_or(0) })
    };
    key.iter().map(part).collect()
}

/// Returns the tables that foreign keys connect with a table.
fn read_foreign_keys(
    catalogue: &mut ServerCatalogue<'_>,
    table: &TargetTableName,
) -> Result<ForeignKeys, TargetFailure> {
    let tables = |reference: ForeignKeyTables| {
        let ForeignKeyTables { database, table, parent_database, parent_table } = reference;
        let child = TargetTableName { database: database.into(), table: table.into() };
        (child, TargetTableName { database: parent_database.into(), table: parent_table.into() })
    };
    let references = catalogue.foreign_key_tables().map_err(server_failure)?;
    let keys: Vec<_> = references.into_iter().map(tables).collect();
    Ok(ForeignKeys::of_all(&keys).remove(table).unwrap_or_default())
}
