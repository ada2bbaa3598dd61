//! The five workloads by level: the size of the server's log, and of `bintide compress` on the plain log of the same
//! transactions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cases;
use crate::chart::{self, ChartLine};
use crate::doc_page;
use crate::table::{self, difference, megabytes};
use crate::workload_runs::{self, BinlogSettings};
use crate::workloads::{self, LogCompression, Workload};

/// Largest excess of bintide's size over the server's, as a fraction.
const LARGER_MAX: f64 = 0.01;

/// Sizes of one workload's log at one level.
struct LevelSizes {
    workload: Workload,
    level: u32,
    server: u64,
    ours: u64,
}

impl LevelSizes {
    fn difference(&self) -> f64 {
        self.ours as f64 / self.server as f64 - 1.0
    }
}

pub(super) fn measure(levels: &[u32]) -> Result<()> {
    let bintide = cases::build_bintide()?;
    let mut pairs = Vec::new();
    for &level in levels {
        let runs = workload_runs::load_or_run_once(BinlogSettings::at(level))?;
        for (workload, run) in Workload::ALL.into_iter().zip(runs) {
            let ours =
                compressed_size(&bintide, &workloads::workload_log(workload, LogCompression::Plain)?, level)?;
            let pair = LevelSizes { workload, level, server: run.bytes, ours };
            eprintln!("{} level {level}: {}", workload.name(), difference(pair.difference()));
            pairs.push(pair);
        }
    }
    doc_page::COMPRESSION.write("levels", &(table_of(levels, &pairs) + &doc_page::conditions()?))?;
    doc_page::COMPRESSION.draw("levels", &drawing(levels, &pairs)?)?;
    for pair in &pairs {
        let (workload, level) = (pair.workload.name(), pair.level);
        ensure!(
            pair.difference() <= LARGER_MAX,
            "{workload} at level {level}: ours is larger than the server's by {}",
            difference(pair.difference())
        );
    }
    Ok(())
}

/// Returns the size of the log that `bintide compress` writes.
fn compressed_size(bintide: &Path, log: &Path, level: u32) -> Result<u64> {
    let directory = testkit::target_dir().join("bench/compressed");
    if directory.exists() {
        fs::remove_dir_all(&directory)?;
    }
    fs::create_dir_all(&directory)?;
    let mut command = Command::new(bintide);
    command.args(["compress", "--like-server", "--json", "--level", &level.to_string()]);
    let output = command.arg("--output").arg(&directory).arg(log).output()?;
    ensure!(output.status.success(), "bintide failed: {}", String::from_utf8_lossy(&output.stderr));
    let written: PathBuf = directory.join(log.file_name().context("the log has no name")?);
    let size = fs::metadata(&written)?.len();
    fs::remove_dir_all(&directory)?;
    Ok(size)
}

/// Formats a table with a row for each workload and program, and a column for each level.
fn table_of(levels: &[u32], pairs: &[LevelSizes]) -> String {
    let names: Vec<String> = levels.iter().map(|level| format!("level {level}")).collect();
    let heads: Vec<&str> = ["MB", ""].into_iter().chain(names.iter().map(String::as_str)).collect();
    let rows = Workload::ALL.into_iter().flat_map(|workload| {
        let of_workload = || pairs.iter().filter(move |pair| pair.workload == workload);
        let row = |name: &str, who: &str, cells: Vec<String>| {
            [vec![name.to_owned(), who.to_owned()], cells].concat()
        };
        [
            row(workload.name(), "server", of_workload().map(|pair| megabytes(pair.server)).collect()),
            row("", "bintide", of_workload().map(|pair| megabytes(pair.ours)).collect()),
            row("", "difference", of_workload().map(|pair| difference(pair.difference())).collect()),
        ]
    });
    table::markdown(&heads, rows)
}

fn drawing(levels: &[u32], pairs: &[LevelSizes]) -> Result<String> {
    let mut lines = Vec::new();
    for workload in Workload::ALL {
        let plain = fs::metadata(workloads::workload_log(workload, LogCompression::Plain)?)?.len() as f64;
        let of_workload = || pairs.iter().filter(move |pair| pair.workload == workload);
        lines.push(ChartLine {
            name: workload.name(),
            values: of_workload().map(|pair| 100.0 * pair.server as f64 / plain).collect(),
            marks: of_workload().map(|pair| 100.0 * pair.ours as f64 / plain).collect(),
        });
    }
    let names: Vec<String> = levels.iter().map(|level| format!("level {level}")).collect();
    chart::line_chart("Size of the log, % of plain (line: the server; ring: bintide)", &names, &lines)
}
