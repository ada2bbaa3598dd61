//! A replica made of two commands: one receives a server's logs, the other applies them as they arrive. After any
//! restart, the target must have the source's rows.

use std::io::Read as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use e2e::as_sql::{are_equal, rows};
use e2e::command::wait_for;
use e2e::program::bintide;
use e2e::replays::{checksum, target};
use e2e::soak::Soak;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testkit::{Launch, SeededRandom, TestServer, seed_from_env, wait_until, wait_until_within};

const TABLES: &str = "create database d; create table d.t (id int primary key auto_increment, n int);
    create table d.u like d.t; create table d.rounds (n int primary key)";

fn receive(source: &TestServer, store: &Path) -> Result<Child> {
    let mut command = Command::new(bintide()?);
    let from = format!("mysql://root@127.0.0.1:{}/", source.port());
    command.env_clear().arg("receive").arg(store).args(["--from", &from, "-q"]);
    command.stdout(Stdio::null()).spawn().context("could not start receive")
}

fn replay(store: &Path, target: &TestServer) -> Result<Child> {
    let mut command = Command::new(bintide()?);
    let to = format!("mysql://root@localhost/?socket={}", target.socket().display());
    command.env_clear().args(["replay", "-q", "--from"]).arg(store).args(["--to", &to]);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("could not start replay")
}

/// Starts `replay --from`, which receives and applies.
fn replay_from(source: &TestServer, relay: &Path, target: &TestServer, more: &[&str]) -> Result<Child> {
    let mut command = Command::new(bintide()?);
    let from = format!("mysql://root@127.0.0.1:{}/", source.port());
    let to = format!("mysql://root@localhost/?socket={}", target.socket().display());
    command.env_clear().args(["replay", "-q", "--from", &from, "--relay"]).arg(relay).args(more);
    command.args(["--to", &to]);
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().context("could not start replay")
}

/// Starts a command that reads the source's logs, and waits until it reads them: a command whose first connection fails
/// ends.
fn start_reader(source: &TestServer, start: impl FnOnce() -> Result<Child>) -> Result<Child> {
    let before = source.sql("select connection_id()")?;
    let mut child = start()?;
    let readers = format!(
        "select count(*) from information_schema.processlist where command like 'Binlog Dump%' and id > {before}"
    );
    wait_until("the command to read the source's logs", || {
        if let Some(status) = child.try_wait()? {
            bail!("a command has ended with {status}: {}", printed_errors(&mut child)?);
        }
        Ok(source.sql(&readers)?.trim() != "0")
    })?;
    Ok(child)
}

fn end(mut child: Child) -> Result<()> {
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// Returns the changes of a round on the source. They give different rows if they are applied twice or skipped.
fn work(round: usize) -> String {
    format!(
        "insert into d.t (n) values ({round}), (0); update d.t set n = n + 1;
         begin; delete from d.t where id % 5 = 3; insert into d.u select null, n from d.t; commit;
         create table d.v{round} as select * from d.t; drop table if exists d.v{};",
        round / 2
    )
}

fn sums(server: &TestServer) -> Result<String> {
    server.sql(
        "select count(*), sum(n) from d.t; select count(*), sum(n) from d.u; select max(n) from d.rounds",
    )
}

#[test]
fn targets_follow_through_kills_of_bintide() -> Result<()> {
    let mut random = SeededRandom::new(seed_from_env("BINTIDE_E2E_SEED"));
    let mut source = Launch::mysql().option("--max-binlog-size=64K").start()?;
    let target = target("--skip-log-bin")?;
    let directory = TempDir::new()?;
    source.sql(TABLES)?;
    let mut receiving = receive(&source, directory.path())?;
    while !directory.path().join("binlog.index").exists() {
        thread::sleep(Duration::from_millis(10));
    }
    let mut replaying = replay(directory.path(), &target)?;
    for round in 1..=18 {
        source.sql(&work(round))?;
        source.sql(&format!("insert into d.rounds values ({round})"))?;
        match random.below(4) {
            0 => {
                end(receiving)?;
                receiving = start_reader(&source, || receive(&source, directory.path()))?;
            }
            1 => {
                end(replaying)?;
                replaying = replay(directory.path(), &target)?;
            }
            2 if round % 3 == 0 => {
                source.kill()?;
                source.start_again(&[])?;
            }
            _ => thread::sleep(Duration::from_millis(random.below(200) as u64)),
        }
    }
    catches_up(&source, &target, &mut [&mut replaying, &mut receiving])?;
    for child in [replaying, receiving] {
        end_by_interrupt(child)?;
    }
    are_equal(&source, &target, checksum)
}

/// A short run of `cargo xtask soak`.
#[test]
fn targets_follow_through_restarts_of_all_processes() -> Result<()> {
    let seed = seed_from_env("BINTIDE_E2E_SEED");
    println!("seed {seed}");
    let summary = Soak::new(&[])?.run(&mut SeededRandom::new(seed), |interruptions| interruptions < 10)?;
    println!("{summary:?}");
    ensure!(summary.rounds > 0, "the source ran no rounds");
    Ok(())
}

fn catches_up(source: &TestServer, target: &TestServer, children: &mut [&mut Child]) -> Result<()> {
    wait_until_within(Duration::from_secs(60), "the target to catch up", || {
        for child in children.iter_mut() {
            if let Some(status) = child.try_wait()? {
                bail!("a command has ended with {status}: {}", printed_errors(child)?);
            }
        }
        Ok(sums(target).ok() == Some(sums(source)?))
    })
}

/// Returns what an ended command wrote to its standard error, if the test reads it.
fn printed_errors(child: &mut Child) -> Result<String> {
    let mut text = String::new();
    if let Some(errors) = &mut child.stderr {
        errors.read_to_string(&mut text)?;
    }
    Ok(text)
}

fn end_by_interrupt(child: Child) -> Result<()> {
    kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT)?;
    let ran = child.wait_with_output()?;
    ensure!(ran.status.code() == Some(130), "{ran:?}");
    Ok(())
}

#[test]
fn one_command_follows_a_server() -> Result<()> {
    let mut source = Launch::mysql().option("--max-binlog-size=64K").start()?;
    let target = target("--skip-log-bin")?;
    let directory = TempDir::new()?;
    source.sql(TABLES)?;
    let mut child = replay_from(&source, directory.path(), &target, &[])?;
    for round in 1..=9 {
        source.sql(&work(round))?;
        source.sql(&format!("insert into d.rounds values ({round})"))?;
        match round {
            3 | 6 => {
                end(child)?;
                child = start_reader(&source, || replay_from(&source, directory.path(), &target, &[]))?;
            }
            5 => {
                source.kill()?;
                source.start_again(&[])?;
            }
            _ => thread::sleep(Duration::from_millis(100)),
        }
    }
    source.sql("flush binary logs; flush binary logs; insert into d.rounds values (10)")?;
    catches_up(&source, &target, &mut [&mut child])?;
    end_by_interrupt(child)?;
    are_equal(&source, &target, checksum)?;
    // Applied logs may be deleted, except the newest, which the next run needs.
    let index = directory.path().join("binlog.index");
    let kept = || Ok::<_, anyhow::Error>(std::fs::read_to_string(&index)?.lines().count());
    ensure!(kept()? > 2, "few logs");
    let mut child = replay_from(&source, directory.path(), &target, &["--relay-keep", "1K"])?;
    source.sql(&work(10))?;
    catches_up(&source, &target, &mut [&mut child])?;
    end_by_interrupt(child)?;
    ensure!(kept()? <= 2, "{} logs are kept", kept()?);
    // The replay ends with an error if the source has purged the log that it needs.
    source.sql("flush binary logs; create database gone; flush binary logs; flush binary logs")?;
    let last = source.binlogs()?.last().and_then(|log| Some(log.file_name()?.to_string_lossy().into_owned()));
    source.sql(&format!("purge binary logs to '{}'", last.context("no logs")?))?;
    let fails = |source: &TestServer, code: i32, expected: &str| -> Result<()> {
        let ran = replay_from(source, directory.path(), &target, &[])?.wait_with_output()?;
        let printed = String::from_utf8_lossy(&ran.stderr);
        ensure!(ran.status.code() == Some(code) && printed.contains(expected), "{:?} {printed}", ran.status);
        Ok(())
    };
    fails(&source, 1, "(error 1236); keep this directory as it is")?;
    source.stop()?;
    fails(&source, 2, "the connection to the server at ")
}

fn catches_up_and_ends(source: &TestServer, target: &TestServer, relay: &Path) -> Result<()> {
    let mut child = replay_from(source, relay, target, &[])?;
    catches_up(source, target, &mut [&mut child])?;
    end_by_interrupt(child)?;
    are_equal(source, target, rows)
}

/// Follows a MariaDB source by file and position, because a MySQL target does not record its GTIDs.
#[test]
fn mariadb_is_followed_through_kills() -> Result<()> {
    let mut source = Launch::mariadb().options(["--binlog-format=row", "--max-binlog-size=64K"]).start()?;
    let target = Launch::mariadb().options(["--server-id=2", "--skip-log-bin"]).start()?;
    let directory = TempDir::new()?;
    source.sql(TABLES)?;
    let mut child = replay_from(&source, directory.path(), &target, &[])?;
    for round in 1..=8 {
        source.sql(&work(round))?;
        source.sql(&format!("insert into d.rounds values ({round})"))?;
        match round {
            2 | 5 => {
                end(child)?;
                child = start_reader(&source, || replay_from(&source, directory.path(), &target, &[]))?;
            }
            3 | 6 => {
                source.kill()?;
                source.start_again(&[])?;
            }
            _ => thread::sleep(Duration::from_millis(100)),
        }
    }
    source.sql("flush binary logs; insert into d.rounds values (9)")?;
    catches_up(&source, &target, &mut [&mut child])?;
    end_by_interrupt(child)?;
    are_equal(&source, &target, checksum)
}

/// An empty relay directory starts at the first transaction that the target lacks: by GTIDs, or without GTIDs at
/// the log of the saved position. The source may have purged earlier logs.
#[test]
fn empty_relay_directories_start_at_the_targets_position() -> Result<()> {
    let mysql = || Launch::mysql().options(["--server-id=2", "--skip-log-bin"]);
    let mariadb = || Launch::mariadb().options(["--server-id=2", "--skip-log-bin"]);
    let without = "--gtid-mode=OFF";
    for (source, target) in [
        (Launch::mysql(), mysql()),
        (Launch::mysql().option(without), mysql().option(without)),
        (Launch::mariadb().option("--binlog-format=row"), mariadb()),
    ] {
        let (source, target) = (source.start()?, target.start()?);
        source.sql(TABLES)?;
        source.sql("insert into d.rounds values (1); flush binary logs; flush binary logs")?;
        source.sql(&work(1))?;
        let first = TempDir::new()?;
        catches_up_and_ends(&source, &target, first.path())?;
        ensure!(
            first.path().join("binlog.000001").exists(),
            "not all logs were received for an empty target"
        );
        // MariaDB does not purge a log that a replica reads. It detects that the replica has disconnected only when it
        // sends an event.
        wait_for(|| {
            source.sql("insert into d.u values (null, 1); purge binary logs to 'binlog.000003'").map(drop)
        })?;
        source.sql(&work(2))?;
        source.sql("flush binary logs; insert into d.rounds values (2)")?;
        let second = TempDir::new()?;
        catches_up_and_ends(&source, &target, second.path())?;
        let index = std::fs::read_to_string(second.path().join("binlog.index"))?;
        ensure!(index == "./binlog.000003\n./binlog.000004\n", "{index}");
    }
    Ok(())
}

/// A store deletes logs by --keep, even if a replay has not applied them. The replay, and a new replay, end
/// with an error that names the missing log and the remedy.
#[test]
fn logs_purged_before_they_are_applied_are_named() -> Result<()> {
    let (mysql, mariadb) = (Launch::mysql, Launch::mariadb);
    let (gap, position) = ("gap: the target lacks ", "the target's progress is at binlog.000001:");
    for (source, target, again) in [
        (mysql(), mysql(), gap),
        (mysql().option("--gtid-mode=OFF"), mysql().option("--gtid-mode=OFF"), position),
        (mariadb().option("--binlog-format=row"), mariadb(), position),
    ] {
        let target = target.options(["--server-id=2", "--skip-log-bin"]);
        let (source, target, directory) = (source.start()?, target.start()?, TempDir::new()?);
        source.sql(TABLES)?;
        let mut receiving = receive(&source, directory.path())?;
        while !directory.path().join("binlog.index").exists() {
            thread::sleep(Duration::from_millis(10));
        }
        let mut replaying = replay(directory.path(), &target)?;
        source.sql("insert into d.rounds values (1)")?;
        catches_up(&source, &target, &mut [&mut replaying, &mut receiving])?;
        end_by_interrupt(receiving)?;
        // While the replay waits for a lock, it reads nothing.
        let replaying_id = Pid::from_raw(i32::try_from(replaying.id())?);
        kill(replaying_id, Signal::SIGSTOP)?;
        source.sql(
            "insert into d.rounds values (2); flush binary logs; insert into d.rounds values (3); flush binary logs;
             insert into d.rounds values (4); flush binary logs; create table d.w as select repeat('x', 2000)",
        )?;
        // receive deletes logs when it starts a log, and at its own start: the second run deletes all but the last.
        for _ in 0..2 {
            let from = format!("mysql://root@127.0.0.1:{}/", source.port());
            let mut keep = Command::new(bintide()?);
            keep.env_clear().arg("receive").arg(directory.path()).args(["--from", &from, "--keep", "1K"]);
            ensure!(
                keep.args(["-q", "--stop-at-end"]).stdout(Stdio::null()).status()?.success(),
                "receive failed"
            );
        }
        ensure!(!directory.path().join("binlog.000003").exists(), "more than one log was kept");
        kill(replaying_id, Signal::SIGCONT)?;
        let ran = replaying.wait_with_output()?;
        let printed = String::from_utf8_lossy(&ran.stderr);
        ensure!(ran.status.code() == Some(1), "{:?} {printed}", ran.status);
        for expected in
            ["binlog.000001 and ", "binlog.000004 were purged before they were read", "Retain logs longer"]
        {
            ensure!(printed.contains(expected), "{expected} is not in {printed}");
        }
        ensure!(
            target.sql("select max(n) from d.rounds")?.trim() == "2",
            "the available logs were not all applied"
        );
        let ran = replay(directory.path(), &target)?.wait_with_output()?;
        let printed = String::from_utf8_lossy(&ran.stderr);
        ensure!(!ran.status.success() && printed.contains(again), "{:?} {printed}", ran.status);
    }
    Ok(())
}
