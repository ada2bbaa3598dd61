//! `bintide archive` beside zstd: size, speed of writing, speed of restoring on one core, and whether each log comes back
//! byte for byte.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::measure::run_measured;
use crate::rewriting::{run, synced_command, zstd_command};
use crate::workloads::{LogCompression, REVISION, Workload, workload_log};

/// Options of the bench of archives.
#[derive(Args)]
pub(crate) struct ArchiveBenchOptions {
    /// Number of runs of each measurement; the median counts
    #[arg(long, default_value_t = 3)]
    runs: usize,
    /// Do not measure times: only sizes, and whether logs come back
    #[arg(long)]
    sizes: bool,
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
    write: Times,
}

/// Median times of one workload in seconds.
#[derive(Default)]
struct Times {
    ours: f64,
    zstd_3: f64,
    /// CPU time of a restore.
    restore_cpu: f64,
}

/// Measures all workloads, then restores all logs.
pub(crate) fn measure_archive(options: &ArchiveBenchOptions) -> Result<()> {
    ensure!(options.runs > 0, "--runs must be at least 1");
    testkit::run_cargo(&["build", "--quiet", "--release", "--package", "bintide", "--features", "archive"])?;
    let bench = ArchiveBench {
        bintide: testkit::target_dir().join("release/bintide"),
        folder: testkit::target_dir().join("bench/archived"),
        runs: if options.sizes { 0 } else { options.runs },
    };
    fs::create_dir_all(&bench.folder)?;
    let results =
        Workload::ALL.iter().map(|workload| bench.measure(*workload)).collect::<Result<Vec<_>>>()?;
    print_table(&results);
    let (identical, logs) = bench.restore_all()?;
    let sum = |size: fn(&ArchiveResult) -> u64| results.iter().map(size).sum::<u64>() as f64;
    let time = |time: fn(&Times) -> f64| results.iter().map(|result| time(&result.write)).sum::<f64>();
    let plain = sum(|result| result.plain);
    println!(
        "archive: {:.2} of zstd -19, written {:.1} times as fast as zstd -3, restored at {:.0} MB/s a core, \
         {identical} of {logs} logs byte-identical",
        sum(|result| result.archived) / sum(|result| result.zstd_19),
        time(|times| times.zstd_3) / time(|times| times.ours),
        plain / 1e6 / time(|times| times.restore_cpu),
    );
    ensure!(identical == logs, "not all logs came back");
    Ok(())
}

struct ArchiveBench {
    bintide: PathBuf,
    folder: PathBuf,
    runs: usize,
}

impl ArchiveBench {
    fn measure(&self, workload: Workload) -> Result<ArchiveResult> {
        let log = workload_log(workload, LogCompression::Plain)?;
        let archive = self.folder.join(workload.name());
        let add = self.bintide_words(&["archive"], &[&log], &[("--to", &archive)]);
        let whole = self.folder.join("whole.zst");
        let zstd = synced_command(&zstd_command(&["-q", "-3", "-T2", "-f"], &log, &whole)?, &whole);
        let restored = self.folder.join("restored");
        let restore = self.bintide_words(&["archive", "restore"], &[&archive], &[("--to", &restored)]);
        let (mut ours, mut zstd_3, mut restore_cpu) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..self.runs {
            testkit::remove_dir(&archive)?;
            ours.push(run_measured(&add, None)?.seconds);
            zstd_3.push(run_measured(&zstd, None)?.seconds);
            testkit::remove_dir(&restored)?;
            restore_cpu.push(run_measured(&restore, None)?.cpu_seconds);
        }
        testkit::remove_dir(&archive)?;
        testkit::remove_dir(&restored)?;
        run(&add)?;
        let write = Times { ours: median(ours), zstd_3: median(zstd_3), restore_cpu: median(restore_cpu) };
        Ok(ArchiveResult {
            workload,
            plain: fs::metadata(&log)?.len(),
            zstd_19: self.zstd_19_size(workload, &log)?,
            server: fs::metadata(workload_log(workload, LogCompression::Compressed)?)?.len(),
            archived: folder_size(&archive)?,
            write,
        })
    }

    /// Returns the size of `zstd -19` of a log. It takes a minute, so it is computed once.
    fn zstd_19_size(&self, workload: Workload, log: &Path) -> Result<u64> {
        let file = self.folder.join(format!("{REVISION}-{}.19.zst", workload.name()));
        if !file.exists() {
            let part = file.with_extension("part");
            run(&zstd_command(&["-q", "-19", "-f"], log, &part)?)?;
            fs::rename(part, &file)?;
        }
        Ok(fs::metadata(file)?.len())
    }

    /// Archives and restores the samples and the logs of the workloads. Returns how many came back, and their number.
    fn restore_all(&self) -> Result<(usize, usize)> {
        let mut logs = Vec::new();
        let mut folders = vec![testkit::workspace_root().join("samples")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder)? {
                let path = entry?.path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => logs.push(path),
                }
            }
        }
        logs.retain(|path| {
            fs::read(path).is_ok_and(|bytes| bytes.starts_with(b"\xfebin") || bytes.starts_with(b"\xfdbin"))
        });
        for form in LogCompression::ALL {
            for workload in Workload::ALL {
                logs.push(workload_log(workload, form)?);
            }
        }
        let mut identical = 0;
        for log in &logs {
            identical += usize::from(self.comes_back(log)?);
        }
        Ok((identical, logs.len()))
    }

    fn comes_back(&self, log: &Path) -> Result<bool> {
        let [archive, restored] = ["one", "restored"].map(|name| self.folder.join(name));
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

fn print_table(results: &[ArchiveResult]) {
    println!(
        "| log | plain | server, level 3 | zstd -19 | archive | of zstd -19 | archive | zstd -3 -T2 | restore, a core |"
    );
    println!("|---|---:|---:|---:|---:|---:|---:|---:|---:|");
    for result in results {
        let megabytes = |size: u64| format!("{:.1} MB", size as f64 / 1e6);
        let rate = |seconds: f64| format!("{:.0} MB/s", result.plain as f64 / 1e6 / seconds);
        println!(
            "| {} | {} | {} | {} | {} | {:.2} | {} | {} | {} |",
            result.workload.name(),
            megabytes(result.plain),
            megabytes(result.server),
            megabytes(result.zstd_19),
            megabytes(result.archived),
            result.archived as f64 / result.zstd_19 as f64,
            rate(result.write.ours),
            rate(result.write.zstd_3),
            rate(result.write.restore_cpu),
        );
    }
}

/// Returns the size of all files of an archive, manifests included.
fn folder_size(folder: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        size += if metadata.is_dir() { folder_size(&entry.path())? } else { metadata.len() };
    }
    Ok(size)
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
