//! One run of a replica, from its applier's start to its last transaction.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use testkit::Server;

use super::ground::{CHANGES, Ground, Kind, POOL_MIB, SOURCE_UUID, replica};

/// On what a replica runs.
#[derive(Clone, Copy)]
pub(super) struct Conditions {
    pub(super) latency_us: u32,
    pub(super) workers: u32,
    pub(super) is_in_memory: bool,
}

/// What one run took.
#[derive(Clone, Copy)]
pub(super) struct Lap {
    pub(super) seconds: f64,
    /// Pages that the applier read from disk.
    pub(super) by_applier: u64,
    /// Pages that `bintide warm` read.
    pub(super) by_warm: u64,
    pub(super) transactions: u32,
}

impl Conditions {
    pub(super) fn name(self, kind: Kind) -> String {
        let place = match self.is_in_memory {
            true => "in memory".to_owned(),
            false => format!("{} ms", f64::from(self.latency_us) / 1000.0),
        };
        format!("{}, {place}, {} worker(s)", kind.name(), self.workers)
    }

    /// The same, where there is little room.
    pub(super) fn short(self, kind: Kind) -> String {
        let what = match kind {
            Kind::Primary => "PK",
            Kind::Secondary => "2nd",
        };
        format!("{what} {} ms {}w", f64::from(self.latency_us) / 1000.0, self.workers)
    }

    /// What takes too long is done in part.
    fn transactions(self) -> u32 {
        match self.latency_us {
            _ if self.is_in_memory => CHANGES,
            0..=1000 => CHANGES / 4,
            _ => CHANGES / 8,
        }
    }
}

/// A replica catches up; with this bintide beside it, if there is one.
pub(super) fn run(
    ground: &Ground,
    kind: Kind,
    conditions: Conditions,
    bintide: Option<&Path>,
) -> Result<Lap> {
    let pool_mib = if conditions.is_in_memory { 1024 } else { POOL_MIB };
    let launch = replica(&ground.behind(kind), pool_mib)
        .option(format!("--replica-parallel-workers={}", conditions.workers));
    let launch = if conditions.is_in_memory { launch } else { ground.slow(launch, conditions.latency_us) };
    let replica = launch.start()?;
    if conditions.is_in_memory {
        replica.sql(
            "select sum(n), max(s) from d.t force index (primary); select max(c) from d.t force index (by_k)",
        )?;
    }
    let transactions = conditions.transactions();
    let last = format!("{SOURCE_UUID}:1-{transactions}");
    let warming = bintide.map(|bintide| Warming::begin(bintide, &replica)).transpose()?;
    let begin = Instant::now();
    replica.sql("start replica sql_thread")?;
    let late = replica.sql(&format!("select wait_for_executed_gtid_set('{last}', 600)"))?;
    ensure!(late.trim() == "0", "the last transaction does not come");
    let seconds = begin.elapsed().as_secs_f64();
    // An applier that has ended is not counted any more.
    let by_applier = pages_by_applier(&replica)?;
    let by_warm = match warming {
        Some(warming) => warming.end()?,
        None => 0,
    };
    Ok(Lap { seconds, by_applier, by_warm, transactions })
}

/// Pages that the applier's threads have read since the server's start.
fn pages_by_applier(replica: &Server) -> Result<u64> {
    let pages = replica.sql(
        "select ifnull(sum(w.count_star), 0) from performance_schema.threads t
           join performance_schema.events_waits_summary_by_thread_by_event_name w using (thread_id)
         where w.event_name = 'wait/io/file/innodb/innodb_data_file'
           and t.name in ('thread/sql/replica_sql', 'thread/sql/replica_worker')",
    )?;
    pages.trim().parse().context("no count of pages")
}

/// `bintide warm` at work.
pub(super) struct Warming(Child);

/// How long it takes until it has looked around.
const START: Duration = Duration::from_millis(500);

impl Warming {
    pub(super) fn begin(bintide: &Path, replica: &Server) -> Result<Self> {
        let mut command = Command::new(bintide);
        command.args(["warm", "--json", "--quiet", "--user", "root", "--socket"]).arg(replica.socket());
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("could not start bintide")?;
        thread::sleep(START);
        Ok(Self(child))
    }

    /// Ends it; how many pages it has read.
    pub(super) fn end(self) -> Result<u64> {
        // It may have ended by itself, having found that it is of no use.
        let _ = kill(Pid::from_raw(i32::try_from(self.0.id())?), Signal::SIGINT);
        let ran = self.0.wait_with_output()?;
        let report: Value = serde_json::from_slice(&ran.stdout).context("bintide's outcome is no JSON")?;
        let pages = report.pointer("/pages_read/warm/pages").and_then(Value::as_u64);
        pages.with_context(|| format!("no pages_read in {report}"))
    }
}

/// The replica's lag, in milliseconds: of the transaction that it applied last, if it is idle.
pub(super) fn lag_ms(replica: &Server) -> Result<f64> {
    let lag = replica.sql(
        "select ifnull(max(timestampdiff(microsecond, if(applying_transaction = '',
                last_applied_transaction_original_commit_timestamp,
                applying_transaction_original_commit_timestamp),
             if(applying_transaction = '', last_applied_transaction_end_apply_timestamp, now(6)))) / 1000, 0)
         from performance_schema.replication_applier_status_by_worker",
    )?;
    lag.trim().parse().context("no lag")
}
