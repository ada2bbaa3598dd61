//! Advice from samples of a log that is known whole.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its logs has failed")]

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use binlog::{Checksum, EventType, Level, MAGIC, NextPosition, RawEvent, Refusal, move_event};
use inspect::advise::{Extent, Report, Settings, Source, advise};
use logs::{Chunk, Content, CutError, LogReader, Next, TransactionCutter};

/// What a log is made of: its format description, and transactions of several kinds and sizes.
struct Parts {
    head: Vec<u8>,
    transactions: Vec<Vec<Vec<u8>>>,
}

fn parts() -> Parts {
    let mut parts = Parts { head: Vec::new(), transactions: Vec::new() };
    for sample in
        ["large.binlog", "types.binlog", "xa.binlog", "ddl.binlog", "json.binlog", "triggers.binlog"]
    {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(sample);
        let mut reader = LogReader::open(path).unwrap();
        let mut cutter = TransactionCutter::new(u64::MAX);
        while let Next::Some(chunk) = reader.next_chunk(1 << 20).unwrap() {
            if parts.head.is_empty() {
                parts.head = chunk.get(0).unwrap().raw.bytes().to_vec();
            }
            let taken: Result<(), CutError> = cutter.take(&chunk, &mut |segment| {
                if let Content::Transaction(_) = segment.content {
                    let events = segment.parts.iter().flat_map(Chunk::iter);
                    parts.transactions.push(events.map(|event| event.raw.bytes().to_vec()).collect());
                }
                Ok(())
            });
            taken.unwrap();
        }
    }
    parts
}

/// A log of about so many bytes, with transactions in an order that looks random but changes slowly.
fn log(size: usize) -> Arc<[u8]> {
    let parts = parts();
    let mut bytes = [&MAGIC[..], &parts.head].concat();
    let count = parts.transactions.len() as u64;
    let mut state = 1_u64;
    while bytes.len() < size {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drift = (bytes.len() as u64 * count / size as u64 / 2) % count;
        let chosen = ((state >> 33) % (count / 2 + 1) + drift) % count;
        for event in &parts.transactions[chosen as usize] {
            let start = bytes.len();
            bytes.extend_from_slice(event);
            move_event(&mut bytes[start..], Checksum::Crc32, NextPosition::Behind(start as u64));
        }
    }
    bytes.into()
}

fn ask(logs: &[Arc<[u8]>], extent: Extent, seed: u64) -> Report {
    let source = |bytes: &Arc<[u8]>| {
        let (size, bytes) = (bytes.len() as u64, Arc::clone(bytes));
        let open = Box::new(move || Ok(LogReader::bytes("made".to_owned(), Arc::clone(&bytes))));
        Source { name: "made".to_owned(), bytes: size, open }
    };
    let sources: Vec<Source<'_>> = logs.iter().map(source).collect();
    let levels = [1, 3].into_iter().filter_map(Level::new).collect();
    let settings = Settings { levels, extent, seed, workers: NonZeroUsize::new(2).unwrap() };
    advise(&sources, &settings, &mut |_| ControlFlow::Continue(())).unwrap()
}

#[test]
fn samples_hold_the_truth_within_their_intervals() {
    let logs = [log(9 << 20), log(3 << 20)];
    let truth = ask(&logs, Extent::All, 0);
    assert!(truth.sample.is_complete);
    let (mut hits, mut asked) = (0, 0);
    for seed in 0..12 {
        let found = ask(&logs, Extent::Sample { time: None, bytes: Some(3 << 20) }, seed);
        assert!(!found.sample.is_complete && found.sample.bytes_measured < 6 << 20);
        for (found, truth) in found.levels.iter().zip(&truth.levels) {
            let wanted = truth.bytes.value;
            assert!(found.bytes.high - found.bytes.low < wanted, "{found:?}");
            asked += 1;
            hits += usize::from((found.bytes.low..=found.bytes.high).contains(&wanted));
        }
    }
    assert!(hits * 100 >= asked * 85, "{hits} of {asked}");
}

#[test]
fn all_cells_together_are_the_whole() {
    let logs = [log(2 << 20), log(1 << 20)];
    let truth = ask(&logs, Extent::All, 0);
    let found = ask(&logs, Extent::Sample { time: None, bytes: None }, 3);
    assert!(found.sample.stopped_by.is_none());
    // Large transactions were measured by their front: nearly, but not to the byte.
    for (found, truth) in found.levels.iter().zip(&truth.levels) {
        let apart = found.bytes.value.abs_diff(truth.bytes.value);
        assert!(apart * 10_000 < truth.bytes.value, "{found:?} {truth:?}");
    }
    assert_eq!((found.totals, &found.refused), (truth.totals, &truth.refused));
}

/// The events of a sample, with those left out that are not wanted, as a log.
fn log_of(sample: &str, wanted: impl Fn(&RawEvent<'_>) -> bool) -> Arc<[u8]> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(sample);
    let mut reader = LogReader::open(path).unwrap();
    let mut bytes = MAGIC.to_vec();
    while let Next::Some(event) = reader.next_event().unwrap() {
        if wanted(&event.raw) {
            let start = bytes.len();
            bytes.extend_from_slice(event.raw.bytes());
            move_event(&mut bytes[start..], Checksum::Crc32, NextPosition::Behind(start as u64));
        }
    }
    bytes.into()
}

#[test]
fn payloads_without_a_gtid_event_are_counted_as_they_are() {
    let is_gtid = |raw: &RawEvent<'_>| matches!(raw.event_type(), EventType::Gtid | EventType::AnonymousGtid);
    let bytes = log_of("types-compressed.binlog", |raw| !is_gtid(raw));
    let size = bytes.len() as u64;
    let report = ask(&[bytes], Extent::All, 0);
    assert!(report.refused.iter().any(|refused| refused.reason == Refusal::NoGtid && refused.bytes > 1000));
    assert_eq!(report.totals.bytes_plain.value, size);
    assert!(report.levels.iter().all(|level| level.bytes.value == size), "{:?}", report.levels);
}

#[test]
fn without_a_level_nothing_is_measured() {
    let settings =
        Settings { levels: Vec::new(), extent: Extent::All, seed: 0, workers: NonZeroUsize::new(1).unwrap() };
    let outcome = advise(&[], &settings, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(outcome, Err(inspect::Error::NoLevel)));
}

#[test]
fn whoever_watches_can_stop_it() {
    let bytes = log(1 << 20);
    let open = Box::new(move || Ok(LogReader::bytes("made".to_owned(), Arc::clone(&bytes))));
    let sources = [Source { name: "made".to_owned(), bytes: 1 << 20, open }];
    let levels = vec![Level::DEFAULT];
    let settings = Settings { levels, extent: Extent::All, seed: 0, workers: NonZeroUsize::new(1).unwrap() };
    let outcome = advise(&sources, &settings, &mut |_| ControlFlow::Break(()));
    assert!(matches!(outcome, Err(inspect::Error::Stopped)));
}

#[test]
fn no_damage_makes_it_panic() {
    let whole = log(200 << 10);
    let mut state = 5_u64;
    for _ in 0..60 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut bytes = whole.to_vec();
        let at = (state >> 20) as usize % bytes.len();
        match state >> 62 {
            0 => bytes.truncate(at.max(200)),
            _ => bytes[at] ^= (state >> 55) as u8 | 1,
        }
        let (size, bytes): (_, Arc<[u8]>) = (bytes.len() as u64, bytes.into());
        let open = Box::new(move || Ok(LogReader::bytes("made".to_owned(), Arc::clone(&bytes))));
        let sources = [Source { name: "made".to_owned(), bytes: size, open }];
        for extent in [Extent::All, Extent::Sample { time: None, bytes: None }] {
            let levels = vec![Level::MIN];
            let settings = Settings { levels, extent, seed: state, workers: NonZeroUsize::MIN };
            // An answer or an error: what is wrong is another command's business.
            let _ = advise(&sources, &settings, &mut |_| ControlFlow::Continue(()));
        }
    }
}
