//! A short run of `cargo xtask chaos`: bintide and its targets are killed at random points of a replay.

use anyhow::{Context, Result};
use e2e::chaos::{Chaos, Interruption, WAYS, source};
use testkit::{Launch, SeededRandom, seed_from_env};

/// Number of faults for each set of options.
const INTERRUPTIONS: usize = 3;

#[test]
fn stopped_replays_resume_and_apply_nothing_twice() -> Result<()> {
    let first = seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {first}");
    let source = source(&Launch::mysql(), 6)?;
    // Every other set of options: this covers each commit order.
    for (way, seed) in WAYS.into_iter().step_by(2).zip(first..) {
        let dealt =
            Chaos::new(&source, way)?.strike(&Interruption::ALL, INTERRUPTIONS, &mut SeededRandom::new(seed));
        println!("{way:?}: {:?}", dealt.with_context(|| format!("seed {seed}, {way:?}"))?);
    }
    Ok(())
}

#[test]
fn stopped_replays_without_gtids_resume() -> Result<()> {
    let first = seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {first}");
    let source = source(&Launch::mysql().option("--gtid-mode=OFF"), 6)?;
    let mut random = SeededRandom::new(first);
    Chaos::new(&source, WAYS[0])?.strike(&Interruption::ALL, 2 * INTERRUPTIONS, &mut random)?;
    Ok(())
}
