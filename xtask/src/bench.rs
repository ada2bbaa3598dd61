//! Benchmarks against other programs: contenders do the same job on the same input, in turns, several times. The tables
//! have the medians.
//!
//! Each bench is a list of [`Case`]s. A case is one job and its contenders, with ours first. All inputs are real logs,
//! created if they are missing (`cargo xtask workloads`).

mod cases;
mod chart;
mod compression;
mod lab;
mod lag;
mod large;
mod measure;
mod page;
mod prediction;
mod replay;
mod replay_sqlite;
mod rewriting;
mod streaming;
mod table;
mod warm;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, Subcommand};

use crate::bench::measure::{Measured, run_measured};
pub(crate) use crate::bench::measure::{Measuring, measure_once};
use crate::checks;

/// Bench to run, with its options.
#[derive(Args)]
pub(crate) struct Benching {
    #[command(subcommand)]
    which: Which,
}

#[derive(Subcommand)]
enum Which {
    /// `bintide dump` and mysqlbinlog, with `-vv` and without `-v`, to /dev/null and to a file
    Dump(Racing),
    /// `bintide stats`, mysqlbinlog with a perl one-liner, and a go-mysql program
    Stats(Racing),
    /// `bintide compress` at level 3 and `zstd -3 -T2`
    Compress(Racing),
    /// `bintide decompress` and `zstd -d`
    Decompress(Racing),
    /// Peak memory of dump, stats, verify, compress and decompress on one transaction of 1 GiB
    Memory(Racing),
    /// `bintide stream` and a go-mysql program that writes the same JSON, in Debezium's form and Maxwell's
    Stream(Racing),
    /// The library's row decoding, in rows and bytes a second
    Rows,
    /// `bintide replay`, MySQL's own replica, and `mysqlbinlog | mysql`; writes docs/replay-speed.md
    Replay(replay::Replaying),
    /// `bintide replay` of the load workload into a SQLite database, in row changes a second
    ReplaySqlite {
        /// Number of runs
        #[arg(long, default_value_t = 3)]
        runs: usize,
    },
    /// Replication lag of `bintide replay --from` and of MySQL's replica; writes docs/live.md
    Lag(lag::Lagging),
    /// A replica with ten times more data than memory, with and without `bintide warm`; writes docs/warm.md
    Warm(warm::Warming),
    /// Savings and costs of compression by a real server and by bintide; writes docs/compression.md
    Compression(compression::Compression),
    /// Predictions of `bintide advise`, compared with the results of real servers
    Prediction(prediction::Prediction),
}

/// Options of a race between contenders.
#[derive(Args)]
struct Racing {
    /// Number of runs of each contender in each case
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Run only cases whose name contains this text, such as `load`, `plain` or `-vv`; several texts must all be in the
    /// name
    #[arg(long)]
    only: Vec<String>,
    /// Print the measurements as JSON
    #[arg(long)]
    json: bool,
}

/// Job that all contenders do.
struct Case {
    name: String,
    /// Size of the job's input in bytes, for the rate.
    bytes: u64,
    /// Contenders, with ours first.
    contenders: Vec<Contender>,
    /// Directory for the contenders' outputs, which must be the same; `None` discards them.
    output: Option<PathBuf>,
    goal: Goal,
}

/// Program that does the job.
struct Contender {
    name: &'static str,
    command: Vec<OsString>,
}

/// Goal that ours must reach.
#[derive(Clone, Copy)]
enum Goal {
    /// Minimum speed relative to each other contender, in their order.
    Faster(&'static [f64]),
    /// Limit of peak memory in bytes.
    Memory(u64),
}

/// Runs a bench and prints its table.
pub(crate) fn bench(benching: &Benching) -> Result<()> {
    match &benching.which {
        Which::Dump(racing) => race(cases::dump()?, racing),
        Which::Stats(racing) => race(cases::stats()?, racing),
        Which::Compress(racing) => race(rewriting::compress()?, racing),
        Which::Decompress(racing) => race(rewriting::decompress()?, racing),
        Which::Memory(racing) => {
            let mut cases = cases::memory()?;
            cases.extend(rewriting::memory()?);
            race(cases, racing)
        }
        Which::Lag(options) => lag::lag(options),
        Which::Stream(racing) => streaming::run(racing),
        Which::Warm(options) => warm::warm(options),
        Which::Rows => rows(),
        Which::Replay(options) => replay::replay(options),
        Which::ReplaySqlite { runs } => replay_sqlite::run(*runs),
        Which::Compression(options) => compression::compression(options),
        Which::Prediction(options) => prediction::prediction(options),
    }
}

fn race(cases: Vec<Case>, racing: &Racing) -> Result<()> {
    ensure!(racing.runs > 0, "--runs must be at least 1");
    let wanted = |case: &Case| racing.only.iter().all(|text| case.name.contains(text.as_str()));
    let mut results = Vec::new();
    for case in cases.into_iter().filter(wanted) {
        let measured = run_case(&case, racing.runs).with_context(|| format!("in case {}", case.name))?;
        if !racing.json {
            table::print_progress(&case, &measured);
        }
        results.push((case, measured));
    }
    if racing.json { table::print_json(&results) } else { table::print(&results) }
}

/// Runs a case. Returns a list of runs for each contender.
fn run_case(case: &Case, runs: usize) -> Result<Vec<Vec<Measured>>> {
    let mut measured: Vec<Vec<Measured>> = case.contenders.iter().map(|_| Vec::new()).collect();
    for _ in 0..runs {
        for (contender, measured) in case.contenders.iter().zip(&mut measured) {
            let output = case.output.as_ref().map(|folder| folder.join(contender.name));
            let run = run_measured(&contender.command, output.as_deref());
            measured.push(run.with_context(|| format!("could not measure {}", contender.name))?);
        }
    }
    if let Some(folder) = &case.output {
        compare_outputs(case, folder)?;
    }
    Ok(measured)
}

/// Checks that all contenders have the same output, and removes the outputs.
fn compare_outputs(case: &Case, folder: &Path) -> Result<()> {
    let files: Vec<PathBuf> = case.contenders.iter().map(|contender| folder.join(contender.name)).collect();
    for other in &files[1..] {
        let status = Command::new("cmp").arg(&files[0]).arg(other).status().context("could not run cmp")?;
        ensure!(status.success(), "the outputs differ");
    }
    files.iter().try_for_each(fs::remove_file).context("could not remove the outputs")
}

/// Runs the library's own bench on two workloads: the one with the smallest rows, and one with ordinary rows.
fn rows() -> Result<()> {
    let mut logs = Vec::new();
    for workload in [crate::workloads::Workload::Load, crate::workloads::Workload::Prepare] {
        logs.push(crate::workloads::log(workload, crate::workloads::Form::Plain)?.display().to_string());
    }
    let mut arguments = vec!["bench", "--quiet", "--package", "bintide-binlog", "--bench", "rows", "--"];
    arguments.extend(logs.iter().map(String::as_str));
    checks::cargo(&arguments)
}
