//! Decisions on the changes of tables.

use std::sync::Arc;

use stream::{CatalogueNames, MissingNames};

use crate::change_schema::ChangeSchema;

/// Decision on a table's changes.
#[derive(Debug)]
pub(crate) enum TableChoice {
    Selected(SelectedTable),
    Excluded,
    /// Error: its columns have no names.
    Unnamed(MissingNames),
}

/// A table whose changes are decoded.
#[derive(Debug)]
pub(crate) struct SelectedTable {
    pub(crate) schema: Arc<ChangeSchema>,
    /// Table with names from elsewhere, if the log does not have them.
    pub(crate) named: Option<CatalogueNames>,
}
