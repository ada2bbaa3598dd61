//! A log that bintide processes in many chunks in parallel: one statement of many events, and many small
//! transactions.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use testkit::Launch;

/// Number of rows of the large statement.
const ROWS: usize = 120_000;
/// Number of small transactions after the large statement.
const TRANSACTIONS: usize = 8_000;

/// Writes such a log to `directory/NAME.binlog`, from a server with these options.
///
/// # Errors
/// Fails if the server does not start, or refuses a statement.
pub fn record(options: &[&str], name: &str, directory: &Path) -> Result<()> {
    let options = options.iter().copied().chain(["--max-binlog-size=1G"]);
    let mut server = Launch::mysql().options(options).start()?;
    let mut sql = format!(
        "create database large; use large; set session cte_max_recursion_depth = {ROWS};
         create table t (id int primary key, a varchar(100), d decimal(12, 3), at datetime(6));
         insert into t with recursive r (n) as (select 1 union all select n + 1 from r where n < {ROWS})
           select n, repeat(char(97 + n % 26), n % 100), n / 7, from_unixtime(1700000000 + n / 3) from r;
         update t set d = d + 1, a = concat(a, id % 10);\n"
    );
    for number in 1..=TRANSACTIONS {
        let id = 1 + number * 7919 % ROWS;
        // The session settings change at intervals, so that chunks start under different settings.
        let (zone, second) = (number % 9, 1_600_000_000 + number);
        sql += &format!("set timestamp = {second}, time_zone = '+0{zone}:00';\n");
        sql += &match number % 5 {
            0 => format!("delete from t where id = {id};\n"),
            1 => format!(
                "begin; update t set a = 'one' where id = {id}; update t set d = null where id = {id}; commit;\n"
            ),
            2 => format!("set names latin1; update t set at = now(6) where id = {id}; set names utf8mb4;\n"),
            _ => format!("replace into t values ({id}, 'é', {number}, now());\n"),
        };
    }
    server.sql(&sql)?;
    server.stop()?;
    let log = server.binlogs()?.pop().context("the server has no log")?;
    fs::copy(log, directory.join(name).with_extension("binlog"))?;
    Ok(())
}
