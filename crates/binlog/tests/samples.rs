//! Events of all sample logs decode, and encode to the same bytes.

mod common;

use std::collections::BTreeMap;

use bintide_binlog::{
    ChecksumAlgorithm, Event, EventChecksum, EventFlags, EventFormat, EventType, NextPosition, RawEvent,
};

use common::{for_each_event, for_each_event_deep, samples};

#[test]
fn every_event_encodes_to_its_original_bytes() {
    let mut seen: BTreeMap<EventType, u32> = BTreeMap::new();
    for sample in samples() {
        let torn = for_each_event_deep(&sample.bytes, |position, raw, format| {
            let event =
                raw.decode(format).unwrap_or_else(|error| panic!("{} {position}: {error}", sample.name));
            let mut body = Vec::new();
            event.encode(format, &mut body).unwrap();
            assert_eq!(body, raw.body(), "{} {position} {event:?}", sample.name);
            let mut whole = Vec::new();
            let next = NextPosition::Fixed(raw.header().next_position);
            event.write(raw.header().origin(), next, format, &mut whole).unwrap();
            assert_eq!(whole, raw.bytes(), "{} {position} {event:?}", sample.name);
            *seen.entry(event.event_type()).or_default() += 1;
        });
        assert_eq!(torn > 0, sample.is_torn(), "{}", sample.name);
    }
    let unseen: Vec<EventType> =
        EventType::ALL.iter().copied().filter(|event_type| !seen.contains_key(event_type)).collect();
    assert_eq!(unseen, NOT_IN_THE_SAMPLES);
}

/// Event types in no sample: obsolete, never in a file, or written only in replication groups or under settings that
/// the samples do not use.
const NOT_IN_THE_SAMPLES: &[EventType] = &[
    EventType::StartV3,
    EventType::Load,
    EventType::Slave,
    EventType::CreateFile,
    EventType::ExecLoad,
    EventType::NewLoad,
    EventType::PreGaWriteRows,
    EventType::PreGaUpdateRows,
    EventType::PreGaDeleteRows,
    EventType::Heartbeat,
    EventType::Ignorable,
    EventType::TransactionContext,
    EventType::ViewChange,
    EventType::HeartbeatV2,
    EventType::LargeTransactionHeader,
    EventType::MariadbStartEncryption,
    EventType::MariadbWriteRowsCompressed,
    EventType::MariadbUpdateRowsCompressed,
    EventType::MariadbDeleteRowsCompressed,
];

#[test]
fn checksums_and_positions_are_valid() {
    for sample in samples() {
        for_each_event(&sample.bytes, |position, raw, _| {
            assert_eq!(raw.verify(), Ok(()), "{} {position}", sample.name);
            let end = (position + raw.bytes().len()) as u32;
            if is_of_this_file(&sample.name, raw) {
                assert_eq!(raw.header().next_position, end, "{} {position}", sample.name);
            }
        });
    }
}

#[test]
fn inner_events_have_no_position_and_no_checksum() {
    let mut count = 0;
    for sample in samples() {
        for_each_event_deep(&sample.bytes, |position, raw, format| {
            if format.checksum == ChecksumAlgorithm::Off && raw.checksum() == EventChecksum::Absent {
                let is_inner =
                    position as u64 + u64::from(raw.header().size) != u64::from(raw.header().next_position);
                count += u32::from(is_inner);
                assert!(!is_inner || raw.header().next_position == 0, "{} {position}", sample.name);
            }
        });
    }
    assert!(count > 500, "only {count} events");
}

/// Checks whether the event has a position of this file. Most events of relay logs keep their position in the
/// source's log.
fn is_of_this_file(name: &str, raw: &RawEvent<'_>) -> bool {
    !name.contains("relay") || raw.header().flags.contains(EventFlags::RELAY_LOG)
}

#[test]
fn recomputed_transaction_sizes_equal_the_servers() {
    let mut count = 0;
    for sample in samples() {
        for_each_event(&sample.bytes, |position, raw, format| {
            count += u32::from(resettle(raw, format).unwrap_or_else(|| panic!("{} {position}", sample.name)));
        });
    }
    assert!(count > 500, "only {count} transactions");
}

/// Recomputes the transaction size of a GTID event, and returns true if it is unchanged; `Some(false)` for events
/// without a transaction size.
fn resettle(raw: &RawEvent<'_>, format: &EventFormat) -> Option<bool> {
    let checksum = raw.checksum();
    match raw.decode(format).ok()? {
        Event::Gtid(event) | Event::AnonymousGtid(event) => {
            let size = event.stamps?.transaction_size?;
            let mut again = event;
            again.settle_transaction_size(size - raw.bytes().len() as u64, checksum).ok()?;
            (again == event).then_some(true)
        }
        Event::GtidTagged(event) => {
            let size = event.stamps.transaction_size?;
            let mut again = event;
            again.settle_transaction_size(size - raw.bytes().len() as u64, checksum).ok()?;
            (again == event).then_some(true)
        }
        _ => Some(false),
    }
}

#[test]
fn checksums_can_be_added_to_a_log() {
    let sample = samples().into_iter().find(|sample| sample.name == "types-no-checksum.binlog").unwrap();
    let mut count = 0;
    for_each_event(&sample.bytes, |position, raw, _| {
        if raw.event_type() == EventType::FormatDescription {
            return;
        }
        let (mut with, mut without) = (Vec::new(), Vec::new());
        let (origin, next) = (raw.header().origin(), NextPosition::FromStart(position as u64));
        raw.rewrite(origin, next, EventChecksum::Crc32, &mut with).unwrap();
        let with = RawEvent::new(&with, EventChecksum::Crc32).unwrap();
        assert_eq!((with.verify(), with.body()), (Ok(()), raw.body()));
        with.rewrite(origin, next, EventChecksum::Absent, &mut without).unwrap();
        assert_eq!(without, raw.bytes());
        count += 1;
    });
    assert!(count > 100, "only {count} events");
}
