//! Columns, keys and options of a table definition.

use crate::ddl::NamedTable;
use crate::ddl::ddl_column::DdlColumn;
use crate::sql_words::{SqlWord, SqlWords};

/// Definition of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TableDefinition {
    /// Columns and keys, in order.
    pub elements: Vec<TableElement>,
    /// Table options.
    pub options: TableOptions,
    /// True for a system-versioned table of MariaDB's: its log contains the rows of its history.
    pub is_versioned: bool,
}

/// An element in the parentheses of CREATE TABLE.
#[derive(Clone, Debug, PartialEq)]
pub enum TableElement {
    /// A column.
    Column(Box<DdlColumn>),
    /// The primary key.
    PrimaryKey(Vec<KeyPartDefinition>),
    /// Another key.
    Key(KeyDefinition),
    /// A foreign key.
    ForeignKey(ForeignKeyDefinition),
    /// A CHECK.
    Check,
    /// MariaDB's PERIOD FOR.
    Period,
    /// MariaDB's PERIOD FOR SYSTEM_TIME: the columns with the start and the end of a row's validity.
    SystemPeriod([String; 2]),
    /// An element that cannot be parsed: its first words.
    Unknown(String),
}

/// A key other than the primary key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyDefinition {
    /// Kind of the key.
    pub kind: KeyKind,
    /// Name, if given.
    pub name: Option<String>,
    /// Parts of the key, in order.
    pub parts: Vec<KeyPartDefinition>,
}

/// Kind of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyKind {
    /// INDEX, KEY.
    Plain,
    /// UNIQUE.
    Unique,
    /// FULLTEXT, SPATIAL, and MariaDB's VECTOR: cannot find a row by its values.
    Special,
}

impl KeyKind {
    pub(super) fn take(words: &mut SqlWords) -> Self {
        if words.take("UNIQUE") {
            return Self::Unique;
        }
        // The first word alone may be a column's name.
        let is_vector = words.is_any_next(&["VECTOR INDEX", "VECTOR KEY"]);
        match is_vector && words.take("VECTOR") || words.take_any(&["FULLTEXT", "SPATIAL"]) {
            true => Self::Special,
            false => Self::Plain,
        }
    }
}

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyPartDefinition {
    /// The column; `None` for an expression.
    pub column: Option<String>,
    /// True if only a prefix of the column is in the key.
    pub is_prefix: bool,
}

/// A foreign key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForeignKeyDefinition {
    /// Name, if given.
    pub name: Option<String>,
    /// Columns that refer to the parent.
    pub columns: Vec<String>,
    /// Parent table. Without a database, it is in the database of the defined table.
    pub parent: NamedTable,
    /// Columns of the parent; empty for its primary key.
    pub parent_columns: Vec<String>,
    /// ON DELETE.
    pub on_delete: ForeignKeyAction,
    /// ON UPDATE.
    pub on_update: ForeignKeyAction,
}

/// Action of a foreign key on rows that refer to a changed row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKeyAction {
    /// RESTRICT, NO ACTION, SET DEFAULT, or no clause.
    Restrict,
    /// CASCADE
    Cascade,
    /// SET NULL
    SetNull,
}

/// Options of a table or database, as far as definitions depend on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableOptions {
    /// Storage engine, if given.
    pub engine: Option<String>,
    /// Default character set in lower case, if given directly or by the default collation.
    pub charset: Option<String>,
}

impl TableDefinition {
    /// Parses the parentheses of CREATE TABLE, and the options after them.
    pub fn parse(mut columns: SqlWords, options: &mut SqlWords) -> Self {
        const VERSIONING: [&str; 1] = ["WITH SYSTEM VERSIONING"];
        let is_versioned = columns.has_ahead(&VERSIONING) || options.has_ahead(&VERSIONING);
        let elements = columns.split_at_commas().iter_mut().map(TableElement::parse).collect();
        Self { elements, is_versioned, options: parse_options(options) }
    }

    /// Returns whether the table has two hidden columns, `row_start` and `row_end`, which MariaDB adds to a
    /// system-versioned table without such columns. In the log, they follow all other columns.
    pub fn has_hidden_period(&self) -> bool {
        self.is_versioned && self.declared_period().is_none()
    }

    /// Returns the columns of PERIOD FOR SYSTEM_TIME.
    pub fn declared_period(&self) -> Option<&[String; 2]> {
        self.elements.iter().find_map(|element| match element {
            TableElement::SystemPeriod(columns) => Some(columns),
            _ => None,
        })
    }
}

/// Keywords that start an element of CREATE TABLE that is no column. A word that is not reserved is listed with its
/// next word, because it may be a column name otherwise.
const NON_COLUMN_WORDS: [&str; 12] = [
    "CONSTRAINT",
    "PRIMARY",
    "UNIQUE",
    "INDEX",
    "KEY",
    "FULLTEXT",
    "SPATIAL",
    "VECTOR INDEX",
    "VECTOR KEY",
    "FOREIGN",
    "CHECK",
    "PERIOD FOR",
];

impl TableElement {
    /// Parses a column or a key. Leaves the position clause of a column.
    pub(super) fn parse(words: &mut SqlWords) -> Self {
        let start = words.keywords_ahead(3);
        let parsed = match words.is_any_next(&NON_COLUMN_WORDS) {
            true => parse_non_column(words),
            false => DdlColumn::parse(words).map(|column| Self::Column(column.into())),
        };
        parsed.unwrap_or(Self::Unknown(start))
    }
}

fn parse_non_column(words: &mut SqlWords) -> Option<TableElement> {
    if words.take("PERIOD FOR SYSTEM_TIME") {
        let columns = column_names(parse_key_parts(words.take_group()?))?;
        return columns.try_into().ok().map(TableElement::SystemPeriod);
    }
    if words.is_next("PERIOD FOR") {
        return Some(TableElement::Period);
    }
    let mut symbol = None;
    if words.take("CONSTRAINT") {
        words.take("IF NOT EXISTS");
        symbol = words.take_optional_name(&["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"]);
    }
    if words.take("CHECK") {
        return Some(TableElement::Check);
    }
    if words.take("PRIMARY KEY") {
        words.take("IF NOT EXISTS");
        // MySQL ignores a name.
        words.take_optional_name(&["USING"]);
        skip_index_type(words);
        return Some(TableElement::PrimaryKey(parse_key_parts(words.take_group()?)));
    }
    if words.take("FOREIGN KEY") {
        words.take("IF NOT EXISTS");
        let index = words.take_optional_name(&[]);
        let columns = column_names(parse_key_parts(words.take_group()?))?;
        let key = parse_references(words, columns)?;
        return Some(TableElement::ForeignKey(ForeignKeyDefinition { name: symbol.or(index), ..key }));
    }
    let kind = KeyKind::take(words);
    words.take_any(&["INDEX", "KEY"]);
    words.take("IF NOT EXISTS");
    let name = words.take_optional_name(&["USING"]);
    skip_index_type(words);
    let parts = parse_key_parts(words.take_group()?);
    Some(TableElement::Key(KeyDefinition { kind, name: name.or(symbol), parts }))
}

fn skip_index_type(words: &mut SqlWords) {
    if words.take("USING") {
        words.skip();
    }
}

/// Parses the parts of a key.
pub(super) fn parse_key_parts(mut group: SqlWords) -> Vec<KeyPartDefinition> {
    let part = |mut part: SqlWords| {
        let column = part.take_name();
        KeyPartDefinition { is_prefix: column.is_some() && part.is_sign("("), column }
    };
    group.split_at_commas().into_iter().map(part).collect()
}

fn column_names(parts: Vec<KeyPartDefinition>) -> Option<Vec<String>> {
    parts.into_iter().map(|part| part.column).collect()
}

/// Parses REFERENCES and what follows it.
pub(super) fn parse_references(words: &mut SqlWords, columns: Vec<String>) -> Option<ForeignKeyDefinition> {
    words.take("REFERENCES").then_some(())?;
    let parent = NamedTable::take(words)?;
    let parent_columns = match words.take_group() {
        Some(group) => column_names(parse_key_parts(group))?,
        None => Vec::new(),
    };
    let (mut on_delete, mut on_update) = (ForeignKeyAction::Restrict, ForeignKeyAction::Restrict);
    loop {
        if words.take("MATCH") {
            words.skip();
        } else if words.take("ON DELETE") {
            on_delete = parse_action(words)?;
        } else if words.take("ON UPDATE") {
            on_update = parse_action(words)?;
        } else {
            break;
        }
    }
    Some(ForeignKeyDefinition { name: None, columns, parent, parent_columns, on_delete, on_update })
}

fn parse_action(words: &mut SqlWords) -> Option<ForeignKeyAction> {
    if words.take("CASCADE") {
        return Some(ForeignKeyAction::Cascade);
    }
    if words.take("SET NULL") {
        return Some(ForeignKeyAction::SetNull);
    }
    words.take_any(&["RESTRICT", "NO ACTION", "SET DEFAULT"]).then_some(ForeignKeyAction::Restrict)
}

/// Keywords that precede the name of a character set.
const CHARSET_KEYWORDS: [&str; 3] = ["CHARACTER SET", "CHAR SET", "CHARSET"];

/// Parses the options of a table or database.
pub(super) fn parse_options(words: &mut SqlWords) -> TableOptions {
    let mut options = TableOptions::default();
    while !words.is_at_end() {
        if words.take("ENGINE") {
            words.take_sign("=");
            options.engine = take_name_or_text(words);
        } else if let Some(charset) = take_charset(words) {
            options.charset = Some(charset);
        } else if let Some(charset) = take_collation(words) {
            options.charset = options.charset.or(Some(charset));
        } else {
            words.skip();
        }
    }
    options
}

/// Takes `CHARACTER SET name`; returns the name in lower case.
pub(super) fn take_charset(words: &mut SqlWords) -> Option<String> {
    words.take_any(&CHARSET_KEYWORDS).then_some(())?;
    words.take_sign("=");
    take_name_or_text(words).map(|name| name.to_ascii_lowercase())
}

/// Takes `COLLATE name`; returns the character set of the collation.
pub(super) fn take_collation(words: &mut SqlWords) -> Option<String> {
    words.take("COLLATE").then_some(())?;
    words.take_sign("=");
    take_name_or_text(words).map(|name| collation_charset(&name))
}

/// Returns the character set of a collation in lower case: the first part of the collation's name.
pub(super) fn collation_charset(collation: &str) -> String {
    collation.split('_').next().unwrap_or_default().to_ascii_lowercase()
}

fn take_name_or_text(words: &mut SqlWords) -> Option<String> {
    match words.peek() {
        Some(SqlWord::Text(text)) => {
            let text = text.clone();
            words.skip();
            Some(text)
        }
        _ => words.take_name(),
    }
}
