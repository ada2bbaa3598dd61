//! Boundaries and outlines of the transactions in all sample logs.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use bintide_binlog::{
    AssembleError, Event, EventChecksum, EventFormat, EventPlace, EventRole, EventType, GrammarLoss,
    PayloadOpener, RawEvent, TrackError, Transaction, TransactionAssembler, TransactionGrammar,
    TransactionOutline, TransactionTracker,
};

use common::{Sample, for_each_event, samples};

/// Returns the outlines of a sample's transactions; panics on any fault.
fn outlines(tracker: &mut TransactionTracker, sample: &Sample) -> Vec<TransactionOutline> {
    let mut outlines = Vec::new();
    for_each_event(&sample.bytes, |position, raw, format| {
        let tracked = tracker.track(position as u64, raw, format);
        let tracked = tracked.unwrap_or_else(|error| panic!("{} {position}: {error}", sample.name));
        outlines.extend(tracked.ended);
    });
    outlines
}

#[test]
fn transactions_have_their_stated_sizes() {
    let mut count = 0;
    for sample in samples() {
        let mut tracker = TransactionTracker::new();
        for outline in outlines(&mut tracker, &sample) {
            let size = outline.stamps.and_then(|stamps| stamps.transaction_size);
            assert_eq!(outline.size, size.unwrap_or(outline.size), "{} {outline:?}", sample.name);
            count += u32::from(size.is_some());
        }
        assert_eq!(tracker.open().is_some(), sample.is_torn(), "{}", sample.name);
    }
    assert!(count > 500, "only {count} transactions");
}

#[test]
fn every_announced_transaction_ends() {
    for sample in samples() {
        let mut announced = 0;
        for_each_event(&sample.bytes, |_, raw, format| {
            let role = EventRole::of(raw, format).unwrap();
            announced += usize::from(matches!(role, EventRole::Gtid | EventRole::GtidAndBegin));
        });
        let ended = outlines(&mut TransactionTracker::new(), &sample).len() + usize::from(sample.is_torn());
        assert_eq!(ended, announced, "{}", sample.name);
    }
}

#[test]
fn kinds_of_transactions() {
    let kinds = |name: &str| {
        let mut kinds: BTreeMap<String, u32> = BTreeMap::new();
        let sample = samples().into_iter().find(|sample| sample.name == name).unwrap();
        for outline in outlines(&mut TransactionTracker::new(), &sample) {
            *kinds.entry(format!("{:?}", outline.kind)).or_default() += 1;
        }
        kinds.into_iter().map(|(kind, count)| format!("{kind} {count}")).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(kinds("xa.binlog"), "Committed 2, Statement 2, XaFinished 6, XaPrepared 6");
    assert_eq!(kinds("xa-compressed.binlog"), "Payload 8, Statement 2, XaFinished 6");
    assert_eq!(kinds("incident/binlog.000001"), "Incident 1, Statement 2");
    assert_eq!(kinds("anonymous.binlog"), "Committed 13, Statement 5, XaFinished 1, XaPrepared 1");
    assert_eq!(kinds("anonymous-statements.binlog"), "Committed 8, Statement 8, XaFinished 1, XaPrepared 1");
    assert_eq!(kinds("load-data.binlog"), "Committed 7, Statement 4");
    assert_eq!(kinds("mariadb.binlog"), "Committed 17, Statement 8, XaFinished 1, XaPrepared 1");
}

#[test]
fn identifiers_of_transactions() {
    let ids = |name: &str| -> Vec<String> {
        let sample = samples().into_iter().find(|sample| sample.name == name).unwrap();
        let mut ids: Vec<String> = outlines(&mut TransactionTracker::new(), &sample)
            .iter()
            .map(|outline| outline.id.to_string())
            .collect();
        ids.dedup();
        ids
    };
    assert_eq!(ids("mariadb-checksum.binlog")[..2], ["7-42-1", "7-42-2"]);
    assert_eq!(ids("anonymous.binlog"), ["ANONYMOUS"]);
    assert!(
        ids("gtids/binlog.000001").contains(&"cccccccc-cccc-cccc-cccc-cccccccccccc:by_hand:77".to_owned())
    );
}

#[test]
fn payloads_contain_the_events_between_gtid_and_commit() {
    let mut count = 0;
    for sample in samples() {
        for_each_event(&sample.bytes, |position, raw, format| {
            if raw.event_type() == EventType::TransactionPayload {
                assert_eq!(last_place(raw, format), EventPlace::Ends, "{} {position}", sample.name);
                count += 1;
            }
        });
    }
    assert!(count > 50, "only {count} payloads");
}

/// Returns the place of a payload's last event; all others must be inside.
fn last_place(raw: &RawEvent<'_>, format: &EventFormat) -> EventPlace {
    let Event::TransactionPayload(payload) = raw.decode(format).unwrap() else { unreachable!() };
    let (mut opener, mut grammar) = (PayloadOpener::new(), TransactionGrammar::inside_payload());
    let mut events = opener.open(&payload).unwrap();
    let mut last = EventPlace::Inside;
    while let Some(raw) = events.next_event().unwrap() {
        assert_eq!(last, EventPlace::Inside);
        last = grammar.step(EventRole::of(&raw, format).unwrap()).unwrap().transaction;
    }
    last
}

/// Returns all transactions of a sample up to the given limit, and the errors.
fn assemble(sample: &Sample, size_max: usize) -> (Vec<Transaction>, Vec<AssembleError>) {
    let mut assembler: Option<TransactionAssembler> = None;
    let (mut whole, mut errors) = (Vec::new(), Vec::new());
    for_each_event(&sample.bytes, |position, raw, format| {
        let assembler = assembler.get_or_insert_with(|| TransactionAssembler::new(format.clone(), size_max));
        match assembler.push(position as u64, raw, format) {
            Ok(transaction) => whole.extend(transaction),
            Err(error) => errors.push(error),
        }
    });
    (whole, errors)
}

#[test]
fn assembled_transactions_equal_the_bytes_of_the_log() {
    for sample in samples() {
        let (transactions, errors) = assemble(&sample, usize::MAX);
        assert_eq!(errors, [], "{}", sample.name);
        let outlines = outlines(&mut TransactionTracker::new(), &sample);
        assert!(transactions.iter().map(Transaction::outline).eq(&outlines), "{}", sample.name);
        for transaction in &transactions {
            let TransactionOutline { position, end, events, .. } = *transaction.outline();
            assert_eq!(transaction.bytes(), &sample.bytes[position as usize..end as usize]);
            assert_eq!(transaction.events().count() as u64, events);
            for raw in transaction.events() {
                assert_eq!(raw.verify(), Ok(()));
                raw.decode(transaction.format()).unwrap();
            }
        }
    }
}

#[test]
fn transactions_beyond_the_limit_are_refused_and_others_returned() {
    let sample = samples().into_iter().find(|sample| sample.name == "types.binlog").unwrap();
    let sizes: Vec<u64> =
        outlines(&mut TransactionTracker::new(), &sample).iter().map(|outline| outline.size).collect();
    for size_max in [0, 200, 500, 1000] {
        let (transactions, errors) = assemble(&sample, size_max);
        let small: Vec<u64> = sizes.iter().copied().filter(|size| *size <= size_max as u64).collect();
        assert!(transactions.iter().map(|transaction| transaction.outline().size).eq(small.iter().copied()));
        assert_eq!(errors.len(), sizes.len() - small.len());
        assert!(errors.iter().all(|error| matches!(error, AssembleError::TooLarge { .. })));
    }
}

/// Returns a range of the events of a relay log sample.
fn relay_events(name: &str, from: usize, to: usize) -> Vec<(u64, Vec<u8>, EventChecksum, EventFormat)> {
    let sample = samples().into_iter().find(|sample| sample.name == name).unwrap();
    let mut events = Vec::new();
    for_each_event(&sample.bytes, |position, raw, format| {
        events.push((position as u64, raw.bytes().to_vec(), raw.checksum(), format.clone()));
    });
    let to = to.min(events.len());
    events.drain(from..to).collect()
}

/// Returns the number of transactions that ended, and the number of events in those that were discarded.
fn follow(events: &[(u64, Vec<u8>, EventChecksum, EventFormat)]) -> (usize, Vec<u64>) {
    let (mut tracker, mut ended, mut discarded) = (TransactionTracker::new(), 0, Vec::new());
    for (position, bytes, checksum, format) in events {
        let raw = RawEvent::new(bytes, *checksum).unwrap();
        match tracker.track(*position, &raw, format) {
            Ok(tracked) => ended += usize::from(tracked.ended.is_some()),
            Err(TrackError::Fault(broken)) => {
                assert_eq!(broken.fault.lost, GrammarLoss::Transaction);
                discarded.extend(broken.discarded.map(|outline| outline.events));
            }
            Err(TrackError::Decode(error)) => panic!("{error}"),
        }
    }
    (ended, discarded)
}

#[test]
fn transactions_continue_in_the_next_relay_log() {
    let whole = relay_events("relay/relay.000002", 0, usize::MAX);
    let (ended, discarded) = follow(&whole);
    assert_eq!((ended, discarded), (4, vec![]));
    // The relay log was rotated in the middle of the third transaction. The replica's own rotation, format
    // description and Previous_gtids are between its events.
    let mut events = whole[..12].to_vec();
    events.push(whole.last().unwrap().clone());
    events.extend(relay_events("relay/relay.000003", 0, 2));
    events.extend_from_slice(&whole[12..]);
    assert_eq!(follow(&events), (4, vec![]));
}

#[test]
fn transactions_are_cut_at_a_lost_connection() {
    // The source sends the transaction again from its start, after an artificial rotation and the format description.
    let mut events = relay_events("relay/relay.000002", 0, 12);
    events.extend(relay_events("relay/relay.000004", 0, usize::MAX));
    let (ended, discarded) = follow(&events);
    assert!(ended > 3, "{ended}");
    assert_eq!(discarded.len(), 1, "{discarded:?}");
}

#[test]
fn positions_can_exceed_four_gigabytes() {
    let (start, mut ends) = (5_u64 << 30, Vec::new());
    let mut tracker = TransactionTracker::new();
    for (position, bytes, checksum, format) in relay_events("relay/relay.000002", 0, usize::MAX) {
        let raw = RawEvent::new(&bytes, checksum).unwrap();
        let tracked = tracker.track(start + position, &raw, &format).unwrap();
        ends.extend(tracked.ended.map(|outline| (outline.position, outline.end)));
    }
    assert!(ends.is_sorted() && ends[0].0 > start && ends.last().unwrap().1 < start + 10_000, "{ends:?}");
}
