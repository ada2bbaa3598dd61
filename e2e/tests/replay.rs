//! Logs of a real server applied to another one: equal tables, nothing twice, whatever stops it on the way.

use std::collections::BTreeSet;
use std::fs;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use e2e::program::bintide;
use e2e::workload;
use replay::order::CommitOrder;
use replay::schedule::Mode;
use replay::{Gap, Log, MysqlTarget, Observer, Options, Report, Selection, Source};
use servers::{Address, Connection};
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

fn options(order: CommitOrder) -> Options {
    let workers = NonZeroUsize::MIN.saturating_add(3);
    Options {
        order,
        group_max: 1000,
        workers,
        mode: Mode::LogicalClock,
        selection: Selection::default(),
        gap: Gap::Refuse,
    }
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
    Ok(replay::replay(&mut source, &opened, &options(order), &mut Quiet)?)
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
            let result = thread::scope(|scope| {
                let socket = target.socket().to_owned();
                let run = scope.spawn(move || replay_to(&logs, &socket));
                thread::sleep(Duration::from_millis(pause));
                target.kill()?;
                run.join().map_err(|_| anyhow!("the replay panics"))
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
    let options = options(CommitOrder::Strict);
    Ok(replay::replay(&mut Source::new(logs, None, 1 << 30), &opened, &options, &mut Quiet)?)
}

/// A source that changed two counters by turns: in whatever state, the first is as far as the second, or one ahead.
fn counters() -> Result<Server> {
    let source = source(&Launch::mysql(), &[])?;
    source
        .sql("create database d; create table d.a (id int primary key, n int); create table d.b like d.a")?;
    source.sql("insert into d.a values (1, 0); insert into d.b values (1, 0)")?;
    source.sql(&"update d.a set n = n + 1; update d.b set n = n + 1;".repeat(1500))?;
    source.sql("flush binary logs")?;
    Ok(source)
}

#[test]
fn a_reader_sees_only_states_that_the_source_had() -> Result<()> {
    let source = counters()?;
    for order in [CommitOrder::Strict, CommitOrder::Grouped] {
        let target = target("--skip-log-bin")?;
        let over = AtomicBool::new(false);
        let seen = thread::scope(|scope| {
            let reader = scope.spawn(|| read_counters(target.socket(), &over));
            let replayed = replay_all(&source.binlogs()?, &target, order);
            over.store(true, Ordering::SeqCst);
            let seen = reader.join().map_err(|_| anyhow!("the reader panics"))?;
            replayed?;
            seen
        })?;
        ensure!(seen.len() > 2, "{order:?}: the reader saw {} states", seen.len());
        ends_equal(&source, &target)?;
    }
    Ok(())
}

/// The states that were seen, as the first counter has them.
fn read_counters(socket: &Path, over: &AtomicBool) -> Result<BTreeSet<i64>> {
    let address = format!("mysql://root@localhost/?socket={}", socket.display());
    let mut connection = Connection::open(&Address::parse(&address)?)?;
    let mut seen = BTreeSet::new();
    while !over.load(Ordering::SeqCst) {
        // The tables may not be there yet.
        let Ok(rows) = connection.rows("select a.n, b.n from d.a join d.b") else { continue };
        let Some([Some(a), Some(b)]) = rows.first().map(Vec::as_slice) else { continue };
        let (a, b): (i64, i64) = (str::from_utf8(a)?.parse()?, str::from_utf8(b)?.parse()?);
        ensure!(a == b || a == b + 1, "{a} and {b}: the source never had that");
        ensure!(seen.last().is_none_or(|last| *last <= a), "back to {a}");
        seen.insert(a);
    }
    Ok(seen)
}

#[test]
fn bintide_that_is_killed_goes_on_where_it_was() -> Result<()> {
    goes_on(&Launch::mysql(), &[("--skip-log-bin", "strict"), ("--log-bin=binlog", "grouped")])
}

#[test]
fn bintide_that_is_killed_goes_on_without_gtids() -> Result<()> {
    goes_on(&Launch::mysql().option("--gtid-mode=OFF"), &[("--skip-log-bin", "grouped")])
}

/// Kills bintide again and again, on targets that are started so, in these commit orders.
fn goes_on(launch: &Launch, ways: &[(&str, &str)]) -> Result<()> {
    let source = source(launch, &[])?;
    source.sql("create database d; create table d.t (id int primary key auto_increment, n int)")?;
    source.sql(&"insert into d.t (n) values (1); update d.t set n = n + 1;".repeat(200))?;
    source.sql("create table d.u as select * from d.t; create table d.v (n int)")?;
    let changes = "insert into d.v values (1), (2); alter table d.v add index i (n);
                   delete from d.v limit 1; alter table d.v drop index i;";
    source.sql(&changes.repeat(20))?;
    source.sql("flush binary logs")?;
    for (log, order) in ways {
        let target = target(log)?;
        let command = || -> Result<Command> {
            let mut command = Command::new(bintide()?);
            command.arg("replay").args(source.binlogs()?).args(["--commit-order", order, "--to"]);
            command.arg(format!("mysql://root@localhost/?socket={}", target.socket().display()));
            command.stdout(Stdio::null()).stderr(Stdio::piped());
            Ok(command)
        };
        for pause in [40, 70, 110, 160, 230, 350, 500] {
            let mut child = command()?.spawn()?;
            thread::sleep(Duration::from_millis(pause));
            child.kill()?;
            child.wait()?;
        }
        let output = command()?.output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        ends_equal(&source, &target)?;
    }
    Ok(())
}
