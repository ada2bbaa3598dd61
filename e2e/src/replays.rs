//! Logs applied to another server, and what must be equal then.

use std::fs;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use replay::order::CommitOrder;
use replay::schedule::Mode;
use replay::{Filter, Gap, Log, MysqlTarget, Observer, Options, Report, Selection, Source, Status};
use servers::Address;
use testkit::{Launch, Server};

/// Sample scripts whose transactions are of many kinds, and say the same wherever they are run.
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

fn samples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples")
}

/// A source that has run these sample scripts.
///
/// # Errors
///
/// When it does not start, or refuses one.
pub fn source(launch: &Launch, scripts: &[&str]) -> Result<Server> {
    let source = launch.clone().option("--server-id=1").start()?;
    for script in scripts {
        let path = samples().join(script).with_extension("sql");
        let sql = fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        source.sql(&sql)?;
        source.sql("flush binary logs")?;
    }
    Ok(source)
}

/// A target, with this option for its binary log.
///
/// # Errors
///
/// When it does not start.
pub fn target(log: &str) -> Result<Server> {
    Launch::mysql().options(["--server-id=2", "--local-infile=1", log]).start()
}

/// Commits in this order, from four workers.
pub fn options(order: CommitOrder) -> Options {
    let mode = if order == CommitOrder::Grouped { Mode::Writeset } else { Mode::LogicalClock };
    let workers = NonZeroUsize::MIN.saturating_add(3);
    Options {
        order,
        group_max: 1000,
        memory: 300 << 20,
        workers,
        mode,
        selection: Selection::default(),
        filter: Filter::default(),
        gap: Gap::Refuse,
    }
}

struct Quiet;

impl Observer for Quiet {
    fn at(&mut self, _: &Status<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Applies logs to the server behind a socket.
///
/// # Errors
///
/// When the replay fails.
pub fn replay_to(logs: &[PathBuf], socket: &Path, options: &Options) -> Result<Report> {
    let text = format!("mysql://root@localhost/?socket={}", socket.display());
    let opened = MysqlTarget::open(Address::parse(&text)?)?;
    let logs = logs.iter().cloned().map(Log::File).collect();
    Ok(replay::replay(&mut Source::new(logs, None, 1 << 30), &opened, options, &mut Quiet)?)
}

/// Every table of every database but our own, and its checksum.
///
/// # Errors
///
/// When the server refuses.
pub fn checksums(server: &Server) -> Result<Vec<String>> {
    let tables = server.sql(
        "select concat('`', replace(table_schema, '`', '``'), '`.`', replace(table_name, '`', '``'), '`')
         from information_schema.tables where table_type = 'BASE TABLE'
           and table_schema not in ('mysql', 'sys', 'performance_schema', 'information_schema', 'bintide')
         order by 1",
    )?;
    tables.lines().map(|table| server.sql(&format!("checksum table {table}"))).collect()
}

/// What a server counts as executed.
///
/// # Errors
///
/// When the server refuses.
pub fn executed(server: &Server) -> Result<String> {
    Ok(server.sql("select replace(@@global.gtid_executed, '\\n', '')")?.trim().to_owned())
}

/// Have both the same tables with the same rows, and does the target count all that the source executed?
///
/// # Errors
///
/// When not.
pub fn ends_equal(source: &Server, target: &Server) -> Result<()> {
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
