//! Logs of a real server applied to another one: equal tables, nothing twice, whatever stops it on the way.

use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use e2e::as_sql::replay_killed;
use e2e::replays::{
    SCRIPTS, checksums, ends_equal, executed, options, replay_to, run_what_is_killed, source, target,
};
use e2e::workload;
use replay::order::CommitOrder;
use tempfile::TempDir;
use testkit::{Launch, Server};

/// Twice: the second time there is nothing left to do.
fn applies(source: &Server, target: &Server, order: CommitOrder) -> Result<()> {
    let first = replay_to(&source.binlogs()?, target.socket(), &options(order))?;
    ensure!(first.transactions > 20 && first.skipped == 0, "{first:?}");
    ends_equal(source, target)?;
    let again = replay_to(&source.binlogs()?, target.socket(), &options(order))?;
    ensure!(again.transactions == 0 && again.skipped >= first.transactions, "{again:?}");
    ends_equal(source, target)
}

#[test]
fn samples_end_equal_on_a_target_without_a_binary_log() -> Result<()> {
    let source = source(&Launch::mysql(), &SCRIPTS)?;
    applies(&source, &target("--skip-log-bin")?, CommitOrder::Strict)?;
    applies(&source, &target("--skip-log-bin")?, CommitOrder::Grouped)
}

#[test]
fn samples_end_equal_on_a_target_with_a_binary_log_which_stays_empty() -> Result<()> {
    let source = source(&Launch::mysql().option("--binlog-transaction-compression=ON"), &SCRIPTS)?;
    let target = target("--log-bin=binlog")?;
    applies(&source, &target, CommitOrder::Grouped)?;
    let own = target.sql("select @@server_uuid")?;
    ensure!(
        !executed(&target)?.contains(own.trim()),
        "the target counts none of its own: {}",
        executed(&target)?
    );
    for log in target.binlogs()? {
        let name = log.file_name().context("a name")?.to_string_lossy().into_owned();
        let events = target.sql(&format!("show binlog events in '{name}'"))?;
        ensure!(!events.contains("Write_rows") && !events.contains("Query"), "{events}");
    }
    Ok(())
}

#[test]
fn random_sql_ends_equal() -> Result<()> {
    let folder = TempDir::new()?;
    for seed in 41..44 {
        let name = format!("random-{seed}");
        let source = workload::record_on(seed, &name, folder.path())?;
        let target = target("--skip-log-bin")?;
        let report = replay_to(&source.binlogs()?, target.socket(), &options(CommitOrder::Grouped));
        report.with_context(|| format!("seed {seed}"))?;
        let (ours, theirs) = (checksums(&target)?, checksums(&source)?);
        ensure!(ours == theirs, "seed {seed}: the target has {ours:?}, the source {theirs:?}");
    }
    Ok(())
}

#[test]
fn a_target_that_is_killed_loses_nothing_and_repeats_nothing() -> Result<()> {
    let source = source(&Launch::mysql(), &[])?;
    source.sql("create database d; create table d.t (id int primary key auto_increment, n int)")?;
    let changes = "insert into d.t (n) values (1); update d.t set n = n + 1;".repeat(200);
    source.sql(&changes)?;
    source.sql("create table d.u as select * from d.t; alter table d.t add column m int default 7")?;
    source.sql("flush binary logs")?;
    for (log, pauses) in [("--skip-log-bin", [20, 60, 150, 300]), ("--log-bin=binlog", [35, 90, 200, 400])] {
        let mut target = target(log)?;
        for pause in pauses {
            let logs = source.binlogs()?;
            let result = thread::scope(|scope| {
                let socket = target.socket().to_owned();
                let run = scope.spawn(move || replay_to(&logs, &socket, &options(CommitOrder::Strict)));
                thread::sleep(Duration::from_millis(pause));
                target.kill()?;
                run.join().map_err(|_| anyhow!("the replay panics"))
            });
            drop(result?);
            target.start_again(&[])?;
        }
        replay_to(&source.binlogs()?, target.socket(), &options(CommitOrder::Strict))?;
        ends_equal(&source, &target)?;
    }
    Ok(())
}

#[test]
fn bintide_that_is_killed_goes_on_where_it_was() -> Result<()> {
    goes_on(
        &Launch::mysql(),
        &[("--skip-log-bin", "strict"), ("--log-bin=binlog", "grouped"), ("--skip-log-bin", "any")],
    )
}

#[test]
fn bintide_that_is_killed_goes_on_without_gtids() -> Result<()> {
    goes_on(&Launch::mysql().option("--gtid-mode=OFF"), &[("--skip-log-bin", "grouped")])
}

/// Kills bintide again and again, on targets that are started so, in these commit orders.
fn goes_on(launch: &Launch, ways: &[(&str, &str)]) -> Result<()> {
    let source = source(launch, &[])?;
    run_what_is_killed(&source, 200, 20)?;
    for (log, order) in ways {
        let target = target(log)?;
        replay_killed(&source, &target, &["--commit-order", order])?;
        ends_equal(&source, &target)?;
    }
    Ok(())
}
