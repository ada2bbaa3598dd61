//! The JSON documents of all commands have the forms that docs/schemas describes.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use e2e::command;
use e2e::json_schema::{check_document, check_documents};
use e2e::metrics::get;
use e2e::program::bintide;
use e2e::relayed::{RelayProcess, index_of};
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Launch, TestServer, free_port, workspace_root};

/// Runs a command on the samples, and checks its document. The command may find faults.
fn check_run(schema: &str, arguments: &[&str]) -> Result<Value> {
    let mut command = Command::new(bintide()?);
    command
        .env_clear()
        .env("TZ", "UTC")
        .args(arguments)
        .arg("--json")
        .current_dir(workspace_root().join("samples"));
    let output = command.stdin(Stdio::null()).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(matches!(output.status.code(), Some(0 | 1)), "{arguments:?}: {:?} {error}", output.status);
    let parsed = serde_json::from_slice(&output.stdout);
    let document: Value = parsed.with_context(|| format!("{arguments:?} printed no JSON: {error}"))?;
    check_document(schema, &document).with_context(|| format!("bintide {}", arguments.join(" ")))?;
    Ok(document)
}

/// Returns the names of all sample logs and directories of logs.
fn samples() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(workspace_root().join("samples"))? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_log = name.ends_with(".binlog") || entry.path().join("binlog.index").exists();
        // Encrypted logs need their key.
        if is_log && !name.contains("encrypted") {
            names.push(name);
        }
    }
    names.sort();
    ensure!(names.len() > 20, "only {} samples", names.len());
    Ok(names)
}

fn path_text(path: &Path) -> Result<&str> {
    path.to_str().context("a path that is not UTF-8")
}

#[test]
fn documents_of_samples_have_their_schemas() -> Result<()> {
    let names = samples()?;
    for name in &names {
        check_run("stats", &["stats", name])?;
        check_run("stats", &["stats", "--by", "account,statement,table,minute,hour", name])?;
        check_run("stats", &["stats", "--table", "gtids.t", name])?;
        check_run("verify", &["verify", name])?;
        if !name.contains("mariadb") {
            check_run("advise", &["advise", "--all", "--levels", "1,3", name])?;
        }
    }
    let selected = check_run("stats", &["stats", "--database", "gtids", "--by", "account", "gtids"])?;
    ensure!(selected["is_selection"] == true, "{selected}");
    check_run("diff", &["diff", "gtids", "gtids-compressed"])?;
    check_run("diff", &["diff", "gtids", "incident"])?;
    check_run("diff", &["diff", "mariadb.binlog", "gtids"])?;
    check_run("diff", &["diff", "gtids", "mariadb-gtids"])?;
    Ok(())
}

#[test]
fn lines_of_samples_have_their_schemas() -> Result<()> {
    for name in samples()? {
        check_lines("dump-line", &["dump", "--json", &name])?;
        check_transactions(&name)?;
    }
    check_lines(
        "history-line",
        &["history", "--json", "--table=types.integers", "--where=@1=1", "types.binlog"],
    )?;
    check_lines(
        "history-line",
        &["history", "--json", "--table=docs.changes", "--where=@1=1", "json-partial-minimal.binlog"],
    )?;
    check_lines("history-line", &["history", "--json", "--table=rotation.t", "--where=@1=1", "rotation"])
}

/// Runs a command on the samples, and checks each line. The command may end at a fault of the log.
fn check_lines(schema: &str, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(bintide()?);
    command.env_clear().env("TZ", "UTC").args(arguments).current_dir(workspace_root().join("samples"));
    let output = command.stdin(Stdio::null()).output()?;
    ensure!(!output.stdout.is_empty(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    check_printed_lines(schema, &output.stdout).with_context(|| format!("bintide {}", arguments.join(" ")))
}

fn check_printed_lines(schema: &str, printed: &[u8]) -> Result<()> {
    let lines = printed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let lines: Vec<Value> =
        lines.map(serde_json::from_slice).collect::<Result<_, _>>().context("a line is no JSON")?;
    check_documents(schema, &lines)
}

/// Checks the list of the transactions of a sample, also of one without transactions.
fn check_transactions(name: &str) -> Result<()> {
    let mut command = Command::new(bintide()?);
    command.env_clear().args(["dump", "--json", "--transactions", "--force-read", name]);
    let output = command.current_dir(workspace_root().join("samples")).stdin(Stdio::null()).output()?;
    ensure!(output.status.code() != Some(2), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    check_printed_lines("transaction-line", &output.stdout).context(name.to_owned())
}

#[test]
fn documents_of_archives_have_their_schemas() -> Result<()> {
    let directory = TempDir::new()?;
    let [archive, to] = ["archive", "restored"].map(|name| directory.path().join(name));
    let (archive, to) = (path_text(&archive)?, path_text(&to)?);
    let logs = ["mariadb-gtids/binlog.000001", "types-compressed.binlog", "torn.binlog"];
    for log in logs {
        check_run("archive", &["archive", log, "--to", archive])?;
        check_run("archive", &["archive", log, "--to", archive])?;
    }
    check_run("archive-ls", &["archive", "ls", archive])?;
    check_run("archive-verify", &["archive", "verify", archive])?;
    check_run("archive-restore", &["archive", "restore", archive, "--to", to])?;
    let pruned = check_run("archive-prune", &["archive", "prune", archive, "--keep", "1d"])?;
    ensure!(pruned["logs"].as_array().is_some_and(|logs| logs.len() == 2), "{pruned}");
    let segment =
        fs::read_dir(directory.path().join("archive/segments"))?.next().context("no segment")??.path();
    fs::write(segment, b"damaged")?;
    check_run("archive-verify", &["archive", "verify", archive])?;
    let other = directory.path().join("other");
    let restored =
        check_run("archive-restore", &["archive", "restore", archive, "--to", path_text(&other)?])?;
    ensure!(restored["faults"].as_array().is_some_and(|faults| faults.len() == 1), "{restored}");
    Ok(())
}

#[test]
fn documents_of_damaged_logs_have_their_schemas() -> Result<()> {
    let directory = TempDir::new()?;
    let log = directory.path().join("damaged.binlog");
    let mut bytes = fs::read(workspace_root().join("samples/types.binlog"))?;
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    bytes.truncate(bytes.len() - 7);
    fs::write(&log, bytes)?;
    let verdict = check_run("verify", &["verify", path_text(&log)?])?;
    ensure!(verdict["faults"].as_array().is_some_and(|faults| !faults.is_empty()), "{verdict}");
    let missing = check_run("verify", &["verify", path_text(&log)?, "gtids"])?;
    ensure!(missing["logs"].as_array().is_some_and(|logs| logs.len() > 1), "{missing}");
    Ok(())
}

#[test]
fn documents_of_rewrites_have_their_schemas() -> Result<()> {
    let directory = TempDir::new()?;
    let (compressed, back) = (directory.path().join("compressed"), directory.path().join("back"));
    let to = ["--output", path_text(&compressed)?];
    for name in ["types.binlog", "ddl.binlog", "in-use.binlog"] {
        check_run("compress", &[&["compress", "--dry-run", name][..], &to].concat())?;
        check_run("compress", &[&["compress", "--verify", name][..], &to].concat())?;
    }
    check_run("compress", &[&["compress", "types.binlog"][..], &to].concat())?;
    let log = compressed.join("types.binlog");
    check_run("decompress", &["decompress", path_text(&log)?, "--output", path_text(&back)?])?;
    Ok(())
}

#[test]
fn documents_of_exports_have_their_schemas() -> Result<()> {
    let directory = TempDir::new()?;
    let document =
        check_run("export", &["export", "types-full-metadata.binlog", "--to", path_text(directory.path())?])?;
    ensure!(document["row_changes"].as_u64() > Some(100), "{document}");
    Ok(())
}

#[test]
fn documents_of_sqlite_targets_have_their_schemas() -> Result<()> {
    let directory = TempDir::new()?;
    let to = format!("sqlite:{}", directory.path().join("target.sqlite").display());
    check_run("replay-status", &["replay", "--status", "--to", &to])?;
    check_run("replay-dry-run", &["replay", "gtids", "--dry-run", "--to", &to])?;
    let torn =
        check_run("replay-dry-run", &["replay", "torn.binlog", "--dry-run", "--offline", "--to", &to])?;
    ensure!(torn["refused"].as_array().is_some_and(|refused| !refused.is_empty()), "{torn}");
    check_run("replay", &["replay", "gtids", "--to", &to])?;
    check_run("replay-status", &["replay", "--status", "--to", &to])?;
    Ok(())
}

#[test]
fn documents_of_servers_have_their_schemas() -> Result<()> {
    let source = Launch::mysql().options(OPTIONS).start()?;
    source.sql(
        "create database d; create table d.t (id int primary key, b varchar(300));
         set binlog_rows_query_log_events = on; insert into d.t values (1, 'a'), (2, repeat('b', 200));
         set binlog_transaction_compression = on; insert into d.t values (3, repeat('c', 200)); delete from d.t",
    )?;
    let from = command::address("root", &source);
    check_run("advise", &["advise", "--from", &from, "--levels", "3", "--time", "1"])?;
    let directory = TempDir::new()?;
    let copy = directory.path().join("copy");
    let receive = ["receive", path_text(&copy)?, "--from", &from, "--stop-at-end", "--compress", "3"];
    check_run("receive", &receive)?;
    check_run("receive", &receive)?;
    let target = Launch::mysql().options(OPTIONS).start()?;
    let to = command::address("root", &target);
    check_run("replay-status", &["replay", "--status", "--to", &to])?;
    let copy = path_text(&copy)?;
    check_run("replay-dry-run", &["replay", copy, "--dry-run", "--to", &to])?;
    check_run("replay", &["replay", copy, "--to", &to, "--verify", &from])?;
    check_run("replay-status", &["replay", "--status", "--to", &to])?;
    check_undo(&source, copy)?;
    check_relay(&source, directory.path())
}

/// Options of the servers.
const OPTIONS: [&str; 4] =
    ["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--binlog-row-metadata=FULL", "--server-id=7"];

fn check_undo(source: &TestServer, logs: &str) -> Result<()> {
    let executed = source.sql("select @@global.gtid_executed")?;
    let (server, last) = executed.trim().rsplit_once(['-', ':']).context("no GTIDs")?;
    let uuid = server.split(':').next().context("no UUID")?;
    let gtid = format!("{uuid}:{last}");
    source.sql("set sql_log_bin = 0; insert into d.t values (3, 'another')")?;
    let to = command::address("root", source);
    let undo = ["undo", "--gtid", &gtid, logs, "--to", &to];
    let refused = check_run("undo", &[&undo[..], &["--skip-changed"]].concat())?;
    ensure!(refused["conflicts"] == 1 && refused["applied"] == true, "{refused}");
    Ok(())
}

fn check_relay(source: &TestServer, directory: &Path) -> Result<()> {
    let accounts = directory.join("accounts.toml");
    let password = directory.join("password");
    fs::write(&password, "secret\n")?;
    let accounts = path_text(&accounts)?;
    let mut add = Command::new(bintide()?);
    add.env_clear().args(["relay", "user", "add", "repl", "--accounts", accounts]);
    add.args(["--password-file", path_text(&password)?, "--host", "10.0.0.0/8"]);
    ensure!(add.status()?.success());
    check_run("relay-user-list", &["relay", "user", "list", "--accounts", accounts])?;
    let http = free_port()?;
    let relay = RelayProcess::start(&index_of(source)?, &[&format!("--metrics=127.0.0.1:{http}")])?;
    let address = format!("mysql://root@127.0.0.1:{}/", relay.port);
    check_run("relay-status", &["relay", "status", &address])?;
    let document: Value = serde_json::from_slice(&get(http, "/status.json")?.body)?;
    ensure!(document["logs"].as_array().is_some_and(|logs| !logs.is_empty()), "{document}");
    check_document("relay-page", &document)
}

/// The page of the schemas lists each of them, and every schema describes its root.
#[test]
fn schemas_are_listed() -> Result<()> {
    let directory = workspace_root().join("docs/schemas");
    let page = fs::read_to_string(directory.join("README.md"))?;
    let mut paths: Vec<PathBuf> =
        fs::read_dir(&directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    let mut names = BTreeSet::new();
    for path in paths {
        let name = path.file_name().context("a file without a name")?.to_string_lossy().into_owned();
        ensure!(page.contains(&format!("]({name})")), "README.md does not list {name}");
        let schema: Value = serde_json::from_slice(&fs::read(&path)?)?;
        ensure!(schema["title"].is_string() && schema["type"] == "object", "{name} has no title or type");
        names.insert(name);
    }
    ensure!(names.len() >= 13, "only {names:?}");
    Ok(())
}
