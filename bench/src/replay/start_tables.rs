//! Creates the data directories that the logs are applied to, with real servers, and keeps them.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use testkit::{Launch, TestServer, wait_until};

use crate::workloads::{self, Workload};

/// Revision of the created files. Increase it when they change.
const REVISION: u32 = 2;

/// Number of sysbench's tables, and of rows in each.
pub(super) const TABLES: usize = 4;
pub(super) const TABLE_ROWS: usize = 100_000;

/// Number of tables of [`StartTables::Small`], and of rows in each.
pub(super) const SMALL_TABLES: usize = 2000;
pub(super) const SMALL_TABLE_ROWS: usize = 100;

/// Options of all servers: memory for all data, and a large redo log, so that no writes wait for pages.
pub(super) const OPTIONS: [&str; 4] = [
    "--innodb-buffer-pool-size=2G",
    "--innodb-redo-log-capacity=1073741824",
    "--innodb-buffer-pool-load-at-startup=OFF",
    "--max-binlog-size=1G",
];

/// Size of the redo log in bytes, as in the options.
const REDO_SIZE: u64 = 1 << 30;

/// Tables that a log starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartTables {
    /// Sysbench's four tables of 100,000 rows
    Sysbench,
    /// A database like the employees sample: its largest table has 2.7 million rows
    Employees,
    /// 2,000 tables of 100 rows
    Small,
    /// Ten warehouses of TPC-C
    Tpcc,
}

impl StartTables {
    /// Returns the data directory with these tables, and creates it if it is missing.
    pub(super) fn directory(self) -> Result<PathBuf> {
        let directory = logs_directory().join(self.directory_name());
        if !directory.exists() {
            eprintln!("creating the tables");
            let mut server = Launch::mysql().options(OPTIONS).uuid(workloads::SOURCE_UUID).start()?;
            self.create(&server)?;
            stop_with_small_redo_log(&mut server)?;
            for entry in fs::read_dir(server.datadir())? {
                let entry = entry?;
                let name = entry.file_name();
                if name == "auto.cnf" || name.to_string_lossy().starts_with("binlog.") {
                    fs::remove_file(entry.path())?;
                }
            }
            fs::create_dir_all(logs_directory())?;
            fs::rename(server.datadir(), &directory).context("could not keep the data directory")?;
        }
        Ok(directory)
    }

    fn directory_name(self) -> &'static str {
        match self {
            Self::Sysbench => "base",
            Self::Employees => "base-employees",
            Self::Small => "base-small",
            Self::Tpcc => "base-tpcc",
        }
    }

    fn create(self, server: &TestServer) -> Result<()> {
        match self {
            Self::Sysbench => {
                server.sql("create database sbtest")?;
                workloads::sysbench(server, "oltp_write_only", &["--rand-seed=11", "prepare"])
            }
            Self::Employees => workloads::run(Workload::Load, server),
            Self::Small => server.sql(&small_tables()).map(drop),
            Self::Tpcc => workloads::prepare_tpcc(server),
        }
    }

    /// Returns the names of the tables.
    fn tables(self) -> Vec<String> {
        match self {
            Self::Sysbench => (1..=TABLES).map(|table| format!("sbtest.sbtest{table}")).collect(),
            Self::Employees => {
                ["employees", "titles", "salaries"].map(|table| format!("employees.{table}")).to_vec()
            }
            Self::Small => (0..SMALL_TABLES).map(|table| format!("small.t{table}")).collect(),
            Self::Tpcc => workloads::TPCC_TABLES.map(|table| format!("tpcc.{table}")).to_vec(),
        }
    }

    /// Returns the checksums of all tables, in one line.
    pub(super) fn checksums(self, server: &TestServer) -> Result<String> {
        let text = server.sql(&format!("checksum table {}", self.tables().join(", ")))?;
        Ok(text.lines().filter_map(|line| line.split('\t').nth(1)).collect::<Vec<_>>().join(" "))
    }

    /// Prepares a server for a run: reads all rows into memory, and waits for the large redo log.
    pub(super) fn warm_up(self, server: &TestServer) -> Result<()> {
        self.checksums(server)?;
        wait_for_redo_log(server, REDO_SIZE)
    }
}

/// Returns the SQL that creates [`StartTables::Small`].
fn small_tables() -> String {
    let mut sql = "create database small; use small; create table seed (id int primary key);\n".to_owned();
    let rows: Vec<String> = (1..=SMALL_TABLE_ROWS).map(|id| format!("({id})")).collect();
    let _ = writeln!(sql, "insert into seed values {};", rows.join(","));
    for table in 0..SMALL_TABLES {
        let _ = writeln!(
            sql,
            "create table t{table} (id int primary key, n int not null, v varchar(100) not null);
             insert into t{table} select id, 0, repeat('v', 20 + id % 60) from seed;"
        );
    }
    sql
}

/// Returns the directory of the created files.
pub(super) fn logs_directory() -> PathBuf {
    testkit::target_dir().join(format!("bench/replay-{REVISION}"))
}

/// Stops a server after shrinking its redo log to the minimum, because the data directory is copied for each run.
pub(super) fn stop_with_small_redo_log(server: &mut TestServer) -> Result<()> {
    const LEAN: u64 = 8 << 20;
    server.sql(&format!("set global innodb_redo_log_capacity = {LEAN}"))?;
    wait_for_redo_log(server, LEAN)?;
    server.stop()
}

/// Waits until the redo log has this size in bytes.
fn wait_for_redo_log(server: &TestServer, size: u64) -> Result<()> {
    let query = "select variable_value from performance_schema.global_status
        where variable_name = 'Innodb_redo_log_capacity_resized'";
    wait_until("the size of the redo log", || Ok(server.sql(query)?.trim().parse() == Ok(size)))
}
