//! Kills replays and their targets at random points.

use anyhow::Result;
use clap::Args;
use testkit::seed;

use crate::checks;

#[derive(Args)]
pub(crate) struct Chaos {
    /// How many times a replay is stopped: by kill -9 of bintide or of the target, a restart of the target, a network
    /// that closes or resets connections
    #[arg(long, default_value_t = 100)]
    kills: u64,
    /// The same number strikes in the same order, with the same pauses; drawn if not given
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn chaos(chaos: &Chaos) -> Result<()> {
    let seed = chaos.seed.unwrap_or_else(|| seed("BINTIDE_E2E_SEED"));
    checks::example("chaos", [chaos.kills, seed])
}
