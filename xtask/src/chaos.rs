//! Kills replays and their targets at random points.

use anyhow::Result;
use clap::Args;
use testkit::seed_from_env;

use crate::checks;

#[derive(Args)]
pub(crate) struct ChaosOptions {
    /// Number of interruptions of a replay: kill -9 of bintide or of the target, a restart of the target, or a network
    /// that closes or resets connections
    #[arg(long, default_value_t = 100)]
    kills: u64,
    /// Seed of the order and the pauses of the interruptions [default: random]
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run_chaos(chaos: &ChaosOptions) -> Result<()> {
    let seed = chaos.seed.unwrap_or_else(|| seed_from_env("BINTIDE_E2E_SEED"));
    checks::run_example("chaos", [chaos.kills, seed])
}
