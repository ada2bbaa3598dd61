//! `SHOW BINLOG EVENTS`: the events of a log, at the positions of the client's form.

use std::ops::ControlFlow;
use std::sync::Arc;

use sql::SqlWord;
use wire::ServerError;

use super::SqlStatement;
use super::refusals::{internal, show_events_failed};
use crate::error::RelayError;
use crate::event_listing::{ListedEvent, list_events};
use crate::form_source::{FormRead, FormSource, FormStart};
use crate::served_checksum::ServedChecksum;
use crate::sql_answer::{SqlAnswer, SqlColumnSpec, SqlRows, SqlSession, SqlValue, integer, text};

/// Number of events in the head of a log.
const HEAD_EVENTS: usize = 2;
/// Maximum size of the rows in bytes: they are in memory until they are sent.
const ROWS_SIZE_MAX: usize = 16 << 20;

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
    /// Number of events to skip, and to show.
    skipped: u64,
    limit: u64,
}

pub(super) fn binlog_events(
    statement: &mut SqlStatement<'_>,
    session: &mut SqlSession,
) -> Result<SqlAnswer, ServerError> {
    let request = EventsRequest::parse(statement)?;
    let Some(source) = statement.facts.source(session.form) else {
        return statement.finish(SqlRows::new(COLUMNS, Vec::new()));
    };
    let names = source.store().log_names().map_err(|error| internal(&error))?;
    let named = match &request.log {
        None => names.first(),
        Some(log) => names.iter().find(|name| ***name == **log),
    };
    let Some(log) = named else {
        return match request.log {
            None => statement.finish(SqlRows::new(COLUMNS, Vec::new())),
            Some(_) => Err(show_events_failed("Could not find target log")),
        };
    };
    source.note_growth();
    let start = find_start(&source, log, request.position)?;
    let mut rows =
        EventRows { log, skipped: request.skipped, left: request.limit, size: 0, rows: Vec::new() };
    if let Some(start) = start.filter(|_| request.limit > 0) {
        let listed = list_events(&source, log, start, &mut |event| rows.take(event));
        listed.map_err(|error| show_events_failed(&error.to_string()))?;
    }
    if rows.size > ROWS_SIZE_MAX {
        return Err(too_many_events());
    }
    statement.finish(SqlRows::new(COLUMNS, rows.rows))
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
            // To a server, this is no limit.
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

/// Finds the first event; `None` behind the end of the log, where a server shows nothing. A server takes any position
/// within the head of a log, for the next event.
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

/// Returns the ends of a log's first two events: the format description, and the set of GTIDs before the log.
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

/// Rows of the answer.
struct EventRows<'l> {
    log: &'l Arc<str>,
    skipped: u64,
    left: u64,
    size: usize,
    rows: Vec<Vec<SqlValue>>,
}

impl EventRows<'_> {
    fn take(&mut self, event: ListedEvent) -> ControlFlow<()> {
        if self.skipped > 0 {
            self.skipped -= 1;
            return ControlFlow::Continue(());
        }
        self.size += COLUMNS.len() * size_of::<SqlValue>() + event.info.len() + self.log.len();
        if self.size > ROWS_SIZE_MAX {
            return ControlFlow::Break(());
        }
        self.rows.push(vec![
            (**self.log).into(),
            event.position.into(),
            event.event_type.name().into(),
            event.server_id.into(),
            event.end_position.into(),
            event.info.into(),
        ]);
        self.left -= 1;
        match self.left {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// `ER_TOO_BIG_SELECT`, with a text of our own.
fn too_many_events() -> ServerError {
    let text = format!(
        "the events take more than {} MiB: show fewer at once with LIMIT, and the next ones with FROM",
        ROWS_SIZE_MAX >> 20
    );
    ServerError::new(1104, "42000", text)
}
