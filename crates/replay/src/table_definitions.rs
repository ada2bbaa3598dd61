//! Interface of the table definitions for a dry run.

use std::fmt;

use crate::apply_plan::SourceStatement;
use crate::replay_error::TargetFailure;
use crate::target_table_definition::TargetTableDefinition;

/// Definitions of tables: of a target's tables, or of the tables that the logs define.
pub trait TableDefinitions: fmt::Debug + Send {
    /// Returns a table, by its names in the log. `None` if the table does not exist or is unknown.
    ///
    /// # Errors
    ///
    /// Fails if the definitions cannot be read.
    fn definition(
        &mut self,
        database: &[u8],
        table: &[u8],
    ) -> Result<Option<TargetTableDefinition>, TargetFailure>;

    /// Applies a statement to the definitions. Read-only definitions ignore it.
    ///
    /// # Errors
    ///
    /// Fails if the statement cannot be applied to the definitions.
    fn define(&mut self, statement: &SourceStatement) -> Result<(), TargetFailure> {
        let _ = statement;
        Ok(())
    }
}
