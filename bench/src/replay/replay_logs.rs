//! Creates the logs to apply with real servers, and keeps them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use testkit::{Launch, TestServer, wait_until};

use super::start_tables::{
    OPTIONS, SMALL_TABLE_ROWS, SMALL_TABLES, StartTables, TABLE_ROWS, TABLES, logs_directory,
    stop_with_small_redo_log,
};
use crate::workloads::{self, Workload};

/// Number of sessions that write to the source at once.
const SESSIONS: usize = 16;
/// Number of rows in each transaction of [`ReplayLogKind::Inserts`], and number of rows for each transaction of
/// sysbench's.
const INSERTED_ROWS: usize = 1024;
const INSERTED_FOR_EACH: usize = 4;

/// Number of tables in each transaction of [`ReplayLogKind::Tables`], and of updated rows in each of them.
const TABLES_UPDATED: usize = 5;
const ROWS_UPDATED: usize = 2;

/// Duration of TPC-C for each transaction of sysbench's.
const TPCC_TIME: Duration = Duration::from_micros(600);

/// Kind of a log, by its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum ReplayLogKind {
    /// `sysbench oltp_write_only`: two updates, a delete and an insert each; some rows change repeatedly
    Sysbench,
    /// The sysbench log, compressed
    Compressed,
    /// Two updates, a delete and an insert each; no row changes twice
    Apart,
    /// Inserts of 1,024 rows each
    Inserts,
    /// One UPDATE of all 2.7 million rows of a table
    Bulk,
    /// Ten updates in five of 2,000 tables each
    Tables,
    /// TPC-C with ten warehouses: one minute for 100,000 transactions of sysbench
    Tpcc,
}

impl ReplayLogKind {
    pub(super) const ALL: [Self; 7] =
        [Self::Sysbench, Self::Compressed, Self::Apart, Self::Inserts, Self::Bulk, Self::Tables, Self::Tpcc];

    /// Returns the name of the page's block for the table.
    pub(super) fn block(self) -> &'static str {
        match self {
            Self::Sysbench => "sysbench",
            Self::Compressed => "compressed",
            Self::Apart => "apart",
            Self::Inserts => "inserts",
            Self::Bulk => "bulk",
            Self::Tables => "tables",
            Self::Tpcc => "tpcc",
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sysbench => "sysbench",
            Self::Compressed => "sysbench, compressed",
            Self::Apart => "no row twice",
            Self::Inserts => "1,024-row inserts",
            Self::Bulk => "bulk update",
            Self::Tables => "2,000 tables",
            Self::Tpcc => "TPC-C",
        }
    }

    /// Returns the tables that the log starts from.
    pub(super) fn start(self) -> StartTables {
        match self {
            Self::Sysbench | Self::Compressed | Self::Apart | Self::Inserts => StartTables::Sysbench,
            Self::Bulk => StartTables::Employees,
            Self::Tables => StartTables::Small,
            Self::Tpcc => StartTables::Tpcc,
        }
    }
}

/// Created log with its data directories.
pub(super) struct PreparedReplayLog {
    pub(super) kind: ReplayLogKind,
    directory: PathBuf,
    facts: ReplayLogFacts,
}

/// Properties of a log.
#[derive(Clone, Serialize, Deserialize)]
struct ReplayLogFacts {
    transactions: u64,
    /// GTIDs that the source had executed at the log's end.
    gtids: String,
    /// Checksums of the source's tables at the log's end.
    checksums: String,
}

impl PreparedReplayLog {
    /// Returns the number of transactions.
    pub(super) fn transactions(&self) -> u64 {
        self.facts.transactions
    }

    pub(super) fn gtids(&self) -> &str {
        &self.facts.gtids
    }

    pub(super) fn log(&self) -> PathBuf {
        self.directory.join("binlog.000001")
    }

    /// Returns the size of the log in bytes.
    pub(super) fn size(&self) -> Result<u64> {
        Ok(fs::metadata(self.log())?.len())
    }

    /// Returns the data directory of a replica that has received the log and applied nothing of it.
    pub(super) fn received(&self) -> PathBuf {
        self.directory.join("received")
    }

    /// Checks that a server's tables have the same checksums as the source's.
    pub(super) fn check(&self, server: &TestServer) -> Result<()> {
        let found = self.kind.start().checksums(server)?;
        let expected = &self.facts.checksums;
        ensure!(
            found == *expected,
            "the data differs from the source's: checksums are {found}; expected {expected}"
        );
        Ok(())
    }
}

/// Returns the log of a kind, and creates it if it is missing.
pub(super) fn prepare(kind: ReplayLogKind, transactions: u32, bintide: &Path) -> Result<PreparedReplayLog> {
    let directory = logs_directory().join(format!("{}-{transactions}", kind.block()));
    let facts = directory.join("facts.json");
    if !facts.exists() {
        eprintln!("creating the log {}", kind.name());
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)?;
        let made = match kind {
            ReplayLogKind::Compressed => compress_log(transactions, &directory, bintide)?,
            _ => write_log(kind, transactions as usize, &directory)?,
        };
        receive_log(kind, &directory)?;
        // Written last: without this file, everything is created again.
        fs::write(&facts, serde_json::to_vec(&made)?)?;
    }
    let facts = serde_json::from_slice(&fs::read(&facts)?).context("facts.json of the log is damaged")?;
    Ok(PreparedReplayLog { kind, directory, facts })
}

/// Returns the launch of a source that has these tables and an empty log.
fn launch_source(start: StartTables) -> Result<Launch> {
    Ok(Launch::mysql().options(OPTIONS).uuid(workloads::SOURCE_UUID).data(start.directory()?))
}

/// Lets a server write the log.
fn write_log(kind: ReplayLogKind, transactions: usize, directory: &Path) -> Result<ReplayLogFacts> {
    let server = launch_source(kind.start())?.start()?;
    let before = server.gtid_executed()?;
    match kind {
        ReplayLogKind::Sysbench | ReplayLogKind::Compressed => {
            let (threads, events) = (format!("--threads={SESSIONS}"), format!("--events={transactions}"));
            let arguments = ["--rand-seed=5", &threads, &events, "--time=0", "run"];
            workloads::sysbench(&server, "oltp_write_only", &arguments)?;
        }
        ReplayLogKind::Apart => run_sessions(&server, |session| disjoint_changes(session, transactions))?,
        ReplayLogKind::Inserts => run_sessions(&server, |session| inserts(session, transactions))?,
        ReplayLogKind::Bulk => workloads::run(Workload::Update, &server)?,
        ReplayLogKind::Tables => run_sessions(&server, |session| small_updates(session, transactions))?,
        ReplayLogKind::Tpcc => workloads::run_tpcc(&server, SESSIONS, TPCC_TIME * transactions as u32)?,
    }
    let gtids = server.gtid_executed()?;
    let logs = server.binlogs()?;
    let [log] = &logs[..] else { bail!("the source wrote {} logs: expected 1", logs.len()) };
    server.sql("flush binary logs")?;
    fs::copy(log, directory.join("binlog.000001"))?;
    let news = server.sql(&format!("select gtid_subtract('{gtids}', '{before}')"))?;
    let transactions = count_gtids(news.trim()).with_context(|| format!("no count of GTIDs in {news}"))?;
    Ok(ReplayLogFacts { transactions, gtids, checksums: kind.start().checksums(&server)? })
}

/// Runs one script in each of several sessions at once.
fn run_sessions(server: &TestServer, script: impl Fn(usize) -> String + Sync) -> Result<()> {
    thread::scope(|scope| {
        let threads: Vec<_> = (0..SESSIONS)
            .map(|session| {
                scope.spawn({
                    let script = &script;
                    move || server.sql(&script(session))
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| anyhow!("the thread of a session panicked"))??;
        }
        Ok(())
    })
}

/// Returns the session's share of transactions, none of which change the same rows.
fn disjoint_changes(session: usize, transactions: usize) -> String {
    let mut sql = "use sbtest;\n".to_owned();
    for number in (session..transactions).step_by(SESSIONS) {
        let (table, nth) = (number % TABLES + 1, number / TABLES);
        let ([one, two, three], new) = (disjoint_rows(nth), TABLE_ROWS + 1 + nth);
        sql += &format!(
            "begin; update sbtest{table} set k = k + 1 where id = {one}; \
             update sbtest{table} set c = reverse(c) where id = {two}; \
             delete from sbtest{table} where id = {three}; \
             insert into sbtest{table} values ({new}, {nth}, repeat(sha2({new}, 224), 2), sha2({nth}, 224)); \
             commit;\n"
        );
    }
    sql
}

/// Returns the rows that the nth transaction of a table changes. They are spread over the table.
fn disjoint_rows(nth: usize) -> [usize; 3] {
    // Coprime with the number of rows, so that each row occurs once.
    const STRIDE: usize = 48_271;
    [0, 1, 2].map(|which| (3 * nth + which) * STRIDE % TABLE_ROWS + 1)
}

/// Returns the session's share of large inserts.
fn inserts(session: usize, transactions: usize) -> String {
    let count = transactions * INSERTED_FOR_EACH / INSERTED_ROWS;
    let mut sql = format!("use sbtest; set cte_max_recursion_depth = {INSERTED_ROWS};\n");
    for number in (session..count).step_by(SESSIONS) {
        let (table, first) = (number % TABLES + 1, TABLE_ROWS + number / TABLES * INSERTED_ROWS);
        sql += &format!(
            "insert into sbtest{table} with recursive r (n) as (select 1 union all select n + 1 from r where n < {INSERTED_ROWS}) \
             select {first} + n, n * 977 % {TABLE_ROWS}, repeat(sha2({first} + n, 224), 2), sha2(n, 224) from r;\n"
        );
    }
    sql
}

/// Returns the session's share of transactions that update rows of several small tables.
fn small_updates(session: usize, transactions: usize) -> String {
    let mut sql = "use small;\n".to_owned();
    for number in (session..transactions).step_by(SESSIONS) {
        sql += "begin;";
        for nth in 0..TABLES_UPDATED {
            // Coprime with the number of tables, so that the sessions are rarely in the same table.
            let (table, row) =
                ((number * TABLES_UPDATED + nth) * 977 % SMALL_TABLES, number % SMALL_TABLE_ROWS);
            let ids: Vec<String> =
                (0..ROWS_UPDATED).map(|next| ((row + next) % SMALL_TABLE_ROWS + 1).to_string()).collect();
            sql += &format!(" update t{table} set n = n + 1 where id in ({});", ids.join(","));
        }
        sql += " commit;\n";
    }
    sql
}

/// Compresses sysbench's log as a server does.
fn compress_log(transactions: u32, directory: &Path, bintide: &Path) -> Result<ReplayLogFacts> {
    let plain = prepare(ReplayLogKind::Sysbench, transactions, bintide)?;
    let mut command = Command::new(bintide);
    command.args(["compress", "--quiet", "--like-server", "--output"]).arg(directory).arg(plain.log());
    let output = command.output().context("could not run bintide")?;
    ensure!(output.status.success(), "bintide failed: {}", String::from_utf8_lossy(&output.stderr));
    Ok(plain.facts)
}

/// Lets a replica receive the log from a source that has it as its own log.
fn receive_log(kind: ReplayLogKind, directory: &Path) -> Result<()> {
    let mut source = launch_source(kind.start())?.start()?;
    source.stop()?;
    fs::copy(directory.join("binlog.000001"), source.datadir().join("binlog.000001"))?;
    source.start_again(&[])?;
    let all = source.gtid_executed()?;
    let options = ["--server-id=3", "--skip-log-bin", "--relay-log=relay", "--max-relay-log-size=1G"];
    let mut replica =
        Launch::mysql().options(OPTIONS).options(options).data(kind.start().directory()?).start()?;
    replica.set_source(&source)?;
    replica.sql("start replica io_thread")?;
    let query = format!(
        "select gtid_subset('{all}', concat(received_transaction_set, ',', @@gtid_executed))
           from performance_schema.replication_connection_status"
    );
    wait_until("the log on the replica", || Ok(replica.sql(&query)?.trim() == "1"))?;
    replica.sql("stop replica")?;
    stop_with_small_redo_log(&mut replica)?;
    fs::rename(replica.datadir(), directory.join("received")).context("could not keep the data directory")
}

/// Returns the number of transactions in a GTID set of one range of one server.
fn count_gtids(gtids: &str) -> Option<u64> {
    let (_, range) = gtids.rsplit_once(':')?;
    let (first, last) = range.split_once('-').unwrap_or((range, range));
    Some(last.parse::<u64>().ok()? - first.parse::<u64>().ok()? + 1)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::{TABLE_ROWS, TABLES, count_gtids, disjoint_rows};

    #[test]
    fn gtid_sets_are_counted() {
        assert_eq!(["a:1-10", "a:7", "a"].map(count_gtids), [Some(10), Some(1), None]);
    }

    #[test]
    fn each_row_occurs_once() {
        let each_table = 100_000 / TABLES;
        let rows: HashSet<usize> = (0..each_table).flat_map(disjoint_rows).collect();
        assert_eq!(rows.len(), 3 * each_table);
        assert!(rows.iter().all(|id| (1..=TABLE_ROWS).contains(id)));
    }
}
