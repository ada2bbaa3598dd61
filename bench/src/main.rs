//! Benchmarks against other programs, started by `cargo xtask bench`. Contenders do the same job on the same input,
//! in turns, several times. The tables show the medians.
//!
//! Each bench is a list of [`BenchCase`]s. A case is one job and its contenders, with ours first. All inputs are real
//! logs, created if they are missing (`cargo xtask workloads`).

mod archive_reading;
mod archiving;
mod cases;
mod chart;
mod compression;
mod doc_page;
mod exporting;
mod kafka;
mod lag;
mod large;
mod measure;
mod prediction;
mod relay;
mod replay;
mod replay_sqlite;
mod rewriting;
mod streaming;
mod table;
mod turns;
mod warm;
mod workload_runs;
mod workloads;

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};

use crate::measure::{MeasureOptions, RunMeasurement, measure_once, run_measured};

#[derive(Parser)]
#[command(name = "cargo xtask bench", about = "Benchmark bintide against other programs")]
struct BenchArgs {
    #[command(subcommand)]
    which: BenchCommand,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// `bintide dump` and mysqlbinlog, with `-vv` and without `-v`, to /dev/null and to a file
    Dump(RaceOptions),
    /// `bintide stats`, mysqlbinlog with a perl one-liner, and a go-mysql program
    Stats(RaceOptions),
    /// `bintide history`, and `bintide stats` with selections and groups, beside `bintide stats` alone
    Answers(RaceOptions),
    /// `bintide undo` of an update of all rows, and mysqlbinlog that prints it
    Undo(RaceOptions),
    /// `bintide compress` at level 3 and `zstd -3 -T2`
    Compress(RaceOptions),
    /// `bintide archive` and zstd: size, speed, and comparison of restored logs
    Archive(archiving::ArchiveBenchOptions),
    /// Reading archives: a count by DuckDB beside stats and mysqlbinlog on the logs, and replay from an S3 server
    ArchiveReading(archive_reading::ArchiveReadingOptions),
    /// `bintide decompress` and `zstd -d`
    Decompress(RaceOptions),
    /// Peak memory of dump, stats, verify, compress and decompress on one transaction of 1 GiB
    Memory(RaceOptions),
    /// `bintide stream` and a go-mysql program that writes the same JSON, in Debezium's form and Maxwell's
    Stream(RaceOptions),
    /// `bintide export`, and the library's decoding into record batches, in MB of log a second
    Export(RaceOptions),
    /// The library's row decoding, in rows and bytes a second
    Rows,
    /// `bintide replay`, MySQL's own replica, and `mysqlbinlog | mysql`; writes docs/measured/replay-speed.md
    Replay(replay::ReplayBenchOptions),
    /// `bintide replay` of the load workload into a SQLite database, in row changes a second
    ReplaySqlite {
        /// Number of runs
        #[arg(long, default_value_t = 3)]
        runs: usize,
    },
    /// Replication lag of `bintide replay --from` and of MySQL's replica; writes docs/measured/lag.md
    Lag(lag::LagBenchOptions),
    /// `bintide relay` and mysqld as sources of the same logs; writes docs/measured/relay.md
    Relay(relay::RelayBenchOptions),
    /// `bintide stream` to Apache Kafka and Debezium Server; writes docs/measured/kafka.md
    Kafka(kafka::KafkaBenchOptions),
    /// A replica with ten times more data than memory, with and without `bintide warm`; writes docs/measured/warm.md
    Warm(warm::WarmBenchOptions),
    /// Savings and costs of compression by a real server and by bintide; writes docs/measured/compression.md
    Compression(compression::CompressionBenchOptions),
    /// Predictions of `bintide advise`, compared with the results of real servers
    Prediction(prediction::PredictionBenchOptions),
    /// Create the logs that the benches read, by running five workloads on a real server
    Workloads,
    #[command(hide = true)]
    Measure(MeasureOptions),
}

/// Options of a race between contenders.
#[derive(Args)]
struct RaceOptions {
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
struct BenchCase {
    name: String,
    /// Size of the job's input in bytes, for the rate.
    bytes: u64,
    /// Contenders, with ours first.
    contenders: Vec<CaseContender>,
    /// Directory for the contenders' outputs, which must be the same; `None` discards them.
    output: Option<PathBuf>,
    goal: CaseGoal,
}

/// Program that does the job.
struct CaseContender {
    name: &'static str,
    command: Vec<OsString>,
}

/// Goal that ours must reach.
#[derive(Clone, Copy)]
enum CaseGoal {
    /// Minimum speed relative to each other contender, in their order.
    Faster(&'static [f64]),
    /// Limit of peak memory in bytes.
    Memory(u64),
}

fn main() -> Result<()> {
    match &BenchArgs::parse().which {
        BenchCommand::Dump(racing) => run_race(cases::dump_cases()?, racing),
        BenchCommand::Stats(racing) => run_race(cases::stats_cases()?, racing),
        BenchCommand::Answers(racing) => run_race(cases::answer_cases()?, racing),
        BenchCommand::Undo(racing) => run_race(cases::undo_cases()?, racing),
        BenchCommand::Compress(racing) => run_race(rewriting::compress_cases()?, racing),
        BenchCommand::Archive(options) => archiving::measure_archive(options),
        BenchCommand::ArchiveReading(options) => archive_reading::measure_archive_reading(options),
        BenchCommand::Decompress(racing) => run_race(rewriting::decompress_cases()?, racing),
        BenchCommand::Memory(racing) => {
            let mut cases = cases::memory_cases()?;
            cases.extend(rewriting::memory_cases()?);
            run_race(cases, racing)
        }
        BenchCommand::Lag(options) => lag::measure_lag(options),
        BenchCommand::Relay(options) => relay::measure_relay(options),
        BenchCommand::Kafka(options) => kafka::measure_kafka(options),
        BenchCommand::Stream(racing) => streaming::run(racing),
        BenchCommand::Warm(options) => warm::measure_warm(options),
        BenchCommand::Export(racing) => exporting::run(racing),
        BenchCommand::Rows => run_rows_bench(),
        BenchCommand::Replay(options) => replay::measure_replay(options),
        BenchCommand::ReplaySqlite { runs } => replay_sqlite::run(*runs),
        BenchCommand::Compression(options) => compression::measure_compression(options),
        BenchCommand::Prediction(options) => prediction::measure_prediction(options),
        BenchCommand::Workloads => workloads::make_all_logs(),
        BenchCommand::Measure(options) => measure_once(options),
    }
}

fn run_race(cases: Vec<BenchCase>, racing: &RaceOptions) -> Result<()> {
    ensure!(racing.runs > 0, "--runs must be at least 1");
    let is_selected = |case: &BenchCase| racing.only.iter().all(|text| case.name.contains(text.as_str()));
    let mut results = Vec::new();
    for case in cases.into_iter().filter(is_selected) {
        let measured = run_case(&case, racing.runs).with_context(|| format!("in case {}", case.name))?;
        if !racing.json {
            table::print_progress(&case, &measured);
        }
        results.push((case, measured));
    }
    if racing.json { table::print_json(&results) } else { table::print(&results) }
}

/// Runs a case. Returns a list of runs for each contender.
fn run_case(case: &BenchCase, runs: usize) -> Result<Vec<Vec<RunMeasurement>>> {
    let mut measured: Vec<Vec<RunMeasurement>> = case.contenders.iter().map(|_| Vec::new()).collect();
    for _ in 0..runs {
        for (contender, measured) in case.contenders.iter().zip(&mut measured) {
            let output = case.output.as_ref().map(|directory| directory.join(contender.name));
            let run = run_measured(&contender.command, output.as_deref());
            measured.push(run.with_context(|| format!("could not measure {}", contender.name))?);
        }
    }
    if let Some(directory) = &case.output {
        compare_outputs(case, directory)?;
    }
    Ok(measured)
}

/// Checks that all contenders have the same output, and removes the outputs.
fn compare_outputs(case: &BenchCase, directory: &Path) -> Result<()> {
    let files: Vec<PathBuf> =
        case.contenders.iter().map(|contender| directory.join(contender.name)).collect();
    for other in &files[1..] {
        let status = Command::new("cmp").arg(&files[0]).arg(other).status().context("could not run cmp")?;
        ensure!(status.success(), "the outputs differ");
    }
    files.iter().try_for_each(fs::remove_file).context("could not remove the outputs")
}

/// Runs the library's own bench on two workloads: the one with the smallest rows, and one with ordinary rows.
fn run_rows_bench() -> Result<()> {
    let mut logs = Vec::new();
    for workload in [crate::workloads::Workload::Load, crate::workloads::Workload::Prepare] {
        logs.push(
            crate::workloads::workload_log(workload, crate::workloads::LogCompression::Plain)?
                .display()
                .to_string(),
        );
    }
    let mut arguments = vec!["bench", "--quiet", "--package", "bintide-binlog", "--bench", "rows", "--"];
    arguments.extend(logs.iter().map(String::as_str));
    testkit::run_cargo(&arguments)
}
