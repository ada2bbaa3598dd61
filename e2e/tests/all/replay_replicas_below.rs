//! Replays to servers whose binary log is read: replicas of the target would not receive the changes.

use anyhow::{Result, ensure};
use e2e::command::{CommandOutput, replay};
use testkit::{Launch, TestPackage, TestServer, wait_until};

const GTIDS: [&str; 2] = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"];

/// Checks the exit code, and whether the message names the check.
fn check(ran: &CommandOutput, code: i32, names_check: bool) -> Result<()> {
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

/// Ends the connection of a replica that has stopped: the server would detect the end only at its next
/// heartbeat.
fn end_dump(target: &TestServer) -> Result<()> {
    let dump = "select id from information_schema.processlist where command like 'Binlog Dump%'";
    target.sql(&format!("kill {}", target.sql(dump)?.trim()))?;
    wait_until("the end of the dump", || Ok(!target.sql("show processlist")?.contains("Binlog Dump")))
}

/// Returns the dry run's findings of `replicas-below`, and checks that the document has no other finding.
fn dry_findings(ran: &CommandOutput) -> Result<usize> {
    let document: serde_json::Value = serde_json::from_str(&ran.stdout)?;
    let findings = document["findings"].as_array().cloned().unwrap_or_default();
    let is_it = |finding: &serde_json::Value| finding["check"] == "replicas-below";
    ensure!(findings.iter().all(is_it), "{findings:?}");
    Ok(findings.len())
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
    let dry = replay(&logs, &target, &["--dry-run"])?;
    check(&dry, 1, false)?;
    ensure!(dry.stdout.contains("replicas-below: the target's binary log is being read"), "{dry:?}");
    ensure!(dry_findings(&replay(&logs, &target, &["--dry-run", "--json"])?)? == 1);
    ensure!(dry_findings(&replay(&logs, &target, &["--dry-run", "--json", "--no-log"])?)? == 0);
    check(&replay(&logs, &target, &["--log"])?, 0, false)?;
    wait_until("the replica's rows", || Ok(rows(&replica)? == "1"))?;

    // A replica that has disconnected still needs the log.
    source.sql("insert into d.t values (3)")?;
    let logs = source.binlogs()?;
    replica.sql("stop replica")?;
    end_dump(&target)?;
    check(&replay(&logs, &target, &[])?, 2, true)?;
    check(&replay(&logs, &target, &["--no-log"])?, 0, false)?;
    ensure!(target.sql("select count(*) from d.t")?.trim() == "3");
    Ok(())
}

#[test]
fn targets_without_replicas_cause_a_warning() -> Result<()> {
    for package in [TestPackage::Mysql, TestPackage::Mysql5_7, TestPackage::MariaDb] {
        let source = Launch::of(package).option("--log-bin=binlog").option("--server-id=1").start()?;
        source.sql("create database d; create table d.t (a int primary key); insert into d.t values (1)")?;
        let logs = source.binlogs()?;
        let target = Launch::of(package).option("--log-bin=binlog").option("--server-id=2").start()?;
        let ran = replay(&logs, &target, &[])?;
        check(&ran, 0, false)?;
        ensure!(
            ran.stderr.contains("would not receive them; --log writes them there"),
            "{package:?}: {ran:?}"
        );
        let dry = replay(&logs, &target, &["--dry-run"])?;
        ensure!(dry.code == Some(0) && dry.stderr.contains("would not receive them"), "{dry:?}");
        let quiet = replay(&logs, &target, &["--no-log"])?;
        ensure!(quiet.code == Some(0) && !quiet.stderr.contains("replicas"), "{package:?}: {quiet:?}");
    }
    Ok(())
}

#[test]
fn older_targets_and_mariadb_with_replicas_need_a_choice() -> Result<()> {
    for package in [TestPackage::Mysql5_7, TestPackage::MariaDb] {
        let launch = |id: &str| Launch::of(package).option("--log-bin=binlog").option(id);
        let source = launch("--server-id=1").start()?;
        source.sql("create database d; create table d.t (a int primary key); insert into d.t values (1)")?;
        let logs = source.binlogs()?;
        // MariaDB has no performance_schema by default.
        let target = launch("--server-id=2").option("--performance-schema=ON").start()?;
        target.sql("create user repl@'%'; grant replication slave on *.* to repl@'%'")?;
        let replica = launch("--server-id=3").start()?;
        replica.sql(&format!(
            "change master to master_host = '127.0.0.1', master_port = {}, master_user = 'repl'; start slave",
            target.port()
        ))?;
        wait_until("the replica", || Ok(target.sql("show processlist")?.contains("Binlog Dump")))?;
        check(&replay(&logs, &target, &[])?, 2, true)?;
        ensure!(rows(&target)? == "0", "{package:?}: a refused replay changed the target");
        replica.sql("stop slave")?;
        end_dump(&target)?;
        check(&replay(&logs, &target, &[])?, 2, true)?;
        let applied = replay(&logs, &target, &["--no-log"])?;
        check(&applied, 0, false)?;
        ensure!(rows(&target)? == "1", "{package:?}: {applied:?}");
    }
    Ok(())
}

#[test]
fn refused_queries_are_reported() -> Result<()> {
    let source = Launch::mysql().options(GTIDS).option("--server-id=1").start()?;
    source.sql("create database d; create table d.t (a int primary key)")?;
    let logs = source.binlogs()?;
    let target = Launch::mysql().options(GTIDS).option("--server-id=2").start()?;
    target.sql(
        "create user r@localhost; grant all on d.* to r@localhost; grant all on bintide.* to r@localhost;
         grant binlog_admin, system_variables_admin, session_variables_admin on *.* to r@localhost;
         grant select on performance_schema.replication_applier_status to r@localhost",
    )?;
    let run = |rights: &str, options: &[&str]| -> Result<CommandOutput> {
        if !rights.is_empty() {
            target.sql(&format!("grant {rights} to r@localhost"))?;
        }
        let mut command = std::process::Command::new(e2e::program::bintide()?);
        command.env_clear().arg("replay").args(&logs).args(["--to", &e2e::command::address("r", &target)]);
        Ok(command.arg("--dry-run").args(options).output()?.into())
    };
    let (connected, earlier) =
        ("the account needs PROCESS", "the account needs SELECT on performance_schema");
    let check = |ran: CommandOutput, expected: [bool; 2]| {
        let found = [connected, earlier].map(|reason| ran.stderr.contains(reason));
        let is_warned = ran.stderr.contains("unknown whether the target has replicas: ");
        ensure!(
            ran.code == Some(0) && found == expected && is_warned == (expected != [false; 2]),
            "{expected:?}: {ran:?}"
        );
        Ok(())
    };
    check(run("", &[])?, [true, true])?;
    check(run("", &["--no-log"])?, [false, false])?;
    check(run("process on *.*", &[])?, [false, true])?;
    check(run("select on performance_schema.*", &[])?, [false, false])?;
    target.sql("revoke process on *.* from r@localhost")?;
    check(run("", &[])?, [true, false])?;
    check(run("replication slave on *.*", &[])?, [false, false])
}
