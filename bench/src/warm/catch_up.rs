//! Measures one run of a replica, from the start of its applier to the last transaction.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use testkit::TestServer;

use super::warm_fixture::{CHANGES, POOL_MIB, WarmChangeKind, WarmFixture, launch_replica};
use crate::workloads::SOURCE_UUID;

/// Conditions of a replica's run.
#[derive(Clone, Copy)]
pub(super) struct CatchUpConditions {
    pub(super) latency_us: u32,
    pub(super) workers: u32,
    pub(super) is_in_memory: bool,
}

/// Measurements of one run.
#[derive(Clone, Copy)]
pub(super) struct CatchUpRun {
    pub(super) seconds: f64,
    /// Number of pages that the applier read from disk.
    pub(super) by_applier: u64,
    /// Number of pages that `bintide warm` read.
    pub(super) by_warm: u64,
    pub(super) transactions: u32,
}

impl CatchUpConditions {
    pub(super) fn name(self, kind: WarmChangeKind) -> String {
        let memory = match self.is_in_memory {
            true => "in memory".to_owned(),
            false => format!("{} ms", f64::from(self.latency_us) / 1000.0),
        };
        format!("{}, {memory}, {} worker(s)", kind.name(), self.workers)
    }

    /// Returns a short name for charts.
    pub(super) fn short(self, kind: WarmChangeKind) -> String {
        let what = match kind {
            WarmChangeKind::Primary => "PK",
            WarmChangeKind::Secondary => "2nd",
        };
        format!("{what} {} ms {}w", f64::from(self.latency_us) / 1000.0, self.workers)
    }

    /// Returns the number of transactions to apply: fewer on slow disks.
    fn transactions(self) -> u32 {
        match self.latency_us {
            _ if self.is_in_memory => CHANGES,
            0..=1000 => CHANGES / 4,
            _ => CHANGES / 8,
        }
    }
}

/// Measures the catch-up of a replica, with `bintide warm` if its path is given.
pub(super) fn run(
    fixture: &WarmFixture,
    kind: WarmChangeKind,
    conditions: CatchUpConditions,
    bintide: Option<&Path>,
) -> Result<CatchUpRun> {
    let pool_mib = if conditions.is_in_memory { 1024 } else { POOL_MIB };
    let launch = launch_replica(&fixture.lagging_directory(kind), pool_mib)
        .option(format!("--replica-parallel-workers={}", conditions.workers));
    let launch =
        if conditions.is_in_memory { launch } else { fixture.add_slow_disk(launch, conditions.latency_us) };
    let replica = launch.start()?;
    if conditions.is_in_memory {
        replica.sql(
            "select sum(n), max(s) from d.t force index (primary); select max(c) from d.t force index (by_k)",
        )?;
    }
    let transactions = conditions.transactions();
    let last = format!("{SOURCE_UUID}:1-{transactions}");
    let warming = bintide.map(|bintide| WarmProcess::start(bintide, &replica)).transpose()?;
    let begin = Instant::now();
    replica.sql("start replica sql_thread")?;
    let late = replica.sql(&format!("select wait_for_executed_gtid_set('{last}', 600)"))?;
    ensure!(late.trim() == "0", "timed out waiting for the last transaction");
    let seconds = begin.elapsed().as_secs_f64();
    // Read the count before the applier ends: its threads then vanish from the table.
    let by_applier = pages_by_applier(&replica)?;
    let by_warm = match warming {
        Some(warming) => warming.stop()?,
        None => 0,
    };
    Ok(CatchUpRun { seconds, by_applier, by_warm, transactions })
}

/// Returns the number of pages that the applier's threads have read since the server's start.
fn pages_by_applier(replica: &TestServer) -> Result<u64> {
    let pages = replica.sql(
        "select ifnull(sum(w.count_star), 0) from performance_schema.threads t
           join performance_schema.events_waits_summary_by_thread_by_event_name w using (thread_id)
         where w.event_name = 'wait/io/file/innodb/innodb_data_file'
           and t.name in ('thread/sql/replica_sql', 'thread/sql/replica_worker')",
    )?;
    pages.trim().parse().context("no count of pages")
}

/// Running `bintide warm`.
pub(super) struct WarmProcess(Child);

/// Time that `bintide warm` needs to start.
const START_WAIT: Duration = Duration::from_millis(500);

impl WarmProcess {
    pub(super) fn start(bintide: &Path, replica: &TestServer) -> Result<Self> {
        let mut command = Command::new(bintide);
        command.args(["warm", "--json", "--quiet", "--user", "root", "--socket"]).arg(replica.socket());
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("could not start bintide")?;
        thread::sleep(START_WAIT);
        Ok(Self(child))
    }

    /// Interrupts the process, and returns the number of pages that it has read.
    pub(super) fn stop(self) -> Result<u64> {
        // Fails if the process has ended by itself, because warming had no effect.
        let _ = kill(Pid::from_raw(i32::try_from(self.0.id())?), Signal::SIGINT);
        let ran = self.0.wait_with_output()?;
        let report: Value = serde_json::from_slice(&ran.stdout).context("bintide's report is not JSON")?;
        let pages = report.pointer("/pages_read/warm/pages").and_then(Value::as_u64);
        pages.with_context(|| format!("no pages_read in {report}"))
    }
}

/// Returns the replica's lag in milliseconds; for an idle replica that of the last applied transaction.
pub(super) fn lag_ms(replica: &TestServer) -> Result<f64> {
    let lag = replica.sql(
        "select ifnull(max(timestampdiff(microsecond, if(applying_transaction = '',
                last_applied_transaction_original_commit_timestamp,
                applying_transaction_original_commit_timestamp),
             if(applying_transaction = '', last_applied_transaction_end_apply_timestamp, now(6)))) / 1000, 0)
         from performance_schema.replication_applier_status_by_worker",
    )?;
    lag.trim().parse().context("no lag")
}
