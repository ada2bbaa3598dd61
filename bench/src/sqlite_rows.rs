//! Row counts of SQLite databases that logs were replayed into.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;

/// Print the row counts of SQLite databases (internal use by the demo)
#[derive(Args)]
pub(crate) struct SqliteRowsOptions {
    /// Database files
    files: Vec<PathBuf>,
}

/// Prints a line for each table: file, table and row count, separated by tabs.
pub(crate) fn print_sqlite_rows(options: &SqliteRowsOptions) -> Result<()> {
    for file in &options.files {
        for (table, count) in count_sqlite_rows(file)? {
            println!("{}\t{table}\t{count}", file.display());
        }
    }
    Ok(())
}

/// Counts the rows of every source table in a SQLite database that logs were replayed into.
pub(crate) fn count_sqlite_rows(file: &Path) -> Result<BTreeMap<String, u64>> {
    let database = rusqlite::Connection::open(file)?;
    let question = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'bintide.%'";
    let mut statement = database.prepare(question)?;
    let tables: Vec<String> = statement.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let mut counts = BTreeMap::new();
    for table in tables {
        let question = format!("SELECT COUNT(*) FROM \"{}\"", table.replace('"', "\"\""));
        let count: i64 = database.query_row(&question, [], |row| row.get(0))?;
        counts.insert(table, u64::try_from(count)?);
    }
    Ok(counts)
}
