//! Replays, relays or streams from a source for a long time, while processes are stopped at random.

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
    /// Stream to Kafka instead of a replay
    #[arg(long, conflicts_with = "relay")]
    kafka: bool,
    /// Seed of the order and the pauses of the interruptions [default: random]
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run_soak(soak: &SoakOptions) -> Result<()> {
    let seed = soak.seed.unwrap_or_else(|| seed_from_env("BINTIDE_E2E_SEED"));
    let name = match soak {
        SoakOptions { relay: true, .. } => "relay_soak",
        SoakOptions { kafka: true, .. } => "kafka_soak",
        _ => "soak",
    };
    checks::run_example(name, [soak.minutes, seed])
}
