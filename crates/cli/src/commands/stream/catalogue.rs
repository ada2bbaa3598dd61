//! Sources of column names that a log does not have: a server, or the log's own definitions.

use crate::screen;
use servers::{Address, Connection, Error, quote};
use stream::{Catalogue, Changed, ColumnFacts, Definitions, Streamer, TableFacts};

/// Source of column names that the log does not have.
#[derive(Clone, Debug)]
pub(super) enum Schema {
    /// None.
    Unknown,
    /// Server at this address.
    Server(Box<Address>),
    /// Definitions in the log, and these, which precede it.
    Log(Definitions),
}

impl Schema {
    pub(super) fn of(self, streamer: Streamer) -> Streamer {
        match self {
            Self::Unknown => streamer,
            Self::Server(address) => streamer.with_catalogue(catalogue(*address)),
            Self::Log(definitions) => streamer.with_catalogue(Catalogue::of_log(definitions)),
        }
    }
}

/// Returns the catalogue of a server. Each query uses a new connection, since queries are rare.
fn catalogue(address: Address) -> Catalogue {
    Catalogue::new(move |database, table| asked(&address, database, table).map_err(|error| error.to_string()))
}

/// Warns of tables that were redefined after rows to which the later definition was applied.
pub(super) fn remark_on(changed: &[Changed]) {
    for Changed { table, log, offset } in changed {
        screen::remark(format_args!(
            "warning: the definition of {table} changed at {offset} of {log}, before the server was queried: \
             records of earlier rows have the later column names; use --schema=ddl for the names in the log"
        ));
    }
}

fn asked(address: &Address, database: &str, table: &str) -> Result<Option<TableFacts>, Error> {
    facts(&mut Connection::open(address)?, [database, table])
}

/// Returns a table from the catalogue; `None` if it does not exist.
pub(super) fn facts(
    connection: &mut Connection,
    [database, table]: [&str; 2],
) -> Result<Option<TableFacts>, Error> {
    let is_it = quote::is_of(database.as_bytes(), table.as_bytes());
    let clock = connection.value("SELECT UNIX_TIMESTAMP()")?.unwrap_or_default();
    let rows = connection.rows(&format!(
        "SELECT column_name, data_type, column_type,
           (SELECT l.id FROM information_schema.collations l WHERE l.collation_name = c.collation_name), is_nullable
         FROM information_schema.columns c WHERE {is_it} ORDER BY ordinal_position"
    ))?;
    let columns: Vec<ColumnFacts> = rows
        .iter()
        .map(|row| ColumnFacts {
            name: word(row.first()),
            data_type: word(row.get(1)).to_ascii_lowercase(),
            column_type: word(row.get(2)),
            collation: word(row.get(3)).parse().ok(),
            nullable: word(row.get(4)) == "YES",
            ..ColumnFacts::default()
        })
        .collect();
    if columns.is_empty() {
        return Ok(None);
    }
    let key = connection.rows(&format!(
        "SELECT column_name FROM information_schema.statistics
         WHERE {is_it} AND index_name = 'PRIMARY' ORDER BY seq_in_index"
    ))?;
    let primary_key = key.iter().map(|row| word(row.first())).collect();
    let expressions = connection.value(&format!(
        "SELECT COUNT(*) FROM information_schema.statistics WHERE {is_it} AND column_name IS NULL"
    ))?;
    let index_expressions = expressions.and_then(|count| count.parse().ok()).unwrap_or(0);
    let asked_s = clock.parse().unwrap_or(0);
    Ok(Some(TableFacts { asked_s, columns, primary_key, charset: None, index_expressions }))
}

/// Returns the text of a cell; empty for NULL.
pub(super) fn word(cell: Option<&Option<Vec<u8>>>) -> String {
    let bytes = cell.and_then(|cell| cell.as_deref()).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}
