//! `--transactions`: one line per transaction, as a table or as JSON.
//!
//! Workers determine each event's role and number of changed rows. From these, the output thread builds the
//! transactions, in order.

mod summary_builder;
mod summary_piece;

use std::sync::Arc;

use binlog::events::ExecuteLoadQuery;
use binlog::{DecodeError, Event, EventRole, TransactionVerb};

pub(crate) use self::summary_builder::{HEADER_LINE, SummaryBuilder, SummaryFormat};
use self::summary_piece::{EventRowCount, OuterEvent, PayloadFacts, StartStamps, SummaryPiece};
use super::event_context::EventContext;
use super::event_selection::EventSelection;
use crate::list_output::ListOutput;
use crate::located_event::{ListedEvent, LocatedEvent, OutputRefusal};

/// Produces one piece per event.
pub(crate) struct SummaryPieces<'s> {
    pub(crate) select: &'s EventSelection,
}

impl ListOutput for SummaryPieces<'_> {
    /// Shared name of the log.
    type ListWorker = Arc<str>;
    type Part = Vec<SummaryPiece>;

    fn worker(&self) -> Arc<str> {
        "".into()
    }

    fn put(
        &self,
        log_name: &mut Arc<str>,
        context: &mut EventContext,
        ListedEvent { located, event }: ListedEvent<'_>,
        part: &mut Vec<SummaryPiece>,
    ) -> Result<(), OutputRefusal> {
        if let Event::TableMap(map) = event {
            context.tables.map(map)?;
        }
        let start = match event {
            Event::Gtid(event) | Event::AnonymousGtid(event) => {
                Some(StartStamps { clock: event.clock, stamps: event.stamps })
            }
            Event::GtidTagged(event) => {
                Some(StartStamps { clock: Some(event.clock), stamps: Some(event.stamps) })
            }
            _ => None,
        };
        let payload = match event {
            Event::TransactionPayload(event) => {
                let size = located.payload_size.unwrap_or(event.payload.len() as u64);
                Some(PayloadFacts { compression: event.compression, size })
            }
            _ => None,
        };
        part.push(SummaryPiece {
            outer: self.outer(log_name, context, located),
            role: role_of(located)?,
            start: start.map(Box::new),
            payload,
            rows: self.change(context, located, event)?,
            is_selected_statement: self.is_selected_statement(event),
            size: located.header.size,
            error: None,
        });
        Ok(())
    }

    fn put_damaged(
        &self,
        context: &EventContext,
        located: &LocatedEvent<'_>,
        error: DecodeError,
        part: &mut Vec<SummaryPiece>,
    ) {
        let mut log_name = located.log_name.into();
        part.push(SummaryPiece {
            outer: self.outer(&mut log_name, context, located),
            role: role_of(located).unwrap_or(EventRole::Aside),
            start: None,
            payload: None,
            rows: None,
            is_selected_statement: false,
            size: located.header.size,
            error: Some(Box::new(error)),
        });
    }

    fn size(part: &Vec<SummaryPiece>) -> usize {
        std::mem::size_of_val(part.as_slice())
    }
}

fn role_of(located: &LocatedEvent<'_>) -> Result<EventRole, DecodeError> {
    match &located.raw {
        Some(raw) => EventRole::of(raw, located.format),
        None => Ok(EventRole::Payload),
    }
}

impl SummaryPieces<'_> {
    fn outer(
        &self,
        log_name: &mut Arc<str>,
        context: &EventContext,
        located: &LocatedEvent<'_>,
    ) -> Option<OuterEvent> {
        if located.inner.is_some() {
            return None;
        }
        if **log_name != *located.log_name {
            *log_name = located.log_name.into();
        }
        let header = &located.header;
        Some(OuterEvent {
            log_name: Arc::clone(log_name),
            position: located.position,
            end: located.end,
            timestamp: header.timestamp,
            server_id: header.server_id,
            id: context.id,
            is_selected: self.select.selects_server(located) && self.select.selects_transaction(context),
        })
    }

    /// Returns whether a statement other than those of transactions passes the filter by database.
    fn is_selected_statement(&self, event: &Event<'_>) -> bool {
        let (Event::Query(query) | Event::ExecuteLoadQuery(ExecuteLoadQuery { query, .. })) = event else {
            return false;
        };
        TransactionVerb::of(query.sql) == TransactionVerb::Other && self.select.selects_statement(query)
    }

    /// Counts the event's rows that pass the filters.
    fn change(
        &self,
        context: &mut EventContext,
        located: &LocatedEvent<'_>,
        event: &Event<'_>,
    ) -> Result<Option<EventRowCount>, OutputRefusal> {
        let Some(rows) = event.rows() else { return Ok(None) };
        let (table, _) = context.tables.decoder(rows)?;
        let Some(table) = table.filter(|table| self.select.tables.selects(&table.database, &table.name))
        else {
            return Ok(None);
        };
        let count = self.select.count_rows(context, located.format, rows)?;
        Ok((count > 0).then_some(EventRowCount { table, kind: rows.kind, rows: count }))
    }
}
