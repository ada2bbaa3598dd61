//! Logs of a real server replayed to another one: equal tables, and no change twice.

use anyhow::{Context, Result, ensure};
use e2e::replays::{SCRIPTS, checksums, ends_equal, options, replay_to, source, target};
use e2e::workload;
use replay::{CommitOrder, ReplayOptions};
use tempfile::TempDir;
use testkit::{Launch, TestServer, seed_from_env};

/// Replays twice: the second run must find nothing to apply.
fn applies(source: &TestServer, target: &TestServer, order: CommitOrder) -> Result<()> {
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
fn samples_end_equal_on_a_target_with_an_empty_binary_log() -> Result<()> {
    let source = source(&Launch::mysql().option("--binlog-transaction-compression=ON"), &SCRIPTS)?;
    let target = target("--log-bin=binlog")?;
    applies(&source, &target, CommitOrder::Grouped)?;
    let own = target.sql("select @@server_uuid")?;
    ensure!(
        !target.gtid_executed()?.contains(own.trim()),
        "the target has GTIDs of its own: {}",
        target.gtid_executed()?
    );
    for log in target.binlogs()? {
        let name = log.file_name().context("no name")?.to_string_lossy().into_owned();
        let events = target.sql(&format!("show binlog events in '{name}'"))?;
        ensure!(!events.contains("Write_rows") && !events.contains("Query"), "{events}");
    }
    Ok(())
}

#[test]
fn random_sql_ends_equal() -> Result<()> {
    let directory = TempDir::new()?;
    let first = seed_from_env("BINTIDE_E2E_SEED");
    for seed in first..first + 3 {
        let name = format!("random-{seed}");
        let source = workload::record_on(seed, &name, directory.path())?;
        let target = target("--skip-log-bin")?;
        let report = replay_to(&source.binlogs()?, target.socket(), &options(CommitOrder::Grouped));
        report.with_context(|| format!("seed {seed}"))?;
        let (ours, theirs) = (checksums(&target)?, checksums(&source)?);
        ensure!(ours == theirs, "seed {seed}: the target has {ours:?}, the source {theirs:?}");
    }
    Ok(())
}

/// Text from clients that send UTF-8 and declare another character set.
#[test]
fn user_variables_keep_text_that_is_invalid_in_their_character_set() -> Result<()> {
    let source = source(&Launch::mysql().option("--binlog-format=STATEMENT"), &[])?;
    source.sql("create database d; create table d.t (id int primary key auto_increment, v blob, c text); create table d.u (id int)")?;
    for charset in ["gbk", "sjis", "ujis", "euckr", "utf8mb3", "utf8mb4", "ascii", "latin1", "binary"] {
        let mut sql = format!("set names {charset}; use d; set @v = '").into_bytes();
        sql.extend_from_slice(b"\xe6\xbc\xa2#\xc3(\xff', @`na\xc3\xafve` = 'plain \xa2';");
        sql.extend_from_slice(
            "insert into t (v, c) values (@v, hex(@v)), (@`naïve`, charset(@v)), ('é', collation(@v))"
                .as_bytes(),
        );
        // Not every character set can represent the names of the variables.
        if source.client().sql_bytes(&sql).is_err() {
            let sql = sql.split(|byte| *byte == b',').next().unwrap_or_default();
            let more = [sql, b"; insert into t (v, c) values (@v, hex(@v)), (@v, collation(@v))"].concat();
            source.client().sql_bytes(&more).with_context(|| charset)?;
        }
    }
    source.sql("flush binary logs")?;
    let target = target("--skip-log-bin")?;
    replay_to(&source.binlogs()?, target.socket(), &options(CommitOrder::Strict))?;
    ends_equal(&source, &target)?;
    let has_odd = source.sql("select count(*) from d.t where v like 0x25E6BCA22325")?;
    ensure!(has_odd.trim() != "0", "no text is invalid in its character set");
    Ok(())
}

/// A server refuses one statement that changes system tables and other tables.
#[test]
fn rows_of_system_tables_are_applied_apart_from_other_rows() -> Result<()> {
    let source = source(&Launch::mysql(), &[])?;
    source.sql(
        "create database d; create table d.t (id int primary key); create table d.u (id int primary key)",
    )?;
    for id in 0..20 {
        source.sql(&format!(
            "insert into d.t values ({id}); \
             insert into mysql.help_keyword values ({}, 'word {id}'); \
             begin; insert into d.t values ({}); insert into mysql.time_zone values ({}, 'N'); commit",
            90_000 + id,
            100 + id,
            9_000 + id
        ))?;
    }
    source.sql("flush binary logs")?;
    for order in [CommitOrder::Strict, CommitOrder::Grouped, CommitOrder::Any] {
        for group_max in [1, 64] {
            let target = target("--skip-log-bin")?;
            let options = ReplayOptions { group_max, ..options(order) };
            replay_to(&source.binlogs()?, target.socket(), &options)
                .with_context(|| format!("{order:?}, groups of {group_max}"))?;
            ends_equal(&source, &target)?;
            for table in ["mysql.help_keyword", "mysql.time_zone"] {
                let count = format!("select count(*) from {table}");
                let (ours, theirs) = (target.sql(&count)?, source.sql(&count)?);
                ensure!(ours == theirs, "{table} has {ours} rows, on the source {theirs}");
            }
        }
    }
    Ok(())
}
