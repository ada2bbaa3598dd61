//! Latency that a relay adds: a client of the source and a client of the relay receive the same transactions.

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;
use testkit::{TestServer, wait_until};

use super::discarding_client::{DiscardingClient, DumpParameters};
use super::relay_process::RelayProcess;
use crate::workloads;

/// Load on the source.
#[derive(Clone, Copy)]
pub(super) struct LatencyLoad {
    /// Transactions a second.
    pub(super) rate: u32,
    pub(super) seconds: u32,
}

/// Added latency.
#[derive(Clone, Copy, Debug)]
pub(super) struct AddedLatency {
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// Number of sessions that write to the source at once.
const SESSIONS: u32 = 8;
/// Time without events after which a client checks whether the load has ended.
const SILENCE: Duration = Duration::from_secs(2);
/// Type codes of GTID events, without and with tags.
const GTID_CODES: [u8; 2] = [33, 42];
/// Offset of the number in a GTID event: after the header, the flags and the UUID.
const GNO_OFFSET: usize = 19 + 1 + 16;

/// Measures the time from the receipt by a client of the source to the receipt by a client of the relay.
pub(super) fn measure_latency(
    source: &TestServer,
    bintide: &Path,
    load: LatencyLoad,
) -> Result<AddedLatency> {
    source.sql("drop database if exists sbtest; create database sbtest")?;
    workloads::sysbench(source, "oltp_write_only", &["--rand-seed=11", "prepare"])?;
    source.sql("flush binary logs")?;
    let log = source.binlogs()?.pop().context("the server has no logs")?;
    let name = log.file_name().and_then(|name| name.to_str()).context("a log without a name")?.to_owned();
    let directory = TempDir::new_in(testkit::target_dir())?;
    let relay = RelayProcess::receive(bintide, source, directory.path())?;
    wait_until("the last log in the relay's directory", || Ok(directory.path().join(&name).exists()))?;
    let is_over = AtomicBool::new(false);
    let (direct, relayed) = thread::scope(|scope| -> Result<_> {
        let [direct, relayed] = [source.port(), relay.port()].map(|port| {
            let (name, is_over) = (&name, &is_over);
            scope.spawn(move || receive_times(port, name, is_over))
        });
        // Both clients wait before the load starts.
        thread::sleep(SILENCE);
        let loaded = run_load(source, load);
        is_over.store(true, Ordering::Relaxed);
        let [direct, relayed] = [direct, relayed].map(|times| match times.join() {
            Ok(times) => times,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        loaded?;
        Ok((direct?, relayed?))
    })?;
    added_latency(&direct, &relayed)
}

fn run_load(source: &TestServer, load: LatencyLoad) -> Result<()> {
    let arguments = [
        "--rand-seed=7".to_owned(),
        "--events=0".to_owned(),
        format!("--threads={SESSIONS}"),
        format!("--rate={}", load.rate),
        format!("--time={}", load.seconds),
        "run".to_owned(),
    ];
    workloads::sysbench(source, "oltp_write_only", &arguments.each_ref().map(String::as_str))
}

/// Returns the time at which each transaction of a log was received, by its number.
fn receive_times(port: u16, log: &str, is_over: &AtomicBool) -> Result<HashMap<u64, Instant>> {
    let mut client = DiscardingClient::log_in(port)?;
    client.set_timeout(SILENCE)?;
    client.dump(log, 4, DumpParameters::waiting(usize::from(port)))?;
    let mut times = HashMap::new();
    loop {
        match client.next_event()? {
            Some(event) => {
                let is_gtid = event.get(4).is_some_and(|code| GTID_CODES.contains(code));
                if let Some(number) =
                    event.get(GNO_OFFSET..).and_then(<[u8]>::first_chunk).filter(|_| is_gtid)
                {
                    times.insert(u64::from_le_bytes(*number), Instant::now());
                }
            }
            None if is_over.load(Ordering::Relaxed) => return Ok(times),
            None => {}
        }
    }
}

fn added_latency(direct: &HashMap<u64, Instant>, relayed: &HashMap<u64, Instant>) -> Result<AddedLatency> {
    ensure!(direct.len() == relayed.len(), "{} and {} transactions", direct.len(), relayed.len());
    let mut added: Vec<f64> = direct
        .iter()
        .filter_map(|(number, at)| {
            let relayed = relayed.get(number)?;
            // A client of the relay may be scheduled before one of the source.
            Some(relayed.saturating_duration_since(*at).as_secs_f64() * 1e3)
        })
        .collect();
    added.sort_by(f64::total_cmp);
    let at = |part: f64| added.get((added.len() as f64 * part) as usize).copied();
    let found = AddedLatency {
        p50_ms: at(0.5).context("no transaction was received")?,
        p99_ms: at(0.99).context("no transaction was received")?,
    };
    eprintln!("latency of {} transactions: {found:?}", added.len());
    Ok(found)
}
