//! Five workloads that are commonly used to measure compression, run on a real server. The benches read their logs,
//! plain and compressed. Each run writes the same transactions; only the clock differs.
//!
//! | workload | content |
//! |---|---|
//! | load | a database like the employees sample, loaded by large INSERTs |
//! | update | one UPDATE of every row of its largest table |
//! | prepare | `sysbench oltp_read_write prepare`: 4 tables of 100,000 rows |
//! | oltp | `sysbench oltp_read_write run`: 15,000 small transactions |
//! | delete | 100,000 DELETEs of one row each |

mod employees;
mod tpcc;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use testkit::{Launch, PackageHome, TestPackage, TestServer};

pub(crate) use self::tpcc::{TPCC_TABLES, prepare_tpcc, run_tpcc};

/// Revision of the workloads. Increase it when a workload changes, so that existing logs are created again.
pub(crate) const REVISION: u32 = 2;

/// UUID of each server that writes logs, so that its GTIDs are always the same.
pub(super) const SOURCE_UUID: &str = "b0a7c3d2-5e1f-4a6b-9c8d-0123456789ab";

/// UUID of each replica, also on a copy of a source's data.
pub(super) const REPLICA_UUID: &str = "b0a7c3d2-5e1f-4a6b-9c8d-0123456789ac";

/// Number of employees, as in MySQL's employees sample database.
const EMPLOYEES: usize = 300_024;
/// Number of rows that the delete workload deletes, one by one.
const DELETED_ROWS: usize = 100_000;

/// One of the five workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    Load,
    Update,
    Prepare,
    Oltp,
    Delete,
}

/// Compression of the transactions by the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogCompression {
    Plain,
    Compressed,
}

impl Workload {
    pub(crate) const ALL: [Self; 5] = [Self::Load, Self::Update, Self::Prepare, Self::Oltp, Self::Delete];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Load => "load",
            Self::Update => "update",
            Self::Prepare => "prepare",
            Self::Oltp => "oltp",
            Self::Delete => "delete",
        }
    }
}

impl LogCompression {
    pub(crate) const ALL: [Self; 2] = [Self::Plain, Self::Compressed];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Compressed => "compressed",
        }
    }

    fn option(self) -> &'static str {
        match self {
            Self::Plain => "--binlog-transaction-compression=OFF",
            Self::Compressed => "--binlog-transaction-compression=ON",
        }
    }
}

/// Creates all missing logs, and prints the paths of all.
pub(crate) fn make_all_logs() -> Result<()> {
    for form in LogCompression::ALL {
        for workload in Workload::ALL {
            let path = workload_log(workload, form)?;
            println!("{:>11}  {}", fs::metadata(&path)?.len(), path.display());
        }
    }
    Ok(())
}

/// Returns the log of a workload, and creates it if it is missing.
pub(crate) fn workload_log(workload: Workload, form: LogCompression) -> Result<PathBuf> {
    let directory = testkit::target_dir().join(format!("workloads/{REVISION}-{}", form.name()));
    if !directory.exists() {
        let part = directory.with_extension("part");
        if part.exists() {
            fs::remove_dir_all(&part)?;
        }
        fs::create_dir_all(&part)?;
        eprintln!("running the five workloads on a real server ({})", form.name());
        run_all(form, &part)?;
        fs::rename(&part, &directory)?;
    }
    Ok(directory.join(workload.name()).with_extension("binlog"))
}

fn run_all(form: LogCompression, directory: &Path) -> Result<()> {
    let server = launch_server().option(form.option()).start()?;
    run_each(&server, |workload, log| {
        fs::copy(log, directory.join(workload.name()).with_extension("binlog"))?;
        Ok(())
    })
}

/// The server's default: measured servers sync their files, which servers of tests do not.
pub(crate) const SYNCED_FILES: &str = "--innodb-flush-method=O_DIRECT";

/// Returns the launch of a server with enough memory for the workloads.
pub(crate) fn launch_server() -> Launch {
    let options = ["--max-binlog-size=1G", "--innodb-buffer-pool-size=2G", "--innodb-redo-log-capacity=2G"];
    Launch::mysql().option(SYNCED_FILES).options(options).uuid(SOURCE_UUID)
}

/// Runs the workloads one after the other, each into its own log. `collect` is called with the
/// log after the server has closed it.
pub(crate) fn run_each(
    server: &TestServer,
    mut collect: impl FnMut(Workload, &Path) -> Result<()>,
) -> Result<()> {
    server.sql("create database sbtest; flush binary logs")?;
    for workload in Workload::ALL {
        run(workload, server)?;
        let log = server.binlogs()?.pop().context("the server has no log")?;
        server.sql("flush binary logs")?;
        collect(workload, &log)?;
    }
    Ok(())
}

/// Runs one workload; each needs the earlier ones.
pub(crate) fn run(workload: Workload, server: &TestServer) -> Result<()> {
    match workload {
        Workload::Load => server.sql(&employees::sql(EMPLOYEES))?,
        Workload::Update => server.sql("update employees.salaries set salary = salary + 1")?,
        Workload::Prepare => return sysbench(server, "oltp_read_write", &["--rand-seed=11", "prepare"]),
        // One thread: with several, the order of transactions would be random.
        Workload::Oltp => {
            let arguments = ["--rand-seed=11", "--threads=1", "--events=15000", "--time=0", "run"];
            return sysbench(server, "oltp_read_write", &arguments);
        }
        Workload::Delete => {
            let deletes =
                (1..=DELETED_ROWS).map(|id| format!("delete from sbtest.sbtest1 where id = {id};\n"));
            server.sql(&deletes.collect::<String>())?
        }
    };
    Ok(())
}

/// Runs one of sysbench's scripts on the database `sbtest`: 4 tables of 100,000 rows.
pub(crate) fn sysbench(server: &TestServer, script: &str, arguments: &[&str]) -> Result<()> {
    let home = PackageHome::find(TestPackage::Sysbench)?;
    let mut command: Command = home.command("sysbench")?;
    command.arg(script).args(["--db-driver=mysql", "--mysql-user=root", "--mysql-db=sbtest"]);
    command.arg(format!("--mysql-socket={}", server.socket().display()));
    command.args(["--tables=4", "--table-size=100000"]).args(arguments);
    // Paths of sysbench's scripts and of its client library's plugins, because it is not installed.
    let scripts = home.prefix().join("share/sysbench");
    command.env("LUA_PATH", format!("{}/?.lua", scripts.display())).current_dir(&scripts);
    if let Some(plugins) = client_plugins(&home) {
        command.env("MARIADB_PLUGIN_DIR", plugins);
    }
    let output = command.stdin(Stdio::null()).output().context("could not run sysbench")?;
    let text = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "sysbench failed: {}", String::from_utf8_lossy(&text));
    Ok(())
}

fn client_plugins(home: &PackageHome) -> Option<PathBuf> {
    let directories = fs::read_dir(home.prefix().join("lib")).ok()?.flatten();
    directories.map(|entry| entry.path().join("libmariadb3/plugin")).find(|path| path.is_dir())
}
