//! The five workloads whose compression is usually quoted, run on a real server: their logs, plain and
//! compressed, are what the benches read. Each run writes the same transactions; only its clock differs.
//!
//! | workload | what it is |
//! |---|---|
//! | load | an employees-like database loaded by large INSERTs |
//! | update | one UPDATE of every row of its largest table |
//! | prepare | `sysbench oltp_read_write prepare`: 4 tables of 100,000 rows |
//! | oltp | `sysbench oltp_read_write run`: 15,000 small transactions |
//! | delete | 100,000 DELETEs of one row each |

mod employees;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use testkit::{Home, Launch, Package, Server};

/// To be raised when a workload changes, so that logs made before are made again.
pub(crate) const REVISION: u32 = 2;

/// Of the server, so that its GTIDs are the same each time.
const SERVER_UUID: &str = "b0a7c3d2-5e1f-4a6b-9c8d-0123456789ab";

/// How many employees: those of the well-known sample database.
const EMPLOYEES: usize = 300_024;
/// Rows that the delete workload removes, one by one.
const DELETES: usize = 100_000;

/// One of the five.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    Load,
    Update,
    Prepare,
    Oltp,
    Delete,
}

/// Whether the server compressed the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
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

impl Form {
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

/// Makes all logs that are not there yet, and says where they are.
pub(crate) fn make_all() -> Result<()> {
    for form in Form::ALL {
        for workload in Workload::ALL {
            let path = log(workload, form)?;
            println!("{:>11}  {}", fs::metadata(&path)?.len(), path.display());
        }
    }
    Ok(())
}

/// The log of a workload, made now if it is not there.
pub(crate) fn log(workload: Workload, form: Form) -> Result<PathBuf> {
    let folder = testkit::target_dir().join(format!("workloads/{REVISION}-{}", form.name()));
    if !folder.exists() {
        let part = folder.with_extension("part");
        if part.exists() {
            fs::remove_dir_all(&part)?;
        }
        fs::create_dir_all(&part)?;
        eprintln!("running the five workloads on a real server ({})", form.name());
        run_all(form, &part)?;
        fs::rename(&part, &folder)?;
    }
    Ok(folder.join(workload.name()).with_extension("binlog"))
}

fn run_all(form: Form, folder: &Path) -> Result<()> {
    let server = launch().option(form.option()).start()?;
    run_each(&server, |workload, log| {
        fs::copy(log, folder.join(workload.name()).with_extension("binlog"))?;
        Ok(())
    })
}

/// A server that can take the workloads.
pub(crate) fn launch() -> Launch {
    let options = ["--max-binlog-size=1G", "--innodb-buffer-pool-size=2G", "--innodb-redo-log-capacity=2G"];
    Launch::mysql().options(options).uuid(SERVER_UUID)
}

/// Runs the workloads one after the other, each into a log of its own, which `taken` gets when the server has
/// closed it.
pub(crate) fn run_each(server: &Server, mut taken: impl FnMut(Workload, &Path) -> Result<()>) -> Result<()> {
    server.sql("create database sbtest; flush binary logs")?;
    for workload in Workload::ALL {
        run(workload, server)?;
        let log = server.binlogs()?.pop().context("the server has no log")?;
        server.sql("flush binary logs")?;
        taken(workload, &log)?;
    }
    Ok(())
}

/// Runs one of them; each needs those before it.
pub(crate) fn run(workload: Workload, server: &Server) -> Result<()> {
    match workload {
        Workload::Load => server.sql(&employees::sql(EMPLOYEES))?,
        Workload::Update => server.sql("update employees.salaries set salary = salary + 1")?,
        Workload::Prepare => return sysbench(server, "oltp_read_write", &["--rand-seed=11", "prepare"]),
        // One thread: several would take turns by chance.
        Workload::Oltp => {
            let arguments = ["--rand-seed=11", "--threads=1", "--events=15000", "--time=0", "run"];
            return sysbench(server, "oltp_read_write", &arguments);
        }
        Workload::Delete => {
            let deletes = (1..=DELETES).map(|id| format!("delete from sbtest.sbtest1 where id = {id};\n"));
            server.sql(&deletes.collect::<String>())?
        }
    };
    Ok(())
}

/// Runs one of sysbench's scripts on the database `sbtest`: 4 tables of 100,000 rows.
pub(crate) fn sysbench(server: &Server, script: &str, arguments: &[&str]) -> Result<()> {
    let home = Home::find(Package::Sysbench)?;
    let mut command: Command = home.command("sysbench")?;
    command.arg(script).args(["--db-driver=mysql", "--mysql-user=root", "--mysql-db=sbtest"]);
    command.arg(format!("--mysql-socket={}", server.socket().display()));
    command.args(["--tables=4", "--table-size=100000"]).args(arguments);
    // Where its scripts and its client library's plugins are, when it is not installed.
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

fn client_plugins(home: &Home) -> Option<PathBuf> {
    let folders = fs::read_dir(home.prefix().join("lib")).ok()?.flatten();
    folders.map(|entry| entry.path().join("libmariadb3/plugin")).find(|path| path.is_dir())
}
