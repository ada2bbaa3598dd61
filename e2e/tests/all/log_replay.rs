//! A replica of the target: it ends equal to the source, or stops with an error; its rows never differ silently.

use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use e2e::program::bintide;
use e2e::replays::{SCRIPTS, checksums, ends_equal, source};
use testkit::{Launch, TestServer};

/// Time limit for a replica.
const TIMEOUT: Duration = Duration::from_secs(120);

fn target() -> Result<TestServer> {
    Launch::mysql().options(["--server-id=2", "--local-infile=1", "--log-bin=binlog"]).start()
}

fn replay(source: &TestServer, target: &TestServer, more: &[&str]) -> Result<Output> {
    let mut command = Command::new(bintide()?);
    command.env_clear().arg("replay").args(source.binlogs()?).args(more);
    command.arg("--to").arg(format!("mysql://root@localhost/?socket={}", target.socket().display()));
    Ok(command.output()?)
}

fn replica_of(target: &TestServer) -> Result<TestServer> {
    let replica = Launch::mysql().option("--server-id=3").start()?;
    replica.sql(&format!(
        "change replication source to source_host = '127.0.0.1', source_port = {}, source_user = 'root',
           source_auto_position = 1, source_ssl = 1, source_connect_retry = 1, source_retry_count = 2;
         start replica",
        target.port()
    ))?;
    Ok(replica)
}

/// Waits until the replica has these GTIDs, or stops with an error.
fn follows(replica: &TestServer, all: &str) -> Result<()> {
    let begin = Instant::now();
    while begin.elapsed() < TIMEOUT {
        if replica.sql(&format!("select gtid_subset('{all}', @@global.gtid_executed)"))?.trim() == "1" {
            return Ok(());
        }
        let errors = replica.sql(
            "select last_error_message from performance_schema.replication_connection_status
             union select last_error_message from performance_schema.replication_applier_status_by_worker
             union select last_error_message from performance_schema.replication_applier_status_by_coordinator",
        )?;
        ensure!(errors.trim().is_empty(), "the replica reports: {}", errors.trim());
        thread::sleep(Duration::from_millis(100));
    }
    bail!("the replica has only {}, expected {all}", replica.gtid_executed()?)
}

/// Replays with a replica of the target: both end equal, and the target has logged no GTIDs of its own.
fn all_end_equal(source: &TestServer, target: &TestServer, options: &[&str]) -> Result<()> {
    let replica = replica_of(target)?;
    let output = replay(source, target, options)?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ends_equal(source, target).context("the target")?;
    let own = target.sql("select @@server_uuid")?;
    ensure!(
        !target.gtid_executed()?.contains(own.trim()),
        "the target has GTIDs of its own: {}",
        target.gtid_executed()?
    );
    follows(&replica, &source.gtid_executed()?)?;
    ends_equal(source, &replica).context("the replica")?;
    Ok(())
}

#[test]
fn replicas_of_a_logging_target_end_equal() -> Result<()> {
    let source = source(&Launch::mysql(), &SCRIPTS)?;
    let target = target()?;
    all_end_equal(&source, &target, &["--log", "--workers", "4"])?;
    let again = replay(&source, &target, &["--log"])?;
    ensure!(String::from_utf8_lossy(&again.stdout).starts_with("0 transactions applied"), "{again:?}");
    Ok(())
}

#[test]
fn replicas_of_a_target_that_logs_statements_end_equal() -> Result<()> {
    let source =
        source(&Launch::mysql(), &["types", "json", "savepoints", "partitions", "gtids", "xa", "charsets"])?;
    let target = target()?;
    all_end_equal(&source, &target, &["--log", "--apply-as", "sql"])?;
    // The server does not accept row events after the CREATE TABLE, and one GTID is one transaction.
    source.sql("create database s; create table s.t as select 1 as n; flush binary logs")?;
    let output = replay(&source, &target, &["--log", "--apply-as", "sql"])?;
    let printed = String::from_utf8_lossy(&output.stderr);
    ensure!(printed.contains("one GTID cannot log both"), "{printed}");
    ensure!(target.sql("show tables in s")?.is_empty(), "a part of the transaction was applied");
    Ok(())
}

#[test]
fn replicas_of_a_target_that_does_not_log_stop_with_an_error() -> Result<()> {
    let source = source(&Launch::mysql(), &["types"])?;
    for order in ["grouped", "any"] {
        let target = target()?;
        // A replica that is connected from the start receives the error only when it connects again.
        let replica = replica_of(&target)?;
        let output = replay(&source, &target, &["--commit-order", order, "--no-log"])?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        ends_equal(&source, &target)?;
        replica.sql("stop replica; start replica")?;
        let error = follows(&replica, &source.gtid_executed()?)
            .err()
            .context("the replica has transactions that were not logged")?;
        ensure!(error.to_string().contains("purged"), "{order}: {error}");
        ensure!(checksums(&replica)?.is_empty(), "{order}: the replica has some tables");
    }
    Ok(())
}

#[test]
fn logging_is_refused_on_unsuitable_targets() -> Result<()> {
    let source = source(&Launch::mysql(), &["types"])?;
    let (logs, does_not) = (target()?, e2e::replays::target("--skip-log-bin")?);
    let without = e2e::replays::source(&Launch::mysql().option("--gtid-mode=OFF"), &["types"])?;
    let check = |source: &TestServer, target: &TestServer, more: &[&str], expected: &str| {
        let output = replay(source, target, more)?;
        let printed = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(!output.status.success() && printed.contains(expected), "{more:?}: {printed}");
        ensure!(checksums(target)?.is_empty(), "{more:?}: something was applied");
        Ok(())
    };
    check(&source, &logs, &["--log", "--commit-order", "grouped"], "its own GTID in the log")?;
    check(&source, &logs, &["--log", "--commit-order", "any"], "states that the source never had")?;
    check(&source, &does_not, &["--log"], "the target needs log_bin")?;
    check(&without, &logs, &["--log"], "no GTID to be logged under")
}

#[test]
fn logging_targets_resume_after_a_kill() -> Result<()> {
    let source = source(&Launch::mysql(), &[])?;
    source.sql("create database d; create table d.t (id int primary key auto_increment, n int)")?;
    source.sql(&"insert into d.t (n) values (1); update d.t set n = n + 1;".repeat(400))?;
    source.sql("create table d.u as select * from d.t; alter table d.t add m int; flush binary logs")?;
    let mut target = target()?;
    for pause in [150, 400, 700] {
        let mut command = Command::new(bintide()?);
        command.env_clear().arg("replay").args(source.binlogs()?).arg("--log").arg("--to");
        command.arg(format!("mysql://root@localhost/?socket={}", target.socket().display()));
        let mut child = command.stderr(std::process::Stdio::null()).spawn()?;
        thread::sleep(Duration::from_millis(pause));
        if pause == 400 {
            target.kill()?;
            child.wait()?;
            target.start_again(&[])?;
        } else {
            child.kill()?;
            child.wait()?;
        }
    }
    let output = replay(&source, &target, &["--log"])?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    ends_equal(&source, &target)?;
    let replica = replica_of(&target)?;
    follows(&replica, &source.gtid_executed()?)?;
    ends_equal(&source, &replica)
}
