//! Semi-synchronous replication through `bintide relay`: a source, the relay, and two real replicas.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::metrics::scraped;
use e2e::relayed::{RelayProcess, ReplicaStartPoint, follow, replica, source, wait_for_equal};
use tempfile::TempDir;
use testkit::{PackageHome, TestPackage, TestServer, free_port, wait_until};

/// Time for which the relay waits for replicas in these tests. The source itself waits much longer.
const ACK_TIMEOUT: Duration = Duration::from_secs(3);

/// Starts a source that waits for acknowledgements.
fn semi_sync_source() -> Result<TestServer> {
    let source = source(TestPackage::Mysql)?;
    source.sql("install plugin rpl_semi_sync_source soname 'semisync_source.so'")?;
    source.sql(
        // Enabled last, because the first commit afterwards waits for a replica.
        "set names latin1; create database d; create table d.t (id int primary key); \
         create table d.l (data blob); \
         set global rpl_semi_sync_source_timeout = 100000; set global rpl_semi_sync_source_enabled = on",
    )?;
    Ok(source)
}

fn semi_sync_replica(relay: &RelayProcess) -> Result<TestServer> {
    let replica = replica(TestPackage::Mysql)?;
    replica.sql("install plugin rpl_semi_sync_replica soname 'semisync_replica.so'")?;
    replica.sql("set global rpl_semi_sync_replica_enabled = on")?;
    follow(&replica, relay.port, ReplicaStartPoint::Gtids)?;
    Ok(replica)
}

/// Returns the value of a status variable.
fn status(server: &TestServer, name: &str) -> Result<String> {
    let row = server.sql(&format!("show global status like '{name}'"))?;
    Ok(row.split_whitespace().nth(1).context("no such variable")?.to_owned())
}

/// Commits one row. Returns the duration of the commit.
fn commit(source: &TestServer, id: u32) -> Result<Duration> {
    let began = Instant::now();
    source.sql(&format!("insert into d.t values ({id})"))?;
    Ok(began.elapsed())
}

fn metric(address: &str, name: &str) -> Result<u64> {
    let text = scraped(address)?;
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.with_context(|| format!("{name} is not in {text}"))?.parse()?)
}

/// When a commit returns, a replica has the transaction.
fn ensure_received(source: &TestServer, replica: &TestServer) -> Result<()> {
    let received = replica
        .sql("select received_transaction_set from performance_schema.replication_connection_status")?;
    let executed = source.sql("select @@gtid_executed")?;
    let check = format!(
        "select gtid_subset('{}', concat('{}', ',', @@gtid_executed))",
        one_line(&executed),
        one_line(&received)
    );
    ensure!(replica.sql(&check)?.trim() == "1", "{executed} {received}");
    Ok(())
}

#[test]
fn sources_wait_for_replicas_of_the_relay() -> Result<()> {
    let source = semi_sync_source()?;
    let directory = TempDir::new()?;
    let from = format!("mysql://root@127.0.0.1:{}/", source.port());
    let metrics = format!("127.0.0.1:{}", free_port()?);
    let timeout = ACK_TIMEOUT.as_secs().to_string();
    let options = ["--from", &from, "--semi-sync", "--wait-for-replicas=2", "--ack-timeout", &timeout];
    let relay = RelayProcess::start(directory.path(), &[&options[..], &["--metrics", &metrics]].concat())?;
    let replicas = [semi_sync_replica(&relay)?, semi_sync_replica(&relay)?];
    for replica in &replicas {
        wait_for_equal(&source, replica)?;
        ensure!(status(replica, "Rpl_semi_sync_replica_status")? == "ON");
    }
    // A commit before the replicas connected may have timed out.
    commit(&source, 1)?;
    wait_until("both replicas", || Ok(metric(&metrics, "bintide_relay_asynchronous")? == 0))?;
    let (timeouts, acks) = (
        metric(&metrics, "bintide_relay_ack_timeouts_total")?,
        metric(&metrics, "bintide_relay_acknowledgements_total")?,
    );
    for id in 10..30 {
        let took = commit(&source, id)?;
        ensure!(took < ACK_TIMEOUT, "a commit took {took:?}");
        ensure_received(&source, &replicas[0])?;
    }
    // The event of this transaction is sent in several pieces.
    let began = Instant::now();
    source.sql(
        "set session binlog_transaction_compression = on; \
         insert into d.l select random_bytes(1000) from information_schema.columns limit 1000",
    )?;
    let took = began.elapsed();
    ensure!(took < ACK_TIMEOUT, "the commit of a large transaction took {took:?}");
    ensure!(metric(&metrics, "bintide_relay_ack_timeouts_total")? == timeouts);
    ensure!(metric(&metrics, "bintide_relay_acknowledgements_total")? >= acks + 42);
    ensure!(status(&source, "Rpl_semi_sync_source_status")? == "ON");

    replicas[1].sql("stop replica io_thread")?;
    let took = commit(&source, 100)?;
    ensure!(took >= ACK_TIMEOUT && took < 5 * ACK_TIMEOUT, "a commit without the replica took {took:?}");
    ensure!(metric(&metrics, "bintide_relay_ack_timeouts_total")? == timeouts + 1);
    ensure!(metric(&metrics, "bintide_relay_asynchronous")? == 1);
    let took = commit(&source, 101)?;
    ensure!(took < ACK_TIMEOUT, "in asynchronous mode, a commit took {took:?}");
    ensure!(status(&source, "Rpl_semi_sync_source_status")? == "ON", "the source has timed out");

    replicas[1].sql("start replica io_thread")?;
    wait_until("both replicas", || Ok(metric(&metrics, "bintide_relay_asynchronous")? == 0))?;
    let took = commit(&source, 102)?;
    ensure!(took < ACK_TIMEOUT, "a commit took {took:?}");

    // By SQL, the relay waits for one replica only.
    replicas[1].sql("stop replica io_thread")?;
    set_globally(
        &relay,
        "rpl_semi_sync_source_wait_for_replica_count = 1, @@global.rpl_semi_sync_source_timeout = 4000",
    )?;
    let took = commit(&source, 103)?;
    ensure!(took < ACK_TIMEOUT, "a commit took {took:?}");
    ensure!(metric(&metrics, "bintide_relay_ack_timeouts_total")? == timeouts + 1);
    replicas[1].sql("start replica io_thread")?;
    replicas.iter().try_for_each(|replica| wait_for_equal(&source, replica))
}

/// While the relay waits for a replica, SQL can stop receiving, purge logs, and change the wait.
#[test]
fn a_wait_for_replicas_is_controlled_by_sql() -> Result<()> {
    let source = semi_sync_source()?;
    source.sql("flush binary logs")?;
    let directory = TempDir::new()?;
    let from = format!("mysql://root@127.0.0.1:{}/", source.port());
    let options = ["--from", &from, "--semi-sync", "--wait-for-replicas=1", "--ack-timeout=600"];
    let relay = RelayProcess::start(directory.path(), &options)?;
    std::thread::scope(|scope| {
        let committing = scope.spawn(|| commit(&source, 1));
        let newest = source.sql("show binary logs")?;
        let newest = newest.lines().last().and_then(|line| line.split_whitespace().next());
        let newest = newest.context("the source has no logs")?.to_owned();
        let stored = directory.path().join(&newest);
        wait_until("the transaction", || {
            Ok(std::fs::read(&stored).is_ok_and(|log| log.windows(3).any(|name| name == b"d\0\x01")))
        })?;
        let began = Instant::now();
        run_sql(&relay, &format!("PURGE BINARY LOGS TO '{newest}'"))?;
        ensure!(!directory.path().join("binlog.000001").exists());
        run_sql(&relay, "STOP REPLICA")?;
        run_sql(&relay, "START REPLICA")?;
        ensure!(began.elapsed() < Duration::from_secs(8), "the statements took {:?}", began.elapsed());
        ensure!(!committing.is_finished(), "the commit did not wait for a replica");
        set_globally(&relay, "rpl_semi_sync_source_timeout = 500")?;
        let took = committing.join().ok().context("the commit panicked")??;
        ensure!(took < Duration::from_secs(60), "the commit took {took:?}");
        ensure!(status(&source, "Rpl_semi_sync_source_status")? == "ON", "the source has timed out");
        Ok(())
    })
}

fn set_globally(relay: &RelayProcess, assignments: &str) -> Result<()> {
    run_sql(relay, &format!("SET GLOBAL {assignments}"))
}

fn run_sql(relay: &RelayProcess, statement: &str) -> Result<()> {
    let mut client = PackageHome::find(TestPackage::Mysql)?.command("mysql")?;
    client.args(["--no-defaults", "--host=127.0.0.1", "--user=root"]).arg(format!("--port={}", relay.port));
    ensure!(client.args(["-e", statement]).status()?.success(), "{statement} failed");
    Ok(())
}

fn one_line(text: &str) -> String {
    text.replace('\n', "").trim().to_owned()
}

/// The acknowledgements of a replica that receives plain logs have other positions than the source's logs; the relay
/// converts them.
#[test]
fn sources_wait_for_replicas_with_plain_logs() -> Result<()> {
    let source = semi_sync_source()?;
    let directory = TempDir::new()?;
    let from = format!("mysql://root@127.0.0.1:{}/", source.port());
    let metrics = format!("127.0.0.1:{}", free_port()?);
    let options = ["--from", &from, "--semi-sync", "--wait-for-replicas=1", "--ack-timeout=3"];
    let relay = RelayProcess::start(directory.path(), &[&options[..], &["--metrics", &metrics]].concat())?;
    let replica = replica(TestPackage::MariaDb)?;
    replica.sql("set global rpl_semi_sync_slave_enabled = on")?;
    follow(&replica, relay.port, ReplicaStartPoint::FirstLog)?;
    wait_for_equal(&source, &replica)?;
    wait_until("the replica", || {
        commit_compressed(&source)?;
        Ok(metric(&metrics, "bintide_relay_asynchronous")? == 0)
    })?;
    let timeouts = metric(&metrics, "bintide_relay_ack_timeouts_total")?;
    for _ in 0..20 {
        commit_compressed(&source)?;
    }
    source.sql("flush binary logs")?;
    for _ in 0..20 {
        commit_compressed(&source)?;
    }
    ensure!(metric(&metrics, "bintide_relay_ack_timeouts_total")? == timeouts);
    wait_for_equal(&source, &replica)
}

fn commit_compressed(source: &TestServer) -> Result<()> {
    source.sql(
        "set names latin1; set session binlog_transaction_compression = on; \
         insert into d.t select ifnull(max(id), 1000) + 1 from d.t",
    )?;
    Ok(())
}
