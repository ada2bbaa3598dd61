//! Bench of `bintide warm`: the time in which a lagging replica catches up, with and without it. The replica has ten
//! times more data than memory, on a slow disk.
//!
//! | file | content |
//! |---|---|
//! | `warm_fixture.rs` | the data, the relay logs, and the slow disk |
//! | `catch_up.rs` | one run of a replica, from its applier's start to its last transaction |
//! | `steady_load.rs` | a replica under a slow, steady load: its lag at each second |
//! | `report.rs` | tables and charts: `docs/measured/warm.md` |

mod catch_up;
mod report;
mod steady_load;
mod warm_fixture;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use self::catch_up::{CatchUpConditions, CatchUpRun};
use self::warm_fixture::{WarmChangeKind, WarmFixture};
use super::turns::median_run;
use super::{cases, doc_page};

/// Extent of the measurements.
#[derive(Args)]
pub(crate) struct WarmBenchOptions {
    /// Number of runs of each contender; the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Latencies of the disk, in microseconds
    #[arg(long, value_delimiter = ',', default_values_t = [200, 1000, 5000])]
    latencies: Vec<u32>,
    /// Run only the first latency with one worker, once, and only print the figures
    #[arg(long)]
    quick: bool,
    /// Run only this part, and only print the figures
    #[arg(long)]
    only: Option<WarmBenchPart>,
}

/// Part of the measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WarmBenchPart {
    /// Data larger than memory.
    Cold,
    /// Data that fits in memory.
    Memory,
}

/// Latency that the printed summary refers to, in microseconds: that of a cloud volume.
const TYPICAL_US: u32 = 1000;

/// Runs of the same job without and with `bintide warm`.
struct CatchUpPair {
    kind: WarmChangeKind,
    conditions: CatchUpConditions,
    alone: CatchUpRun,
    warmed: CatchUpRun,
}

impl CatchUpPair {
    /// Returns the speed with `bintide warm` relative to the speed without it.
    fn gain(&self) -> f64 {
        self.alone.seconds / self.warmed.seconds
    }
}

pub(crate) fn measure_warm(options: &WarmBenchOptions) -> Result<()> {
    ensure!(
        options.runs > 0 && !options.latencies.is_empty(),
        "--runs and --latencies must not be 0 or empty"
    );
    let bintide = cases::build_bintide()?;
    let fixture = WarmFixture::prepare()?;
    let (runs, workers) = if options.quick { (1, vec![1]) } else { (options.runs, vec![1, 4]) };
    let latencies = if options.quick { &options.latencies[..1] } else { &options.latencies[..] };
    let measure = |kind: WarmChangeKind, conditions: CatchUpConditions| {
        let pair =
            run_pair(&fixture, kind, conditions, runs, &bintide).with_context(|| conditions.name(kind))?;
        eprintln!("{}", report::line(&pair));
        Ok::<CatchUpPair, anyhow::Error>(pair)
    };
    let is_due = |part| options.only.is_none_or(|only| only == part);
    let mut cold = Vec::new();
    for &latency_us in latencies.iter().filter(|_| is_due(WarmBenchPart::Cold)) {
        for &workers in &workers {
            for kind in WarmChangeKind::ALL {
                cold.push(measure(kind, CatchUpConditions { latency_us, workers, is_in_memory: false })?);
            }
        }
    }
    let mut in_memory = Vec::new();
    for &workers in workers.iter().filter(|_| is_due(WarmBenchPart::Memory)) {
        in_memory.push(measure(
            WarmChangeKind::Secondary,
            CatchUpConditions { latency_us: 0, workers, is_in_memory: true },
        )?);
    }
    if !options.quick && options.only.is_none() {
        let steady = steady_load::measure(&fixture, &bintide)?;
        report::write(&cold, &in_memory)?;
        doc_page::WARM.draw("steady", &report::steady(&steady)?)?;
    }
    let gains = cold.iter().filter(|pair| options.quick || pair.conditions.latency_us == TYPICAL_US);
    let least = gains.map(CatchUpPair::gain).fold(f64::INFINITY, f64::min);
    let loss =
        in_memory.iter().map(|pair| (1.0 / pair.gain() - 1.0) * 100.0).fold(f64::NEG_INFINITY, f64::max);
    if options.only.is_none() {
        println!("catch-up: {least:.1} times as fast with cold data, {loss:.1}% slower with data in memory");
    }
    Ok(())
}

/// Catches up without and with `bintide warm` in turns, and returns the median run of each.
fn run_pair(
    fixture: &WarmFixture,
    kind: WarmChangeKind,
    conditions: CatchUpConditions,
    runs: usize,
    bintide: &std::path::Path,
) -> Result<CatchUpPair> {
    let (mut alone, mut warmed) = (Vec::new(), Vec::new());
    for _ in 0..runs {
        alone.push(catch_up::run(fixture, kind, conditions, None)?);
        warmed.push(catch_up::run(fixture, kind, conditions, Some(bintide))?);
    }
    Ok(CatchUpPair { kind, conditions, alone: median(&alone), warmed: median(&warmed) })
}

fn median(runs: &[CatchUpRun]) -> CatchUpRun {
    median_run(runs, |run| run.seconds)
}
