//! Renders sample logs step by step, while they grow.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its samples has failed")]

use std::fs::File;
use std::io::Write as _;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

use binlog::{EventChecksum, EventType, Framer, FramerOutput, MAGIC, NextPosition, ZstdLevel, move_event};
use bintide_rewrite::{
    CompressSettings, CompressedPolicy, LogRenderer, MinimumGain, OldFormatPolicy, RenderStep, RewriteAction,
    RewriteLimits, RewriteSettings, TornEndPolicy, TransactionMove, rewrite,
};
use logs::LogReader;
use logs::ordered::PipelineLimits;

const COMPRESS: RewriteAction = RewriteAction::Compress(CompressSettings {
    level: ZstdLevel::DEFAULT,
    minimum_gain: MinimumGain::None,
    compressed: CompressedPolicy::Recompress,
    event_size_max: 1 << 30,
    old_format: OldFormatPolicy::Refuse,
});

fn limits() -> RewriteLimits {
    RewriteLimits { unit: 1000, large: 30_000, large_threads: 0, directory: std::env::temp_dir() }
}

fn sample(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples").join(name)).unwrap()
}

/// Renders what is available to `out`.
fn render_all(renderer: &mut LogRenderer, out: &mut Vec<u8>, moves: &mut Vec<TransactionMove>) {
    let mut note = |moved| {
        moves.push(moved);
        ControlFlow::Continue(())
    };
    while renderer.render_next(out, &mut note).unwrap() == RenderStep::Advanced {}
}

#[test]
fn steps_write_the_same_log_and_can_start_at_any_transaction() {
    for name in
        ["types.binlog", "large.binlog", "types-compressed.binlog", "xa.binlog", "mixed-engines.binlog"]
    {
        let log = sample(name);
        for action in [RewriteAction::Decompress, COMPRESS] {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("log");
            let mut file = File::create(&path).unwrap();
            let again = path.clone();
            let open = move || LogReader::open(&again);
            let mut renderer = LogRenderer::new(action, limits(), Box::new(open.clone())).unwrap();
            // The output counts positions from the first byte of the log.
            let (mut out, mut moves) = (MAGIC.to_vec(), Vec::new());
            for piece in log.chunks(777) {
                file.write_all(piece).unwrap();
                render_all(&mut renderer, &mut out, &mut moves);
            }
            renderer.finish(&mut out, &mut |_| ControlFlow::Continue(())).unwrap();

            let (mut expected, mut expected_moves) = (Vec::new(), Vec::new());
            let mut note = |moved| {
                expected_moves.push(moved);
                ControlFlow::Continue(())
            };
            let bounds = PipelineLimits::with_bytes(1 << 24);
            let settings =
                RewriteSettings { action, bounds, sizes: &limits(), torn_end: TornEndPolicy::Refuse };
            rewrite(settings, &open, &mut expected, &mut note).unwrap();
            assert!(out == expected, "{name} {action:?}");
            assert_eq!(moves, expected_moves, "{name} {action:?}");
            for moved in moves.iter().step_by(5) {
                let mut renderer = LogRenderer::new(action, limits(), Box::new(open.clone())).unwrap();
                renderer.start_at(*moved).unwrap();
                let mut out = expected[..moved.after as usize].to_vec();
                render_all(&mut renderer, &mut out, &mut Vec::new());
                renderer.finish(&mut out, &mut |_| ControlFlow::Continue(())).unwrap();
                assert!(out == expected, "{name} {action:?} {moved:?}");
                assert_eq!(renderer.position().after, expected.len() as u64);
            }
        }
    }
}

/// Changes a byte near the end of a log's event. `Sealed` events get a valid checksum afterwards.
fn damage(log: &[u8], event: &RawEventLocation, seal: EventSeal) -> Vec<u8> {
    let mut damaged = log.to_vec();
    let range = event.range.clone();
    damaged[range.end - event.checksum.size() - 2] ^= 0x55;
    if seal == EventSeal::Valid {
        move_event(&mut damaged[range], event.checksum, NextPosition::Fixed(event.next_position));
    }
    damaged
}

/// Checksum of a damaged event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EventSeal {
    /// It does not match.
    Broken,
    /// It matches the damaged bytes.
    Valid,
}

/// Place of an event in a log.
struct RawEventLocation {
    range: Range<usize>,
    event_type: EventType,
    checksum: EventChecksum,
    next_position: u32,
}

fn events(log: &[u8]) -> Vec<RawEventLocation> {
    let (mut framer, mut locations, mut start) = (Framer::new(), Vec::new(), MAGIC.len());
    while let FramerOutput::Event(raw) = framer.next(&log[start..]).unwrap() {
        let (range, event_type) = (start..start + raw.bytes().len(), raw.event_type());
        start = range.end;
        let (checksum, next_position) = (raw.checksum(), raw.header().next_position);
        locations.push(RawEventLocation { range, event_type, checksum, next_position });
    }
    locations
}

/// Renders a log from memory. Returns what is whole, the starts of transactions, and the error.
fn render_bytes(log: &[u8], action: RewriteAction) -> (Vec<u8>, Vec<TransactionMove>, Option<String>) {
    let shared: Arc<[u8]> = log.into();
    let open = move || Ok(LogReader::from_bytes("log".to_owned(), Arc::clone(&shared)));
    let limits = RewriteLimits { unit: 100_000, ..limits() };
    let mut renderer = LogRenderer::new(action, limits, Box::new(open)).unwrap();
    let (mut out, mut moves) = (MAGIC.to_vec(), Vec::new());
    let mut note = |moved| {
        moves.push(moved);
        ControlFlow::Continue(())
    };
    let error = loop {
        match renderer.render_next(&mut out, &mut note) {
            Ok(RenderStep::Advanced) => {}
            Ok(RenderStep::End(_)) => break None,
            Err(error) => break Some(error.to_string()),
        }
    };
    out.truncate(renderer.whole_end() as usize);
    (out, moves, error)
}

#[test]
fn whole_transactions_in_front_of_damage_are_written() {
    let large = sample("large.binlog");
    let (compressed, _, _) = render_bytes(&large, COMPRESS);
    for log in [sample("types.binlog"), sample("types-compressed.binlog"), large, compressed] {
        for action in [RewriteAction::Decompress, COMPRESS] {
            let (expected, moves, _) = render_bytes(&log, action);
            let mut checked = 0;
            for event in events(&log) {
                let start = event.range.start as u64;
                let Some(inside) = moves.iter().rfind(|moved| moved.before <= start) else { continue };
                let seals: &[EventSeal] = match event.event_type {
                    EventType::TransactionPayload => &[EventSeal::Broken, EventSeal::Valid],
                    EventType::Rotate | EventType::Stop => continue,
                    _ => &[EventSeal::Broken],
                };
                for seal in seals {
                    let (out, _, error) = render_bytes(&damage(&log, &event, *seal), action);
                    let context = format!("{action:?} {:?} {seal:?} {error:?}", event.range);
                    assert!(
                        error.is_some_and(|error| error.contains(&format!("log at {start}: "))),
                        "{context}"
                    );
                    assert_eq!(out.len() as u64, inside.after, "{context}");
                    assert!(expected.starts_with(&out), "{context}");
                    checked += 1;
                }
            }
            assert!(checked > 10, "{checked}");
        }
    }
}
