//! `cargo xtask soak`: a target follows a source for a given time, while faults are injected at random.
//!
//! Arguments: the number of minutes, and a seed.

use std::env;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use e2e::soak::Soak;
use testkit::SeededRandom;

/// Interval between two progress messages.
const TELL_PERIOD: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let numbers: Vec<u64> = env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [minutes, seed] = numbers[..] else {
        bail!("two numbers are needed: the number of minutes, and a seed")
    };
    println!("seed {seed}");
    let (begin, mut told) = (Instant::now(), Duration::ZERO);
    let soaked = Soak::new(&[])?.run(&mut SeededRandom::new(seed), |blows| {
        let elapsed = begin.elapsed();
        if elapsed >= told + TELL_PERIOD {
            told = elapsed;
            println!("{} minutes: {blows} blows", elapsed.as_secs() / 60);
        }
        elapsed < Duration::from_secs(minutes * 60)
    })?;
    println!("{soaked:?}");
    println!("after {minutes} minutes the target has what the source has, and nothing twice");
    Ok(())
}
