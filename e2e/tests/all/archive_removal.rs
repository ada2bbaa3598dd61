//! `bintide archive --then-remove`, `--follow` and `prune`: only logs that are in the archive, or older than the limit,
//! are deleted.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::command::{ChildGuard, CommandOutput, wait_for};
use e2e::metrics::{get, number, scraped};
use e2e::program::bintide;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use testkit::{free_port, workspace_root};

/// Names of the logs of a store in the tests.
const NAMES: [&str; 5] =
    ["binlog.000001", "binlog.000002", "binlog.000003", "binlog.000004", "binlog.000005"];

/// Store of `bintide receive` with an archive beside it.
struct ArchivedStore {
    directory: TempDir,
}

impl ArchivedStore {
    /// Creates a store with these logs, all of the same content. `mark` is the file by which bintide recognizes its
    /// stores.
    fn create(names: &[&str], mark: Option<&str>) -> Result<Self> {
        let made = Self { directory: tempfile::tempdir()? };
        fs::create_dir(made.store())?;
        for name in names {
            fs::copy(workspace_root().join("samples/types.binlog"), made.store().join(name))?;
        }
        if let Some(mark) = mark {
            fs::write(made.store().join(mark), "")?;
            made.write_index(names)?;
        }
        Ok(made)
    }

    fn store(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn write_index(&self, names: &[&str]) -> Result<()> {
        let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
        Ok(fs::write(self.store().join("binlog.index"), lines)?)
    }

    /// Returns the command in the directory of the store, with the archive as its last argument.
    fn command(&self, arguments: &[&str]) -> Result<Command> {
        let mut command = Command::new(bintide()?);
        command.current_dir(self.store()).env_clear().arg("archive").args(arguments).arg("../archive");
        Ok(command)
    }

    fn run(&self, arguments: &[&str]) -> Result<CommandOutput> {
        Ok(self.command(arguments)?.output()?.into())
    }

    /// Returns the logs in the store, sorted.
    fn logs(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.store())? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.retain(|name| name.rsplit('.').next().is_some_and(|end| end.parse::<u32>().is_ok()));
        names.sort();
        Ok(names)
    }

    fn archived(&self) -> Result<Vec<String>> {
        let ran = self.run(&["ls", "--json"])?;
        ensure!(ran.code == Some(0), "{}", ran.stderr);
        let document: Value = serde_json::from_str(&ran.stdout)?;
        let logs = document["logs"].as_array().context("no list of logs")?;
        Ok(logs.iter().filter_map(|log| log["log"].as_str().map(str::to_owned)).collect())
    }
}

fn expect_logs(found: &[String], expected: &[&str]) -> Result<()> {
    ensure!(found == expected, "{found:?}; expected {expected:?}");
    Ok(())
}

fn index_of(store: &Path) -> Result<Vec<String>> {
    Ok(fs::read_to_string(store.join("binlog.index"))?.lines().map(str::to_owned).collect())
}

#[test]
fn logs_that_are_not_archived_stay() -> Result<()> {
    let store = ArchivedStore::create(&NAMES, Some("bintide.lock"))?;
    let ran = store.run(&["binlog.000002", "binlog.000004", "--then-remove", "--to"])?;
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    ensure!(store.logs()? == NAMES, "{:?}", store.logs()?);
    // Log 1 is archived now; 1 and 2 are the only ones without an older log that is not archived. The directory has
    // later logs, also of the last one given.
    let ran = store.run(&["binlog.000001", "binlog.000002", "--then-remove", "--to"])?;
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    ensure!(store.logs()? == NAMES[2..], "{:?}", store.logs()?);
    ensure!(store.archived()? == ["binlog.000001", "binlog.000002", "binlog.000004"]);
    let ran = store.run(&[".", "--then-remove", "--to"])?;
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    let deleted: Vec<_> = ran.stderr.lines().filter_map(|line| line.strip_suffix(": deleted")).collect();
    ensure!(deleted == NAMES[2..4].iter().map(|name| format!("./{name}")).collect::<Vec<_>>(), "{deleted:?}");
    ensure!(store.logs()? == NAMES[4..] && index_of(&store.store())? == NAMES[4..], "{:?}", store.logs()?);
    ensure!(store.archived()? == NAMES, "{:?}", store.archived()?);
    Ok(())
}

#[test]
fn logs_of_an_index_that_bintide_does_not_maintain_stay() -> Result<()> {
    let store = ArchivedStore::create(&NAMES, Some("other.mark"))?;
    let ran = store.run(&["binlog.000001", "binlog.000002", "--then-remove", "--to"])?;
    ensure!(ran.code == Some(2) && ran.stderr.contains("has an index file"), "{:?} {}", ran.code, ran.stderr);
    ensure!(store.logs()? == NAMES);
    Ok(())
}

#[test]
fn logs_of_other_servers_do_not_show_that_a_log_is_closed() -> Result<()> {
    let store = ArchivedStore::create(&["binlog.000003", "binlog.000007", "other.000001"], None)?;
    let arguments = ["binlog.000007", "binlog.000003", "other.000001", "--then-remove", "--to"];
    let ran = store.run(&arguments)?;
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    // All are closed by their last event. The first log has a later one of its server in the directory.
    ensure!(store.archived()?.len() == 3, "{:?}", store.archived()?);
    ensure!(store.logs()? == ["binlog.000007", "other.000001"], "{:?}", store.logs()?);
    let kept = ran.stderr.matches("is the newest log of its directory, and is not deleted").count();
    ensure!(kept == 2, "{}", ran.stderr);
    Ok(())
}

/// The segment of an earlier run is read back before the log is deleted, also if change tables are added now.
#[test]
fn logs_with_a_damaged_segment_stay() -> Result<()> {
    let store = ArchivedStore::create(&NAMES[..2], None)?;
    let ran = store.run(&[NAMES[0], "--to"])?;
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    let segments = store.directory.path().join("archive/segments");
    let segment = fs::read_dir(&segments)?.next().context("no segment")??.path();
    let mut bytes = fs::read(&segment)?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&segment, bytes)?;
    for options in [&[][..], &["--change-tables"]] {
        let ran = store.run(&[&[NAMES[0], "--then-remove"], options, &["--to"]].concat())?;
        ensure!(ran.code == Some(1) && ran.stderr.contains("damaged in the block"), "{ran:?}");
        expect_logs(&store.logs()?, &NAMES[..2])?;
    }
    Ok(())
}

#[test]
fn empty_logs_before_others_are_left_out() -> Result<()> {
    let store = ArchivedStore::create(&NAMES[..4], None)?;
    fs::write(store.store().join(NAMES[1]), "")?;
    fs::write(store.store().join(NAMES[2]), b"\xfebin")?;
    let ran = store.run(&[".", "--to"])?;
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    ensure!(ran.stderr.matches("has no events, and is not archived").count() == 2, "{}", ran.stderr);
    expect_logs(&store.archived()?, &[NAMES[0], NAMES[3]])
}

/// After RESET BINARY LOGS, a server writes other logs of the same names.
#[test]
fn replaced_logs_are_not_taken_for_archived() -> Result<()> {
    let store = ArchivedStore::create(&NAMES[..2], None)?;
    let mut follower = store.command(&[".", "--follow", "--to"])?;
    let follower = ChildGuard::start(follower.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    wait_for(|| expect_logs(&store.archived()?, &NAMES[..2]))?;
    fs::copy(workspace_root().join("samples/json.binlog"), store.store().join(NAMES[0]))?;
    let output = follower.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1) && text.contains("is already archived with"), "{text}");
    Ok(())
}

#[test]
fn followed_logs_are_archived_as_they_are_closed() -> Result<()> {
    let store = ArchivedStore::create(&NAMES[..2], Some("bintide.lock"))?;
    fs::copy(workspace_root().join("samples/in-use.binlog"), store.store().join(NAMES[2]))?;
    store.write_index(&NAMES[..3])?;
    let mut follower = store.command(&[".", "--follow", "--then-remove", "--to"])?;
    let mut follower = follower.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    wait_for(|| expect_logs(&store.archived()?, &NAMES[..2]))?;
    wait_for(|| expect_logs(&store.logs()?, &NAMES[2..3]))?;
    // A log that its server has just created has no events.
    fs::write(store.store().join(NAMES[3]), b"\xfebin")?;
    store.write_index(&NAMES[2..4])?;
    wait_for(|| expect_logs(&store.archived()?, &NAMES[..3]))?;
    fs::copy(workspace_root().join("samples/types.binlog"), store.store().join(NAMES[3]))?;
    wait_for(|| expect_logs(&store.archived()?, &NAMES[..4]))?;
    kill(Pid::from_raw(follower.id().try_into()?), Signal::SIGTERM)?;
    ensure!(follower.wait()?.success());
    // The newest log is kept.
    ensure!(store.logs()? == NAMES[3..4], "{:?}", store.logs()?);
    let output = follower.wait_with_output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(text.ends_with("; 0 already in the archive\n"), "{text}");
    Ok(())
}

/// A failure of the archive does not end `--follow`, and is shown by `/readyz` and the metrics.
#[test]
fn followed_logs_wait_while_the_archive_fails() -> Result<()> {
    let store = ArchivedStore::create(&NAMES[..2], Some("bintide.lock"))?;
    let archive = store.directory.path().join("archive");
    fs::create_dir(&archive)?;
    let obstacle = archive.join("segments");
    fs::write(&obstacle, "")?;
    let port = free_port()?;
    let metrics = format!("--metrics=127.0.0.1:{port}");
    let mut follower = store.command(&[".", "--follow", &metrics, "--to"])?;
    let follower = ChildGuard::start(follower.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
    let values = |names: [&str; 3]| -> Result<Vec<f64>> {
        let text = scraped(&format!("127.0.0.1:{port}"))?;
        names.iter().map(|name| number(&text, &format!("bintide_archive_{name}"))).collect()
    };
    let expect_values = |names, expected: &[f64]| -> Result<()> {
        let found = values(names)?;
        ensure!(found == expected, "{found:?}; expected {expected:?}");
        Ok(())
    };
    wait_for(|| expect_values(["failing", "logs_to_archive", "logs_archived_total"], &[1.0, 1.0, 0.0]))?;
    let answer = get(port, "/readyz")?;
    ensure!(answer.status == 503, "{answer:?}");
    fs::remove_file(&obstacle)?;
    wait_for(|| expect_values(["failing", "logs_to_archive", "logs_archived_total"], &[0.0, 0.0, 2.0]))?;
    let answer = get(port, "/readyz")?;
    ensure!(answer.status == 200, "{answer:?}");
    kill(Pid::from_raw(follower.id().try_into()?), Signal::SIGTERM)?;
    let output = follower.output()?;
    let text = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && text.contains("; retrying in 1"), "{text}");
    // A log of the same name and other contents ends the command.
    fs::copy(workspace_root().join("samples/json.binlog"), store.store().join(NAMES[0]))?;
    let ran = store.run(&[".", "--follow", "--to"])?;
    ensure!(ran.code == Some(1) && ran.stderr.contains("is already archived with"), "{ran:?}");
    expect_logs(&store.archived()?, &NAMES[..2])
}

#[test]
fn pruning_keeps_the_logs_of_the_newest_base_name() -> Result<()> {
    // mysql-bin is the base name of the server before an upgrade; its logs are the older ones.
    let store = ArchivedStore::create(&["binlog.000001", "binlog.000002"], None)?;
    for name in ["mysql-bin.000008", "mysql-bin.000009"] {
        fs::copy(workspace_root().join("samples/json.binlog"), store.store().join(name))?;
    }
    let names = ["mysql-bin.000008", "mysql-bin.000009", "binlog.000001", "binlog.000002"];
    let ran = store.run(&[names[0], names[1], names[2], names[3], "--to"])?;
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    let time_of = |log: &str| -> Result<u64> {
        let ran = store.run(&["ls", "--json"])?;
        let document: Value = serde_json::from_str(&ran.stdout)?;
        let logs = document["logs"].as_array().context("no list of logs")?;
        let found = logs.iter().find(|found| found["log"] == log).context("no such log")?;
        found["times"][0].as_u64().context("no times")
    };
    let (binlog, mysql_bin) = (time_of("binlog.000001")?, time_of("mysql-bin.000008")?);
    ensure!(binlog != mysql_bin, "the test needs logs of different times");
    let is_binlog_older = binlog < mysql_bin;
    let newest = if is_binlog_older { "mysql-bin.000009" } else { "binlog.000002" };
    let ran = store.run(&["prune", "--keep", "1k", "--json"])?;
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    ensure!(store.archived()? == [newest], "{:?}", store.archived()?);
    Ok(())
}
