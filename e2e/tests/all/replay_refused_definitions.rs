//! A definition that the target refuses: after a correction, which is also a definition, replay runs it.

use anyhow::{Result, ensure};
use e2e::command;
use e2e::replays::checksums;
use testkit::{Launch, TestServer};

/// A definition that the target refuses.
struct RefusedDefinition {
    /// Statements that both servers have run.
    before: &'static str,
    /// Statements of the source. The target refuses the first one.
    source: &'static str,
    /// Change of the target that makes it refuse the statement.
    obstacle: &'static str,
    /// Change that removes the obstacle.
    correction: &'static str,
}

const REFUSED: [RefusedDefinition; 3] = [
    RefusedDefinition {
        before: "create table d.a (id int primary key); insert into d.a values (1)",
        source: "alter table d.a add n varchar(10); insert into d.a values (2, 'two'); update d.a set n = 'one' where id = 1",
        obstacle: "alter table d.a add n int",
        correction: "alter table d.a drop n",
    },
    RefusedDefinition {
        before: "create table d.b (id int primary key, k int); insert into d.b values (1, 1)",
        source: "alter table d.b add index kk (k), add n int; insert into d.b values (2, 2, 2)",
        obstacle: "alter table d.b add index kk (k)",
        correction: "alter table d.b drop index kk",
    },
    RefusedDefinition {
        before: "select 1",
        source: "create table d.c (id int primary key); create table d.e (id int primary key); insert into d.e values (1)",
        obstacle: "drop database d",
        correction: "create database d",
    },
];

/// Makes the target refuse the definition, removes the obstacle, and runs replay again.
fn check(refused: &RefusedDefinition, more: &[&str]) -> Result<()> {
    let start =
        |id: &str| Launch::mysql().options([id, "--gtid-mode=ON", "--enforce-gtid-consistency=ON"]).start();
    let [source, target]: [TestServer; 2] = [start("--server-id=1")?, start("--server-id=2")?];
    source.sql(&format!("create database d; {}; flush binary logs", refused.before))?;
    source.sql(refused.source)?;
    let logs = source.binlogs()?;
    let ran = command::replay(&logs[..1], &target, more)?;
    ensure!(ran.code == Some(0), "{ran:?}");
    target.sql(refused.obstacle)?;
    let ran = command::replay(&logs, &target, more)?;
    ensure!(ran.code != Some(0), "the target does not refuse the definition: {ran:?}");
    target.sql(refused.correction)?;
    let ran = command::replay(&logs, &target, more)?;
    ensure!(ran.code == Some(0), "{ran:?}");
    ensure!(checksums(&source)? == checksums(&target)?, "tables differ after {ran:?}");
    Ok(())
}

#[test]
fn refused_definitions_run_after_the_correction() -> Result<()> {
    for more in [&[][..], &["--apply-as", "sql"], &["--workers", "1"]] {
        for refused in &REFUSED {
            check(refused, more)?;
        }
    }
    Ok(())
}
