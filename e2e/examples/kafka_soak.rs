//! `cargo xtask soak --kafka`: a stream to Kafka, while faults are injected at random.
//!
//! Arguments: the number of minutes, and a seed.

use anyhow::Result;
use e2e::kafka_soak::{KAFKA_FAULTS, KafkaSoak};
use e2e::soak::SoakArguments;
use testkit::SeededRandom;

fn main() -> Result<()> {
    let arguments = SoakArguments::read()?;
    let mut more = arguments.more();
    let records = KafkaSoak::new()?.run(&mut SeededRandom::new(arguments.seed), |count, random| {
        more(count).then(|| *random.pick(&KAFKA_FAULTS))
    })?;
    println!("after {} minutes, readers have each of {records} records once", arguments.minutes);
    Ok(())
}
