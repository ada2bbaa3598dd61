//! `--transactions`: one line per transaction, as a table or as JSON.
//!
//! Workers determine each event's role and number of changed rows. The output thread builds the transactions from that,
//! in order.

mod summary;

use std::sync::Arc;

use binlog::events::{CommitStamps, LogicalClock, PayloadCompression, RowsKind};
use binlog::{DecodeError, Event, Role, Table, TransactionId};

pub(crate) use self::summary::{HEAD, Shape, Transactions};
use super::scene::Scene;
use super::select::Select;
use super::walk::{Located, Output, Refusal};

/// Produces one piece per event.
pub(crate) struct Pieces<'s> {
    pub(crate) select: &'s Select,
}

/// Contribution of one event to its transaction.
pub(crate) struct Piece {
    /// Position and context; `None` inside a payload.
    pub(crate) outer: Option<Outer>,
    pub(crate) role: Role,
    /// Fields of the event that starts a transaction.
    pub(crate) start: Option<Box<Start>>,
    pub(crate) payload: Option<Payload>,
    pub(crate) rows: Option<Change>,
    /// Size of the event, in bytes.
    pub(crate) size: u32,
    /// Error, if the event cannot be decoded.
    pub(crate) error: Option<Box<DecodeError>>,
}

/// Position and context of an event outside payloads.
#[derive(Clone)]
pub(crate) struct Outer {
    pub(crate) log_name: Arc<str>,
    pub(crate) position: u64,
    pub(crate) end: u64,
    pub(crate) timestamp: u32,
    pub(crate) server_id: u32,
    /// Transaction of the event, if one has begun.
    pub(crate) id: Option<TransactionId>,
    pub(crate) is_selected: bool,
}

/// Fields of the event that starts a transaction.
pub(crate) struct Start {
    pub(crate) clock: Option<LogicalClock>,
    pub(crate) stamps: Option<CommitStamps>,
}

/// Fields of a payload's event.
#[derive(Clone, Copy)]
pub(crate) struct Payload {
    pub(crate) compression: PayloadCompression,
    pub(crate) size: u64,
}

/// Rows changed by one event.
pub(crate) struct Change {
    pub(crate) table: Arc<Table>,
    pub(crate) kind: RowsKind,
    pub(crate) rows: u64,
}

impl Output for Pieces<'_> {
    /// Shared name of the log.
    type Worker = Arc<str>;
    type Part = Vec<Piece>;

    fn worker(&self) -> Arc<str> {
        "".into()
    }

    fn put(
        &self,
        log_name: &mut Arc<str>,
        scene: &mut Scene,
        located: &Located<'_>,
        event: &Event<'_>,
        part: &mut Vec<Piece>,
    ) -> Result<(), Refusal> {
        if let Event::TableMap(map) = event {
            scene.tables.map(map)?;
        }
        let start = match event {
            Event::Gtid(event) | Event::AnonymousGtid(event) => {
                Some(Start { clock: event.clock, stamps: event.stamps })
            }
            Event::GtidTagged(event) => Some(Start { clock: Some(event.clock), stamps: Some(event.stamps) }),
            _ => None,
        };
        let payload = match event {
            Event::TransactionPayload(event) => {
                let size = located.payload_size.unwrap_or(event.payload.len() as u64);
                Some(Payload { compression: event.compression, size })
            }
            _ => None,
        };
        part.push(Piece {
            outer: self.outer(log_name, scene, located),
            role: role_of(located)?,
            start: start.map(Box::new),
            payload,
            rows: self.change(scene, located, event)?,
            size: located.header.size,
            error: None,
        });
        Ok(())
    }

    fn put_damaged(&self, scene: &Scene, located: &Located<'_>, error: DecodeError, part: &mut Vec<Piece>) {
        let mut log_name = located.log_name.into();
        part.push(Piece {
            outer: self.outer(&mut log_name, scene, located),
            role: role_of(located).unwrap_or(Role::Aside),
            start: None,
            payload: None,
            rows: None,
            size: located.header.size,
            error: Some(Box::new(error)),
        });
    }

    fn size(part: &Vec<Piece>) -> usize {
        std::mem::size_of_val(part.as_slice())
    }
}

fn role_of(located: &Located<'_>) -> Result<Role, DecodeError> {
    match &located.raw {
        Some(raw) => Role::of(raw, located.format),
        None => Ok(Role::Payload),
    }
}

impl Pieces<'_> {
    fn outer(&self, log_name: &mut Arc<str>, scene: &Scene, located: &Located<'_>) -> Option<Outer> {
        if located.inner.is_some() {
            return None;
        }
        if **log_name != *located.log_name {
            *log_name = located.log_name.into();
        }
        let header = &located.header;
        Some(Outer {
            log_name: Arc::clone(log_name),
            position: located.position,
            end: located.end,
            timestamp: header.timestamp,
            server_id: header.server_id,
            id: scene.id,
            is_selected: self.select.takes_server(located) && self.select.takes_transaction(scene),
        })
    }

    /// Counts the event's rows that pass the filters.
    fn change(
        &self,
        scene: &mut Scene,
        located: &Located<'_>,
        event: &Event<'_>,
    ) -> Result<Option<Change>, Refusal> {
        let Some(rows) = event.rows() else { return Ok(None) };
        let (table, _) = scene.tables.decoder(rows)?;
        let Some(table) = table.filter(|table| self.select.takes_name(&table.database, &table.name)) else {
            return Ok(None);
        };
        let count = self.select.count_rows(scene, located.format, rows)?;
        Ok((count > 0).then_some(Change { table, kind: rows.kind, rows: count }))
    }
}
