//! `bintide stream snapshot`: tables are read while the stream runs and programs write to them. At the end, the last
//! record of each key is the row of the table.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::command::{ChildGuard, wait_for_within};
use e2e::kafka::{key_text, last_rows, read_matching_topics, stream_to};
use e2e::metrics;
use e2e::program::bintide;
use serde_json::Value;
use tempfile::TempDir;
use testkit::{KafkaBroker, Launch, ServerClient, TestServer, free_port};

/// Time limit of waits.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Number of rows of the large table.
const ROWS: usize = 20_000;

/// Tables with keys of several types. The log does not have their rows: it is reset afterwards.
const TABLES: &str = "set session cte_max_recursion_depth = 1000000; create database d; use d;
    create table t (id int primary key auto_increment, n int, s varchar(1200));
    insert into t (n, s) with recursive i (a) as (select 1 union all select a + 1 from i where a < 20000)
        select a, repeat('x', 1000) from i;
    create table pair (a varchar(20) collate utf8mb4_0900_ai_ci, b int, n int, primary key (b, a));
    insert into pair select concat('Straße ', id), id % 7, id from t where id <= 300;
    create table latin (a char(9) character set latin1 primary key, n int);
    insert into latin select concat('é', id), id from t where id <= 200;
    create table bytes (a varbinary(9) primary key, n int);
    insert into bytes select concat(x'ff0027', id), id from t where id <= 200;
    create table fixed (a binary(4) primary key, n int);
    insert into fixed select id, id from t where id <= 200;
    create table moment (a datetime(3) primary key, n int);
    insert into moment select '2026-01-01' + interval id * 1500000 microsecond, id from t where id <= 200;
    create table stamp (a timestamp primary key, n int);
    insert into stamp select '2026-01-01' + interval id hour, id from t where id <= 200;
    create table number (a decimal(10, 3) primary key, n int);
    insert into number select id / 7, id from t where id <= 200;
    create table choice (a enum ('z', 'y', 'x'), b bit(10), n int, primary key (a, b));
    insert into choice select 1 + id % 3, id, id from t where id <= 200;
    create table fraction (a double primary key, n int);
    insert into fraction select id / 7, id from t where id <= 200;
    create table large_key (a bigint unsigned primary key, n int);
    insert into large_key select 18446744073709551615 - id, id from t where id <= 200;
    create table no_key (a int); insert into no_key values (1);
    create table blank (id int primary key); create table excluded (id int primary key);
    reset binary logs and gtids;";

/// Small tables, with the columns of their keys.
const SMALL_TABLES: [(&str, &[&str]); 10] = [
    ("pair", &["b", "a"]),
    ("latin", &["a"]),
    ("bytes", &["a"]),
    ("fixed", &["a"]),
    ("moment", &["a"]),
    ("stamp", &["a"]),
    ("number", &["a"]),
    ("choice", &["a", "b"]),
    ("fraction", &["a"]),
    ("large_key", &["a"]),
];

fn source() -> Result<TestServer> {
    let server = Launch::mysql().option("--binlog-row-metadata=FULL").start()?;
    // The name of the RESET statement depends on the version.
    let tables = match server.sql("select version()")?.starts_with("8.0") {
        true => TABLES.replace("reset binary logs and gtids", "reset master"),
        false => TABLES.to_owned(),
    };
    server.sql(&tables)?;
    Ok(server)
}

fn from(server: &TestServer) -> String {
    format!("mysql://root@127.0.0.1:{}/?timeout=8", server.port())
}

fn request(signals: &str, tables: &str) -> Result<()> {
    let ran = Command::new(bintide()?)
        .env_clear()
        .args(["stream", "snapshot", "--table", tables, "--signals", signals])
        .output()?;
    ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Ok(())
}

/// Returns a figure of the running stream.
fn figure(port: u16, name: &str) -> Result<u64> {
    let answer = metrics::get(port, "/metrics")?;
    let text = answer.text()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.with_context(|| format!("no {name}: {text}"))?.trim().parse::<f64>()? as u64)
}

/// Changes the tables until `is_over` is set.
fn write_rows(client: &ServerClient, seed: usize, is_over: &AtomicBool) -> Result<()> {
    let mut number = seed;
    while !is_over.load(Ordering::Relaxed) {
        number = number.wrapping_mul(1_103_515_245).wrapping_add(12345) % (1 << 31);
        let id = number / 7 % (ROWS + 100);
        let small = SMALL_TABLES.map(|(table, _)| {
            format!("update d.{table} set n = n + 1000 where n % 50 = {}; delete from d.{table} where n % 997 = 5;", id % 50)
        });
        let changed = client.sql(&format!(
            "update d.t set n = n + 1, s = concat(s, '.') where id between {id} and {id} + 30;
             delete from d.t where id = {id} + 50; insert into d.t (n, s) values ({id}, 'new');
             update d.t set id = -id where id = {id} + 70; {}",
            if number.is_multiple_of(3) { small.concat() } else { String::new() }
        ));
        // The writers lock rows in different orders.
        ensure!(
            changed.as_ref().err().is_none_or(|error| format!("{error:#}").contains("Deadlock")),
            "{changed:?}"
        );
    }
    Ok(())
}

/// Returns the rows of a table by their key, as the stream writes them.
fn expected(rows: &str, key: &[&str]) -> Result<BTreeMap<String, Value>> {
    let mut expected = BTreeMap::new();
    for line in rows.lines().filter(|line| !line.is_empty()) {
        let row: Value = serde_json::from_str(line)?;
        expected.insert(key_text(&row, key), row);
    }
    Ok(expected)
}

/// A snapshot of 20,000 rows with writers and a kill: the last record of each key is its row, and no row is read twice.
#[test]
fn topics_have_the_table_after_a_kill() -> Result<()> {
    let (broker, source, directory, port) =
        (KafkaBroker::start(&[])?, source()?, TempDir::new()?, free_port()?);
    let (signals, from) = (directory.path().display().to_string(), from(&source));
    let address = format!("--metrics=127.0.0.1:{port}");
    let arguments = ["--from", &*from, "--signals", &*signals, &*address];
    let start =
        || ChildGuard::start(stream_to(&broker, &arguments)?.stdout(Stdio::null()).stderr(Stdio::null()));
    let mut running = start()?;
    let (is_over, client) = (AtomicBool::new(false), source.client().clone());
    let followed = thread::scope(|scope| {
        let (client, is_over) = (&client, &is_over);
        let writers = [1, 77].map(|seed| scope.spawn(move || write_rows(client, seed, is_over)));
        let mut follow = || -> Result<()> {
            wait_for_within(TIMEOUT, || metrics::get(port, "/metrics").map(drop))?;
            request(&signals, "d.t")?;
            wait_for_within(TIMEOUT, || {
                let rows = figure(port, "bintide_stream_snapshot_rows_total")?;
                ensure!(rows >= 3000, "{rows} rows");
                Ok(())
            })?;
            running.kill()?;
            running.wait()?;
            // For the next run.
            let small: Vec<String> = SMALL_TABLES.iter().map(|(table, _)| format!("d.{table}")).collect();
            request(&signals, &small.join(","))?;
            running = start()?;
            wait_for_within(TIMEOUT, || {
                ensure!(
                    figure(port, "bintide_stream_snapshot_tables")? > 0,
                    "the snapshot does not continue"
                );
                Ok(())
            })?;
            wait_for_within(TIMEOUT, || {
                ensure!(figure(port, "bintide_stream_snapshot_rows_total")? > 1000);
                ensure!(figure(port, "bintide_stream_snapshot_tables")? == 0);
                ensure!(fs::read_dir(directory.path())?.count() == 1, "requests are left");
                Ok(())
            })
        };
        let followed = follow();
        is_over.store(true, Ordering::Relaxed);
        writers.into_iter().try_for_each(|writer| writer.join().expect("a writer panicked"))?;
        followed
    });
    followed?;
    running.interrupt()?;
    running.wait()?;
    let rest = stream_to(&broker, &["--from", &*from, "--stop-at-end"])?.output()?;
    ensure!(rest.status.success(), "{}", String::from_utf8_lossy(&rest.stderr));
    for (table, key) in SMALL_TABLES.into_iter().chain([("t", &["id"][..])]) {
        compare_topic(&broker, &source, table, key).with_context(|| table.to_owned())?;
    }
    Ok(())
}

/// Compares the last record of each key in a topic with the rows of a table.
fn compare_topic(broker: &KafkaBroker, source: &TestServer, table: &str, key: &[&str]) -> Result<()> {
    let topic = format!("bintide.d.{table}");
    let records = read_matching_topics(broker, |name| name == topic)?;
    let (mut reads, mut changes) = (BTreeMap::new(), 0);
    for record in &records {
        let key = record.key.clone().context("a record without a key")?;
        let value: Option<Value> = record.value.as_deref().map(serde_json::from_str).transpose()?;
        match value.as_ref().map(|value| value["op"].as_str().unwrap_or_default()) {
            Some("r") => {
                let source = &value.as_ref().context("no value")?["source"];
                ensure!(source["snapshot"] == "incremental", "{source}");
                let count: &mut usize = reads.entry(key.clone()).or_default();
                *count += 1;
                ensure!(*count == 1, "{key} was read twice");
            }
            Some(_) => changes += 1,
            None => {}
        }
    }
    let found = last_rows(&records, &topic)?.into_iter().map(|(key, after)| {
        let shown = if table == "t" { after["s"].as_str().map(str::len).unwrap_or_default() } else { 0 };
        (key, after["n"].clone(), shown)
    });
    let mut found: Vec<_> = found.collect();
    ensure!(!reads.is_empty() && changes > 0, "{} reads, {changes} changes", reads.len());
    if table == "t" {
        let rows = source.sql("select json_object('id', id, 'n', n, 'size', length(s)) from d.t")?;
        let rows = expected(&rows, key)?;
        let mut expected: Vec<_> = rows
            .into_iter()
            .map(|(key, row)| (key, row["n"].clone(), row["size"].as_u64().unwrap_or_default() as usize))
            .collect();
        expected.sort_by(|a, b| a.0.cmp(&b.0));
        found.sort_by(|a, b| a.0.cmp(&b.0));
        let first = expected.iter().zip(&found).find(|(expected, found)| expected != found);
        ensure!(expected == found, "{} rows, expected {}; first {first:?}", found.len(), expected.len());
        return Ok(());
    }
    // Keys of other types are compared by their number: n identifies each row.
    let mut found: Vec<i64> = found.iter().filter_map(|(_, n, _)| n.as_i64()).collect();
    let rows = source.sql(&format!("select n from d.{table}"))?;
    let mut expected: Vec<i64> = rows.split_whitespace().map(str::parse).collect::<Result<_, _>>()?;
    found.sort_unstable();
    expected.sort_unstable();
    ensure!(found == expected, "{} rows, expected {}: {found:?}, {expected:?}", found.len(), expected.len());
    Ok(())
}

/// Returns all records in a directory's files.
fn records(directory: &Path) -> Result<Vec<Value>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.to_string_lossy().contains("changes.") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut records = Vec::new();
    for path in paths {
        for line in fs::read_to_string(path)?.lines() {
            records.push(serde_json::from_str(line).with_context(|| line.to_owned())?);
        }
    }
    Ok(records)
}

/// Files have each row once, also after a second request; tables that cannot be read are named, and an altered table is
/// read in its new form.
#[test]
fn files_have_rows_once_and_refusals_are_named() -> Result<()> {
    let (source, directory, port) = (source()?, TempDir::new()?, free_port()?);
    let [signals, out] = ["signals", "out"].map(|name| directory.path().join(name).display().to_string());
    let from = from(&source);
    request(&signals, "d.pair,d.no_key,d.missing,d.excluded,d.blank")?;
    let mut command = Command::new(bintide()?);
    command.env_clear().args(["stream", "--format", "maxwell", "--from", &from, "--out", &out]).args([
        "--signals",
        &signals,
        "--ignore-table",
        "d.excluded",
        &format!("--metrics=127.0.0.1:{port}"),
    ]);
    let running = ChildGuard::start(command.stdin(Stdio::null()).stderr(Stdio::piped()))?;
    let is_done = || {
        wait_for_within(TIMEOUT, || {
            ensure!(figure(port, "bintide_stream_snapshot_tables")? == 0);
            ensure!(fs::read_dir(&signals)?.count() == 1, "requests are left");
            Ok(())
        })
    };
    wait_for_within(TIMEOUT, || {
        ensure!(figure(port, "bintide_stream_snapshot_refused_total")? == 3);
        Ok(())
    })?;
    is_done()?;
    source.sql("alter table d.pair add extra int default 7; insert into d.pair values ('last', 1, 2, 3)")?;
    request(&signals, "d.pair")?;
    wait_for_within(TIMEOUT, || {
        ensure!(figure(port, "bintide_stream_snapshot_rows_total")? == 601);
        Ok(())
    })?;
    is_done()?;
    running.interrupt()?;
    let ran = running.output()?;
    let printed = String::from_utf8_lossy(&ran.stderr).into_owned();
    for expected in [
        "no snapshot of d.excluded: the stream excludes it",
        "no snapshot of d.no_key: it has no primary key",
        "no snapshot of d.missing: there is no such table",
        "snapshot of d.pair: complete, 300 rows read",
        "snapshot of d.blank: complete, 0 rows read",
        "snapshot of d.pair: complete, 301 rows read",
    ] {
        ensure!(printed.contains(expected), "{expected}: {printed}");
    }
    let records = records(Path::new(&out))?;
    let count = |kind: &str, table: &str| {
        records.iter().filter(|record| record["type"] == kind && record["table"] == table).count()
    };
    ensure!(count("bootstrap-insert", "pair") == 601, "{}", count("bootstrap-insert", "pair"));
    ensure!((count("bootstrap-start", "pair"), count("bootstrap-complete", "pair")) == (2, 2));
    ensure!((count("bootstrap-start", "blank"), count("bootstrap-insert", "blank")) == (1, 0));
    let altered = records.iter().filter(|record| record["data"]["extra"] == 7);
    ensure!(altered.count() == 300);
    Ok(())
}

/// A source without GTIDs is refused with a message, and the stream continues.
#[test]
fn sources_without_gtids_are_refused() -> Result<()> {
    let (source, directory) = (Launch::mysql().option("--gtid-mode=OFF").start()?, TempDir::new()?);
    source.sql("create database d; create table d.t (id int primary key); insert into d.t values (1)")?;
    let [signals, out] = ["signals", "out"].map(|name| directory.path().join(name).display().to_string());
    request(&signals, "d.t")?;
    let from = from(&source);
    let mut command = Command::new(bintide()?);
    command.env_clear().args(["stream", "--format", "debezium", "--from", &from, "--out", &out]);
    command.args(["--signals", &signals]).stdin(Stdio::null()).stderr(Stdio::piped());
    let running = ChildGuard::start(&mut command)?;
    wait_for_within(TIMEOUT, || {
        source.sql("insert into d.t select max(id) + 1 from d.t")?;
        thread::sleep(Duration::from_millis(500));
        ensure!(fs::read_dir(&signals)?.count() == 1, "the request is left");
        Ok(())
    })?;
    running.interrupt()?;
    let printed = String::from_utf8_lossy(&running.output()?.stderr).into_owned();
    ensure!(printed.contains("no snapshot of d.t: without GTIDs, bintide cannot place"), "{printed}");
    let records = records(Path::new(&out))?;
    ensure!(records.iter().filter(|record| record["op"] == "c").count() > 1, "{printed}");
    Ok(())
}
