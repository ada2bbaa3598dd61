//! Follows a source for long, while everything is stopped at random.

use anyhow::Result;
use clap::Args;
use testkit::seed;

use crate::checks;

#[derive(Args)]
pub(crate) struct Soak {
    /// For how long the source works
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// The same number strikes in the same order, with the same pauses; drawn if not given
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn soak(soak: &Soak) -> Result<()> {
    let seed = soak.seed.unwrap_or_else(|| seed("BINTIDE_E2E_SEED"));
    checks::example("soak", [soak.minutes, seed])
}
