//! `--events`: the table of `SHOW BINLOG EVENTS`, as `mysql --batch` prints it.

use binlog::{DecodeError, Event};
use sql::event_info::put_info;
use sql::numbers::put_u64;

use super::event_context::EventContext;
use super::event_selection::EventSelection;
use crate::list_output::ListOutput;
use crate::located_event::{ListedEvent, LocatedEvent, OutputRefusal};

/// Header line.
pub(crate) const HEADER_LINE: &[u8] = b"Log_name\tPos\tEvent_type\tServer_id\tEnd_log_pos\tInfo\n";

/// Writes one table row per event.
pub(crate) struct EventsTable<'s> {
    pub(crate) select: &'s EventSelection,
}

impl ListOutput for EventsTable<'_> {
    /// Buffer for the Info column before it is escaped.
    type ListWorker = Vec<u8>;
    type Part = Vec<u8>;

    fn worker(&self) -> Vec<u8> {
        Vec::new()
    }

    fn put(
        &self,
        info: &mut Vec<u8>,
        context: &mut EventContext,
        ListedEvent { located, event }: ListedEvent<'_>,
        part: &mut Vec<u8>,
    ) -> Result<(), OutputRefusal> {
        if !self.select.selects(context, located, event)? || !self.has_rows(context, located, event)? {
            return Ok(());
        }
        info.clear();
        put_info(info, &located.header, located.format, event)?;
        put_row(part, located, info);
        Ok(())
    }

    fn put_damaged(
        &self,
        _: &EventContext,
        located: &LocatedEvent<'_>,
        error: DecodeError,
        part: &mut Vec<u8>,
    ) {
        put_row(part, located, format!("Error: {error}").as_bytes());
    }

    fn size(part: &Vec<u8>) -> usize {
        part.len()
    }
}

impl EventsTable<'_> {
    /// Returns whether a row of the event meets the conditions, if there are any.
    fn has_rows(
        &self,
        context: &mut EventContext,
        located: &LocatedEvent<'_>,
        event: &Event<'_>,
    ) -> Result<bool, OutputRefusal> {
        match event.rows() {
            Some(rows) if self.select.filters_values() => {
                self.select.count_rows(context, located.format, rows).map(|count| count > 0)
            }
            _ => Ok(true),
        }
    }
}

fn put_row(out: &mut Vec<u8>, located: &LocatedEvent<'_>, info: &[u8]) {
    // The server gives the payload's end as position of the events inside.
    let position = match located.inner {
        None => located.position,
        Some(_) => located.end,
    };
    put_escaped(out, located.log_name.as_bytes());
    out.push(b'\t');
    put_u64(out, position);
    out.push(b'\t');
    out.extend_from_slice(located.header.event_type.name().as_bytes());
    out.push(b'\t');
    put_u64(out, u64::from(located.header.server_id));
    out.push(b'\t');
    put_u64(out, u64::from(located.end_log_pos));
    out.push(b'\t');
    put_escaped(out, info);
    out.push(b'\n');
}

/// Appends text, with zero bytes, tabs, newlines and backslashes escaped.
pub(crate) fn put_escaped(out: &mut Vec<u8>, mut rest: &[u8]) {
    while let Some(plain) = rest.iter().position(|byte| matches!(byte, 0 | b'\t' | b'\n' | b'\\')) {
        out.extend_from_slice(&rest[..plain]);
        out.extend_from_slice(match rest[plain] {
            0 => b"\\0",
            b'\t' => b"\\t",
            b'\n' => b"\\n",
            _ => b"\\\\",
        });
        rest = &rest[plain + 1..];
    }
    out.extend_from_slice(rest);
}
