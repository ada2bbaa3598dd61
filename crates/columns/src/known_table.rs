//! Tables of a log, prepared for decoding.

use std::sync::Arc;

use binlog::Table;
use stream::CatalogueNames;

use crate::change_schema::ChangeSchema;

/// A table of the log.
#[derive(Debug)]
pub(crate) struct ExportTable {
    /// Table as in the log.
    pub(crate) logged: Arc<Table>,
    pub(crate) choice: TableChoice,
}

/// Decision on a table's changes.
#[derive(Debug)]
pub(crate) enum TableChoice {
    Selected(SelectedTable),
    Excluded,
    /// Error: its columns have no names.
    Unnamed(MissingNames),
}

/// Place that lacks the names of a table's columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MissingNames {
    Log,
    Server,
    Definitions,
}

/// A table whose changes are decoded.
#[derive(Debug)]
pub(crate) struct SelectedTable {
    pub(crate) schema: Arc<ChangeSchema>,
    /// Table with names from elsewhere, if the log does not have them.
    pub(crate) named: Option<CatalogueNames>,
}
