//! `bintide relay` behind the members of a group (Group Replication), of which one is killed.

use anyhow::{Context, Result, ensure};
use e2e::relayed::{RelayProcess, ReplicaStartPoint, TABLE, follow, replica, wait_for_equal, work};
use tempfile::TempDir;
use testkit::{Launch, TestPackage, TestServer, free_port, wait_until};

/// Members: those that are left when one is killed are a majority.
const MEMBERS: u16 = 3;
const GROUP: &str = "aaaaaaaa-1111-4222-8333-000000000001";

/// Starts the members of a group with a single primary, the first one, which compress transactions in their logs and
/// between each other.
fn start_group(package: TestPackage) -> Result<Vec<TestServer>> {
    let ports = (0..MEMBERS).map(|_| free_port()).collect::<Result<Vec<_>>>()?;
    let seeds: Vec<String> = ports.iter().map(|port| format!("127.0.0.1:{port}")).collect();
    let mut members = Vec::new();
    for (seed, id) in seeds.iter().zip(11..) {
        let port = free_port()?;
        let launch = Launch::of(package).port(port).options([
            format!("--server-id={id}"),
            format!("--report-port={port}"),
            format!("--group-replication-local-address={seed}"),
            format!("--group-replication-group-seeds={}", seeds.join(",")),
            format!("--group-replication-group-name={GROUP}"),
        ]);
        let member = launch
            .options([
                "--report-host=127.0.0.1",
                "--plugin-load-add=group_replication.so",
                "--group-replication-start-on-boot=OFF",
                "--group-replication-compression-threshold=100",
                "--group-replication-recovery-get-public-key=ON",
                "--group-replication-member-expel-timeout=0",
                "--binlog-transaction-compression=ON",
                "--log-replica-updates=ON",
                // Collations that all replicas have.
                "--character-set-server=latin1",
                "--collation-server=latin1_swedish_ci",
            ])
            .start()?;
        member.sql(
            "set sql_log_bin = 0; create user r; \
             grant replication slave, connection_admin, backup_admin, group_replication_stream on *.* to r; \
             set sql_log_bin = 1; \
             change replication source to source_user = 'r' for channel 'group_replication_recovery'",
        )?;
        let bootstrap = if members.is_empty() { "on" } else { "off" };
        member.sql(&format!(
            "set global group_replication_bootstrap_group = {bootstrap}; start group_replication; \
             set global group_replication_bootstrap_group = off"
        ))?;
        members.push(member);
    }
    let state =
        "select count(*) from performance_schema.replication_group_members where member_state = 'ONLINE'";
    wait_until("all members", || Ok(members[0].sql(state)?.trim() == MEMBERS.to_string()))?;
    Ok(members)
}

/// Returns the index of the first member that reports itself as the primary.
fn primary(members: &[TestServer]) -> Result<Option<usize>> {
    let is_primary = "select count(*) from performance_schema.replication_group_members \
                      where member_id = @@server_uuid and member_role = 'PRIMARY' and member_state = 'ONLINE'";
    for (number, member) in members.iter().enumerate() {
        if member.sql(is_primary)?.trim() == "1" {
            return Ok(Some(number));
        }
    }
    Ok(None)
}

/// Follows a group by two members, kills the one that the relay reads, and compares a replica with the new primary.
fn follow_a_group(package: TestPackage, replica_package: TestPackage) -> Result<Vec<TestServer>> {
    let mut members = start_group(package)?;
    members[0].sql(TABLE)?;
    members[0].sql(&work(100, "on"))?;
    let directory = TempDir::new()?;
    let from: Vec<String> = members
        .iter()
        .take(2)
        .map(|member| format!("--from=mysql://root@127.0.0.1:{}/", member.port()))
        .collect();
    let from: Vec<&str> = from.iter().map(String::as_str).collect();
    let relay = RelayProcess::start(&directory.path().join("logs"), &from)?;
    let replica = replica(replica_package)?;
    follow(&replica, relay.port, ReplicaStartPoint::Gtids)?;
    wait_for_equal(&members[0], &replica)?;
    members[0].sql(&work(200, "on"))?;
    wait_for_equal(&members[0], &replica)?;
    let mut killed = members.remove(0);
    killed.kill()?;
    let mut number = None;
    wait_until("another primary", || {
        number = primary(&members)?;
        Ok(number.is_some())
    })?;
    let primary = &members[number.context("a primary")?];
    primary.sql(&work(300, "on"))?;
    primary.sql(&work(400, "off"))?;
    wait_for_equal(primary, &replica)?;
    let executed = "select @@gtid_executed";
    wait_until("all GTIDs", || {
        let (expected, found) = (primary.sql(executed)?, replica.sql(executed)?);
        Ok(expected.contains(GROUP) && found == expected)
    })?;
    Ok(members)
}

/// The logs of the members have View_change events: servers before 8.3 write them.
#[test]
fn an_old_replica_follows_a_group_of_8_0() -> Result<()> {
    let members = follow_a_group(TestPackage::Mysql8_0, TestPackage::Mysql8_0_15)?;
    let events = members[0].sql("show binlog events")?;
    ensure!(events.contains("View_change") && events.contains("Transaction_payload"), "{events:.2000}");
    Ok(())
}

#[test]
fn a_replica_follows_a_group_of_9_7() -> Result<()> {
    follow_a_group(TestPackage::Mysql, TestPackage::Mysql)?;
    Ok(())
}
