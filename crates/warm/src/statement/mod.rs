//! Searches for statements in the log: an UPDATE or a DELETE reads the rows that its WHERE selects, an INSERT … SELECT
//! the rows of its SELECT.
//!
//! [`read_clauses`] extracts the clauses that determine which rows the statement reads, byte for byte. [`read_check`]
//! then checks the extracted text separately: the text becomes a SELECT only if every part only reads. An error in the
//! extraction therefore affects only the benefit, not the safety.

mod function_set;
mod read_check;
mod read_clauses;
mod statement_text;
mod table_finder;

use binlog::Charset;
use sql::data_type::{BLOB_TYPES, GEOMETRY_TYPES};
use sql::ddl::NamedTable;
use sql::quote::quote_name;

use crate::replica_table::{IndexKind, ReplicaTable};
pub use crate::statement::function_set::FunctionSet;
use crate::statement::statement_text::StatementText;
use crate::statement::table_finder::ReadTables;

/// A statement in the log.
#[derive(Clone, Copy, Debug)]
pub struct LoggedStatement<'a> {
    /// SQL text.
    pub sql: &'a [u8],
    /// Bits of the statement's `sql_mode`.
    pub sql_mode: u64,
    /// Character set of the text, `character_set_client`; `None` if unknown.
    pub charset: Option<Charset>,
    /// Built-in functions of the server that runs the searches.
    pub functions: FunctionSet,
}

/// Reason why a statement has no search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkipReason {
    /// A statement that reads no rows, such as INSERT … VALUES or DDL.
    Kind,
    /// Too large to parse.
    Size,
    /// Text whose character boundaries cannot be determined by its bytes.
    Charset,
    /// Text that cannot be parsed, or is not known to be harmless.
    Unknown,
    /// A comment within the text, which may be executable.
    Comment,
    /// A function that is not known to be free of side effects.
    Function,
    /// A variable, whose value belongs to the original session.
    Variable,
    /// A clause that locks, writes, or combines queries: FOR UPDATE, INTO, UNION.
    Clause,
    /// A table that is not in InnoDB, or does not exist: a view, a dropped table.
    Table,
    /// A session setting that cannot be reproduced, such as the time zone.
    Session,
    /// Tables whose searches took too long recently, because no index fits.
    Slow,
}

impl SkipReason {
    /// Returns a short name for reports.
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

/// The tables and rows that a statement reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadExtent {
    /// Tables whose rows are read.
    pub tables: Vec<FromTable>,
    /// All tables that occur, including those in subqueries.
    pub all: Vec<NamedTable>,
    /// Text to put after `SELECT … FROM`, byte for byte.
    rows: Vec<u8>,
    /// Presence of a LIMIT clause.
    limit: RowLimit,
    /// True if the text is UTF-8. Otherwise the server would misread names that are not ASCII, or even the text after
    /// such a name.
    is_utf8: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RowLimit {
    Own,
    None,
}

/// A table in a statement, and its alias.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FromTable {
    /// Name of the table.
    pub name: NamedTable,
    /// Alias, if it has one.
    alias: Option<String>,
}

/// Size in bytes of a statement that is parsed. Bounds time.
const SIZE_MAX: usize = 64 << 10;
/// Maximum number of rows that a search returns if the statement has no LIMIT. Only the time limit bounds the number of
/// scanned rows.
const ROWS_MAX: u64 = 4096;

/// Returns the tables and rows that a statement reads.
///
/// # Errors
///
/// Fails if the statement has no search, with the reason.
pub fn read_extent(statement: &LoggedStatement<'_>) -> Result<ReadExtent, SkipReason> {
    if statement.sql.len() > SIZE_MAX {
        return Err(SkipReason::Size);
    }
    let clauses = read_clauses::split_clauses(&StatementText::from_statement(statement)?)?;
    let rows = clauses.to_sql(statement.sql);
    let alone = LoggedStatement { sql: &rows, ..*statement };
    let ReadTables { tables, all } =
        read_check::check_tables(&StatementText::from_statement(&alone)?, statement.functions)?;
    let limit = if clauses.has_limit() { RowLimit::Own } else { RowLimit::None };
    let is_utf8 = matches!(statement.charset, Some(Charset::Utf8mb3 | Charset::Utf8mb4));
    Ok(ReadExtent { tables, all, rows, limit, is_utf8 })
}

impl ReadExtent {
    /// Returns a statement that reads the same rows, and returns only counts. `columns` has, for each table, columns
    /// that no single secondary index covers.
    ///
    /// # Errors
    ///
    /// Fails if a name cannot be written in the statement's character set.
    pub fn sql(&self, columns: &[Vec<String>]) -> Result<Vec<u8>, SkipReason> {
        let (mut counts, mut values) = (Vec::new(), Vec::new());
        for (table, columns) in self.tables.iter().zip(columns) {
            for column in columns {
                let number = counts.len();
                counts.push(format!("COUNT(warm.c{number})"));
                values.push(format!("{}.{} AS c{number}", table.reference(), quote_name(column)));
            }
        }
        let head =
            format!("SELECT /* bintide warm */ {} FROM (SELECT {} FROM ", counts.join(","), values.join(","));
        if !self.is_utf8 && !head.is_ascii() {
            return Err(SkipReason::Charset);
        }
        let mut sql = head.into_bytes();
        sql.extend_from_slice(&self.rows);
        if self.limit == RowLimit::None {
            sql.extend_from_slice(format!(" LIMIT {ROWS_MAX}").as_bytes());
        }
        sql.extend_from_slice(b") AS warm");
        Ok(sql)
    }
}

impl FromTable {
    fn reference(&self) -> String {
        match &self.alias {
            Some(alias) => quote_name(alias),
            None => self.name.quoted(),
        }
    }
}

/// Returns columns that no single secondary index covers: a search that selects them must read the rows. `None` if
/// there is no short column.
pub fn row_only_columns(definition: &ReplicaTable) -> Option<Vec<String>> {
    let clustered = definition.clustered()?;
    let is_short = |column: usize| {
        let column = &definition.columns[column];
        !column.is_virtual && !is_long(&column.data_type)
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

/// Returns whether values of the type may be stored outside of the row.
fn is_long(data_type: &str) -> bool {
    ["json", "vector"].contains(&data_type)
        || BLOB_TYPES.contains(&data_type)
        || GEOMETRY_TYPES.contains(&data_type)
}

/// Columns to select: hardly any index has more.
const COLUMNS_MAX: usize = 16;

#[cfg(test)]
mod tests;
