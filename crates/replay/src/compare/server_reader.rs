//! Reads the rows of a server.

use std::ops::ControlFlow;

use binlog::gtid::GtidSet;
use servers::{ServerAddress, ServerFacts, SqlConnection};
use sql::quote;

use crate::compare::rows_digest::{
    ColumnReading, ComparedColumn, ComparisonForm, RowText, RowsDigest, SHORT_DOCUMENT,
};
use crate::error::TargetFailure;
use crate::target_table::TargetTableName;

/// Session settings: one consistent snapshot, text in UTF-8, times in UTC, and no SQL mode that changes values.
const SNAPSHOT_SESSION: &str = "SET NAMES utf8mb4; SET time_zone = '+00:00', sql_mode = ''; \
    SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";

/// A server whose rows are compared.
#[derive(Debug)]
pub(super) struct ServerReader {
    connection: SqlConnection,
    facts: ServerFacts,
}

impl ServerReader {
    pub(super) fn open(address: &ServerAddress) -> Result<Self, TargetFailure> {
        let mut connection = SqlConnection::open(address)?;
        let facts = ServerFacts::query(&mut connection)?;
        connection.run(SNAPSHOT_SESSION)?;
        Ok(Self { connection, facts })
    }

    /// Returns true for MySQL before 8.0: its `CHECKSUM TABLE` gives different results for the same JSON documents (seen
    /// with 5.7.22), and its text of a document differs from later ones.
    pub(super) fn has_old_documents(&self) -> bool {
        let major = self.facts.version.split('.').next().and_then(|major| major.parse::<u32>().ok());
        !self.facts.is_mariadb && major.is_some_and(|major| major < 8)
    }

    /// Returns flavour and release. Servers of one release represent rows in the same way.
    pub(super) fn release(&self) -> (bool, Vec<&str>) {
        (self.facts.is_mariadb, self.facts.version.split('.').take(2).collect())
    }

    pub(super) const fn executed(&self) -> &GtidSet {
        &self.facts.gtid_executed
    }

    /// Reads a table's columns, in order; empty if there is no such table.
    pub(super) fn columns(&mut self, table: &TargetTableName) -> Result<Vec<ComparedColumn>, TargetFailure> {
        let is_of = quote::table_condition(&table.database, &table.table);
        let rows = self.connection.rows(&format!(
            "SELECT column_name,
               IF(column_type LIKE '%zerofill%' AND data_type NOT IN ('float', 'double'), 'zerofill', data_type)
             FROM information_schema.columns WHERE {is_of} AND EXISTS
             (SELECT 1 FROM information_schema.tables WHERE {is_of} AND table_type = 'BASE TABLE')
             ORDER BY ordinal_position"
        ))?;
        let has_old_documents = self.has_old_documents();
        let text = |value: Option<Vec<u8>>| String::from_utf8_lossy(&value.unwrap_or_default()).into_owned();
        let columns = rows.into_iter().map(|row| {
            let mut values = row.into_iter();
            let mut next = || text(values.next().flatten());
            let (name, data_type) = (next(), next());
            let is_short = has_old_documents && data_type == "json";
            ComparedColumn { name, data_type: if is_short { SHORT_DOCUMENT.to_owned() } else { data_type } }
        });
        Ok(columns.collect())
    }

    /// Returns the result of `CHECKSUM TABLE`.
    pub(super) fn checksum(&mut self, table: &TargetTableName) -> Result<String, TargetFailure> {
        let sql = format!("CHECKSUM TABLE {} EXTENDED", quoted(table)?);
        let row = self.connection.rows(&sql)?.into_iter().next().unwrap_or_default();
        let sum = row.into_iter().nth(1).flatten();
        let sum = sum.ok_or_else(|| {
            TargetFailure::refused(format!("CHECKSUM TABLE {table} returned NULL: the table cannot be read"))
        })?;
        Ok(format!("the checksum {}", String::from_utf8_lossy(&sum)))
    }

    /// Returns the digest of a table's rows.
    pub(super) fn sum(
        &mut self,
        table: &TargetTableName,
        readings: &[ColumnReading<'_>],
        go_on: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<RowsDigest, TargetFailure> {
        let values: Vec<String> = readings.iter().map(value).collect();
        let sql = format!("SELECT {} FROM {}", values.join(", "), quoted(table)?);
        let (mut sum, mut text) = (RowsDigest::default(), RowText::default());
        self.connection.each_row(&sql, &mut |row| {
            text.clear();
            for (value, reading) in row.iter().zip(readings) {
                text.put(reading.form, value.as_deref());
            }
            sum.add(&text);
            go_on()
        })?;
        Ok(sum)
    }
}

/// Returns the expression that selects a column's values in the form in which they are compared.
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
