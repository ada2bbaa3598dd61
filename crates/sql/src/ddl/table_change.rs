//! Changes of ALTER TABLE.

use crate::ddl::NamedTable;
use crate::ddl::ddl_column::{DdlColumn, DefaultClause};
use crate::ddl::table_definition::{TableElement, TableOptions, parse_options, take_charset};
use crate::sql_words::SqlWords;

/// One change of a table.
#[derive(Clone, Debug, PartialEq)]
pub enum TableChange {
    /// A new column or key.
    Add {
        /// The column or key.
        element: TableElement,
        /// Position of a column.
        position: ColumnPosition,
        /// Treatment of a column that exists.
        check: ExistenceCheck,
    },
    /// A column with another definition: MODIFY, CHANGE.
    ReplaceColumn {
        /// Name before.
        old: String,
        /// New definition.
        definition: Box<DdlColumn>,
        /// New position.
        position: ColumnPosition,
        /// Treatment of a column that does not exist.
        check: ExistenceCheck,
    },
    /// DROP COLUMN.
    DropColumn {
        /// Name of the column.
        name: String,
        /// Treatment of a column that does not exist.
        check: ExistenceCheck,
    },
    /// A column's new default; `None` removes it.
    SetDefault {
        /// Name of the column.
        column: String,
        /// The default.
        default: Option<DefaultClause>,
        /// Treatment of a column that does not exist.
        check: ExistenceCheck,
    },
    /// RENAME COLUMN.
    RenameColumn {
        /// Name before.
        old: String,
        /// Name after.
        new: String,
        /// Treatment of a column that does not exist.
        check: ExistenceCheck,
    },
    /// DROP PRIMARY KEY, or DROP INDEX of that name.
    DropPrimaryKey,
    /// DROP INDEX.
    DropKey(String),
    /// DROP FOREIGN KEY.
    DropForeignKey(String),
    /// DROP CONSTRAINT, DROP CHECK: a foreign key, a unique key or a check.
    DropConstraint(String),
    /// RENAME INDEX.
    RenameKey {
        /// Name before.
        old: String,
        /// Name after.
        new: String,
    },
    /// RENAME TO.
    RenameTable(NamedTable),
    /// CONVERT TO CHARACTER SET: the character set in lower case, or `default` for the database's character set.
    ConvertCharset(String),
    /// Table options.
    Options(TableOptions),
    /// A clause that removes or replaces rows without row events: its first words.
    Rows(String),
    /// A clause that changes no definition of a column or key: its first words.
    Other(String),
    /// MariaDB's system versioning.
    Versioning(VersioningChange),
    /// A clause that cannot be parsed: its first words.
    Unknown(String),
}

impl TableChange {
    /// Returns whether the change gives columns other numbers, counted from the first column.
    pub fn renumbers_columns(&self) -> bool {
        match self {
            Self::Add { element: TableElement::Column(_), position, .. }
            | Self::ReplaceColumn { position, .. } => *position != ColumnPosition::Same,
            Self::DropColumn { .. } => true,
            _ => false,
        }
    }
}

/// Change of MariaDB's system versioning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VersioningChange {
    /// ADD SYSTEM VERSIONING
    Add,
    /// DROP SYSTEM VERSIONING
    Drop,
    /// DROP PERIOD
    DropPeriod,
}

/// Position of a column.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ColumnPosition {
    /// The same position, or the end for a new column.
    Same,
    /// FIRST
    First,
    /// AFTER
    After(String),
}

/// Treatment of a column that exists, or does not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExistenceCheck {
    /// The statement fails.
    Fail,
    /// `IF EXISTS`, `IF NOT EXISTS`: the change has no effect.
    Skip,
}

/// Clauses that change rows without row events.
const ROW_CLAUSES: [&str; 5] =
    ["DROP PARTITION", "TRUNCATE PARTITION", "EXCHANGE PARTITION", "DISCARD", "IMPORT"];

/// Clauses about partitions, indexes and the execution.
const OTHER_CLAUSES: [&str; 22] = [
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
    "SECONDARY_LOAD",
    "SECONDARY_UNLOAD",
    "WAIT",
    "NOWAIT",
];

/// Clauses that can contain commas and that no other clause follows: lists of columns or partitions.
const LAST_CLAUSES: [&str; 12] = [
    "ORDER",
    "PARTITION",
    "DROP PARTITION",
    "TRUNCATE PARTITION",
    "DISCARD PARTITION",
    "IMPORT PARTITION",
    "REORGANIZE PARTITION",
    "ANALYZE PARTITION",
    "CHECK PARTITION",
    "OPTIMIZE PARTITION",
    "REBUILD PARTITION",
    "REPAIR PARTITION",
];

/// First words of table options. Options may follow each other without commas.
const OPTIONS: [&str; 43] = [
    "AUTOEXTEND_SIZE",
    "AUTO_INCREMENT",
    "AVG_ROW_LENGTH",
    "CHAR",
    "CHARACTER",
    "CHARSET",
    "CHECKSUM",
    "COLLATE",
    "COMMENT",
    "COMPRESSION",
    "CONNECTION",
    "DATA",
    "DEFAULT",
    "DELAY_KEY_WRITE",
    "ENCRYPTED",
    "ENCRYPTION",
    "ENCRYPTION_KEY_ID",
    "ENGINE",
    "ENGINE_ATTRIBUTE",
    "INDEX",
    "INSERT_METHOD",
    "KEY_BLOCK_SIZE",
    "MAX_ROWS",
    "MIN_ROWS",
    "PACK_KEYS",
    "PAGE_CHECKSUM",
    "PAGE_COMPRESSED",
    "PAGE_COMPRESSION_LEVEL",
    "PASSWORD",
    "ROW_FORMAT",
    "SECONDARY_ENGINE",
    "SECONDARY_ENGINE_ATTRIBUTE",
    "SEQUENCE",
    "START TRANSACTION",
    "STATS_AUTO_RECALC",
    "STATS_PERSISTENT",
    "STATS_SAMPLE_PAGES",
    "STORAGE",
    "TABLESPACE",
    "TABLE_CHECKSUM",
    "TRANSACTIONAL",
    "TYPE",
    "UNION",
];

/// Parses the changes of ALTER TABLE.
pub(super) fn parse_changes(words: &mut SqlWords) -> Vec<TableChange> {
    let mut changes = Vec::new();
    for mut part in words.split_at_commas() {
        if part.is_at_end() {
            continue;
        }
        let is_last = part.is_any_next(&LAST_CLAUSES);
        let start = part.keywords_ahead(2);
        if parse_clause(&mut part, &mut changes).is_none() {
            changes.push(TableChange::Unknown(start));
        }
        if is_last {
            break;
        }
    }
    changes
}

fn parse_clause(words: &mut SqlWords, changes: &mut Vec<TableChange>) -> Option<()> {
    let start = words.keywords_ahead(2);
    let change = if words.is_any_next(&ROW_CLAUSES) {
        TableChange::Rows(start)
    } else if words.is_any_next(&OTHER_CLAUSES) {
        TableChange::Other(start)
    } else if words.is_next("ADD SYSTEM VERSIONING") {
        TableChange::Versioning(VersioningChange::Add)
    } else if words.is_next("DROP SYSTEM VERSIONING") {
        TableChange::Versioning(VersioningChange::Drop)
    } else if words.is_next("DROP PERIOD FOR") {
        TableChange::Versioning(VersioningChange::DropPeriod)
    } else if words.take("ADD") {
        return parse_add(words, changes);
    } else if words.take("DROP") {
        parse_drop(words)?
    } else if words.take_any(&["MODIFY COLUMN", "MODIFY"]) {
        let check = ExistenceCheck::take(words, "IF EXISTS");
        let old = words.clone().take_name()?;
        parse_replacement(words, old, check)?
    } else if words.take_any(&["CHANGE COLUMN", "CHANGE"]) {
        let check = ExistenceCheck::take(words, "IF EXISTS");
        let old = words.take_name()?;
        parse_replacement(words, old, check)?
    } else if words.take("ALTER") {
        parse_alter_column(words, start)?
    } else if words.take("RENAME") {
        parse_rename(words)?
    } else if words.take("CONVERT TO") {
        TableChange::ConvertCharset(take_charset(words)?)
    } else if words.is_any_next(&OPTIONS) || words.is_assignment() {
        TableChange::Options(parse_options(words))
    } else {
        return None;
    };
    changes.push(change);
    Some(())
}

fn parse_add(words: &mut SqlWords, changes: &mut Vec<TableChange>) -> Option<()> {
    words.take("COLUMN");
    let check = ExistenceCheck::take(words, "IF NOT EXISTS");
    let mut added = |words: &mut SqlWords| {
        let element = TableElement::parse(words);
        let position = ColumnPosition::parse(words)?;
        changes.push(TableChange::Add { element, position, check });
        Some(())
    };
    match words.take_group() {
        Some(mut group) => group.split_at_commas().iter_mut().try_for_each(added),
        None => added(words),
    }
}

fn parse_drop(words: &mut SqlWords) -> Option<TableChange> {
    if words.take("PRIMARY KEY") {
        return Some(TableChange::DropPrimaryKey);
    }
    let mut named = |kinds: &[&str], change: fn(String) -> TableChange| {
        words.take_any(kinds).then(|| {
            words.take("IF EXISTS");
            words.take_name().map(change)
        })
    };
    let key = |name: String| match name.eq_ignore_ascii_case("PRIMARY") {
        true => TableChange::DropPrimaryKey,
        false => TableChange::DropKey(name),
    };
    let found = named(&["FOREIGN KEY"], TableChange::DropForeignKey)
        .or_else(|| named(&["INDEX", "KEY"], key))
        .or_else(|| named(&["CHECK", "CONSTRAINT"], TableChange::DropConstraint));
    if let Some(found) = found {
        return found;
    }
    words.take("COLUMN");
    let check = ExistenceCheck::take(words, "IF EXISTS");
    Some(TableChange::DropColumn { name: words.take_name()?, check })
}

fn parse_replacement(words: &mut SqlWords, old: String, check: ExistenceCheck) -> Option<TableChange> {
    let definition = DdlColumn::parse(words)?.into();
    Some(TableChange::ReplaceColumn { old, definition, position: ColumnPosition::parse(words)?, check })
}

fn parse_alter_column(words: &mut SqlWords, start: String) -> Option<TableChange> {
    if words.take_any(&["INDEX", "KEY", "CHECK", "CONSTRAINT"]) {
        return Some(TableChange::Other(start));
    }
    words.take("COLUMN");
    let check = ExistenceCheck::take(words, "IF EXISTS");
    let column = words.take_name()?;
    let default = match words.take("SET DEFAULT") {
        true => Some(DefaultClause::parse(words)),
        false if words.take("DROP DEFAULT") => None,
        false => return Some(TableChange::Other(start)),
    };
    Some(TableChange::SetDefault { column, default, check })
}

fn parse_rename(words: &mut SqlWords) -> Option<TableChange> {
    let is_column = words.take("COLUMN");
    if is_column || words.take_any(&["INDEX", "KEY"]) {
        let check = ExistenceCheck::take(words, "IF EXISTS");
        let old = words.take_name()?;
        words.take("TO").then_some(())?;
        let new = words.take_name()?;
        return Some(match is_column {
            true => TableChange::RenameColumn { old, new, check },
            false => TableChange::RenameKey { old, new },
        });
    }
    words.take_any(&["TO", "AS"]);
    words.take_sign("=");
    NamedTable::take(words).map(TableChange::RenameTable)
}

impl ColumnPosition {
    fn parse(words: &mut SqlWords) -> Option<Self> {
        if words.take("FIRST") {
            return Some(Self::First);
        }
        match words.take("AFTER") {
            true => words.take_name().map(Self::After),
            false => Some(Self::Same),
        }
    }
}

impl ExistenceCheck {
    fn take(words: &mut SqlWords, clause: &str) -> Self {
        if words.take(clause) { Self::Skip } else { Self::Fail }
    }
}
