//! `bintide relay --from` after a crash of its machine: replicas have transactions that the relay has lost, because it
//! serves them before they are synced to disk.

use std::fs::OpenOptions;
use std::path::Path;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use binlog::EventType;
use e2e::relayed::{
    RelayProcess, ReplicaStartPoint, TABLE, error_of, follow, replica, source, wait_for_equal, work,
};
use logs::{LogReader, ReadOutcome};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testkit::{Launch, TestPackage, TestServer};

/// Time within which a replica reports that its position is refused.
const RESTART_INTERVAL: Duration = Duration::from_secs(5);

fn signal(server: &TestServer, signal: Signal) -> Result<()> {
    let id = server.pid().context("it runs")?;
    Ok(kill(Pid::from_raw(i32::try_from(id)?), signal)?)
}

/// Cuts a log within its transactions, as a crash that loses unsynced bytes.
fn lose_end(log: &Path) -> Result<()> {
    let mut reader = LogReader::open(log)?;
    let mut starts = Vec::new();
    while let ReadOutcome::Some(event) = reader.next_event()? {
        if matches!(event.raw.event_type(), EventType::Gtid | EventType::MariadbGtid) {
            starts.push(event.offset);
        }
    }
    ensure!(starts.len() > 5, "{} transactions", starts.len());
    let file = OpenOptions::new().write(true).open(log)?;
    // In the middle of an event.
    Ok(file.set_len(starts[starts.len() / 2] + 10)?)
}

/// Relay that receives.
struct ReceivingRelay {
    relay: RelayProcess,
    options: Vec<String>,
    logs: TempDir,
}

impl ReceivingRelay {
    fn start(source: &TestServer, form: &str) -> Result<Self> {
        source.sql(TABLE)?;
        let options =
            vec![format!("--from=mysql://root@127.0.0.1:{}/", source.port()), format!("--form={form}")];
        let logs = TempDir::new()?;
        let words: Vec<&str> = options.iter().map(String::as_str).collect();
        let relay = RelayProcess::start(logs.path(), &words)?;
        Ok(Self { relay, options, logs })
    }

    /// Loses the end of the logs, and starts again, while the source does not answer. `replicas` have all transactions,
    /// and must continue with those of `more`.
    fn lose_end_and_restart(
        &mut self,
        source: &TestServer,
        more: &str,
        replicas: &[&TestServer],
    ) -> Result<()> {
        replicas.iter().try_for_each(|replica| wait_for_equal(source, replica))?;
        // Dropping the relay kills it.
        drop(self.relay.running.take());
        lose_end(&self.logs.path().join("binlog.000001"))?;
        signal(source, Signal::SIGSTOP)?;
        let options: Vec<&str> = self.options.iter().map(String::as_str).collect();
        let waited = self.relay.run(&options).and_then(|()| {
            thread::sleep(RESTART_INTERVAL);
            replicas.iter().try_for_each(|replica| {
                let error = error_of(replica)?;
                ensure!(error.is_none(), "{error:?}");
                Ok(())
            })
        });
        signal(source, Signal::SIGCONT)?;
        waited?;
        source.sql(more)?;
        replicas.iter().try_for_each(|replica| wait_for_equal(source, replica))
    }
}

fn check_replicas_continue(form: &str) -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    let mut relay = ReceivingRelay::start(&source, form)?;
    let replicas = [replica(TestPackage::Mysql)?, replica(TestPackage::Mysql)?];
    follow(&replicas[0], relay.relay.port, ReplicaStartPoint::FirstLog)?;
    follow(&replicas[1], relay.relay.port, ReplicaStartPoint::Gtids)?;
    source.sql(&work(0, "on"))?;
    relay.lose_end_and_restart(&source, &work(500, "on"), &replicas.each_ref())
}

#[test]
fn replicas_ahead_of_a_relay_continue() -> Result<()> {
    check_replicas_continue("as-is")
}

#[test]
fn replicas_ahead_of_a_relay_continue_with_plain_logs() -> Result<()> {
    check_replicas_continue("plain")
}

#[test]
fn mariadb_replicas_ahead_of_a_relay_continue() -> Result<()> {
    let source = Launch::mariadb().options(["--server-id=1", "--log-bin=binlog"]).start()?;
    let mut relay = ReceivingRelay::start(&source, "auto")?;
    let replicas = [replica(TestPackage::MariaDb)?, replica(TestPackage::MariaDb)?];
    follow(&replicas[0], relay.relay.port, ReplicaStartPoint::FirstLog)?;
    replicas[1].sql(&format!(
        "set global server_id = 3; change master to master_host = '127.0.0.1', master_port = {}, master_user = 'repl', \
         master_use_gtid = slave_pos, master_connect_retry = 1, master_heartbeat_period = 1; start slave",
        relay.relay.port
    ))?;
    let insert = |id: u32| format!("insert into d.t values ({id}, 'row')");
    let rows: Vec<String> = (0..10).map(insert).collect();
    source.sql(&rows.join(";"))?;
    relay.lose_end_and_restart(&source, &insert(10), &replicas.each_ref())
}
