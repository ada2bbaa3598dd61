//! What stands around an event: which transaction it belongs to, and the tables of its statement.

use std::fmt;
use std::sync::Arc;

use binlog::events::{RowsFlags, TableMap};
use binlog::gtid::Gtid;
use binlog::{DecodeError, Event, EventType, Format, RawEvent, RawEventBuf, Table, Tables};

/// Which transaction an event belongs to, by the event that started it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Transaction {
    /// None: the event is the log's own, or nothing has said so.
    #[default]
    None,
    /// One without an identifier.
    Anonymous,
    /// MySQL's.
    Gtid(Gtid),
    /// MariaDB's.
    MariaDb { domain_id: u32, server_id: u32, sequence_number: u64 },
}

impl fmt::Display for Transaction {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => Ok(()),
            Self::Anonymous => out.write_str("ANONYMOUS"),
            Self::Gtid(gtid) => gtid.fmt(out),
            Self::MariaDb { domain_id, server_id, sequence_number } => {
                write!(out, "{domain_id}-{server_id}-{sequence_number}")
            }
        }
    }
}

impl Transaction {
    /// The transaction of `raw`, when that of the event in front of it is this one.
    pub(crate) fn at(self, raw: &RawEvent<'_>, format: &Format) -> Self {
        match raw.event_type() {
            EventType::Gtid | EventType::GtidTagged | EventType::MariadbGtid => Self::started_by(raw, format),
            EventType::AnonymousGtid => Self::Anonymous,
            EventType::FormatDescription
            | EventType::PreviousGtids
            | EventType::Rotate
            | EventType::Stop
            | EventType::Heartbeat
            | EventType::HeartbeatV2
            | EventType::MariadbGtidList
            | EventType::MariadbBinlogCheckpoint
            | EventType::MariadbStartEncryption => Self::None,
            _ => self,
        }
    }

    /// An event that cannot be decoded starts no known transaction; whoever prints it says what is wrong with it.
    fn started_by(raw: &RawEvent<'_>, format: &Format) -> Self {
        match raw.decode(format) {
            Ok(Event::Gtid(event)) => event.gtid().map_or(Self::None, Self::Gtid),
            Ok(Event::GtidTagged(event)) => event.gtid().map_or(Self::None, Self::Gtid),
            Ok(Event::MariadbGtid(event)) => Self::MariaDb {
                domain_id: event.domain_id,
                server_id: raw.header().server_id,
                sequence_number: event.sequence_number,
            },
            _ => Self::None,
        }
    }
}

/// What a chunk of events cannot know by itself.
#[derive(Clone, Debug, Default)]
pub(crate) struct Before {
    /// The transaction of the event in front.
    pub(crate) transaction: Transaction,
    /// The table maps of a statement that goes on in the chunk.
    pub(crate) maps: Vec<RawEventBuf>,
}

impl Before {
    /// Passes over events: becomes what stands before whatever is behind them.
    pub(crate) fn pass<'a>(&mut self, events: impl Iterator<Item = RawEvent<'a>>, format: &Format) {
        let mut maps: Vec<RawEvent<'_>> = Vec::new();
        for raw in events {
            self.transaction = self.transaction.at(&raw, format);
            match Role::of(&raw, format) {
                Role::Map => maps.push(raw),
                Role::Within => {}
                Role::End => {
                    self.maps.clear();
                    maps.clear();
                }
            }
        }
        self.maps.extend(maps.iter().map(RawEvent::to_buf));
    }
}

/// What an event is to the statement around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Names one of its tables.
    Map,
    /// Ends it, or stands between statements: table maps in front do not hold behind.
    End,
    /// Part of it.
    Within,
}

impl Role {
    pub(crate) fn of(raw: &RawEvent<'_>, format: &Format) -> Self {
        match raw.event_type() {
            EventType::TableMap => Self::Map,
            EventType::WriteRowsV1
            | EventType::UpdateRowsV1
            | EventType::DeleteRowsV1
            | EventType::WriteRows
            | EventType::UpdateRows
            | EventType::DeleteRows
            | EventType::PartialUpdateRows
            | EventType::MariadbWriteRowsCompressedV1
            | EventType::MariadbUpdateRowsCompressedV1
            | EventType::MariadbDeleteRowsCompressedV1
            | EventType::MariadbWriteRowsCompressed
            | EventType::MariadbUpdateRowsCompressed
            | EventType::MariadbDeleteRowsCompressed => match rows_flags(raw, format) {
                Some(flags) if flags.contains(RowsFlags::STATEMENT_END) => Self::End,
                _ => Self::Within,
            },
            EventType::RowsQuery
            | EventType::MariadbAnnotateRows
            | EventType::Intvar
            | EventType::Rand
            | EventType::UserVar
            | EventType::Ignorable => Self::Within,
            _ => Self::End,
        }
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

    /// The statement has ended.
    pub(crate) fn end(&mut self) {
        self.mapped.clear();
    }
}

/// What stands around an event, as a worker goes along.
#[derive(Debug, Default)]
pub(crate) struct Scene {
    /// Which transaction it belongs to.
    pub(crate) transaction: Transaction,
    /// The tables of its statement.
    pub(crate) tables: StatementTables,
}

impl Scene {
    /// Begins at what stands before.
    pub(crate) fn set(&mut self, before: &Before, format: &Format) {
        self.transaction = before.transaction;
        self.tables.end();
        for raw in &before.maps {
            if let Ok(Event::TableMap(map)) = raw.as_raw().decode(format) {
                // A map that cannot be read was complained about where it stands.
                let _ = self.tables.map(&map);
            }
        }
    }
}
