//! Reading archives: a count by table and hour with DuckDB on the change tables, beside `bintide stats` and mysqlbinlog
//! on the logs; and `bintide replay` from an object store and from a directory, beside replay of the logs.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::Args;
use testkit::{ObjectServer, PythonEnvironment};

use crate::cases::{build_bintide, mysqlbinlog_words, shell_words};
use crate::doc_page;
use crate::measure::{RunMeasurement, run_measured};
use crate::replay::{ReplayInput, measure_inputs};
use crate::rewriting::run;
use crate::table::{markdown, median};
use crate::workloads::{LogCompression, Workload, workload_log};

/// Options of the bench of reading archives.
#[derive(Args)]
pub(crate) struct ArchiveReadingOptions {
    /// Size of the logs for the count, in GB
    #[arg(long, default_value_t = 10)]
    gigabytes: u64,
    /// Number of runs of each measurement; the median counts. mysqlbinlog runs once
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// A short trial with 1 GB and one run, which writes nothing
    #[arg(long)]
    quick: bool,
}

/// Counts rows of mysqlbinlog's output by table, kind of change and hour.
const COUNT_SCRIPT: &str = r#"$h = $1 if /^#(\d{6}\s+\d+):/; $c{"$h $2"}++ if /^### (INSERT INTO|UPDATE|DELETE FROM) (\S+)/;
END { print "$c{$_} $_\n" for sort keys %c }"#;

/// Counts the rows of change tables by table and hour.
const COUNT_SQL: &str = "select database, \"table\", date_trunc('hour', commit_time), count(*)
from read_parquet('ARCHIVE/tables/database=*/table=*/**/*.parquet', hive_partitioning = true, union_by_name = true)
group by all order by all";

/// Measures the count, then the replay.
pub(crate) fn measure_archive_reading(options: &ArchiveReadingOptions) -> Result<()> {
    ensure!(options.runs > 0, "--runs must be at least 1");
    let trial = ArchiveReadingOptions { gigabytes: 1, runs: 1, quick: true };
    let options = if options.quick { &trial } else { options };
    let bintide = build_bintide()?;
    let count = count_report(&bintide, options)?;
    let replay = replay_report(&bintide, options)?;
    let conditions = doc_page::conditions()?;
    if options.quick {
        println!("{count}\n{replay}{conditions}");
        return Ok(());
    }
    doc_page::ARCHIVE.write("count", &format!("{count}{conditions}"))?;
    doc_page::ARCHIVE.write("replay", &format!("{replay}{conditions}"))
}

/// Measures the count by table and hour.
fn count_report(bintide: &Path, options: &ArchiveReadingOptions) -> Result<String> {
    let directory = testkit::target_dir().join("bench/archive-reading");
    testkit::remove_dir(&directory)?;
    fs::create_dir_all(&directory)?;
    let (logs, size) = copy_logs(&directory.join("logs"), options.gigabytes * 1_000_000_000)?;
    let archive = directory.join("archive");
    let words = |words: &[&str]| -> Vec<OsString> { words.iter().map(OsString::from).collect() };
    let program = OsString::from(bintide);
    let add = [vec![program.clone()], words(&["--quiet", "archive", "--change-tables", "--to"])].concat();
    run(&[add, vec![archive.clone().into()], logs.clone()].concat())?;
    let sql = COUNT_SQL.replace("ARCHIVE", &archive.display().to_string());
    let query = format!("import duckdb; print(len(duckdb.sql(\"\"\"{sql}\"\"\").fetchall()))");
    let python: OsString = PythonEnvironment::READERS.python()?.into();
    let stats = [vec![program], words(&["--quiet", "stats", "--by=hour,table"])].concat();
    let print = [mysqlbinlog_words()?, words(&["-v", "--base64-output=decode-rows"]), logs.clone()].concat();
    let pipe = format!("{} | perl -ne '{COUNT_SCRIPT}'", shell_words(&print));
    let contenders = [
        ("DuckDB on the archive", vec![python, "-c".into(), query.into()], options.runs),
        ("`bintide stats` on the logs", [stats, logs].concat(), options.runs),
        ("`mysqlbinlog -v \\| perl` on the logs", words(&["sh", "-c", &pipe]), 1),
    ];
    let mut rows = Vec::new();
    for (name, command, runs) in contenders {
        let runs: Result<Vec<RunMeasurement>> = (0..runs).map(|_| run_measured(&command, None)).collect();
        let found = median(&runs.with_context(|| format!("could not measure {name}"))?);
        eprintln!("{name}: {:.2} s", found.seconds);
        let peak = format!("{:.0} MB", found.peak_bytes as f64 / 1e6);
        rows.push(vec![
            name.to_owned(),
            format!("{:.1}", found.seconds),
            format!("{:.1}", found.cpu_seconds),
            peak,
        ]);
    }
    testkit::remove_dir(&directory)?;
    let table =
        markdown(&["count by table and hour", "seconds", "CPU seconds", "peak memory"], rows.into_iter());
    Ok(format!("{:.1} GB of logs.\n\n{table}", size as f64 / 1e9))
}

/// Copies the logs of the workloads again and again, until they have this size. Returns their paths and their size.
/// bintide would read several links to one file only once.
fn copy_logs(directory: &Path, size_min: u64) -> Result<(Vec<OsString>, u64)> {
    fs::create_dir_all(directory)?;
    let originals: Result<Vec<PathBuf>> =
        Workload::ALL.iter().map(|workload| workload_log(*workload, LogCompression::Plain)).collect();
    let originals = originals?;
    let (mut copies, mut size) = (Vec::new(), 0);
    for original in originals.iter().cycle() {
        if size >= size_min {
            break;
        }
        let copy = directory.join(format!("binlog.{:06}", copies.len() + 1));
        size += fs::copy(original, &copy)?;
        copies.push(copy.into());
    }
    Ok((copies, size))
}

/// Measures the replay of the same log from its file, an archive in a directory, and one on an object store.
fn replay_report(bintide: &Path, options: &ArchiveReadingOptions) -> Result<String> {
    let server = ObjectServer::start()?;
    let directory = testkit::target_dir().join("bench/archive-replayed");
    let inputs = [
        ReplayInput { name: "the log", archive: None, variables: Vec::new() },
        ReplayInput {
            name: "an archive in a directory",
            archive: Some(directory.display().to_string()),
            variables: Vec::new(),
        },
        ReplayInput {
            name: "an archive on an S3 server",
            archive: Some(server.url("replayed")),
            variables: server.variables(),
        },
    ];
    testkit::remove_dir(&directory)?;
    let found = measure_inputs(bintide, &inputs, options.runs)?;
    testkit::remove_dir(&directory)?;
    let log_seconds = found[0].seconds;
    let rows = inputs.iter().zip(&found).map(|(input, found)| {
        let peak = found.program.as_ref().map_or(0, |program| program.peak_bytes);
        vec![
            input.name.to_owned(),
            format!("{:.2}", found.seconds),
            format!("{:.2}", found.seconds / log_seconds),
            format!("{:.0} MB", peak as f64 / 1e6),
        ]
    });
    Ok(markdown(&["replay from", "seconds", "of the log's", "peak memory"], rows))
}
