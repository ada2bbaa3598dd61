//! Renders sample logs step by step, while they grow.
#![allow(clippy::unwrap_used, reason = "a test that cannot read its samples has failed")]

use std::fs::File;
use std::io::Write as _;
use std::ops::ControlFlow;
use std::path::Path;

use binlog::{MAGIC, ZstdLevel};
use bintide_rewrite::{
    CompressSettings, CompressedPolicy, LogRenderer, MinimumGain, OldFormatPolicy, RenderStep, RewriteAction,
    RewriteLimits, RewriteSettings, TransactionMove, rewrite,
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
    RewriteLimits { unit: 1000, large: 30_000, large_threads: 0, folder: std::env::temp_dir() }
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
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("log");
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

            let (mut wanted, mut wanted_moves) = (Vec::new(), Vec::new());
            let mut note = |moved| {
                wanted_moves.push(moved);
                ControlFlow::Continue(())
            };
            let bounds = PipelineLimits::with_bytes(1 << 24);
            let settings = RewriteSettings { action, bounds, sizes: &limits() };
            rewrite(settings, &open, &mut wanted, &mut note).unwrap();
            assert!(out == wanted, "{name} {action:?}");
            assert_eq!(moves, wanted_moves, "{name} {action:?}");
            for moved in moves.iter().step_by(5) {
                let mut renderer = LogRenderer::new(action, limits(), Box::new(open.clone())).unwrap();
                renderer.start_at(*moved).unwrap();
                let mut out = wanted[..moved.after as usize].to_vec();
                render_all(&mut renderer, &mut out, &mut Vec::new());
                renderer.finish(&mut out, &mut |_| ControlFlow::Continue(())).unwrap();
                assert!(out == wanted, "{name} {action:?} {moved:?}");
                assert_eq!(renderer.place().after, wanted.len() as u64);
            }
        }
    }
}
