//! Parser of statements that define tables and databases.
//!
//! A part that the parser does not understand is no error: it becomes an explicit `Unknown` or `Other`, with its first
//! words, and its user decides.

mod column_definition;
mod table_change;
mod table_definition;

pub use crate::ddl::column_definition::{
    ColumnDefinition, ColumnKey, ColumnTypeDefinition, DefaultClause, TypeArgument,
};
pub use crate::ddl::table_change::{ColumnPosition, ExistenceCheck, TableChange};
pub use crate::ddl::table_definition::{
    ForeignKeyAction, ForeignKeyDefinition, KeyDefinition, KeyKind, KeyPartDefinition, TableDefinition,
    TableElement, TableOptions,
};

use crate::ddl::table_change::parse_changes;
use crate::ddl::table_definition::{parse_key_parts, parse_options};
use crate::sql_words::SqlWords;

/// Name of a table as a statement gives it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedTable {
    /// Database, if the statement names it.
    pub database: Option<String>,
    /// Table, unquoted.
    pub table: String,
}

impl NamedTable {
    /// Returns database and table, for a statement with this default database.
    pub fn resolve(&self, default: &str) -> [String; 2] {
        [self.database.as_deref().unwrap_or(default).to_owned(), self.table.clone()]
    }

    fn take(words: &mut SqlWords) -> Option<Self> {
        let (database, table) = words.take_table()?;
        Some(Self { database, table })
    }

    /// Takes names separated by commas.
    fn take_list(words: &mut SqlWords) -> Option<Vec<Self>> {
        let mut names = vec![Self::take(words)?];
        while words.take_sign(",") {
            names.push(Self::take(words)?);
        }
        Some(names)
    }
}

/// A statement that defines tables or databases.
#[derive(Clone, Debug, PartialEq)]
pub enum DdlStatement {
    /// CREATE DATABASE.
    CreateDatabase {
        /// Name of the database.
        name: String,
        /// Treatment of a database that already exists.
        exists: ExistingTablePolicy,
        /// Default character set, if given, in lower case.
        charset: Option<String>,
    },
    /// ALTER DATABASE.
    AlterDatabase {
        /// Name of the database; `None` for the default database.
        name: Option<String>,
        /// New default character set, if given, in lower case.
        charset: Option<String>,
    },
    /// DROP DATABASE.
    DropDatabase(String),
    /// CREATE TABLE.
    CreateTable {
        /// Name of the table.
        name: NamedTable,
        /// Treatment of a table that already exists.
        exists: ExistingTablePolicy,
        /// Columns of the new table.
        content: NewTable,
    },
    /// CREATE TEMPORARY TABLE.
    CreateTemporaryTable,
    /// DROP TABLE.
    DropTables(Vec<NamedTable>),
    /// DROP TEMPORARY TABLE.
    DropTemporaryTables,
    /// ALTER TABLE.
    AlterTable {
        /// Name of the table.
        name: NamedTable,
        /// Its changes, in order.
        changes: Vec<TableChange>,
    },
    /// RENAME TABLE.
    RenameTables(Vec<TableRename>),
    /// TRUNCATE.
    Truncate(NamedTable),
    /// CREATE INDEX.
    CreateIndex {
        /// Table of the index.
        table: NamedTable,
        /// The index.
        key: KeyDefinition,
    },
    /// DROP INDEX.
    DropIndex {
        /// Table of the index.
        table: NamedTable,
        /// Name of the index.
        name: String,
    },
    /// A statement that defines no table or database.
    Other,
    /// A statement on tables or databases that cannot be parsed.
    Unknown,
}

/// Treatment of a table or database that already exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistingTablePolicy {
    /// `IF NOT EXISTS`
    Keep,
    /// `OR REPLACE`
    Replace,
    /// The statement fails.
    Refuse,
}

impl ExistingTablePolicy {
    fn take(words: &mut SqlWords, replaces: bool) -> Self {
        match (words.take("IF NOT EXISTS"), replaces) {
            (true, _) => Self::Keep,
            (false, true) => Self::Replace,
            (false, false) => Self::Refuse,
        }
    }
}

/// Content of a new table.
#[derive(Clone, Debug, PartialEq)]
pub enum NewTable {
    /// Columns and keys.
    Defined(Box<TableDefinition>),
    /// The definition of another table.
    Like(NamedTable),
    /// Columns, and perhaps rows, of a query.
    Query,
    /// A definition that cannot be parsed.
    Unknown,
}

/// One pair of RENAME TABLE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRename {
    /// Name before.
    pub old: NamedTable,
    /// Name after.
    pub new: NamedTable,
}

impl DdlStatement {
    /// Parses a statement.
    pub fn parse(words: &SqlWords) -> Self {
        let mut words = words.clone();
        let words = &mut words;
        let parsed = if words.take("CREATE") {
            parse_create(words)
        } else if words.take("ALTER") {
            parse_alter(words)
        } else if words.take("DROP") {
            parse_drop(words)
        } else if words.take_any(&["RENAME TABLE", "RENAME TABLES"]) {
            parse_renames(words)
        } else if words.take("TRUNCATE") {
            words.take("TABLE");
            NamedTable::take(words).map(Self::Truncate)
        } else {
            Some(Self::Other)
        };
        parsed.unwrap_or(Self::Unknown)
    }
}

fn parse_create(words: &mut SqlWords) -> Option<DdlStatement> {
    // MariaDB's syntax.
    let replaces = words.take("OR REPLACE");
    if words.take_any(&["DATABASE", "SCHEMA"]) {
        let exists = ExistingTablePolicy::take(words, replaces);
        let name = words.take_name()?;
        return Some(DdlStatement::CreateDatabase { name, exists, charset: parse_options(words).charset });
    }
    if words.take("TEMPORARY TABLE") {
        return Some(DdlStatement::CreateTemporaryTable);
    }
    if words.take("TABLE") {
        let exists = ExistingTablePolicy::take(words, replaces);
        let name = NamedTable::take(words)?;
        let content = parse_new_table(words).unwrap_or(NewTable::Unknown);
        return Some(DdlStatement::CreateTable { name, exists, content });
    }
    words.take_any(&["ONLINE", "OFFLINE"]);
    let kind = KeyKind::take(words);
    match words.take("INDEX") {
        true => parse_create_index(words, kind),
        false => Some(DdlStatement::Other),
    }
}

fn parse_new_table(words: &mut SqlWords) -> Option<NewTable> {
    let mut inner = words.clone().take_group().unwrap_or_else(|| words.clone());
    if inner.take("LIKE") {
        return NamedTable::take(&mut inner).map(NewTable::Like);
    }
    let Some(columns) = words.take_group() else { return Some(NewTable::Query) };
    if words.has_ahead(&["SELECT", "AS", "WITH", "VALUES", "TABLE"]) {
        return Some(NewTable::Query);
    }
    Some(NewTable::Defined(Box::new(TableDefinition::parse(columns, words))))
}

fn parse_create_index(words: &mut SqlWords, kind: KeyKind) -> Option<DdlStatement> {
    words.take("IF NOT EXISTS");
    let name = words.take_name()?;
    if words.take("USING") {
        words.skip();
    }
    words.take("ON").then_some(())?;
    let table = NamedTable::take(words)?;
    let parts = parse_key_parts(words.take_group()?);
    Some(DdlStatement::CreateIndex { table, key: KeyDefinition { kind, name: Some(name), parts } })
}

fn parse_alter(words: &mut SqlWords) -> Option<DdlStatement> {
    if words.take_any(&["DATABASE", "SCHEMA"]) {
        let is_named = !words.is_any_next(&["CHARACTER", "CHAR", "CHARSET", "COLLATE", "DEFAULT"]);
        let name = if is_named { Some(words.take_name()?) } else { None };
        return Some(DdlStatement::AlterDatabase { name, charset: parse_options(words).charset });
    }
    let mut table = words.clone();
    while table.take_any(&["ONLINE", "OFFLINE", "IGNORE"]) {}
    if !table.take("TABLE") {
        return Some(DdlStatement::Other);
    }
    table.take("IF EXISTS");
    let name = NamedTable::take(&mut table)?;
    Some(DdlStatement::AlterTable { name, changes: parse_changes(&mut table) })
}

fn parse_drop(words: &mut SqlWords) -> Option<DdlStatement> {
    if words.take_any(&["DATABASE", "SCHEMA"]) {
        words.take("IF EXISTS");
        return words.take_name().map(DdlStatement::DropDatabase);
    }
    if words.take_any(&["TEMPORARY TABLE", "TEMPORARY TABLES"]) {
        return Some(DdlStatement::DropTemporaryTables);
    }
    if words.take_any(&["TABLE", "TABLES"]) {
        words.take("IF EXISTS");
        return NamedTable::take_list(words).map(DdlStatement::DropTables);
    }
    words.take_any(&["ONLINE", "OFFLINE"]);
    if !words.take("INDEX") {
        return Some(DdlStatement::Other);
    }
    words.take("IF EXISTS");
    let name = words.take_name()?;
    words.take("ON").then_some(())?;
    Some(DdlStatement::DropIndex { table: NamedTable::take(words)?, name })
}

fn parse_renames(words: &mut SqlWords) -> Option<DdlStatement> {
    words.take("IF EXISTS");
    let mut renames = Vec::new();
    loop {
        let old = NamedTable::take(words)?;
        // MariaDB's syntax.
        if words.take("WAIT") {
            words.skip();
        }
        words.take("NOWAIT");
        words.take("TO").then_some(())?;
        renames.push(TableRename { old, new: NamedTable::take(words)? });
        if !words.take_sign(",") {
            return Some(DdlStatement::RenameTables(renames));
        }
    }
}
