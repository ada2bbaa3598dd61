//! `bintide relay` beside mysqld as a source of the same logs: throughput and CPU time, added latency, memory of
//! idle replicas, and receiving while clients are served.

mod discarding_client;
mod relay_latency;
mod relay_process;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use tempfile::TempDir;
use testkit::{PackageHome, TestPackage, TestServer};

use self::discarding_client::{DiscardingClient, DumpParameters};
use self::relay_latency::{LatencyLoad, measure_latency};
use self::relay_process::RelayProcess;
use super::workload_runs::process_cpu_seconds;
use super::{cases, doc_page, workload_runs};
use crate::workloads::{self, Workload};

/// Extent of the bench.
#[derive(Args)]
pub(crate) struct RelayBenchOptions {
    /// Serve a smaller log, for shorter times, and write no page
    #[arg(long)]
    quick: bool,
    /// Serve logs of uncompressed transactions, with smaller events, and write no page
    #[arg(long)]
    uncompressed: bool,
}

impl RelayBenchOptions {
    /// Returns the number of times that each client reads the logs, so that all together read enough to be measured.
    fn rounds(&self, clients: usize, log_bytes: u64) -> usize {
        let total: u64 = if self.quick { 500_000_000 } else { 2_000_000_000 };
        (total / (log_bytes * clients as u64)).max(1) as usize
    }
}

/// Numbers of clients that read at the same time.
const CLIENTS: [usize; 4] = [1, 4, 16, 64];
/// Number of clients for the last lines, and beside receiving.
const CLIENTS_OF_GOAL: usize = 16;
/// Number of idle replicas.
const REPLICAS: usize = 1000;

/// Goal: bytes a CPU second, compared with mysqld.
const GOAL_RATIO: f64 = 2.0;
/// Goal: speed of receiving while clients are served, compared with `mysqlbinlog --raw` alone.
const GOAL_RECEIVING: f64 = 2.4;
/// Goals: added latency in milliseconds.
const GOAL_P50_MS: f64 = 0.5;
const GOAL_P99_MS: f64 = 5.0;
/// Goal: memory of a relay with idle replicas, in megabytes.
const GOAL_IDLE_MB: f64 = 150.0;

/// One server of the logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogServer {
    Mysqld,
    AsIs,
    Plain,
}

impl LogServer {
    const ALL: [Self; 3] = [Self::Mysqld, Self::AsIs, Self::Plain];

    const fn name(self) -> &'static str {
        match self {
            Self::Mysqld => "mysqld",
            Self::AsIs => "relay, as-is",
            Self::Plain => "relay, plain",
        }
    }
}

/// Measurement of clients that read all logs.
#[derive(Clone, Copy, Debug)]
struct ServedRun {
    server: LogServer,
    clients: usize,
    bytes: u64,
    seconds: f64,
    cpu_seconds: f64,
}

impl ServedRun {
    /// Returns the megabytes that one second of CPU time serves.
    fn megabytes_per_cpu_second(self) -> f64 {
        self.bytes as f64 / 1e6 / self.cpu_seconds.max(0.01)
    }
}

pub(crate) fn measure_relay(options: &RelayBenchOptions) -> Result<()> {
    let bintide = cases::build_bintide()?;
    raise_descriptor_limit()?;
    let compression = if options.uncompressed { "OFF" } else { "ON" };
    let source = workloads::launch_server()
        .option(format!("--binlog-transaction-compression={compression}"))
        .start()?;
    write_logs(&source, options)?;
    let runs = measure_serving(&source, &bintide, options)?;
    let idle_mb = measure_idle(&source, &bintide)?;
    let receiving = measure_receiving(&source, &bintide)?;
    let load = LatencyLoad { rate: 1000, seconds: if options.quick { 10 } else { 60 } };
    let latency = measure_latency(&source, &bintide, load)?;
    let report = report(&runs, &receiving)?;
    let writes_page = !options.quick && !options.uncompressed;
    match writes_page {
        false => println!("{report}"),
        true => doc_page::RELAY.write("relay", &report)?,
    }
    let ratio = |server| {
        let rate = |server| {
            let is_match = |run: &&ServedRun| run.server == server && run.clients == CLIENTS_OF_GOAL;
            runs.iter().find(is_match).map_or(0.0, |run| run.megabytes_per_cpu_second())
        };
        rate(server) / rate(LogServer::Mysqld)
    };
    let [as_is, plain] = [LogServer::AsIs, LogServer::Plain].map(ratio);
    eprintln!(
        "goals: {GOAL_RATIO:.1} times as-is; receiving {GOAL_RECEIVING:.1} times mysqlbinlog's speed; p50 below {GOAL_P50_MS} ms, p99 below {GOAL_P99_MS} ms; idle below \
         {GOAL_IDLE_MB:.0} MB"
    );
    let last_lines = format!(
        "receiving: {:.1} times as fast as mysqlbinlog --raw, while {CLIENTS_OF_GOAL} clients are served\n\
         relay: {as_is:.1} times mysqld's bytes a CPU second as-is, {plain:.1} plain to {CLIENTS_OF_GOAL} clients\n\
         latency p50 {:.2} ms, p99 {:.2} ms\n\
         idle: {idle_mb:.0} MB for {REPLICAS} replicas",
        receiving.ratio(),
        latency.p50_ms,
        latency.p99_ms
    );
    if writes_page {
        doc_page::RELAY.write("lines", &format!("```text\n{last_lines}\n```"))?;
    }
    println!("{last_lines}");
    Ok(())
}

/// Writes the logs that are served: compressed transactions of some workloads.
fn write_logs(source: &TestServer, options: &RelayBenchOptions) -> Result<()> {
    eprintln!("writing the logs on a real server");
    source.sql("create database sbtest")?;
    let selected: &[Workload] = match options.quick {
        true => &[Workload::Prepare],
        false => &[Workload::Load, Workload::Update, Workload::Prepare, Workload::Oltp],
    };
    for workload in selected {
        workloads::run(*workload, source)?;
        source.sql("flush binary logs")?;
    }
    Ok(())
}

/// Allows the sockets of all idle replicas.
fn raise_descriptor_limit() -> Result<()> {
    let (_, hard) = getrlimit(Resource::RLIMIT_NOFILE)?;
    Ok(setrlimit(Resource::RLIMIT_NOFILE, hard.min(100_000), hard)?)
}

fn measure_serving(
    source: &TestServer,
    bintide: &Path,
    options: &RelayBenchOptions,
) -> Result<Vec<ServedRun>> {
    let log_bytes = workload_runs::log_bytes(source)?;
    let mysqld = source.pid().context("the source does not run")?;
    let index = index_of(source)?;
    let as_is = RelayProcess::serve(bintide, &index, "as-is")?;
    let plain = RelayProcess::serve(bintide, &index, "plain")?;
    let mut runs = Vec::new();
    for clients in CLIENTS {
        for server in LogServer::ALL {
            let (port, pid) = match server {
                LogServer::Mysqld => (source.port(), mysqld),
                LogServer::AsIs => (as_is.port(), as_is.pid()),
                LogServer::Plain => (plain.port(), plain.pid()),
            };
            // The first clients of a form wait until it is rendered, as they do after a start.
            let rounds = options.rounds(clients, log_bytes);
            let cpu_before = process_cpu_seconds(pid)?;
            let began = Instant::now();
            let bytes = read_all(port, clients, rounds)?;
            let seconds = began.elapsed().as_secs_f64();
            let cpu_seconds = process_cpu_seconds(pid)? - cpu_before;
            let run = ServedRun { server, clients, bytes, seconds, cpu_seconds };
            eprintln!(
                "{} to {clients} clients: {:.0} MB in {seconds:.2} s, {cpu_seconds:.2} s of CPU time",
                server.name(),
                bytes as f64 / 1e6
            );
            runs.push(run);
        }
    }
    Ok(runs)
}

fn index_of(source: &TestServer) -> Result<PathBuf> {
    Ok(source.binlogs()?.first().context("the server has no logs")?.with_extension("index"))
}

/// Lets clients read all logs at the same time, and each of them several times. Returns the bytes of all.
fn read_all(port: u16, clients: usize, rounds: usize) -> Result<u64> {
    let start = Barrier::new(clients);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..clients)
            .map(|number| {
                let start = &start;
                scope.spawn(move || {
                    let mut logged_in = DiscardingClient::log_in(port);
                    start.wait();
                    let mut bytes = 0;
                    for _ in 0..rounds {
                        let mut client = logged_in?;
                        client.dump("binlog.000001", 4, DumpParameters::to_end(number))?;
                        bytes += client.discard_to_end()?;
                        logged_in = DiscardingClient::log_in(port);
                    }
                    Ok(bytes)
                })
            })
            .collect();
        let read = readers.into_iter().map(|reader| match reader.join() {
            Ok(bytes) => bytes,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        read.sum()
    })
}

/// Returns the memory of a relay with idle replicas, in megabytes.
fn measure_idle(source: &TestServer, bintide: &Path) -> Result<f64> {
    let relay = RelayProcess::serve(bintide, &index_of(source)?, "auto")?;
    let status = source.sql("show binary log status")?;
    let mut words = status.split('\t');
    let log = words.next().context("the server has no log")?.to_owned();
    let position: u32 = words.next().context("no end of the log")?.parse()?;
    let mut replicas = Vec::new();
    for number in 0..REPLICAS {
        let mut replica = DiscardingClient::log_in(relay.port())?;
        replica.dump(&log, position, DumpParameters::waiting(number))?;
        replicas.push(replica);
    }
    // The relay is still sending the rotate event and the format description.
    thread::sleep(Duration::from_secs(3));
    let megabytes = relay.memory_bytes()? as f64 / 1e6;
    eprintln!("{REPLICAS} idle replicas: {megabytes:.1} MB");
    Ok(megabytes)
}

/// Times of receiving all logs: from the first stored byte until all bytes are stored and synced.
struct ReceivingRun {
    bytes: u64,
    relay_seconds: f64,
    mysqlbinlog_seconds: f64,
}

impl ReceivingRun {
    /// Returns the speed of the relay relative to mysqlbinlog.
    fn ratio(&self) -> f64 {
        self.mysqlbinlog_seconds / self.relay_seconds.max(0.001)
    }
}

/// Measures receiving while clients read, beside `mysqlbinlog --raw` alone.
fn measure_receiving(source: &TestServer, bintide: &Path) -> Result<ReceivingRun> {
    let bytes = workload_runs::log_bytes(source)?;
    let directory = TempDir::new_in(testkit::target_dir())?;
    let path = directory.path().to_owned();
    let first_byte = thread::spawn(move || wait_for_bytes(&path, 1));
    let relay = RelayProcess::receive(bintide, source, directory.path())?;
    let port = relay.port();
    let clients: Vec<_> = (0..CLIENTS_OF_GOAL)
        .map(|number| {
            thread::spawn(move || {
                let mut client = DiscardingClient::log_in(port)?;
                client.dump("binlog.000001", 4, DumpParameters::waiting(number))?;
                // The client reads until the relay ends.
                client.discard_to_end()
            })
        })
        .collect();
    wait_for_bytes(directory.path(), bytes)?;
    sync_files(directory.path())?;
    let ended = Instant::now();
    let began = first_byte.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    let relay_seconds = ended.duration_since(began).as_secs_f64();
    drop(relay);
    for client in clients {
        // The relay has closed the connection.
        let _ = client.join();
    }
    let mysqlbinlog_seconds = time_mysqlbinlog(source)?;
    eprintln!("receiving {bytes} bytes: {relay_seconds:.2} s, mysqlbinlog {mysqlbinlog_seconds:.2} s");
    Ok(ReceivingRun { bytes, relay_seconds, mysqlbinlog_seconds })
}

/// Waits until the logs in a directory have this size. Returns the time.
fn wait_for_bytes(directory: &Path, bytes: u64) -> Result<Instant> {
    let began = Instant::now();
    while stored_bytes(directory)? < bytes {
        ensure!(began.elapsed() < Duration::from_secs(600), "receiving does not end");
        thread::sleep(Duration::from_millis(1));
    }
    Ok(Instant::now())
}

/// Writes the files of a directory to disk.
fn sync_files(directory: &Path) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            fs::File::open(entry.path())?.sync_all()?;
        }
    }
    Ok(())
}

fn stored_bytes(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("binlog.0") {
            // A file may just have been replaced.
            bytes += entry.metadata().map_or(0, |metadata| metadata.len());
        }
    }
    Ok(bytes)
}

fn time_mysqlbinlog(source: &TestServer) -> Result<f64> {
    let directory = TempDir::new_in(testkit::target_dir())?;
    let home = PackageHome::find(TestPackage::Mysql)?;
    let mut command = home.command("mysqlbinlog")?;
    command.args(["--no-defaults", "-R", "--raw", "--to-last-log", "--host=127.0.0.1", "--user=root"]);
    command.args(["--get-server-public-key", &format!("--port={}", source.port()), "binlog.000001"]);
    let path = directory.path().to_owned();
    let first_byte = thread::spawn(move || wait_for_bytes(&path, 1));
    let output = command.current_dir(directory.path()).stdin(Stdio::null()).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    sync_files(directory.path())?;
    let ended = Instant::now();
    let began = first_byte.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    Ok(ended.duration_since(began).as_secs_f64())
}

fn report(runs: &[ServedRun], receiving: &ReceivingRun) -> Result<String> {
    let mut text = String::from(
        "| server | clients | sent | time | CPU time | MB per CPU second | compared with mysqld |\n\
         |---|--:|--:|--:|--:|--:|--:|\n",
    );
    for run in runs {
        let mysqld =
            runs.iter().find(|other| other.server == LogServer::Mysqld && other.clients == run.clients);
        let rate = run.megabytes_per_cpu_second();
        let ratio = mysqld.map_or(0.0, |mysqld| rate / mysqld.megabytes_per_cpu_second());
        writeln!(
            text,
            "| {} | {} | {:.0} MB | {:.2} s | {:.2} s | {rate:.0} | {ratio:.1} |",
            run.server.name(),
            run.clients,
            run.bytes as f64 / 1e6,
            run.seconds,
            run.cpu_seconds
        )?;
    }
    let ReceivingRun { bytes, relay_seconds, mysqlbinlog_seconds } = receiving;
    writeln!(
        text,
        "\nReceiving {:.0} MB while {CLIENTS_OF_GOAL} clients read the data as it arrives: {relay_seconds:.2} s. \
         `mysqlbinlog --raw` alone: {mysqlbinlog_seconds:.2} s. Both times begin with the first stored byte, and \
         end when all bytes are synced.\n\nAll programs run on one machine: the clients, which discard what they read, \
         share the processors with the server that is measured.",
        *bytes as f64 / 1e6
    )?;
    Ok(text + &doc_page::conditions()?)
}
