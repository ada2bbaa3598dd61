//! Sources of column names that a log does not have: a server, or the log's own definitions.

use servers::{ConnectionError, ServerAddress, SqlConnection};
use sql::quote;
use stream::{ColumnCatalogue, ColumnSchema, DdlSchema, SchemaMismatch, Streamer, TableSchema};
use tracing::warn;

/// Source of column names that the log does not have.
#[derive(Clone, Debug)]
pub(super) enum ColumnNameSource {
    /// None.
    Unknown,
    /// Server at this address.
    Server(Box<ServerAddress>),
    /// Definitions in the log, and these, which precede it.
    Log(DdlSchema),
}

impl ColumnNameSource {
    pub(super) fn attach_to(self, streamer: Streamer) -> Streamer {
        match self {
            Self::Unknown => streamer,
            Self::Server(address) => streamer.with_column_catalogue(catalogue(*address)),
            Self::Log(definitions) => {
                streamer.with_column_catalogue(ColumnCatalogue::from_definitions(definitions))
            }
        }
    }
}

/// Returns the catalogue of a server. Each query uses a new connection, since queries are rare.
fn catalogue(address: ServerAddress) -> ColumnCatalogue {
    ColumnCatalogue::from_server(move |database, table| Ok(query_table(&address, database, table)?))
}

/// Warns of tables that were redefined after rows to which the later definition was applied.
pub(super) fn warn_changed(changed: &[SchemaMismatch]) {
    for SchemaMismatch { table, log, offset } in changed {
        warn!(
            "the definition of {table} changed at {offset} of {log}, before the server was queried: \
             records of earlier rows have the later column names; use --schema=ddl for the names in the log"
        );
    }
}

fn query_table(
    address: &ServerAddress,
    database: &str,
    table: &str,
) -> Result<Option<TableSchema>, ConnectionError> {
    facts(&mut SqlConnection::open(address)?, [database, table])
}

/// Returns a table from the catalogue; `None` if it does not exist.
pub(super) fn facts(
    connection: &mut SqlConnection,
    [database, table]: [&str; 2],
) -> Result<Option<TableSchema>, ConnectionError> {
    let is_it = quote::table_condition(database.as_bytes(), table.as_bytes());
    let clock = connection.value("SELECT UNIX_TIMESTAMP()")?.unwrap_or_default();
    let rows = connection.rows(&format!(
        "SELECT column_name, data_type, column_type,
           (SELECT l.id FROM information_schema.collations l WHERE l.collation_name = c.collation_name), is_nullable
         FROM information_schema.columns c WHERE {is_it} ORDER BY ordinal_position"
    ))?;
    let columns: Vec<ColumnSchema> = rows
        .iter()
        .map(|row| ColumnSchema {
            name: cell_text(row.first()),
            data_type: cell_text(row.get(1)).to_ascii_lowercase(),
            column_type: cell_text(row.get(2)),
            collation: cell_text(row.get(3)).parse().ok(),
            nullable: cell_text(row.get(4)) == "YES",
            ..ColumnSchema::default()
        })
        .collect();
    if columns.is_empty() {
        return Ok(None);
    }
    let key = connection.rows(&format!(
        "SELECT column_name FROM information_schema.statistics
         WHERE {is_it} AND index_name = 'PRIMARY' ORDER BY seq_in_index"
    ))?;
    let primary_key = key.iter().map(|row| cell_text(row.first())).collect();
    let expressions = connection.value(&format!(
        "SELECT COUNT(*) FROM information_schema.statistics WHERE {is_it} AND column_name IS NULL"
    ))?;
    let index_expressions = expressions.and_then(|count| count.parse().ok()).unwrap_or(0);
    let asked_s = clock.parse().unwrap_or(0);
    Ok(Some(TableSchema { asked_s, columns, primary_key, charset: None, index_expressions }))
}

/// Returns the text of a cell; empty for NULL.
pub(super) fn cell_text(cell: Option<&Option<Vec<u8>>>) -> String {
    let bytes = cell.and_then(|cell| cell.as_deref()).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}
