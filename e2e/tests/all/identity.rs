//! bintide, called mysqlbinlog, prints the same as mysqlbinlog.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use e2e::archived::check_restored_logs;
use e2e::compare::{Run, difference};
use e2e::identity::{self, SEED};
use e2e::logs::Logs;
use e2e::program::{Outcome, bintide};
use e2e::workload;
use tempfile::TempDir;
use testkit::{Launch, PackageHome, TestPackage};

/// Usual options, with every sample.
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

/// mysqlbinlog 9.7 refuses version 1 of row events. `bintide dump` prints them as mysqlbinlog 8.0 does; under
/// mysqlbinlog's name, bintide refuses them too.
#[test]
fn row_events_of_version_1_are_printed_as_by_mysqlbinlog_8() -> Result<()> {
    let ways: [&[&str]; 8] = [
        &[],
        &["-vv"],
        &["-vv", "--base64-output=decode-rows", "--print-table-metadata"],
        &["--hexdump", "-v"],
        &["--short-form"],
        &["--database=v1", "--skip-gtids", "-v"],
        &["--rewrite-db=v1->v2", "-v"],
        &["--require-row-format", "--verify-binlog-checksum"],
    ];
    let server = Launch::of(TestPackage::Mysql5_7).option("--log-bin-use-v1-row-events=ON").start()?;
    server.sql(ROWS)?;
    server.sql("flush binary logs")?;
    let fresh = server.binlogs()?.swap_remove(0);
    let old = ["rows-v1-5.5.34", "rows-v1-5.7.22"].map(|log| {
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../crates/mysqlbinlog/tests/old/{log}.binlog"))
    });
    let real = PackageHome::find(TestPackage::Mysql8_0)?;
    for log in old.iter().chain([&fresh]) {
        for way in ways {
            let log = log.to_str().context("a path that is not UTF-8")?;
            let arguments: Vec<&str> = ["--no-defaults"].iter().chain(way).copied().chain([log]).collect();
            let mut theirs = real.command("mysqlbinlog")?;
            let mut ours = Command::new(bintide()?);
            ours.arg("dump");
            let [theirs, ours] = [&mut theirs, &mut ours].map(|command| {
                let output = command.args(&arguments).env_clear().env("TZ", "UTC").output()?;
                let (stdout, stderr) = (output.stdout, output.stderr);
                anyhow::Ok(Outcome { code: output.status.code(), stdout, stderr })
            });
            let (theirs, ours) = (theirs?, ours?);
            let what = difference(&theirs, &ours);
            ensure!(what.is_none() && ours.code == Some(0), "{arguments:?}: {}", what.unwrap_or_default());
        }
    }
    let directory = TempDir::new()?;
    fs::copy(&fresh, directory.path().join("fresh.binlog"))?;
    let logs = Logs::read(directory.path())?;
    let of = |way: &&[&str]| Run::new(way.iter().copied().chain(["logs/fresh.binlog"]).map(str::to_owned));
    identity::check_all("rows-v1", &logs, &ways.iter().map(of).collect::<Vec<_>>())
}

/// Rows of the types that MySQL 5.5 and 5.7 have.
const ROWS: &str = "create database v1; use v1; create table t (id int primary key, a varchar(300), b blob, c char(9),
    d decimal(20, 6), e enum('x', 'y'), f double, g bit(11), h timestamp(3) null, i time, j json, k datetime(6)) charset utf8;
    insert into t values (1, 'a', 'b', 'c', -1.5, 'y', 1e100, b'101', '2023-11-14 22:13:20.125', '-12:00:01', '{\"a\": [1, null]}',
      '2023-11-14 22:13:20.000001'), (2, null, null, null, null, null, null, null, null, null, null, null);
    update t set a = repeat('z', 299); delete from t where id = 2; begin; update t set j = '[]'; insert into t (id) values (3);
    commit; create table u (n int); insert into u values (1), (2), (3); update t, u set t.c = 'both', u.n = 0; delete from u";

/// Two to four options drawn from all options, with every sample.
#[test]
fn every_sample_with_random_options() -> Result<()> {
    identity::check_random("samples", &Logs::samples()?, testkit::seed_from_env(SEED), 600)
}

/// The same with logs of random SQL on a new server, which are also archived and restored.
#[test]
fn fresh_logs_with_random_options() -> Result<()> {
    let seed = testkit::seed_from_env(SEED);
    let directory = TempDir::new()?;
    for number in 0..4 {
        workload::record(seed + number, &format!("workload-{number}"), directory.path())?;
    }
    for entry in fs::read_dir(directory.path())? {
        let logs: Result<Vec<PathBuf>> = fs::read_dir(entry?.path())?.map(|log| Ok(log?.path())).collect();
        let is_log = |path: &PathBuf| {
            path.file_stem().is_some_and(|name| name == "binlog") && !path.ends_with("binlog.index")
        };
        check_restored_logs(&logs?.into_iter().filter(is_log).collect::<Vec<_>>())?;
    }
    identity::check_random("workloads", &Logs::read(directory.path())?, seed, 200)
}
