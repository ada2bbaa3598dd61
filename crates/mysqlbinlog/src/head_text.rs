//! Header lines, and the text of events that depends on no other event, so that any thread can write it.

use binlog::events::{LogicalClock, Query, StatusVar, StatusVars, TableMap};
use binlog::{Event, EventHeader, EventType};
use sql::numbers::{put_u32, put_u64};

use crate::decode::{LogFormat, VERSION_UNKNOWN, for_each_status_var};
use crate::dump_settings::DumpSettings;
use crate::event_text::{self, QueryNumbers, put};
use crate::gtid_text::{GtidName, GtidNumbers, GtidText};
use crate::hexdump::{HexdumpForm, put_hexdump};
use crate::local_time::LocalTime;
use crate::loose_table::loose_table;
use crate::table_metadata::put_table_metadata;
use crate::text_memo::TextMemo;

/// Writes heads: header lines and such text. Each thread has its own writer.
pub(crate) struct HeadText<'s> {
    settings: &'s DumpSettings,
    pub(crate) time: LocalTime,
    /// Start of the header line, by timestamp and server id.
    line_start: TextMemo<(u32, u32)>,
    gtid: GtidText,
    /// Rest of a statement's header line, by event type and numbers.
    query: TextMemo<(EventType, QueryNumbers)>,
    /// The last status variables without a transaction number.
    status_without_xid: Vec<u8>,
}

/// One event with its position and format.
#[derive(Clone, Copy)]
pub(crate) struct EventHead<'a> {
    pub(crate) bytes: &'a [u8],
    pub(crate) header: EventHeader,
    pub(crate) format: &'a LogFormat,
    /// Start of the event in its log.
    pub(crate) at: u64,
    /// Layout of the event under `--hexdump`.
    pub(crate) hexdump: HexdumpForm,
}

/// Support of a server version for the flag of generated invisible primary keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GeneratedKeys {
    Known,
    Unknown,
}

impl<'s> HeadText<'s> {
    pub(crate) fn new(settings: &'s DumpSettings) -> Self {
        Self {
            settings,
            time: LocalTime::new(settings.zone.clone()),
            line_start: TextMemo::default(),
            gtid: GtidText::default(),
            query: TextMemo::default(),
            status_without_xid: Vec::new(),
        }
    }

    /// Appends an event's header line up to the start of its own text.
    pub(crate) fn put_header(&mut self, out: &mut Vec<u8>, head: EventHead<'_>) {
        let (timestamp, server_id) = (head.header.timestamp, head.header.server_id);
        let front = self.line_start.text((timestamp, server_id), |out| {
            out.push(b'#');
            self.time.put_short(out, timestamp);
            out.extend_from_slice(b" server id ");
            put_u32(out, server_id & self.settings.common.server_id_mask);
            out.extend_from_slice(b"  end_log_pos ");
        });
        out.extend_from_slice(front);
        put_u32(out, head.header.next_position);
        out.push(b' ');
        if let Some(name) = head.format.checksum.name()
            && let Some(stored) = head.bytes.last_chunk()
        {
            out.extend_from_slice(name.as_bytes());
            put_checksum(out, *stored);
        }
        if self.settings.hexdump && head.at != 0 {
            put_hexdump(out, head.at, head.bytes, head.hexdump);
        }
    }

    /// Appends header line and text of the most frequent events: transaction begins and ends, table maps and rows. For
    /// a statement, ends before the session variables.
    pub(crate) fn put(
        &mut self,
        out: &mut Vec<u8>,
        head: EventHead<'_>,
        event: &Event<'_>,
        keys: GeneratedKeys,
    ) {
        let has_header = !self.settings.short_form;
        if has_header {
            self.put_header(out, head);
        }
        match event {
            Event::Gtid(_) | Event::AnonymousGtid(_) | Event::GtidTagged(_) => {
                self.put_gtid(out, head.header.event_type, event);
            }
            Event::Query(query) if has_header => self.put_query(out, query, head.header.event_type),
            Event::ExecuteLoadQuery(load) if has_header => {
                self.put_query(out, &load.query, head.header.event_type);
            }
            Event::Xid(xid) => {
                if has_header {
                    event_text::put_xid_line(out, xid.xid);
                }
                event_text::put_commit(out);
            }
            Event::TableMap(map) if has_header => self.put_table_map(out, map, keys),
            Event::WriteRows(rows)
            | Event::UpdateRows(rows)
            | Event::DeleteRows(rows)
            | Event::PartialUpdateRows(rows)
            | Event::WriteRowsV1(rows)
            | Event::UpdateRowsV1(rows)
            | Event::DeleteRowsV1(rows)
                if has_header =>
            {
                event_text::put_rows_line(out, head.header.event_type, rows.table_id, rows.flags);
            }
            _ => {}
        }
    }

    fn put_gtid(&mut self, out: &mut Vec<u8>, event_type: EventType, event: &Event<'_>) {
        let (name, number, flags, clock, stamps) = match event {
            Event::Gtid(event) | Event::AnonymousGtid(event) => {
                let name = if event_type == EventType::AnonymousGtid {
                    GtidName::Anonymous
                } else {
                    // The invalid tag of a tagged GTID.
                    GtidName::new(event.uuid, event.rest)
                };
                (name, event.gno, event.flags.into(), event.clock, event.stamps)
            }
            Event::GtidTagged(event) => {
                let name = GtidName::new(event.uuid, event.tag.as_str().as_bytes());
                (name, event.gno, event.flags, Some(event.clock), Some(event.stamps))
            }
            _ => return,
        };
        let numbers = GtidNumbers {
            number,
            may_have_statements: flags & 1 != 0,
            clock: clock.unwrap_or(LogicalClock { last_committed: 0, sequence_number: 0 }),
            stamps: stamps.unwrap_or_default(),
        };
        if !self.settings.short_form {
            numbers.put_line(out, &name);
        }
        self.gtid.put_settings(out, name, &numbers, &mut self.time);
    }

    fn put_query(&mut self, out: &mut Vec<u8>, query: &Query<'_>, event_type: EventType) {
        let (thread_id, exec_time, error_code) = (query.thread_id, query.exec_time, query.error_code);
        let xid = self.xid(query.status);
        let numbers = QueryNumbers { thread_id, exec_time, error_code, xid };
        let line = self
            .query
            .text((event_type, numbers), |out| event_text::put_query_line(out, event_type, numbers));
        out.extend_from_slice(line);
    }

    /// Returns the transaction number of a statement that commits by itself.
    fn xid(&mut self, status: StatusVars<'_>) -> Option<u64> {
        if self.status_without_xid == status.bytes {
            return None;
        }
        let mut xid = None;
        for_each_status_var(status, |variable| {
            if let StatusVar::DdlXid(number) = variable {
                xid = Some(number);
            }
        });
        if xid.is_none() {
            self.status_without_xid.clear();
            self.status_without_xid.extend_from_slice(status.bytes);
        }
        xid
    }

    fn put_table_map(&self, out: &mut Vec<u8>, map: &TableMap<'_>, keys: GeneratedKeys) {
        put(out, &[b"\tTable_map: `", map.database, b"`.`", map.table, b"` mapped to number "]);
        put_u64(out, map.table_id);
        out.push(b'\n');
        if keys == GeneratedKeys::Known {
            let is_generated = map.flags & TableMap::GENERATED_INVISIBLE_PRIMARY_KEY != 0;
            let value: &[u8] = if is_generated { b"1\n" } else { b"0\n" };
            put(out, &[b"# has_generated_invisible_primary_key=", value]);
        }
        if self.settings.print_table_metadata
            && let Some(table) = loose_table(map)
        {
            put_table_metadata(out, &table);
        }
    }
}

impl GeneratedKeys {
    /// First server version that sets the flag.
    const KNOWN_SINCE: u32 = 80_030;

    /// Returns the value for transactions of a server version.
    pub(crate) fn of_version(version: u32) -> Self {
        match version >= Self::KNOWN_SINCE && version != VERSION_UNKNOWN {
            true => Self::Known,
            false => Self::Unknown,
        }
    }
}

fn put_checksum(out: &mut Vec<u8>, stored: [u8; 4]) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = *b" 0x........ ";
    for (slot, byte) in text[3..11].as_chunks_mut::<2>().0.iter_mut().zip(stored.iter().rev()) {
        *slot = [DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]];
    }
    out.extend_from_slice(&text);
}
