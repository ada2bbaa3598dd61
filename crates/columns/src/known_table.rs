//! Tables of a log, prepared for decoding.

use std::sync::Arc;

use binlog::events::Rows;
use binlog::{DecodeError, RowDecoder, Table};

use crate::change_schema::ChangeSchema;

/// A table of the log.
#[derive(Debug)]
pub(crate) struct ExportDecision {
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
    pub(crate) named: Option<TableFromCatalogue>,
}

/// A table of the log with column names from a catalogue.
#[derive(Debug)]
pub(crate) struct TableFromCatalogue {
    table: Arc<Table>,
    decoders: Vec<Arc<RowDecoder>>,
}

impl TableFromCatalogue {
    /// Decoders per table: one for each set of columns in its rows events. Bounds memory.
    const DECODERS_MAX: usize = 32;

    pub(crate) fn new(table: Table) -> Self {
        Self { table: Arc::new(table), decoders: Vec::new() }
    }

    /// Returns a decoder for rows of the table.
    pub(crate) fn decoder(&mut self, rows: &Rows<'_>) -> Result<Arc<RowDecoder>, DecodeError> {
        if let Some(decoder) = self.decoders.iter().find(|decoder| decoder.fits(rows)) {
            return Ok(Arc::clone(decoder));
        }
        if self.decoders.len() >= Self::DECODERS_MAX {
            self.decoders.clear();
        }
        let decoder = Arc::new(RowDecoder::new(Arc::clone(&self.table), rows)?);
        self.decoders.push(Arc::clone(&decoder));
        Ok(decoder)
    }
}
