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
use logs::{LogReader, Next};

use super::cases::bintide;
use super::{Case, Contender, Goal, large};
use crate::workloads::{Form, Workload, log};

/// Largest peak memory of compress and decompress up to level 19, in bytes.
const MEMORY_MAX: u64 = 300_000_000;

/// Runs bintide with a new output directory, because it does not overwrite existing logs.
const INTO_NEW_FOLDER: &str = r#"rm -rf "$1"; program=$2; command=$3; folder=$1; shift 3;
exec "$program" "$command" --quiet --output "$folder" "$@""#;

/// Runs zstd, and syncs its output to disk.
const SYNCED: &str = r#"target=$1; shift; "$@" && exec sync "$target""#;

/// Returns the cases of `compress` at level 3 and `zstd -3`, with two threads each.
pub(super) fn compress() -> Result<Vec<Case>> {
    let (bintide, folder) = (bintide()?, folder()?);
    let mut cases = Vec::new();
    for workload in Workload::ALL {
        let log = log(workload, Form::Plain)?;
        let ours = ours(&bintide, "compress", &["--like-server", "--jobs", "2"], &folder.join("ours"), &log);
        let zstd = zstd(&["-q", "-3", "-T2", "-f"], &log, &folder.join("whole.zst"))?;
        let contenders = vec![
            Contender { name: "bintide compress", command: ours },
            Contender { name: "zstd -3 -T2, synced", command: synced(&zstd, &folder.join("whole.zst")) },
            Contender { name: "zstd -3 -T2", command: zstd },
        ];
        // With transactions of some hundred bytes, each transaction needs its own compression tables.
        let goal = match workload {
            Workload::Oltp | Workload::Delete => Goal::Faster(&[0.6]),
            _ => Goal::Faster(&[0.9]),
        };
        let (name, bytes) = (workload.name().to_owned(), fs::metadata(&log)?.len());
        cases.push(Case { name, bytes, contenders, output: None, goal });
    }
    Ok(cases)
}

/// Returns the cases of `decompress` on logs that a server compressed, and of `zstd -d` on the same logs compressed as
/// whole files.
pub(super) fn decompress() -> Result<Vec<Case>> {
    let (bintide, folder) = (bintide()?, folder()?);
    let mut cases = Vec::new();
    for workload in Workload::ALL {
        let (plain, compressed) = (log(workload, Form::Plain)?, log(workload, Form::Compressed)?);
        let whole = folder.join(workload.name()).with_extension("zst");
        run(&zstd(&["-q", "-3", "-f"], &plain, &whole)?)?;
        let payloads = folder.join(workload.name()).with_extension("payloads.zst");
        write_payloads(&compressed, &payloads)?;
        let ours = ours(&bintide, "decompress", &["--jobs", "2"], &folder.join("ours"), &compressed);
        let target = folder.join("whole.binlog");
        let zstd = |source: &Path| zstd(&["-q", "-d", "-f"], source, &target);
        let contenders = vec![
            Contender { name: "bintide decompress", command: ours },
            Contender {
                name: "zstd -d of the payloads, synced",
                command: synced(&zstd(&payloads)?, &target),
            },
            Contender { name: "zstd -d of the whole, synced", command: synced(&zstd(&whole)?, &target) },
            Contender { name: "zstd -d of the whole", command: zstd(&whole)? },
        ];
        let (name, bytes) = (workload.name().to_owned(), fs::metadata(&plain)?.len());
        cases.push(Case { name, bytes, contenders, output: None, goal: Goal::Faster(&[0.8, 0.8]) });
    }
    Ok(cases)
}

/// Concatenates the frames of a log's payloads, so that zstd decompresses exactly the same data.
fn write_payloads(log: &Path, target: &Path) -> Result<()> {
    let mut out = BufWriter::new(File::create(target)?);
    let mut reader = LogReader::open(log)?;
    loop {
        let format = reader.format().cloned();
        let Next::Some(event) = reader.next_event()? else { break };
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
pub(super) fn memory() -> Result<Vec<Case>> {
    let (bintide, folder, compressed) = (bintide()?, folder()?, large::log()?);
    let plain = folder.join("plain").join(compressed.file_name().context("a log has a name")?);
    run(&ours(&bintide, "decompress", &[], &folder.join("plain"), &compressed))?;
    let mut cases = Vec::new();
    for (name, command, options, log) in [
        ("compress", "compress", &[][..], &plain),
        ("compress --level 9", "compress", &["--level", "9"], &plain),
        ("compress --level 19", "compress", &["--level", "19"], &plain),
        ("compress --recompress --level 1", "compress", &["--recompress", "--level", "1"], &compressed),
        ("decompress", "decompress", &[], &compressed),
    ] {
        let command = ours(&bintide, command, options, &folder.join("made"), log);
        let contenders = vec![Contender { name: "bintide", command }];
        let (name, bytes) = (format!("{name}, a transaction of 1 GiB"), fs::metadata(log)?.len());
        cases.push(Case { name, bytes, contenders, output: None, goal: Goal::Memory(MEMORY_MAX) });
    }
    Ok(cases)
}

fn folder() -> Result<PathBuf> {
    let folder = testkit::target_dir().join("bench/rewritten");
    fs::create_dir_all(&folder)?;
    Ok(folder)
}

fn ours(bintide: &Path, command: &str, options: &[&str], target: &Path, log: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["sh", "-c", INTO_NEW_FOLDER, "sh"].map(OsString::from).into();
    words.extend([target.into(), bintide.into(), command.into()]);
    words.extend(options.iter().map(OsString::from));
    words.push(log.into());
    words
}

fn zstd(options: &[&str], source: &Path, target: &Path) -> Result<Vec<OsString>> {
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

fn synced(command: &[OsString], target: &Path) -> Vec<OsString> {
    let mut words: Vec<OsString> = ["sh", "-c", SYNCED, "sh"].map(OsString::from).into();
    words.push(target.into());
    words.extend(command.iter().cloned());
    words
}

fn run(command: &[OsString]) -> Result<()> {
    let (program, arguments) = command.split_first().context("no program")?;
    let output = Command::new(program).args(arguments).output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(())
}
