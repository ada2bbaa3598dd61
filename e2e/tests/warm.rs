//! `bintide warm` beside real replicas: what it brings into memory, and what it leaves alone.

use anyhow::{Result, ensure};
use e2e::replays::ends_equal;
use e2e::warming::{Warming, cold, command, leave_behind, pages_by_applier, pair, wait_until_applied};
use testkit::{Dice, Launch, Server, seed};

/// Rows of a few to a page.
const ROWS: usize = 6000;

const TABLE: &str = "create database d;
    create table d.t (id int primary key, n int not null, pad varchar(3000) not null);
    set cte_max_recursion_depth = 10000;
    insert into d.t with recursive n as (select 1 i union all select i + 1 from n where i < 6000)
      select i, i, repeat('x', 3000) from n;
    create table d.none (id int primary key);
    create user warm@'%' identified by '';
    grant replication client on *.* to warm@'%';
    grant select on d.* to warm@'%';
    grant select on performance_schema.* to warm@'%';";

/// Pages that the applier of a cold replica reads until it has all that the source has.
fn apply(source: &Server, replica: &Server) -> Result<u64> {
    replica.sql("start replica sql_thread")?;
    wait_until_applied(source, replica)?;
    let pages = pages_by_applier(replica)?;
    ends_equal(source, replica)?;
    Ok(pages)
}

#[test]
fn pages_are_in_memory_before_the_applier_needs_them() -> Result<()> {
    let mut dice = Dice::new(seed("BINTIDE_E2E_SEED"));
    let (source, mut replica) = pair(&Launch::mysql(), &Launch::mysql(), TABLE)?;
    let updates: String =
        (0..400).map(|_| format!("update d.t set n = n + 1 where id = {};", 1 + dice.below(ROWS))).collect();
    let data = leave_behind(&source, &mut replica, &updates)?;
    let alone = cold(&data, &[])?;
    let pages_alone = apply(&source, &alone)?;
    drop(alone);
    let replica = cold(&data, &[])?;
    let executed = replica.sql("select @@global.gtid_executed, @@global.innodb_buffer_pool_size")?;
    let warming = Warming::begin(&replica, "warm", &[])?;
    warming.wait_for(300)?;
    let again = replica.sql("select @@global.gtid_executed, @@global.innodb_buffer_pool_size")?;
    ensure!(executed == again, "{again}");
    let pages = apply(&source, &replica)?;
    ensure!(pages_alone > 200, "the applier alone read {pages_alone} pages only");
    ensure!(pages < pages_alone / 5, "{pages} of {pages_alone} pages were left to the applier");
    let report = warming.end()?;
    ensure!(report["errors"] == 0 && report["rows_left"] == 0 && report["rows"] == 400, "{report}");
    let ours = report["pages_read"]["warm"]["pages"].as_u64().unwrap_or(0);
    ensure!(ours > 200, "{report}");
    Ok(())
}

#[test]
fn a_server_that_is_no_replica_is_left_alone() -> Result<()> {
    let server = Launch::mysql().start()?;
    let ran = command(&server, "root")?.output()?;
    let said = String::from_utf8_lossy(&ran.stderr);
    ensure!(ran.status.code() == Some(2) && said.contains("the server is no replica"), "{said}");
    Ok(())
}
