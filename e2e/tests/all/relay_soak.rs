//! A short form of `cargo xtask soak --relay`.

use anyhow::{Result, ensure};
use e2e::relay_soak::{RelayInterruption, RelaySoak};
use testkit::SeededRandom;

/// Replicas of two relays, in every form, have the source's tables after interruptions of each part of the chain.
#[test]
fn interruptions_lose_and_repeat_nothing() -> Result<()> {
    const SEED: u64 = 18;
    let interruptions = [
        RelayInterruption::RelayKill,
        RelayInterruption::ClientNetwork,
        RelayInterruption::SecondRelayKill,
        RelayInterruption::SourceNetwork,
        RelayInterruption::RelayStop,
        RelayInterruption::SourceKill,
        RelayInterruption::ReplicaKill,
    ];
    let counts = RelaySoak::new()?.run_sequence(&interruptions, &mut SeededRandom::new(SEED))?;
    ensure!(counts.interruptions.len() == interruptions.len() && counts.rounds > 5, "{counts:?}");
    Ok(())
}
