//! Compares `bintide archive` with zstd: size, speed of writing, and speed of restoring on one core. Checks that each
//! log is restored byte for byte.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::cases::build_bintide;
use crate::doc_page;
use crate::measure::{RunMeasurement, run_measured};
use crate::rewriting::{run, synced_command, zstd_command};
use crate::table::{markdown, median};
use crate::workloads::{LogCompression, REVISION, Workload, workload_log};

/// Options of the bench of archives.
#[derive(Args)]
pub(crate) struct ArchiveBenchOptions {
    /// Number of runs of each measurement; the median counts
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// A short trial with one run of two logs, which writes nothing
    #[arg(long)]
    quick: bool,
}

/// Measurements of one workload.
struct ArchiveResult {
    workload: Workload,
    plain: u64,
    /// Size of `zstd -19` of the plain log.
    zstd_19: u64,
    /// Size of the log that the server compressed at level 3.
    server: u64,
    archived: u64,
    /// Size of the change tables.
    tables: u64,
    write: RunMeasurement,
    zstd_3: RunMeasurement,
    restore: RunMeasurement,
}

impl ArchiveResult {
    fn rate(&self, seconds: f64) -> String {
        format!("{:.0} MB/s", self.plain as f64 / 1e6 / seconds)
    }
}

/// Measures the workloads, then restores all logs.
pub(crate) fn measure_archive(options: &ArchiveBenchOptions) -> Result<()> {
    ensure!(options.runs > 0, "--runs must be at least 1");
    let bench = ArchiveBench {
        bintide: build_bintide()?,
        directory: testkit::target_dir().join("bench/archived"),
        runs: if options.quick { 1 } else { options.runs },
    };
    let workloads: &[Workload] = match options.quick {
        true => &[Workload::Oltp, Workload::Delete],
        false => &Workload::ALL,
    };
    fs::create_dir_all(&bench.directory)?;
    let load_before = load_average()?;
    let mut results = Vec::new();
    for workload in workloads {
        let result = bench.measure(*workload).with_context(|| format!("in {}", workload.name()))?;
        eprintln!("{}: archived in {:.2} s", workload.name(), result.write.seconds);
        results.push(result);
    }
    let (identical, logs) = bench.restore_all(workloads)?;
    let report = format!(
        "{}{}\nThe load average of the machine was {load_before} before the run.\n",
        table(&results),
        doc_page::conditions()?
    );
    let last_line = format!("{}, {identical} of {logs} logs byte-identical", summary(&results));
    if options.quick {
        println!("{report}");
    } else {
        doc_page::ARCHIVE.write("archive", &report)?;
        doc_page::ARCHIVE.write("lines", &format!("```text\n{last_line}\n```"))?;
    }
    println!("{last_line}");
    ensure!(identical == logs, "not all restored logs are identical");
    Ok(())
}

/// Returns the sizes and speeds of all workloads together.
fn summary(results: &[ArchiveResult]) -> String {
    let sum = |size: fn(&ArchiveResult) -> u64| results.iter().map(size).sum::<u64>() as f64;
    let time = |time: fn(&ArchiveResult) -> f64| results.iter().map(time).sum::<f64>();
    format!(
        "archive: {:.2} of zstd -19, written {:.1} times as fast as zstd -3, restored at {:.0} MB/s a core",
        sum(|result| result.archived) / sum(|result| result.zstd_19),
        time(|result| result.zstd_3.seconds) / time(|result| result.write.seconds),
        sum(|result| result.plain) / 1e6 / time(|result| result.restore.cpu_seconds),
    )
}

/// Returns the load average of the last minute.
fn load_average() -> Result<String> {
    let text = fs::read_to_string("/proc/loadavg").context("could not read /proc/loadavg")?;
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}

struct ArchiveBench {
    bintide: PathBuf,
    directory: PathBuf,
    runs: usize,
}

impl ArchiveBench {
    fn measure(&self, workload: Workload) -> Result<ArchiveResult> {
        let log = workload_log(workload, LogCompression::Plain)?;
        let archive = self.directory.join(workload.name());
        let add = self.bintide_words(&["archive"], &[&log], &[("--to", &archive)]);
        let whole = self.directory.join("whole.zst");
        let zstd = synced_command(&zstd_command(&["-q", "-3", "-T2", "-f"], &log, &whole)?, &whole);
        let restored = self.directory.join("restored");
        let restore = self.bintide_words(&["archive", "restore"], &[&archive], &[("--to", &restored)]);
        let (mut write, mut zstd_3, mut read) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.runs {
            testkit::remove_dir(&archive)?;
            write.push(run_measured(&add, None)?);
            zstd_3.push(run_measured(&zstd, None)?);
            testkit::remove_dir(&restored)?;
            read.push(run_measured(&restore, None)?);
        }
        testkit::remove_dir(&restored)?;
        Ok(ArchiveResult {
            workload,
            plain: fs::metadata(&log)?.len(),
            zstd_19: self.zstd_19_size(workload, &log)?,
            server: fs::metadata(workload_log(workload, LogCompression::Compressed)?)?.len(),
            archived: directory_size(&archive)?,
            tables: self.tables_size(&log)?,
            write: median(&write),
            zstd_3: median(&zstd_3),
            restore: median(&read),
        })
    }

    /// Returns the size of the change tables of a log.
    fn tables_size(&self, log: &Path) -> Result<u64> {
        let archive = self.directory.join("with-tables");
        testkit::remove_dir(&archive)?;
        run(&self.bintide_words(&["archive", "--change-tables"], &[log], &[("--to", &archive)]))?;
        let size = directory_size(&archive.join("tables"))?;
        testkit::remove_dir(&archive)?;
        Ok(size)
    }

    /// Returns the size of a log compressed by `zstd -19`. Compressing takes a minute, so it is done once.
    fn zstd_19_size(&self, workload: Workload, log: &Path) -> Result<u64> {
        let file = self.directory.join(format!("{REVISION}-{}.19.zst", workload.name()));
        if !file.exists() {
            let part = file.with_extension("part");
            run(&zstd_command(&["-q", "-19", "-f"], log, &part)?)?;
            fs::rename(part, &file)?;
        }
        Ok(fs::metadata(file)?.len())
    }

    /// Archives and restores the samples and the logs of the workloads. Returns the number of identical logs,
    /// and of all.
    fn restore_all(&self, workloads: &[Workload]) -> Result<(usize, usize)> {
        let mut logs = Vec::new();
        let mut directories = vec![testkit::workspace_root().join("samples")];
        while let Some(directory) = directories.pop() {
            for entry in fs::read_dir(directory)? {
                let path = entry?.path();
                match path.is_dir() {
                    true => directories.push(path),
                    false => logs.push(path),
                }
            }
        }
        logs.retain(|path| {
            fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\xfebin") || bytes.starts_with(b"\xfdbin"))
        });
        for form in LogCompression::ALL {
            for workload in workloads {
                logs.push(workload_log(*workload, form)?);
            }
        }
        let mut identical = 0;
        for log in &logs {
            identical += usize::from(self.is_restored(log)?);
        }
        Ok((identical, logs.len()))
    }

    fn is_restored(&self, log: &Path) -> Result<bool> {
        let [archive, restored] = ["one", "restored"].map(|name| self.directory.join(name));
        testkit::remove_dir(&archive)?;
        testkit::remove_dir(&restored)?;
        run(&self.bintide_words(&["archive"], &[log], &[("--to", &archive)]))?;
        run(&self.bintide_words(&["archive", "restore"], &[&archive], &[("--to", &restored)]))?;
        let name = log.file_name().context("a log without a name")?;
        let status = Command::new("cmp").arg("-s").arg(log).arg(restored.join(name)).status()?;
        Ok(status.success())
    }

    fn bintide_words(&self, command: &[&str], logs: &[&Path], options: &[(&str, &Path)]) -> Vec<OsString> {
        let mut words: Vec<OsString> = vec![self.bintide.clone().into(), "--quiet".into()];
        words.extend(command.iter().map(OsString::from));
        words.extend(logs.iter().map(OsString::from));
        for (name, value) in options {
            words.extend([OsString::from(name), value.into()]);
        }
        words
    }
}

fn table(results: &[ArchiveResult]) -> String {
    let heads = [
        "log",
        "plain",
        "by the server",
        "`zstd -19`",
        "archive",
        "of `zstd -19`",
        "change tables",
        "written",
        "`zstd -3 -T2`",
        "restored, a core",
        "peak memory",
    ];
    let megabytes = |size: u64| format!("{:.1} MB", size as f64 / 1e6);
    let rows = results.iter().map(|result| {
        let peak = result.write.peak_bytes.max(result.restore.peak_bytes);
        vec![
            result.workload.name().to_owned(),
            megabytes(result.plain),
            megabytes(result.server),
            megabytes(result.zstd_19),
            megabytes(result.archived),
            format!("{:.2}", result.archived as f64 / result.zstd_19 as f64),
            megabytes(result.tables),
            result.rate(result.write.seconds),
            result.rate(result.zstd_3.seconds),
            result.rate(result.restore.cpu_seconds),
            megabytes(peak),
        ]
    });
    markdown(&heads, rows)
}

/// Returns the size of all files of an archive, manifests included.
fn directory_size(directory: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        size += if metadata.is_dir() { directory_size(&entry.path())? } else { metadata.len() };
    }
    Ok(size)
}
