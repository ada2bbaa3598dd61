//! Context of an event: its transaction, and the tables of its statement.

use std::sync::Arc;

use binlog::events::{Rows, RowsFlags, TableMap};
use binlog::{
    DecodeError, DecodeReason, Event, EventFormat, EventType, HEADER_SIZE, RawEvent, RowDecoder, Table,
    TableRegistry, TransactionId,
};
use logs::StatementTableMaps;

/// Context of an event, updated as a worker goes from event to event.
#[derive(Debug, Default)]
pub(crate) struct EventContext {
    /// Transaction of the event, if one has begun.
    pub(crate) id: Option<TransactionId>,
    /// Tables of the event's statement.
    pub(crate) tables: StatementTables,
}

impl EventContext {
    /// Resets the context to the start of a chunk.
    pub(crate) fn start_chunk(&mut self, before: &ChunkStart, format: &EventFormat) {
        self.id = before.id;
        self.tables.end();
        for raw in before.maps.iter() {
            if let Ok(Event::TableMap(map)) = raw.decode(format) {
                // An invalid table map was reported where it stands.
                let _ = self.tables.map(&map);
            }
        }
    }
}

/// Context at the start of a chunk, which the chunk itself does not contain.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChunkStart {
    /// Transaction of the event before the chunk.
    pub(crate) id: Option<TransactionId>,
    /// Table maps of a statement that continues in the chunk.
    pub(crate) maps: StatementTableMaps,
}

impl ChunkStart {
    /// Advances over events, to the context of the event after them.
    ///
    /// # Errors
    ///
    /// If a statement has more table maps than any server writes.
    pub(crate) fn advance<'a>(
        &mut self,
        events: impl Iterator<Item = RawEvent<'a>>,
        format: &EventFormat,
    ) -> Result<(), DecodeError> {
        let mut maps: Vec<RawEvent<'_>> = Vec::new();
        for raw in events {
            self.id = transaction_at(&raw, format, self.id);
            if raw.event_type() == EventType::TableMap {
                maps.push(raw);
            } else if ends_statement(&raw, format) {
                self.maps.clear();
                maps.clear();
            }
        }
        maps.iter().try_for_each(|map| self.maps.push(map))
    }
}

/// Returns the transaction of an event. `before` is the transaction of the event before it.
pub(crate) fn transaction_at(
    raw: &RawEvent<'_>,
    format: &EventFormat,
    before: Option<TransactionId>,
) -> Option<TransactionId> {
    match raw.event_type() {
        // An invalid GTID event starts no known transaction. The output reports the error.
        EventType::Gtid | EventType::GtidTagged => {
            Some(TransactionId::Gtid(raw.decode(format).ok()?.gtid()?))
        }
        EventType::MariadbGtid => match raw.decode(format).ok()? {
            Event::MariadbGtid(event) => Some(TransactionId::Mariadb(event.gtid(raw.header().server_id))),
            _ => None,
        },
        EventType::AnonymousGtid => Some(TransactionId::Anonymous),
        EventType::FormatDescription
        | EventType::PreviousGtids
        | EventType::Rotate
        | EventType::Stop
        | EventType::Heartbeat
        | EventType::HeartbeatV2
        | EventType::MariadbGtidList
        | EventType::MariadbBinlogCheckpoint
        | EventType::MariadbStartEncryption => None,
        _ => before,
    }
}

/// Returns whether table maps before this event are invalid after it.
pub(crate) fn ends_statement(raw: &RawEvent<'_>, format: &EventFormat) -> bool {
    match raw.event_type() {
        EventType::TableMap
        | EventType::RowsQuery
        | EventType::MariadbAnnotateRows
        | EventType::Intvar
        | EventType::Rand
        | EventType::UserVar
        | EventType::Ignorable
        | EventType::Unknown(_) => false,
        event_type if event_type.rows_kind().is_some() => {
            rows_flags(raw, format).is_some_and(|flags| flags.contains(RowsFlags::STATEMENT_END))
        }
        _ => true,
    }
}

/// Returns the flags of a row event. They follow the table id, which has four bytes in very old logs.
fn rows_flags(raw: &RawEvent<'_>, format: &EventFormat) -> Option<RowsFlags> {
    let offset = match format.post_header_size(raw.event_type()) {
        Some(6) => 4,
        _ => 6,
    };
    let bytes = raw.body().get(offset..)?.first_chunk()?;
    Some(RowsFlags(u16::from_le_bytes(*bytes)))
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

    /// Returns the decoder for an event's rows, and their table. An event without columns needs no table.
    pub(crate) fn decoder(
        &mut self,
        rows: &Rows<'_>,
    ) -> Result<(Option<Arc<Table>>, Arc<RowDecoder>), DecodeError> {
        let is_mapped = self.mapped.contains(&rows.table_id);
        if rows.column_count > 0 && !is_mapped {
            let (field, found) = ("table id", rows.table_id);
            let wanted = "the id of a table map in the same statement";
            return Err(DecodeError::new(HEADER_SIZE, DecodeReason::Unexpected { field, found, wanted }));
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
