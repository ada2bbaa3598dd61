//! `cargo xtask chaos`: kills replays and their targets at random points, many times, with all sets of options.
//!
//! Arguments: the number of faults, and a seed.

use std::env;

use anyhow::{Context, Result, bail};
use e2e::chaos::{Chaos, Interruption, WAYS, source};
use testkit::{Launch, SeededRandom};

fn main() -> Result<()> {
    let numbers: Vec<u64> = env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [count, seed] = numbers[..] else {
        bail!("two numbers are needed: the number of faults, and a seed")
    };
    println!("seed {seed}");
    let source = source(&Launch::mysql(), 30)?;
    let ways = WAYS.len() as u64;
    for (number, way) in (0..ways).zip(WAYS) {
        let share = count / ways + u64::from(number < count % ways);
        let mut random = SeededRandom::new(seed.wrapping_add(number));
        let chaos = Chaos::new(&source, way)?;
        let dealt = chaos.strike(&Interruption::ALL, usize::try_from(share)?, &mut random);
        let dealt = dealt.with_context(|| format!("seed {seed}, {way:?}"))?;
        println!("bintide replay {}, target with {}: {dealt:?}", way.options.join(" "), way.log);
    }
    println!("{count} times: every target ended with what the source has, and nothing twice");
    Ok(())
}
