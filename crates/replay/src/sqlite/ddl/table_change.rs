//! Parser of ALTER TABLE.

use sql::SqlWords;

use super::table_body::{TableBody, is_element, parse_column, parse_element};
use super::{NameResolver, QualifiedName};
use crate::sqlite::catalogue_table::CatalogueColumn;
use crate::sqlite::default_value::DefaultValue;

/// One change in an ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::sqlite) enum TableChange {
    /// A new column, its position, and the keys that its definition creates.
    Add(Box<CatalogueColumn>, ColumnPosition, Box<TableBody>),
    /// The column with this name is replaced by another definition.
    Modify(String, Box<CatalogueColumn>, ColumnPosition, Box<TableBody>),
    Drop(String),
    /// A column's new default; `None` removes it.
    SetDefault(String, Option<SqlWords>),
    RenameColumn(String, String),
    AddKeys(Box<TableBody>),
    DropKey(String),
    DropPrimaryKey,
    DropForeignKey(String),
    /// A foreign key, a unique key or a check.
    DropConstraint(String),
    RenameKey(String, String),
    Rename(QualifiedName),
    Engine(String),
    /// A clause that removes or replaces rows without row events.
    Rows(String),
}

/// Position of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sqlite) enum ColumnPosition {
    /// The same position, or the end for a new column.
    Same,
    First,
    After(String),
}

/// Clauses that change rows without row events.
const ROW_CLAUSES: [&str; 5] =
    ["DROP PARTITION", "TRUNCATE PARTITION", "EXCHANGE PARTITION", "DISCARD", "IMPORT"];

/// Clauses that affect no column, key or row.
const IGNORED_CLAUSES: [&str; 45] = [
    "ADD PARTITION",
    "REORGANIZE",
    "COALESCE",
    "REMOVE",
    "PARTITION",
    "ANALYZE",
    "CHECK",
    "OPTIMIZE",
    "REBUILD",
    "REPAIR",
    "ALGORITHM",
    "LOCK",
    "FORCE",
    "WITH",
    "WITHOUT",
    "ENABLE",
    "DISABLE",
    "ORDER",
    "CONVERT",
    "DEFAULT",
    "CHARSET",
    "CHARACTER",
    "COLLATE",
    "COMMENT",
    "AUTO_INCREMENT",
    "AVG_ROW_LENGTH",
    "AUTOEXTEND_SIZE",
    "CHECKSUM",
    "COMPRESSION",
    "CONNECTION",
    "DATA",
    "INDEX",
    "DELAY_KEY_WRITE",
    "ENCRYPTION",
    "ENGINE_ATTRIBUTE",
    "INSERT_METHOD",
    "KEY_BLOCK_SIZE",
    "MAX_ROWS",
    "MIN_ROWS",
    "PACK_KEYS",
    "ROW_FORMAT",
    "STATS_AUTO_RECALC",
    "STATS_PERSISTENT",
    "STATS_SAMPLE_PAGES",
    "TABLESPACE",
];

/// Parses all changes; `None` if one cannot be parsed.
pub(super) fn parse_changes(
    words: &mut SqlWords,
    table: &QualifiedName,
    naming: &NameResolver,
) -> Option<Vec<TableChange>> {
    let mut changes = Vec::new();
    for mut part in words.split_at_commas() {
        // The words after ORDER BY may be columns.
        let is_last = part.is_next("ORDER") || part.is_next("PARTITION");
        parse_clause(&mut part, table, naming, &mut changes)?;
        if is_last {
            break;
        }
    }
    Some(changes)
}

fn parse_clause(
    words: &mut SqlWords,
    table: &QualifiedName,
    naming: &NameResolver,
    changes: &mut Vec<TableChange>,
) -> Option<()> {
    if words.is_at_end() {
        return Some(());
    }
    if ROW_CLAUSES.iter().any(|clause| words.clone().take(clause)) {
        changes.push(TableChange::Rows(words.keywords_ahead(2)));
        return Some(());
    }
    if IGNORED_CLAUSES.iter().any(|clause| words.clone().take(clause)) {
        return Some(());
    }
    if words.take("ADD") {
        return parse_add(words, table, changes);
    }
    if words.take("DROP") {
        changes.push(parse_drop(words)?);
        return Some(());
    }
    if words.take("MODIFY") {
        words.take("COLUMN");
        let mut body = TableBody::default();
        let column = parse_column(words, &mut body, table)?;
        changes.push(TableChange::Modify(
            column.name.clone(),
            column.into(),
            parse_position(words)?,
            body.into(),
        ));
        return Some(());
    }
    if words.take("CHANGE") {
        words.take("COLUMN");
        let old = words.take_name()?;
        let mut body = TableBody::default();
        let column = parse_column(words, &mut body, table)?;
        changes.push(TableChange::Modify(old, column.into(), parse_position(words)?, body.into()));
        return Some(());
    }
    if words.take("ALTER") {
        return parse_alter_column(words, changes);
    }
    if words.take("RENAME") {
        changes.push(parse_rename(words, naming)?);
        return Some(());
    }
    if words.take("ENGINE") {
        words.take_sign("=");
        changes.push(TableChange::Engine(words.take_name()?));
        return Some(());
    }
    // Table options may follow each other without commas. UNION is the only other clause that needs no action.
    words.is_next("UNION").then_some(())
}

fn parse_add(words: &mut SqlWords, table: &QualifiedName, changes: &mut Vec<TableChange>) -> Option<()> {
    if is_element(words) {
        let mut body = TableBody::default();
        parse_element(words, &mut body, table)?;
        changes.push(TableChange::AddKeys(body.into()));
        return Some(());
    }
    words.take("COLUMN");
    let mut added = |words: &mut SqlWords| {
        let mut body = TableBody::default();
        let column = parse_column(words, &mut body, table)?;
        changes.push(TableChange::Add(column.into(), parse_position(words)?, body.into()));
        Some(())
    };
    match words.take_group() {
        Some(mut group) => group.split_at_commas().iter_mut().try_for_each(added),
        None => added(words),
    }
}

fn parse_position(words: &mut SqlWords) -> Option<ColumnPosition> {
    if words.take("FIRST") {
        return Some(ColumnPosition::First);
    }
    match words.take("AFTER") {
        true => words.take_name().map(ColumnPosition::After),
        false => Some(ColumnPosition::Same),
    }
}

fn parse_drop(words: &mut SqlWords) -> Option<TableChange> {
    if words.take("PRIMARY KEY") {
        return Some(TableChange::DropPrimaryKey);
    }
    if words.take("FOREIGN KEY") {
        return words.take_name().map(TableChange::DropForeignKey);
    }
    if words.take_any(&["INDEX", "KEY"]) {
        return words.take_name().map(TableChange::DropKey);
    }
    if words.take_any(&["CHECK", "CONSTRAINT"]) {
        return words.take_name().map(TableChange::DropConstraint);
    }
    words.take("COLUMN");
    words.take_name().map(TableChange::Drop)
}

fn parse_alter_column(words: &mut SqlWords, changes: &mut Vec<TableChange>) -> Option<()> {
    if words.take_any(&["INDEX", "CHECK", "CONSTRAINT"]) {
        return Some(());
    }
    words.take("COLUMN");
    let name = words.take_name()?;
    if words.take("SET DEFAULT") {
        changes.push(TableChange::SetDefault(name, Some(words.clone())));
    } else if words.take("DROP DEFAULT") {
        changes.push(TableChange::SetDefault(name, None));
    }
    Some(())
}

fn parse_rename(words: &mut SqlWords, naming: &NameResolver) -> Option<TableChange> {
    if words.take("COLUMN") {
        let old = words.take_name()?;
        words.take("TO").then_some(())?;
        return Some(TableChange::RenameColumn(old, words.take_name()?));
    }
    if words.take_any(&["INDEX", "KEY"]) {
        let old = words.take_name()?;
        words.take("TO").then_some(())?;
        return Some(TableChange::RenameKey(old, words.take_name()?));
    }
    words.take_any(&["TO", "AS"]);
    words.take_sign("=");
    naming.table(words).map(TableChange::Rename)
}

/// Parses the default of a column of this type.
pub(in crate::sqlite) fn default_of(words: &Option<SqlWords>, column: &CatalogueColumn) -> DefaultValue {
    words.as_ref().map_or(DefaultValue::None, |words| DefaultValue::read(&mut words.clone(), &column.kind))
}
