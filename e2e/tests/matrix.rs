//! Every command on every server: those that `BINTIDE_SERVERS` names, a telling few otherwise. docs/servers.md has the
//! results.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use e2e::matrix::{MatrixServer, changes_shown, check_each, log_printer, shown_by};
use e2e::program::bintide;
use serde_json::Value;
use testkit::Package;

fn bintide_on(arguments: &[&str], server: &MatrixServer) -> Result<Output> {
    let mut command = Command::new(bintide()?);
    command.env_clear().args(arguments).args(&server.logs);
    Ok(command.output()?)
}

/// The standard output of a run that succeeds.
fn printed(output: Output) -> Result<Vec<u8>> {
    let (text, end) = (String::from_utf8_lossy(&output.stderr), output.stdout.len().saturating_sub(2000));
    let shown = String::from_utf8_lossy(&output.stdout[end..]);
    ensure!(output.status.success(), "{}: {text}{shown}", output.status);
    Ok(output.stdout)
}

#[test]
fn verify_finds_all_logs_sound() -> Result<()> {
    check_each(&Package::chosen()?, |server| printed(bintide_on(&["verify"], server)?).map(drop))
}

#[test]
fn stats_counts_the_rows_that_mysqlbinlog_prints() -> Result<()> {
    check_each(&Package::chosen()?, |server| {
        let report: Value = serde_json::from_slice(&printed(bintide_on(&["stats", "--json"], server)?)?)?;
        let wanted = changes_shown(&shown_by(log_printer(server.package), &server.logs)?);
        let tables = report["tables"].as_array().context("a list")?;
        let sum = |name: &str| tables.iter().filter_map(|table| table[name].as_u64()).sum::<u64>();
        let found = ["inserted", "updated", "deleted"].map(|name| sum(name) as usize);
        ensure!(found == wanted && wanted[0] > 20, "{found:?}, not {wanted:?}: {report}");
        Ok(())
    })
}
