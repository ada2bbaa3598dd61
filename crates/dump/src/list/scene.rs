//! What stands around an event: which transaction it belongs to, and the tables of its statement.

use std::sync::Arc;

use binlog::events::{Rows, RowsFlags, TableMap};
use binlog::{
    DecodeError, Event, EventType, Format, HEADER_SIZE, RawEvent, Reason, RowDecoder, Table, Tables,
    TransactionId,
};
use logs::StatementMaps;

/// What stands around an event, as a worker goes along.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    /// Which transaction it belongs to, if any has begun.
    pub(crate) id: Option<TransactionId>,
    /// The tables of its statement.
    pub(crate) tables: StatementTables,
}

impl Scene {
    /// Begins at what stands before.
    pub(crate) fn set(&mut self, before: &Before, format: &Format) {
        self.id = before.id;
        self.tables.end();
        for raw in before.maps.iter() {
            if let Ok(Event::TableMap(map)) = raw.decode(format) {
                // A map that cannot be read was complained about where it stands.
                let _ = self.tables.map(&map);
            }
        }
    }
}

/// What a chunk of events cannot know by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    /// The transaction of the event in front.
    pub(crate) id: Option<TransactionId>,
    /// The table maps of a statement that goes on in the chunk.
    pub(crate) maps: StatementMaps,
}

impl Before {
    /// Passes over events: becomes what stands before whatever is behind them.
    ///
    /// # Errors
    ///
    /// When a statement has more table maps than any server writes.
    pub(crate) fn pass<'a>(
        &mut self,
        events: impl Iterator<Item = RawEvent<'a>>,
        format: &Format,
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

/// The transaction that an event belongs to, when `before` is that of the event in front of it.
pub(crate) fn transaction_at(
    raw: &RawEvent<'_>,
    format: &Format,
    before: Option<TransactionId>,
) -> Option<TransactionId> {
    match raw.event_type() {
        // One that cannot be decoded starts no known transaction; whoever prints it says what is wrong with it.
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

/// Do table maps in front of this event not hold behind it?
pub(crate) fn ends_statement(raw: &RawEvent<'_>, format: &Format) -> bool {
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

/// The flags of a rows event stand behind the table's number, which takes four bytes in very old logs.
fn rows_flags(raw: &RawEvent<'_>, format: &Format) -> Option<RowsFlags> {
    let offset = match format.post_header_size(raw.event_type()) {
        Some(6) => 4,
        _ => 6,
    };
    let bytes = raw.body().get(offset..)?.first_chunk()?;
    Some(RowsFlags(u16::from_le_bytes(*bytes)))
}

/// The tables of a statement. Decoders are kept when it ends, names are not: what a worker prints must not depend on
/// what it happened to see before.
#[derive(Debug, Default)]
pub(crate) struct StatementTables {
    tables: Tables,
    mapped: Vec<u64>,
}

impl StatementTables {
    /// Takes a table map.
    pub(crate) fn map(&mut self, map: &TableMap<'_>) -> Result<Arc<Table>, DecodeError> {
        let table = self.tables.map(map);
        match &table {
            Ok(_) if !self.mapped.contains(&map.table_id) => self.mapped.push(map.table_id),
            Ok(_) => {}
            Err(_) => self.mapped.retain(|table_id| *table_id != map.table_id),
        }
        table
    }

    /// What reads the rows of an event, and their table; an event without columns needs none.
    pub(crate) fn decoder(
        &mut self,
        rows: &Rows<'_>,
    ) -> Result<(Option<Arc<Table>>, Arc<RowDecoder>), DecodeError> {
        let is_mapped = self.mapped.contains(&rows.table_id);
        if rows.column_count > 0 && !is_mapped {
            let (field, found) = ("table id", rows.table_id);
            let wanted = "that of a table map in the same statement";
            return Err(DecodeError::new(HEADER_SIZE, Reason::Unexpected { field, found, wanted }));
        }
        let decoder = self.tables.decoder(rows)?;
        let table = self.tables.table(rows.table_id).filter(|_| is_mapped);
        Ok((table, decoder))
    }

    /// The statement has ended.
    pub(crate) fn end(&mut self) {
        self.mapped.clear();
    }
}
