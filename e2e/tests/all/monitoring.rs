//! Metrics, alerts and the dashboard, checked with promtool.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::command::ChildGuard;
use e2e::metrics::{get, scraped};
use e2e::program::bintide;
use e2e::relayed::index_of;
use regex::Regex;
use tempfile::TempDir;
use testkit::{Launch, PackageHome, TestPackage, TestServer, free_port, wait_until};

/// Files that name metrics.
const FILES: [&str; 3] =
    ["prometheus/bintide.rules.yml", "prometheus/bintide.rules.test.yml", "grafana/bintide.json"];

/// Runs promtool, which must succeed without a warning about its input.
fn check(promtool: &PackageHome, arguments: &[&str], input: &str) -> Result<()> {
    let ran = promtool.run("promtool", arguments, input.as_bytes())?;
    let [stdout, stderr] = [&ran.stdout, &ran.stderr].map(|text| String::from_utf8_lossy(text));
    ensure!(ran.status.success() && stderr.is_empty(), "{arguments:?}: {stdout}{stderr}\n{input}");
    Ok(())
}

fn contrib(name: &str) -> String {
    testkit::workspace_root().join("contrib").join(name).display().to_string()
}

#[test]
fn alerts_are_valid_and_fire() -> Result<()> {
    let promtool = PackageHome::find(TestPackage::Promtool)?;
    check(&promtool, &["check", "rules", &contrib(FILES[0])], "")?;
    check(&promtool, &["test", "rules", &contrib(FILES[1])], "")
}

/// Starts a command with metrics; returns them once it is ready.
fn metrics_of(arguments: &[&str]) -> Result<String> {
    let port = free_port()?;
    let mut command = Command::new(bintide()?);
    command.env_clear().args(arguments).arg(format!("--metrics=127.0.0.1:{port}"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _running = ChildGuard::start(&mut command)?;
    wait_until("readiness", || Ok(get(port, "/readyz").is_ok_and(|answer| answer.status == 200)))?;
    scraped(&format!("127.0.0.1:{port}"))
}

/// Returns the metrics of each command that has them, while it follows a server.
fn all_metrics(server: &TestServer, directory: &Path) -> Result<Vec<String>> {
    let path = |name: &str| directory.join(name).display().to_string();
    let (port, relay) = (server.port(), free_port()?);
    let from = format!("mysql://root@127.0.0.1:{port}/");
    let (sqlite, port_option) = (format!("sqlite:{}", path("copy.db")), format!("--port={port}"));
    let listen = format!("--listen=127.0.0.1:{relay}");
    let index = index_of(server)?.display().to_string();
    let data = server.datadir().display().to_string();
    let commands: [&[&str]; 6] = [
        &["receive", &path("received"), "--from", &from],
        &["relay", &path("relayed"), "--from", &from, &listen],
        &["replay", "--follow", &index, "--to", &sqlite],
        &["stream", "--format", "maxwell", "--from", &from, "--out", &path("changes")],
        &["archive", &index, "--follow", "--to", &path("archive")],
        &["warm", "--force", "--host=127.0.0.1", &port_option, "--relay-logs", &data],
    ];
    commands.iter().map(|command| metrics_of(command).with_context(|| command[0].to_owned())).collect()
}

/// Metrics follow Prometheus' conventions, and alerts and the dashboard name only metrics that exist.
#[test]
fn metrics_follow_the_conventions() -> Result<()> {
    let promtool = PackageHome::find(TestPackage::Promtool)?;
    let server = Launch::mysql().options(["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]).start()?;
    server.sql("create database d; create table d.t (a int primary key); insert into d.t values (1)")?;
    let directory = TempDir::new()?;
    for text in all_metrics(&server, directory.path())? {
        check(&promtool, &["check", "metrics"], &text)?;
    }
    Ok(())
}

#[test]
fn alerts_and_dashboard_name_existing_metrics() -> Result<()> {
    let sources = testkit::workspace_root().join("crates/cli/src/commands");
    let mut known = BTreeSet::new();
    let name = Regex::new("\"(bintide_[a-z_]+)\"")?;
    add_names(&sources, &name, &mut known)?;
    add_names(&sources.with_file_name("metrics_registry.rs"), &name, &mut known)?;
    let used = Regex::new("bintide_[a-z_]+")?;
    for file in FILES {
        let text = fs::read_to_string(contrib(file))?;
        let mut count = 0;
        for found in used.find_iter(&text) {
            let metric = found.as_str().strip_suffix("_bucket").unwrap_or(found.as_str());
            ensure!(known.contains(metric), "{file} names {metric}, which no command has");
            count += 1;
        }
        ensure!(count > 0, "{file} names no metric");
    }
    serde_json::from_str::<serde_json::Value>(&fs::read_to_string(contrib(FILES[2]))?)?;
    Ok(())
}

/// Adds the names in a file, or in all files of a directory.
fn add_names(path: &Path, name: &Regex, known: &mut BTreeSet<String>) -> Result<()> {
    if path.is_dir() {
        for entry in fs::read_dir(path)? {
            add_names(&entry?.path(), name, known)?;
        }
        return Ok(());
    }
    let text = fs::read_to_string(path)?;
    known.extend(name.captures_iter(&text).map(|found| found[1].to_owned()));
    Ok(())
}
