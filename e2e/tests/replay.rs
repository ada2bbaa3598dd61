//! Logs of a real server applied to another one: equal tables, nothing twice, whatever stops it on the way.

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use e2e::workload;
use replay::order::CommitOrder;
use replay::{Log, MysqlTarget, Observer, Options, Report, Source};
use servers::Address;
use tempfile::TempDir;
use testkit::{Launch, Server};

/// Sample scripts whose transactions are of many kinds, and say the same wherever they are run.
const SCRIPTS: [&str; 13] = [
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

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples")
}

/// A source that has run the scripts, and is down.
fn source(launch: &Launch, scripts: &[&str]) -> Result<Server> {
    let source = launch.clone().option("--server-id=1").start()?;
    for script in scripts {
        let path = samples().join(script).with_extension("sql");
        let sql = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        source.sql(&sql)?;
        source.sql("flush binary logs")?;
    }
    Ok(source)
}

fn target(log: &str) -> Result<Server> {
    Launch::mysql().options(["--server-id=2", "--local-infile=1", log]).start()
}

struct Quiet;

impl Observer for Quiet {
    fn at(&mut self, _: u64, _: &Report) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

fn replay_all(logs: &[PathBuf], target: &Server, order: CommitOrder) -> Result<Report> {
    let text = format!("mysql://root@localhost/?socket={}", target.socket().display());
    let opened = MysqlTarget::open(Address::parse(&text)?)?;
    let logs = logs.iter().cloned().map(Log::File).collect();
    let mut source = Source::new(logs, None, 1 << 30);
    Ok(replay::replay(&mut source, &opened, &Options { order, group_max: 1000 }, &mut Quiet)?)
}

/// Every table of every database but our own, and its checksum.
fn checksums(server: &Server) -> Result<Vec<String>> {
    let tables = server.sql(
        "select concat('`', replace(table_schema, '`', '``'), '`.`', replace(table_name, '`', '``'), '`')
         from information_schema.tables where table_type = 'BASE TABLE'
           and table_schema not in ('mysql', 'sys', 'performance_schema', 'information_schema', 'bintide')
         order by 1",
    )?;
    tables.lines().map(|table| server.sql(&format!("checksum table {table}"))).collect()
}

fn executed(server: &Server) -> Result<String> {
    Ok(server.sql("select replace(@@global.gtid_executed, '\\n', '')")?.trim().to_owned())
}

fn ends_equal(source: &Server, target: &Server) -> Result<()> {
    let (ours, theirs) = (checksums(target)?, checksums(source)?);
    ensure!(theirs.len() > 1, "there are tables");
    for (ours, theirs) in ours.iter().zip(&theirs) {
        ensure!(ours == theirs, "the target has {ours}, the source {theirs}");
    }
    ensure!(ours.len() == theirs.len(), "{ours:?} {theirs:?}");
    let all = executed(source)?;
    let has_all = target.sql(&format!("select gtid_subset('{all}', @@global.gtid_executed)"))?;
    ensure!(has_all.trim() == "1", "the target's account lacks some: {}", executed(target)?);
    Ok(())
}

/// Twice: the second time there is nothing left to do.
fn applies(source: &Server, target: &Server, order: CommitOrder) -> Result<()> {
    let first = replay_all(&source.binlogs()?, target, order)?;
    ensure!(first.transactions > 20 && first.skipped == 0, "{first:?}");
    ends_equal(source, target)?;
    let again = replay_all(&source.binlogs()?, target, order)?;
    ensure!(again.transactions == 0 && again.skipped >= first.transactions, "{again:?}");
    ends_equal(source, target)
}

#[test]
fn samples_end_equal_on_a_target_without_a_binary_log() -> Result<()> {
    let source = source(&Launch::mysql(), &SCRIPTS)?;
    applies(&source, &target("--skip-log-bin")?, CommitOrder::Strict)?;
    applies(&source, &target("--skip-log-bin")?, CommitOrder::Grouped)
}

#[test]
fn samples_end_equal_on_a_target_with_a_binary_log_which_stays_empty() -> Result<()> {
    let source = source(&Launch::mysql().option("--binlog-transaction-compression=ON"), &SCRIPTS)?;
    let target = target("--log-bin=binlog")?;
    applies(&source, &target, CommitOrder::Grouped)?;
    let own = target.sql("select @@server_uuid")?;
    ensure!(
        !executed(&target)?.contains(own.trim()),
        "the target counts none of its own: {}",
        executed(&target)?
    );
    for log in target.binlogs()? {
        let name = log.file_name().context("a name")?.to_string_lossy().into_owned();
        let events = target.sql(&format!("show binlog events in '{name}'"))?;
        ensure!(!events.contains("Write_rows") && !events.contains("Query"), "{events}");
    }
    Ok(())
}

#[test]
fn random_sql_ends_equal() -> Result<()> {
    let folder = TempDir::new()?;
    for seed in 41..44 {
        let name = format!("random-{seed}");
        let source = workload::record_on(seed, &name, folder.path())?;
        let target = target("--skip-log-bin")?;
        let report = replay_all(&source.binlogs()?, &target, CommitOrder::Grouped);
        report.with_context(|| format!("seed {seed}"))?;
        let (ours, theirs) = (checksums(&target)?, checksums(&source)?);
        ensure!(ours == theirs, "seed {seed}: the target has {ours:?}, the source {theirs:?}");
    }
    Ok(())
}

#[test]
fn a_target_that_is_killed_loses_nothing_and_repeats_nothing() -> Result<()> {
    let source = source(&Launch::mysql(), &[])?;
    source.sql("create database d; create table d.t (id int primary key auto_increment, n int)")?;
    let changes = "insert into d.t (n) values (1); update d.t set n = n + 1;".repeat(200);
    source.sql(&changes)?;
    source.sql("create table d.u as select * from d.t; alter table d.t add column m int default 7")?;
    source.sql("flush binary logs")?;
    for (log, pauses) in [("--skip-log-bin", [20, 60, 150, 300]), ("--log-bin=binlog", [35, 90, 200, 400])] {
        let mut target = target(log)?;
        for pause in pauses {
            let logs = source.binlogs()?;
            let result = std::thread::scope(|scope| {
                let socket = target.socket().to_owned();
                let run = scope.spawn(move || replay_to(&logs, &socket));
                std::thread::sleep(std::time::Duration::from_millis(pause));
                target.kill()?;
                run.join().map_err(|_| anyhow::anyhow!("the replay panics"))
            });
            drop(result?);
            target.start_again(&[])?;
        }
        replay_all(&source.binlogs()?, &target, CommitOrder::Strict)?;
        ends_equal(&source, &target)?;
    }
    Ok(())
}

fn replay_to(logs: &[PathBuf], socket: &Path) -> Result<Report> {
    let text = format!("mysql://root@localhost/?socket={}", socket.display());
    let opened = MysqlTarget::open(Address::parse(&text)?)?;
    let logs = logs.iter().cloned().map(Log::File).collect();
    let options = Options { order: CommitOrder::Strict, group_max: 1000 };
    Ok(replay::replay(&mut Source::new(logs, None, 1 << 30), &opened, &options, &mut Quiet)?)
}
