//! Logs of a real server applied to another one: equal tables, nothing twice.

use anyhow::{Context, Result, ensure};
use e2e::replays::{SCRIPTS, checksums, ends_equal, executed, options, replay_to, source, target};
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
