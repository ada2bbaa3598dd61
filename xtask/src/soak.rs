//! Replays or relays from a source for a long time, while processes are stopped at random.

use anyhow::Result;
use clap::Args;
use testkit::seed_from_env;

use crate::checks;

#[derive(Args)]
pub(crate) struct SoakOptions {
    /// Duration of the source's load, in minutes
    #[arg(long, default_value_t = 60)]
    minutes: u64,
    /// Run relays with replicas of every form instead of a replay
    #[arg(long)]
    relay: bool,
    /// Seed of the order and the pauses of the interruptions [default: random]
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run_soak(soak: &SoakOptions) -> Result<()> {
    let seed = soak.seed.unwrap_or_else(|| seed_from_env("BINTIDE_E2E_SEED"));
    checks::run_example(if soak.relay { "relay_soak" } else { "soak" }, [soak.minutes, seed])
}
