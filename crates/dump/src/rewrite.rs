//! Puts another name in place of a database's, in an event's bytes.

use std::collections::BTreeMap;

use binlog::{Checksum, EventType, HEADER_SIZE};

use crate::decode::LogFormat;

/// What a database's name becomes.
pub(crate) type Rules = BTreeMap<Vec<u8>, Vec<u8>>;

/// The event is too short for what stands in front of its database.
pub(crate) struct TooShort;

/// Where an event has its database.
struct Place {
    size_at: usize,
    name_at: usize,
}

/// Bytes in front of a statement's status variables, in the fixed part: then two bytes say how many those are.
const STATUS_SIZE_AT: usize = 11;

/// The byte of a statement's fixed part that is the size of its database's name.
const DATABASE_SIZE_AT: usize = 8;

/// What LOAD DATA has behind the fixed part of its statement.
const LOAD_EXTRA_SIZE: usize = 13;

/// The event with another database, if a rule says so.
pub(crate) fn rewrite(event: &[u8], format: &LogFormat, rules: &Rules) -> Result<Option<Vec<u8>>, TooShort> {
    if rules.is_empty() {
        return Ok(None);
    }
    let Some(place) = find(event, format)? else { return Ok(None) };
    let Some(size) = event.get(place.size_at) else { return Ok(None) };
    let end = place.name_at + usize::from(*size);
    let Some(name) = event.get(place.name_at..end) else { return Ok(None) };
    let Some(to) = rules.get(name) else { return Ok(None) };
    let mut out = [&event[..place.name_at], to, &event[end..]].concat();
    out[place.size_at] = to.len() as u8;
    let whole = (out.len() as u32).to_le_bytes();
    out[9..13].copy_from_slice(&whole);
    if format.checksum.for_events() == Checksum::Crc32
        && let Some(covered) = out.len().checked_sub(4)
    {
        let checksum = crc32fast::hash(&out[..covered]);
        out[covered..].copy_from_slice(&checksum.to_le_bytes());
    }
    Ok(Some(out))
}

fn find(event: &[u8], format: &LogFormat) -> Result<Option<Place>, TooShort> {
    let event_type = EventType::from_code(event.get(4).copied().unwrap_or(0));
    let fixed = |event_type| format.fixed_size(event_type);
    match event_type {
        EventType::TableMap => {
            let size_at = HEADER_SIZE + fixed(event_type);
            Ok(Some(Place { size_at, name_at: size_at + 1 }))
        }
        EventType::Query | EventType::ExecuteLoadQuery => {
            let fixed = fixed(EventType::Query);
            if event.len() < HEADER_SIZE + fixed {
                return Err(TooShort);
            }
            let status_at = HEADER_SIZE + STATUS_SIZE_AT;
            let status = match event.get(status_at..status_at + 2) {
                Some(size) if fixed > STATUS_SIZE_AT => usize::from(u16::from_le_bytes([size[0], size[1]])),
                _ => 0,
            };
            let mut name_at = HEADER_SIZE + fixed + status;
            if name_at > event.len() {
                return Err(TooShort);
            }
            if event_type == EventType::ExecuteLoadQuery {
                name_at += LOAD_EXTRA_SIZE;
            }
            Ok(Some(Place { size_at: HEADER_SIZE + DATABASE_SIZE_AT, name_at }))
        }
        _ => Ok(None),
    }
}
