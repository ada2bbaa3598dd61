//! Creates, changes and drops SQLite's tables.

use std::sync::Arc;

use replay::TargetFailure;
use rusqlite::Connection;
use sql::SqlWords;
use sql::ddl::{ExistingTablePolicy, NamedTable};
use sql::quote::quote_ansi_name;

use crate::catalogue_table::{CatalogueTable, KeyColumn, QualifiedName, SecondaryKey};
use crate::default_value::sql_literal;
use crate::mysql_type::MysqlType;
use crate::sqlite_failure::sqlite_failure;
use crate::sqlite_remarks::SqliteRemarks;
use crate::table_catalogue::TableCatalogue;
use crate::table_elements::{generated_name, generated_number};

/// A database and its catalogue, on which definitions are executed.
pub(crate) struct SchemaEditor<'s> {
    pub(crate) connection: &'s Connection,
    pub(crate) catalogue: &'s mut TableCatalogue,
    pub(crate) remarks: &'s mut SqliteRemarks,
}

impl SchemaEditor<'_> {
    /// Resolves a conflict with an existing table. Returns true if that table stays; drops a table that must be
    /// replaced.
    pub(crate) fn resolve_existing(
        &mut self,
        name: &QualifiedName,
        exists: ExistingTablePolicy,
    ) -> Result<bool, TargetFailure> {
        match (self.catalogue.find(name), exists) {
            (None, _) => Ok(false),
            (Some(_), ExistingTablePolicy::Keep) => Ok(true),
            (Some(_), ExistingTablePolicy::Replace) => self.drop(name).map(|()| false),
            (Some(_), ExistingTablePolicy::Refuse) => {
                Err(TargetFailure::refused(format!("the table {}.{} already exists", name.0, name.1)))
            }
        }
    }

    pub(crate) fn create_like(
        &mut self,
        name: QualifiedName,
        model: &QualifiedName,
        exists: ExistingTablePolicy,
    ) -> Result<(), TargetFailure> {
        if self.resolve_existing(&name, exists)? {
            return Ok(());
        }
        let Some((_, model)) = self.catalogue.find(model) else {
            self.remarks.count_passed_over("CREATE TABLE … LIKE of a table that the logs did not create");
            return Ok(());
        };
        let mut table = CatalogueTable::clone(model);
        table.foreign_keys.clear();
        self.create_empty(name, table)
    }

    /// Creates a new table, under a free SQLite name.
    pub(crate) fn create_empty(
        &mut self,
        name: QualifiedName,
        mut table: CatalogueTable,
    ) -> Result<(), TargetFailure> {
        table.name = self.free_name(&format!("{}.{}", name.0, name.1))?;
        self.connection.execute_batch(&create_sql(&table, &table.name)).map_err(sqlite_failure)?;
        // The definition may come from another table, and contain the names of that table's indexes.
        for key in &mut table.keys {
            key.index.clear();
        }
        self.create_indexes(&mut table)?;
        self.catalogue.put(self.connection, name, table)
    }

    /// Creates the missing indexes.
    pub(crate) fn create_indexes(&mut self, table: &mut CatalogueTable) -> Result<(), TargetFailure> {
        for at in 0..table.keys.len() {
            let Some(columns) = index_columns(table, &table.keys[at]) else { continue };
            let unique = if is_unique(table, &table.keys[at]) { "UNIQUE " } else { "" };
            let index = self.free_name(&format!("{}.{}", table.name, table.keys[at].name))?;
            let (own, on) = (quote_ansi_name(&index), quote_ansi_name(&table.name));
            self.connection
                .execute_batch(&format!("CREATE {unique}INDEX {own} ON {on} ({columns})"))
                .map_err(sqlite_failure)?;
            table.keys[at].index = index;
        }
        Ok(())
    }

    /// Changes secondary keys and their indexes.
    pub(crate) fn change_keys(
        &mut self,
        name: &QualifiedName,
        change: impl FnOnce(&mut CatalogueTable),
    ) -> Result<(), TargetFailure> {
        let Some((name, table)) = self.catalogue.find(name) else { return Ok(()) };
        let (name, old) = (name.clone(), Arc::clone(table));
        let mut table = CatalogueTable::clone(&old);
        change(&mut table);
        self.update_indexes(&old, &mut table)?;
        self.catalogue.put(self.connection, name, table)
    }

    /// Drops the indexes of removed keys, and creates the indexes of new keys.
    pub(crate) fn update_indexes(
        &mut self,
        old: &CatalogueTable,
        new: &mut CatalogueTable,
    ) -> Result<(), TargetFailure> {
        for key in old.keys.iter().filter(|key| !key.index.is_empty()) {
            let kept = new.keys.iter().any(|new| new.index == key.index && new.parts == key.parts);
            if !kept {
                self.connection
                    .execute_batch(&format!("DROP INDEX {}", quote_ansi_name(&key.index)))
                    .map_err(sqlite_failure)?;
                for key in new.keys.iter_mut().filter(|new| new.index == key.index) {
                    key.index.clear();
                }
            }
        }
        self.create_indexes(new)
    }

    pub(crate) fn drop(&mut self, name: &QualifiedName) -> Result<(), TargetFailure> {
        let Some((name, table)) = self.catalogue.find(name) else { return Ok(()) };
        let name = name.clone();
        self.connection
            .execute_batch(&format!("DROP TABLE {}", quote_ansi_name(&table.name)))
            .map_err(sqlite_failure)?;
        self.catalogue.remove(self.connection, &name)
    }

    pub(crate) fn truncate(&mut self, name: &QualifiedName) -> Result<(), TargetFailure> {
        let Some((_, table)) = self.catalogue.find(name) else { return Ok(()) };
        self.connection
            .execute_batch(&format!("DELETE FROM {}", quote_ansi_name(&table.name)))
            .map_err(sqlite_failure)
    }

    pub(crate) fn rename(&mut self, old: &QualifiedName, new: QualifiedName) -> Result<(), TargetFailure> {
        let Some((old, table)) = self.catalogue.find(old) else { return Ok(()) };
        let (old, mut table) = (old.clone(), CatalogueTable::clone(table));
        let name = self.free_name(&format!("{}.{}", new.0, new.1))?;
        self.connection
            .execute_batch(&format!(
                "ALTER TABLE {} RENAME TO {}",
                quote_ansi_name(&table.name),
                quote_ansi_name(&name)
            ))
            .map_err(sqlite_failure)?;
        table.name = name;
        for key in &mut table.foreign_keys {
            if let Some(number) = generated_number(&key.name, &old.1) {
                key.name = generated_name(&new.1, number);
            }
        }
        self.catalogue.remove(self.connection, &old)?;
        self.catalogue.put(self.connection, new.clone(), table)?;
        self.update_references(&old, |parent, _| parent.clone_from(&new))
    }

    /// Updates foreign keys that refer to a renamed table or column: their parent, and its columns.
    pub(crate) fn update_references(
        &mut self,
        parent: &QualifiedName,
        change: impl Fn(&mut QualifiedName, &mut Vec<String>),
    ) -> Result<(), TargetFailure> {
        let mut names: Vec<QualifiedName> =
            self.catalogue.children(parent).map(|(name, ..)| name.clone()).collect();
        names.dedup();
        for name in names {
            let Some((_, table)) = self.catalogue.find(&name) else { continue };
            let mut table = CatalogueTable::clone(table);
            for key in table.foreign_keys.iter_mut().filter(|key| key.parent == *parent) {
                change(&mut key.parent, &mut key.parent_columns);
            }
            self.catalogue.put(self.connection, name, table)?;
        }
        Ok(())
    }

    /// Returns a similar unused name. SQLite's tables and indexes share one case-insensitive namespace.
    pub(crate) fn free_name(&self, name: &str) -> Result<String, TargetFailure> {
        let is_reserved = name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("sqlite_"));
        let name = if is_reserved { format!("~{name}") } else { name.to_owned() };
        let mut statement = self
            .connection
            .prepare_cached("SELECT 1 FROM sqlite_master WHERE name = ?1 COLLATE NOCASE")
            .map_err(sqlite_failure)?;
        let mut free = name.clone();
        for number in 2.. {
            if !statement.exists([&free]).map_err(sqlite_failure)? {
                break;
            }
            free = format!("{name}~{number}");
        }
        Ok(free)
    }
}

/// Returns database and table, for a statement with this default database.
pub(crate) fn qualified(name: &NamedTable, default: &str) -> QualifiedName {
    let [database, table] = name.resolve(default);
    (database, table)
}

/// Returns the failure for a statement that is not understood.
pub(crate) fn unknown(words: &SqlWords) -> TargetFailure {
    untranslatable(&words.keywords_ahead(3))
}

pub(crate) fn untranslatable(head: &str) -> TargetFailure {
    TargetFailure::refused(format!("cannot translate this statement for SQLite: {head} …"))
}

pub(crate) fn drop_key(table: &mut CatalogueTable, name: &str) {
    match name.eq_ignore_ascii_case("PRIMARY") {
        true => table.primary_key = None,
        false => table.keys.retain(|key| !key.name.eq_ignore_ascii_case(name)),
    }
}

/// Returns the CREATE TABLE statement of a table.
pub(crate) fn create_sql(table: &CatalogueTable, name: &str) -> String {
    let columns = table.columns.iter().map(|column| {
        let mut text = format!("{} {}", quote_ansi_name(&column.name), column.kind.strict_type().sql());
        if !column.nullable {
            text.push_str(" NOT NULL");
        }
        let default = column.default.value(&column.kind, column.nullable);
        if let Some(value) = default.filter(|value| *value != rusqlite::types::Value::Null) {
            text.push_str(" DEFAULT ");
            text.push_str(&sql_literal(&value));
        }
        text
    });
    let mut parts: Vec<String> = columns.collect();
    if let Some(key) = table.sqlite_key() {
        let names: Vec<String> =
            key.iter().map(|column| quote_ansi_name(&table.columns[*column].name)).collect();
        parts.push(format!("PRIMARY KEY ({})", names.join(", ")));
    }
    let clustered = if table.is_without_rowid() { ", WITHOUT ROWID" } else { "" };
    format!("CREATE TABLE {} ({}) STRICT{clustered}", quote_ansi_name(name), parts.join(", "))
}

/// Returns the columns of a key's index; `None` if the key needs no index, or has an index.
fn index_columns(table: &CatalogueTable, key: &SecondaryKey) -> Option<String> {
    let column = |part: &KeyColumn| {
        let column = table.column(&part.column)?;
        (!part.is_prefix).then(|| quote_ansi_name(&table.columns[column].name))
    };
    let columns: Option<Vec<String>> = key.parts.iter().map(column).collect();
    columns.filter(|columns| !columns.is_empty() && key.index.is_empty()).map(|columns| columns.join(", "))
}

/// Returns true if the key's values are unique in SQLite, too. Two values of an ENUM may be the same text.
fn is_unique(table: &CatalogueTable, key: &SecondaryKey) -> bool {
    let is_doubtful = |part: &KeyColumn| {
        let kind = table.column(&part.column).map(|column| &table.columns[column].kind);
        matches!(kind, Some(MysqlType::Enum { texts }) if texts.iter().any(String::is_empty))
    };
    key.unique && !key.parts.iter().any(is_doubtful)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::SchemaEditor;
    use crate::schema_draft::tests::statement;
    use crate::sqlite_remarks::SqliteRemarks;
    use crate::table_catalogue::{CREATE_CATALOGUE_TABLE, TableCatalogue};

    /// Runs these statements on an empty database, and SQL of SQLite before the last one; checks the error of the last
    /// one.
    fn check(statements: &[&str], rows: &str, expected: &str) {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(CREATE_CATALOGUE_TABLE).unwrap();
        let (mut catalogue, mut remarks) = (TableCatalogue::default(), SqliteRemarks::default());
        let mut editor =
            SchemaEditor { connection: &connection, catalogue: &mut catalogue, remarks: &mut remarks };
        let (last, before) = statements.split_last().unwrap();
        for sql in before {
            editor.execute(&statement(sql)).unwrap();
        }
        connection.execute_batch(rows).unwrap();
        assert_eq!(editor.execute(&statement(last)).unwrap_err().message, expected, "{statements:?}");
    }

    #[test]
    fn definitions_that_the_target_cannot_repeat() {
        let table = "create table t (id int primary key, a varchar(10))";
        let row = "insert into \"d.t\" values (1, 'ten')";
        check(&[table, table], "", "the table d.t already exists");
        check(
            &[table, "alter table t add b char(36) not null default (uuid())"],
            row,
            "the values of the new column b in existing rows of d.t are unknown: the server computes them, or \
             bintide does not know this form of the default",
        );
        check(
            &[table, "alter table t modify a int"],
            row,
            "the value 'ten' cannot be converted as on the server",
        );
    }
}
