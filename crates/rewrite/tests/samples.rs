//! Compresses and decompresses every sample log.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its samples has failed")]

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use binlog::events::TransactionPayload;
use binlog::{
    Event, EventChecksum, EventFlags, EventFormat, EventType, Framer, FramerOutput, MAGIC, NextPosition,
    PayloadOpener, RawEvent, ZstdLevel, put_gtid_resized, put_inner,
};
use bintide_rewrite::{
    CompressSettings, CompressedPolicy, MinimumGain, OldFormatPolicy, ResourcePlan, RewriteAction,
    RewriteError, RewriteLimits, RewriteReport, RewriteSettings, TornEndPolicy, TransactionMove, rewrite,
};
use logs::LogReader;
use logs::ordered::PipelineLimits;

fn samples() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples");
    let (mut open, mut found) = (vec![directory], Vec::new());
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => open.push(path),
                false => found.push(path),
            }
        }
    }
    found.retain(|path| std::fs::read(path).unwrap().starts_with(&MAGIC));
    found.sort();
    assert!(found.len() > 50, "too few samples: {}", found.len());
    found
}

const fn compress(level: ZstdLevel, keep: MinimumGain, compressed: CompressedPolicy) -> RewriteAction {
    RewriteAction::Compress(CompressSettings {
        level,
        minimum_gain: keep,
        compressed,
        event_size_max: 1 << 30,
        old_format: OldFormatPolicy::Refuse,
    })
}

const LIKE_A_SERVER: RewriteAction = compress(ZstdLevel::DEFAULT, MinimumGain::None, CompressedPolicy::Pass);

type Outcome = Result<(Vec<u8>, RewriteReport, Vec<TransactionMove>), RewriteError>;

fn run(action: RewriteAction, bytes: &[u8]) -> Outcome {
    let plan = ResourcePlan::new(action, NonZeroUsize::new(3).unwrap(), 300_000_000, u64::MAX);
    let sizes = plan.sizes(&std::env::temp_dir());
    run_cut(action, &sizes, bytes)
}

fn run_cut(action: RewriteAction, sizes: &RewriteLimits, bytes: &[u8]) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("log");
    std::fs::write(&path, bytes).unwrap();
    let (mut out, mut moves) = (Vec::new(), Vec::new());
    let open = || LogReader::open(&path);
    let mut note = |moved: TransactionMove| {
        moves.push(moved);
        ControlFlow::Continue(())
    };
    let settings = RewriteSettings {
        action,
        bounds: PipelineLimits::with_bytes(1 << 24),
        sizes,
        torn_end: TornEndPolicy::Refuse,
    };
    let report = rewrite(settings, &open, &mut out, &mut note)?;
    Ok((out, report, moves))
}

/// Returns the events, with those of payloads in place of the payloads, as they would be inside one payload.
/// Rewriting must not change them.
fn meaning(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut framer, mut rest, mut out) = (Framer::new(), &bytes[MAGIC.len()..], Vec::new());
    let mut opener = PayloadOpener::new();
    while let FramerOutput::Event(raw) = framer.next(rest).unwrap() {
        rest = &rest[raw.bytes().len()..];
        let format = framer.format().unwrap().clone();
        match raw.decode(&format).unwrap() {
            Event::TransactionPayload(payload) => {
                let mut inner = opener.open(&payload).unwrap();
                while let Some(event) = inner.next_event().unwrap() {
                    out.push(event.bytes().to_vec());
                }
            }
            Event::Gtid(_) | Event::AnonymousGtid(_) | Event::GtidTagged(_) => {
                out.push(sizeless(&raw, &format))
            }
            _ => {
                let mut event = Vec::new();
                put_inner(&raw, &mut event);
                out.push(event);
            }
        }
    }
    assert!(rest.is_empty());
    out
}

/// Returns a GTID event with the size of a transaction without other events.
fn sizeless(raw: &RawEvent<'_>, format: &EventFormat) -> Vec<u8> {
    let mut out = Vec::new();
    put_gtid_resized(raw, 0, NextPosition::Fixed(0), format, &mut out).unwrap();
    out.truncate(out.len() - raw.checksum().size());
    out
}

fn is_rewritable(path: &Path) -> bool {
    let name = path.display().to_string();
    !name.contains("mariadb") && !name.ends_with("torn.binlog")
}

fn is(path: &Path, part: &str) -> bool {
    path.display().to_string().contains(part)
}

#[test]
fn compressing_and_decompressing_restores_plain_logs() {
    let (mut compressed_in_all, mut restored) = (0, 0);
    for path in samples().into_iter().filter(|path| is_rewritable(path)) {
        let original = std::fs::read(&path).unwrap();
        let (compressed, report, moves) = run(LIKE_A_SERVER, &original).unwrap();
        assert_eq!(meaning(&compressed), meaning(&original), "{}", path.display());
        assert_eq!(moves.len() as u64, report.tally.transactions, "{}", path.display());
        assert_eq!(report.tally.bytes_after, compressed.len() as u64, "{}", path.display());
        compressed_in_all += report.tally.compressed;
        let (opened, again, _) = run(RewriteAction::Decompress, &compressed).unwrap();
        assert_eq!(meaning(&opened), meaning(&original), "{}", path.display());
        // Decompressing also decompresses payloads of the server, and relay logs lose the positions within
        // transactions.
        let is_another = again.tally.opened > report.tally.compressed || is(&path, "relay");
        if !is_another {
            assert!(opened == original, "{} changed in a round trip", path.display());
            restored += 1;
        }
        assert!(again.tally.opened >= report.tally.compressed, "{}", path.display());
    }
    assert!(compressed_in_all > 100, "{compressed_in_all} transactions were compressed");
    assert!(restored > 20, "{restored} logs were compared byte for byte");
}

#[test]
fn recompressing_server_payloads_gives_the_same_bytes() {
    for path in samples().into_iter().filter(|path| is_rewritable(path) && is(path, "-compressed.binlog")) {
        let original = std::fs::read(&path).unwrap();
        let (opened, report, _) = run(RewriteAction::Decompress, &original).unwrap();
        assert!(report.tally.opened > 0, "{}", path.display());
        let (compressed, _, _) = run(LIKE_A_SERVER, &opened).unwrap();
        // No log shows why the server did not compress these: the session had also changed a non-transactional table.
        // And BLACKHOLE has no transactions, but is compressed nevertheless.
        match is(&path, "anonymous") || is(&path, "mixed-engines") {
            true => assert_eq!(meaning(&compressed), meaning(&original), "{}", path.display()),
            false => {
                assert!(compressed == original, "{} differs from its server's compression", path.display())
            }
        }
    }
}

#[test]
fn transactions_without_gain_stay_plain() {
    for path in samples().into_iter().filter(|path| is_rewritable(path)) {
        let original = std::fs::read(&path).unwrap();
        let thrifty = compress(ZstdLevel::DEFAULT, MinimumGain::Percent(0), CompressedPolicy::Pass);
        let (compressed, report, _) = run(thrifty, &original).unwrap();
        assert!(compressed.len() <= original.len(), "{}", path.display());
        assert_eq!(meaning(&compressed), meaning(&original), "{}", path.display());
        let none = compress(ZstdLevel::DEFAULT, MinimumGain::Percent(100), CompressedPolicy::Pass);
        let (same, nothing, _) = run(none, &original).unwrap();
        assert!(same == original && !nothing.tally.is_changed(), "{}", path.display());
        let expected = nothing.tally.not_worth_it;
        assert_eq!(report.tally.compressed + report.tally.not_worth_it, expected, "{}", path.display());
    }
}

#[test]
fn compressing_again_changes_only_the_level() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/large.binlog");
    let original = std::fs::read(path).unwrap();
    let again =
        |level| compress(ZstdLevel::new(level).unwrap(), MinimumGain::None, CompressedPolicy::Recompress);
    let (small, report, _) = run(again(22), &original).unwrap();
    assert!(small.len() < original.len() && report.tally.compressed > 0);
    assert_eq!(meaning(&small), meaning(&original));
    let (same, _, _) = run(again(3), &small).unwrap();
    assert!(same == original);
}

#[test]
fn damage_is_reported_with_its_position() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/types.binlog");
    let mut bytes = std::fs::read(path).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    for action in [LIKE_A_SERVER, RewriteAction::Decompress] {
        let error = run(action, &bytes).unwrap_err().to_string();
        assert!(error.contains(" at ") && error.contains("checksum"), "{error}");
    }
}

#[test]
fn transactions_not_held_in_memory_give_the_same_log() {
    let sizes =
        |unit, large| RewriteLimits { unit, large, large_threads: 2, directory: std::env::temp_dir() };
    let again = compress(ZstdLevel::DEFAULT, MinimumGain::None, CompressedPolicy::Recompress);
    let mut compressed_in_all = 0;
    for path in samples().into_iter().filter(|path| is_rewritable(path)) {
        let original = std::fs::read(&path).unwrap();
        for action in [
            LIKE_A_SERVER,
            again,
            RewriteAction::Decompress,
            compress(ZstdLevel::DEFAULT, MinimumGain::Percent(0), CompressedPolicy::Pass),
        ] {
            let (buffered, report, moves) = run(action, &original).unwrap();
            for (unit, large) in [(1, 1), (1 << 20, 1), (300, 600)] {
                let (read_again, same, moved) = run_cut(action, &sizes(unit, large), &original).unwrap();
                assert_eq!(meaning(&read_again), meaning(&buffered), "{} {action:?}", path.display());
                // zstd may split frames differently when its input comes in pieces. Plain events must not differ.
                assert!(action != RewriteAction::Decompress || read_again == buffered, "{}", path.display());
                let counts = |report: &RewriteReport| {
                    (report.tally.transactions, report.tally.opened, report.tally.bytes_before)
                };
                assert_eq!(counts(&same), counts(&report), "{} {action:?}", path.display());
                assert_eq!(moved.len(), moves.len(), "{} {action:?}", path.display());
                compressed_in_all += same.tally.compressed;
            }
        }
    }
    assert!(compressed_in_all > 1000, "{compressed_in_all} transactions were compressed");
}

/// Ignorable events between a GTID event and its payload: no server writes them, but a log may contain any bytes.
#[test]
fn events_before_a_payload_are_not_lost() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/types-compressed.binlog");
    let original = std::fs::read(path).unwrap();
    let (mut framer, mut rest, mut log) = (Framer::new(), &original[MAGIC.len()..], MAGIC.to_vec());
    let mut inserted = 0;
    while let FramerOutput::Event(raw) = framer.next(rest).unwrap() {
        rest = &rest[raw.bytes().len()..];
        if raw.event_type() == EventType::TransactionPayload {
            for number in 0..5_u8 {
                let mut event = raw.header().encode().to_vec();
                event[4] = 200;
                event.extend([number; 100]);
                let event = RawEvent::split_first(&sized(event), EventChecksum::Absent).unwrap().0.to_buf();
                let mut origin = raw.header().origin();
                origin.flags = EventFlags(origin.flags.0 | EventFlags::IGNORABLE.0);
                let next = NextPosition::FromStart(log.len() as u64);
                event.as_raw().rewrite(origin, next, raw.checksum(), &mut log).unwrap();
                inserted += 1;
            }
        }
        let next = NextPosition::FromStart(log.len() as u64);
        raw.rewrite(raw.header().origin(), next, raw.checksum(), &mut log).unwrap();
    }
    assert!(inserted > 50, "{inserted}");
    let sizes =
        |unit, large| RewriteLimits { unit, large, large_threads: 0, directory: std::env::temp_dir() };
    let again = compress(ZstdLevel::DEFAULT, MinimumGain::None, CompressedPolicy::Recompress);
    for action in [LIKE_A_SERVER, again, RewriteAction::Decompress] {
        for (unit, large) in [(1 << 20, 1 << 20), (1, 300), (1, 1)] {
            let (out, _, _) = run_cut(action, &sizes(unit, large), &log).unwrap();
            assert_eq!(meaning(&out), meaning(&log), "{action:?} {unit} {large}");
        }
    }
}

/// The stated size of a payload is binding, for large and small payloads.
#[test]
fn payloads_with_a_wrong_stated_size_are_refused() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/types-compressed.binlog");
    let original = std::fs::read(path).unwrap();
    let lie = |claim: u64| {
        let (mut framer, mut rest, mut log) = (Framer::new(), &original[MAGIC.len()..], MAGIC.to_vec());
        while let FramerOutput::Event(raw) = framer.next(rest).unwrap() {
            rest = &rest[raw.bytes().len()..];
            let (origin, next) = (raw.header().origin(), NextPosition::FromStart(log.len() as u64));
            let format = framer.format().unwrap();
            let Event::TransactionPayload(payload) = raw.decode(format).unwrap() else {
                raw.rewrite(origin, next, raw.checksum(), &mut log).unwrap();
                continue;
            };
            let mut fields = Vec::new();
            let lying = TransactionPayload::zstd(claim, payload.payload, &mut fields);
            Event::TransactionPayload(lying).write(origin, next, format, &mut log).unwrap();
        }
        log
    };
    let sizes = RewriteLimits { unit: 1, large: 1000, large_threads: 0, directory: std::env::temp_dir() };
    for claim in [1, 1 << 40] {
        let error = run_cut(RewriteAction::Decompress, &sizes, &lie(claim)).unwrap_err().to_string();
        assert!(error.contains("uncompressed payload size is"), "{claim}: {error}");
        assert!(error.contains(&format!("expected {claim}")), "{claim}: {error}");
    }
}

/// Sets the size in the header of an event without a checksum.
fn sized(mut event: Vec<u8>) -> Vec<u8> {
    let size = event.len() as u32;
    event[9..13].copy_from_slice(&size.to_le_bytes());
    event
}
