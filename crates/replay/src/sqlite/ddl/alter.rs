//! Parser of ALTER TABLE.

use filter::Words;

use super::create::{Body, column, element, is_element};
use super::{Name, Naming};
use crate::sqlite::definition::Column;
use crate::sqlite::literal::Default;

/// One change in an ALTER TABLE.
#[derive(Clone, Debug, PartialEq)]
pub(in crate::sqlite) enum Change {
    /// A new column, its position, and the keys that its definition creates.
    Add(Box<Column>, Place, Box<Body>),
    /// The column with this name is replaced by another definition.
    Modify(String, Box<Column>, Place, Box<Body>),
    Drop(String),
    /// A column's new default; `None` removes it.
    SetDefault(String, Option<Words>),
    RenameColumn(String, String),
    AddKeys(Box<Body>),
    DropKey(String),
    DropPrimaryKey,
    DropForeignKey(String),
    /// A foreign key, a unique key or a check.
    DropConstraint(String),
    RenameKey(String, String),
    Rename(Name),
    Engine(String),
    /// A clause that removes or replaces rows without row events.
    Rows(String),
}

/// Position of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::sqlite) enum Place {
    /// The same position, or the end for a new column.
    Same,
    First,
    After(String),
}

/// Clauses that change rows without row events.
const ROW_CLAUSES: [&str; 5] =
    ["DROP PARTITION", "TRUNCATE PARTITION", "EXCHANGE PARTITION", "DISCARD", "IMPORT"];

/// Clauses that affect no column, key or row.
const OTHER_CLAUSES: [&str; 45] = [
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
pub(super) fn changes(words: &mut Words, table: &Name, naming: &Naming) -> Option<Vec<Change>> {
    let mut changes = Vec::new();
    for mut part in words.parts() {
        // The words after ORDER BY may be columns.
        let is_last = part.is("ORDER") || part.is("PARTITION");
        clause(&mut part, table, naming, &mut changes)?;
        if is_last {
            break;
        }
    }
    Some(changes)
}

fn clause(words: &mut Words, table: &Name, naming: &Naming, changes: &mut Vec<Change>) -> Option<()> {
    if words.is_over() {
        return Some(());
    }
    if ROW_CLAUSES.iter().any(|clause| words.clone().take(clause)) {
        changes.push(Change::Rows(words.head(2)));
        return Some(());
    }
    if OTHER_CLAUSES.iter().any(|clause| words.clone().take(clause)) {
        return Some(());
    }
    if words.take("ADD") {
        return add(words, table, changes);
    }
    if words.take("DROP") {
        changes.push(dropped(words)?);
        return Some(());
    }
    if words.take("MODIFY") {
        words.take("COLUMN");
        let mut body = Body::default();
        let column = column(words, &mut body, table)?;
        changes.push(Change::Modify(column.name.clone(), column.into(), place(words)?, body.into()));
        return Some(());
    }
    if words.take("CHANGE") {
        words.take("COLUMN");
        let old = words.name()?;
        let mut body = Body::default();
        let column = column(words, &mut body, table)?;
        changes.push(Change::Modify(old, column.into(), place(words)?, body.into()));
        return Some(());
    }
    if words.take("ALTER") {
        return altered(words, changes);
    }
    if words.take("RENAME") {
        changes.push(renamed(words, naming)?);
        return Some(());
    }
    if words.take("ENGINE") {
        words.take_sign("=");
        changes.push(Change::Engine(words.name()?));
        return Some(());
    }
    // Table options may follow each other without commas. UNION is the only other clause that needs no action.
    words.is("UNION").then_some(())
}

fn add(words: &mut Words, table: &Name, changes: &mut Vec<Change>) -> Option<()> {
    if is_element(words) {
        let mut body = Body::default();
        element(words, &mut body, table)?;
        changes.push(Change::AddKeys(body.into()));
        return Some(());
    }
    words.take("COLUMN");
    let mut added = |words: &mut Words| {
        let mut body = Body::default();
        let column = column(words, &mut body, table)?;
        changes.push(Change::Add(column.into(), place(words)?, body.into()));
        Some(())
    };
    match words.group() {
        Some(mut group) => group.parts().iter_mut().try_for_each(added),
        None => added(words),
    }
}

fn place(words: &mut Words) -> Option<Place> {
    if words.take("FIRST") {
        return Some(Place::First);
    }
    match words.take("AFTER") {
        true => words.name().map(Place::After),
        false => Some(Place::Same),
    }
}

fn dropped(words: &mut Words) -> Option<Change> {
    if words.take("PRIMARY KEY") {
        return Some(Change::DropPrimaryKey);
    }
    if words.take("FOREIGN KEY") {
        return words.name().map(Change::DropForeignKey);
    }
    if words.take_any(&["INDEX", "KEY"]) {
        return words.name().map(Change::DropKey);
    }
    if words.take_any(&["CHECK", "CONSTRAINT"]) {
        return words.name().map(Change::DropConstraint);
    }
    words.take("COLUMN");
    words.name().map(Change::Drop)
}

fn altered(words: &mut Words, changes: &mut Vec<Change>) -> Option<()> {
    if words.take_any(&["INDEX", "CHECK", "CONSTRAINT"]) {
        return Some(());
    }
    words.take("COLUMN");
    let name = words.name()?;
    if words.take("SET DEFAULT") {
        changes.push(Change::SetDefault(name, Some(words.clone())));
    } else if words.take("DROP DEFAULT") {
        changes.push(Change::SetDefault(name, None));
    }
    Some(())
}

fn renamed(words: &mut Words, naming: &Naming) -> Option<Change> {
    if words.take("COLUMN") {
        let old = words.name()?;
        words.take("TO").then_some(())?;
        return Some(Change::RenameColumn(old, words.name()?));
    }
    if words.take_any(&["INDEX", "KEY"]) {
        let old = words.name()?;
        words.take("TO").then_some(())?;
        return Some(Change::RenameKey(old, words.name()?));
    }
    words.take_any(&["TO", "AS"]);
    words.take_sign("=");
    naming.table(words).map(Change::Rename)
}

/// Parses the default of a column of this type.
pub(in crate::sqlite) fn default_of(words: &Option<Words>, column: &Column) -> Default {
    words.as_ref().map_or(Default::None, |words| Default::read(&mut words.clone(), &column.kind))
}
