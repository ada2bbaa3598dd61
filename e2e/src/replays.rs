//! Applies logs to another server, and compares the two servers.

use std::fs;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use mysql_target::MysqlTarget;
use replay::CommitOrder;
use replay::schedule::ParallelMode;
use replay::{
    GapPolicy, ReplayLog, ReplayObserver, ReplayOptions, ReplayReport, ReplayStatus, ReplayTarget,
    TransactionSelection, TransactionSource,
};
use servers::ServerAddress;
use sql::ReplicationFilter;
use testkit::{Launch, TestServer};

/// Sample scripts with transactions of many kinds, which give the same rows on every server.
pub const SCRIPTS: [&str; 13] = [
    "types",
    "json",
    "triggers",
    "savepoints",
    "foreign-keys",
    "partitions",
    "gtids",
    "ddl",
    "xa",
    "charsets",
    "invisible-keys",
    "mixed-engines",
    "rotation",
];

/// Returns the SQL of a sample script.
///
/// # Errors
///
/// Fails if the script cannot be read.
pub fn script(name: &str) -> Result<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples").join(name).with_extension("sql");
    fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
}

/// Starts a source and runs these sample scripts on it.
///
/// # Errors
///
/// Fails if the server does not start, or refuses a script.
pub fn source(launch: &Launch, scripts: &[&str]) -> Result<TestServer> {
    let source = launch.clone().option("--server-id=1").start()?;
    for script in scripts {
        source.sql(&self::script(script)?)?;
        source.sql("flush binary logs")?;
    }
    Ok(source)
}

/// Runs statements for replays that are killed: the given numbers of changes that give different rows if they are
/// applied twice, of definitions, and of tables created from queries.
///
/// # Errors
///
/// Fails if the source refuses a statement.
pub fn run_repeat_sensitive_changes(source: &TestServer, changes: usize, definitions: usize) -> Result<()> {
    source.sql("create database d; create table d.t (id int primary key auto_increment, n int)")?;
    source.sql(&"insert into d.t (n) values (1); update d.t set n = n + 1;".repeat(changes))?;
    source.sql("create table d.v (n int)")?;
    let definition = "insert into d.v values (1), (2); alter table d.v add index i (n);
                      delete from d.v limit 1; alter table d.v drop index i;
                      create table d.u as select * from d.t; drop table d.u;";
    source.sql(&definition.repeat(definitions))?;
    source.sql("create table d.u as select * from d.t; flush binary logs")?;
    Ok(())
}

/// Starts a target with this option for its binary log.
///
/// # Errors
///
/// Fails if the server does not start.
pub fn target(log: &str) -> Result<TestServer> {
    Launch::mysql().options(["--server-id=2", "--local-infile=1", log]).start()
}

/// Returns options with this commit order and four workers.
pub fn options(order: CommitOrder) -> ReplayOptions {
    let mode =
        if order == CommitOrder::Grouped { ParallelMode::Writeset } else { ParallelMode::LogicalClock };
    let workers = NonZeroUsize::MIN.saturating_add(3);
    ReplayOptions {
        order,
        group_max: 1000,
        memory: 300 << 20,
        workers,
        mode,
        selection: TransactionSelection::default(),
        filter: ReplicationFilter::default(),
        gap: GapPolicy::Refuse,
    }
}

/// A monitor that reports nothing.
pub struct SilentObserver;

impl ReplayObserver for SilentObserver {
    fn on_status(&mut self, _: &ReplayStatus<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Applies logs to a target.
///
/// # Errors
///
/// Fails if the replay fails.
pub fn replay_on(
    target: &dyn ReplayTarget,
    logs: &[PathBuf],
    options: &ReplayOptions,
) -> Result<ReplayReport> {
    let logs = logs.iter().cloned().map(ReplayLog::File).collect();
    Ok(replay::replay(
        &mut TransactionSource::new(logs, None, 1 << 30),
        target,
        options,
        &mut SilentObserver,
    )?)
}

/// Applies logs to the server behind a socket.
///
/// # Errors
///
/// Fails if the replay fails.
pub fn replay_to(logs: &[PathBuf], socket: &Path, options: &ReplayOptions) -> Result<ReplayReport> {
    let text = format!("mysql://root@localhost/?socket={}", socket.display());
    replay_on(&MysqlTarget::open(ServerAddress::parse(&text)?)?, logs, options)
}

/// Replays with the command: kills it after each of these numbers of milliseconds, then lets it finish.
///
/// # Errors
///
/// Fails if the last run fails.
pub fn kill_and_resume(
    command: impl Fn() -> Result<Command>,
    pauses: impl IntoIterator<Item = u64>,
) -> Result<()> {
    let command = || -> Result<Command> {
        let mut command = command()?;
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        Ok(command)
    };
    for pause in pauses {
        let mut child = command()?.spawn()?;
        thread::sleep(Duration::from_millis(pause));
        child.kill()?;
        child.wait()?;
    }
    let output = command()?.output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}

/// Returns the quoted names of all tables in order, except bintide's own and the system tables.
///
/// # Errors
///
/// Fails if a query fails.
pub fn tables(server: &TestServer) -> Result<Vec<String>> {
    let tables = server.sql(
        "select concat('`', replace(table_schema, '`', '``'), '`.`', replace(table_name, '`', '``'), '`')
         from information_schema.tables where table_type = 'BASE TABLE'
           and table_schema not in ('mysql', 'sys', 'performance_schema', 'information_schema', 'bintide')",
    )?;
    // Servers sort names in different orders.
    let mut tables: Vec<String> = tables.lines().map(str::to_owned).collect();
    tables.sort_unstable();
    Ok(tables)
}

/// Returns a table's checksum; comparable only between servers of the same kind.
///
/// # Errors
///
/// Fails if the query fails.
pub fn checksum(server: &TestServer, table: &str) -> Result<String> {
    server.sql(&format!("checksum table {table}"))
}

/// Returns the name and checksum of each table of [`tables`].
///
/// # Errors
///
/// Fails if a query fails.
pub fn checksums(server: &TestServer) -> Result<Vec<String>> {
    let tables = tables(server)?;
    if tables.is_empty() {
        return Ok(Vec::new());
    }
    Ok(checksum(server, &tables.join(", "))?.lines().map(str::to_owned).collect())
}

/// Checks that both have the same tables with the same rows, and that the target counts all GTIDs of the source.
///
/// # Errors
///
/// Fails if one of these conditions does not hold.
pub fn ends_equal(source: &TestServer, target: &TestServer) -> Result<()> {
    let (ours, theirs) = (checksums(target)?, checksums(source)?);
    ensure!(theirs.len() > 1, "the source has too few tables");
    for (ours, theirs) in ours.iter().zip(&theirs) {
        ensure!(ours == theirs, "the target has {ours}, the source {theirs}");
    }
    ensure!(ours.len() == theirs.len(), "{ours:?} {theirs:?}");
    let all = source.gtid_executed()?;
    let has_all = target.sql(&format!("select gtid_subset('{all}', @@global.gtid_executed)"))?;
    ensure!(has_all.trim() == "1", "the target's gtid_executed lacks GTIDs: {}", target.gtid_executed()?);
    Ok(())
}
