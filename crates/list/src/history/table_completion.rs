//! Column names that a log lacks, from another source.

use std::fmt;
use std::sync::Arc;

use binlog::events::Rows;
use binlog::{DecodeError, RowDecoder, Table};

/// Function that gives a table of a log the column names that the log lacks.
#[derive(Clone)]
pub struct TableCompletion(Arc<CompleteTable>);

/// Returns the table with names; `None` if its columns are not those of the definition.
type CompleteTable = dyn Fn(&Table) -> Option<Table> + Send + Sync;

impl TableCompletion {
    /// Uses this function. It returns `None` for a table whose columns differ from those that it knows.
    pub fn new(complete: impl Fn(&Table) -> Option<Table> + Send + Sync + 'static) -> Self {
        Self(Arc::new(complete))
    }

    pub(super) fn complete(&self, table: &Table) -> Option<CompletedTable> {
        (self.0)(table).map(|table| CompletedTable { table: Arc::new(table), decoder: None })
    }
}

impl fmt::Debug for TableCompletion {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("TableCompletion").finish_non_exhaustive()
    }
}

/// A table with column names that the log lacks.
pub(super) struct CompletedTable {
    pub(super) table: Arc<Table>,
    /// Decoder of the last rows.
    decoder: Option<Arc<RowDecoder>>,
}

impl CompletedTable {
    /// Returns a decoder for rows of the table.
    pub(super) fn decoder(&mut self, rows: &Rows<'_>) -> Result<Arc<RowDecoder>, DecodeError> {
        let decoder = match self.decoder.take().filter(|decoder| decoder.fits(rows)) {
            Some(decoder) => decoder,
            None => Arc::new(RowDecoder::new(Arc::clone(&self.table), rows)?),
        };
        Ok(Arc::clone(self.decoder.insert(decoder)))
    }
}
