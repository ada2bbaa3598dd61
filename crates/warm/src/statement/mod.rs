//! Statements of the log as searches: an UPDATE or a DELETE reads the rows of its WHERE, an INSERT … SELECT those of its
//! SELECT.
//!
//! The part of a statement that says which rows it reads is cut out, byte for byte ([`cut`]), and looked at by itself
//! ([`safe`]): only if all of it is known to do nothing but read is it made a SELECT. What the cut is taken for does not
//! matter for that, but only for what is gained.

mod comment;
mod cut;
mod functions;
mod safe;
mod text;

use binlog::Charset;
use servers::quote::put_name;

use crate::definition::{Definition, IndexKind, quoted};
pub(crate) use crate::statement::comment::without_comments;
pub use crate::statement::functions::Functions;
use crate::statement::text::Text;

/// A statement, as the log has it.
#[derive(Clone, Copy, Debug)]
pub struct Statement<'a> {
    /// Its text.
    pub sql: &'a [u8],
    /// The bits of `sql_mode` that it was run with.
    pub sql_mode: u64,
    /// `character_set_client`, which is what the text is in; `None` if nobody knows.
    pub charset: Option<Charset>,
    /// What the server that is to search has.
    pub functions: Functions,
}

/// Why no search is made of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Left {
    /// It is of another kind, as INSERT … VALUES or DDL: it says of no rows that it reads them.
    Kind,
    /// It is larger than is looked into.
    Size,
    /// Its characters cannot be told from each other by their bytes.
    Charset,
    /// It is not understood, or has what is not known to be harmless.
    Unknown,
    /// A comment is in the midst of it, which may be more than that.
    Comment,
    /// A function that is not known to do nothing but compute.
    Function,
    /// A variable: of the session that ran it.
    Variable,
    /// A clause that locks, writes or goes on elsewhere: FOR UPDATE, INTO, UNION.
    Clause,
    /// A table that is none of InnoDB's, or of which nobody knows the definition: a view, one that was dropped.
    Table,
    /// A setting of its session cannot be had, as its time zone.
    Session,
    /// Searches of its tables took too long a little while ago: no index helps them.
    Slow,
}

impl Left {
    /// In a word.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Kind => "kind",
            Self::Size => "size",
            Self::Charset => "character set",
            Self::Unknown => "unknown",
            Self::Comment => "comment",
            Self::Function => "function",
            Self::Variable => "variable",
            Self::Clause => "clause",
            Self::Table => "table",
            Self::Session => "session",
            Self::Slow => "slow",
        }
    }
}

/// What a statement reads: tables, and which of their rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Tables whose rows are read.
    pub tables: Vec<Named>,
    /// All that are named, those in subqueries among them.
    pub all: Vec<TableName>,
    /// The tables and the condition, byte for byte: what is behind `SELECT … FROM`.
    rows: Vec<u8>,
    /// Does it say itself how many rows it reads?
    limit: Limit,
    /// Is it read as UTF-8? Otherwise a name that is not all ASCII would be read as another, or as part of what follows.
    is_utf8: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    Own,
    None,
}

/// A table, as a statement names it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Which one.
    pub name: TableName,
    /// By which its columns are called: an alias, or the table's name.
    alias: Option<String>,
}

/// A table's name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TableName {
    /// The default database, if there is none.
    pub database: Option<String>,
    /// As it is.
    pub table: String,
}

/// Statements of more bytes are not looked into. Bounds time.
const SIZE_MAX: usize = 64 << 10;
/// Rows that one search finds, at most, where the statement says no number itself. How many it goes over to find them,
/// only the time bounds that it may take.
const ROWS_MAX: u64 = 4096;

/// What a statement reads.
///
/// # Errors
///
/// With why it is left alone.
pub fn extent(statement: &Statement<'_>) -> Result<Extent, Left> {
    if statement.sql.len() > SIZE_MAX {
        return Err(Left::Size);
    }
    let cut = cut::cut(&Text::of(statement)?)?;
    let rows = cut.rows(statement.sql);
    let alone = Statement { sql: &rows, ..*statement };
    let safe::Tables { tables, all } = safe::tables(&Text::of(&alone)?, statement.functions)?;
    let limit = if cut.has_limit() { Limit::Own } else { Limit::None };
    let is_utf8 = matches!(statement.charset, Some(Charset::Utf8mb3 | Charset::Utf8mb4));
    Ok(Extent { tables, all, rows, limit, is_utf8 })
}

impl Extent {
    /// The statement that reads the same rows, and answers with numbers alone. For each table by name, there are some
    /// columns of which an index, other than the one that holds the rows, does not have all.
    ///
    /// # Errors
    ///
    /// When a name cannot be written in the statement's character set.
    pub fn sql(&self, columns: &[Vec<String>]) -> Result<Vec<u8>, Left> {
        let (mut counts, mut values) = (Vec::new(), Vec::new());
        for (table, columns) in self.tables.iter().zip(columns) {
            for column in columns {
                let number = counts.len();
                counts.push(format!("COUNT(warm.c{number})"));
                values.push(format!("{}.{} AS c{number}", table.reference(), quoted(column)));
            }
        }
        let head =
            format!("SELECT /* bintide warm */ {} FROM (SELECT {} FROM ", counts.join(","), values.join(","));
        if !self.is_utf8 && !head.is_ascii() {
            return Err(Left::Charset);
        }
        let mut sql = head.into_bytes();
        sql.extend_from_slice(&self.rows);
        if self.limit == Limit::None {
            sql.extend_from_slice(format!(" LIMIT {ROWS_MAX}").as_bytes());
        }
        sql.extend_from_slice(b") AS warm");
        Ok(sql)
    }
}

impl Named {
    fn reference(&self) -> String {
        match &self.alias {
            Some(alias) => quoted(alias),
            None => self.name.reference(),
        }
    }
}

impl TableName {
    fn reference(&self) -> String {
        let mut out = Vec::new();
        for name in self.database.iter().chain([&self.table]) {
            if !out.is_empty() {
                out.push(b'.');
            }
            put_name(&mut out, name.as_bytes());
        }
        String::from_utf8(out).expect("ours: names with quotes around them are as good UTF-8 as the names")
    }
}

/// Columns of a table that no index but the one that holds the rows has all of, so that a search that asks for them
/// reads the rows; `None` if there is none that is short.
pub fn columns_of_rows(definition: &Definition) -> Option<Vec<String>> {
    let clustered = definition.clustered()?;
    let is_short = |column: usize| {
        let column = &definition.columns[column];
        !column.is_virtual && !LONG_TYPES.contains(&column.data_type.as_str())
    };
    let is_in_another = |column: usize| {
        let mut others = definition.indexes.iter().filter(|index| index.kind != IndexKind::Clustered);
        clustered.columns.contains(&column) || others.any(|index| index.columns.contains(&column))
    };
    let all: Vec<usize> = (0..definition.columns.len()).filter(|column| is_short(*column)).collect();
    let found = match all.iter().find(|column| !is_in_another(**column)) {
        Some(one) => vec![*one],
        None => all.into_iter().take(COLUMNS_MAX).collect(),
    };
    let name = |column: usize| definition.columns[column].name.clone();
    Some(found.into_iter().map(name).collect::<Vec<_>>()).filter(|names| !names.is_empty())
}

/// Types whose values may lie outside of the row.
const LONG_TYPES: [&str; 18] = [
    "tinyblob",
    "blob",
    "mediumblob",
    "longblob",
    "tinytext",
    "text",
    "mediumtext",
    "longtext",
    "json",
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
    "vector",
];

/// Columns to ask for, at most: hardly an index has more.
const COLUMNS_MAX: usize = 16;

#[cfg(test)]
mod tests;
