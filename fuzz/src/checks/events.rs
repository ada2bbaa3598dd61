//! Event bodies: a decoded body encodes to one that decodes to the same.
//!
//! The bytes are equal only for bodies as servers write them, because other encodings of a number can be longer
//! than needed.

use binlog::{Event, EventChecksum, EventFormat, HEADER_SIZE, RawEvent};

use crate::seeds::{Sample, format_of, raw_events};

/// Maximum size of a seed, in bytes.
const SEED_SIZE_MAX: usize = 512;

pub(super) fn seeds(sample: &Sample) -> Vec<Vec<u8>> {
    let small = |raw: &RawEvent<'_>| raw.bytes().len() <= SEED_SIZE_MAX;
    raw_events(sample).filter(small).map(|raw| without_checksum(&raw)).collect()
}

/// Checks `bytes`, one event without a checksum; the size in its header is ignored.
pub(super) fn check(bytes: &[u8]) {
    let Some(sized) = with_size(bytes) else { return };
    let Ok(raw) = RawEvent::new(&sized, EventChecksum::Absent) else { return };
    for format in [format_of("9.7.4", 8), format_of("5.1.5", 6), format_of("10.11.6-MariaDB", 8)] {
        check_as(&raw, &format);
    }
}

fn check_as(raw: &RawEvent<'_>, format: &EventFormat) {
    let Ok(event) = raw.decode(format) else { return };
    walk(&event);
    let again = encode(&event, raw, format);
    let raw_again = RawEvent::new(&again, EventChecksum::Absent).expect("the encoded bytes are one event");
    let event_again = raw_again.decode(format).expect("the encoded event decodes");
    assert_eq!(event_again, event);
    assert_eq!(encode(&event_again, raw, format), again, "{event:?}");
}

/// Returns the event with this body and the header of `raw`.
fn encode(event: &Event<'_>, raw: &RawEvent<'_>, format: &EventFormat) -> Vec<u8> {
    let mut bytes = raw.bytes()[..HEADER_SIZE].to_vec();
    event.encode(format, &mut bytes).expect("a decoded event encodes");
    with_size(&bytes).expect("the event has a header")
}

/// Decodes the parts that are decoded on demand.
fn walk(event: &Event<'_>) {
    match event {
        Event::Query(query) => drop(query.status.iter().count()),
        Event::ExecuteLoadQuery(load) => drop(load.query.status.iter().count()),
        Event::MariadbGtidList(list) => drop(list.iter().count()),
        Event::MariadbGtid(gtid) => drop(gtid.details()),
        Event::Gtid(gtid) | Event::AnonymousGtid(gtid) => drop(gtid.gtid()),
        _ => {}
    }
}

fn without_checksum(raw: &RawEvent<'_>) -> Vec<u8> {
    raw.bytes()[..raw.bytes().len() - raw.checksum().size()].to_vec()
}

/// Returns the event with the correct size in its header.
fn with_size(bytes: &[u8]) -> Option<Vec<u8>> {
    let size = u32::try_from(bytes.len()).ok()?;
    let mut sized = bytes.to_vec();
    sized.get_mut(..HEADER_SIZE)?[9..13].copy_from_slice(&size.to_le_bytes());
    Some(sized)
}
