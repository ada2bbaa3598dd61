//! The source's table definitions, stored in the database beside the rows.

use std::collections::BTreeMap;
use std::sync::Arc;

use replay::TargetFailure;
use rusqlite::{Connection, params};

use crate::catalogue_table::{CatalogueTable, ForeignKey, QualifiedName};
use crate::sqlite_failure::sqlite_failure;

pub(crate) const CREATE_CATALOGUE_TABLE: &str = "CREATE TABLE IF NOT EXISTS \"bintide.tables\" (\"database\" TEXT NOT NULL, \
     \"table\" TEXT NOT NULL, \"definition\" TEXT NOT NULL, PRIMARY KEY (\"database\", \"table\")) \
     STRICT, WITHOUT ROWID";

/// All tables, by database and name.
#[derive(Debug, Default)]
pub(crate) struct TableCatalogue {
    tables: BTreeMap<QualifiedName, Arc<CatalogueTable>>,
}

impl TableCatalogue {
    /// Reads the catalogue from a database.
    pub(crate) fn load(connection: &Connection) -> Result<Self, TargetFailure> {
        let mut tables = BTreeMap::new();
        let mut statement = connection
            .prepare("SELECT \"database\", \"table\", \"definition\" FROM \"bintide.tables\"")
            .map_err(sqlite_failure)?;
        let mut rows = statement.query([]).map_err(sqlite_failure)?;
        while let Some(row) = rows.next().map_err(sqlite_failure)? {
            let name: QualifiedName =
                (row.get(0).map_err(sqlite_failure)?, row.get(1).map_err(sqlite_failure)?);
            let text: String = row.get(2).map_err(sqlite_failure)?;
            let table: CatalogueTable = serde_json::from_str(&text).map_err(|error| {
                TargetFailure::refused(format!(
                    "bintide.tables contains an invalid definition of {}.{}: {error}",
                    name.0, name.1
                ))
            })?;
            tables.insert(name, Arc::new(table));
        }
        Ok(Self { tables })
    }

    /// Finds a table by its name.
    pub(crate) fn find(&self, name: &QualifiedName) -> Option<(&QualifiedName, &Arc<CatalogueTable>)> {
        self.tables.get_key_value(name)
    }

    /// Returns all tables.
    pub(crate) fn tables(&self) -> impl Iterator<Item = (&QualifiedName, &Arc<CatalogueTable>)> {
        self.tables.iter()
    }

    /// Returns all tables, by value.
    pub(crate) fn into_tables(self) -> impl Iterator<Item = (QualifiedName, CatalogueTable)> {
        self.tables.into_iter().map(|(name, table)| (name, Arc::unwrap_or_clone(table)))
    }

    /// Finds a table by its name, ignoring case.
    pub(crate) fn find_like(&self, name: &QualifiedName) -> Option<&QualifiedName> {
        let is_same = |other: &&QualifiedName| {
            other.0.eq_ignore_ascii_case(&name.0) && other.1.eq_ignore_ascii_case(&name.1)
        };
        self.tables.keys().find(is_same)
    }

    pub(crate) fn put(
        &mut self,
        connection: &Connection,
        name: QualifiedName,
        table: CatalogueTable,
    ) -> Result<(), TargetFailure> {
        let text =
            serde_json::to_string(&table).map_err(|error| TargetFailure::refused(error.to_string()))?;
        let sql = "INSERT OR REPLACE INTO \"bintide.tables\" VALUES (?1, ?2, ?3)";
        connection.execute(sql, params![name.0, name.1, text]).map_err(sqlite_failure)?;
        self.tables.insert(name, Arc::new(table));
        Ok(())
    }

    pub(crate) fn remove(
        &mut self,
        connection: &Connection,
        name: &QualifiedName,
    ) -> Result<(), TargetFailure> {
        let sql = "DELETE FROM \"bintide.tables\" WHERE \"database\" = ?1 AND \"table\" = ?2";
        connection.execute(sql, params![name.0, name.1]).map_err(sqlite_failure)?;
        let removed = self.tables.remove(name);
        assert!(removed.is_some(), "ours: only a table of the catalogue is dropped");
        Ok(())
    }

    /// Returns the names of a database's tables.
    pub(crate) fn of_database(&self, database: &str) -> Vec<QualifiedName> {
        self.tables.keys().filter(|(of, _)| of == database).cloned().collect()
    }

    /// Returns the foreign keys that refer to a table, with the tables that define them.
    pub(crate) fn children<'c>(
        &'c self,
        parent: &'c QualifiedName,
    ) -> impl Iterator<Item = (&'c QualifiedName, &'c Arc<CatalogueTable>, &'c ForeignKey)> {
        let keys = |(name, table): (&'c QualifiedName, &'c Arc<CatalogueTable>)| {
            table.foreign_keys.iter().map(move |key| (name, table, key))
        };
        self.tables.iter().flat_map(keys).filter(move |(_, _, key)| key.parent == *parent)
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{CREATE_CATALOGUE_TABLE, TableCatalogue};

    #[test]
    fn damaged_definitions_name_their_table() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(CREATE_CATALOGUE_TABLE).unwrap();
        connection.execute("INSERT INTO \"bintide.tables\" VALUES ('d', 't', '{}')", []).unwrap();
        assert_eq!(
            TableCatalogue::load(&connection).unwrap_err().message,
            "bintide.tables contains an invalid definition of d.t: missing field `name` at line 1 column 2"
        );
    }
}
