//! Selection of tables by database and patterns.

use crate::table_pattern::{TablePattern, lowercase};

/// Selection of tables. The default selects all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableSelection {
    /// Only tables of this database.
    pub database: Option<Vec<u8>>,
    /// Patterns of the selected tables; all tables if the list is empty.
    pub patterns: Vec<TablePattern>,
}

impl TableSelection {
    /// Returns whether the selection includes all tables.
    pub fn selects_all(&self) -> bool {
        self.database.is_none() && self.patterns.is_empty()
    }

    /// Returns whether the selection includes the table.
    pub fn selects(&self, database: &[u8], table: &[u8]) -> bool {
        self.database.as_ref().is_none_or(|selected| selected == database)
            && (self.patterns.is_empty() || self.patterns.iter().any(|pattern| pattern.fits(database, table)))
    }

    /// Returns whether the selection includes the table if names are compared without case. On a server with
    /// `lower_case_table_names`, a statement can write a name in another case than the log's rows.
    pub fn selects_ignoring_case(&self, database: &[u8], table: &[u8]) -> bool {
        let (database, table) = (lowercase(database), lowercase(table));
        self.database.as_deref().is_none_or(|selected| lowercase(selected) == database)
            && (self.patterns.is_empty()
                || self.patterns.iter().any(|pattern| pattern.to_lowercase().fits(&database, &table)))
    }

    /// Returns the indexes of the patterns that match the table.
    pub fn matching_patterns<'p>(
        &'p self,
        database: &'p [u8],
        table: &'p [u8],
    ) -> impl Iterator<Item = usize> + 'p {
        let fits =
            move |(number, pattern): (usize, &TablePattern)| pattern.fits(database, table).then_some(number);
        self.patterns.iter().enumerate().filter_map(fits)
    }

    /// Returns whether the selection includes a statement with this default database: patterns select only row changes.
    pub fn selects_statement(&self, default_database: &[u8]) -> bool {
        self.patterns.is_empty() && self.database.as_ref().is_none_or(|selected| selected == default_database)
    }
}
