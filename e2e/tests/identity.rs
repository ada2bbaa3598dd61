//! bintide, called mysqlbinlog, prints what mysqlbinlog prints.

use anyhow::Result;
use e2e::compare::Run;
use e2e::identity::{self, SEED};
use e2e::logs::Logs;
use e2e::workload;
use tempfile::TempDir;

/// The ways of printing that people use, over every sample.
#[test]
fn every_sample_with_usual_options() -> Result<()> {
    let usual: [&[&str]; 10] = [
        &[],
        &["-v"],
        &["-vv"],
        &["-vvv", "--print-table-metadata"],
        &["-vv", "--base64-output=decode-rows"],
        &["--base64-output=never"],
        &["--short-form"],
        &["--hexdump"],
        &["--skip-gtids", "--disable-log-bin", "--verify-binlog-checksum"],
        &["--idempotent", "--set-charset=latin1", "--require-row-format"],
    ];
    let logs = Logs::samples()?;
    let mut runs = Vec::new();
    for set in &logs.sets {
        for options in usual {
            let options = options.iter().map(|option| (*option).to_owned());
            runs.push(Run::new(options.chain(set.files.iter().cloned())));
        }
    }
    identity::check_all("usual", &logs, &runs)
}

/// Two to four options drawn from all there are, over every sample.
#[test]
fn every_sample_with_random_options() -> Result<()> {
    identity::check_random("samples", &Logs::samples()?, testkit::seed(SEED), 600)
}

/// The same over logs that a server has just written under random SQL.
#[test]
fn fresh_logs_with_random_options() -> Result<()> {
    let seed = testkit::seed(SEED);
    let folder = TempDir::new()?;
    for number in 0..4 {
        workload::record(seed + number, &format!("workload-{number}"), folder.path())?;
    }
    identity::check_random("workloads", &Logs::read(folder.path())?, seed, 200)
}
