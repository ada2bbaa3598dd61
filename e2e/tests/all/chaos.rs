//! A short run of `cargo xtask chaos`: bintide and its targets are killed at random points of a replay.

use anyhow::{Context, Result};
use e2e::chaos::{Chaos, REPLAY_SETUPS, ReplayFault, source};
use testkit::{Launch, SeededRandom, seed_from_env};

/// Number of faults for each set of options.
const FAULT_COUNT: usize = 2;

#[test]
fn stopped_replays_resume_and_apply_nothing_twice() -> Result<()> {
    let first = seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {first}");
    let source = source(&Launch::mysql(), 6)?;
    // Every other set of options: this covers each commit order.
    for (setup, seed) in REPLAY_SETUPS.into_iter().step_by(2).zip(first..) {
        let injected = Chaos::new(&source, setup)?.inject_faults(
            &ReplayFault::ALL,
            FAULT_COUNT,
            &mut SeededRandom::new(seed),
        );
        println!("{setup:?}: {:?}", injected.with_context(|| format!("seed {seed}, {setup:?}"))?);
    }
    Ok(())
}

#[test]
fn stopped_replays_without_gtids_resume() -> Result<()> {
    let first = seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {first}");
    let source = source(&Launch::mysql().option("--gtid-mode=OFF"), 6)?;
    let mut random = SeededRandom::new(first);
    Chaos::new(&source, REPLAY_SETUPS[0])?.inject_faults(&ReplayFault::ALL, 2 * FAULT_COUNT, &mut random)?;
    Ok(())
}
