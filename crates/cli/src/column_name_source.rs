//! Sources of column names that a log lacks: a server, or the log's own DDL statements.

use std::collections::HashMap;

use binlog::{Flavour, Table};
use servers::{
    ConnectionError, ServerAddress, ServerCatalogue, ServerColumn, ServerIndexPart, SqlConnection,
};
use sql::quote::{parse_hex, quote_table};
use sql::{SqlWord, SqlWords};
use stream::{
    ColumnCatalogue, ColumnDdl, ColumnSchema, DdlSchema, SchemaMismatch, Streamer, SystemPeriod, TableSchema,
};
use tracing::warn;

/// Source of column names that the log does not have.
#[derive(Clone, Debug)]
pub(crate) enum ColumnNameSource {
    /// None.
    Unknown,
    /// Server at this address.
    Server(Box<ServerAddress>),
    /// Table definitions in the log, and these definitions from before the log.
    Log(DdlSchema),
}

impl ColumnNameSource {
    pub(crate) fn attach_to(self, streamer: Streamer) -> Streamer {
        match self.catalogue() {
            Some(catalogue) => streamer.with_column_catalogue(catalogue),
            None => streamer,
        }
    }

    /// Returns the catalogue of this source, if there is one.
    pub(crate) fn catalogue(self) -> Option<ColumnCatalogue> {
        match self {
            Self::Unknown => None,
            Self::Server(address) => Some(catalogue_of(vec![*address])),
            Self::Log(definitions) => Some(ColumnCatalogue::from_definitions(definitions)),
        }
    }
}

/// Returns the catalogue of the first of these servers that answers. Each query uses a new connection, since queries
/// are rare.
pub(crate) fn catalogue_of(servers: Vec<ServerAddress>) -> ColumnCatalogue {
    ColumnCatalogue::from_server(move |database, table| Ok(query_servers(&servers, database, table)?))
}

/// Returns a table of the first server that answers, or the error of the last one.
fn query_servers(
    servers: &[ServerAddress],
    database: &str,
    table: &str,
) -> Result<Option<TableSchema>, ConnectionError> {
    let mut found = Ok(None);
    for address in servers {
        found = query_table(address, database, table);
        if found.is_ok() {
            break;
        }
    }
    found
}

/// Warns of column names that may be wrong, and of texts that may not be readable.
pub(crate) fn warn_of_names(streamer: &mut Streamer) {
    warn_changed(&streamer.take_mismatches());
    for table in streamer.take_unknown_charsets() {
        warn!(
            "{table}: the logs do not state the character set of its database, so text that is not UTF-8 becomes base64: \
             start with the log that has its CREATE DATABASE, or take the definitions from a server \
             (--schema=mysql://…)"
        );
    }
}

/// Warns of tables that were redefined after rows to which the later definition was applied.
pub(crate) fn warn_changed(changed: &[SchemaMismatch]) {
    for mismatch in changed {
        warn!("{}. Use --schema=ddl", changed_text(mismatch));
    }
}

/// Returns the message about a table that was redefined after rows to which the later definition was applied.
pub(crate) fn changed_text(SchemaMismatch { table, log, offset }: &SchemaMismatch) -> String {
    format!(
        "{log} at {offset}: {table} was altered here: column names of earlier changes come from the current table and \
         may be wrong"
    )
}

/// Definitions of tables on a server, each read once.
#[derive(Debug)]
pub(crate) struct ServerDefinitions {
    address: ServerAddress,
    known: HashMap<String, Option<TableSchema>>,
}

impl ServerDefinitions {
    /// Uses the server at this address. Connects at the first table.
    pub(crate) fn new(address: ServerAddress) -> Self {
        Self { address, known: HashMap::new() }
    }

    /// Returns a table of a log with the server's column names; `None` if the server has no such table, or its columns
    /// differ.
    pub(crate) fn complete(&mut self, logged: &Table) -> Result<Option<Table>, ConnectionError> {
        let [database, table] = [&logged.database, &logged.name].map(|name| String::from_utf8_lossy(name));
        let name = quote_table(&database, &table);
        if !self.known.contains_key(&name) {
            let found = query_table(&self.address, &database, &table)?;
            self.known.insert(name.clone(), found);
        }
        Ok(self.known.get(&name).and_then(Option::as_ref).and_then(|schema| schema.complete(logged)))
    }
}

/// Returns a table of a server; `None` if it does not exist, or the account has no privilege on it.
pub(crate) fn query_table(
    address: &ServerAddress,
    database: &str,
    table: &str,
) -> Result<Option<TableSchema>, ConnectionError> {
    facts(&mut SqlConnection::open(address)?, [database, table])
}

/// Returns a table from the catalogue; `None` if it does not exist.
pub(crate) fn facts(
    connection: &mut SqlConnection,
    [database, table]: [&str; 2],
) -> Result<Option<TableSchema>, ConnectionError> {
    let clock = connection.value("SELECT UNIX_TIMESTAMP()")?.unwrap_or_default();
    let is_mariadb = connection.value("SELECT VERSION() LIKE '%MariaDB%'")?.as_deref() == Some("1");
    let flavour = if is_mariadb { Flavour::MariaDb } else { Flavour::MySql };
    let name = quote_table(database, table);
    let (database, table) = (database.as_bytes(), table.as_bytes());
    let mut catalogue = ServerCatalogue::new(connection);
    let columns = catalogue.columns(database, table)?;
    if columns.is_empty() {
        return Ok(None);
    }
    let has_period =
        is_mariadb && catalogue.table(database, table)?.is_some_and(|found| found.is_system_versioned());
    let period = has_period.then(|| declared_period(&columns).unwrap_or(SystemPeriod::Hidden));
    let columns = columns.into_iter().map(|column| column_schema(column, flavour)).collect();
    let parts = catalogue.index_parts(database, table)?;
    let is_primary = |part: &&ServerIndexPart| part.index == "PRIMARY";
    let primary_key = parts.iter().filter(is_primary).filter_map(|part| part.column.clone()).collect();
    let index_expressions = parts.iter().filter(|part| part.column.is_none()).count();
    let asked_s = clock.parse().unwrap_or(0);
    let schema =
        TableSchema { asked_s, columns, primary_key, charset: None, index_expressions, period: None };
    let mut schema = schema.with_period(period);
    if schema.has_byte_defaults() {
        schema.set_byte_defaults(show_create_table(connection, &name)?.as_deref());
    }
    Ok(Some(schema))
}

/// Returns the statement that creates a table, whose name is quoted; `None` if the server refuses, for example because
/// the table no longer exists.
pub(crate) fn show_create_table(
    connection: &mut SqlConnection,
    name: &str,
) -> Result<Option<String>, ConnectionError> {
    match connection.rows(&format!("SHOW CREATE TABLE {name}")) {
        Ok(rows) => Ok(rows.first().map(|row| cell_text(row.get(1)))),
        Err(error) if error.code().is_some() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns the columns with the period of a row, if the definition of a system-versioned table declares them.
fn declared_period(columns: &[ServerColumn]) -> Option<SystemPeriod> {
    let column = |generation: &str| {
        let is_it = |column: &&ServerColumn| column.generation_expression.as_deref() == Some(generation);
        columns.iter().find(is_it).map(|column| column.name.clone())
    };
    Some(SystemPeriod::Declared([column("ROW START")?, column("ROW END")?]))
}

fn column_schema(column: ServerColumn, flavour: Flavour) -> ColumnSchema {
    let default = column.default.as_deref().and_then(|text| constant_default(text, &column, flavour));
    let (data_type, column_type) = match &*column.data_type {
        // As in the log.
        "vector" if flavour == Flavour::MariaDb => {
            ("varbinary".to_owned(), format!("varbinary({})", column.octets))
        }
        _ => (column.data_type, column.column_type),
    };
    ColumnSchema {
        ddl: ColumnDdl { default, ..ColumnDdl::default() },
        name: column.name,
        data_type,
        column_type,
        collation: column.collation_id,
        nullable: column.is_nullable,
    }
}

/// Returns the default value of a column; `None` if it is not a constant. The present time is 1970-01-01 00:00:00, as
/// in definitions.
fn constant_default(text: &str, column: &ServerColumn, flavour: Flavour) -> Option<String> {
    let is_now = text.get(..17).is_some_and(|start| start.eq_ignore_ascii_case("current_timestamp"));
    if is_now && matches!(&*column.data_type, "timestamp" | "datetime") {
        return Some("1970-01-01 00:00:00".to_owned());
    }
    match flavour {
        // MySQL: plain values. A flag marks expressions.
        Flavour::MySql if column.extra.contains("default_generated") => None,
        Flavour::MySql => Some(text.to_owned()),
        // MariaDB: SQL.
        Flavour::MariaDb if text.parse::<f64>().is_ok() => Some(text.to_owned()),
        Flavour::MariaDb => {
            let mut words = SqlWords::parse(text, 0)?;
            let first = words.take_next().filter(|_| words.is_at_end())?;
            match first {
                SqlWord::Text(text) => Some(text),
                SqlWord::Hex(digits) => String::from_utf8(parse_hex(&digits)?).ok(),
                _ => None,
            }
        }
    }
}

/// Returns the text of a cell; empty for NULL.
pub(crate) fn cell_text(cell: Option<&Option<Vec<u8>>>) -> String {
    let bytes = cell.and_then(|cell| cell.as_deref()).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use binlog::Flavour;
    use servers::ServerColumn;

    use super::{column_schema, constant_default};

    #[test]
    fn defaults_are_constants() {
        let check = |flavour, data_type: &str, default: &str, expected: Option<&str>| {
            let column = ServerColumn { data_type: data_type.to_owned(), ..ServerColumn::default() };
            assert_eq!(constant_default(default, &column, flavour).as_deref(), expected, "{default}");
        };
        check(Flavour::MySql, "varchar", "a'b", Some("a'b"));
        check(Flavour::MySql, "timestamp", "CURRENT_TIMESTAMP(3)", Some("1970-01-01 00:00:00"));
        check(Flavour::MariaDb, "varchar", "'a''b\\\\c'", Some("a'b\\c"));
        check(Flavour::MariaDb, "int", "-5", Some("-5"));
        check(Flavour::MariaDb, "varbinary", "x'78797a'", Some("xyz"));
        check(Flavour::MariaDb, "varbinary", "x'00ff'", None);
        check(Flavour::MariaDb, "varchar", "NULL", None);
        check(Flavour::MariaDb, "varchar", "concat('a','b')", None);
        check(Flavour::MariaDb, "varchar", "'a' + 1", None);
        check(Flavour::MariaDb, "datetime", "current_timestamp()", Some("1970-01-01 00:00:00"));
    }

    #[test]
    fn vectors_of_mariadb_are_bytes() {
        let check = |flavour, expected: &str| {
            let [data_type, column_type] = ["vector", "vector(3)"].map(str::to_owned);
            let column = ServerColumn { data_type, column_type, octets: 12, ..ServerColumn::default() };
            assert_eq!(column_schema(column, flavour).column_type, expected);
        };
        check(Flavour::MySql, "vector(3)");
        check(Flavour::MariaDb, "varbinary(12)");
    }
}
