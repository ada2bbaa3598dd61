//! `SHOW BINLOG EVENTS`: the events of a log, at the positions of the client's form.

use std::ops::ControlFlow;
use std::sync::Arc;

use sql::SqlWord;
use wire::ServerError;

use super::SqlStatement;
use super::refusals::{internal, show_events_failed};
use crate::error::RelayError;
use crate::event_listing::{ListedRelayEvent, list_events};
use crate::form_source::{FormRead, FormSource, FormStart};
use crate::served_checksum::ServedChecksum;
use crate::sql_answer::{SqlAnswer, SqlColumn, SqlColumnSpec, SqlRows, SqlSession, SqlValue, integer, text};
use crate::statement_interrupt::StatementInterrupt;

/// Number of events in the head of a log.
const HEAD_EVENTS: usize = 2;
const COLUMNS: &[SqlColumnSpec] = &[
    text("Log_name"),
    integer("Pos"),
    text("Event_type"),
    integer("Server_id"),
    integer("End_log_pos"),
    text("Info"),
];

/// Parts of the statement.
struct EventsRequest {
    log: Option<String>,
    position: u64,
    /// Number of events to skip.
    skipped: u64,
    limit: u64,
}

/// Rows of `SHOW BINLOG EVENTS`. The relay reads the rows while it sends them, because they may be too many for memory.
#[derive(Clone, Debug)]
pub struct BinlogEvents {
    /// First event; `None` if there are no rows.
    start: Option<EventsStart>,
    skipped: u64,
    limit: u64,
    interrupt: StatementInterrupt,
}

/// First event of a list.
#[derive(Clone, Debug)]
struct EventsStart {
    source: Arc<FormSource>,
    log: Arc<str>,
    event: FormStart,
}

pub(super) fn binlog_events(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    let EventsRequest { log, position, skipped, limit } = EventsRequest::parse(statement)?;
    let start = match statement.relay.source(session.form) {
        Some(source) if limit > 0 => find_log(source, log.as_deref(), position)?,
        _ => None,
    };
    let interrupt = session.interrupt.clone();
    Ok(SqlAnswer::Events(BinlogEvents { start, skipped, limit, interrupt }))
}

impl BinlogEvents {
    /// Returns the columns.
    pub fn columns() -> Vec<SqlColumn> {
        SqlRows::new(COLUMNS, Vec::new()).columns
    }

    /// Reads the rows, and passes them on until `visit` breaks.
    ///
    /// # Errors
    ///
    /// Fails if the log cannot be read, or the statement is interrupted.
    pub fn read(&self, visit: &mut dyn FnMut(Vec<SqlValue>) -> ControlFlow<()>) -> Result<(), ServerError> {
        let Some(EventsStart { source, log, event }) = &self.start else { return Ok(()) };
        let (mut skipped, mut left) = (self.skipped, self.limit);
        let listed = list_events(source, log, *event, &self.interrupt, &mut |event| {
            if skipped > 0 {
                skipped -= 1;
                return ControlFlow::Continue(());
            }
            visit(row(log, event))?;
            left -= 1;
            if left > 0 { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        listed.map_err(|error| match error {
            RelayError::Interrupted => ServerError::query_interrupted(),
            error => show_events_failed(&error.to_string()),
        })
    }
}

fn row(log: &Arc<str>, event: ListedRelayEvent) -> Vec<SqlValue> {
    vec![
        (**log).into(),
        event.position.into(),
        event.event_type.name().into(),
        event.server_id.into(),
        event.end_position.into(),
        event.info.into(),
    ]
}

/// Finds the log and its first event. Without a name, uses the oldest log.
fn find_log(
    source: Arc<FormSource>,
    named: Option<&str>,
    position: u64,
) -> Result<Option<EventsStart>, ServerError> {
    let names = source.store().log_names().map_err(|error| internal(&error))?;
    let found = match named {
        None => names.first(),
        Some(log) => names.iter().find(|name| ***name == *log),
    };
    let Some(log) = found else {
        return match named {
            None => Ok(None),
            Some(_) => Err(show_events_failed("Could not find target log")),
        };
    };
    source.record_growth();
    let event = find_start(&source, log, position)?;
    Ok(event.map(|event| EventsStart { source, log: Arc::clone(log), event }))
}

impl EventsRequest {
    fn parse(statement: &mut SqlStatement<'_>) -> Result<Self, ServerError> {
        let mut request = Self { log: None, position: 0, skipped: 0, limit: u64::MAX };
        if statement.words.take("IN") {
            let Some(SqlWord::Text(log)) = statement.words.peek().cloned() else {
                return Err(statement.syntax_error());
            };
            statement.words.skip();
            request.log = Some(log);
        }
        if statement.words.take("FROM") {
            request.position = take_number(statement)?;
        }
        if statement.words.take("LIMIT") {
            request.limit = take_number(statement)?;
            if statement.words.take_sign(",") {
                (request.skipped, request.limit) = (request.limit, take_number(statement)?);
            } else if statement.words.take("OFFSET") {
                request.skipped = take_number(statement)?;
            }
        }
        if (request.skipped, request.limit) == (0, 0) {
            // A server treats this value as no limit.
            request.limit = u64::MAX;
        }
        statement.expect_end()?;
        Ok(request)
    }
}

fn take_number(statement: &mut SqlStatement<'_>) -> Result<u64, ServerError> {
    let number = match statement.words.peek() {
        Some(SqlWord::Number(digits)) => digits.parse().ok(),
        _ => None,
    };
    let number = number.ok_or_else(|| statement.syntax_error())?;
    statement.words.skip();
    Ok(number)
}

/// Finds the first event; `None` after the end of the log, where a server shows no events. Any position within the head
/// of a log stands for the next event, as on a server.
fn find_start(source: &FormSource, log: &Arc<str>, position: u64) -> Result<Option<FormStart>, ServerError> {
    if position <= FormStart::LOG_START.position {
        return Ok(Some(FormStart::LOG_START));
    }
    let head = head_ends(source, log).map_err(|error| internal(&error))?;
    let position = head.into_iter().find(|end| position <= *end).unwrap_or(position);
    match source.locate(log, position, ServedChecksum::Stored) {
        Ok(start) => Ok(Some(start)),
        Err(RelayError::PastEnd { .. }) => Ok(None),
        Err(RelayError::NotAnEvent { .. }) => Err(show_events_failed("Wrong offset or I/O error")),
        Err(error) => Err(internal(&error)),
    }
}

/// Returns the ends of a log's first two events: Format_description and Previous_gtids.
fn head_ends(source: &FormSource, log: &Arc<str>) -> Result<Vec<u64>, RelayError> {
    let mut ends = Vec::new();
    let mut position = FormStart::LOG_START.position;
    while ends.len() < HEAD_EVENTS
        && let FormRead::Chunk(chunk) = source.read(log, position)?
    {
        let whole = chunk.slices().iter().filter(|slice| slice.is_last());
        ends.extend(whole.map(|slice| chunk.offset() + slice.range().end as u64));
        position = chunk.end();
    }
    ends.truncate(HEAD_EVENTS);
    Ok(ends)
}
