//! Real clients of `bintide relay`: replicas of several versions, and other relays.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::program::bintide;
use e2e::relayed::{
    RelayProcess, ReplicaStartPoint, TABLE, error_of, follow, index_of, replica, replica_launch, source,
    status, wait_for_equal, work,
};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tempfile::TempDir;
use testkit::{PackageHome, TestPackage, TestServer, wait_until};

use ReplicaStartPoint::{FirstLog, Gtids};

/// Tests replicas of one source, which switches compression on and off, globally and in sessions.
fn replicas_follow(source_package: TestPackage, replicas: &[(TestPackage, ReplicaStartPoint)]) -> Result<()> {
    let source = source(source_package)?;
    source.sql(TABLE)?;
    source.sql(&work(0, "on"))?;
    let relay = RelayProcess::of(&source, &[])?;
    let mut following: Vec<(TestServer, String)> = Vec::new();
    for (server_id, (package, start)) in (2..).zip(replicas) {
        // A source ends the connection of another MariaDB with the same server_id.
        let replica = replica_launch(*package, server_id).start()?;
        follow(&replica, relay.port, *start)?;
        following.push((replica, format!("{package:?} {start:?}")));
    }
    let rounds = [("off", "on"), ("on", "default"), ("on", "off"), ("off", "default"), ("off", "on")];
    for (round, (global, session)) in rounds.iter().enumerate() {
        source.sql(&format!("set global binlog_transaction_compression = {global}"))?;
        source.sql(&work(100 * (round as u32 + 1), session))?;
        if round % 2 == 1 {
            source.sql("flush binary logs")?;
        }
    }
    for (replica, name) in &following {
        wait_for_equal(&source, replica).with_context(|| name.clone())?;
    }
    Ok(())
}

#[test]
fn replicas_of_mysql_8_0_33() -> Result<()> {
    replicas_follow(
        TestPackage::Mysql8_0,
        &[
            (TestPackage::Mysql, Gtids),
            (TestPackage::Mysql, FirstLog),
            (TestPackage::Mysql8_0, Gtids),
            (TestPackage::Mysql8_0, FirstLog),
        ],
    )
}

#[test]
fn old_replicas_of_mysql_8_0_33() -> Result<()> {
    replicas_follow(
        TestPackage::Mysql8_0,
        &[
            (TestPackage::Mysql8_0_15, Gtids),
            (TestPackage::Mysql8_0_15, FirstLog),
            (TestPackage::Mysql5_7, Gtids),
            (TestPackage::Mysql5_7, FirstLog),
        ],
    )
}

#[test]
fn replicas_of_mysql_9_7() -> Result<()> {
    replicas_follow(
        TestPackage::Mysql,
        &[(TestPackage::Mysql, Gtids), (TestPackage::Mysql8_0, Gtids), (TestPackage::Mysql8_0, FirstLog)],
    )
}

#[test]
fn old_replicas_of_mysql_9_7() -> Result<()> {
    replicas_follow(
        TestPackage::Mysql,
        &[
            (TestPackage::Mysql8_0_15, Gtids),
            (TestPackage::Mysql8_0_15, FirstLog),
            (TestPackage::Mysql5_7, Gtids),
            (TestPackage::Mysql5_7, FirstLog),
            (TestPackage::MariaDb, FirstLog),
            (TestPackage::MariaDb11_8, FirstLog),
        ],
    )
}

/// A replica by file and position that stopped at the source's compressed transactions resumes at the relay, at the
/// start of the log in which it stopped.
#[test]
fn stopped_replicas_by_position_resume_at_the_relay() -> Result<()> {
    let source = source(TestPackage::Mysql8_0)?;
    let replica = replica(TestPackage::Mysql8_0_15)?;
    source.sql("create user repl identified with mysql_native_password by ''; grant replication slave on *.* to repl")?;
    source.sql(TABLE)?;
    source.sql(&work(0, "off"))?;
    follow(&replica, source.port(), FirstLog)?;
    wait_for_equal(&source, &replica)?;
    source.sql("flush binary logs")?;
    source.sql(&work(100, "on"))?;
    wait_until("the replica's error", || Ok(error_of(&replica)?.is_some()))?;
    let error = error_of(&replica)?.context("the replica has not stopped")?;
    ensure!(error.contains("13121"), "{error}");
    let relay = RelayProcess::of(&source, &[])?;
    replica.sql(&format!(
        "stop slave; change master to master_host = '127.0.0.1', master_port = {}, \
         master_log_file = 'binlog.000002', master_log_pos = 4; start slave",
        relay.port
    ))?;
    wait_for_equal(&source, &replica)?;
    source.sql(&work(200, "on"))?;
    wait_for_equal(&source, &replica)
}

/// A replica by file and position that stopped in the middle of a log resumes there at the relay: up to the first
/// compressed transaction of a log, the positions of the source are those of the plain form.
#[test]
fn replicas_stopped_in_the_middle_of_a_log_resume_there() -> Result<()> {
    let source = source(TestPackage::Mysql8_0)?;
    let replica = replica(TestPackage::Mysql8_0_15)?;
    source.sql("create user repl identified with mysql_native_password by ''; grant replication slave on *.* to repl")?;
    source.sql(TABLE)?;
    source.sql(&work(0, "off"))?;
    follow(&replica, source.port(), FirstLog)?;
    wait_for_equal(&source, &replica)?;
    source.sql(&work(100, "on"))?;
    wait_until("the replica's error", || Ok(error_of(&replica)?.is_some()))?;
    let error = error_of(&replica)?.context("the replica has not stopped")?;
    ensure!(error.contains("13121"), "{error}");
    // Relay_Master_Log_File and Exec_Master_Log_Pos.
    let fields: Vec<&str> = error.split('\t').collect();
    let (log, position) = (fields.get(9).context("no log")?, fields.get(21).context("no position")?);
    ensure!(*log == "binlog.000001" && position.parse::<u64>()? > 4096, "{log} {position}");
    let relay = RelayProcess::of(&source, &[])?;
    replica.sql(&format!(
        "stop slave; change master to master_host = '127.0.0.1', master_port = {}, master_log_file = '{log}', \
         master_log_pos = {position}; start slave",
        relay.port
    ))?;
    wait_for_equal(&source, &replica)?;
    // A position after the first compressed transaction is that of the relay, which a restart does not change.
    source.sql(&work(200, "off"))?;
    wait_for_equal(&source, &replica)?;
    replica.sql("stop slave; start slave")?;
    source.sql(&work(300, "on"))?;
    wait_for_equal(&source, &replica)
}

/// Events larger than a packet, for replicas with the forms as-is and plain.
#[test]
fn events_larger_than_a_packet() -> Result<()> {
    let source = source(TestPackage::Mysql8_0)?;
    source.sql(TABLE)?;
    source.sql("set names latin1; create table d.big (id int primary key, s longtext) engine=innodb")?;
    let relay = RelayProcess::of(&source, &[])?;
    let replicas = [replica(TestPackage::Mysql)?, replica(TestPackage::Mysql5_7)?];
    replicas.iter().try_for_each(|replica| follow(replica, relay.port, Gtids))?;
    for (id, compression) in [(1, "off"), (2, "on")] {
        source.sql(&format!(
            "set names latin1; set session binlog_transaction_compression = {compression}; \
             insert into d.big values ({id}, concat(repeat(md5({id}), 500000), repeat(md5(7), 600000)))"
        ))?;
    }
    replicas.iter().try_for_each(|replica| wait_for_equal(&source, replica))
}

/// A relay that receives from a relay, and a replica of each. The first relay stores plain logs.
#[test]
fn relays_of_relays() -> Result<()> {
    let source = source(TestPackage::Mysql8_0)?;
    source.sql(TABLE)?;
    source.sql(&work(0, "on"))?;
    let relay = RelayProcess::start(&index_of(&source)?, &["--form", "plain"])?;
    let directory = TempDir::new()?;
    let from = format!("mysql://repl@127.0.0.1:{}/", relay.port);
    let downstream = RelayProcess::start(directory.path(), &["--from", &from])?;
    let replicas = [replica(TestPackage::Mysql8_0_15)?, replica(TestPackage::Mysql)?];
    follow(&replicas[0], downstream.port, FirstLog)?;
    follow(&replicas[1], downstream.port, Gtids)?;
    source.sql(&work(100, "off"))?;
    source.sql("flush binary logs")?;
    source.sql(&work(200, "on"))?;
    replicas.iter().try_for_each(|replica| wait_for_equal(&source, replica))
}

/// Logs without checksums, then with checksums, then without again.
#[test]
fn sources_with_changing_binlog_checksum() -> Result<()> {
    let source = source(TestPackage::Mysql8_0)?;
    source.sql("set global binlog_checksum = none")?;
    source.sql(TABLE)?;
    source.sql(&work(0, "on"))?;
    let relay = RelayProcess::of(&source, &[])?;
    let replicas = [
        (replica(TestPackage::Mysql)?, Gtids),
        (replica(TestPackage::Mysql5_7)?, FirstLog),
        (replica(TestPackage::MariaDb)?, FirstLog),
    ];
    replicas.iter().try_for_each(|(replica, start)| follow(replica, relay.port, *start))?;
    source.sql("set global binlog_checksum = crc32")?;
    source.sql(&work(100, "off"))?;
    source.sql("set global binlog_checksum = none")?;
    source.sql(&work(200, "on"))?;
    replicas.iter().try_for_each(|(replica, _)| wait_for_equal(&source, replica))
}

/// A replica whose connection is ended by `KILL` reconnects.
#[test]
fn killed_replica_connections_reconnect() -> Result<()> {
    let source = source(TestPackage::Mysql8_0)?;
    source.sql(TABLE)?;
    let relay = RelayProcess::of(&source, &[])?;
    let replica = replica(TestPackage::Mysql)?;
    follow(&replica, relay.port, Gtids)?;
    wait_for_equal(&source, &replica)?;
    let mysql = |sql: &str| -> Result<String> {
        let mut command = PackageHome::find(TestPackage::Mysql)?.command("mysql")?;
        command.args(["--no-defaults", "--host=127.0.0.1", "--user=repl", "-N", "-e", sql]);
        let output = command.arg(format!("--port={}", relay.port)).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8(output.stdout)?)
    };
    let dump_id = || -> Result<Option<String>> {
        let list = mysql("SHOW PROCESSLIST")?;
        let line = list.lines().find(|line| line.contains("Binlog Dump GTID"));
        Ok(line.and_then(|line| line.split('\t').next()).map(str::to_owned))
    };
    let before = dump_id()?.context("the replica is not connected")?;
    mysql(&format!("KILL {before}"))?;
    wait_until("the replica", || Ok(dump_id()?.is_some_and(|id| id != before)))?;
    source.sql(&work(0, "on"))?;
    wait_for_equal(&source, &replica)?;
    ensure!(error_of(&replica)?.is_none(), "{}", status(&replica)?);
    Ok(())
}

/// Writes a certificate authority for clients, and a certificate that it has signed.
fn write_certificates(directory: &Path) -> Result<()> {
    let mut authority = CertificateParams::new(Vec::new())?;
    authority.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate()?)?;
    let key = KeyPair::generate()?;
    let client = CertificateParams::new(Vec::new())?.signed_by(&key, &authority)?;
    fs::write(directory.join("client-ca.pem"), authority.pem())?;
    fs::write(directory.join("client.pem"), client.pem())?;
    fs::write(directory.join("client.key"), key.serialize_pem())?;
    Ok(())
}

/// An account that requires a certificate: with the mysql client, and a replica.
#[test]
fn clients_with_certificates() -> Result<()> {
    let source = source(TestPackage::Mysql)?;
    source.sql(TABLE)?;
    source.sql(&work(0, "on"))?;
    let directory = TempDir::new()?;
    write_certificates(directory.path())?;
    let path = |name: &str| directory.path().join(name).display().to_string();
    fs::write(path("password"), "secret")?;
    let mut add = Command::new(bintide()?);
    add.env_clear().args(["relay", "user", "add", "repl", "--require=certificate", "--accounts"]);
    let added = add.arg(path("accounts.toml")).arg("--password-file").arg(path("password")).output()?;
    ensure!(added.status.success(), "{}", String::from_utf8_lossy(&added.stderr));
    let (accounts, authority) = (path("accounts.toml"), path("client-ca.pem"));
    let options = ["--accounts", &accounts, "--client-ca", &authority];
    let relay = RelayProcess::start(&index_of(&source)?, &options)?;
    let (certificate, key) =
        (format!("--ssl-cert={}", path("client.pem")), format!("--ssl-key={}", path("client.key")));
    for (more, is_right) in [(vec![certificate.as_str(), key.as_str()], true), (Vec::new(), false)] {
        let mut command = PackageHome::find(TestPackage::Mysql)?.command("mysql")?;
        command.args(["--no-defaults", "--host=127.0.0.1", "--user=repl", "--ssl-mode=REQUIRED"]).args(more);
        command.args(["-e", "SELECT 1"]).arg(format!("--port={}", relay.port)).env("MYSQL_PWD", "secret");
        let output = command.output()?;
        let printed = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success() == is_right && is_right != printed.contains("1045"), "{printed}");
    }
    let replica = replica(TestPackage::Mysql)?;
    replica.sql(&format!(
        "change replication source to source_host = '127.0.0.1', source_port = {}, source_user = 'repl', \
         source_password = 'secret', source_ssl = 1, source_ssl_cert = '{}', source_ssl_key = '{}', \
         source_auto_position = 1; start replica",
        relay.port,
        path("client.pem"),
        path("client.key"),
    ))?;
    wait_for_equal(&source, &replica)
}
