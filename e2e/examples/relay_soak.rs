//! `cargo xtask soak --relay`: relays that serve replicas in every form, while everything is stopped at random.
//!
//! Arguments: the duration in minutes, and a seed.

use std::env;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use e2e::relay_soak::RelaySoak;
use testkit::SeededRandom;

/// Interval between two lines of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let numbers: Vec<u64> = env::args().skip(1).map(|text| text.parse()).collect::<Result<_, _>>()?;
    let [minutes, seed] = numbers[..] else { bail!("expected two numbers: minutes and a seed") };
    println!("seed {seed}");
    let (begin, mut shown) = (Instant::now(), Duration::ZERO);
    let counts = RelaySoak::new()?.run(&mut SeededRandom::new(seed), |interruptions| {
        let elapsed = begin.elapsed();
        if elapsed >= shown + PROGRESS_INTERVAL {
            shown = elapsed;
            println!("{} minutes: {interruptions} interruptions", elapsed.as_secs() / 60);
        }
        elapsed < Duration::from_secs(minutes * 60)
    })?;
    println!("{counts:?}");
    println!("after {minutes} minutes, every replica has the source's tables");
    Ok(())
}
