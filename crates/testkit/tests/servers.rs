//! The servers start, answer, write binary logs, die and come back.

use anyhow::Result;
use testkit::{Home, Launch, Package};

#[test]
fn mysql_writes_a_log_that_its_own_mysqlbinlog_reads() -> Result<()> {
    let mut server = Launch::mysql().uuid("aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa").start()?;
    server.sql("create database d; create table d.t (a int primary key); insert into d.t values (1), (2)")?;
    assert_eq!(server.sql("select a from d.t")?, "1\n2\n");
    let logs = server.binlogs()?;
    let output = server.home().mysqlbinlog(&["--no-defaults", &logs[0].display().to_string()], b"")?;
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("GTID_NEXT= 'aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa:1'"), "{text}");
    server.kill()?;
    server.start_again(&[])?;
    assert_eq!(server.sql("select count(*) from d.t")?, "2\n");
    assert_eq!(server.binlogs()?.len(), 2);
    server.stop()
}

#[test]
fn failing_statement_and_failing_start_are_told() -> Result<()> {
    let server = Launch::mysql().start()?;
    let message = server.sql("select * from no.such").unwrap_err().to_string();
    assert!(message.contains("ERROR 1146") || message.contains("ERROR 1049"), "{message}");
    let message = Launch::mysql().option("--no-such-option").start().unwrap_err().to_string();
    assert!(message.contains("no-such-option"), "{message}");
    Ok(())
}

#[test]
fn keyring_encrypts_the_log() -> Result<()> {
    let server = Launch::mysql().keyring().option("--binlog-encryption=ON").start()?;
    let log = std::fs::read(&server.binlogs()?[0])?;
    assert_eq!(log[..4], [0xfd, b'b', b'i', b'n']);
    assert!(server.datadir().join("keyring").exists());
    Ok(())
}

#[test]
fn mariadb_writes_a_log() -> Result<()> {
    let server = Launch::mariadb().start()?;
    server.sql("create database d; create table d.t (a int primary key); insert into d.t values (1)")?;
    assert!(server.sql("select version()")?.contains("MariaDB"));
    let log = server.binlogs()?[0].display().to_string();
    let text = server.home().mysqlbinlog(&[log], b"")?.stdout;
    assert!(String::from_utf8_lossy(&text).contains("GTID 0-1-1"));
    Ok(())
}

#[test]
fn sysbench_runs() -> Result<()> {
    assert!(Home::find(Package::Sysbench)?.version()?.contains("sysbench"));
    Ok(())
}
