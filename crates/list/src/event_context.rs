//! Context of an event: its transaction, and the tables of its statement.

use std::sync::Arc;

use binlog::events::{Rows, TableMap};
use binlog::{DecodeError, Event, EventFormat, RowDecoder, Table, TableRegistry, TransactionId};
use logs::{ChangeOrigin, ChunkContext};

/// Context of the current event. A worker updates it at each event.
#[derive(Debug, Default)]
pub(crate) struct EventContext {
    /// Transaction of the event, if one has begun.
    pub(crate) id: Option<TransactionId>,
    /// Tables of the event's statement.
    pub(crate) tables: StatementTables,
    /// Origin of the changes, for outputs that need it.
    pub(crate) origin: ChangeOrigin,
}

impl EventContext {
    /// Resets the context to the start of a chunk.
    pub(crate) fn start_chunk(&mut self, before: &ChunkContext, format: &EventFormat) {
        self.id = before.id;
        self.origin.clone_from(&before.origin);
        self.tables.end();
        for raw in before.maps.iter() {
            if let Ok(Event::TableMap(map)) = raw.decode(format) {
                // The chunk that contains the table map reports this error.
                let _ = self.tables.map(&map);
            }
        }
    }
}

/// The tables of a statement. Row decoders are kept across statements, mapped table ids are not: the output must not
/// depend on which events a worker has seen before.
#[derive(Debug, Default)]
pub(crate) struct StatementTables {
    tables: TableRegistry,
    mapped: Vec<u64>,
}

impl StatementTables {
    /// Adds a table map.
    pub(crate) fn map(&mut self, map: &TableMap<'_>) -> Result<Arc<Table>, DecodeError> {
        let table = self.tables.register(map);
        match &table {
            Ok(_) if !self.mapped.contains(&map.table_id) => self.mapped.push(map.table_id),
            Ok(_) => {}
            Err(_) => self.mapped.retain(|table_id| *table_id != map.table_id),
        }
        table
    }

    /// Returns the decoder for an event's rows, and the table. An event without columns needs no table.
    pub(crate) fn decoder(
        &mut self,
        rows: &Rows<'_>,
    ) -> Result<(Option<Arc<Table>>, Arc<RowDecoder>), DecodeError> {
        let is_mapped = self.mapped.contains(&rows.table_id);
        if rows.column_count > 0 && !is_mapped {
            return Err(DecodeError::unmapped_table(rows.table_id));
        }
        let decoder = self.tables.decoder(rows)?;
        let table = self.tables.table(rows.table_id).filter(|_| is_mapped);
        Ok((table, decoder))
    }

    /// Ends the statement: forgets its table maps.
    pub(crate) fn end(&mut self) {
        self.mapped.clear();
    }
}
