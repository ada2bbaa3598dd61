//! Source of column names that the log lacks: a server's catalogue, or the DDL statements in the log.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use binlog::events::{Query, Rows};
use binlog::{Column, ColumnType, EventFormat, GeometryType, KeyPart, Table};
use sql::data_type::{BINARY_TYPES, BLOB_TYPES, fixed_byte_size};

use crate::ddl_schema::{DdlSchema, has_charset, parse_column_ddl};
use crate::error::StreamError;
use crate::snapshot_column::parse_length;
use crate::statement_effect::apply_ddl;

/// Source of column names that the log lacks.
///
/// A server's catalogue describes tables as they are now. They may have been different when the log was written.
pub struct ColumnCatalogue {
    source: CatalogueSource,
    /// Time of the last query for each table, by the server's clock, in seconds since 1970.
    asked: HashMap<String, u64>,
    /// Last definition of each table that the server had, for rows before a DROP TABLE.
    last_known: HashMap<String, TableSchema>,
    mismatches: Vec<SchemaMismatch>,
    /// Tables with texts of an unknown character set, and those of them that are to be reported.
    unknown_charsets: BTreeSet<String>,
    new_unknown_charsets: Vec<String>,
}

/// Definitions that are kept. Bounds memory.
const LAST_KNOWN_MAX: usize = 8192;

enum CatalogueSource {
    Server(Box<TableLookup>),
    Log(DdlSchema),
}

/// Returns a table by its database and name; `None` if there is no table of that name.
type TableLookup = dyn FnMut(&str, &str) -> Result<Option<TableSchema>, CatalogueError>;

/// Error of a query of a server's catalogue. Its type is the caller's.
pub type CatalogueError = Box<dyn std::error::Error + Send + Sync>;

/// A table that the log redefines after rows for which a newer definition from the catalogue was used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SchemaMismatch {
    /// `database.table`
    pub table: String,
    /// Name of the log.
    pub log: String,
    /// Offset of the DDL statement in the log.
    pub offset: u64,
}

/// Definition of a table in the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSchema {
    /// Time of the query, by the server's clock, in seconds since 1970.
    pub asked_s: u64,
    /// Columns, in order.
    pub columns: Vec<ColumnSchema>,
    /// Names of the columns of the primary key.
    pub primary_key: Vec<String>,
    /// Default character set of the table, if a DDL statement in the log states it.
    pub charset: Option<String>,
    /// Number of expressions in its indexes, as the server reports it. Each has a hidden column.
    pub index_expressions: usize,
    /// Period of a system-versioned table of MariaDB.
    pub period: Option<SystemPeriod>,
}

/// Columns with the period in which a row of a system-versioned table of MariaDB is valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SystemPeriod {
    /// Columns that MariaDB adds and hides. They are the last ones.
    Hidden,
    /// Columns of the definition, with the start and the end of the period.
    Declared([String; 2]),
}

/// Columns that MariaDB adds to a system-versioned table that declares no period.
const HIDDEN_PERIOD: [&str; 2] = ["row_start", "row_end"];

impl SystemPeriod {
    /// Returns the column with the end of the period.
    fn end(&self) -> &str {
        match self {
            Self::Hidden => HIDDEN_PERIOD[1],
            Self::Declared([_, end]) => end,
        }
    }
}

impl TableSchema {
    /// Makes the table system-versioned: adds the columns of a hidden period, and the period's end to the primary key, as
    /// in MariaDB's logs.
    #[must_use]
    pub fn with_period(mut self, period: Option<SystemPeriod>) -> Self {
        if period == Some(SystemPeriod::Hidden) {
            self.columns.extend(HIDDEN_PERIOD.map(ColumnSchema::hidden_period));
        }
        let is_in = |names: &[String], end: &str| names.iter().any(|name| name.eq_ignore_ascii_case(end));
        if let Some(end) = period.as_ref().map(SystemPeriod::end)
            && !self.primary_key.is_empty()
            && !is_in(&self.primary_key, end)
        {
            self.primary_key.push(end.to_owned());
        }
        Self { period, ..self }
    }

    /// Returns the table without what [`TableSchema::with_period`] has added.
    pub(crate) fn without_period(&self) -> Self {
        let mut table = self.clone();
        let Some(period) = table.period.take() else { return table };
        if period == SystemPeriod::Hidden {
            table.columns.truncate(table.columns.len().saturating_sub(HIDDEN_PERIOD.len()));
        }
        table.primary_key.retain(|name| !name.eq_ignore_ascii_case(period.end()));
        table
    }

    /// Returns the table of a log with this definition's column names, key and texts; `None` if its columns differ.
    pub fn complete(&self, logged: &Table) -> Option<Table> {
        let places: Vec<usize> = (0..logged.columns.len()).collect();
        with_schema(logged, self, &places)
    }
}

/// Definition of a column in the catalogue.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnSchema {
    /// Column name.
    pub name: String,
    /// `information_schema.columns.data_type`: `varchar`.
    pub data_type: String,
    /// `information_schema.columns.column_type`: `enum('a','b')`, `int unsigned`.
    pub column_type: String,
    /// ID of its collation, if it has one.
    pub collation: Option<u16>,
    /// True if the column is nullable.
    pub nullable: bool,
    /// Further properties from a DDL statement. Not queried from a server.
    pub ddl: ColumnDdl,
}

impl ColumnSchema {
    fn hidden_period(name: &str) -> Self {
        let [data_type, column_type] = ["timestamp", "timestamp(6)"].map(str::to_owned);
        let ddl = parse_column_ddl(&column_type).unwrap_or_default();
        Self { name: name.to_owned(), data_type, column_type, ddl, ..Self::default() }
    }
}

/// Properties of a column's definition that decoding rows does not need.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ColumnDdl {
    /// Type as the statement spells it, in upper case: `BOOL`, `INT UNSIGNED`. Empty if unknown.
    pub type_name: String,
    /// Arguments in parentheses after the type: numbers, and strings as SQL literals.
    pub arguments: Vec<String>,
    /// Default value. For `CURRENT_TIMESTAMP`, it is 1970-01-01 00:00:00.
    pub default: Option<String>,
    /// True if the column is AUTO_INCREMENT.
    pub is_auto_increment: bool,
}

impl ColumnCatalogue {
    /// Uses the DDL statements in the log; `definitions` holds the tables defined before it.
    pub fn from_definitions(definitions: DdlSchema) -> Self {
        Self::new(CatalogueSource::Log(definitions))
    }

    /// Uses a server's catalogue; `ask` queries it.
    pub fn from_server(
        ask: impl FnMut(&str, &str) -> Result<Option<TableSchema>, CatalogueError> + 'static,
    ) -> Self {
        Self::new(CatalogueSource::Server(Box::new(ask)))
    }

    fn new(source: CatalogueSource) -> Self {
        Self {
            source,
            asked: HashMap::new(),
            last_known: HashMap::new(),
            mismatches: Vec::new(),
            unknown_charsets: BTreeSet::new(),
            new_unknown_charsets: Vec::new(),
        }
    }

    /// Returns the table with the catalogue's column names. `None` if the catalogue lacks the table, or its columns
    /// differ.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be queried.
    pub fn with_names(&mut self, logged: &Table) -> Result<Option<Table>, StreamError> {
        let indexes: Vec<usize> = (0..logged.columns.len()).collect();
        self.with_names_at(logged, &indexes)
    }

    /// Like [`ColumnCatalogue::with_names`], for a table map that lists columns that no row has. MySQL 8.0.13 and some
    /// later versions log the hidden columns of functional indexes there. The catalogue's columns are the ones in the
    /// rows; the others get an empty name.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be queried.
    pub fn with_names_by_rows(
        &mut self,
        logged: &Table,
        rows: &Rows<'_>,
    ) -> Result<Option<Table>, StreamError> {
        let is_shown =
            |index| rows.columns.contains(index) || rows.columns_after.is_some_and(|set| set.contains(index));
        let indexes: Vec<usize> = (0..logged.columns.len()).filter(|index| is_shown(*index)).collect();
        self.with_names_at(logged, &indexes)
    }

    /// Returns the table with names for the columns at `indexes`, which correspond to the catalogue's columns in order.
    fn with_names_at(&mut self, logged: &Table, indexes: &[usize]) -> Result<Option<Table>, StreamError> {
        let [database, table] =
            [&logged.database, &logged.name].map(|name| String::from_utf8_lossy(name).into_owned());
        let name = format!("{database}.{table}");
        let ask = match &mut self.source {
            CatalogueSource::Server(ask) => ask,
            CatalogueSource::Log(definitions) => {
                let Some(facts) = definitions.table(&database, &table) else { return Ok(None) };
                let named = with_schema(logged, facts, indexes);
                if named.as_ref().is_some_and(|named| has_unknown_charset(named, facts, indexes))
                    && self.unknown_charsets.insert(name.clone())
                {
                    self.new_unknown_charsets.push(name);
                }
                return Ok(named);
            }
        };
        let facts =
            ask(&database, &table).map_err(|cause| StreamError::Catalogue { table: name.clone(), cause })?;
        let Some(facts) = facts else { return Ok(None) };
        self.asked.insert(name, facts.asked_s);
        let hidden = logged.columns.len() - indexes.len();
        let is_explained = hidden == 0 || hidden == facts.index_expressions;
        Ok(with_schema(logged, &facts, indexes).filter(|_| is_explained))
    }

    /// Returns the catalogue's definition of a table; `None` if the catalogue lacks it. After a DROP TABLE on the server,
    /// the rows before it have the last known definition: without its default values, their schema would be another one.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be queried.
    pub(crate) fn table_schema(&mut self, logged: &Table) -> Result<Option<TableSchema>, StreamError> {
        let [database, table] = [&logged.database, &logged.name].map(|name| String::from_utf8_lossy(name));
        self.definition_of(&database, &table)
    }

    fn definition_of(&mut self, database: &str, table: &str) -> Result<Option<TableSchema>, StreamError> {
        let ask = match &mut self.source {
            CatalogueSource::Log(definitions) => return Ok(definitions.table(database, table).cloned()),
            CatalogueSource::Server(ask) => ask,
        };
        let name = format!("{database}.{table}");
        let found =
            ask(database, table).map_err(|cause| StreamError::Catalogue { table: name.clone(), cause })?;
        let Some(found) = found else { return Ok(self.last_known.get(&name).cloned()) };
        if self.last_known.len() >= LAST_KNOWN_MAX {
            self.last_known.clear();
        }
        self.last_known.insert(name, found.clone());
        Ok(Some(found))
    }

    /// Returns the definitions from the log, if these are the source.
    pub const fn definitions(&self) -> Option<&DdlSchema> {
        match &self.source {
            CatalogueSource::Server(_) => None,
            CatalogueSource::Log(definitions) => Some(definitions),
        }
    }

    /// Returns the definitions from the log for update, if these are the source.
    pub const fn definitions_mut(&mut self) -> Option<&mut DdlSchema> {
        match &mut self.source {
            CatalogueSource::Server(_) => None,
            CatalogueSource::Log(definitions) => Some(definitions),
        }
    }

    /// Applies a statement of the log to the definitions, if these are the source.
    pub fn apply_statement(&mut self, query: &Query<'_>, format: &EventFormat) {
        if let Some(definitions) = self.definitions_mut() {
            apply_ddl(definitions, query, format);
        }
    }

    /// Handles a DDL statement on a table: reports the table if its earlier rows used a newer definition.
    pub fn record_definition(&mut self, changed: SchemaMismatch, timestamp: u32) {
        let asked = self.asked.remove(&changed.table);
        if asked.is_some_and(|asked_s| u64::from(timestamp) <= asked_s) {
            self.mismatches.push(changed);
        }
    }

    /// Takes the tables that were reported since the last call.
    pub fn take_mismatches(&mut self) -> Vec<SchemaMismatch> {
        std::mem::take(&mut self.mismatches)
    }

    /// Takes the tables with texts whose character set neither the log nor its DDL statements state. Each one is returned
    /// once.
    pub fn take_unknown_charsets(&mut self) -> Vec<String> {
        std::mem::take(&mut self.new_unknown_charsets)
    }
}

impl fmt::Debug for ColumnCatalogue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ColumnCatalogue").field("asked", &self.asked).finish_non_exhaustive()
    }
}

/// Returns the table with the facts applied to its columns at `indexes`. The other columns are hidden, and no row has
/// them.
fn with_schema(logged: &Table, facts: &TableSchema, indexes: &[usize]) -> Option<Table> {
    if indexes.len() != facts.columns.len() {
        return None;
    }
    let mut table = logged.clone();
    for column in &mut table.columns {
        column.name = Some(HIDDEN_NAME.into());
    }
    for (index, facts) in indexes.iter().zip(&facts.columns) {
        let column = logged.columns.get(*index).filter(|column| is_compatible(column.column_type, facts))?;
        table.columns[*index] = with_column_schema(column, facts);
    }
    let logged_index = |name: &String| {
        let index = facts.columns.iter().position(|column| column.name == *name)?;
        indexes.get(index).copied()
    };
    let key = facts.primary_key.iter().filter_map(logged_index).map(|column| KeyPart { column, prefix: 0 });
    table.primary_key = Some(key.collect());
    Some(table)
}

/// Returns whether a text column of a table with this schema has no known character set.
fn has_unknown_charset(named: &Table, facts: &TableSchema, indexes: &[usize]) -> bool {
    indexes.iter().zip(&facts.columns).any(|(index, facts)| {
        // The definition has the members of an ENUM or SET in UTF-8.
        let is_text = !["enum", "set"].contains(&&*facts.data_type) && has_charset(&facts.data_type);
        is_text && named.columns[*index].collation.is_none()
    })
}

/// Name given to columns that are in no row.
const HIDDEN_NAME: &[u8] = b"";

fn with_column_schema(column: &Column, facts: &ColumnSchema) -> Column {
    /// Collation ID of `binary`, which non-text types have.
    const BINARY: u16 = 63;
    // A server reports ENUM and SET members in UTF-8, whatever the column's own character set is.
    let texts = parse_texts(&facts.column_type).into_iter().map(|text| text.into_bytes().into());
    let stated = match &*facts.data_type {
        "enum" | "set" => None,
        data_type if BINARY_TYPES.contains(&data_type) || fixed_byte_size(data_type).is_some() => {
            Some(BINARY)
        }
        // MariaDB's, in a VARBINARY.
        "vector" => Some(BINARY),
        _ => facts.collation,
    };
    let mut named = column.clone();
    named.name = Some(facts.name.clone().into_bytes().into());
    named.unsigned = column.unsigned.or_else(|| Some(facts.column_type.contains("unsigned")));
    named.collation = column.collation.or(stated);
    named.texts = texts.collect();
    named.geometry_type = (facts.data_type == "point").then_some(GeometryType::Point);
    named
}

/// Returns whether the log's column type is compatible with the catalogue's column.
fn is_compatible(column_type: ColumnType, facts: &ColumnSchema) -> bool {
    let data_type = &*facts.data_type;
    let data_types: &[&str] = match column_type {
        // With a fraction, it is the format of MariaDB 5.3, whose size the log does not state.
        ColumnType::OldDateTime | ColumnType::OldTime | ColumnType::OldTimestamp
            if has_fraction(&facts.column_type) =>
        {
            return false;
        }
        // MariaDB logs its address and UUID types as BINARY, and VECTOR as VARBINARY.
        ColumnType::Char { .. } => &["char", "binary", "uuid", "inet6", "inet4"],
        ColumnType::Varchar { .. } => &["varchar", "varbinary", "vector"],
        ColumnType::Blob { .. } => return data_type == "json" || BLOB_TYPES.contains(&data_type),
        ColumnType::Vector { .. } => &[],
        same => same.data_types(),
    };
    data_types.is_empty() || data_types.contains(&data_type)
}

/// Returns whether a date or time has a fraction: `datetime(6)`.
fn has_fraction(column_type: &str) -> bool {
    parse_length::<u8>(column_type).is_some_and(|digits| digits > 0)
}

/// Returns the members of `enum('a','it''s')` and `set(…)`; empty for other types.
pub(crate) fn parse_texts(column_type: &str) -> Vec<String> {
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
    use binlog::events::TableMap;
    use binlog::{ColumnType, Flavour, Table};

    use super::{ColumnCatalogue, ColumnSchema, TableSchema, is_compatible, parse_texts};
    use crate::ddl_schema::{DdlContext, DdlSchema};

    #[test]
    fn texts_of_an_unknown_character_set_are_reported_once() {
        let check = |definition: &str, collation: Option<u16>, expected: &[&str]| {
            let mut definitions = DdlSchema::default();
            let ambient = DdlContext { database: "d", ..DdlContext::default() };
            definitions.apply_statement(&format!("create table t (a {definition})"), ambient);
            let mut catalogue = ColumnCatalogue::from_definitions(definitions);
            let map = TableMap {
                table_id: 1,
                flags: 0,
                database: b"d",
                table: b"t",
                column_types: &[15],
                metadata: &[9, 0],
                nullable: &[1],
                optional: &[],
                flavour: Flavour::MySql,
            };
            let mut logged = Table::new(&map).unwrap();
            logged.columns[0].collation = collation;
            for expected in [expected, &[]] {
                assert!(catalogue.with_names(&logged).unwrap().is_some());
                assert_eq!(catalogue.take_unknown_charsets(), expected, "{definition}");
            }
        };
        check("varchar(9)", None, &["d.t"]);
        check("varchar(9)", Some(8), &[]);
        check("varchar(9) character set latin1", None, &[]);
        check("varbinary(9)", None, &[]);
    }

    #[test]
    fn old_temporal_types_have_no_fraction() {
        let check = |logged: ColumnType, column_type: &str, expected: bool| {
            let data_type = column_type.split('(').next().unwrap_or_default().to_owned();
            let column_type = column_type.to_owned();
            let facts = ColumnSchema { data_type, column_type, ..ColumnSchema::default() };
            assert_eq!(is_compatible(logged, &facts), expected, "{facts:?}");
        };
        check(ColumnType::OldDateTime, "datetime", true);
        check(ColumnType::OldDateTime, "datetime(6) /* mariadb-5.3 */", false);
        check(ColumnType::OldTime, "time(3)", false);
        check(ColumnType::OldTimestamp, "timestamp(1)", false);
        check(ColumnType::DateTime { fraction: 6 }, "datetime(6)", true);
    }

    #[test]
    fn dropped_tables_have_their_last_definition() {
        let definition = TableSchema { primary_key: vec!["id".to_owned()], ..TableSchema::default() };
        let mut answers = [Some(definition.clone()), None, None].into_iter();
        let mut catalogue = ColumnCatalogue::from_server(move |_, _| Ok(answers.next().unwrap()));
        assert_eq!(catalogue.definition_of("d", "t").unwrap(), Some(definition.clone()));
        assert_eq!(catalogue.definition_of("d", "t").unwrap(), Some(definition));
        assert_eq!(catalogue.definition_of("d", "u").unwrap(), None);
    }

    #[test]
    fn texts_of_enums() {
        assert_eq!(parse_texts("enum('a','it''s','','x,(\\\\y')"), ["a", "it's", "", "x,(\\y"]);
        assert_eq!(parse_texts("set('a','b')"), ["a", "b"]);
        assert!(parse_texts("varchar(7)").is_empty());
    }
}
