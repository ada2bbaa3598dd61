//! Events that begin a transaction.

use binlog::EventType;
use binlog::events::{CommitStamps, GtidEvent, GtidLayout, LogicalClock};
use binlog::gtid::Uuid;

use super::event_cursor::EventCursor;
use super::{EventLayout, VERSION_UNKNOWN};

/// Typecode before a logical clock.
const CLOCK_TYPECODE: u8 = 2;

/// Bit 55 of the first commit time: a second commit time follows.
const COMMIT_TIME_FOLLOWS: u64 = 1 << 55;

/// Bit 31 of the first version: a second version follows.
const VERSION_FOLLOWS: u32 = 1 << 31;

pub(super) fn gtid<'a>(fields: &mut EventCursor<'a>, sizes: EventLayout<'_>) -> Option<GtidEvent<'a>> {
    let flags = fields.u8()?;
    let uuid = Uuid::from_bytes(*fields.array()?);
    let gno = fields.u64()?.cast_signed();
    let is_valid = match sizes.event_type {
        EventType::Gtid => gno > 0 && gno < i64::MAX,
        _ => gno == 0,
    };
    if !is_valid {
        return None;
    }
    let (mut clock, mut stamps) = (None, stamps_before_8_0_1());
    if fields.remaining() > 0 && fields.u8()? == CLOCK_TYPECODE {
        let (last_committed, sequence_number) = (fields.u64()?, fields.u64()?);
        clock = Some(LogicalClock {
            last_committed: last_committed.cast_signed(),
            sequence_number: sequence_number.cast_signed(),
        });
        if fields.remaining() >= 7 {
            stamps = read_stamps(fields)?;
        }
    }
    let (stamps, layout) = (Some(stamps), GtidLayout::default());
    Some(GtidEvent { flags, uuid, gno, clock, stamps, layout, rest: &[] })
}

/// Returns the stamps for servers before 8.0.1, which write none: version 0. Servers 8.0.1 to 8.0.13 write stamps
/// without versions; those count as unknown.
fn stamps_before_8_0_1() -> CommitStamps {
    CommitStamps {
        immediate_server_version: Some(0),
        original_server_version: Some(0),
        ..CommitStamps::default()
    }
}

fn read_stamps(fields: &mut EventCursor<'_>) -> Option<CommitStamps> {
    let first = fields.u56()?;
    let immediate_commit_us = first & !COMMIT_TIME_FOLLOWS;
    let original_commit_us =
        if first & COMMIT_TIME_FOLLOWS != 0 { fields.u56()? } else { immediate_commit_us };
    let transaction_size = if fields.remaining() > 0 { Some(fields.lenenc()?) } else { None };
    let (mut immediate, mut original, mut commit_group_ticket) = (VERSION_UNKNOWN, VERSION_UNKNOWN, None);
    if fields.remaining() >= 4 {
        let first = fields.u32()?;
        immediate = first & !VERSION_FOLLOWS;
        original = if first & VERSION_FOLLOWS != 0 { fields.u32()? } else { immediate };
        commit_group_ticket = if fields.remaining() >= 8 { Some(fields.u64()?) } else { None };
    }
    Some(CommitStamps {
        immediate_commit_us,
        original_commit_us,
        transaction_size,
        immediate_server_version: Some(immediate),
        original_server_version: Some(original),
        commit_group_ticket,
    })
}
