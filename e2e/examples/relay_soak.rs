//! `cargo xtask soak --relay`: relays that serve replicas in every form, while faults are injected at random.
//!
//! Arguments: the number of minutes, and a seed.

use anyhow::Result;
use e2e::relay_soak::RelaySoak;
use e2e::soak::SoakArguments;
use testkit::SeededRandom;

fn main() -> Result<()> {
    let arguments = SoakArguments::read()?;
    let counts = RelaySoak::new()?.run(&mut SeededRandom::new(arguments.seed), arguments.more())?;
    println!("{counts:?}");
    println!("after {} minutes, every replica has the source's tables", arguments.minutes);
    Ok(())
}
