//! Bench of `bintide export`: decoding into record batches, and writing Parquet files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::RaceOptions;
use super::cases;
use super::measure::run_measured;
use super::table::{markdown, median, megabytes};
use crate::workloads::{LogCompression, Workload, workload_log};

/// Goal: minimum rate of decoding into record batches, in MB of log a second of one core.
const DECODE_GOAL: &str = "goal for load and prepare: 300 MB/s";

/// Runs the library's own bench of decoding, then exports each workload.
pub(super) fn run(racing: &RaceOptions) -> Result<()> {
    ensure!(racing.runs > 0, "--runs must be at least 1");
    let bintide = cases::build_bintide()?;
    let directory = testkit::target_dir().join("bench/export");
    let (mut logs, mut rows) = (Vec::new(), Vec::new());
    for form in LogCompression::ALL {
        for workload in Workload::ALL {
            let name = format!("{} {}", workload.name(), form.name());
            if !racing.only.iter().all(|text| name.contains(text)) {
                continue;
            }
            let log = workload_log(workload, form)?;
            rows.push(measure_export(&name, &bintide, &log, &directory, racing.runs)?);
            logs.push(log.display().to_string());
        }
    }
    println!("decoding into record batches, one core; {DECODE_GOAL}");
    let mut arguments = vec!["bench", "--quiet", "--package", "bintide-columns", "--bench", "decode", "--"];
    arguments.extend(logs.iter().map(String::as_str));
    testkit::run_cargo(&arguments)?;
    let heads = ["log", "log MB", "Parquet MB", "seconds", "MB/s", "CPU s", "peak MB"];
    print!("{}", markdown(&heads, rows.into_iter()));
    Ok(())
}

/// Exports a log several times. Returns its row of the table.
fn measure_export(
    name: &str,
    bintide: &Path,
    log: &Path,
    directory: &Path,
    runs: usize,
) -> Result<Vec<String>> {
    let mut measured = Vec::new();
    for _ in 0..runs {
        testkit::remove_dir(directory)?;
        let options = ["export", "--quiet", "--columns=numbered", "--to"].map(Into::into);
        let words = [bintide.into()].into_iter().chain(options).chain([directory.into(), log.into()]);
        let words: Vec<_> = words.collect();
        measured.push(run_measured(&words, None).with_context(|| format!("in {name}"))?);
    }
    let (done, bytes) = (median(&measured), fs::metadata(log)?.len());
    let files = size_of(directory)?;
    testkit::remove_dir(directory)?;
    eprintln!("{name}: {:.2} s", done.seconds);
    Ok(vec![
        name.to_owned(),
        megabytes(bytes),
        megabytes(files),
        format!("{:.2}", done.seconds),
        format!("{:.0}", bytes as f64 / 1e6 / done.seconds),
        format!("{:.2}", done.cpu_seconds),
        megabytes(done.peak_bytes),
    ])
}

/// Returns the size of the Parquet files in a directory and its subdirectories.
fn size_of(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            bytes += size_of(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "parquet") {
            bytes += fs::metadata(&path)?.len();
        }
    }
    Ok(bytes)
}
