//! Bench of `bintide replay`, MySQL's own replica, and `mysqlbinlog | mysql`: the time to apply the same log. All use
//! copies of the same data directory, sync each commit to disk, and must end with the same data.
//!
//! | file | content |
//! |---|---|
//! | `logs.rs` | the logs, and the data directories that they are applied to |
//! | `contender.rs` | the contenders, and the measurement of one run |
//! | `report.rs` | tables, charts and goals: `docs/replay-speed.md` |

mod contender;
mod logs;
mod report;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::Args;

use self::contender::{Contender, Native, Order, Took};
use self::logs::{Kind, Prepared};
use super::cases;

/// Logs to replay, and extent of the measurements.
#[derive(Args)]
pub(crate) struct Replaying {
    /// Logs to replay [default: all]
    #[arg(value_enum)]
    logs: Vec<Kind>,
    /// Number of sysbench's transactions; the other logs change about as many rows
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    transactions: u32,
    /// Number of runs of each contender; the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Worker counts to try with MySQL's own replica, once each; only the best one runs as often as the others
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8, 16])]
    workers: Vec<u32>,
    /// Make a trial with at most 10,000 transactions, one run and 4 workers, and only print the tables
    #[arg(long)]
    quick: bool,
}

/// Runs of one contender on one log.
struct Standing {
    contender: Contender,
    runs: Vec<Took>,
}

/// Results of one log.
struct Race {
    log: Prepared,
    standings: Vec<Standing>,
}

/// Measures all contenders on each log, and writes the page.
pub(crate) fn replay(options: &Replaying) -> Result<()> {
    ensure!(options.runs > 0 && !options.workers.is_empty(), "--runs and --workers must not be 0 or empty");
    let trial = Replaying {
        logs: options.logs.clone(),
        transactions: options.transactions.min(10_000),
        runs: 1,
        workers: vec![4],
        quick: true,
    };
    let options = if options.quick { &trial } else { options };
    let bintide = cases::bintide()?;
    let kinds = if options.logs.is_empty() { Kind::ALL.to_vec() } else { options.logs.clone() };
    let mut races = Vec::new();
    for kind in kinds {
        let log = logs::prepare(kind, options.transactions, &bintide)?;
        let race = race(log, options, &bintide).with_context(|| format!("in the log {}", kind.name()))?;
        report::report(&race, options)?;
        races.push(race);
    }
    report::compare(&races, options)
}

/// Runs all contenders of a log, in turns.
fn race(log: Prepared, options: &Replaying, bintide: &Path) -> Result<Race> {
    let mut standings = Vec::new();
    let run = |contender: Contender| {
        let took = contender.run(&log, bintide).with_context(|| format!("{} failed", contender.name()))?;
        eprintln!("{}: {}: {}", log.kind.name(), contender.name(), took.line());
        Ok::<Took, anyhow::Error>(took)
    };
    for entrants in entrants(log.kind, &options.workers) {
        let mut best: Option<Standing> = None;
        for contender in entrants {
            let took = run(contender)?;
            if best.as_ref().is_none_or(|best| took.seconds < best.runs[0].seconds) {
                best = Some(Standing { contender, runs: vec![took] });
            }
        }
        standings.extend(best);
    }
    for _ in 1..options.runs {
        for standing in &mut standings {
            standing.runs.push(run(standing.contender)?);
        }
    }
    Ok(Race { log, standings })
}

/// Returns the contenders of a log, in lists of alternatives: only the fastest of each list continues.
fn entrants(kind: Kind, workers: &[u32]) -> Vec<Vec<Contender>> {
    let native = |native: Native| workers.iter().map(|workers| Contender::Native(native, *workers)).collect();
    let mut entrants: Vec<Vec<Contender>> = vec![native(Native::NoLog)];
    if kind == Kind::Sysbench {
        entrants.extend([native(Native::NoUpdates), native(Native::Log), vec![Contender::Pipe]]);
    }
    entrants.extend(Order::ALL.map(|order| vec![Contender::Bintide(order)]));
    entrants
}

impl Race {
    fn find(&self, wanted: impl Fn(Contender) -> bool) -> Option<Took> {
        let standing = self.standings.iter().find(|standing| wanted(standing.contender));
        standing.map(|standing| contender::median(&standing.runs))
    }

    /// Returns the fastest of MySQL's own replicas.
    fn native(&self) -> Option<Took> {
        let natives =
            self.standings.iter().filter(|standing| matches!(standing.contender, Contender::Native(..)));
        let times = natives.map(|standing| contender::median(&standing.runs));
        times.min_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    fn pipe(&self) -> Option<Took> {
        self.find(|contender| contender == Contender::Pipe)
    }

    fn ours(&self, order: Order) -> Option<Took> {
        self.find(|contender| contender == Contender::Bintide(order))
    }
}
