//! Statements that failed, were rolled back or were interrupted on the source, and files whose rows the target skips.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::command::replay;
use e2e::replays::target;
use tempfile::TempDir;
use testkit::{Launch, TestServer};

/// Statement to whose event the tests add an error code.
const FAILED: &str = "insert into d.t values (2, 'failed')";

#[test]
fn interrupted_statements_stop_the_replay() -> Result<()> {
    let (source, directory) = (source("engine = MyISAM")?, TempDir::new()?);
    let culprit = format!("{}:4", source.sql("select @@server_uuid")?.trim());
    for code in [1053, 1158, 1160, 1184, 1317] {
        let (log, target) = (log_with_error(&source, code, directory.path())?, target("--skip-log-bin")?);
        let ran = replay(std::slice::from_ref(&log), &target, &[])?;
        let reason = format!("was interrupted on the source (error {code})");
        ensure!(ran.code == Some(1) && ran.stderr.contains(&reason), "{code}: {ran:?}");
        ensure!(ran.stderr.contains(&culprit), "{code}: {ran:?}");
        ensure!(ids(&target)? == "1", "{code}: {}", ids(&target)?);
        let ran = replay(&[log], &target, &["--exclude-gtids", &culprit])?;
        ensure!(ran.code == Some(0) && ids(&target)? == "1,3", "{code}: {ran:?}");
    }
    Ok(())
}

#[test]
fn statements_that_lost_a_lock_wait_have_no_effect() -> Result<()> {
    let (source, directory) = (source("")?, TempDir::new()?);
    for code in [1205, 1213] {
        let (log, target) = (log_with_error(&source, code, directory.path())?, target("--skip-log-bin")?);
        let ran = replay(&[log], &target, &[])?;
        ensure!(ran.code == Some(0) && ids(&target)? == "1,3", "{code}: {ran:?}");
    }
    Ok(())
}

#[test]
fn other_errors_must_occur_on_the_target_too() -> Result<()> {
    let (source, directory) = (source("")?, TempDir::new()?);
    let (log, target) = (log_with_error(&source, 1062, directory.path())?, target("--skip-log-bin")?);
    let ran = replay(std::slice::from_ref(&log), &target, &[])?;
    let reason = "failed with error 1062 on the source, but succeeded on the target";
    ensure!(ran.code == Some(1) && ran.stderr.contains(reason) && ids(&target)? == "1", "{ran:?}");
    target.sql("set sql_log_bin = 0; insert into d.t values (2, 'earlier')")?;
    let ran = replay(&[log], &target, &[])?;
    ensure!(ran.code == Some(0) && ids(&target)? == "1,2,3", "{ran:?}");
    Ok(())
}

#[test]
fn rows_of_files_are_not_skipped_silently() -> Result<()> {
    let directory = TempDir::new()?;
    let file = directory.path().join("rows.tsv");
    fs::write(&file, "1\tone\n2\ttwo\n3\tthree\n")?;
    let define = "create database d; create table d.t (id int primary key, a varchar(20))";
    for (clause, is_refused) in [("", true), (" ignore", false), (" replace", false)] {
        let source = Launch::mysql().options(["--server-id=1", "--binlog-format=STATEMENT"]).start()?;
        source.sql(&format!("{define}; flush binary logs"))?;
        source.sql(&format!(
            "load data infile '{}'{clause} into table d.t; flush binary logs",
            file.display()
        ))?;
        let target = target("--skip-log-bin")?;
        target.sql(&format!("{define}; insert into d.t values (2, 'other')"))?;
        let ran = replay(&source.binlogs()?[1..2], &target, &["--allow-gap"])?;
        let expected = match is_refused {
            true => (Some(1), "2"),
            false => (Some(0), "1,2,3"),
        };
        ensure!((ran.code, ids(&target)?.as_str()) == expected, "{clause}: {ran:?}");
        ensure!(!is_refused || ran.stderr.contains("cannot store 1 of them"), "{ran:?}");
    }
    Ok(())
}

/// Starts a source with a table of this engine, and three transactions.
fn source(engine: &str) -> Result<TestServer> {
    let options = ["--server-id=1", "--binlog-format=STATEMENT", "--binlog-checksum=NONE"];
    let source = Launch::mysql().options(options).start()?;
    source.sql(&format!(
        "create database d; create table d.t (id int primary key, a varchar(20)) {engine};
         insert into d.t values (1, 'first'); {FAILED}; insert into d.t values (3, 'last'); flush binary logs"
    ))?;
    Ok(source)
}

/// Writes a copy of the first log in which the failed statement has this error code.
fn log_with_error(source: &TestServer, code: u16, directory: &Path) -> Result<PathBuf> {
    // size  field of a query event
    //   19  header: its size is at 9
    //    4  thread_id
    //    4  exec_time
    //    1  size of the database's name
    //    2  error_code
    const SIZE_AT: usize = 9;
    const ERROR_CODE_AT: usize = 28;
    let log = source.binlogs()?.into_iter().next().context("no log")?;
    let mut bytes = fs::read(&log)?;
    let text = bytes.windows(FAILED.len()).position(|window| window == FAILED.as_bytes());
    let text = text.context("the log lacks the statement")?;
    let mut event = binlog::MAGIC.len();
    loop {
        let size = bytes[event + SIZE_AT..][..4].try_into()?;
        let end = event + u32::from_le_bytes(size) as usize;
        if text < end {
            break;
        }
        event = end;
    }
    bytes[event + ERROR_CODE_AT..][..2].copy_from_slice(&code.to_le_bytes());
    let copy = directory.join(log.file_name().context("a log has a name")?);
    fs::write(&copy, bytes)?;
    Ok(copy)
}

fn ids(target: &TestServer) -> Result<String> {
    Ok(target.sql("select group_concat(id order by id) from d.t")?.trim().to_owned())
}
