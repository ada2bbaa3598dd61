//! Who knows tables whose columns the log does not name: a server's catalogue, or the definitions in the log.

use std::collections::HashMap;
use std::fmt;

use binlog::events::Rows;
use binlog::{Column, ColumnType, GeometryType, KeyPart, Table};

use crate::defined::Definitions;
use crate::error::Error;

/// Who knows tables whose columns the log does not name.
///
/// A server's catalogue has tables as they are now, which need not be as they were when the log was written.
pub struct Catalogue {
    source: Source,
    /// When it was asked about each table, on its clock: in seconds since 1970.
    asked: HashMap<String, u64>,
    changed: Vec<Changed>,
}

enum Source {
    Server(Box<Ask>),
    Log(Definitions),
}

/// Gives a table, by its database and name; `None` if there is no such table.
type Ask = dyn FnMut(&str, &str) -> Result<Option<TableFacts>, String>;

/// A table whose definition stands in the log behind rows that were told by what the catalogue said later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// `database.table`
    pub table: String,
    /// The log.
    pub log: String,
    /// Where the definition stands.
    pub offset: u64,
}

/// A table as the catalogue has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableFacts {
    /// When that was asked, on the server's clock: in seconds since 1970.
    pub asked_s: u64,
    /// Its columns, in order.
    pub columns: Vec<ColumnFacts>,
    /// The names of the columns of its primary key.
    pub primary_key: Vec<String>,
    /// The character set of columns that name none, if a definition in the log says it.
    pub charset: Option<String>,
    /// The number of expressions in its indexes, as a server has it: each of them has a hidden column.
    pub index_expressions: usize,
}

/// A column as the catalogue has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnFacts {
    /// What it is called.
    pub name: String,
    /// As `information_schema` has it: `varchar`.
    pub data_type: String,
    /// As `information_schema` has it: `enum('a','b')`, `int unsigned`.
    pub column_type: String,
    /// The number of its collation, if it has one.
    pub collation: Option<u16>,
    /// Can it be NULL?
    pub nullable: bool,
    /// As a definition in the log has it; a server is not asked for that.
    pub written: Written,
}

/// What a column's definition says that rows are not read by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// Its type as it was called, in capitals: `BOOL`, `INT UNSIGNED`. Empty if that is not known.
    pub type_name: String,
    /// What stands in parentheses behind that: numbers, and texts as SQL has them.
    pub arguments: Vec<String>,
    /// What it is where nothing is said; of the time at hand, the first of all times.
    pub default: Option<String>,
    /// Is it counted up?
    pub is_auto_increment: bool,
}

impl Catalogue {
    /// The definitions in the log; these come before it.
    pub fn of_log(definitions: Definitions) -> Self {
        Self { source: Source::Log(definitions), asked: HashMap::new(), changed: Vec::new() }
    }

    /// A server's, which is asked by this.
    pub fn new(ask: impl FnMut(&str, &str) -> Result<Option<TableFacts>, String> + 'static) -> Self {
        Self { source: Source::Server(Box::new(ask)), asked: HashMap::new(), changed: Vec::new() }
    }

    /// The table with what the catalogue says of its columns; `None` if it has no such table, or another of that name.
    pub(crate) fn named(&mut self, logged: &Table) -> Result<Option<Table>, Error> {
        let places: Vec<usize> = (0..logged.columns.len()).collect();
        self.named_at(logged, &places)
    }

    /// The same for a table whose map lists columns that no row has: MySQL 8.0.13 and some versions behind it log the
    /// hidden columns of functional indexes there. The rows' own columns then are those that the catalogue knows.
    pub(crate) fn named_by_rows(&mut self, logged: &Table, rows: &Rows<'_>) -> Result<Option<Table>, Error> {
        let is_shown =
            |index| rows.columns.contains(index) || rows.columns_after.is_some_and(|set| set.contains(index));
        let places: Vec<usize> = (0..logged.columns.len()).filter(|index| is_shown(*index)).collect();
        self.named_at(logged, &places)
    }

    /// The table, whose columns at these places are those that the catalogue knows.
    fn named_at(&mut self, logged: &Table, places: &[usize]) -> Result<Option<Table>, Error> {
        let [database, table] =
            [&logged.database, &logged.name].map(|name| String::from_utf8_lossy(name).into_owned());
        let name = format!("{database}.{table}");
        let ask = match &mut self.source {
            Source::Server(ask) => ask,
            Source::Log(definitions) => {
                let facts = definitions.table(&database, &table);
                return Ok(facts.and_then(|facts| with_facts(logged, facts, places)));
            }
        };
        let facts =
            ask(&database, &table).map_err(|reason| Error::Catalogue { table: name.clone(), reason })?;
        let Some(facts) = facts else { return Ok(None) };
        self.asked.insert(name, facts.asked_s);
        let hidden = logged.columns.len() - places.len();
        let is_explained = hidden == 0 || hidden == facts.index_expressions;
        Ok(with_facts(logged, &facts, places).filter(|_| is_explained))
    }

    /// The definitions in the log, if they are what is known.
    pub(crate) const fn definitions(&self) -> Option<&Definitions> {
        match &self.source {
            Source::Server(_) => None,
            Source::Log(definitions) => Some(definitions),
        }
    }

    /// The same, to take more of them.
    pub(crate) const fn definitions_mut(&mut self) -> Option<&mut Definitions> {
        match &mut self.source {
            Source::Server(_) => None,
            Source::Log(definitions) => Some(definitions),
        }
    }

    /// A table is defined: rows in front of that were told by a later answer?
    pub(crate) fn defined(&mut self, changed: Changed, timestamp: u32) {
        let asked = self.asked.remove(&changed.table);
        if asked.is_some_and(|asked_s| u64::from(timestamp) <= asked_s) {
            self.changed.push(changed);
        }
    }

    pub(crate) fn take_changed(&mut self) -> Vec<Changed> {
        std::mem::take(&mut self.changed)
    }
}

impl fmt::Debug for Catalogue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Catalogue").field("asked", &self.asked).finish_non_exhaustive()
    }
}

/// The table with the facts on its columns at these places; the other columns are hidden, and no row has them.
fn with_facts(logged: &Table, facts: &TableFacts, places: &[usize]) -> Option<Table> {
    if places.len() != facts.columns.len() {
        return None;
    }
    let mut table = logged.clone();
    for column in &mut table.columns {
        column.name = Some(HIDDEN.into());
    }
    for (place, facts) in places.iter().zip(&facts.columns) {
        let column = logged.columns.get(*place).filter(|column| fits(column.column_type, facts))?;
        table.columns[*place] = with_name(column, facts);
    }
    let place = |name: &String| {
        let index = facts.columns.iter().position(|column| column.name == *name)?;
        places.get(index).copied()
    };
    let key = facts.primary_key.iter().filter_map(place).map(|column| KeyPart { column, prefix: 0 });
    table.primary_key = Some(key.collect());
    Some(table)
}

/// The name of columns that are in no row.
const HIDDEN: &[u8] = b"";

fn with_name(column: &Column, facts: &ColumnFacts) -> Column {
    /// The collation of what is no text.
    const BINARY: u16 = 63;
    // ENUMs and SETs are told in UTF-8, whatever the column's own character set is.
    let texts = texts(&facts.column_type).into_iter().map(|text| text.into_bytes().into());
    let is_bytes = ["binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"];
    let told = match &*facts.data_type {
        "enum" | "set" => None,
        data_type if is_bytes.contains(&data_type) => Some(BINARY),
        _ => facts.collation,
    };
    let mut named = column.clone();
    named.name = Some(facts.name.clone().into_bytes().into());
    named.unsigned = column.unsigned.or_else(|| Some(facts.column_type.contains("unsigned")));
    named.collation = column.collation.or(told);
    named.texts = texts.collect();
    named.geometry_type = (facts.data_type == "point").then_some(GeometryType::Point);
    named
}

/// Any of them: what a BLOB is called depends on how long it may be.
const BLOBS: [&str; 9] =
    ["tinyblob", "blob", "mediumblob", "longblob", "tinytext", "text", "mediumtext", "longtext", "json"];

/// Can the log's column be that of the catalogue?
fn fits(column_type: ColumnType, facts: &ColumnFacts) -> bool {
    let wanted: &[&str] = match column_type {
        // MariaDB logs its addresses and UUIDs as such.
        ColumnType::Char { .. } => &["char", "binary", "uuid", "inet6", "inet4"],
        ColumnType::Blob { .. } => &BLOBS,
        ColumnType::Vector { .. } => &[],
        same => same.data_types(),
    };
    wanted.is_empty() || wanted.contains(&&*facts.data_type)
}

/// The texts of `enum('a','it''s')` and `set(…)`; of other types none.
fn texts(column_type: &str) -> Vec<String> {
    let is_list = ["enum(", "set("].iter().any(|start| column_type.starts_with(start));
    let Some((_, list)) = column_type.split_once('(').filter(|_| is_list) else { return Vec::new() };
    let (mut texts, mut open) = (Vec::new(), None::<String>);
    let mut chars = list.chars().peekable();
    while let Some(sign) = chars.next() {
        match (&mut open, sign) {
            (Some(text), '\'') if chars.peek() == Some(&'\'') => {
                chars.next();
                text.push('\'');
            }
            (Some(_), '\'') => texts.extend(open.take()),
            (Some(text), '\\') => match chars.next() {
                Some('0') => text.push('\0'),
                Some('n') => text.push('\n'),
                Some('r') => text.push('\r'),
                Some('Z') => text.push('\x1a'),
                escaped => text.extend(escaped),
            },
            (Some(text), sign) => text.push(sign),
            (None, '\'') => open = Some(String::new()),
            (None, _) => {}
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::texts;

    #[test]
    fn texts_of_enums() {
        assert_eq!(texts("enum('a','it''s','','x,(\\\\y')"), ["a", "it's", "", "x,(\\y"]);
        assert_eq!(texts("set('a','b')"), ["a", "b"]);
        assert!(texts("varchar(7)").is_empty());
    }
}
