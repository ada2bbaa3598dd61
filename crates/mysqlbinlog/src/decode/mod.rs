//! Decodes events as mysqlbinlog does.
//!
//! These rules decide where a dump of a damaged log ends, and what it prints before. They ignore much that no server
//! writes: bytes after an event's last field, names without a terminating zero.
//!
//! | module | events |
//! |---|---|
//! | [`control`] | about logs, groups and the ends of transactions |
//! | [`event_cursor`] | none: the cursor that all others use |
//! | [`format`](mod@format) | format descriptions |
//! | [`gtid`] | that begin a transaction |
//! | [`rows`] | tables and rows |
//! | [`statement`] | statements and the variables that they use |
//! | [`tagged_gtid`] | that begin a transaction with a tagged GTID |

mod control;
mod event_cursor;
mod format;
mod gtid;
mod rows;
mod statement;
mod tagged_gtid;

use binlog::events::{LoadBlock, Stop, Unknown};
use binlog::{Event, EventChecksum, EventFlags, EventHeader, EventType};

use self::event_cursor::EventCursor;
pub(crate) use self::format::{LogFormat, checksum_matches, read_format};
pub(crate) use self::statement::{for_each_status_var, status_is_valid};

/// The server's version if no event gives it.
pub(crate) const VERSION_UNKNOWN: u32 = 999_999;

/// Decodes one whole event; `None` if mysqlbinlog calls it invalid.
///
/// Does not decode a statement's status variables: see [`status_is_valid`].
pub(crate) fn decode<'a>(
    bytes: &'a [u8],
    header: &EventHeader,
    checksum: EventChecksum,
    format: &LogFormat,
) -> Option<Event<'a>> {
    let event_type = header.event_type;
    let sizes = EventLayout { format, event_type };
    let Some(mut fields) = EventCursor::of_event(bytes, checksum) else {
        // Too short for its checksum. mysqlbinlog accepts that for types without fields.
        return match event_type {
            EventType::Stop => Some(Event::Stop(Stop)),
            other => ignorable(other, header, &[]),
        };
    };
    Some(match event_type {
        EventType::Query => Event::Query(statement::query(&mut fields, sizes)?),
        EventType::Stop => Event::Stop(Stop),
        EventType::Rotate => Event::Rotate(control::rotate(&mut fields, sizes)?),
        EventType::Intvar => Event::Intvar(statement::intvar(&mut fields, sizes)?),
        EventType::AppendBlock => Event::AppendBlock(load_block(&mut fields)?),
        EventType::DeleteFile => Event::DeleteFile(control::delete_file(&mut fields)?),
        EventType::Rand => Event::Rand(statement::rand(&mut fields, sizes)?),
        EventType::UserVar => Event::UserVar(statement::user_var(&mut fields, sizes)?),
        EventType::FormatDescription => Event::FormatDescription(read_format(bytes).ok()?.0),
        EventType::Xid => Event::Xid(control::xid(&mut fields, sizes)?),
        EventType::BeginLoadQuery => Event::BeginLoadQuery(load_block(&mut fields)?),
        EventType::ExecuteLoadQuery => Event::ExecuteLoadQuery(statement::load_query(&mut fields, sizes)?),
        EventType::TableMap => Event::TableMap(rows::table_map(&mut fields, sizes)?),
        EventType::Incident => Event::Incident(control::incident(&mut fields)?),
        EventType::RowsQuery => Event::RowsQuery(rows::rows_query(&mut fields, sizes)?),
        EventType::WriteRowsV1 => Event::WriteRowsV1(rows::rows(&mut fields, sizes)?),
        EventType::UpdateRowsV1 => Event::UpdateRowsV1(rows::rows(&mut fields, sizes)?),
        EventType::DeleteRowsV1 => Event::DeleteRowsV1(rows::rows(&mut fields, sizes)?),
        EventType::WriteRows => Event::WriteRows(rows::rows(&mut fields, sizes)?),
        EventType::UpdateRows => Event::UpdateRows(rows::rows(&mut fields, sizes)?),
        EventType::DeleteRows => Event::DeleteRows(rows::rows(&mut fields, sizes)?),
        EventType::PartialUpdateRows => Event::PartialUpdateRows(rows::rows(&mut fields, sizes)?),
        EventType::Gtid => Event::Gtid(gtid::gtid(&mut fields, sizes)?),
        EventType::AnonymousGtid => Event::AnonymousGtid(gtid::gtid(&mut fields, sizes)?),
        EventType::GtidTagged => return tagged_gtid::tagged(bytes, sizes),
        EventType::PreviousGtids => Event::PreviousGtids(control::previous_gtids(&mut fields, sizes)?),
        EventType::TransactionContext => {
            Event::TransactionContext(control::transaction_context(&mut fields)?)
        }
        EventType::ViewChange => Event::ViewChange(control::view_change(&mut fields)?),
        EventType::XaPrepare => Event::XaPrepare(control::xa_prepare(&mut fields, sizes)?),
        EventType::TransactionPayload => Event::TransactionPayload(control::payload(&mut fields)?),
        other => return ignorable(other, header, fields.take_rest()),
    })
}

/// Decodes a row event of version 1 as mysqlbinlog 9.7 does, which no longer knows the type.
pub(crate) fn rows_v1_as_unknown(header: &EventHeader) -> Option<Event<'static>> {
    ignorable(header.event_type, header, &[])
}

/// Returns an event of a type that mysqlbinlog 9.7 does not know, if its header has the flag IGNORABLE.
fn ignorable<'a>(event_type: EventType, header: &EventHeader, body: &'a [u8]) -> Option<Event<'a>> {
    let is_known = matches!(event_type.code(), 2..=5 | 9 | 11 | 13..=19 | 26 | 29..=40 | 42);
    let can_be_ignored = !is_known && header.flags.contains(EventFlags::IGNORABLE);
    can_be_ignored.then(|| Event::Unknown(Unknown { code: event_type.code(), body }))
}

/// Returns whether the event has unknown fields that its reader must know.
pub(crate) fn is_from_future(bytes: &[u8], format: &LogFormat) -> bool {
    let is_tagged = bytes.get(4) == Some(&EventType::GtidTagged.code());
    is_tagged && tagged_gtid::is_from_future(bytes, format)
}

/// Format description and event type, for the sizes that the description gives.
#[derive(Clone, Copy)]
struct EventLayout<'f> {
    format: &'f LogFormat,
    event_type: EventType,
}

impl EventLayout<'_> {
    /// Returns the size of the fixed part of the event's body, in bytes.
    fn fixed_size(self) -> usize {
        self.format.fixed_size(self.event_type)
    }
}

fn load_block<'a>(fields: &mut EventCursor<'a>) -> Option<LoadBlock<'a>> {
    Some(LoadBlock { file_id: fields.u32()?, block: fields.take_rest() })
}
