//! Tables whose engine cannot roll back, such as MyISAM: after a stop or the failure of another transaction, each
//! change is saved with its progress, and an error reports a change that may already be applied.

use std::path::PathBuf;
use std::process::Stdio;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::command::{self, ChildGuard, CommandOutput};
use e2e::replays::checksums;
use testkit::{Launch, TestServer, wait_until};

const TABLES: &str =
    "create database d; create table d.t (id int primary key); create table d.m (id int primary key)
    engine = MyISAM; flush binary logs";

/// Options that select how transactions are grouped and applied.
const MODES: [&[&str]; 4] = [
    &["--workers", "1"],
    &["--workers", "4"],
    &["--workers", "4", "--commit-order", "strict"],
    &["--workers", "4", "--apply-as", "sql"],
];

/// A source, and a target with the same tables.
struct ServerPair {
    source: TestServer,
    target: TestServer,
}

impl ServerPair {
    fn new(gtid_mode: &str) -> Result<Self> {
        let options = ["--server-id=1", gtid_mode, "--binlog-group-commit-sync-delay=300000"];
        let source = Launch::mysql().options(options).start()?;
        source.sql(TABLES)?;
        let target = Launch::mysql().options(["--server-id=2", gtid_mode, "--skip-log-bin"]).start()?;
        let ran = command::replay(&source.binlogs()?[..1], &target, &[])?;
        ensure!(ran.code == Some(0), "{ran:?}");
        Ok(Self { source, target })
    }

    fn logs(&self) -> Result<Vec<PathBuf>> {
        self.source.binlogs()
    }

    fn replay(&self, more: &[&str]) -> Result<CommandOutput> {
        command::replay(&self.logs()?, &self.target, more)
    }

    fn ensure_equal(&self, more: &[&str]) -> Result<()> {
        let ran = self.replay(more)?;
        ensure!(ran.code == Some(0), "{more:?}: {ran:?}");
        ensure!(checksums(&self.source)? == checksums(&self.target)?, "{more:?}: the tables differ");
        Ok(())
    }
}

#[test]
fn stops_wait_until_the_change_is_saved() -> Result<()> {
    for (mode, gtid_mode) in MODES.iter().zip(["--gtid-mode=ON", "--gtid-mode=OFF"].iter().cycle()) {
        let pair = ServerPair::new(gtid_mode)?;
        pair.source
            .sql("insert into d.t values (1); insert into d.m values (1), (2); insert into d.t values (2)")?;
        thread::scope(|scope| -> Result<()> {
            let blocked = scope.spawn(|| pair.target.sql("lock tables d.m write; do sleep(4)"));
            let is_in = |state: &str| {
                let sessions = pair.target.sql("select state from information_schema.processlist")?;
                Ok(sessions.contains(state))
            };
            wait_until("the lock", || is_in("User sleep"))?;
            let mut command = command::command(&pair.logs()?, &pair.target, mode)?;
            let running = ChildGuard::start(command.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
            wait_until("the change", || is_in("Waiting for table"))?;
            running.interrupt()?;
            let ran: CommandOutput = running.output()?.into();
            ensure!(ran.code == Some(130), "{mode:?}: {ran:?}");
            blocked.join().expect("the locking thread panicked")?;
            Ok(())
        })?;
        ensure!(
            pair.target.sql("select count(*) from d.m")?.trim() == "2",
            "{mode:?}: the change was not completed"
        );
        pair.ensure_equal(mode)?;
    }
    Ok(())
}

/// A transaction that commits in parallel with another, or in one group with it, waits for it on the target.
#[test]
fn failures_of_other_transactions_do_not_undo_progress_alone() -> Result<()> {
    for mode in MODES {
        let pair = ServerPair::new("--gtid-mode=ON")?;
        thread::scope(|scope| -> Result<()> {
            let first = scope.spawn(|| pair.source.sql("insert into d.t values (7)"));
            thread::sleep(Duration::from_millis(100));
            pair.source.sql("insert into d.m values (7)")?;
            first.join().expect("the inserting thread panicked")?;
            Ok(())
        })?;
        for number in 10..30 {
            pair.source.sql(&format!("insert into d.t values ({number})"))?;
        }
        pair.source.sql("insert into d.m values (8); insert into d.t values (8)")?;
        for conflict in [7, 8] {
            pair.target.sql(&format!("insert into d.t values ({conflict})"))?;
            let ran = pair.replay(mode)?;
            ensure!(ran.code == Some(1) && ran.stderr.contains("remove the cause, or"), "{mode:?}: {ran:?}");
            pair.target.sql(&format!("delete from d.t where id = {conflict}"))?;
        }
        pair.ensure_equal(mode)?;
    }
    Ok(())
}

#[test]
fn errors_say_that_a_change_may_already_be_applied() -> Result<()> {
    for (gtid_mode, option) in
        [("--gtid-mode=ON", "--exclude-gtids"), ("--gtid-mode=OFF", "--start-position")]
    {
        for change in
            ["insert into d.m values (1)", "set binlog_format = statement; insert into d.m values (1)"]
        {
            let pair = ServerPair::new(gtid_mode)?;
            pair.source.sql(&format!("insert into d.t values (1); {change}; insert into d.t values (2)"))?;
            // The state after kill -9 between the change and its progress.
            pair.target.sql("insert into d.m values (1)")?;
            let ran = pair.replay(&[])?;
            ensure!(ran.code == Some(1) && ran.stderr.contains("it may already have"), "{ran:?}");
            ensure!(!ran.stderr.contains("to resume"), "{ran:?}");
            let (_, told) = ran.stderr.split_once(option).with_context(|| ran.stderr.clone())?;
            let value = told.split_whitespace().next().context("no value")?;
            let ran = pair.replay(&[option, value])?;
            ensure!(ran.code == Some(0), "{ran:?}");
            ensure!(checksums(&pair.source)? == checksums(&pair.target)?, "{gtid_mode}: the tables differ");
        }
    }
    Ok(())
}
