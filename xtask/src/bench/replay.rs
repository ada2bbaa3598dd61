//! `bintide replay` beside MySQL's own replica and `mysqlbinlog | mysql`: who catches up first with the same log, on
//! copies of the same data directory, each commit on disk, and the same data at the end.
//!
//! | file | what it holds |
//! |---|---|
//! | `logs.rs` | the logs, and the data directories that they are applied to |
//! | `contender.rs` | who applies them, and how one run is measured |
//! | `report.rs` | tables, drawings and goals: `docs/replay-speed.md` |

mod contender;
mod logs;
mod report;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::Args;

use self::contender::{Contender, Native, Order, Took};
use self::logs::{Kind, Prepared};
use super::cases;

/// What to measure, and how much of it.
#[derive(Args)]
pub(crate) struct Replaying {
    /// Which logs; all if none is named
    #[arg(value_enum)]
    logs: Vec<Kind>,
    /// Transactions of sysbench's; the other logs change about as many rows
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    transactions: u32,
    /// How often each contender runs; the middle run counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Worker counts to try MySQL's own replica with, once each; the best one runs as often as the others
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8, 16])]
    workers: Vec<u32>,
    /// A trial: at most 10,000 transactions, one run, 4 workers; the tables are printed, and no page is written
    #[arg(long)]
    quick: bool,
}

/// One contender's runs of one log.
struct Standing {
    contender: Contender,
    runs: Vec<Took>,
}

/// What one log came to.
struct Race {
    log: Prepared,
    standings: Vec<Standing>,
}

/// Races on each log, and writes the page.
pub(crate) fn replay(options: &Replaying) -> Result<()> {
    ensure!(options.runs > 0 && !options.workers.is_empty(), "nothing is measured in no runs");
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

/// All contenders of a log, taking turns.
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

/// Who races on a log: of each list, whoever is best.
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

    /// The fastest of MySQL's own.
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
