//! `cargo xtask soak`: a target follows a source for a given time, while faults are injected at random.
//!
//! Arguments: the number of minutes, and a seed.

use anyhow::Result;
use e2e::soak::{Soak, SoakArguments};
use testkit::SeededRandom;

fn main() -> Result<()> {
    let arguments = SoakArguments::read()?;
    let counts = Soak::new(&[])?.run(&mut SeededRandom::new(arguments.seed), arguments.more())?;
    println!("{counts:?}");
    println!("after {} minutes the target has what the source has, and nothing twice", arguments.minutes);
    Ok(())
}
