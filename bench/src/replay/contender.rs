//! Contenders that apply a log, and the measurement of one run.

use std::ffi::OsString;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use testkit::{Launch, PackageHome, TestPackage, TestServer};

use super::replay_logs::PreparedReplayLog;
use super::start_tables::OPTIONS;
use crate::cases::shell_words;
use crate::measure::run_measured;
use crate::turns::median_run;
use crate::workload_runs::{cpu_seconds, machine_cpu_seconds};
use crate::workloads::SYNCED_FILES;

/// Time limit of a replica, in seconds.
const REPLICA_TIMEOUT_S: u32 = 3600;

/// Server options for durability: each commit is synced to disk, and torn pages are repaired after a crash.
const DURABLE: [&str; 4] =
    ["--innodb-flush-log-at-trx-commit=1", SYNCED_FILES, "--innodb-doublewrite=ON", "--sync-binlog=1"];

/// Program that applies a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplayContender {
    /// MySQL's replica, with this number of workers.
    Native(ReplicaLogging, u32),
    /// `mysqlbinlog | mysql`
    Pipe,
    /// `bintide replay`, to a target without a binary log
    Bintide(BenchCommitOrder),
    /// `bintide replay --log`, in strict order, to a target with a binary log
    BintideLogging,
}

/// Input of `bintide replay`.
pub(crate) struct ReplayInput {
    pub(crate) name: &'static str,
    /// Archive that has the log; `None` for the log itself.
    pub(crate) archive: Option<String>,
    /// Environment variables with which bintide finds the archive.
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl ReplayInput {
    /// Archives the log, if it is read from an archive.
    pub(super) fn prepare(&self, log: &PreparedReplayLog, bintide: &Path) -> Result<()> {
        let Some(archive) = &self.archive else { return Ok(()) };
        let variables = self.variables.iter().map(|(name, value)| (name, value));
        let mut command = Command::new(bintide);
        command.args(["archive", "--quiet", "--to", archive]).arg(log.log()).envs(variables);
        ensure!(command.status()?.success(), "could not archive the log to {archive}");
        Ok(())
    }

    /// Applies the log to a new server in groups, and checks the result.
    pub(super) fn run(&self, log: &PreparedReplayLog, bintide: &Path) -> Result<ReplayMeasurement> {
        let order = BenchCommitOrder::Grouped;
        let server = ReplayContender::Bintide(order).launch(log)?.start()?;
        measure_on(&server, log, || {
            let input = self.archive.as_ref().map_or_else(|| log.log().into(), OsString::from);
            let variables = self.variables.iter().map(|(name, value)| format!("{name}={value}").into());
            let program = std::iter::once("env".into()).chain(variables);
            measure_bintide(program.chain(bintide_command(bintide, order, &server, input)).collect())
        })
    }
}

/// Binary log of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ReplicaLogging {
    /// The replica has no binary log.
    NoLog,
    /// The replica has a binary log, but does not log applied transactions.
    NoUpdates,
    /// The replica logs applied transactions.
    Log,
}

/// Values of `--commit-order`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BenchCommitOrder {
    Strict,
    Grouped,
    Any,
}

/// Measurements of one run.
#[derive(Clone, Debug)]
pub(crate) struct ReplayMeasurement {
    pub(crate) seconds: f64,
    /// CPU time of the server that the log was applied to.
    pub(super) target_cpu_seconds: f64,
    /// Usage of the programs that applied the log, unless the server applied it itself.
    pub(crate) program: Option<ProgramUsage>,
    /// Fraction of all cores' time that other programs used: 0 to 1.
    pub(super) others_share: f64,
}

/// CPU time and memory of a program.
#[derive(Clone, Debug)]
pub(crate) struct ProgramUsage {
    pub(super) cpu_seconds: f64,
    pub(crate) peak_bytes: u64,
    /// Report of the program itself.
    pub(super) outcome: Option<PrintedOutcome>,
}

/// Part of the output of `bintide replay --json`.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct PrintedOutcome {
    groups: u64,
    retries: u64,
    at_once: u64,
}

impl BenchCommitOrder {
    pub(super) const ALL: [Self; 3] = [Self::Strict, Self::Grouped, Self::Any];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Grouped => "grouped",
            Self::Any => "any",
        }
    }
}

impl ReplayContender {
    pub(super) fn name(self) -> String {
        match self {
            Self::Native(ReplicaLogging::NoLog, workers) => {
                format!("replica without a binary log, {workers} workers")
            }
            Self::Native(ReplicaLogging::NoUpdates, workers) => {
                format!("replica with log_replica_updates=OFF, {workers} workers")
            }
            Self::Native(ReplicaLogging::Log, workers) => {
                format!("replica with a binary log, {workers} workers")
            }
            Self::Pipe => "mysqlbinlog | mysql".to_owned(),
            Self::Bintide(order) => format!("bintide, {}", order.name()),
            Self::BintideLogging => "bintide, strict, with a binary log".to_owned(),
        }
    }

    /// Returns a short name for charts.
    pub(super) fn name_short(self) -> &'static str {
        match self {
            Self::Native(ReplicaLogging::NoLog, _) => "replica, no log",
            Self::Native(ReplicaLogging::NoUpdates, _) => "replica, no updates",
            Self::Native(ReplicaLogging::Log, _) => "replica, log",
            Self::Pipe => "mysqlbinlog",
            Self::Bintide(order) => order.name(),
            Self::BintideLogging => "strict, log",
        }
    }

    /// Applies the log to a new server, and checks the result.
    pub(super) fn run(self, log: &PreparedReplayLog, bintide: &Path) -> Result<ReplayMeasurement> {
        let server = self.launch(log)?.start()?;
        measure_on(&server, log, || match self {
            Self::Native(_, workers) => {
                server.sql(&format!("set global replica_parallel_workers = {workers}"))?;
                Ok((catch_up(&server, log.gtids())?, None))
            }
            Self::Pipe => measure_program(&pipe_command(&server, log)?, None),
            Self::Bintide(order) => {
                measure_bintide(bintide_command(bintide, order, &server, log.log().into()))
            }
            Self::BintideLogging => {
                let order = BenchCommitOrder::Strict;
                let mut command = bintide_command(bintide, order, &server, log.log().into());
                command.push("--log".into());
                measure_bintide(command)
            }
        })
    }

    fn launch(self, log: &PreparedReplayLog) -> Result<Launch> {
        let launch = Launch::mysql().option("--server-id=3").options(OPTIONS).options(DURABLE);
        let native = match self {
            Self::Native(native, _) => native,
            Self::BintideLogging => return Ok(launch.data(log.kind.start().directory()?)),
            Self::Pipe | Self::Bintide(_) => {
                return Ok(launch.option("--skip-log-bin").data(log.kind.start().directory()?));
            }
        };
        let launch = launch.options(["--skip-replica-start", "--relay-log=relay"]).data(log.received());
        Ok(match native {
            ReplicaLogging::NoLog => launch.option("--skip-log-bin"),
            ReplicaLogging::NoUpdates => launch.option("--log-replica-updates=OFF"),
            ReplicaLogging::Log => launch,
        })
    }
}

impl ReplayMeasurement {
    /// Formats the measurements as a progress line.
    pub(super) fn line(&self) -> String {
        let mut line = format!("{:.2} s, target {:.2} CPU s", self.seconds, self.target_cpu_seconds);
        if let Some(own) = &self.program {
            line += &format!(", itself {:.2} CPU s, {} MB", own.cpu_seconds, own.peak_bytes / 1_000_000);
            if let Some(said) = &own.outcome {
                let PrintedOutcome { groups, retries, at_once } = said;
                line += &format!("; {groups} commits, {at_once} at once, {retries} tried again");
            }
        }
        line
    }
}

/// Prepares a server, measures what applies the log to it, and checks the result. `apply` returns its time in seconds.
fn measure_on(
    server: &TestServer,
    log: &PreparedReplayLog,
    apply: impl FnOnce() -> Result<(f64, Option<ProgramUsage>)>,
) -> Result<ReplayMeasurement> {
    log.kind.start().warm_up(server)?;
    let (begin, server_before, machine_before) =
        (Instant::now(), cpu_seconds(server)?, machine_cpu_seconds()?);
    let (seconds, program) = apply()?;
    let target_cpu_seconds = cpu_seconds(server)? - server_before;
    let used = machine_cpu_seconds()? - machine_before;
    let others = used - target_cpu_seconds - program.as_ref().map_or(0.0, |program| program.cpu_seconds);
    let all = thread::available_parallelism()?.get() as f64 * begin.elapsed().as_secs_f64();
    let others_share = (others / all).clamp(0.0, 1.0);
    log.check(server)?;
    Ok(ReplayMeasurement { seconds, target_cpu_seconds, program, others_share })
}

/// Returns the run with the median time, with the largest peak memory of all runs.
pub(super) fn median(runs: &[ReplayMeasurement]) -> ReplayMeasurement {
    let mut middle = median_run(runs, |run| run.seconds);
    if let Some(own) = &mut middle.program {
        let peaks = runs.iter().filter_map(|run| run.program.as_ref()).map(|own| own.peak_bytes);
        own.peak_bytes = peaks.max().unwrap_or(0);
    }
    middle
}

/// Lets a replica apply the log that it has received. Returns the time in seconds.
fn catch_up(server: &TestServer, gtids: &str) -> Result<f64> {
    let begin = Instant::now();
    let script = format!(
        "start replica sql_thread; select wait_for_executed_gtid_set('{gtids}', {REPLICA_TIMEOUT_S})"
    );
    let late = server.sql(&script)?;
    ensure!(late.trim() == "0", "the replica is not done after {REPLICA_TIMEOUT_S} seconds");
    Ok(begin.elapsed().as_secs_f64())
}

fn measure_program(command: &[OsString], output: Option<&Path>) -> Result<(f64, Option<ProgramUsage>)> {
    let measured = run_measured(command, output)?;
    let said = match output {
        Some(path) => Some(serde_json::from_slice(&fs::read(path)?).context("the report is not JSON")?),
        None => None,
    };
    let own =
        ProgramUsage { cpu_seconds: measured.cpu_seconds, peak_bytes: measured.peak_bytes, outcome: said };
    Ok((measured.seconds, Some(own)))
}

fn measure_bintide(command: Vec<OsString>) -> Result<(f64, Option<ProgramUsage>)> {
    measure_program(&command, Some(&testkit::target_dir().join("bench/replay.json")))
}

fn bintide_command(
    bintide: &Path,
    order: BenchCommitOrder,
    server: &TestServer,
    input: OsString,
) -> Vec<OsString> {
    let to = format!("mysql://root@localhost/?socket={}", server.socket().display());
    let words =
        ["replay", "--quiet", "--json", "--commit-order", order.name(), "--to", &to].map(OsString::from);
    std::iter::once(bintide.into()).chain(words).chain([input]).collect()
}

fn pipe_command(server: &TestServer, log: &PreparedReplayLog) -> Result<Vec<OsString>> {
    let mut from = PackageHome::find(TestPackage::Mysql)?.command("mysqlbinlog")?;
    from.arg("--no-defaults").arg(log.log());
    let mut to = server.client().command()?;
    to.arg("--binary-mode");
    let words = |command: &Command| {
        let words = std::iter::once(command.get_program()).chain(command.get_args());
        shell_words(&words.map(OsString::from).collect::<Vec<_>>())
    };
    let script = format!("{} | {}", words(&from), words(&to));
    Ok(["sh", "-c", &script].map(OsString::from).to_vec())
}
