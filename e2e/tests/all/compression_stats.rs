//! `performance_schema.binary_log_transaction_compression_stats` computed from logs, compared with the table on the
//! source and the replica: compressed and uncompressed, before and after a reset.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::program::bintide;
use inspect::stats::{CompressionRow, LogType, StatsSettings, collect};
use logs::{LogReader, Store};
use serde_json::Value;
use tempfile::TempDir;
use testkit::{Launch, TestServer};

/// Sample scripts, and `true` if their sessions compress.
const SCRIPTS: [(&str, bool); 6] = [
    ("types", true),
    ("ddl", true),
    ("triggers", false),
    ("savepoints", true),
    ("xa", false),
    ("json", true),
];

/// Transactions that grow when compressed, tagged GTIDs, and events that are not row transactions.
const MORE: &str = "
    create database more; use more; create table t (id int primary key, a varbinary(4000)); create user more;
    set binlog_transaction_compression = on;
    insert into t values (1, random_bytes(600)); insert into t values (2, random_bytes(900));
    set gtid_next = 'automatic:tag'; insert into t values (3, ''); set gtid_next = 'automatic';
    begin; update t set a = repeat('a', id); delete from t where id = 1; commit;
    set binlog_transaction_compression = off;
    insert into t values (4, repeat('b', 4000)); begin; commit; drop user more;";

const TABLE: &str = "performance_schema.binary_log_transaction_compression_stats";

#[test]
fn statistics_of_logs_equal_the_servers_table() -> Result<()> {
    let source = Launch::mysql().option("--server-id=1").start()?;
    let replica = Launch::mysql()
        .options(["--server-id=2", "--relay-log=relay", "--relay-log-purge=OFF"])
        .options(["--binlog-transaction-compression=ON"])
        .start()?;
    replica.replicate_from(&source)?;
    for (script, compresses) in SCRIPTS {
        run_script(&source, script, compresses)?;
    }
    let rows = check_both(&source, &replica, (0, 0))?;
    ensure!(rows == (2, 4), "{rows:?}");
    // The table counts checksums in relay logs: the following transactions have none.
    source.sql("set global binlog_checksum = none")?;
    for server in [&source, &replica] {
        server.sql(&format!("flush local logs; truncate table {TABLE}"))?;
        ensure!(table_rows(server)?.is_empty(), "the table has rows after a reset: {}", table_rows(server)?);
    }
    let begin = (source.binlogs()?.len() - 1, replica.binlogs()?.len() - 1);
    source.sql(MORE)?;
    let rows = check_both(&source, &replica, begin)?;
    ensure!(rows == (2, 4), "{rows:?}");
    Ok(())
}

/// The statistics of `bintide receive` equal a replica's statistics of its relay logs (RELAY). Without --compress,
/// they equal the source's statistics of its binary logs (BINARY); with it, they describe the compressed logs.
#[test]
fn statistics_of_received_logs_equal_a_replicas() -> Result<()> {
    let source = Launch::mysql().option("--server-id=1").start()?;
    let replica = Launch::mysql().options(["--server-id=2", "--relay-log=relay"]).start()?;
    replica.replicate_from(&source)?;
    for (script, compresses) in SCRIPTS {
        run_script(&source, script, compresses)?;
    }
    source.sql(MORE)?;
    source.sql("flush binary logs")?;
    let all = source.sql("select replace(@@global.gtid_executed, '\\n', '')")?;
    let late = replica.sql(&format!("select wait_for_executed_gtid_set('{}', 120)", all.trim()))?;
    ensure!(late.trim() == "0", "the replica has not applied all transactions");
    let expected = |server: &TestServer, log_type: &str| -> Result<Vec<String>> {
        let rows = table_rows(server)?;
        Ok(rows.lines().filter(|row| row.starts_with(log_type)).map(without_times).collect())
    };
    let directory = TempDir::new()?;
    let received = receive(&source, directory.path(), &[])?;
    in_time(|| {
        ensure!(
            of_type(&received, "RELAY")? == expected(&replica, "RELAY")?,
            "{received} {}",
            table_rows(&replica)?
        );
        ensure!(
            of_type(&received, "BINARY")? == expected(&source, "BINARY")?,
            "{received} {}",
            table_rows(&source)?
        );
        Ok(())
    })?;
    // The compressed logs, except the last, which is still open.
    let directory = TempDir::new()?;
    let compressed = receive(&source, directory.path(), &["--compress", "3"])?;
    ensure!(of_type(&compressed, "RELAY")? == of_type(&received, "RELAY")?, "{compressed}");
    let logs = Store::open(directory.path())?;
    let closed = &logs.logs()[..logs.logs().len() - 1];
    let report = collect(closed.iter().map(LogReader::open), &StatsSettings::new(0), &mut |_| {
        ControlFlow::Continue(())
    })?;
    let rows: Vec<String> =
        report.compression.iter().map(|row| without_times(&columns(row).join("\t"))).collect();
    ensure!(of_type(&compressed, "BINARY")? == rows && rows.len() == 2, "{compressed} {rows:?}");
    ensure!(rows != of_type(&received, "BINARY")?, "nothing was compressed");
    Ok(())
}

/// A run of `receive --compress` counts no transaction of earlier runs: not those of unchanged logs, which it does not
/// read again, nor those of a log that earlier runs began.
#[test]
fn runs_that_compress_count_only_their_transactions() -> Result<()> {
    let source =
        Launch::mysql().option("--server-id=1").option("--binlog-transaction-compression=ON").start()?;
    let directory = TempDir::new()?;
    let run = || receive(&source, directory.path(), &["--compress", "3"]);
    let stored = |rows: &Value| -> Result<u64> {
        let rows = rows.as_array().context("no rows")?.iter();
        let stored = rows.filter(|row| row["log_type"] == "BINARY");
        Ok(stored.filter_map(|row| row["transaction_counter"].as_u64()).sum())
    };
    let insert = "insert into d.t (b) values (repeat('x', 4000));";
    source.sql("create database d; create table d.t (a int primary key auto_increment, b text)")?;
    source.sql(&format!("{insert} flush binary logs; {insert} {insert}"))?;
    let first = run()?;
    ensure!(stored(&first)? == 3, "{first}");
    let list = directory.path().join("bintide.unchanged");
    let unchanged = fs::read_to_string(&list)?;
    ensure!(unchanged.lines().count() == 1, "{unchanged}");
    let again = run()?;
    ensure!(stored(&again)? == 0 && fs::read_to_string(&list)? == unchanged, "{again}");
    // The first run has received two transactions of this log. The log is compressed.
    source.sql(&format!("set binlog_transaction_compression = off; {insert} flush binary logs"))?;
    let third = run()?;
    ensure!(stored(&third)? == 1, "{third}");
    ensure!(directory.path().join("positions.binlog.000002").exists(), "{third}");
    Ok(())
}

/// Receives all logs; returns the compression statistics of `bintide receive --json`.
fn receive(source: &TestServer, directory: &Path, more: &[&str]) -> Result<Value> {
    let from = format!("mysql://root@127.0.0.1:{}/", source.port());
    let mut command = Command::new(bintide()?);
    command
        .env_clear()
        .arg("receive")
        .arg(directory)
        .args(["--from", &from, "--stop-at-end", "--json"])
        .args(more);
    let ran = command.output()?;
    ensure!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    Ok(serde_json::from_slice::<Value>(&ran.stdout)?["compression"].clone())
}

/// Returns the rows of this type, as the client prints the table, without times.
fn of_type(rows: &Value, log_type: &str) -> Result<Vec<String>> {
    const COLUMNS: [&str; 12] = [
        "log_type",
        "compression_type",
        "transaction_counter",
        "compressed_bytes_counter",
        "uncompressed_bytes_counter",
        "compression_percentage",
        "first_transaction_id",
        "first_transaction_compressed_bytes",
        "first_transaction_uncompressed_bytes",
        "last_transaction_id",
        "last_transaction_compressed_bytes",
        "last_transaction_uncompressed_bytes",
    ];
    let rows = rows.as_array().context("not a list")?.iter().filter(|row| row["log_type"] == log_type);
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    Ok(rows.map(|row| COLUMNS.map(|column| text(&row[column])).join("\t")).collect())
}

/// Returns a row of the table without the times of its first and last transaction.
fn without_times(row: &str) -> String {
    let values = row.split('\t').enumerate().filter(|(column, _)| ![9, 13].contains(column));
    values.map(|(_, value)| value).collect::<Vec<_>>().join("\t")
}

fn run_script(server: &TestServer, script: &str, compresses: bool) -> Result<()> {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples");
    let path = samples.join(script).with_extension("sql");
    let sql = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
    let compression = u8::from(compresses);
    server.sql(&format!("set binlog_transaction_compression = {compression};\n{sql}"))?;
    server.sql("flush binary logs").map(drop)
}

/// Compares both servers' tables with the statistics of their logs from the given numbers on; returns the numbers
/// of rows.
fn check_both(source: &TestServer, replica: &TestServer, begin: (usize, usize)) -> Result<(usize, usize)> {
    let all = source.sql("select replace(@@global.gtid_executed, '\\n', '')")?;
    let late = replica.sql(&format!("select wait_for_executed_gtid_set('{}', 120)", all.trim()))?;
    ensure!(late.trim() == "0", "the replica has not applied all transactions");
    let of_source = in_time(|| check(source, &source.binlogs()?[begin.0..]))?;
    let mut logs = replica.binlogs()?.split_off(begin.1);
    let relay_logs = replica.indexed_logs("relay.index")?;
    // A relay log that ends at the reset is complete; none exists before the first.
    let relay_begin = if begin.1 == 0 { 0 } else { relay_logs.len() - 1 };
    logs.extend_from_slice(&relay_logs[relay_begin..]);
    Ok((of_source, in_time(|| check(replica, &logs))?))
}

/// Retries a check: the table is updated shortly after a transaction becomes visible.
fn in_time<T>(mut check: impl FnMut() -> Result<T>) -> Result<T> {
    let begin = Instant::now();
    loop {
        match check() {
            Err(_) if begin.elapsed() < Duration::from_secs(60) => thread::sleep(Duration::from_millis(50)),
            checked => return checked,
        }
    }
}

/// Compares a server's table with the statistics of its logs; returns the number of its rows.
fn check(server: &TestServer, logs: &[PathBuf]) -> Result<usize> {
    let table = table_rows(server)?;
    let readers = logs.iter().map(LogReader::open);
    let report = collect(readers, &StatsSettings::new(0), &mut |_| ControlFlow::Continue(()))?;
    let (server_rows, rows) = (table.lines().collect::<Vec<_>>(), &report.compression);
    let both = || format!("{table}{rows:#?}");
    ensure!(server_rows.len() == rows.len(), "{}", both());
    for (server_row, row) in server_rows.iter().zip(rows) {
        let mut expected: Vec<String> = server_row.split('\t').map(str::to_owned).collect();
        let mut found = columns(row);
        if row.log_type == LogType::Relay {
            // No log contains the time at which the replica received a transaction; it cannot be before the commit.
            for timestamp in [9, 13] {
                ensure!(found[timestamp] <= expected[timestamp], "{}", both());
                (found[timestamp], expected[timestamp]) = (String::new(), String::new());
            }
        }
        ensure!(expected == found, "{}", both());
    }
    Ok(rows.len())
}

/// Returns a line for each row, with tabs between the columns.
fn table_rows(server: &TestServer) -> Result<String> {
    server.sql(&format!("set time_zone = '+00:00'; select * from {TABLE}"))
}

/// Returns all fourteen columns, as the client prints them.
fn columns(row: &CompressionRow) -> Vec<String> {
    let timestamp = |moment: Option<inspect::stats::LogTime>| {
        let text = moment.map(|moment| moment.to_string()).unwrap_or_default();
        text.replace('T', " ").trim_end_matches('Z').to_owned()
    };
    let word = |value: &dyn std::fmt::Debug| format!("{value:?}").to_uppercase();
    vec![
        word(&row.log_type),
        word(&row.compression_type),
        row.transaction_counter.to_string(),
        row.compressed_bytes_counter.to_string(),
        row.uncompressed_bytes_counter.to_string(),
        row.compression_percentage.to_string(),
        row.first_transaction_id.clone(),
        row.first_transaction_compressed_bytes.to_string(),
        row.first_transaction_uncompressed_bytes.to_string(),
        timestamp(row.first_transaction_timestamp),
        row.last_transaction_id.clone(),
        row.last_transaction_compressed_bytes.to_string(),
        row.last_transaction_uncompressed_bytes.to_string(),
        timestamp(row.last_transaction_timestamp),
    ]
}
