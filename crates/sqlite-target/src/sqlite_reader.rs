//! Reads the rows of a SQLite database that was a target.

use std::ops::ControlFlow;
use std::path::Path;

use replay::compare::{ColumnReading, ComparedColumn, ComparisonForm, ComparisonReader, RowText, RowsDigest};
use replay::{ReplayError, TargetFailure, TargetTableName};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OpenFlags};
use sql::quote::quote_ansi_name;

use crate::sqlite_failure::sqlite_failure;
use crate::sqlite_target::{StoredTable, read_stored_tables};

/// A database whose rows are read for a comparison.
#[derive(Debug)]
pub struct SqliteReader {
    connection: Connection,
    tables: Vec<StoredTable>,
}

impl SqliteReader {
    /// Opens a database that was a replay's target.
    ///
    /// # Errors
    ///
    /// Fails if the database cannot be read, or holds tables of another application.
    pub fn open(path: &Path) -> Result<Self, ReplayError> {
        Self::connect(path).map_err(|failure| failure.into_error("open the server and the target"))
    }

    fn connect(path: &Path) -> Result<Self, TargetFailure> {
        let connection =
            Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(sqlite_failure)?;
        let tables = read_stored_tables(&connection)?;
        Ok(Self { connection, tables })
    }

    fn find(&self, table: &TargetTableName) -> Option<&StoredTable> {
        let text = |bytes| String::from_utf8_lossy(bytes);
        let (database, name) = (text(&table.database), text(&table.table));
        self.tables.iter().find(|stored| stored.source.0 == database && stored.source.1 == name)
    }
}

impl ComparisonReader for SqliteReader {
    fn tables(&mut self, database: &[u8]) -> Result<Vec<Vec<u8>>, TargetFailure> {
        let is_in = |stored: &&StoredTable| stored.source.0.as_bytes() == database;
        Ok(self.tables.iter().filter(is_in).map(|stored| stored.source.1.clone().into_bytes()).collect())
    }

    fn columns(&mut self, table: &TargetTableName) -> Result<Vec<ComparedColumn>, TargetFailure> {
        Ok(self.find(table).map_or_else(Vec::new, |stored| stored.columns.clone()))
    }

    fn digest(
        &mut self,
        table: &TargetTableName,
        readings: &[ColumnReading<'_>],
        may_continue: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<RowsDigest, TargetFailure> {
        let stored = self
            .find(table)
            .ok_or_else(|| TargetFailure::refused(format!("{table} does not exist any more")))?;
        let columns: Vec<String> =
            readings.iter().map(|reading| quote_ansi_name(&reading.column.name)).collect();
        let sql = format!("SELECT {} FROM {}", columns.join(", "), quote_ansi_name(&stored.name));
        let mut statement = self.connection.prepare(&sql).map_err(sqlite_failure)?;
        let mut rows = statement.query([]).map_err(sqlite_failure)?;
        let (mut sum, mut text) = (RowsDigest::default(), RowText::default());
        while let Some(row) = rows.next().map_err(sqlite_failure)? {
            text.clear();
            for (at, reading) in readings.iter().enumerate() {
                put(&mut text, reading.form, row.get_ref(at).map_err(sqlite_failure)?);
            }
            sum.add(&text);
            if may_continue().is_break() {
                break;
            }
        }
        Ok(sum)
    }
}

fn put(text: &mut RowText, form: ComparisonForm, value: ValueRef<'_>) {
    match value {
        ValueRef::Null => text.put(form, None),
        ValueRef::Integer(number) => text.put(form, Some(number.to_string().as_bytes())),
        ValueRef::Real(number) => text.put(form, Some(format!("{number:?}").as_bytes())),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => text.put(form, Some(bytes)),
    }
}
