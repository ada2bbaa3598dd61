//! Measures the speed of a replay into a SQLite database.

use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::cases::build_bintide;
use super::measure::run_measured;
use crate::workloads::{LogCompression, Workload, workload_log};

/// Goal: row changes a second of the load workload.
const GOAL: f64 = 150_000.0;

/// Replays the load workload, which only inserts, into a new database for each run.
pub(super) fn run(runs: usize) -> Result<()> {
    ensure!(runs > 0, "--runs must be at least 1");
    let (bintide, log) = (build_bintide()?, workload_log(Workload::Load, LogCompression::Plain)?);
    let directory = testkit::target_dir().join("bench/replay-sqlite");
    let mut rates = Vec::new();
    for _ in 0..runs {
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        fs::create_dir_all(&directory)?;
        let file = directory.join("load.db");
        let mut to = OsString::from("sqlite:");
        to.push(&file);
        // The workload's log is not the server's first one, hence --allow-gap.
        let words = ["replay", "--quiet", "--allow-gap"].map(OsString::from);
        let command: Vec<OsString> = std::iter::once(bintide.clone().into())
            .chain(words)
            .chain([log.clone().into(), "--to".into(), to])
            .collect();
        let measured = run_measured(&command, None)?;
        let rows = count_rows(&file)?;
        let rate = rows as f64 / measured.seconds;
        println!(
            "{rows} rows in {:.2} s: {rate:.0} a second; {:.2} s of CPU time, {} MB of memory at most",
            measured.seconds,
            measured.cpu_seconds,
            measured.peak_bytes / 1_000_000
        );
        rates.push(rate);
    }
    rates.sort_by(f64::total_cmp);
    let median = rates[rates.len() / 2];
    println!("median: {median:.0} row changes a second; the goal is {GOAL:.0}");
    ensure!(median >= GOAL, "the goal was missed");
    Ok(())
}

/// Counts the rows of all tables in a database.
fn count_rows(file: &Path) -> Result<u64> {
    let mut command = testkit::cargo_command(&testkit::workspace_root());
    command.args(["run", "--quiet", "--package", "bintide-sqlite-target", "--example", "row_counts", "--"]);
    let output = command.arg(file).output()?;
    ensure!(output.status.success(), "could not count the rows: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout)?;
    text.lines().map(|line| Ok(line.rsplit('\t').next().context("an empty line")?.parse::<u64>()?)).sum()
}
