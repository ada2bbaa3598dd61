//! `bintide receive --archive`: closed logs are archived while the receiver runs, and kept until they are
//! archived.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::command::{ChildGuard, CommandOutput, wait_for};
use e2e::metrics::{number, scraped};
use e2e::program::bintide;
use e2e::relayed::{RelayProcess, relay_address};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use servers::{LinkOptions, ServerLink};
use tempfile::TempDir;
use testkit::{Launch, ObjectServer, TestServer, workspace_root};

/// Longest time that a stopped receiver may take, also if the archive does not answer.
const STOP_MAX: Duration = Duration::from_secs(20);

/// Receiver with an archive, in a directory of the test.
struct ArchivingReceiver<'s> {
    server: &'s TestServer,
    directory: TempDir,
    /// Location of the archive.
    archive: String,
    variables: Vec<(&'static str, String)>,
}

impl<'s> ArchivingReceiver<'s> {
    fn new(server: &'s TestServer) -> Result<Self> {
        let directory = TempDir::new()?;
        let archive = directory.path().join("archive").display().to_string();
        Ok(Self { server, directory, archive, variables: Vec::new() })
    }

    fn store(&self) -> std::path::PathBuf {
        self.directory.path().join("store")
    }

    fn command(&self, more: &[&str]) -> Result<Command> {
        let from = format!("mysql://root@127.0.0.1:{}/", self.server.port());
        let mut command = Command::new(bintide()?);
        command.env_clear().envs(self.variables.clone()).arg("receive").arg(self.store());
        command.args(["--from", &from, "--archive", &self.archive]).args(more);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(command)
    }

    fn receive_to_end(&self, more: &[&str]) -> Result<CommandOutput> {
        Ok(self.command(&[&["--stop-at-end"], more].concat())?.output()?.into())
    }

    fn archive_command(&self, arguments: &[&str]) -> Result<CommandOutput> {
        let mut command = Command::new(bintide()?);
        command.env_clear().envs(self.variables.clone()).arg("archive").args(arguments);
        Ok(command.output()?.into())
    }

    fn archived(&self) -> Result<Vec<String>> {
        let ran = self.archive_command(&["ls", &self.archive, "--json"])?;
        ensure!(ran.code == Some(0), "{}", ran.stderr);
        let document: Value = serde_json::from_str(&ran.stdout)?;
        let logs = document["logs"].as_array().context("no list of logs")?;
        Ok(logs.iter().filter_map(|log| log["log"].as_str().map(str::to_owned)).collect())
    }

    /// Returns the names in the index.
    fn stored(&self) -> Result<Vec<String>> {
        let index = fs::read_to_string(self.store().join("binlog.index"))?;
        Ok(index.lines().map(|line| line.trim_start_matches("./").to_owned()).collect())
    }

    /// Checks that the server's closed logs are restored from the archive.
    fn check_archive(&self) -> Result<()> {
        let logs = self.server.binlogs()?;
        let to = TempDir::new()?;
        let to_text = to.path().display().to_string();
        let ran = self.archive_command(&["restore", &self.archive, "--to", &to_text])?;
        ensure!(ran.code == Some(0), "{}", ran.stderr);
        let (_, closed) = logs.split_last().context("the server has no logs")?;
        for log in closed {
            let name = log.file_name().context("a log without a name")?;
            ensure!(fs::read(log)? == fs::read(to.path().join(name))?, "{} differs", log.display());
        }
        ensure!(fs::read_dir(to.path())?.count() == closed.len());
        Ok(())
    }
}

fn write_log(server: &TestServer) -> Result<()> {
    server.sql("insert into d.t (b) values (repeat('two', 10000)), ('three'); flush binary logs")?;
    Ok(())
}

fn source() -> Result<TestServer> {
    let server = Launch::mysql().start()?;
    server.sql("create database d; create table d.t (a int primary key auto_increment, b longtext)")?;
    write_log(&server)?;
    Ok(server)
}

/// Returns the address of the metrics, from the first message.
fn metrics_address(message: &str) -> Result<String> {
    let address = message.split("http://").nth(1).and_then(|rest| rest.split('/').next());
    Ok(address.context("no address of metrics")?.to_owned())
}

fn stop(child: ChildGuard) -> Result<String> {
    let began = Instant::now();
    kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
    let output = child.output()?;
    ensure!(
        output.status.success() && began.elapsed() < STOP_MAX,
        "{:?}, {:?}",
        output.status,
        began.elapsed()
    );
    Ok(String::from_utf8(output.stdout)?)
}

#[test]
fn closed_logs_are_archived_and_only_then_expire() -> Result<()> {
    let server = source()?;
    let receiver = ArchivingReceiver::new(&server)?;
    let more = ["--keep", "1K", "--metrics", "127.0.0.1:0", "--json"];
    let mut child = ChildGuard::start(&mut receiver.command(&more)?)?;
    let mut messages = BufReader::new(child.stderr.take().context("standard error is not piped")?).lines();
    let metrics = metrics_address(&messages.next().context("the command ended")??)?;
    for written in 2..=4 {
        write_log(&server)?;
        wait_for(|| {
            let logs = receiver.archived()?.len();
            ensure!(logs == written, "{logs} logs are archived");
            Ok(())
        })?;
    }
    let text = scraped(&metrics)?;
    ensure!(number(&text, "bintide_receive_logs_archived_total")? == 4.0, "{text}");
    ensure!(number(&text, "bintide_receive_logs_to_archive")? == 0.0, "{text}");
    ensure!(number(&text, "bintide_receive_archive_failing")? == 0.0, "{text}");
    // The archived logs expire when the next log begins.
    ensure!(receiver.stored()?.len() < 4, "{:?}", receiver.stored()?);
    let document: Value = serde_json::from_str(&stop(child)?)?;
    ensure!(document["logs_archived"] == 4 && document["archivings_failed"] == 0, "{document}");
    receiver.check_archive()
}

#[test]
fn logs_stay_while_the_object_store_does_not_answer() -> Result<()> {
    let server = source()?;
    let objects = ObjectServer::start()?;
    let mut receiver = ArchivingReceiver::new(&server)?;
    receiver.archive = objects.url("received");
    receiver.variables = objects.variables();
    let endpoint = receiver.variables.iter().position(|(name, _)| *name == "AWS_ENDPOINT_URL");
    let endpoint = endpoint.context("no endpoint")?;
    let address = std::mem::replace(&mut receiver.variables[endpoint].1, "http://127.0.0.1:1".to_owned());
    let more = ["--keep", "1K", "--metrics", "127.0.0.1:0"];
    let mut child = ChildGuard::start(&mut receiver.command(&more)?)?;
    let mut messages = BufReader::new(child.stderr.take().context("standard error is not piped")?).lines();
    let metrics = metrics_address(&messages.next().context("the command ended")??)?;
    for written in 2..=4 {
        write_log(&server)?;
        // Receiving continues.
        wait_for(|| {
            let logs = receiver.stored()?.len();
            ensure!(logs == written + 1, "{logs} logs are stored");
            Ok(())
        })?;
    }
    wait_for(|| {
        let text = scraped(&metrics)?;
        ensure!(number(&text, "bintide_receive_logs_to_archive")? >= 1.0, "{text}");
        Ok(())
    })?;
    stop(child)?;
    ensure!(receiver.stored()?.len() == 5, "a log that is not archived was deleted");
    receiver.variables[endpoint].1 = address;
    let ran = receiver.receive_to_end(&["--keep", "1K"])?;
    ensure!(ran.code == Some(0) && ran.stdout.contains("; 4 logs archived"), "{} {}", ran.stdout, ran.stderr);
    receiver.check_archive()
}

#[test]
fn a_log_that_cannot_be_archived_stays_and_is_reported() -> Result<()> {
    let server = source()?;
    let receiver = ArchivingReceiver::new(&server)?;
    let other = receiver.directory.path().join("binlog.000001");
    fs::copy(workspace_root().join("samples/types.binlog"), &other)?;
    let ran = receiver.archive_command(&["--to", &receiver.archive, &other.display().to_string()])?;
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    write_log(&server)?;
    let ran = receiver.receive_to_end(&["--keep", "1K"])?;
    let expected = "is already archived with different content: choose another prefix";
    ensure!(ran.code == Some(1) && ran.stderr.contains(expected), "{:?} {}", ran.code, ran.stderr);
    ensure!(receiver.stored()?.len() == 3, "a log that is not archived was deleted");
    Ok(())
}

#[test]
fn an_archive_needs_a_location_of_its_own() -> Result<()> {
    let directory = TempDir::new()?;
    let check = |arguments: &[&str], expected: &str| -> Result<()> {
        let mut command = Command::new(bintide()?);
        command.current_dir(directory.path()).env_clear().args(["receive", "store"]).args(arguments);
        let ran = CommandOutput::from(command.args(["--from", "mysql://root@127.0.0.1:1/"]).output()?);
        ensure!(ran.code == Some(2) && ran.stderr.contains(expected), "{:?} {}", ran.code, ran.stderr);
        Ok(())
    };
    fs::create_dir(directory.path().join("store"))?;
    check(&["--archive", "./store"], "cannot be the archive of its own logs")?;
    check(&["--archive", "other", "--compress", "3"], "exclude each other")?;
    check(&["--archive", "ftp://x/y"], "expected s3://, gs://, az://, or a directory")?;
    ensure!(!Path::new("other").exists());
    Ok(())
}

/// `bintide relay --archive` archives as `receive` does, and `PURGE` deletes only archived logs.
#[test]
fn relays_archive_before_they_delete() -> Result<()> {
    let server = source()?;
    let receiver = ArchivingReceiver::new(&server)?;
    let from = format!("mysql://root@127.0.0.1:{}/", server.port());
    let purge = |relay: &RelayProcess, log: &str| -> Result<String> {
        let mut link = ServerLink::open(&relay_address(relay.port), &LinkOptions::default())?;
        let purged = link.query(&format!("PURGE BINARY LOGS TO '{log}'"));
        Ok(purged.map_or_else(|error| error.to_string(), |_| String::new()))
    };
    let archive = receiver.archive.clone();
    let options = ["--from", &from, "--archive", &archive, "--keep", "1K"];
    let mut relay = RelayProcess::start(&receiver.store(), &options)?;
    for written in 2..=4 {
        write_log(&server)?;
        wait_for(|| {
            let logs = receiver.archived()?.len();
            ensure!(logs == written, "{logs} logs are archived");
            Ok(())
        })?;
    }
    ensure!(receiver.stored()?.len() < 4, "{:?}", receiver.stored()?);
    relay.stop()?;
    receiver.check_archive()?;
    // An archive with other logs of the same names: nothing is archived, and all logs are kept.
    let before = receiver.stored()?;
    let other = receiver.directory.path().join("other").display().to_string();
    for name in &before {
        let log = receiver.directory.path().join(name);
        fs::copy(workspace_root().join("samples/types.binlog"), &log)?;
        let ran = receiver.archive_command(&["--to", &other, &log.display().to_string()])?;
        ensure!(ran.code == Some(0), "{}", ran.stderr);
    }
    let options = ["--from", &from, "--archive", &other, "--keep", "1K"];
    relay = RelayProcess::start(&receiver.store(), &options)?;
    write_log(&server)?;
    wait_for(|| {
        let stored = receiver.stored()?;
        ensure!(stored.len() == before.len() + 1, "{stored:?}");
        Ok(())
    })?;
    let newest = receiver.stored()?.pop().context("no logs")?;
    let refused = purge(&relay, &newest)?;
    ensure!(refused.contains("is not archived yet"), "{refused}");
    ensure!(receiver.stored()?.len() == before.len() + 1);
    Ok(())
}
