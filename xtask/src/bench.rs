//! Side by side: contenders do the same job on the same input, taking turns, several times; the medians stand in
//! a table.
//!
//! Each bench is a list of [`Case`]s; a case is one job and the contenders that do it, ours first. All inputs are
//! real logs, made now if they are not there (`cargo xtask workloads`).

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

/// Which bench, and how.
#[derive(Args)]
pub(crate) struct Benching {
    #[command(subcommand)]
    which: Which,
}

#[derive(Subcommand)]
enum Which {
    /// `bintide dump` and mysqlbinlog: with `-vv` and without `-v`, to nowhere and to a file
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
    /// `bintide replay` into a SQLite database: row changes a second of the load workload
    ReplaySqlite {
        /// How often
        #[arg(long, default_value_t = 3)]
        runs: usize,
    },
    /// From a source's commit to the target's: `bintide replay --from` and MySQL's replica; writes docs/live.md
    Lag(lag::Lagging),
    /// A replica whose data is ten times its memory, with `bintide warm` and without; writes docs/warm.md
    Warm(warm::Warming),
    /// What compression saves and costs on a real server, and ours beside it; writes docs/compression.md
    Compression(compression::Compression),
    /// What `bintide advise` predicts beside what real servers then do
    Prediction(prediction::Prediction),
}

/// How contenders take turns.
#[derive(Args)]
struct Racing {
    /// How often each contender runs each case
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Only cases whose name holds this text, such as `load`, `plain` or `-vv`; several: all must be in it
    #[arg(long)]
    only: Vec<String>,
    /// Print the measurements as JSON
    #[arg(long)]
    json: bool,
}

/// One job that all contenders do.
struct Case {
    name: String,
    /// What the job reads, in bytes, for the rate.
    bytes: u64,
    /// Ours first.
    contenders: Vec<Contender>,
    /// Where the output goes: nowhere, or into files of this folder, which must then be the same.
    output: Option<PathBuf>,
    goal: Goal,
}

/// One way of doing it.
struct Contender {
    name: &'static str,
    command: Vec<OsString>,
}

/// What ours must reach.
#[derive(Clone, Copy)]
enum Goal {
    /// To be so many times faster than each other contender, in their order.
    Faster(&'static [f64]),
    /// To need less than so many bytes of memory.
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
    ensure!(racing.runs > 0, "nothing is measured in no runs");
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

/// All runs of a case: a list of runs for each contender.
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

/// A contender that is fast and wrong has not won.
fn compare_outputs(case: &Case, folder: &Path) -> Result<()> {
    let files: Vec<PathBuf> = case.contenders.iter().map(|contender| folder.join(contender.name)).collect();
    for other in &files[1..] {
        let status = Command::new("cmp").arg(&files[0]).arg(other).status().context("could not run cmp")?;
        ensure!(status.success(), "the outputs differ");
    }
    files.iter().try_for_each(fs::remove_file).context("could not remove the outputs")
}

/// The library's own bench, on the logs of the workloads with the smallest and with ordinary rows.
fn rows() -> Result<()> {
    let mut logs = Vec::new();
    for workload in [crate::workloads::Workload::Load, crate::workloads::Workload::Prepare] {
        logs.push(crate::workloads::log(workload, crate::workloads::Form::Plain)?.display().to_string());
    }
    let mut arguments = vec!["bench", "--quiet", "--package", "bintide-binlog", "--bench", "rows", "--"];
    arguments.extend(logs.iter().map(String::as_str));
    checks::cargo(&arguments)
}
