//! Bench of `bintide replay`, MySQL's own replica, and `mysqlbinlog | mysql`: the time to apply the same log. All use
//! copies of the same data directory, sync each commit to disk, and must end with the same data.
//!
//! | file | content |
//! |---|---|
//! | `start_tables.rs` | the data directories that the logs are applied to |
//! | `replay_logs.rs` | the logs |
//! | `contender.rs` | the contenders, and the measurement of one run |
//! | `report.rs` | tables, charts and goals: `docs/measured/replay-speed.md` |

mod contender;
mod replay_logs;
mod report;
mod start_tables;

use std::path::Path;

use anyhow::{Context, Result, ensure};
use clap::{Args, ValueEnum};

use self::contender::{BenchCommitOrder, ReplayContender, ReplicaLogging};
pub(crate) use self::contender::{ReplayInput, ReplayMeasurement};
use self::replay_logs::{PreparedReplayLog, ReplayLogKind};
use super::cases;
use super::turns::{ContenderRuns, run_in_turns};

/// Logs to replay, and extent of the measurements.
#[derive(Args)]
pub(crate) struct ReplayBenchOptions {
    /// Logs to replay [default: all]
    #[arg(value_enum)]
    logs: Vec<ReplayLogKind>,
    /// Number of sysbench's transactions; the other logs change about as many rows
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(100..=100_000))]
    transactions: u32,
    /// Number of runs of each contender; the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Worker counts to try with MySQL's own replica, once each; only the best one runs as often as the others
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8, 16])]
    workers: Vec<u32>,
    /// Methods to run; only prints the tables [default: all]
    #[arg(long, value_enum, value_delimiter = ',')]
    methods: Vec<ReplayMethod>,
    /// Make a trial with at most 10,000 transactions, one run and 4 workers, and only print the tables
    #[arg(long)]
    quick: bool,
}

/// Kind of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ReplayMethod {
    /// MySQL's replica without a binary log
    Replica,
    /// MySQL's replica with a binary log, with and without the applier's changes
    ReplicaLog,
    /// mysqlbinlog | mysql
    Mysqlbinlog,
    /// bintide replay --commit-order strict
    Strict,
    /// bintide replay --commit-order grouped
    Grouped,
    /// bintide replay --commit-order any
    Any,
    /// bintide replay --log
    StrictLog,
}

/// Kind of a target, by its binary log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TargetKind {
    WithoutLog,
    WithLog,
}

/// Results of one log.
struct ReplayRace {
    log: PreparedReplayLog,
    results: Vec<ContenderRuns<ReplayContender, ReplayMeasurement>>,
}

/// Measures all contenders on each log, and writes the page.
pub(crate) fn measure_replay(options: &ReplayBenchOptions) -> Result<()> {
    ensure!(options.runs > 0 && !options.workers.is_empty(), "--runs and --workers must not be 0 or empty");
    let trial = ReplayBenchOptions {
        logs: options.logs.clone(),
        transactions: options.transactions.min(10_000),
        runs: 1,
        workers: vec![4],
        methods: options.methods.clone(),
        quick: true,
    };
    let options = if options.quick { &trial } else { options };
    let bintide = cases::build_bintide()?;
    let kinds = if options.logs.is_empty() { ReplayLogKind::ALL.to_vec() } else { options.logs.clone() };
    let mut races = Vec::new();
    for kind in kinds {
        let log = replay_logs::prepare(kind, options.transactions, &bintide)?;
        let race = run_race(log, options, &bintide).with_context(|| format!("in the log {}", kind.name()))?;
        report::report(&race, options)?;
        races.push(race);
    }
    report::compare(&races, options)
}

/// Replays sysbench's log from each of these inputs, in turns. Returns the median of each.
pub(crate) fn measure_inputs(
    bintide: &Path,
    inputs: &[ReplayInput],
    runs: usize,
) -> Result<Vec<ReplayMeasurement>> {
    let log = replay_logs::prepare(ReplayLogKind::Sysbench, INPUT_TRANSACTIONS, bintide)?;
    inputs.iter().try_for_each(|input| input.prepare(&log, bintide))?;
    let mut found: Vec<Vec<ReplayMeasurement>> = inputs.iter().map(|_| Vec::new()).collect();
    for _ in 0..runs {
        for (input, found) in inputs.iter().zip(&mut found) {
            let run = input.run(&log, bintide).with_context(|| format!("could not replay {}", input.name))?;
            eprintln!("replay from {}: {}", input.name, run.line());
            found.push(run);
        }
    }
    Ok(found.iter().map(|runs| contender::median(runs)).collect())
}

/// Number of transactions that are replayed from each input.
const INPUT_TRANSACTIONS: u32 = 100_000;

/// Runs all contenders of a log, in turns.
fn run_race(log: PreparedReplayLog, options: &ReplayBenchOptions, bintide: &Path) -> Result<ReplayRace> {
    let run = |contender: ReplayContender| {
        let took = contender.run(&log, bintide).with_context(|| format!("{} failed", contender.name()))?;
        eprintln!("{}: {}: {}", log.kind.name(), contender.name(), took.line());
        Ok(took)
    };
    let results = run_in_turns(alternatives(log.kind, options), options.runs, |took| took.seconds, run)?;
    Ok(ReplayRace { log, results })
}

/// Returns the contenders of a log, in lists of alternatives: only the fastest of each list continues.
fn alternatives(kind: ReplayLogKind, options: &ReplayBenchOptions) -> Vec<Vec<ReplayContender>> {
    let native = |native: ReplicaLogging| {
        options.workers.iter().map(|workers| ReplayContender::Native(native, *workers)).collect()
    };
    let ours = |order| vec![ReplayContender::Bintide(order)];
    let mut alternatives = vec![
        (ReplayMethod::Replica, native(ReplicaLogging::NoLog)),
        (ReplayMethod::ReplicaLog, native(ReplicaLogging::Log)),
        (ReplayMethod::Strict, ours(BenchCommitOrder::Strict)),
        (ReplayMethod::Grouped, ours(BenchCommitOrder::Grouped)),
        (ReplayMethod::Any, ours(BenchCommitOrder::Any)),
        (ReplayMethod::StrictLog, vec![ReplayContender::BintideLogging]),
    ];
    if kind == ReplayLogKind::Sysbench {
        alternatives.insert(1, (ReplayMethod::ReplicaLog, native(ReplicaLogging::NoUpdates)));
        alternatives.insert(3, (ReplayMethod::Mysqlbinlog, vec![ReplayContender::Pipe]));
    }
    let is_chosen = |method| options.methods.is_empty() || options.methods.contains(&method);
    alternatives.retain(|(method, _)| is_chosen(*method));
    alternatives.into_iter().map(|(_, contenders)| contenders).collect()
}

impl ReplayBenchOptions {
    /// Returns true if results are printed and not written into the page.
    fn only_prints(&self) -> bool {
        self.quick || !self.methods.is_empty()
    }
}

impl ReplayRace {
    fn find(&self, is_match: impl Fn(ReplayContender) -> bool) -> Option<ReplayMeasurement> {
        let standing = self.results.iter().find(|standing| is_match(standing.contender));
        standing.map(|standing| contender::median(&standing.runs))
    }

    /// Returns the fastest of MySQL's own replicas; for a target with a binary log, of those that log all changes.
    fn native(&self, target: TargetKind) -> Option<ReplayMeasurement> {
        let natives = self.results.iter().filter(|standing| match (standing.contender, target) {
            (ReplayContender::Native(..), TargetKind::WithoutLog) => true,
            (ReplayContender::Native(logging, _), TargetKind::WithLog) => logging == ReplicaLogging::Log,
            _ => false,
        });
        let times = natives.map(|standing| contender::median(&standing.runs));
        times.min_by(|a, b| a.seconds.total_cmp(&b.seconds))
    }

    fn pipe(&self) -> Option<ReplayMeasurement> {
        self.find(|contender| contender == ReplayContender::Pipe)
    }

    fn ours(&self, order: BenchCommitOrder) -> Option<ReplayMeasurement> {
        self.find(|contender| contender == ReplayContender::Bintide(order))
    }
}
