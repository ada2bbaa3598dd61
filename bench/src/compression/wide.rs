//! Repeated updates of all rows of a wide table until the log file is full, with a replica: the number of row changes
//! in one file, the network traffic, and the CPU time of both servers.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use testkit::TestServer;

use crate::doc_page;
use crate::table::{self, count, megabytes};
use crate::workload_runs::{self, BinlogSettings};
use crate::workloads;

/// Number of rows of the table, and size of a log file in bytes, at a scale of 1.
const ROWS: f64 = 500_000.0;
const LOG_BYTES: f64 = (1 << 30) as f64;
/// Unit of `max_binlog_size`, in bytes.
const LOG_BLOCK: u64 = 4096;
/// Largest number of updates: more than fit in any log, even compressed.
const UPDATES_MAX: u64 = 500;

/// Measurements until one log is full.
struct FilledLog {
    rows: u64,
    log_bytes: u64,
    /// Bytes sent to the replica, with protocol overhead.
    sent_bytes: u64,
    source_cpu_seconds: f64,
    replica_cpu_seconds: f64,
}

pub(super) fn measure(scale: f64) -> Result<()> {
    let rows = (ROWS * scale) as u64;
    let mut lines = Vec::new();
    for (name, setting) in [("plain", BinlogSettings::PLAIN), ("compressed, level 3", BinlogSettings::at(3))]
    {
        eprintln!("updates of {rows} rows, {name}");
        let taken = fill_a_log(setting, rows, scale)?;
        let per_million = |amount: f64| format!("{:.1}", amount * 1e6 / taken.rows as f64);
        lines.push(vec![
            name.to_owned(),
            count(taken.rows),
            megabytes(taken.log_bytes),
            megabytes(taken.sent_bytes),
            per_million(taken.log_bytes as f64 / 1e6),
            per_million(taken.source_cpu_seconds),
            per_million(taken.replica_cpu_seconds),
        ]);
    }
    let heads = [
        format!("updates of {} rows", count(rows)),
        "row changes in one log file".to_owned(),
        "the file, MB".to_owned(),
        "sent to the replica, MB".to_owned(),
        "log MB per million changes".to_owned(),
        "source CPU s per million".to_owned(),
        "replica CPU s per million".to_owned(),
    ];
    let heads: Vec<&str> = heads.iter().map(String::as_str).collect();
    doc_page::COMPRESSION
        .write("wide", &(table::markdown(&heads, lines.into_iter()) + &doc_page::conditions()?))
}

fn fill_a_log(setting: BinlogSettings, rows: u64, scale: f64) -> Result<FilledLog> {
    let log_bytes_max = (LOG_BYTES * scale) as u64 / LOG_BLOCK * LOG_BLOCK;
    let launch = workloads::launch_server().option(format!("--max-binlog-size={log_bytes_max}"));
    let source = setting.apply(launch.clone()).start()?;
    let replica = workload_runs::start_replica(setting, launch)?;
    replica.replicate_from(&source)?;
    source.sql(&table(rows))?;
    source.sql("flush binary logs")?;
    workload_runs::wait_until_caught_up(&replica, &source)?;

    let full = source.binlogs()?.pop().context("the source has no log")?;
    let logs = source.binlogs()?.len();
    let (sent, source_cpu, replica_cpu) =
        (sent_bytes(&source)?, workload_runs::cpu_seconds(&source)?, workload_runs::cpu_seconds(&replica)?);
    let mut updates = 0;
    while source.binlogs()?.len() == logs {
        ensure!(updates < UPDATES_MAX, "the log did not fill up after {UPDATES_MAX} updates");
        source.sql("update wide.t set n1 = n1 + 1, d1 = d1 + interval 1 second")?;
        updates += 1;
    }
    workload_runs::wait_until_caught_up(&replica, &source)?;
    Ok(FilledLog {
        rows: updates * rows,
        log_bytes: full.metadata()?.len(),
        sent_bytes: sent_bytes(&source)? - sent,
        source_cpu_seconds: workload_runs::cpu_seconds(&source)? - source_cpu,
        replica_cpu_seconds: workload_runs::cpu_seconds(&replica)? - replica_cpu,
    })
}

/// Returns the SQL of a table of 43 columns and its rows: numbers, amounts, times, words, and a remark.
fn table(rows: u64) -> String {
    let (mut columns, mut values) = ("id int primary key".to_owned(), "n".to_owned());
    let mut add = |count: usize, letter: &str, kind: &str, value: fn(&str) -> String| {
        for number in 1..=count {
            let name = format!("{letter}{number}");
            // Each value is a hash of its row and column, so the rows are always the same.
            let draw = format!("crc32(concat(n, '{name}'))");
            let _ = write!(columns, ", {name} {kind}");
            let _ = write!(values, ", {}", value(&draw));
        }
    };
    add(12, "n", "int", |draw| format!("{draw} % 100000"));
    add(8, "m", "decimal(12,2)", |draw| format!("{draw} % 10000000 / 100"));
    add(6, "d", "datetime", |draw| format!("'2026-01-01' + interval {draw} % 20000000 second"));
    add(15, "w", "varchar(30)", |draw| {
        format!(
            "elt(1 + {draw} % 7, 'pending', 'paid', 'shipped', 'delivered', 'returned', 'to be called', 'none')"
        )
    });
    add(1, "r", "varchar(200)", |draw| format!("concat('order ', {draw}, ' of customer ', n, ', by mail')"));
    format!(
        "create database wide; use wide; create table t ({columns});
         set session cte_max_recursion_depth = {rows};
         insert into t with recursive r (n) as (select 1 union all select n + 1 from r where n < {rows})
           select {values} from r"
    )
}

/// Returns the number of bytes that the source's dump thread has sent.
fn sent_bytes(source: &TestServer) -> Result<u64> {
    let text = source.sql(
        "select variable_value from performance_schema.status_by_thread
           join performance_schema.threads using (thread_id)
           where variable_name = 'Bytes_sent' and processlist_command like 'Binlog Dump%'",
    )?;
    text.trim().parse().context("the source has no Bytes_sent of its dump thread")
}
