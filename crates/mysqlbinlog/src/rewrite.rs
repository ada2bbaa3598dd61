//! Renames databases in the bytes of events.

use std::collections::BTreeMap;

use binlog::events::{PayloadCompression, TransactionPayload};
use binlog::{
    CompressError, Cursor, Event, EventChecksum, EventHeader, EventType, HEADER_SIZE, PayloadError,
    PayloadOpener, PayloadWriter, ZstdLevel,
};

use crate::decode::{LogFormat, decode};

/// Old and new names of databases.
pub(crate) type DatabaseRewrites = BTreeMap<Vec<u8>, Vec<u8>>;

/// Error: the event is shorter than the fields before its database.
pub(crate) struct EventTooShort;

/// Offsets of the database's name in an event.
struct DatabaseOffsets {
    size_at: usize,
    name_at: usize,
}

/// Offset of the status variables' size in the fixed part of a statement. The size has two bytes.
const STATUS_SIZE_OFFSET: usize = 11;

/// Offset of the size of the database's name in the fixed part of a statement.
const DATABASE_SIZE_OFFSET: usize = 8;

/// Size of the fields that LOAD DATA has after the fixed part of its statement.
const LOAD_EXTRA_SIZE: usize = 13;

/// Returns the event with another database, if a rule applies.
pub(crate) fn rewrite(
    event: &[u8],
    format: &LogFormat,
    rules: &DatabaseRewrites,
) -> Result<Option<Vec<u8>>, EventTooShort> {
    if rules.is_empty() {
        return Ok(None);
    }
    let Some(database) = find_database(event, format)? else { return Ok(None) };
    let Some(size) = event.get(database.size_at) else { return Ok(None) };
    let end = database.name_at + usize::from(*size);
    let Some(name) = event.get(database.name_at..end) else { return Ok(None) };
    let Some(to) = rules.get(name) else { return Ok(None) };
    let mut out = [&event[..database.name_at], to, &event[end..]].concat();
    out[database.size_at] = to.len() as u8;
    fix_size_and_checksum(&mut out, format);
    Ok(Some(out))
}

/// Updates the event's size in its header, and its checksum.
fn fix_size_and_checksum(event: &mut [u8], format: &LogFormat) {
    let whole = (event.len() as u32).to_le_bytes();
    event[EVENT_SIZE_OFFSET..EVENT_SIZE_OFFSET + whole.len()].copy_from_slice(&whole);
    if format.checksum.for_events() == EventChecksum::Crc32
        && let Some((covered, checksum)) = event.split_last_chunk_mut::<4>()
    {
        *checksum = crc32fast::hash(covered).to_le_bytes();
    }
}

/// Offset of the event's size in its header.
const EVENT_SIZE_OFFSET: usize = 9;

/// Error: the payload, or an event inside it, cannot be rewritten.
pub(crate) struct RewriteFailure;

impl From<EventTooShort> for RewriteFailure {
    fn from(_: EventTooShort) -> Self {
        Self
    }
}

impl From<PayloadError> for RewriteFailure {
    fn from(_: PayloadError) -> Self {
        Self
    }
}

impl From<CompressError> for RewriteFailure {
    fn from(_: CompressError) -> Self {
        Self
    }
}

/// Returns the event for `--raw`, with renamed databases, also inside a payload. Like mysqlbinlog, it compresses every
/// payload again, and does not change positions or the transaction sizes in GTID events.
pub(crate) fn rewrite_raw(
    event: &[u8],
    format: &LogFormat,
    rules: &DatabaseRewrites,
    opener: &mut PayloadOpener,
) -> Result<Option<Vec<u8>>, RewriteFailure> {
    if rules.is_empty() {
        return Ok(None);
    }
    let header = EventHeader::decode(&mut Cursor::new(event)).map_err(|_| RewriteFailure)?;
    if header.event_type != EventType::TransactionPayload {
        return Ok(rewrite(event, format, rules)?);
    }
    let decoded = decode(event, &header, format.checksum.for_events(), format).ok_or(RewriteFailure)?;
    let Event::TransactionPayload(payload) = decoded else { return Err(RewriteFailure) };
    let (fields, frame) = rewrite_payload(&payload, format, rules, opener)?;
    let checksum = vec![0; format.checksum.for_events().size()];
    let mut out = [&event[..HEADER_SIZE], &fields, &frame, &checksum].concat();
    fix_size_and_checksum(&mut out, format);
    Ok(Some(out))
}

/// Returns the fields before the rewritten payload, and the payload.
fn rewrite_payload(
    payload: &TransactionPayload<'_>,
    format: &LogFormat,
    rules: &DatabaseRewrites,
    opener: &mut PayloadOpener,
) -> Result<(Vec<u8>, Vec<u8>), RewriteFailure> {
    let inside = format.inside_payload();
    let mut events = opener.open(payload)?;
    let mut writer = PayloadWriter::new(ZstdLevel::DEFAULT)?;
    writer.begin_unsized()?;
    let (mut plain, mut size) = (Vec::new(), 0);
    while let Some(event) = events.next_event()? {
        let rewritten = rewrite(event.bytes(), &inside, rules)?;
        let bytes = rewritten.as_deref().unwrap_or(event.bytes());
        size += bytes.len() as u64;
        match payload.compression {
            PayloadCompression::Zstd => writer.push(bytes)?,
            _ => plain.extend_from_slice(bytes),
        }
    }
    let frame = match payload.compression {
        PayloadCompression::Zstd => writer.finish()?.to_vec(),
        _ => plain,
    };
    let fields = TransactionPayload::encode_fields(payload.compression, frame.len() as u64, Some(size));
    Ok((fields, frame))
}

fn find_database(event: &[u8], format: &LogFormat) -> Result<Option<DatabaseOffsets>, EventTooShort> {
    let event_type = EventType::from_code(event.get(4).copied().unwrap_or(0));
    let fixed = |event_type| format.fixed_size(event_type);
    match event_type {
        EventType::TableMap => {
            let size_at = HEADER_SIZE + fixed(event_type);
            Ok(Some(DatabaseOffsets { size_at, name_at: size_at + 1 }))
        }
        EventType::Query | EventType::ExecuteLoadQuery => {
            let fixed = fixed(EventType::Query);
            if event.len() < HEADER_SIZE + fixed {
                return Err(EventTooShort);
            }
            let status_at = HEADER_SIZE + STATUS_SIZE_OFFSET;
            let status = match event.get(status_at..status_at + 2) {
                Some(size) if fixed > STATUS_SIZE_OFFSET => {
                    usize::from(u16::from_le_bytes([size[0], size[1]]))
                }
                _ => 0,
            };
            let mut name_at = HEADER_SIZE + fixed + status;
            if name_at > event.len() {
                return Err(EventTooShort);
            }
            if event_type == EventType::ExecuteLoadQuery {
                name_at += LOAD_EXTRA_SIZE;
            }
            Ok(Some(DatabaseOffsets { size_at: HEADER_SIZE + DATABASE_SIZE_OFFSET, name_at }))
        }
        _ => Ok(None),
    }
}
