//! Executes definitions: creates, changes and drops SQLite's tables.

use std::sync::Arc;

use rusqlite::Connection;

use crate::error::Failure;
use crate::sqlite::alter::alter;
use crate::sqlite::catalogue::Catalogue;
use crate::sqlite::ddl::{Body, Ddl, Exists, Name};
use crate::sqlite::definition::{Engine, Key, Part, Table};
use crate::sqlite::literal::sql;
use crate::sqlite::remarks::Remarks;
use crate::sqlite::types::Type;
use crate::work::Statement;

/// A database and its catalogue, which definitions are executed on.
pub(super) struct Bench<'s> {
    pub(super) connection: &'s Connection,
    pub(super) catalogue: &'s mut Catalogue,
    pub(super) remarks: &'s mut Remarks,
}

/// Returns a name in SQLite's quotes.
pub(crate) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

impl Bench<'_> {
    /// Executes the definition in a statement.
    pub(super) fn carry_out(&mut self, statement: &Statement) -> Result<(), Failure> {
        match Ddl::of(statement) {
            Ddl::CreateTable { name, exists, body } => self.create(name, body, exists),
            Ddl::CreateLike { name, exists, model } => self.create_like(name, &model, exists),
            Ddl::DropTables(names) => names.iter().try_for_each(|name| self.drop(name)),
            Ddl::AlterTable { name, changes } => alter(self, &name, &changes, statement),
            Ddl::RenameTables(pairs) => pairs.into_iter().try_for_each(|(old, new)| self.rename(&old, new)),
            Ddl::Truncate(name) => self.truncate(&name),
            Ddl::CreateIndex { table, name, unique, parts } => {
                let key = Key { name, unique, parts: parts.unwrap_or_default(), index: String::new() };
                self.change_keys(&table, |table| table.keys.push(key))
            }
            Ddl::DropIndex { table, name } => self.change_keys(&table, |table| drop_key(table, &name)),
            Ddl::DropDatabase(database) => {
                let names = self.catalogue.of_database(&database);
                names.iter().try_for_each(|name| self.drop(name))
            }
            Ddl::Savepoint(verb, name) => {
                Ok(self.connection.execute_batch(&format!("{verb} {}", quoted(&name)))?)
            }
            Ddl::PassedOver(what) => {
                self.remarks.passed_over(&what);
                Ok(())
            }
            Ddl::Nothing => Ok(()),
            Ddl::Rows(what) => Err(Failure::refused(format!(
                "the log contains {what} as a statement (binlog_format = STATEMENT or MIXED), which only a MySQL server \
                 can repeat. A SQLite target needs row events"
            ))),
            Ddl::Unknown(what) => Err(Failure::refused(format!("cannot parse a definition: {what} …"))),
        }
    }

    fn create(&mut self, name: Name, body: Body, exists: Exists) -> Result<(), Failure> {
        if self.is_kept(&name, exists)? {
            return Ok(());
        }
        let mut columns = body.columns;
        for column in &mut columns {
            if let Type::Text { charset: charset @ None } = &mut column.kind {
                charset.clone_from(&body.charset);
            }
        }
        let table = Table {
            name: String::new(),
            columns,
            primary_key: body.primary_key,
            keys: body.keys,
            foreign_keys: body.foreign_keys,
            engine: Engine::of(body.engine.as_deref()),
            charset: body.charset,
        };
        self.make(name, table)
    }

    /// Resolves a conflict with an existing table. Returns true if that table stays; drops it if it is to be replaced.
    fn is_kept(&mut self, name: &Name, exists: Exists) -> Result<bool, Failure> {
        match (self.catalogue.find(name), exists) {
            (None, _) => Ok(false),
            (Some(_), Exists::Keep) => Ok(true),
            (Some(_), Exists::Replace) => self.drop(name).map(|()| false),
            (Some(_), Exists::Refuse) => {
                Err(Failure::refused(format!("the table {}.{} already exists", name.0, name.1)))
            }
        }
    }

    fn create_like(&mut self, name: Name, model: &Name, exists: Exists) -> Result<(), Failure> {
        if self.is_kept(&name, exists)? {
            return Ok(());
        }
        let Some((_, model)) = self.catalogue.find(model) else {
            self.remarks.passed_over("CREATE TABLE … LIKE of a table that the logs did not create");
            return Ok(());
        };
        let mut table = Table::clone(model);
        table.foreign_keys.clear();
        self.make(name, table)
    }

    /// Creates a new table, under a free SQLite name.
    pub(super) fn make(&mut self, name: Name, mut table: Table) -> Result<(), Failure> {
        table.name = self.free(&format!("{}.{}", name.0, name.1))?;
        self.connection.execute_batch(&create_sql(&table, &table.name))?;
        self.make_indexes(&mut table)?;
        self.catalogue.put(self.connection, name, table)
    }

    /// Creates the missing indexes.
    pub(super) fn make_indexes(&mut self, table: &mut Table) -> Result<(), Failure> {
        for at in 0..table.keys.len() {
            let Some(columns) = indexed(table, &table.keys[at]) else { continue };
            let unique = if is_unique(table, &table.keys[at]) { "UNIQUE " } else { "" };
            let index = self.free(&format!("{}.{}", table.name, table.keys[at].name))?;
            let (own, on) = (quoted(&index), quoted(&table.name));
            self.connection.execute_batch(&format!("CREATE {unique}INDEX {own} ON {on} ({columns})"))?;
            table.keys[at].index = index;
        }
        Ok(())
    }

    /// Changes secondary keys and their indexes.
    fn change_keys(&mut self, name: &Name, change: impl FnOnce(&mut Table)) -> Result<(), Failure> {
        let Some((name, table)) = self.catalogue.find(name) else { return Ok(()) };
        let (name, old) = (name.clone(), Arc::clone(table));
        let mut table = Table::clone(&old);
        change(&mut table);
        self.follow_keys(&old, &mut table)?;
        self.catalogue.put(self.connection, name, table)
    }

    /// Drops the indexes of removed keys, and creates those of new keys.
    pub(super) fn follow_keys(&mut self, old: &Table, new: &mut Table) -> Result<(), Failure> {
        for key in old.keys.iter().filter(|key| !key.index.is_empty()) {
            let kept = new.keys.iter().any(|new| new.index == key.index && new.parts == key.parts);
            if !kept {
                self.connection.execute_batch(&format!("DROP INDEX {}", quoted(&key.index)))?;
                for key in new.keys.iter_mut().filter(|new| new.index == key.index) {
                    key.index.clear();
                }
            }
        }
        self.make_indexes(new)
    }

    fn drop(&mut self, name: &Name) -> Result<(), Failure> {
        let Some((name, table)) = self.catalogue.find(name) else { return Ok(()) };
        let name = name.clone();
        self.connection.execute_batch(&format!("DROP TABLE {}", quoted(&table.name)))?;
        self.catalogue.remove(self.connection, &name)
    }

    fn truncate(&mut self, name: &Name) -> Result<(), Failure> {
        let Some((_, table)) = self.catalogue.find(name) else { return Ok(()) };
        Ok(self.connection.execute_batch(&format!("DELETE FROM {}", quoted(&table.name)))?)
    }

    pub(super) fn rename(&mut self, old: &Name, new: Name) -> Result<(), Failure> {
        let Some((old, table)) = self.catalogue.find(old) else { return Ok(()) };
        let (old, mut table) = (old.clone(), Table::clone(table));
        let name = self.free(&format!("{}.{}", new.0, new.1))?;
        self.connection.execute_batch(&format!(
            "ALTER TABLE {} RENAME TO {}",
            quoted(&table.name),
            quoted(&name)
        ))?;
        table.name = name;
        self.catalogue.remove(self.connection, &old)?;
        self.catalogue.put(self.connection, new.clone(), table)?;
        self.change_children(&old, |parent, _| parent.clone_from(&new))
    }

    /// Updates foreign keys that refer to a renamed table or column: their parent, and its columns.
    pub(super) fn change_children(
        &mut self,
        parent: &Name,
        change: impl Fn(&mut Name, &mut Vec<String>),
    ) -> Result<(), Failure> {
        let mut names: Vec<Name> = self.catalogue.children(parent).map(|(name, ..)| name.clone()).collect();
        names.dedup();
        for name in names {
            let Some((_, table)) = self.catalogue.find(&name) else { continue };
            let mut table = Table::clone(table);
            for key in table.foreign_keys.iter_mut().filter(|key| key.parent == *parent) {
                change(&mut key.parent, &mut key.parent_columns);
            }
            self.catalogue.put(self.connection, name, table)?;
        }
        Ok(())
    }

    /// Returns a similar name that no table or index has. SQLite's tables and indexes share one case-insensitive name
    /// space.
    pub(super) fn free(&self, name: &str) -> Result<String, Failure> {
        let is_reserved = name.get(..7).is_some_and(|start| start.eq_ignore_ascii_case("sqlite_"));
        let name = if is_reserved { format!("~{name}") } else { name.to_owned() };
        let mut statement =
            self.connection.prepare_cached("SELECT 1 FROM sqlite_master WHERE name = ?1 COLLATE NOCASE")?;
        let mut free = name.clone();
        for number in 2.. {
            if !statement.exists([&free])? {
                break;
            }
            free = format!("{name}~{number}");
        }
        Ok(free)
    }
}

pub(super) fn drop_key(table: &mut Table, name: &str) {
    match name.eq_ignore_ascii_case("PRIMARY") {
        true => table.primary_key = None,
        false => table.keys.retain(|key| !key.name.eq_ignore_ascii_case(name)),
    }
}

/// Returns the CREATE TABLE statement of a table.
pub(super) fn create_sql(table: &Table, name: &str) -> String {
    let columns = table.columns.iter().map(|column| {
        let mut text = format!("{} {}", quoted(&column.name), column.kind.storage().sql());
        if !column.nullable {
            text.push_str(" NOT NULL");
        }
        let default = column.default.value(&column.kind, column.nullable);
        if let Some(value) = default.filter(|value| *value != rusqlite::types::Value::Null) {
            text.push_str(" DEFAULT ");
            text.push_str(&sql(&value));
        }
        text
    });
    let mut parts: Vec<String> = columns.collect();
    if let Some(key) = table.sqlite_key() {
        let names: Vec<String> = key.iter().map(|column| quoted(&table.columns[*column].name)).collect();
        parts.push(format!("PRIMARY KEY ({})", names.join(", ")));
    }
    let clustered = if table.is_clustered() { ", WITHOUT ROWID" } else { "" };
    format!("CREATE TABLE {} ({}) STRICT{clustered}", quoted(name), parts.join(", "))
}

/// Returns the columns of a key's index; `None` if the key needs no index, or has one.
fn indexed(table: &Table, key: &Key) -> Option<String> {
    let column = |part: &Part| {
        let column = table.column(&part.column)?;
        (!part.is_prefix).then(|| quoted(&table.columns[column].name))
    };
    let columns: Option<Vec<String>> = key.parts.iter().map(column).collect();
    columns.filter(|columns| !columns.is_empty() && key.index.is_empty()).map(|columns| columns.join(", "))
}

/// Returns true if the key's values are unique in SQLite, too. Two values of an ENUM may be the same text.
fn is_unique(table: &Table, key: &Key) -> bool {
    let is_doubtful = |part: &Part| {
        let kind = table.column(&part.column).map(|column| &table.columns[column].kind);
        matches!(kind, Some(Type::Enum { texts }) if texts.iter().any(String::is_empty))
    };
    key.unique && !key.parts.iter().any(is_doubtful)
}
