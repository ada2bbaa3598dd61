//! `cargo xtask chaos`: kills replays and their targets at random points, many times, with all sets of options.
//!
//! Arguments: the number of faults, and a seed.

use std::env;

use anyhow::{Context, Result, bail};
use e2e::chaos::{Chaos, REPLAY_SETUPS, ReplayFault, source};
use testkit::{Launch, SeededRandom};

fn main() -> Result<()> {
    let numbers: Vec<u64> = env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [count, seed] = numbers[..] else {
        bail!("two numbers are needed: the number of faults, and a seed")
    };
    println!("seed {seed}");
    let source = source(&Launch::mysql(), 30)?;
    let setups = REPLAY_SETUPS.len() as u64;
    for (number, setup) in (0..setups).zip(REPLAY_SETUPS) {
        let share = count / setups + u64::from(number < count % setups);
        let mut random = SeededRandom::new(seed.wrapping_add(number));
        let chaos = Chaos::new(&source, setup)?;
        let injected = chaos.inject_faults(&ReplayFault::ALL, usize::try_from(share)?, &mut random);
        let injected = injected.with_context(|| format!("seed {seed}, {setup:?}"))?;
        println!("bintide replay {}, target with {}: {injected:?}", setup.options.join(" "), setup.log);
    }
    println!("{count} times: every target ended with what the source has, and nothing twice");
    Ok(())
}
