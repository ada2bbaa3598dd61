//! Compares advice from samples with advice from the whole log.
#![allow(clippy::unwrap_used, reason = "a test that cannot prepare its logs has failed")]

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use advise::{AdviseReport, AdviseSettings, LogSource, MeasureExtent, MemoryLimits, advise};
use binlog::events::TransactionPayload;
use binlog::{
    CompressionRefusal, Event, EventChecksum, EventType, HEADER_SIZE, MAGIC, NextPosition, RawEvent,
    ZstdLevel, move_event,
};
use logs::{CutError, EventChunk, LogReader, ReadOutcome, SegmentContent, TransactionCutter};

/// Events of a log: its format description, and transactions of several kinds and sizes.
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
        while let ReadOutcome::Some(chunk) = reader.next_chunk(1 << 20).unwrap() {
            if parts.head.is_empty() {
                parts.head = chunk.get(0).unwrap().raw.bytes().to_vec();
            }
            let taken: Result<(), CutError> = cutter.cut_chunk(&chunk, &mut |segment| {
                if let SegmentContent::Transaction(_) = segment.content {
                    let events = segment.parts.iter().flat_map(EventChunk::iter);
                    parts.transactions.push(events.map(|event| event.raw.bytes().to_vec()).collect());
                }
                Ok(())
            });
            taken.unwrap();
        }
    }
    parts
}

/// Builds a log of about `size` bytes. The order of its transactions looks random, but drifts slowly.
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
            move_event(&mut bytes[start..], EventChecksum::Crc32, NextPosition::FromStart(start as u64));
        }
    }
    bytes.into()
}

fn ask(logs: &[Arc<[u8]>], extent: MeasureExtent, seed: u64) -> AdviseReport {
    ask_keeping(logs, extent, seed, MemoryLimits::default())
}

fn ask_keeping(logs: &[Arc<[u8]>], extent: MeasureExtent, seed: u64, sizes: MemoryLimits) -> AdviseReport {
    try_asking(logs, extent, seed, sizes).unwrap()
}

fn try_asking(
    logs: &[Arc<[u8]>],
    extent: MeasureExtent,
    seed: u64,
    sizes: MemoryLimits,
) -> Result<AdviseReport, inspect::InspectError> {
    let source = |bytes: &Arc<[u8]>| {
        let (size, bytes) = (bytes.len() as u64, Arc::clone(bytes));
        let open = Box::new(move || Ok(LogReader::from_bytes("made".to_owned(), Arc::clone(&bytes))));
        LogSource { name: "made".to_owned(), bytes: size, open }
    };
    let sources: Vec<LogSource<'_>> = logs.iter().map(source).collect();
    let levels = [1, 3].into_iter().filter_map(ZstdLevel::new).collect();
    let settings = AdviseSettings { levels, extent, seed, workers: NonZeroUsize::new(2).unwrap(), sizes };
    advise(&sources, &settings, &mut |_| ControlFlow::Continue(()))
}

#[test]
fn intervals_of_samples_contain_the_true_values() {
    let logs = [log(9 << 20), log(3 << 20)];
    let truth = ask(&logs, MeasureExtent::All, 0);
    assert!(truth.sample.is_complete);
    let (mut hits, mut asked) = (0, 0);
    for seed in 0..24 {
        let found = ask(&logs, MeasureExtent::Sample { time: None, bytes: Some(3 << 20) }, seed);
        assert!(!found.sample.is_complete && found.sample.bytes_measured < 6 << 20);
        for (found, truth) in found.levels.iter().zip(&truth.levels) {
            let expected = truth.bytes.value;
            assert!((found.bytes.high - found.bytes.low) * 10 < expected * 3, "{seed}: {found:?}");
        }
        // The errors of all levels are correlated, so only one of them counts.
        let (found, expected) = (found.levels[0].bytes, truth.levels[0].bytes.value);
        asked += 1;
        hits += usize::from((found.low..=found.high).contains(&expected));
    }
    assert!(hits * 100 >= asked * 85, "{hits} of {asked}");
}

#[test]
fn all_cells_together_equal_the_whole_log() {
    let logs = [log(2 << 20), log(1 << 20)];
    let truth = ask(&logs, MeasureExtent::All, 0);
    let found = ask(&logs, MeasureExtent::Sample { time: None, bytes: None }, 3);
    assert!(found.sample.stopped_by.is_none());
    // Only the front of large transactions was measured, so the figures are close but not equal.
    for (found, truth) in found.levels.iter().zip(&truth.levels) {
        let apart = found.bytes.value.abs_diff(truth.bytes.value);
        assert!(apart * 10_000 < truth.bytes.value, "{found:?} {truth:?}");
    }
    assert_eq!((found.totals, &found.refused), (truth.totals, &truth.refused));
}

/// Builds a log from events of a sample that `expected` selects.
fn log_of(sample: &str, is_selected: impl Fn(&RawEvent<'_>) -> bool) -> Arc<[u8]> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(sample);
    let mut reader = LogReader::open(path).unwrap();
    let mut bytes = MAGIC.to_vec();
    while let ReadOutcome::Some(event) = reader.next_event().unwrap() {
        if is_selected(&event.raw) {
            let start = bytes.len();
            bytes.extend_from_slice(event.raw.bytes());
            move_event(&mut bytes[start..], EventChecksum::Crc32, NextPosition::FromStart(start as u64));
        }
    }
    bytes.into()
}

#[test]
fn payloads_without_a_gtid_event_count_with_their_size() {
    let is_gtid = |raw: &RawEvent<'_>| matches!(raw.event_type(), EventType::Gtid | EventType::AnonymousGtid);
    let bytes = log_of("types-compressed.binlog", |raw| !is_gtid(raw));
    let size = bytes.len() as u64;
    let report = ask(&[bytes], MeasureExtent::All, 0);
    assert!(
        report
            .refused
            .iter()
            .any(|refused| refused.reason == CompressionRefusal::NoGtid && refused.bytes > 1000)
    );
    assert_eq!(report.totals.bytes_plain.value, size);
    assert!(report.levels.iter().all(|level| level.bytes.value == size), "{:?}", report.levels);
}

fn sample(name: &str) -> Arc<[u8]> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(name);
    std::fs::read(path).unwrap().into()
}

const SAMPLES: [&str; 4] =
    ["types-compressed.binlog", "gtids-compressed/binlog.000001", "large.binlog", "json-large.binlog"];

#[test]
fn transactions_not_kept_in_memory_are_measured() {
    for name in SAMPLES {
        let logs = [sample(name)];
        let truth = ask(&logs, MeasureExtent::All, 0);
        let found =
            ask_keeping(&logs, MeasureExtent::All, 0, MemoryLimits { kept: 600, ..MemoryLimits::default() });
        assert!(found.sample.is_complete && found.sample.transactions_cut == 0, "{name}: {:?}", found.sample);
        assert_eq!((found.totals, found.span), (truth.totals, truth.span), "{name}");
        assert_eq!(
            (&found.refused, found.found.bytes_plain),
            (&truth.refused, truth.found.bytes_plain),
            "{name}"
        );
        let tables = |report: &AdviseReport| {
            report.tables.iter().map(|one| (one.table.clone(), one.bytes)).collect::<Vec<_>>()
        };
        assert_eq!(tables(&found), tables(&truth), "{name}");
        for (found, truth) in found.levels.iter().zip(&truth.levels) {
            // zstd splits blocks differently when its input comes in pieces.
            let apart = found.bytes.value.abs_diff(truth.bytes.value);
            assert!(apart * 1000 <= truth.bytes.value, "{name}: {found:?} {truth:?}");
            assert!(found.decompress_bytes_per_s > 0.0, "{name}: {found:?}");
        }
    }
}

#[test]
fn sampled_large_transactions_match_the_full_measurement() {
    for name in SAMPLES {
        let logs = [sample(name)];
        let truth = ask(&logs, MeasureExtent::All, 0);
        let sizes = MemoryLimits { kept: 600, front: 2000, ..MemoryLimits::default() };
        let found = ask_keeping(&logs, MeasureExtent::Sample { time: None, bytes: None }, 0, sizes);
        assert!(found.sample.is_complete, "{name}: {:?}", found.sample);
        assert!(found.sample.transactions_cut > 0 || name != SAMPLES[0], "{name}: {:?}", found.sample);
        assert_eq!(found.totals.eligible_transactions, truth.totals.eligible_transactions, "{name}");
        assert_eq!(found.span, truth.span, "{name}");
        // Checksums of events inside payloads are extrapolated from the front.
        let (found, truth) = (found.totals.bytes_plain.value, truth.totals.bytes_plain.value);
        assert!(found.abs_diff(truth) * 100 <= truth, "{name}: {found} {truth}");
    }
}

/// Copies the log with another stated size in its payloads.
fn with_claims(log: &[u8], claim: u64) -> Arc<[u8]> {
    let mut reader = LogReader::from_bytes("made".to_owned(), log.into());
    let mut bytes = MAGIC.to_vec();
    while let ReadOutcome::Some(chunk) = reader.next_chunk(1 << 20).unwrap() {
        for event in chunk.iter() {
            let (start, raw) = (bytes.len(), event.raw);
            match raw.event_type() == EventType::TransactionPayload {
                false => bytes.extend_from_slice(raw.bytes()),
                true => {
                    let Ok(Event::TransactionPayload(body)) = raw.decode(chunk.format()) else {
                        panic!("no payload")
                    };
                    let mut fields = Vec::new();
                    TransactionPayload::put_zstd_fields(claim, body.payload.len() as u64, &mut fields);
                    bytes.extend_from_slice(&raw.bytes()[..HEADER_SIZE]);
                    bytes.extend_from_slice(&fields);
                    bytes.extend_from_slice(body.payload);
                    bytes.extend_from_slice(&[0; 4]);
                    let size = (bytes.len() - start) as u32;
                    bytes[start + 9..start + 13].copy_from_slice(&size.to_le_bytes());
                }
            }
            move_event(&mut bytes[start..], EventChecksum::Crc32, NextPosition::FromStart(start as u64));
        }
    }
    bytes.into()
}

#[test]
fn payloads_with_a_wrong_stated_size_are_damaged() {
    let honest = sample("types-compressed.binlog");
    for claim in [1, 1 << 40, u64::MAX] {
        let logs = [with_claims(&honest, claim)];
        let keep = |kept, front| MemoryLimits { kept, front, large: 1000, ..MemoryLimits::default() };
        for sizes in [MemoryLimits::default(), keep(1 << 20, 1 << 20), keep(300, 1 << 20), keep(300, 100)] {
            for extent in [MeasureExtent::All, MeasureExtent::Sample { time: None, bytes: None }] {
                let error = try_asking(&logs, extent, 0, sizes).unwrap_err().to_string();
                assert!(error.contains("uncompressed payload size"), "{claim} {sizes:?}: {error}");
            }
        }
    }
}

#[test]
fn daily_figures_come_from_first_and_last_commits() {
    let logs = [sample("types.binlog"), sample("types-compressed.binlog"), log(5 << 20)];
    let truth = ask(&logs, MeasureExtent::All, 0);
    assert!(truth.totals.bytes_plain_per_day.is_some() && truth.totals.covered_s > 1.0, "{:?}", truth.totals);
    let found = ask(&logs, MeasureExtent::Sample { time: None, bytes: Some(1) }, 0);
    assert!(found.sample.stretches_measured < 3);
    assert_eq!((found.span, found.totals.covered_s), (truth.span, truth.totals.covered_s));
    // The same log twice, as if from two servers: twice the bytes in the same time.
    let twice = ask(&[&logs[..], &logs[..]].concat(), MeasureExtent::All, 0);
    assert_eq!(twice.totals.covered_s, truth.totals.covered_s);
}

#[test]
fn transactions_larger_than_cells_count_once() {
    let parts = parts();
    let largest = parts.transactions.iter().max_by_key(|events| events.len()).unwrap();
    let (gtid, rest) = largest.split_first().unwrap();
    let (last, rows) = rest.split_last().unwrap();
    let mut bytes = [&MAGIC[..], &parts.head].concat();
    let put = |bytes: &mut Vec<u8>, event: &[u8]| {
        let start = bytes.len();
        bytes.extend_from_slice(event);
        move_event(&mut bytes[start..], EventChecksum::Crc32, NextPosition::FromStart(start as u64));
    };
    put(&mut bytes, gtid);
    put(&mut bytes, &rows[0]);
    while bytes.len() < 3 << 20 {
        rows[1..].iter().for_each(|event| put(&mut bytes, event));
    }
    put(&mut bytes, last);
    let found = ask(&[bytes.into()], MeasureExtent::Sample { time: None, bytes: None }, 0);
    assert!(found.sample.stretches_measured > 10);
    assert_eq!((found.sample.transactions_measured, found.sample.transactions_cut), (1, 1));
    assert!(found.levels.iter().all(|level| level.latency.transactions == 1), "{:?}", found.levels);
}

#[test]
fn without_a_level_nothing_is_measured() {
    let settings = AdviseSettings {
        levels: Vec::new(),
        extent: MeasureExtent::All,
        seed: 0,
        workers: NonZeroUsize::MIN,
        sizes: MemoryLimits::default(),
    };
    let outcome = advise(&[], &settings, &mut |_| ControlFlow::Continue(()));
    assert!(matches!(outcome, Err(inspect::InspectError::NoLevel)));
}

#[test]
fn monitors_can_cancel_advise() {
    let bytes = log(1 << 20);
    let open = Box::new(move || Ok(LogReader::from_bytes("made".to_owned(), Arc::clone(&bytes))));
    let sources = [LogSource { name: "made".to_owned(), bytes: 1 << 20, open }];
    let levels = vec![ZstdLevel::DEFAULT];
    let settings = AdviseSettings {
        levels,
        extent: MeasureExtent::All,
        seed: 0,
        workers: NonZeroUsize::MIN,
        sizes: MemoryLimits::default(),
    };
    let outcome = advise(&sources, &settings, &mut |_| ControlFlow::Break(()));
    assert!(matches!(outcome, Err(inspect::InspectError::Stopped)));
}

#[test]
fn damaged_logs_do_not_panic() {
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
        let open = Box::new(move || Ok(LogReader::from_bytes("made".to_owned(), Arc::clone(&bytes))));
        let sources = [LogSource { name: "made".to_owned(), bytes: size, open }];
        for extent in [MeasureExtent::All, MeasureExtent::Sample { time: None, bytes: None }] {
            let levels = vec![ZstdLevel::MIN];
            let settings = AdviseSettings {
                levels,
                extent,
                seed: state,
                workers: NonZeroUsize::MIN,
                sizes: MemoryLimits::default(),
            };
            // It may return advice or an error. Other commands report the damage.
            let _ = advise(&sources, &settings, &mut |_| ControlFlow::Continue(()));
        }
    }
}
