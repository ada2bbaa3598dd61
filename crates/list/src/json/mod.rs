//! `--json`: one JSON line per event. `docs/reference/dump-json.md` describes the format.

mod body;
pub(crate) mod rows;
mod session;
mod table;
pub(crate) mod writer;

use binlog::{DecodeError, EventFlags, TransactionId};

use self::rows::{LineMatch, MemberNameCache};
use self::writer::{JsonObject, put_flags, put_string};
use super::event_context::EventContext;
use super::event_selection::EventSelection;
use crate::list_output::ListOutput;
use crate::located_event::{ListedEvent, LocatedEvent, OutputRefusal};

/// Writes one JSON line per event.
pub(crate) struct JsonLines<'s> {
    pub(crate) select: &'s EventSelection,
}

/// Text that a worker keeps from line to line.
#[derive(Default)]
pub(crate) struct JsonWorker {
    /// Transaction of the last line; `id_text` is its identifier as a JSON string.
    id: Option<TransactionId>,
    id_text: Vec<u8>,
    /// Log of the last line; `log_name_text` is its name as a JSON string.
    log_name: String,
    log_name_text: Vec<u8>,
    names: MemberNameCache,
}

impl ListOutput for JsonLines<'_> {
    type ListWorker = JsonWorker;
    type Part = Vec<u8>;

    fn worker(&self) -> JsonWorker {
        JsonWorker::default()
    }

    fn put(
        &self,
        worker: &mut JsonWorker,
        context: &mut EventContext,
        listed: ListedEvent<'_>,
        part: &mut Vec<u8>,
    ) -> Result<(), OutputRefusal> {
        let ListedEvent { located, event } = listed;
        if !self.select.selects(context, located, event)? {
            return Ok(());
        }
        let start = part.len();
        worker.remember(context, located);
        let put = worker.put_line(self.select, context, listed, part);
        if !matches!(put, Ok(LineMatch::Something)) {
            part.truncate(start);
        }
        put.map(drop)
    }

    fn put_damaged(
        &self,
        context: &EventContext,
        located: &LocatedEvent<'_>,
        error: DecodeError,
        part: &mut Vec<u8>,
    ) {
        let mut worker = JsonWorker::default();
        worker.remember(context, located);
        let mut line = JsonObject::open(part);
        worker.put_head(located, &mut line);
        line.text("error", error.to_string());
        if let Some(raw) = located.raw {
            line.bytes("body", raw.body());
        }
        line.close();
        part.push(b'\n');
    }

    fn size(part: &Vec<u8>) -> usize {
        part.len()
    }
}

impl JsonWorker {
    /// Updates the text that many lines share.
    fn remember(&mut self, context: &EventContext, located: &LocatedEvent<'_>) {
        if self.log_name != located.log_name || self.log_name_text.is_empty() {
            located.log_name.clone_into(&mut self.log_name);
            self.log_name_text.clear();
            put_string(&mut self.log_name_text, located.log_name);
        }
        if self.id != context.id {
            self.id = context.id;
            self.id_text.clear();
            if let Some(id) = context.id {
                put_string(&mut self.id_text, &id.to_string());
            }
        }
    }

    fn put_line(
        &mut self,
        select: &EventSelection,
        context: &mut EventContext,
        listed: ListedEvent<'_>,
        part: &mut Vec<u8>,
    ) -> Result<LineMatch, OutputRefusal> {
        let mut line = JsonObject::open(part);
        self.put_head(listed.located, &mut line);
        let found = body::put(&mut line, &mut self.names, select, context, listed)?;
        line.close();
        part.push(b'\n');
        Ok(found)
    }

    /// Writes the members that every line has.
    fn put_head(&self, located: &LocatedEvent<'_>, line: &mut JsonObject<'_>) {
        let header = &located.header;
        line.value("log_name").extend_from_slice(&self.log_name_text);
        line.uint("pos", located.position);
        line.uint("end_log_pos", located.end_log_pos);
        if let Some(inner) = located.inner {
            let mut inner_object = line.object("inner");
            inner_object.uint("number", inner.number);
            inner_object.uint("offset", inner.offset);
            inner_object.close();
        }
        line.plain("event_type", header.event_type.name());
        if let binlog::EventType::Unknown(code) = header.event_type {
            line.uint("type_code", code);
        }
        line.uint("timestamp", header.timestamp);
        line.time("time", u64::from(header.timestamp));
        line.uint("server_id", header.server_id);
        line.uint("size", header.size);
        if header.flags.0 != 0 {
            put_flags(line, "header_flags", &HEADER_FLAGS, header.flags.0);
        }
        if let Some(checksum) = located.raw.and_then(|raw| raw.checksum_stored()) {
            line.hex("checksum", checksum);
        }
        if !self.id_text.is_empty() {
            line.value("gtid").extend_from_slice(&self.id_text);
        }
    }
}

/// Flags of headers, by their names in the server's source code.
const HEADER_FLAGS: [(u16, &str); 10] = [
    (EventFlags::IN_USE.0, "IN_USE"),
    (EventFlags::FORCED_ROTATE.0, "FORCED_ROTATE"),
    (EventFlags::THREAD_SPECIFIC.0, "THREAD_SPECIFIC"),
    (EventFlags::SUPPRESS_USE.0, "SUPPRESS_USE"),
    (EventFlags::UPDATE_TABLE_MAP_VERSION.0, "UPDATE_TABLE_MAP_VERSION"),
    (EventFlags::ARTIFICIAL.0, "ARTIFICIAL"),
    (EventFlags::RELAY_LOG.0, "RELAY_LOG"),
    (EventFlags::IGNORABLE.0, "IGNORABLE"),
    (EventFlags::NO_FILTER.0, "NO_FILTER"),
    (EventFlags::MTS_ISOLATE.0, "MTS_ISOLATE"),
];
