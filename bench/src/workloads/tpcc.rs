//! TPC-C by PingCAP's go-tpc: orders, payments and deliveries of ten warehouses.

use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use testkit::TestServer;

use crate::cases;

/// Number of warehouses. Each has about 100 MB of rows.
const WAREHOUSES: usize = 10;
/// Number of sessions that load the rows.
const LOADING_SESSIONS: usize = 4;

/// Tables of TPC-C in the database `tpcc`.
pub(crate) const TPCC_TABLES: [&str; 9] =
    ["customer", "district", "history", "item", "new_order", "order_line", "orders", "stock", "warehouse"];

/// Creates the tables, and loads the rows.
pub(crate) fn prepare_tpcc(server: &TestServer) -> Result<()> {
    server.sql("create database tpcc")?;
    go_tpc(server, LOADING_SESSIONS, &["prepare", "--no-check"])
}

/// Runs transactions for this time.
pub(crate) fn run_tpcc(server: &TestServer, sessions: usize, time: Duration) -> Result<()> {
    go_tpc(server, sessions, &["run", "--time", &format!("{}s", time.as_secs_f64())])
}

fn go_tpc(server: &TestServer, sessions: usize, arguments: &[&str]) -> Result<()> {
    let mut command =
        Command::new(cases::build_go_program("go-tpc", "github.com/pingcap/go-tpc/cmd/go-tpc", "go-tpc")?);
    // Transactions may fail by a deadlock. go-tpc prints each such error, and goes on.
    command.args(["--host=127.0.0.1", "--user=root", "--db=tpcc", "--ignore-error"]);
    command.arg(format!("--port={}", server.port())).arg(format!("--threads={sessions}"));
    command.arg("tpcc").arg(format!("--warehouses={WAREHOUSES}")).args(arguments);
    let output = command.stdin(Stdio::null()).output().context("could not run go-tpc")?;
    let text = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "go-tpc failed: {}", String::from_utf8_lossy(&text));
    Ok(())
}
