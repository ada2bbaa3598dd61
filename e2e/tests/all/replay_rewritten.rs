//! Logs without GTIDs that are compressed and decompressed in place between two runs of replay: each transaction is
//! applied once, because saved positions are those of the source's logs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::command::{CommandOutput, address};
use e2e::program::bintide;
use rusqlite::Connection as Sqlite;
use tempfile::TempDir;
use testkit::{Launch, TestServer};

/// Transactions of each log.
const TRANSACTIONS: usize = 8;

/// Logs without GTIDs, in a directory of their own.
struct LogCopies {
    directory: TempDir,
    /// Position after each transaction of the first log, in the source's log.
    ends: Vec<u64>,
}

/// Writes two logs of transactions that insert 1, 2, 3… into a table without a key, so that repeated and lost rows
/// are visible.
fn logs(options: &[&str]) -> Result<LogCopies> {
    let options = options.iter().copied().chain(["--server-id=1", "--gtid-mode=OFF"]);
    let source = Launch::mysql().options(options).start()?;
    source.sql("create database d; create table d.t (n int, filler varchar(2000)); flush binary logs")?;
    let mut ends = Vec::new();
    for number in 1..=2 * TRANSACTIONS {
        source.sql(&format!("insert into d.t values ({number}, repeat('abc', {}))", number * 40))?;
        let status = source.sql("show binary log status")?;
        let position = status.split_whitespace().nth(1).context("no position")?;
        ends.push(position.parse()?);
        if number == TRANSACTIONS {
            source.sql("flush binary logs")?;
        }
    }
    source.sql("flush binary logs")?;
    let directory = tempfile::tempdir()?;
    for log in &source.binlogs()?[..3] {
        fs::copy(log, directory.path().join(log.file_name().context("no name")?))?;
    }
    ends.truncate(TRANSACTIONS);
    Ok(LogCopies { directory, ends })
}

impl LogCopies {
    fn paths(&self) -> Result<Vec<PathBuf>> {
        let names = fs::read_dir(self.directory.path())?.map(|entry| Ok(entry?.path()));
        let mut paths = names.collect::<Result<Vec<PathBuf>>>()?;
        paths.retain(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("binlog."))
        });
        paths.sort();
        Ok(paths)
    }

    /// Returns name and position after a transaction of the second file.
    fn position(&self, number: usize) -> String {
        format!("binlog.000002:{}", self.ends[number - 1])
    }

    fn rewrite(&self, command: &str) -> Result<()> {
        let ran: CommandOutput =
            Command::new(bintide()?).args([command, "--quiet"]).arg(self.directory.path()).output()?.into();
        ensure!(ran.code == Some(0), "{command}: {ran:?}");
        Ok(())
    }
}

/// A target of the replay.
enum Target {
    Mysql(TestServer),
    Sqlite(TempDir),
}

impl Target {
    fn mysql() -> Result<Self> {
        let options = ["--server-id=2", "--gtid-mode=OFF", "--skip-log-bin"];
        Ok(Self::Mysql(Launch::mysql().options(options).start()?))
    }

    fn address(&self) -> String {
        match self {
            Self::Mysql(server) => address("root", server),
            Self::Sqlite(directory) => format!("sqlite:{}", directory.path().join("copy.db").display()),
        }
    }

    fn replay(&self, logs: &[PathBuf], more: &[&str]) -> Result<CommandOutput> {
        let mut command = Command::new(bintide()?);
        Ok(command.arg("replay").args(logs).args(["--to", &self.address()]).args(more).output()?.into())
    }

    /// Returns the numbers in the table, in order.
    fn numbers(&self) -> Result<Vec<usize>> {
        match self {
            Self::Mysql(server) => {
                let numbers = server.sql("select n from d.t order by n")?;
                numbers.lines().map(|line| Ok(line.trim().parse()?)).collect()
            }
            Self::Sqlite(directory) => {
                let file = Sqlite::open(directory.path().join("copy.db"))?;
                let mut rows = file.prepare("select n from \"d.t\" order by n")?;
                let numbers = rows.query_map([], |row| row.get::<_, i64>(0))?;
                numbers.map(|number| Ok(usize::try_from(number?)?)).collect()
            }
        }
    }

    fn ensure_applied(&self, count: usize) -> Result<()> {
        let (found, expected) = (self.numbers()?, (1..=count).collect::<Vec<_>>());
        ensure!(found == expected, "{found:?}, expected 1 to {count}");
        Ok(())
    }
}

/// Rewrites the logs in the order of `steps` between runs that each apply two more transactions.
fn continues(logs: &LogCopies, target: &Target, steps: &[&str]) -> Result<()> {
    let mut applied = 0;
    for step in [""].iter().chain(steps) {
        if !step.is_empty() {
            logs.rewrite(step)?;
        }
        applied += 2;
        let ran = target.replay(&logs.paths()?, &["--stop-position", &logs.position(applied)])?;
        ensure!(ran.code == Some(0), "{steps:?}, {step}: {ran:?}");
        target.ensure_applied(applied).with_context(|| format!("{steps:?}, {step}"))?;
    }
    let ran = target.replay(&logs.paths()?, &[])?;
    ensure!(ran.code == Some(0), "{steps:?}: {ran:?}");
    target.ensure_applied(2 * TRANSACTIONS).with_context(|| format!("{steps:?}"))
}

#[test]
fn replay_resumes_in_rewritten_logs() -> Result<()> {
    for (options, steps) in [
        (&[][..], &["compress"][..]),
        (&[], &["compress", "decompress"]),
        (&["--binlog-transaction-compression=ON"], &["decompress"]),
        (&["--binlog-transaction-compression=ON"], &["decompress", "compress", "decompress"]),
    ] {
        continues(&logs(options)?, &Target::mysql()?, steps)?;
        continues(&logs(options)?, &Target::Sqlite(tempfile::tempdir()?), steps)?;
    }
    // Also rewritten before the first run.
    let logs = logs(&[])?;
    logs.rewrite("compress")?;
    continues(&logs, &Target::Sqlite(tempfile::tempdir()?), &["decompress"])
}

#[test]
fn replay_resumes_in_a_compressed_log_that_has_grown() -> Result<()> {
    let (logs, target) = (logs(&[])?, Target::mysql()?);
    let (first, second) = (logs.paths()?[0].clone(), logs.paths()?[1].clone());
    let whole = fs::read(&second)?;
    fs::write(&second, &whole[..usize::try_from(logs.ends[4])?])?;
    let ran = target.replay(&[first.clone(), second.clone()], &[])?;
    ensure!(ran.code == Some(0), "{ran:?}");
    target.ensure_applied(5)?;
    fs::write(&second, &whole)?;
    logs.rewrite("compress")?;
    let ran = target.replay(&logs.paths()?, &[])?;
    ensure!(ran.code == Some(0), "{ran:?}");
    target.ensure_applied(2 * TRANSACTIONS)
}

#[test]
fn rewritten_logs_without_positions_are_refused() -> Result<()> {
    for number in [3, TRANSACTIONS] {
        let (logs, target) = (logs(&[])?, Target::Sqlite(tempfile::tempdir()?));
        let ran = target.replay(&logs.paths()?, &["--stop-position", &logs.position(number)])?;
        ensure!(ran.code == Some(0), "{ran:?}");
        logs.rewrite("compress")?;
        let list = logs.directory.path().join("positions.binlog.000002");
        let moved = logs.directory.path().join("elsewhere");
        fs::rename(&list, &moved)?;
        let ran = target.replay(&logs.paths()?, &[])?;
        ensure!(ran.code == Some(2) && ran.stderr.contains("positions.binlog.000002"), "{ran:?}");
        target.ensure_applied(number)?;
        let ran = target.replay(&logs.paths()?, &["--dry-run"])?;
        ensure!(ran.code == Some(1) && ran.stdout.contains("positions.binlog.000002"), "{ran:?}");
        fs::rename(&moved, &list)?;
        let ran = target.replay(&logs.paths()?, &[])?;
        ensure!(ran.code == Some(0), "{ran:?}");
        target.ensure_applied(2 * TRANSACTIONS)?;
    }
    Ok(())
}

#[test]
fn start_and_stop_positions_are_those_of_the_source() -> Result<()> {
    let logs = logs(&[])?;
    logs.rewrite("compress")?;
    let paths = logs.paths()?;
    let target = Target::Sqlite(tempfile::tempdir()?);
    let file_size = fs::metadata(&paths[1])?.len();
    let rewritten = rewritten_start(logs.directory.path(), logs.ends[3])?;
    for (option, position) in [
        ("--stop-position", rewritten),
        ("--start-position", rewritten),
        ("--stop-position", logs.ends[3] - 1),
        ("--stop-position", 1 << 20),
    ] {
        let ran = target.replay(&paths, &[option, &format!("binlog.000002:{position}")])?;
        ensure!(ran.code == Some(2) && ran.stderr.contains(&position.to_string()), "{option}: {ran:?}");
    }
    // Beyond the end of the file, but not beyond the end of the source's log.
    ensure!(logs.ends[TRANSACTIONS - 1] > file_size, "the log is not smaller");
    let ran = target.replay(&paths, &["--stop-position", &logs.position(TRANSACTIONS)])?;
    ensure!(ran.code == Some(0), "{ran:?}");
    target.ensure_applied(TRANSACTIONS)?;
    let ran = target.replay(&paths[2..], &["--start-position", "binlog.000003:4", "--dry-run"])?;
    ensure!(ran.code == Some(1) && ran.stdout.contains("Give binlog.000002 too"), "{ran:?}");
    Ok(())
}

/// Returns the start in the rewritten log of the transaction that starts at `original` in the source's.
fn rewritten_start(directory: &Path, original: u64) -> Result<u64> {
    let list = fs::read_to_string(directory.join("positions.binlog.000002"))?;
    let mut pairs = list.lines().filter_map(|line| line.split_once('\t'));
    let found = pairs.find(|(before, _)| before.parse() == Ok(original));
    Ok(found.with_context(|| format!("{original} is not in {list}"))?.1.parse()?)
}
