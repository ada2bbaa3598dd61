//! What a format description must say.

use binlog::events::FormatDescription;
use binlog::{EventType, Header};

/// Sizes of the fixed parts of bodies that readers go by, and no server has written others.
const POST_HEADER_SIZES: [(EventType, &[u8]); 12] = [
    (EventType::Query, &[13]),
    (EventType::Rotate, &[8]),
    (EventType::TableMap, &[6, 8]),
    (EventType::WriteRowsV1, &[0, 6, 8]),
    (EventType::UpdateRowsV1, &[0, 6, 8]),
    (EventType::DeleteRowsV1, &[0, 6, 8]),
    (EventType::WriteRows, &[10]),
    (EventType::UpdateRows, &[10]),
    (EventType::DeleteRows, &[10]),
    (EventType::Gtid, &[0, 25, 42]),
    (EventType::AnonymousGtid, &[0, 25, 42]),
    (EventType::PartialUpdateRows, &[0, 10]),
];

/// What is wrong with a format description that could be read.
pub(crate) fn faults(header: &Header, description: &FormatDescription<'_>) -> Vec<String> {
    let mut faults = Vec::new();
    let version = description.version();
    if version.is_empty() || !version.iter().all(u8::is_ascii_graphic) {
        let found = String::from_utf8_lossy(version);
        faults.push(format!("the server's version is {found:?}, wanted one like 8.0.43"));
    }
    let created = description.created;
    if created != 0 && created != header.timestamp {
        let wanted = header.timestamp;
        faults
            .push(format!("the server's start is at {created}, wanted 0 or the event's own time, {wanted}"));
    }
    for (event_type, wanted) in POST_HEADER_SIZES {
        let index = usize::from(event_type.code()) - 1;
        let Some(found) = description.post_header_sizes.get(index) else { continue };
        if !wanted.contains(found) {
            let name = event_type.name();
            faults
                .push(format!("the fixed part of {name} events has {found} bytes, wanted one of {wanted:?}"));
        }
    }
    faults
}
