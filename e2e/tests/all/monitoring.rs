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
use testkit::{CutMode, Launch, PackageHome, Proxy, TestPackage, TestServer, free_port, wait_until};

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

/// Checks that a command that follows a server is not ready while a silent network hides events that are older than
/// `--ready-lag`, and is ready once it has received them all. The command's other arguments follow `--from ADDRESS`.
fn check_hidden_lag(server: &TestServer, command: &[&str], lag: &str) -> Result<()> {
    // More than the handshake and the queries at the start, less than all events.
    const SHOWN_BYTES: u64 = 12_000;
    let (proxy, port) = (Proxy::to(server.port())?, free_port()?);
    proxy.cut_after(SHOWN_BYTES, CutMode::Silence);
    let from = format!("mysql://root@127.0.0.1:{}/?timeout=4&ssl-mode=DISABLED", proxy.port());
    let mut process = Command::new(bintide()?);
    process.env_clear().args(command).args(["--from", &from, "--ready-lag=1"]);
    process.arg(format!("--metrics=127.0.0.1:{port}"));
    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let _running = ChildGuard::start(&mut process)?;
    wait_until(&format!("{}: the cut", command[0]), || Ok(proxy.is_cut()))?;
    let address = format!("127.0.0.1:{port}");
    let behind = Regex::new(&format!("\n{lag} [1-9]"))?;
    wait_until(&format!("{}: the lag", command[0]), || {
        Ok(scraped(&address).is_ok_and(|text| behind.is_match(&text)))
    })?;
    let answer = get(port, "/readyz")?;
    let why = String::from_utf8_lossy(&answer.body);
    ensure!(answer.status == 503 && why.contains("the lag is"), "{command:?}: {why}");
    proxy.mend();
    wait_until("readiness", || Ok(get(port, "/readyz").is_ok_and(|answer| answer.status == 200)))?;
    let text = scraped(&address)?;
    ensure!(Regex::new(&format!("\n{lag} 0(\\.0)?\n"))?.is_match(&text), "{command:?}: {text}");
    // The server's events no longer arrive, and nor do its heartbeats.
    proxy.cut(CutMode::Silence);
    wait_until(&format!("{}: the lag of a silent network", command[0]), || {
        Ok(scraped(&address).is_ok_and(|text| behind.is_match(&text)))
    })
}

/// A source whose next events are delayed is not taken for a source without newer events.
#[test]
fn a_silent_network_hides_no_lag() -> Result<()> {
    let server = Launch::mysql().options(["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]).start()?;
    let inserts: String = (0..100).map(|number| format!("insert into d.t values ({number});")).collect();
    let timestamp = "set timestamp = unix_timestamp() - 1000";
    server
        .sql(&format!("{timestamp}; create database d; create table d.t (a int primary key); {inserts}"))?;
    let directory = TempDir::new()?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    let (received, changes, relay) = (path("received"), path("changes"), path("relay"));
    let sqlite = format!("sqlite:{}", path("copy.db"));
    check_hidden_lag(&server, &["receive", &received], "bintide_receive_lag_seconds")?;
    let stream = ["stream", "--format", "maxwell", "--out", &changes];
    check_hidden_lag(&server, &stream, "bintide_stream_lag_seconds")?;
    let replay = ["replay", "--relay", &relay, "--to", &sqlite];
    check_hidden_lag(&server, &replay, "bintide_replay_lag_seconds")
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
