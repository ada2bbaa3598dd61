//! The event table of `bintide dump --events`, compared row for row with SHOW BINLOG EVENTS of real servers: for every
//! sample, and for logs of random SQL.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::workload;
use list::{ListFormat, ListSettings, ListSource, list};
use tempfile::TempDir;
use testkit::{Launch, TestServer};

#[test]
fn samples_of_mysql() -> Result<()> {
    let logs = sample_logs()?.into_iter().filter(|path| !path.to_string_lossy().contains("mariadb"));
    show_and_compare(&Launch::mysql(), &logs.collect::<Vec<_>>())
}

#[test]
fn samples_of_mariadb() -> Result<()> {
    let logs = sample_logs()?.into_iter().filter(|path| path.to_string_lossy().contains("mariadb"));
    show_and_compare(&Launch::mariadb(), &logs.collect::<Vec<_>>())
}

#[test]
fn logs_of_random_sql() -> Result<()> {
    let directory = TempDir::new()?;
    for seed in [11, 12] {
        workload::record(seed, &format!("random-{seed}"), directory.path())?;
    }
    let logs = logs_below(directory.path())?;
    ensure!(!logs.is_empty(), "the workload wrote no logs");
    show_and_compare(&Launch::mysql(), &logs)
}

/// Gives the logs to a server as its own, and compares its SHOW BINLOG EVENTS with ours.
fn show_and_compare(launch: &Launch, logs: &[PathBuf]) -> Result<()> {
    let directory = TempDir::new()?;
    let mut copies = Vec::new();
    for (number, log) in logs.iter().enumerate() {
        let copy = directory.path().join(format!("shown.{:06}", number + 1));
        fs::copy(log, &copy).with_context(|| format!("copy {}", log.display()))?;
        copies.push(copy);
    }
    let index: String = copies.iter().map(|copy| format!("{}\n", copy.display())).collect();
    fs::write(directory.path().join("shown.index"), index)?;
    let server =
        launch.clone().option(format!("--log-bin={}", directory.path().join("shown").display())).start()?;
    for (log, copy) in logs.iter().zip(&copies) {
        compare(&server, copy).with_context(|| format!("{}", log.display()))?;
    }
    Ok(())
}

fn compare(server: &TestServer, copy: &Path) -> Result<()> {
    let name = copy.file_name().context("no name")?.to_string_lossy();
    let output = server
        .client()
        .command()?
        .args(["--batch", "--execute"])
        .arg(format!("SHOW BINLOG EVENTS IN '{name}'"))
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut ours = Vec::new();
    list(&ListSettings::new(ListFormat::Events, vec![ListSource::File(copy.to_owned())]), &mut ours)?;
    let (ours, theirs) = (String::from_utf8_lossy(&ours), String::from_utf8_lossy(&output.stdout));
    for (ours, theirs) in ours.lines().zip(theirs.lines()) {
        ensure!(ours == theirs, "\nours:   {ours}\ntheirs: {theirs}");
    }
    ensure!(ours == theirs, "ours has {} rows, theirs {}", ours.lines().count(), theirs.lines().count());
    Ok(())
}

/// Returns the samples that are complete and not encrypted: a server refuses to show the others.
fn sample_logs() -> Result<Vec<PathBuf>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().context("the crate is not in a workspace")?;
    let mut logs = logs_below(&root.join("samples"))?;
    logs.retain(|path| !path.ends_with("torn.binlog"));
    ensure!(logs.len() > 60, "only {} samples", logs.len());
    Ok(logs)
}

fn logs_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut logs = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        match path.is_dir() {
            true => logs.extend(logs_below(&path)?),
            false if fs::read(&path)?.starts_with(b"\xfebin") => logs.push(path),
            false => {}
        }
    }
    logs.sort();
    Ok(logs)
}
