//! Connections of MariaDB replicas that are cut within a statement.

use anyhow::{Context, Result};
use e2e::relayed::{self, RelayProcess, ReplicaStartPoint, TABLE, error_of, wait_for_equal};
use tempfile::TempDir;
use testkit::{CutMode, Proxy, TestPackage, wait_until};

/// Bytes of a transaction after which the connection is cut, and distance to the next cut.
const CUT_AFTER: (u64, u64) = (30_000, 7_000);
/// Number of cuts.
const CUTS: u64 = 10;

#[test]
fn a_mariadb_replica_resumes_within_a_statement() -> Result<()> {
    let source = relayed::source_launch(TestPackage::Mysql8_0).start()?;
    source.sql(TABLE)?;
    let directory = TempDir::new()?;
    let relay = RelayProcess::start(
        directory.path(),
        &[&format!("--from=mysql://root@127.0.0.1:{}/", source.port())],
    )?;
    let proxy = Proxy::to(relay.port)?;
    let launch = relayed::replica_launch(TestPackage::MariaDb, 2);
    let replica = launch.option("--sync-relay-log-info=1").start()?;
    relayed::follow(&replica, proxy.port(), ReplicaStartPoint::FirstLog)?;
    wait_for_equal(&source, &replica)?;
    for cut in 0..CUTS {
        proxy.cut_after(CUT_AFTER.0 + cut * CUT_AFTER.1, CutMode::Reset);
        let first = cut * 1000;
        let rows: Vec<String> =
            (1..300).map(|number| format!("({}, repeat('x', 500))", first + number)).collect();
        source.sql(&format!(
            "set names latin1; begin; insert into d.t values {};
             update d.t set s = concat(s, '!') where id > {first}; commit",
            rows.join(",")
        ))?;
        wait_until("the cut", || Ok(proxy.is_cut()))?;
        proxy.mend();
        wait_for_equal(&source, &replica).with_context(|| format!("cut {cut}: {:?}", error_of(&replica)))?;
    }
    Ok(())
}
