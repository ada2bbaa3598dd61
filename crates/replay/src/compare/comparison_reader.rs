//! Interface of a side of a comparison.

use std::fmt;
use std::ops::ControlFlow;

use crate::compare::rows_digest::{ColumnReading, ComparedColumn, RowsDigest};
use crate::replay_error::TargetFailure;
use crate::target_table_definition::TargetTableName;

/// Reads the tables of one side of a comparison: a server, or a target of another kind.
pub trait ComparisonReader: fmt::Debug + Send {
    /// Returns the names of a database's tables, without views; empty if there is no such database.
    ///
    /// # Errors
    ///
    /// Fails if the server or database of this side does not answer.
    fn tables(&mut self, database: &[u8]) -> Result<Vec<Vec<u8>>, TargetFailure>;

    /// Reads a table's columns, in order; empty if there is no such table.
    ///
    /// # Errors
    ///
    /// Fails if the server or database of this side does not answer.
    fn columns(&mut self, table: &TargetTableName) -> Result<Vec<ComparedColumn>, TargetFailure>;

    /// Reads all rows of a table, and returns their digest. Calls `may_continue` at intervals. If `may_continue`
    /// breaks, the digest is meaningless.
    ///
    /// # Errors
    ///
    /// Fails if the rows cannot be read.
    fn digest(
        &mut self,
        table: &TargetTableName,
        readings: &[ColumnReading<'_>],
        may_continue: &(dyn Fn() -> ControlFlow<()> + Sync),
    ) -> Result<RowsDigest, TargetFailure>;

    /// Returns the server release whose `CHECKSUM TABLE` this side uses: two sides of one release compute equal
    /// checksums for equal rows. `None` if this side has no comparable checksums.
    fn checksum_release(&self) -> Option<String> {
        None
    }

    /// Returns the checksum of a table, as text.
    ///
    /// # Errors
    ///
    /// Fails if the table cannot be read, or this side computes no checksums.
    fn checksum(&mut self, table: &TargetTableName) -> Result<String, TargetFailure> {
        Err(TargetFailure::refused(format!("no checksum of {table} can be computed")))
    }

    /// Returns whether the checksum of a table depends only on its rows. It does not for a MySQL table with a
    /// multi-valued index: each `CHECKSUM TABLE` returns another value.
    ///
    /// # Errors
    ///
    /// Fails if the server or database of this side does not answer.
    fn has_stable_checksum(&mut self, _table: &TargetTableName) -> Result<bool, TargetFailure> {
        Ok(true)
    }
}
