//! Full disks during a replay: it stops with an error, and the same command resumes once the disk has free space.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use e2e::as_sql::are_equal;
use e2e::program::bintide;
use e2e::replays::{self, checksum};
use testkit::{Launch, TestServer};

/// Starts a source with 20 transactions of 400 kB, and one of 8 MB.
fn source() -> Result<TestServer> {
    let source = replays::source(&Launch::mysql(), &[])?;
    source.sql("create database d; create table d.t (id int primary key auto_increment, v longblob)")?;
    source.sql(&"insert into d.t (v) values (random_bytes(1000)); update d.t set v = repeat(v, 400) where length(v) = 1000;".repeat(20))?;
    source.sql("create table d.u like d.t; insert into d.u select * from d.t; flush binary logs")?;
    Ok(source)
}

fn arguments(command: &mut Command, source: &TestServer, target: &TestServer, order: &str) -> Result<Output> {
    command.args(["replay", "--memory", "8M", "--commit-order", order]).args(source.binlogs()?).arg("--to");
    Ok(command.arg(format!("mysql://root@localhost/?socket={}", target.socket().display())).output()?)
}

fn replay(source: &TestServer, target: &TestServer, order: &str) -> Result<Output> {
    arguments(Command::new(bintide()?).env_clear(), source, target, order)
}

/// Limits InnoDB's data file, which acts as a full disk for the server.
const SMALL: &str = "--innodb-data-file-path=ibdata1:12M:autoextend:max:20M";
const LARGE: &str = "--innodb-data-file-path=ibdata1:12M:autoextend";

#[test]
fn replays_resume_after_the_target_has_free_space() -> Result<()> {
    let source = source()?;
    for order in ["grouped", "strict", "any"] {
        let options = ["--server-id=2", "--skip-log-bin", "--innodb-file-per-table=OFF", SMALL];
        let mut target = Launch::mysql().options(options).start()?;
        for _ in 0..2 {
            let output = replay(&source, &target, order)?;
            let printed = String::from_utf8_lossy(&output.stderr);
            ensure!(!output.status.success() && printed.contains("is full"), "{order}: {printed}");
            ensure!(
                printed.contains("to resume, remove the cause on the target and run the same command again"),
                "{order}: {printed}"
            );
        }
        target.stop()?;
        target.start_again(&[LARGE])?;
        let output = replay(&source, &target, order)?;
        ensure!(output.status.success(), "{order}: {}", String::from_utf8_lossy(&output.stderr));
        are_equal(&source, &target, checksum).context(order)?;
    }
    Ok(())
}

/// The limit of 1 MB for the files of a process acts as a full disk.
#[test]
fn full_disks_of_temporary_files_are_reported() -> Result<()> {
    let source = source()?;
    let target = replays::target("--skip-log-bin")?;
    let mut limited = Command::new("/bin/sh");
    limited.env_clear().args(["-c", "ulimit -f 2000 && trap '' XFSZ && exec \"$0\" \"$@\""]).arg(bintide()?);
    let output = arguments(&mut limited, &source, &target, "grouped")?;
    let printed = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && printed.contains("temporary file"), "{printed}");
    ensure!(target.sql("select count(*) from d.u")?.trim() == "0", "a part of the transaction was applied");
    let output = replay(&source, &target, "grouped")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    are_equal(&source, &target, checksum)
}
