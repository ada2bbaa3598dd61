//! Replication lag of `bintide replay --from` and of MySQL's own replica, both without a binary log, under a steady
//! load that both can apply. Lag is the time from the source's commit to the target's.
//!
//! bintide measures every transaction itself. The replica's lag is sampled:
//! performance_schema.replication_applier_status_by_worker has the times of the last applied transaction.

use std::fmt::Write as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Launch, TestServer};

use super::turns::{ContenderRuns, median_run, run_in_turns};
use super::{cases, doc_page, workload_runs};
use crate::workload_runs::machine_cpu_seconds;
use crate::workloads;

/// Load and its duration.
#[derive(Args)]
pub(crate) struct LagBenchOptions {
    /// Transactions a second that the source commits, by sysbench's oltp_write_only
    #[arg(long, default_value_t = 1000)]
    rate: u32,
    /// Duration of the load in each run, in seconds
    #[arg(long, default_value_t = 20)]
    seconds: u32,
    /// Number of runs of each contender; the one with the median p50 counts
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    runs: u8,
    /// Worker counts to try with MySQL's own replica, once each; only the best one runs as often as the others
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8, 16])]
    workers: Vec<u32>,
}

/// Number of sessions that write to the source at once.
const SESSIONS: u32 = 8;
/// Interval between two samples of the replica.
const POLL_INTERVAL: Duration = Duration::from_millis(10);

/// Goals for bintide in strict order, in milliseconds.
const GOAL_P50_MS: f64 = 10.0;
const GOAL_P99_MS: f64 = 100.0;

#[derive(Clone, Copy, PartialEq, Eq)]
enum LagContender {
    Bintide(&'static str),
    /// MySQL's replica, with this number of workers.
    Native(u32),
}

/// Lag in milliseconds, over `counted` transactions.
#[derive(Clone, Copy)]
struct LagFigures {
    counted: u64,
    p50: f64,
    p99: f64,
    max: f64,
    /// Fraction of all cores' time that other programs used, the load included: 0 to 1.
    busy: f64,
}

pub(crate) fn measure_lag(options: &LagBenchOptions) -> Result<()> {
    ensure!(!options.workers.is_empty(), "--workers must not be empty");
    let all = run_all(options, &cases::build_bintide()?)?;
    let mut table =
        String::from("| replica | transactions measured | p50 | p99 | maximum |\n|---|--:|--:|--:|--:|\n");
    for ContenderRuns { contender, runs } in &all {
        let LagFigures { counted, p50, p99, max, .. } = median(runs);
        let name = contender.name();
        writeln!(table, "| {name} | {counted} | {p50:.1} ms | {p99:.1} ms | {max:.1} ms |")?;
    }
    let LagBenchOptions { rate, seconds, runs, workers } = options;
    let tried = workers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    let figures = || all.iter().flat_map(|standing| &standing.runs);
    let busy = crate::table::percent(figures().map(|run| run.busy).sum::<f64>() / figures().count() as f64);
    writeln!(
        table,
        "\n{rate} transactions a second of sysbench's oltp_write_only for {seconds} seconds, each commit on disk on \
         the source and on the target, source and target on one machine, no binary log on the targets; bintide with \
         its default options, replicas tried with {tried} workers. Of {runs} runs, which took turns, the table \
         shows the one with the median p50. All programs together, the source and the load included, used {busy} of \
         the cores' time."
    )?;
    table.push_str(&doc_page::conditions()?);
    doc_page::LAG.write("lag", &table)?;
    let strict = median(&all[0].runs);
    println!(
        "lag, strict: p50 {:.1} ms, p99 {:.1} ms (goal: at most {GOAL_P50_MS} and {GOAL_P99_MS} ms)",
        strict.p50, strict.p99
    );
    Ok(())
}

/// Runs all contenders, in turns: bintide in strict order first.
fn run_all(
    options: &LagBenchOptions,
    bintide: &Path,
) -> Result<Vec<ContenderRuns<LagContender, LagFigures>>> {
    let run = |contender: LagContender| {
        let found =
            run(contender, options, bintide).with_context(|| format!("{} failed", contender.name()))?;
        eprintln!("{}: p50 {:.1} ms, p99 {:.1} ms", contender.name(), found.p50, found.p99);
        Ok(found)
    };
    let ours = ["strict", "grouped"].map(|order| vec![LagContender::Bintide(order)]);
    let natives = options.workers.iter().map(|workers| LagContender::Native(*workers)).collect();
    let alternatives = ours.into_iter().chain([natives]);
    run_in_turns(alternatives, options.runs.into(), |found| found.p50, run)
}

/// Returns the run with the median p50.
fn median(runs: &[LagFigures]) -> LagFigures {
    median_run(runs, |run| run.p50)
}

impl LagContender {
    fn name(self) -> String {
        match self {
            Self::Bintide(order) => format!("bintide, {order}"),
            Self::Native(workers) => format!("MySQL's replica, in commit order, {workers} workers"),
        }
    }
}

fn run(contender: LagContender, options: &LagBenchOptions, bintide: &Path) -> Result<LagFigures> {
    let source = workloads::launch_server().option("--max-binlog-size=1G").start()?;
    let target = Launch::mysql()
        .option(workloads::SYNCED_FILES)
        .options(["--server-id=2", "--skip-log-bin", "--replica-preserve-commit-order=ON"])
        .uuid(workloads::REPLICA_UUID)
        .start()?;
    source.sql("create database sbtest")?;
    workloads::sysbench(&source, "oltp_write_only", &["--rand-seed=11", "prepare"])?;
    let cores = thread::available_parallelism()?.get() as f64;
    let load = || {
        let (begin, before) = (Instant::now(), machine_cpu_seconds()?);
        run_load(&source, options)?;
        Ok::<f64, anyhow::Error>((machine_cpu_seconds()? - before) / (cores * begin.elapsed().as_secs_f64()))
    };
    match contender {
        LagContender::Native(workers) => {
            target.sql(&format!("set global replica_parallel_workers = {workers}"))?;
            target.replicate_from(&source)?;
            workload_runs::wait_until_caught_up(&target, &source)?;
            let (mut lags, busy) = sample_lags(&target, load)?;
            workload_runs::wait_until_caught_up(&target, &source)?;
            lag_figures(&mut lags, busy)
        }
        LagContender::Bintide(order) => {
            let relay = TempDir::new()?;
            let child = start_bintide(&source, &target, order, relay.path(), bintide)?;
            wait_until_caught_up(&source, &target)?;
            let busy = load()?;
            wait_until_caught_up(&source, &target)?;
            stop_and_read_lag(child, busy)
        }
    }
}

fn run_load(source: &TestServer, options: &LagBenchOptions) -> Result<()> {
    let arguments = [
        "--rand-seed=7".to_owned(),
        "--events=0".to_owned(),
        format!("--threads={SESSIONS}"),
        format!("--rate={}", options.rate),
        format!("--time={}", options.seconds),
        "run".to_owned(),
    ];
    workloads::sysbench(source, "oltp_write_only", &arguments.each_ref().map(String::as_str))
}

fn start_bintide(
    source: &TestServer,
    target: &TestServer,
    order: &str,
    relay: &Path,
    bintide: &Path,
) -> Result<Child> {
    let from = format!("mysql://root@127.0.0.1:{}/", source.port());
    let to = format!("mysql://root@127.0.0.1:{}/", target.port());
    let mut command = Command::new(bintide);
    command.args(["replay", "--json", "--from", &from, "--to", &to, "--commit-order", order]);
    command.arg("--relay").arg(relay).stdout(Stdio::piped());
    command.spawn().context("could not start bintide")
}

/// Waits until the target has the source's rows.
fn wait_until_caught_up(source: &TestServer, target: &TestServer) -> Result<()> {
    let sums = |server: &TestServer| {
        server.sql("checksum table sbtest.sbtest1, sbtest.sbtest2, sbtest.sbtest3, sbtest.sbtest4")
    };
    let expected = sums(source)?;
    for _ in 0..240 {
        if sums(target).ok().as_ref() == Some(&expected) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(250));
    }
    ensure!(false, "the target has not caught up");
    Ok(())
}

/// Interrupts bintide, and reads the lag from its report.
fn stop_and_read_lag(child: Child, busy: f64) -> Result<LagFigures> {
    kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT)?;
    let ran = child.wait_with_output()?;
    let report: Value = serde_json::from_slice(&ran.stdout).context("bintide's report is not JSON")?;
    let lag = report.get("lag").context("the report has no lag")?;
    let ms = |name: &str| {
        let seconds = lag.get(name).and_then(Value::as_f64).with_context(|| format!("no {name} in {lag}"))?;
        Ok::<f64, anyhow::Error>(seconds * 1e3)
    };
    let counted = lag
        .get("transactions")
        .and_then(Value::as_u64)
        .context("the report has no number of transactions")?;
    Ok(LagFigures {
        counted,
        p50: ms("p50_seconds")?,
        p99: ms("p99_seconds")?,
        max: ms("max_seconds")?,
        busy,
    })
}

/// Samples the replica while `load` runs. Returns the lags of the sampled transactions in milliseconds, and the result
/// of `load`.
fn sample_lags(replica: &TestServer, load: impl FnOnce() -> Result<f64>) -> Result<(Vec<f64>, f64)> {
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let watching = scope.spawn(|| {
            let mut samples = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                samples.push(sample_workers(replica)?);
                thread::sleep(POLL_INTERVAL);
            }
            Ok::<_, anyhow::Error>(samples)
        });
        let done = load();
        is_over.store(true, Ordering::Relaxed);
        let samples = watching.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
        let done = done?;
        let mut samples: Vec<(String, f64)> = samples.into_iter().flatten().collect();
        samples.sort_by(|a, b| a.0.cmp(&b.0));
        samples.dedup_by(|a, b| a.0 == b.0);
        Ok((samples.into_iter().map(|(_, ms)| ms).collect(), done))
    })
}

/// Returns the GTID and the lag of the last transaction of each worker.
fn sample_workers(replica: &TestServer) -> Result<Vec<(String, f64)>> {
    let text = replica.sql(
        "select last_applied_transaction, timestampdiff(microsecond, \
         last_applied_transaction_original_commit_timestamp, last_applied_transaction_end_apply_timestamp) / 1000 \
         from performance_schema.replication_applier_status_by_worker where last_applied_transaction <> ''",
    )?;
    let line = |line: &str| {
        let (gtid, ms) = line.split_once('\t')?;
        Some((gtid.to_owned(), ms.trim().parse().ok()?))
    };
    Ok(text.lines().filter_map(line).collect())
}

fn lag_figures(lags: &mut [f64], busy: f64) -> Result<LagFigures> {
    lags.sort_by(f64::total_cmp);
    let at = |part: f64| {
        let index = (lags.len() as f64 * part) as usize;
        lags.get(index.min(lags.len().saturating_sub(1))).copied().context("no transaction was sampled")
    };
    Ok(LagFigures { counted: lags.len() as u64, p50: at(0.5)?, p99: at(0.99)?, max: at(1.0)?, busy })
}
