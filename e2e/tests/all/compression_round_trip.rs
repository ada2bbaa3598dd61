//! Logs of random SQL that are compressed and decompressed equal the original bytes.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use binlog::{EventType, Framer, FramerOutput, MAGIC};
use e2e::identity::SEED;
use e2e::program::bintide;
use e2e::workload;
use tempfile::TempDir;
use testkit::SeededRandom;

/// Number of servers, with random options: compression, row images, checksums, formats.
const SERVERS: u64 = 4;

/// Rewrites all logs of a directory into another one.
fn rewrite(arguments: &[&str], from: &[PathBuf], to: &Path) -> Result<Vec<PathBuf>> {
    let mut command = Command::new(bintide()?);
    command.args(arguments).args(["--quiet", "--verify", "--output"]).arg(to).args(from);
    let output = command.env_clear().output()?;
    ensure!(
        output.status.success(),
        "{arguments:?} of {from:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    from.iter().map(|log| Ok(to.join(log.file_name().context("a log without a name")?))).collect()
}

fn ensure_same(ours: &[PathBuf], expected: &[PathBuf]) -> Result<()> {
    for (ours, expected) in ours.iter().zip(expected) {
        let same = fs::read(ours)? == fs::read(expected)?;
        ensure!(same, "{} is not {}", ours.display(), expected.display());
    }
    Ok(())
}

/// Checks for compressed transactions: sessions may switch compression on and off regardless of the server's
/// setting.
fn has_payloads(log: &Path) -> Result<bool> {
    let log = fs::read(log)?;
    let mut rest = log.strip_prefix(&MAGIC).context("no log")?;
    let mut framer = Framer::new();
    while let FramerOutput::Event(raw) = framer.next(rest)? {
        if raw.event_type() == EventType::TransactionPayload {
            return Ok(true);
        }
        rest = &rest[raw.bytes().len()..];
    }
    Ok(false)
}

fn logs(directory: &Path) -> Result<Vec<PathBuf>> {
    let index = fs::read_to_string(directory.join("binlog.index"))?;
    Ok(index.lines().map(|line| directory.join(line.trim_start_matches("./"))).collect())
}

#[test]
fn logs_of_random_sql_round_trip() -> Result<()> {
    let seed = testkit::seed_from_env(SEED);
    let scratch = TempDir::new()?;
    for number in 0..SERVERS {
        let name = format!("workload-{number}");
        workload::record(seed + number, &name, scratch.path())?;
        let directory = scratch.path().join(name);
        let written = logs(&directory)?;
        ensure!(!written.is_empty(), "the server has no logs");
        let level = (1 + SeededRandom::new(seed + number).below(12)).to_string();
        println!("workload {number} at level {level}");

        let plain = rewrite(&["decompress"], &written, &directory.join("plain"))?;
        for (plain, written) in plain.iter().zip(&written) {
            if !has_payloads(written)? {
                ensure_same(std::slice::from_ref(plain), std::slice::from_ref(written))?;
            }
        }
        let compress = ["compress", "--like-server", "--level", &level];
        let compressed = rewrite(&compress, &plain, &directory.join("compressed"))?;
        ensure_same(&rewrite(&["decompress"], &compressed, &directory.join("opened"))?, &plain)?;

        let again = [&compress[..], &["--recompress"]].concat();
        let again = rewrite(&again, &written, &directory.join("again"))?;
        ensure_same(&again, &compressed)?;
        ensure_same(&rewrite(&["decompress"], &again, &directory.join("opened-again"))?, &plain)?;
    }
    Ok(())
}
