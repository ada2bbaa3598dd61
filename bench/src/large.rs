//! Log that needs the most memory: one compressed transaction of 1 GiB.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use testkit::Launch;

/// Number of rows of the transaction, and approximate size of each in bytes.
const ROWS: usize = 1_150_000;
const ROW_BYTES: usize = 1000;
/// Smallest size of the transaction's events before compression, in bytes.
const BYTES_MIN: u64 = 1 << 30;

/// Returns the log, and creates it if it is missing.
pub(super) fn log() -> Result<PathBuf> {
    let log = testkit::target_dir().join("workloads/large-transaction.binlog");
    if log.exists() {
        return Ok(log);
    }
    eprintln!("running one transaction of 1 GiB on a real server");
    let server = Launch::mysql()
        .options([
            "--binlog-transaction-compression=ON",
            "--max-binlog-size=1G",
            "--innodb-redo-log-capacity=2G",
        ])
        .options(["--innodb-buffer-pool-size=2G", "--binlog-cache-size=64M"])
        .start()?;
    // Repeated hexadecimal digits of a hash: the rows differ, and compress about tenfold.
    let repeats = ROW_BYTES / 64;
    server.sql(&format!(
        "create database large; use large; create table t (id int primary key, a varchar({ROW_BYTES}) character set ascii);
         set session cte_max_recursion_depth = {ROWS};
         insert into t with recursive r (n) as (select 1 union all select n + 1 from r where n < {ROWS})
           select n, repeat(sha2(n, 256), {repeats}) from r"
    ))?;
    let bytes: u64 = server
        .sql("select max(uncompressed_bytes_counter) from performance_schema.binary_log_transaction_compression_stats")?
        .trim()
        .parse()
        .context("the server has no size of the transaction")?;
    ensure!(bytes >= BYTES_MIN, "the transaction has only {bytes} bytes");
    fs::create_dir_all(testkit::target_dir().join("workloads"))?;
    let part = log.with_extension("part");
    fs::copy(server.binlogs()?.pop().context("the server has no log")?, &part)?;
    fs::rename(&part, &log)?;
    Ok(log)
}
