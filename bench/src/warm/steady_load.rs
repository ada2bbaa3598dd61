//! A replica under a slow, steady load: ten updates a second, of ten rows each, on a disk with 5 ms latency. A row and
//! its entries in the secondary index are on three pages: each update needs 150 ms of reading, unless the pages are in
//! memory.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::Result;
use testkit::SeededRandom;

use super::catch_up::{WarmProcess, lag_ms};
use super::warm_fixture::{POOL_MIB, ROWS, WarmFixture, launch_replica};

/// Lag of the replica at the end of each second, in seconds.
pub(super) struct SteadyLags {
    pub(super) alone: Vec<f64>,
    pub(super) warmed: Vec<f64>,
}

pub(super) const LATENCY_US: u32 = 5000;
const SECONDS: usize = 40;
pub(super) const UPDATES_A_SECOND: usize = 10;
pub(super) const ROWS_AN_UPDATE: usize = 10;

pub(super) fn measure(fixture: &WarmFixture, bintide: &Path) -> Result<SteadyLags> {
    Ok(SteadyLags { alone: run(fixture, None)?, warmed: run(fixture, Some(bintide))? })
}

fn run(fixture: &WarmFixture, bintide: Option<&Path>) -> Result<Vec<f64>> {
    let source = fixture.launch_source().start()?;
    let launch = launch_replica(&fixture.base_directory(), POOL_MIB).option("--replica-parallel-workers=1");
    let replica = fixture.add_slow_disk(launch, LATENCY_US).start()?;
    replica.set_source(&source)?;
    replica.sql("start replica")?;
    let warming = bintide.map(|bintide| WarmProcess::start(bintide, &replica)).transpose()?;
    let (mut random, begin, mut lags) = (SeededRandom::new(7), Instant::now(), Vec::new());
    for number in 1..=SECONDS * UPDATES_A_SECOND {
        let ids: Vec<String> = (0..ROWS_AN_UPDATE).map(|_| (1 + random.below(ROWS)).to_string()).collect();
        let new = random.below(1 << 30);
        source.sql(&format!("update d.t set k = {new} + id where id in ({})", ids.join(", ")))?;
        let due = Duration::from_millis((number * 1000 / UPDATES_A_SECOND) as u64);
        thread::sleep(due.saturating_sub(begin.elapsed()));
        if number % UPDATES_A_SECOND == 0 {
            lags.push(lag_ms(&replica)? / 1000.0);
        }
    }
    if let Some(warming) = warming {
        warming.stop()?;
    }
    Ok(lags)
}
