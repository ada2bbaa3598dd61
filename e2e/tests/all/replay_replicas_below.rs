//! Replays to servers whose binary log is read: replicas of the target would not receive the changes.

use anyhow::{Result, ensure};
use e2e::command::{Ran, replay, wait_until};
use testkit::{Launch, TestPackage, TestServer};

const GTIDS: [&str; 2] = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"];

/// Checks the exit code, and whether the message names the check.
fn check(ran: &Ran, code: i32, names_check: bool) -> Result<()> {
    let is_named = ran.stderr.contains("replicas-below: the target's binary log ");
    ensure!(ran.code == Some(code) && is_named == names_check, "expected {code}: {ran:?}");
    Ok(())
}

fn rows(server: &TestServer) -> Result<String> {
    Ok(server
        .sql("select count(*) from information_schema.tables where table_schema = 'd'")?
        .trim()
        .to_owned())
}

/// Makes a server a replica of another one.
fn follow(replica: &TestServer, source: &TestServer) -> Result<()> {
    replica.sql(&format!(
        "change replication source to source_host = '127.0.0.1', source_port = {}, source_user = 'repl', \
         source_auto_position = 1, get_source_public_key = 1; start replica",
        source.port()
    ))?;
    Ok(())
}

#[test]
fn targets_with_replicas_need_a_choice() -> Result<()> {
    let source = Launch::mysql().options(GTIDS).option("--server-id=1").start()?;
    source.sql("create database d; create table d.t (a int primary key); insert into d.t values (1), (2)")?;
    let logs = source.binlogs()?;
    let target = Launch::mysql().options(GTIDS).option("--server-id=2").start()?;
    target.sql("create user repl@'%'; grant replication slave on *.* to repl@'%'")?;
    let replica = Launch::mysql().options(GTIDS).option("--server-id=3").start()?;
    follow(&replica, &target)?;
    let is_read = || Ok(target.sql("show processlist")?.contains("Binlog Dump GTID"));
    wait_until("the replica", is_read)?;

    let refused = replay(&logs, &target, &[])?;
    check(&refused, 2, true)?;
    ensure!(refused.stderr.contains("--log writes the changes to it"), "{refused:?}");
    ensure!(rows(&target)? == "0", "a refused replay changed the target");
    check(&replay(&logs, &target, &["--dry-run"])?, 1, false)?;
    check(&replay(&logs, &target, &["--log"])?, 0, false)?;
    wait_until("the replica's rows", || Ok(rows(&replica)? == "1"))?;

    // A replica that has disconnected still needs the log.
    source.sql("insert into d.t values (3)")?;
    let logs = source.binlogs()?;
    replica.sql("stop replica")?;
    // The server would notice the lost connection only at its next heartbeat.
    let dump = "select id from information_schema.processlist where command like 'Binlog Dump%'";
    target.sql(&format!("kill {}", target.sql(dump)?.trim()))?;
    wait_until("the end of the dump", || Ok(!is_read()?))?;
    check(&replay(&logs, &target, &[])?, 2, true)?;
    check(&replay(&logs, &target, &["--no-log"])?, 0, false)?;
    ensure!(target.sql("select count(*) from d.t")?.trim() == "3");
    Ok(())
}

#[test]
fn targets_without_replicas_are_told_of_their_log() -> Result<()> {
    for package in [TestPackage::Mysql, TestPackage::Mysql5_7, TestPackage::MariaDb] {
        let source = Launch::of(package).option("--log-bin=binlog").option("--server-id=1").start()?;
        source.sql("create database d; create table d.t (a int primary key); insert into d.t values (1)")?;
        let logs = source.binlogs()?;
        let target = Launch::of(package).option("--log-bin=binlog").option("--server-id=2").start()?;
        let ran = replay(&logs, &target, &[])?;
        check(&ran, 0, false)?;
        ensure!(
            ran.stderr.contains("cannot have replicas of them; --log writes them there"),
            "{package:?}: {ran:?}"
        );
        let quiet = replay(&logs, &target, &["--no-log"])?;
        ensure!(quiet.code == Some(0) && !quiet.stderr.contains("replicas"), "{package:?}: {quiet:?}");
    }
    Ok(())
}
