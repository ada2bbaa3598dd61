//! A replica made of two commands: one receives a server's logs, the other applies them as they come. Whatever is
//! stopped, the target has the source's rows in the end.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::as_sql::are_equal;
use e2e::program::bintide;
use e2e::replays::{checksum, target};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testkit::{Dice, Launch, Server, seed};

fn receive(source: &Server, store: &Path) -> Result<Child> {
    let mut command = Command::new(bintide()?);
    let from = format!("mysql://root@127.0.0.1:{}/", source.port());
    command.env_clear().arg("receive").arg(store).args(["--from", &from, "-q"]);
    command.stdout(Stdio::null()).spawn().context("start to receive")
}

fn replay(store: &Path, target: &Server) -> Result<Child> {
    let mut command = Command::new(bintide()?);
    let to = format!("mysql://root@localhost/?socket={}", target.socket().display());
    command.env_clear().args(["replay", "--follow", "-q"]).arg(store).args(["--to", &to]);
    command.stdout(Stdio::null()).spawn().context("start to replay")
}

fn end(mut child: Child) -> Result<()> {
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// What the source runs: changes that are not the same when they are made twice or left out.
fn work(round: usize) -> String {
    format!(
        "insert into d.t (n) values ({round}), (0); update d.t set n = n + 1;
         begin; delete from d.t where id % 5 = 3; insert into d.u select null, n from d.t; commit;
         create table d.v{round} as select * from d.t; drop table if exists d.v{};",
        round / 2
    )
}

fn sums(server: &Server) -> Result<String> {
    server.sql(
        "select count(*), sum(n) from d.t; select count(*), sum(n) from d.u; select max(n) from d.rounds",
    )
}

#[test]
fn a_target_follows_through_kills_of_all_that_is_between() -> Result<()> {
    let mut dice = Dice::new(seed("BINTIDE_E2E_SEED"));
    let mut source = Launch::mysql().option("--max-binlog-size=64K").start()?;
    let target = target("--skip-log-bin")?;
    let folder = TempDir::new()?;
    source.sql(
        "create database d; create table d.t (id int primary key auto_increment, n int);
         create table d.u like d.t; create table d.rounds (n int primary key)",
    )?;
    let mut receiving = receive(&source, folder.path())?;
    while !folder.path().join("binlog.index").exists() {
        thread::sleep(Duration::from_millis(10));
    }
    let mut replaying = replay(folder.path(), &target)?;
    for round in 1..=18 {
        source.sql(&work(round))?;
        source.sql(&format!("insert into d.rounds values ({round})"))?;
        match dice.below(4) {
            0 => {
                end(receiving)?;
                receiving = receive(&source, folder.path())?;
            }
            1 => {
                end(replaying)?;
                replaying = replay(folder.path(), &target)?;
            }
            2 if round % 3 == 0 => {
                source.kill()?;
                source.start_again(&[])?;
            }
            _ => thread::sleep(Duration::from_millis(dice.below(200) as u64)),
        }
    }
    let start = Instant::now();
    while sums(&target).ok() != Some(sums(&source)?) {
        ensure!(start.elapsed() < Duration::from_secs(60), "the target is behind");
        ensure!(replaying.try_wait()?.is_none() && receiving.try_wait()?.is_none(), "one has ended");
        thread::sleep(Duration::from_millis(50));
    }
    for child in [replaying, receiving] {
        kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT)?;
        let code = child.wait_with_output()?.status.code();
        ensure!(code == Some(130), "{code:?}");
    }
    are_equal(&source, &target, checksum)
}
