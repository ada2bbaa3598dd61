//! A replay that somebody watches and stops while it runs.

use std::path::PathBuf;
use std::process::Child;

use anyhow::{Result, ensure};
use e2e::command::{Ran, address, begin, replay, wait_until};
use e2e::replays::{ends_equal, target};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use servers::{Address, Connection};
use testkit::{Launch, Server};

/// A source with a table, and so many transactions behind a log of their own: two logs.
fn source_of(transactions: u32) -> Result<Server> {
    let source = Launch::mysql().option("--server-id=1").start()?;
    source.sql("create database d; create table d.t (id int primary key, n int); flush binary logs")?;
    let inserts: String = (1..=transactions).map(|id| format!("insert into d.t values ({id}, 0);")).collect();
    source.sql(&inserts)?;
    source.sql("create table d.u (id int)")?;
    Ok(source)
}

fn signal(child: &Child, signal: Signal) -> Result<()> {
    Ok(kill(Pid::from_raw(i32::try_from(child.id())?), signal)?)
}

fn ended(child: Child) -> Result<Ran> {
    Ok(child.wait_with_output()?.into())
}

/// Somebody else's row of the target, not committed: whoever inserts the same waits for it.
fn in_the_way(target: &Server, id: u32) -> Result<Connection> {
    let mut connection = Connection::open(&Address::parse(&address("root", target))?)?;
    connection.run(&format!("begin; insert into d.t values ({id}, -1)"))?;
    Ok(connection)
}

fn rows(target: &Server) -> Result<String> {
    Ok(target.sql("select count(*) from d.t")?.trim().to_owned())
}

fn waits(target: &Server) -> Result<bool> {
    Ok(target.sql("select count(*) from performance_schema.data_lock_waits")?.trim() != "0")
}

#[test]
fn the_first_interrupt_ends_it_in_order_and_the_second_at_once() -> Result<()> {
    let source = source_of(50)?;
    let logs: Vec<PathBuf> = source.binlogs()?;
    let target = target("--skip-log-bin")?;
    ensure!(replay(&logs[..1], &target, &[])?.code == Some(0));
    let mut holder = in_the_way(&target, 30)?;
    for workers in ["1", "4"] {
        // The first: what is being committed is, and what waits gives up.
        let strict = ["--commit-order", "strict", "--workers", workers];
        let child = begin(&logs, &target, &strict)?;
        wait_until("a wait", || Ok(rows(&target)? == "29" && waits(&target)?))?;
        signal(&child, Signal::SIGINT)?;
        let ran = ended(child)?;
        ensure!(ran.code == Some(130) && rows(&target)? == "29", "{workers}: {ran:?}");
        let applied =
            if workers == "1" { "29 transactions applied in 29 commits" } else { "0 transactions applied" };
        ensure!(ran.stdout.contains(applied) && ran.stdout.contains("interrupted; "), "{workers}: {ran:?}");
        ensure!(ran.stderr.is_empty(), "{ran:?}");
        // The second: nothing is waited for, not even a report.
        let mut child = begin(&logs, &target, &strict)?;
        wait_until("a wait", || waits(&target))?;
        wait_until("the end", || {
            signal(&child, Signal::SIGINT)?;
            Ok(child.try_wait()?.is_some())
        })?;
        let ran = ended(child)?;
        ensure!(ran.code == Some(130) && ran.stdout.is_empty(), "{workers}: {ran:?}");
    }
    holder.run("rollback")?;
    let ran = replay(&logs, &target, &["--json"])?;
    let json: String = ran.stdout.split_whitespace().collect();
    ensure!(ran.code == Some(0) && json.contains("\"transactions\":22,"), "{ran:?}");
    ensure!(json.contains("\"interrupted\":false") && json.contains("\"skipped\":31"), "{ran:?}");
    ends_equal(&source, &target)
}
