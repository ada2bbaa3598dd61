//! Records logs of random SQL: `cargo run -p bintide-e2e --example record -- DIRECTORY SEED [COUNT]`.

use std::env;
use std::path::PathBuf;

use anyhow::{Context, Result};

fn main() -> Result<()> {
    let mut arguments = env::args().skip(1);
    let directory = PathBuf::from(arguments.next().context("DIRECTORY is missing")?);
    let seed: u64 = arguments.next().context("SEED is missing")?.parse()?;
    let count: u64 = arguments.next().map_or(Ok(1), |text| text.parse())?;
    for seed in seed..seed + count {
        e2e::workload::record(seed, &format!("workload-{seed}"), &directory)?;
    }
    Ok(())
}
