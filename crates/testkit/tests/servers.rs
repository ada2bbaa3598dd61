//! Servers start, answer, write binary logs, are killed and restart.

use anyhow::{Result, ensure};
use testkit::{Launch, PackageHome, TestPackage};

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
fn failing_statement_and_failing_start_report_errors() -> Result<()> {
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
    assert!(PackageHome::find(TestPackage::Sysbench)?.version()?.contains("sysbench"));
    Ok(())
}

/// Each old server, and the start of its version.
const OLD_SERVERS: [(TestPackage, &str); 11] = [
    (TestPackage::Mysql8_0, "8.0.33"),
    (TestPackage::Mysql8_0_15, "8.0.15"),
    (TestPackage::Mysql8_0_12, "8.0.12"),
    (TestPackage::Mysql5_7, "5.7.22"),
    (TestPackage::Mysql5_6, "5.6.24"),
    (TestPackage::Mysql5_6_14, "5.6.14"),
    (TestPackage::Mysql5_5, "5.5.34"),
    (TestPackage::Mysql5_5_9, "5.5.9"),
    (TestPackage::MariaDb11_8, "11.8"),
    (TestPackage::MariaDb11_4, "11.4.5"),
    (TestPackage::MariaDb10_5, "10.5"),
];

#[test]
fn old_servers_write_logs() -> Result<()> {
    let chosen = TestPackage::from_env()?;
    let old_servers = OLD_SERVERS.into_iter().filter(|(package, _)| chosen.contains(package));
    let failures = old_servers.filter_map(|(package, version)| {
        let error = check_old_server(package, version).err()?;
        Some(format!("{}: {error:#}", package.name()))
    });
    let failures: Vec<String> = failures.collect();
    ensure!(failures.is_empty(), "{}", failures.join("\n"));
    Ok(())
}

fn check_old_server(package: TestPackage, version: &str) -> Result<()> {
    let server = Launch::of(package).start()?;
    let answer = server.sql("select version(), @@character_set_client, 'é'")?;
    ensure!(answer.starts_with(version) && answer.ends_with("\tutf8mb4\té\n"), "{answer}");
    server.sql("create database d; create table d.t (a int primary key) engine = innodb")?;
    server.sql("insert into d.t values (1), (2)")?;
    let mut by_tcp = server.client().command()?;
    by_tcp.args(["--protocol=tcp", "--host=127.0.0.1", "--execute=select current_user()"]);
    let output = by_tcp.arg(format!("--port={}", server.port())).output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(said.contains("root@"), "{said}{}", String::from_utf8_lossy(&output.stderr));
    ensure!(std::fs::metadata(&server.binlogs()?[0])?.len() > 300, "no log");
    Ok(())
}
