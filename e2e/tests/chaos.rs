//! A slice of `cargo xtask chaos`: replays that are killed, and whose targets are, at random points.

use anyhow::{Context, Result};
use e2e::chaos::{Blow, Chaos, WAYS, source};
use testkit::{Launch, SeededRandom, seed_from_env};

/// Blows to each way.
const BLOWS: usize = 3;

#[test]
fn whatever_stops_a_replay_it_goes_on_and_repeats_nothing() -> Result<()> {
    let first = seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {first}");
    let source = source(&Launch::mysql(), 6)?;
    // Every other one: with each commit order.
    for (way, seed) in WAYS.into_iter().step_by(2).zip(first..) {
        let dealt = Chaos::new(&source, way)?.strike(&Blow::ALL, BLOWS, &mut SeededRandom::new(seed));
        println!("{way:?}: {:?}", dealt.with_context(|| format!("seed {seed}, {way:?}"))?);
    }
    Ok(())
}

#[test]
fn what_has_no_gtids_goes_on_as_well() -> Result<()> {
    let first = seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {first}");
    let source = source(&Launch::mysql().option("--gtid-mode=OFF"), 6)?;
    let mut random = SeededRandom::new(first);
    Chaos::new(&source, WAYS[0])?.strike(&Blow::ALL, 2 * BLOWS, &mut random)?;
    Ok(())
}
