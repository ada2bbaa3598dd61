//! `bintide top` on the logs of a running server, and on processes; in a pseudo terminal, and as a document.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use anyhow::{Context, Result, ensure};
use e2e::command::ChildGuard;
use e2e::json_schema::check_document;
use e2e::metrics::get;
use e2e::program::bintide;
use e2e::relayed::index_of;
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Launch, TestServer, free_port, wait_until};

fn server() -> Result<TestServer> {
    let server = Launch::mysql().option("--gtid-mode=ON").option("--enforce-gtid-consistency=ON").start()?;
    server.sql("create database shop; create table shop.orders (id int primary key, note varchar(500))")?;
    server.sql("create table shop.items like shop.orders")?;
    server
        .sql("insert into shop.orders values (1, 'a'), (2, 'b'); insert into shop.items values (1, 'c')")?;
    server.sql(
        "set binlog_transaction_compression = on; insert into shop.orders values (3, repeat('x', 500))",
    )?;
    Ok(server)
}

/// Returns the document that `top --once` prints.
fn document(arguments: &[&str]) -> Result<Value> {
    let output =
        Command::new(bintide()?).env_clear().args(["top", "--once", "--json"]).args(arguments).output()?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    let document = serde_json::from_slice(&output.stdout)?;
    check_document("top", &document)?;
    Ok(document)
}

#[test]
fn the_activity_of_a_store_is_counted() -> Result<()> {
    let server = server()?;
    let index = index_of(&server)?.display().to_string();
    let found = document(&[&index, "--window=600"])?;
    let store = &found["store"];
    let tables = store["tables"].as_array().context("no tables")?;
    let rows = |name: &str| {
        let table = tables.iter().find(|table| table["table"] == name);
        table.and_then(|table| table["rows_per_second"].as_f64()).map(|rate| (rate * 600.0).round())
    };
    ensure!(rows("shop.orders") == Some(3.0) && rows("shop.items") == Some(1.0), "{found:#}");
    let transactions = store["transactions_per_second"].as_f64().map(|rate| (rate * 600.0).round());
    ensure!(transactions == Some(6.0), "{found:#}");
    let largest = store["largest"].as_array().context("no transactions")?;
    let with_rows: Vec<u64> = largest.iter().filter_map(|large| large["rows"].as_u64()).collect();
    ensure!(with_rows.iter().sum::<u64>() == 4 && largest.len() == 6, "{found:#}");
    let end = server.sql("show binary log status")?;
    let end: u64 = end.split_whitespace().nth(1).context("no position")?.parse()?;
    ensure!(store["position"] == end && store["is_behind"] == false, "{end}: {found:#}");
    ensure!(found["processes"].as_array().is_some_and(Vec::is_empty), "{found:#}");
    // The transactions of the window are in an earlier log now.
    server.sql("flush binary logs")?;
    let rotated = &document(&[&index, "--window=600"])?["store"];
    ensure!(rotated["largest"].as_array().map(Vec::len) == Some(6), "{rotated:#}");
    ensure!(
        rotated["log_name"] != store["log_name"] && rotated["newest_age_seconds"].is_number(),
        "{rotated:#}"
    );
    Ok(())
}

#[test]
fn processes_of_the_machine_are_found() -> Result<()> {
    let (server, directory) = (server()?, TempDir::new()?);
    let address = format!("127.0.0.1:{}", free_port()?);
    let mut receive = Command::new(bintide()?);
    receive.env_clear().arg("receive").arg(directory.path().join("copy"));
    receive.args(["--metrics", &address, "--from", &format!("mysql://root@127.0.0.1:{}/", server.port())]);
    let _running =
        ChildGuard::start(receive.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()))?;
    let port = address.rsplit(':').next().context("no port")?.parse()?;
    wait_until("readiness", || Ok(get(port, "/readyz").is_ok_and(|answer| answer.status == 200)))?;
    let process = |found: &Value| {
        let mut processes = found["processes"].as_array().into_iter().flatten();
        processes.find(|process| process["address"] == address.as_str()).cloned()
    };
    let found = document(&[])?;
    let receive = process(&found).with_context(|| format!("{address} is missing: {found:#}"))?;
    ensure!(receive["command"] == "receive" && receive["state"] == "ready", "{receive:#}");
    ensure!(receive["transactions_per_second"].is_f64() && receive["lag_seconds"].is_f64(), "{receive:#}");
    let missing = document(&["--process", "127.0.0.1:1"])?;
    ensure!(missing["processes"][0]["command"].is_null(), "{missing:#}");
    Ok(())
}

#[test]
fn the_view_follows_the_store_in_a_terminal() -> Result<()> {
    let server = server()?;
    let mut terminal = start_in_terminal(&index_of(&server)?)?;
    let mut stdout = terminal.stdout.take().context("no output")?;
    let screen: Arc<Mutex<Vec<u8>>> = Arc::default();
    let shared = Arc::clone(&screen);
    let reader = thread::spawn(move || {
        let mut bytes = [0; 4096];
        while let Ok(count @ 1..) = stdout.read(&mut bytes) {
            shared.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(&bytes[..count]);
        }
    });
    let shows = |text: &str| {
        let shown = screen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        Ok(String::from_utf8_lossy(&shown).contains(text))
    };
    wait_until("the tables", || shows("items"))?;
    server.sql("create table shop.later (id int primary key); insert into shop.later values (1)")?;
    wait_until("the new table", || shows("later"))?;
    terminal.stdin.as_mut().context("no input")?.write_all(b"q")?;
    let ended = terminal.wait()?;
    ensure!(reader.join().is_ok(), "the reader failed");
    // Leaves the alternate screen.
    ensure!(ended.success() && shows("\u{1b}[?1049l")?, "{ended}");
    Ok(())
}

/// The logs are gone, but the work had begun.
#[test]
fn a_reset_of_the_server_ends_the_view() -> Result<()> {
    let server = server()?;
    let mut terminal = start_in_terminal(&index_of(&server)?)?;
    let mut stdout = terminal.stdout.take().context("no output")?;
    let reader = thread::spawn(move || {
        let (mut shown, mut bytes) = (String::new(), [0; 4096]);
        while let Ok(count @ 1..) = stdout.read(&mut bytes) {
            let is_first = !shown.contains("items");
            shown += &String::from_utf8_lossy(&bytes[..count]);
            if is_first && shown.contains("items") && server.sql("reset binary logs and gtids").is_err() {
                break;
            }
        }
        shown
    });
    let ended = terminal.wait()?;
    let shown = reader.join().ok().context("the reader failed")?;
    ensure!(ended.code() == Some(1) && shown.contains("was removed"), "{ended}: {shown}");
    Ok(())
}

/// Starts `bintide top` in a pseudo terminal of 40 lines.
fn start_in_terminal(store: &Path) -> Result<ChildGuard> {
    let script = format!("stty rows 40 cols 120; exec '{}' top '{}'", bintide()?.display(), store.display());
    let mut command = Command::new("script");
    command.args(["--quiet", "--return", "--command", &script, "/dev/null"]).env("TERM", "xterm");
    ChildGuard::start(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()))
}
