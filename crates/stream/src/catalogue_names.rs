//! Tables of a log whose column names come from a catalogue.

use std::sync::Arc;

use binlog::events::Rows;
use binlog::{DecodeError, RowDecoder, Table};

/// A table of the log with column names from a catalogue, and the decoders of its rows.
#[derive(Debug)]
pub struct CatalogueNames {
    table: Arc<Table>,
    decoders: Vec<Arc<RowDecoder>>,
}

impl CatalogueNames {
    /// Decoders per table: one for each set of columns in its rows events. Bounds memory.
    const DECODERS_MAX: usize = 32;

    /// Takes the table with its names.
    pub fn new(table: Table) -> Self {
        Self { table: Arc::new(table), decoders: Vec::new() }
    }

    /// Returns a decoder for rows of the table.
    ///
    /// # Errors
    ///
    /// Fails if the rows do not fit the table.
    pub fn decoder(&mut self, rows: &Rows<'_>) -> Result<Arc<RowDecoder>, DecodeError> {
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
