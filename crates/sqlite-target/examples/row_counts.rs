//! Prints the row count of each table in SQLite databases that logs were replayed into: file, table and count, separated
//! by tabs. `cargo xtask demo` and the benches compare these counts with the source's.

use std::env;
use std::error::Error;
use std::path::PathBuf;

use rusqlite::{Connection, OpenFlags};

fn main() -> Result<(), Box<dyn Error>> {
    for file in env::args_os().skip(1).map(PathBuf::from) {
        let database = Connection::open_with_flags(&file, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        let tables = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'bintide.%'";
        let mut statement = database.prepare(tables)?;
        for table in statement.query_map([], |row| row.get::<_, String>(0))? {
            let table = table?;
            let query = format!("SELECT COUNT(*) FROM \"{}\"", table.replace('"', "\"\""));
            let count: i64 = database.query_row(&query, [], |row| row.get(0))?;
            println!("{}\t{table}\t{count}", file.display());
        }
    }
    Ok(())
}
