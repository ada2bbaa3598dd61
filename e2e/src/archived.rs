//! Archives logs and restores them.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use crate::command::CommandOutput;
use crate::program::bintide;

/// Archives these logs in a directory, restores them, and compares each byte. The names of the logs must differ.
///
/// # Errors
///
/// Fails if a command fails, or a log differs.
pub fn check_restored_logs(logs: &[PathBuf]) -> Result<()> {
    let directory = TempDir::new()?;
    let (archive, restored) = (directory.path().join("archive"), directory.path().join("restored"));
    run(Command::new(bintide()?).args(["archive", "--quiet", "--to"]).arg(&archive).args(logs))?;
    run(Command::new(bintide()?)
        .args(["archive", "restore", "--quiet", "--to"])
        .arg(&restored)
        .arg(&archive))?;
    for log in logs {
        let name = log.file_name().context("a log without a name")?;
        ensure!(
            fs::read(log)? == fs::read(restored.join(name))?,
            "{} differs after archive and restore",
            log.display()
        );
    }
    Ok(())
}

/// Returns arguments of commands that print the same for an archived log as for the log. The export writes to
/// `changes`.
pub fn reading_commands(changes: &str) -> Vec<Vec<&str>> {
    vec![
        vec!["dump", "-vv"],
        vec!["dump", "--json"],
        vec!["stats", "--by=table", "--json"],
        vec!["history", "--table=types.integers", "--where=@1=1"],
        vec!["undo", "--sql", "--table=*"],
        vec!["verify", "--json"],
        vec!["export", "--json", "--columns=numbered", "--to", changes],
        vec!["stream", "--format=maxwell", "--schema=ddl"],
    ]
}

fn run(command: &mut Command) -> Result<()> {
    let ran = CommandOutput::from(command.env_clear().output()?);
    ensure!(ran.code == Some(0), "{}", ran.stderr);
    Ok(())
}
