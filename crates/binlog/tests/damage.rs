//! Damaged logs must not cause panics or silent losses.

#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeMap;

use bintide_binlog::{
    Event, EventChecksum, EventFlags, EventFormat, EventRole, EventType, Framer, FramerOutput, GrammarStep,
    HEADER_SIZE, RawEvent, TrackError, TransactionTracker,
};

use common::{Sample, for_each_event, for_each_event_deep, samples};

/// Logs cut at any byte return all whole events, and report the rest as incomplete.
#[test]
fn logs_cut_at_every_byte() {
    for sample in samples() {
        let mut framer = Framer::new();
        for_each_event(&sample.bytes, |position, raw, _| {
            for size in sizes_to_try(raw.bytes().len()) {
                let framed = framer.clone().next(&raw.bytes()[..size]);
                let needed = if size < HEADER_SIZE { HEADER_SIZE } else { raw.bytes().len() };
                assert_eq!(
                    framed,
                    Ok(FramerOutput::NeedMore { needed }),
                    "{} {position}+{size}",
                    sample.name
                );
            }
            assert_eq!(framer.next(raw.bytes()), Ok(FramerOutput::Event(*raw)));
        });
    }
}

/// Events cut at any byte, with an adjusted size, decode to a shorter event or fail within the event.
#[test]
fn events_cut_at_every_byte() {
    for sample in samples() {
        for_some_events(&sample, |position, raw, format| {
            let whole = &raw.bytes()[..raw.bytes().len() - raw.checksum().size()];
            for size in sizes_to_try(whole.len()).filter(|size| *size >= HEADER_SIZE) {
                let mut shortened = whole[..size].to_vec();
                shortened[9..13].copy_from_slice(&(size as u32).to_le_bytes());
                let shortened = RawEvent::new(&shortened, EventChecksum::Absent).unwrap();
                check_decoding(&shortened, format, &|| format!("{} {position}+{size}", sample.name));
            }
        });
    }
}

/// With one byte changed, the checksum is wrong, and decoders return a value or an error.
#[test]
fn events_with_one_byte_changed() {
    let mut random = RandomBytes(1);
    for sample in samples() {
        for_some_events(&sample, |position, raw, format| {
            for offset in sizes_to_try(raw.bytes().len()) {
                let mut changed = raw.bytes().to_vec();
                changed[offset] ^= (random.next() as u8).max(1);
                let Ok(changed) = RawEvent::new(&changed, raw.checksum()) else { continue };
                let what = || format!("{} {position}+{offset}", sample.name);
                if raw.checksum() == EventChecksum::Crc32 {
                    assert_eq!(changed.verify().is_ok(), is_only_in_use(raw, &changed), "{}", what());
                }
                check_decoding(&changed, format, &what);
            }
        });
    }
}

/// Returns true for the only change that the checksum does not cover.
fn is_only_in_use(raw: &RawEvent<'_>, changed: &RawEvent<'_>) -> bool {
    let mut flipped = raw.bytes().to_vec();
    flipped[17] ^= EventFlags::IN_USE.0 as u8;
    raw.event_type() == EventType::FormatDescription && flipped == changed.bytes()
}

/// Decoded events must encode to bytes that decode to the same event; errors must be within the event.
fn check_decoding(raw: &RawEvent<'_>, format: &EventFormat, what: &dyn Fn() -> String) {
    let event = raw.decode(format);
    for error in [event.as_ref().err(), EventRole::of(raw, format).as_ref().err()].into_iter().flatten() {
        assert!(error.offset <= raw.bytes().len(), "{}: {error:?}", what());
    }
    if let Ok(event) = event {
        check_again(&event, format, what);
    }
}

fn check_again(event: &Event<'_>, format: &EventFormat, what: &dyn Fn() -> String) {
    let mut body = vec![0; HEADER_SIZE];
    event.encode(format, &mut body).unwrap_or_else(|error| panic!("{}: {error}", what()));
    body[4] = event.event_type().code();
    let size = body.len() as u32;
    body[9..13].copy_from_slice(&size.to_le_bytes());
    let again = RawEvent::new(&body, EventChecksum::Absent).unwrap();
    assert_eq!(again.decode(format).as_ref(), Ok(event), "{}", what());
}

/// With events omitted, repeated and swapped, each event still belongs to a transaction or is reported.
#[test]
fn logs_with_missing_repeated_and_swapped_events() {
    let mut random = RandomBytes(2);
    for sample in samples() {
        for _ in 0..20 {
            shuffle_and_track(&sample, &mut random);
        }
    }
}

fn shuffle_and_track(sample: &Sample, random: &mut RandomBytes) {
    let mut tracker = TransactionTracker::new();
    let (mut inside, mut ended, mut discarded) = (0, 0, 0);
    let mut track = |raw: &RawEvent<'_>, format: &EventFormat| {
        let tracked = match tracker.track(0, raw, format) {
            Ok(tracked) => tracked,
            Err(TrackError::Fault(broken)) => {
                discarded += broken.discarded.map_or(0, |outline| outline.events);
                broken.tracked
            }
            Err(TrackError::Decode(error)) => panic!("{}: {error}", sample.name),
        };
        inside += u64::from(tracked.step != GrammarStep::OUTSIDE);
        ended += tracked.ended.map_or(0, |outline| outline.events);
    };
    for_each_event(&sample.bytes, |_, raw, format| match random.next() % 8 {
        0 => {}
        1 => {
            track(raw, format);
            track(raw, format);
        }
        _ => track(raw, format),
    });
    let open = tracker.open().map_or(0, |outline| outline.events);
    assert_eq!(inside, ended + discarded + open, "{}", sample.name);
}

/// Calls `see` with the first events of each type in a log, including those inside payloads.
fn for_some_events(sample: &Sample, mut see: impl FnMut(usize, &RawEvent<'_>, &EventFormat)) {
    let mut seen: BTreeMap<EventType, u32> = BTreeMap::new();
    for_each_event_deep(&sample.bytes, |position, raw, format| {
        let count = seen.entry(raw.event_type()).or_default();
        *count += 1;
        if *count <= 20 {
            see(position, raw, format);
        }
    });
}

/// Returns all sizes within the first bytes of an event, and some larger ones.
fn sizes_to_try(size: usize) -> impl Iterator<Item = usize> {
    let dense = 160;
    (0..size.min(dense)).chain((dense..size).step_by(1 + size / 40))
}

/// Deterministic pseudo-random numbers.
struct RandomBytes(u64);

impl RandomBytes {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }
}
