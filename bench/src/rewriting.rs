//! Cases of the benches of `compress` and `decompress`, compared with zstd on whole files.
//!
//! bintide syncs its output to disk; zstd does not. So the compared zstd contenders also sync their output, and zstd
//! without a sync is listed for information.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use binlog::{Event, EventType};
use logs::{LogReader, ReadOutcome};

use super::cases::build_bintide;
use super::{BenchCase, CaseContender, CaseGoal, large};
use crate::workloads::{LogCompression, Workload, workload_log};

/// Largest peak memory of compress and decompress up to level 19, in bytes.
const MEMORY_MAX: u64 = 300_000_000;

/// Runs bintide with a new output directory, because it does not overwrite existing logs.
const INTO_NEW_DIRECTORY: &str = r#"rm -rf "$1"; program=$2; command=$3; directory=$1; shift 3;
exec "$program" "$command" --quiet --output "$directory" "$@""#;

/// Runs zstd, and syncs its output to disk.
const SYNCED: &str = r#"target=$1; shift; "$@" && exec sync "$target""#;

/// Returns the cases of `compress` at level 3 and `zstd -3`, with two threads each.
pub(super) fn compress_cases() -> Result<Vec<BenchCase>> {
    let (bintide, directory) = (build_bintide()?, output_directory()?);
    let mut cases = Vec::new();
    for workload in Workload::ALL {
        let log = workload_log(workload, LogCompression::Plain)?;
        let ours = bintide_command(
            &bintide,
            "compress",
            &["--like-server", "--jobs", "2"],
            &directory.join("ours"),
            &log,
        );
        let zstd = zstd_command(&["-q", "-3", "-T2", "-f"], &log, &directory.join("whole.zst"))?;
        let contenders = vec![
            CaseContender { name: "bintide compress", command: ours },
            CaseContender {
                name: "zstd -3 -T2, synced",
                command: synced_command(&zstd, &directory.join("whole.zst")),
            },
            CaseContender { name: "zstd -3 -T2", command: zstd },
        ];
        // With transactions of some hundred bytes, each transaction needs its own compression tables.
        let goal = match workload {
            Workload::Oltp | Workload::Delete => CaseGoal::Faster(&[0.6]),
            _ => CaseGoal::Faster(&[0.9]),
        };
        let (name, bytes) = (workload.name().to_owned(), fs::metadata(&log)?.len());
        cases.push(BenchCase { name, bytes, contenders, output: None, goal });
    }
    Ok(cases)
}

/// Returns the cases of `decompress` on logs that a server compressed, and of `zstd -d` on the same logs compressed as
/// whole files.
pub(super) fn decompress_cases() -> Result<Vec<BenchCase>> {
    let (bintide, directory) = (build_bintide()?, output_directory()?);
    let mut cases = Vec::new();
    for workload in Workload::ALL {
        let (plain, compressed) = (
            workload_log(workload, LogCompression::Plain)?,
            workload_log(workload, LogCompression::Compressed)?,
        );
        let whole = directory.join(workload.name()).with_extension("zst");
        run(&zstd_command(&["-q", "-3", "-f"], &plain, &whole)?)?;
        let payloads = directory.join(workload.name()).with_extension("payloads.zst");
        write_payloads(&compressed, &payloads)?;
        let ours =
            bintide_command(&bintide, "decompress", &["--jobs", "2"], &directory.join("ours"), &compressed);
        let target = directory.join("whole.binlog");
        let zstd = |source: &Path| zstd_command(&["-q", "-d", "-f"], source, &target);
        let contenders = vec![
            CaseContender { name: "bintide decompress", command: ours },
            CaseContender {
                name: "zstd -d of the payloads, synced",
                command: synced_command(&zstd(&payloads)?, &target),
            },
            CaseContender {
                name: "zstd -d of the whole, synced",
                command: synced_command(&zstd(&whole)?, &target),
            },
            CaseContender { name: "zstd -d of the whole", command: zstd(&whole)? },
        ];
        let (name, bytes) = (workload.name().to_owned(), fs::metadata(&plain)?.len());
        cases.push(BenchCase { name, bytes, contenders, output: None, goal: CaseGoal::Faster(&[0.8, 0.8]) });
    }
    Ok(cases)
}

/// Concatenates the frames of a log's payloads, so that zstd decompresses exactly the same data.
fn write_payloads(log: &Path, target: &Path) -> Result<()> {
    let mut out = BufWriter::new(File::create(target)?);
    let mut reader = LogReader::open(log)?;
    loop {
        let format = reader.format().cloned();
        let ReadOutcome::Some(event) = reader.next_event()? else { break };
        let Some(format) = format.filter(|_| event.raw.event_type() == EventType::TransactionPayload) else {
            continue;
        };
        if let Event::TransactionPayload(payload) = event.raw.decode(&format)? {
            out.write_all(payload.payload)?;
        }
    }
    Ok(out.flush()?)
}

/// Returns the cases of peak memory on one transaction of 1 GiB, plain and compressed.
pub(super) fn memory_cases() -> Result<Vec<BenchCase>> {
    let (bintide, directory, compressed) = (build_bintide()?, output_directory()?, large::log()?);
    let plain = directory.join("plain").join(compressed.file_name().context("a log without a name")?);
    run(&bintide_command(&bintide, "decompress", &[], &directory.join("plain"), &compressed))?;
    let mut cases = Vec::new();
    for (name, command, options, log) in [
        ("compress", "compress", &[][..], &plain),
        ("compress --level 9", "compress", &["--level", "9"], &plain),
        ("compress --level 19", "compress", &["--level", "19"], &plain),
        ("compress --recompress --level 1", "compress", &["--recompress", "--level", "1"], &compressed),
        ("decompress", "decompress", &[], &compressed),
    ] {
        let command = bintide_command(&bintide, command, options, &directory.join("made"), log);
        let contenders = vec![CaseContender { name: "bintide", command }];
        let (name, bytes) = (format!("{name}, a transaction of 1 GiB"), fs::metadata(log)?.len());
        cases.push(BenchCase { name, bytes, contenders, output: None, goal: CaseGoal::Memory(MEMORY_MAX) });
    }
    Ok(cases)
}

fn output_directory() -> Result<PathBuf> {
    let directory = testkit::target_dir().join("bench/rewritten");
    fs::create_dir_all(&directory)?;
    Ok(directory)
}

fn bintide_command(
    bintide: &Path,
    command: &str,
    options: &[&str],
    target: &Path,
    log: &Path,
) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["sh", "-c", INTO_NEW_DIRECTORY, "sh"].map(OsString::from).into();
    words.extend([target.into(), bintide.into(), command.into()]);
    words.extend(options.iter().map(OsString::from));
    words.push(log.into());
    words
}

pub(super) fn zstd_command(options: &[&str], source: &Path, target: &Path) -> Result<Vec<OsString>> {
    let found = Command::new("zstd").arg("--version").output();
    ensure!(
        found.is_ok_and(|output| output.status.success()),
        "zstd is missing: install it, on Debian with `apt-get install zstd`"
    );
    let mut words = vec![OsString::from("zstd")];
    words.extend(options.iter().map(OsString::from));
    words.extend([source.into(), "-o".into(), target.into()]);
    Ok(words)
}

pub(super) fn synced_command(command: &[OsString], target: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["sh", "-c", SYNCED, "sh"].map(OsString::from).into();
    words.push(target.into());
    words.extend(command.iter().cloned());
    words
}

pub(super) fn run(command: &[OsString]) -> Result<()> {
    let (program, arguments) = command.split_first().context("no program")?;
    let output = Command::new(program).args(arguments).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
