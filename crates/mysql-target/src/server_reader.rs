//! Reads the rows of a server.

use std::ops::ControlFlow;

use binlog::gtid::GtidSet;
use replay::compare::{
    ColumnReading, ComparedColumn, ComparisonForm, ComparisonReader, RowText, RowsDigest, SHORT_DOCUMENT,
};
use replay::{ReplayError, TargetFailure, TargetTableName};
use servers::{ServerAddress, ServerCatalogue, ServerColumn, ServerFacts, SqlConnection};
use sql::quote;

use crate::server_failure::server_failure;

/// ER_INVALID_CHARACTER_STRING: names of tables have no characters of four bytes, so no table has the name.
const INVALID_CHARACTER_STRING: u16 = 1300;

/// Session settings: one consistent snapshot, text in UTF-8, times in UTC, and no SQL mode that changes values.
const SNAPSHOT_SESSION: &str = "SET NAMES utf8mb4; SET time_zone = '+00:00', sql_mode = ''; \
    SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";

/// A server whose rows are read for a comparison.
#[derive(Debug)]
pub struct ServerReader {
    connection: SqlConnection,
    facts: ServerFacts,
}

impl ServerReader {
    /// Connects to a server, and begins its snapshot.
    ///
    /// # Errors
    ///
    /// Fails if the server cannot be reached or read.
    pub fn open(address: &ServerAddress) -> Result<Self, ReplayError> {
        Self::connect(address).map_err(|failure| failure.into_error("open the server and the target"))
    }

    fn connect(address: &ServerAddress) -> Result<Self, TargetFailure> {
        let mut connection = SqlConnection::open(address).map_err(server_failure)?;
        let facts = ServerFacts::query(&mut connection).map_err(server_failure)?;
        connection.run(SNAPSHOT_SESSION).map_err(server_failure)?;
        Ok(Self { connection, facts })
    }

    /// Returns the GTIDs that the server has executed.
    pub const fn executed(&self) -> &GtidSet {
        &self.facts.gtid_executed
    }

    /// Returns true for MySQL before 8.0: its `CHECKSUM TABLE` gives different results for the same JSON documents
    /// (seen with 5.7.22), and its text of a document differs from the text of later versions.
    fn has_old_documents(&self) -> bool {
        let major = self.facts.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        !self.facts.is_mariadb && major.is_some_and(|major| major < 8)
    }
}

impl ComparisonReader for ServerReader {
    fn tables(&mut self, database: &[u8]) -> Result<Vec<Vec<u8>>, TargetFailure> {
        match ServerCatalogue::new(&mut self.connection).base_tables(database) {
            Err(error) if error.code() == Some(INVALID_CHARACTER_STRING) => Ok(Vec::new()),
            tables => tables.map_err(server_failure),
        }
    }

    fn columns(&mut self, table: &TargetTableName) -> Result<Vec<ComparedColumn>, TargetFailure> {
        let has_old_documents = self.has_old_documents();
        let mut catalogue = ServerCatalogue::new(&mut self.connection);
        let found = match catalogue.table(&table.database, &table.table) {
            Err(error) if error.code() == Some(INVALID_CHARACTER_STRING) => None,
            found => found.map_err(server_failure)?,
        };
        if found.is_none_or(|found| !found.has_rows()) {
            return Ok(Vec::new());
        }
        let columns = catalogue.columns(&table.database, &table.table).map_err(server_failure)?;
        Ok(columns.into_iter().map(|column| compared_column(column, has_old_documents)).collect())
    }

    fn digest(
        &mut self,
        table: &TargetTableName,
        readings: &[ColumnReading<'_>],
        may_continue: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<RowsDigest, TargetFailure> {
        let values: Vec<String> = readings.iter().map(value).collect();
        let sql = format!("SELECT {} FROM {}", values.join(", "), quoted(table)?);
        let (mut sum, mut text) = (RowsDigest::default(), RowText::default());
        self.connection
            .each_row(&sql, &mut |row| {
                text.clear();
                for (value, reading) in row.iter().zip(readings) {
                    text.put(reading.form, value.as_deref());
                }
                sum.add(&text);
                may_continue()
            })
            .map_err(server_failure)?;
        Ok(sum)
    }

    /// Returns flavour and release. Servers of one release represent rows in the same way.
    fn checksum_release(&self) -> Option<String> {
        let flavour = if self.facts.is_mariadb { "MariaDB" } else { "MySQL" };
        let release: Vec<&str> = self.facts.version.split('.').take(2).collect();
        (!self.has_old_documents()).then(|| format!("{flavour} {}", release.join(".")))
    }

    fn checksum(&mut self, table: &TargetTableName) -> Result<String, TargetFailure> {
        let sql = format!("CHECKSUM TABLE {} EXTENDED", quoted(table)?);
        let row = self.connection.rows(&sql).map_err(server_failure)?.into_iter().next().unwrap_or_default();
        let sum = row.into_iter().nth(1).flatten();
        let sum = sum.ok_or_else(|| {
            TargetFailure::refused(format!("CHECKSUM TABLE {table} returned NULL: the table cannot be read"))
        })?;
        Ok(format!("the checksum {}", String::from_utf8_lossy(&sum)))
    }

    /// Returns false for a table with an index on an expression: multi-valued indexes are such indexes.
    fn has_stable_checksum(&mut self, table: &TargetTableName) -> Result<bool, TargetFailure> {
        let mut catalogue = ServerCatalogue::new(&mut self.connection);
        let parts = catalogue.index_parts(&table.database, &table.table).map_err(server_failure)?;
        Ok(parts.iter().all(|part| part.column.is_some()))
    }
}

fn compared_column(column: ServerColumn, has_old_documents: bool) -> ComparedColumn {
    // A floating-point number with ZEROFILL is compared like any other floating-point number.
    let is_zerofill =
        column.column_type.contains("zerofill") && !["float", "double"].contains(&column.data_type.as_str());
    let data_type = match column.data_type.as_str() {
        _ if is_zerofill => "zerofill".to_owned(),
        "json" if has_old_documents => SHORT_DOCUMENT.to_owned(),
        _ => column.data_type,
    };
    ComparedColumn { name: column.name, data_type }
}

/// Returns the expression that selects a column's values in their compared form.
fn value(reading: &ColumnReading<'_>) -> String {
    let name = quote::quote_name(&reading.column.name);
    match reading.form {
        ComparisonForm::Plain => name,
        ComparisonForm::Number => format!("{name} + 0"),
        ComparisonForm::Double => format!("{name} + 0e0"),
        ComparisonForm::Text | ComparisonForm::Document => format!("CONVERT({name} USING utf8mb4)"),
    }
}

fn quoted(table: &TargetTableName) -> Result<String, TargetFailure> {
    let mut name = Vec::new();
    quote::put_table(&mut name, &table.database, &table.table);
    String::from_utf8(name)
        .map_err(|_| TargetFailure::refused(format!("the table name {table} is not UTF-8")))
}

#[cfg(test)]
mod tests {
    use replay::TargetTableName;

    use super::quoted;

    #[test]
    fn names_of_tables_are_utf8() {
        let name = |table: &[u8]| TargetTableName { database: b"d".as_slice().into(), table: table.into() };
        assert_eq!(quoted(&name(b"a`b")).unwrap(), "`d`.`a``b`");
        assert_eq!(quoted(&name(b"\xff")).unwrap_err().message, "the table name `d`.`�` is not UTF-8");
    }
}
