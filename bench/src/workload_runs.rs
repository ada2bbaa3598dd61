//! Runs the five workloads on servers of different settings. Measures the size of each log, the server's own count of
//! the time in compression, and its CPU time.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};
use testkit::{Launch, TestServer};

use crate::workloads::{self, Workload};

/// Revision of the saved runs. Increase it when their content changes.
const REVISION: u32 = 2;

/// Time limit in which a replica applies the transactions of its source, in seconds.
const REPLICA_TIMEOUT_S: u32 = 1800;

/// Ticks a second of CPU times in /proc, the same on all machines.
const TICKS_PER_SECOND: f64 = 100.0;

/// Stages that the server measures.
pub(super) const COMPRESSING: &str = "stage/sql/Compressing transaction changes.";
const DECOMPRESSING: &str = "stage/sql/Decompressing transaction changes.";

/// Binary log settings of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BinlogSettings {
    /// Compression level of transactions; `None` for no compression.
    pub(super) level: Option<u32>,
    pub(super) is_encrypted: bool,
}

/// Measurements of one workload on one server.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct WorkloadRun {
    /// Size of its log.
    pub(super) bytes: u64,
    pub(super) compressing: StageTime,
    /// Stage of a replica that applied the workload afterwards.
    pub(super) decompressing: StageTime,
    /// CPU time of the whole server during the workload.
    pub(super) cpu_seconds: f64,
}

/// Count and times of one of the server's stages, in seconds.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct StageTime {
    pub(super) count: u64,
    pub(super) total: f64,
    pub(super) max: f64,
}

/// Runs of all workloads, in the order of [`Workload::ALL`].
pub(super) type WorkloadRuns = [WorkloadRun; Workload::ALL.len()];

impl BinlogSettings {
    pub(super) const PLAIN: Self = Self { level: None, is_encrypted: false };

    pub(super) fn at(level: u32) -> Self {
        Self { level: Some(level), is_encrypted: false }
    }

    pub(super) fn encrypted(self) -> Self {
        Self { is_encrypted: true, ..self }
    }

    fn name(self) -> String {
        let form = self.level.map_or("plain".to_owned(), |level| format!("level-{level}"));
        if self.is_encrypted { form + "-encrypted" } else { form }
    }

    /// Adds these settings, and the measurement of stages, to a server's launch.
    pub(super) fn apply(self, launch: Launch) -> Launch {
        let mut launch = launch.options([
            "--performance-schema-instrument=stage/sql/%ompressing transaction changes.=ON",
            "--performance-schema-consumer-events-stages-current=ON",
        ]);
        if let Some(level) = self.level {
            launch = launch
                .option("--binlog-transaction-compression=ON")
                .option(format!("--binlog-transaction-compression-level-zstd={level}"));
        }
        if self.is_encrypted { launch.keyring().option("--binlog-encryption=ON") } else { launch }
    }
}

/// Returns runs of the workloads at a setting: the saved ones, and new ones up to `count`.
pub(super) fn load_or_run(setting: BinlogSettings, count: usize) -> Result<Vec<WorkloadRuns>> {
    let directory = testkit::target_dir().join("bench/runs");
    fs::create_dir_all(&directory)?;
    let path = directory.join(format!("{}-{REVISION}-{}.json", workloads::REVISION, setting.name()));
    let mut runs: Vec<WorkloadRuns> = match fs::read(&path) {
        Ok(text) => serde_json::from_slice(&text).context("the saved runs are damaged")?,
        Err(_) => Vec::new(),
    };
    while runs.len() < count {
        eprintln!("running the five workloads on a real server ({})", setting.name());
        runs.push(run(setting)?);
        fs::write(&path, serde_json::to_vec(&runs)?)?;
    }
    Ok(runs)
}

/// Returns the first of [`load_or_run`], for figures that are the same in each run.
pub(super) fn load_or_run_once(setting: BinlogSettings) -> Result<WorkloadRuns> {
    load_or_run(setting, 1)?.first().copied().context("no run")
}

/// Removes the saved runs.
pub(super) fn remove_saved_runs() -> Result<()> {
    let directory = testkit::target_dir().join("bench/runs");
    if directory.exists() {
        fs::remove_dir_all(&directory).context("could not remove the saved runs")
    } else {
        Ok(())
    }
}

fn run(setting: BinlogSettings) -> Result<WorkloadRuns> {
    let server = setting.apply(workloads::launch_server()).start()?;
    let replica = if setting.level.is_some() {
        Some(start_replica(setting, workloads::launch_server())?)
    } else {
        None
    };
    let mut runs = Vec::new();
    reset_stages(&server)?;
    let mut cpu_before = cpu_seconds(&server)?;
    workloads::run_each(&server, |_, log: &Path| {
        let (compressing, cpu) = (read_stage(&server, COMPRESSING)?, cpu_seconds(&server)?);
        let bytes = fs::metadata(log)?.len();
        let decompressing = match &replica {
            Some(replica) => measure_decompression(replica, &server)?,
            None => StageTime::default(),
        };
        runs.push(WorkloadRun { bytes, compressing, decompressing, cpu_seconds: cpu - cpu_before });
        reset_stages(&server)?;
        cpu_before = cpu_seconds(&server)?;
        Ok(())
    })?;
    runs.try_into().ok().context("not as many runs as workloads")
}

/// Lets the replica apply the missing transactions while the source is idle. Returns the time of decompression.
fn measure_decompression(replica: &TestServer, source: &TestServer) -> Result<StageTime> {
    reset_stages(replica)?;
    replica.replicate_from(source)?;
    wait_until_caught_up(replica, source)?;
    replica.sql("stop replica")?;
    read_stage(replica, DECOMPRESSING)
}

/// Starts a server that can replicate from another one with the same settings.
pub(super) fn start_replica(setting: BinlogSettings, launch: Launch) -> Result<TestServer> {
    setting.apply(launch).option("--server-id=2").uuid(workloads::REPLICA_UUID).start()
}

/// Waits until the replica has applied all transactions of the source.
pub(super) fn wait_until_caught_up(replica: &TestServer, source: &TestServer) -> Result<()> {
    let all = source.sql("select @@global.gtid_executed")?.replace(char::is_whitespace, "");
    let late = replica.sql(&format!("select wait_for_executed_gtid_set('{all}', {REPLICA_TIMEOUT_S})"))?;
    ensure!(late.trim() == "0", "the replica does not keep up");
    Ok(())
}

pub(super) fn reset_stages(server: &TestServer) -> Result<()> {
    server.sql("truncate performance_schema.events_stages_summary_global_by_event_name").map(drop)
}

/// Returns the count and times of a stage since the last [`reset_stages`].
pub(super) fn read_stage(server: &TestServer, name: &str) -> Result<StageTime> {
    read_timing(server, "performance_schema.events_stages_summary_global_by_event_name", name)
}

/// Reads one row of a performance schema summary, which counts in picoseconds.
pub(super) fn read_timing(server: &TestServer, summary: &str, name: &str) -> Result<StageTime> {
    let text = server.sql(&format!(
        "select count_star, sum_timer_wait / 1e12, max_timer_wait / 1e12 from {summary} where event_name = '{name}'"
    ))?;
    let mut words = text.split_whitespace();
    let mut number =
        || words.next().and_then(|word| word.parse::<f64>().ok()).with_context(|| format!("no {name}"));
    Ok(StageTime { count: number()? as u64, total: number()?, max: number()? })
}

/// Returns the total size of all binary logs.
pub(super) fn log_bytes(server: &TestServer) -> Result<u64> {
    let sizes = server.binlogs()?.into_iter().map(|log| Ok(fs::metadata(log)?.len()));
    sizes.sum()
}

/// Returns the CPU time of all programs since the machine's start, in seconds.
pub(super) fn machine_cpu_seconds() -> Result<f64> {
    let text = fs::read_to_string("/proc/stat")?;
    let numbers: Vec<u64> = text
        .lines()
        .next()
        .into_iter()
        .flat_map(str::split_whitespace)
        .filter_map(|word| word.parse().ok())
        .collect();
    // Fields: user, nice, system, idle, iowait, irq, softirq. The time of virtual machines is included in the first
    // two.
    let [user, low, kernel, _, _, interrupts, more_interrupts, ..] = numbers[..] else {
        bail!("/proc/stat has an unknown format")
    };
    Ok((user + low + kernel + interrupts + more_interrupts) as f64 / TICKS_PER_SECOND)
}

/// Returns the CPU time of the server since its start, user and system.
pub(super) fn cpu_seconds(server: &TestServer) -> Result<f64> {
    process_cpu_seconds(server.pid().context("the server does not run")?)
}

/// Returns the CPU time of a process since its start, user and system.
pub(super) fn process_cpu_seconds(pid: u32) -> Result<f64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"))?;
    // The name in parentheses may contain blanks; user and system time are the 12th and 13th word after it.
    let (_, after) = text.rsplit_once(") ").context("/proc/PID/stat has an unknown format")?;
    let ticks = after.split(' ').skip(11).take(2).map(str::parse::<u64>).sum::<Result<u64, _>>()?;
    Ok(ticks as f64 / TICKS_PER_SECOND)
}
