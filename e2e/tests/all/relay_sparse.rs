//! A relay of a log with more than 4 GiB: its clients request the later transactions by GTID.

use anyhow::{Context, Result, ensure};
use e2e::relayed::{RelayProcess, ReplicaStartPoint, ask, follow, replica, status};
use e2e::sparse_log::{SparseLog, UUID};
use tempfile::TempDir;
use testkit::{ProcessMemory, TestPackage, TestServer, wait_until};

/// Maximum memory of the relay in KiB. The log has five events of 1 GiB, which no client receives.
const MEMORY_MAX: u64 = 200 << 10;

/// Starts a replica that has the transactions before the fourth.
fn replica_with_three(package: TestPackage) -> Result<TestServer> {
    let replica = replica(package)?;
    replica.sql(&format!(
        "set sql_log_bin = 0; create database d; create table d.t (a int primary key, b longblob) engine=innodb; \
         insert into d.t values (1, 'x'); set global gtid_purged = '{UUID}:1-3'"
    ))?;
    Ok(replica)
}

#[test]
fn replicas_receive_transactions_beyond_4_gib() -> Result<()> {
    let directory = TempDir::new()?;
    let log = SparseLog::write(directory.path())?;
    let relay = RelayProcess::start(directory.path(), &["--form", "as-is"])?;
    for package in [TestPackage::Mysql, TestPackage::Mysql8_0_15] {
        let replica = replica_with_three(package)?;
        follow(&replica, relay.port, ReplicaStartPoint::Gtids)?;
        wait_until("the rows of both transactions", || {
            Ok(replica.sql("select count(*) from d.t")?.trim() == "3")
        })
        .with_context(|| format!("{package:?}: {:?}", status(&replica)))?;
    }
    let shown = ask(relay.port, "SHOW BINARY LOGS", &[])?;
    ensure!(shown.contains(&log.size.to_string()), "{} bytes: {shown}", log.size);
    let events =
        ask(relay.port, &format!("SHOW BINLOG EVENTS IN 'binlog.000001' FROM {} LIMIT 2", log.fourth), &[])?;
    ensure!(events.contains(&format!("{UUID}:4")), "{events}");
    let running = relay.running.as_ref().context("the relay does not run")?;
    let peak = ProcessMemory::of(running.id())?.peak_kib;
    ensure!(peak < MEMORY_MAX, "the relay took {peak} KiB");
    Ok(())
}
