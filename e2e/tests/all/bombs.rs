//! Logs of a few kilobytes that decompress to much more: every command refuses them with a message, quickly and in
//! little memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::bomb::Bomb;
use e2e::bounded::{LimitedRun, run};
use e2e::program::bintide;
use tempfile::TempDir;

const TIME_MAX: Duration = Duration::from_secs(60);

/// Runs `bintide` in a directory; temporary files go to `tmp` in it, if that exists.
fn bintide_in(directory: &Path, arguments: &[&str]) -> Result<LimitedRun> {
    let mut command = Command::new(bintide()?);
    command.env_clear().env("TMPDIR", directory.join("tmp")).current_dir(directory).args(arguments);
    run(&mut command, TIME_MAX)
}

fn with_log(bomb: Bomb) -> Result<(TempDir, PathBuf)> {
    let directory = TempDir::new()?;
    let log = directory.path().join("binlog.000001");
    fs::write(&log, bomb.log()?)?;
    Ok((directory, log))
}

/// Commands that decompress payloads.
const READERS: [&[&str]; 9] = [
    &["dump", "-v"],
    &["dump", "--json"],
    &["dump", "--transactions"],
    &["stats"],
    &["stream", "--format", "maxwell"],
    &["replay", "--to", "sqlite:copy.db"],
    &["advise"],
    &["decompress", "--output", "out"],
    &["compress", "--recompress", "--output", "out"],
];

/// The stated size of a payload must equal the size of its contents.
#[test]
fn payloads_with_a_wrong_stated_size_are_corrupt() -> Result<()> {
    let claims: [fn(u64) -> u64; 3] = [|_| 1000, |size| size - 1, |size| size + 1];
    for claim in claims {
        let (directory, log) = with_log(Bomb { rows: 4, row_size: 1 << 20, claim })?;
        ensure!(fs::metadata(&log)?.len() < 32 << 10);
        for arguments in READERS {
            let arguments = [arguments, &["binlog.000001"]].concat();
            let bounded = bintide_in(directory.path(), &arguments)?;
            bounded.check_ended(&[1])?;
            let printed = &bounded.ran.stderr;
            ensure!(printed.contains("uncompressed payload size is"), "{arguments:?}: {printed}");
            let _ = fs::remove_dir_all(directory.path().join("out"));
        }
        let verified = bintide_in(directory.path(), &["verify", "binlog.000001"])?;
        ensure!(
            verified.ran.code == Some(1) && verified.ran.stdout.contains("uncompressed size"),
            "{verified:?}"
        );
    }
    Ok(())
}

/// Payloads with a correct stated size go to temporary files, up to the limit.
#[test]
fn temporary_files_are_limited() -> Result<()> {
    let (directory, _) = with_log(Bomb { rows: 256, row_size: 1 << 20, claim: |size| size })?;
    fs::create_dir(directory.path().join("tmp"))?;
    let cases: [&[&str]; 3] = [
        &["dump", "--result-file=text"],
        &["stream", "--format", "maxwell", "--out", "records"],
        &["replay", "--memory", "8M", "--to", "sqlite:copy.db"],
    ];
    for arguments in cases {
        let arguments = [arguments, &["binlog.000001"]].concat();
        let refused =
            bintide_in(directory.path(), &[&arguments[..], &["--temporary-max", "10000000"]].concat())?;
        refused.check_ended(&[1])?;
        let printed = &refused.ran.stderr;
        ensure!(
            printed.contains("would exceed 10000000 bytes; increase --temporary-max"),
            "{arguments:?}: {printed}"
        );
        // dump also reports that rows are missing.
        ensure!(
            printed.lines().filter(|line| line.contains("temporary")).count() == 1,
            "{arguments:?}: {printed}"
        );
    }
    ensure!(fs::read_dir(directory.path().join("tmp"))?.next().is_none(), "temporary files are left");
    Ok(())
}

/// One event of 40 MiB, in a log of a few kilobytes.
#[test]
fn events_larger_than_the_memory_limit_are_refused() -> Result<()> {
    let (directory, _) = with_log(Bomb { rows: 1, row_size: 40 << 20, claim: |size| size })?;
    let cases: [&[&str]; 2] = [
        &["replay", "--memory", "60M", "--to", "sqlite:copy.db"],
        &["advise", "--memory", "100M", "--levels", "1", "--jobs", "1"],
    ];
    for arguments in cases {
        let refused = bintide_in(directory.path(), &[arguments, &["binlog.000001"]].concat())?;
        refused.check_ended(&[1])?;
        let printed = &refused.ran.stderr;
        let is_named = printed.contains("event size is 4194") && printed.contains("increase --memory");
        ensure!(is_named, "{arguments:?}: {printed}");
        ensure!(refused.peak_kib < 90 << 10, "{arguments:?}: {} KiB", refused.peak_kib);
    }
    Ok(())
}
