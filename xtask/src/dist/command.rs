//! Programs that must succeed.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

/// Runs a program. Its output is shown.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = command.get_program().to_string_lossy().into_owned();
    let status = command.status().with_context(|| not_found(&name))?;
    ensure!(status.success(), "{name} failed: {command:?}");
    Ok(())
}

/// Runs a program, and returns what it writes to standard output.
pub(crate) fn stdout_of(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().with_context(|| not_found(&name))?;
    if !output.status.success() {
        let texts = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        bail!("{name} failed: {command:?}\n{}{}", texts[0], texts[1]);
    }
    Ok(String::from_utf8(output.stdout)?)
}

fn not_found(name: &str) -> String {
    format!("could not run {name}: install it (see \"Make packages\" in CONTRIBUTING.md)")
}

/// Makes a directory empty: removes its contents, or creates it.
pub(crate) fn empty_directory(directory: &Path) -> Result<()> {
    testkit::remove_dir(directory)?;
    fs::create_dir_all(directory).with_context(|| format!("could not create {}", directory.display()))
}

/// Returns the SHA-256 of a file, in hexadecimal digits.
pub(crate) fn sha256(path: &Path) -> Result<String> {
    let line = stdout_of(Command::new("sha256sum").arg("--binary").arg(path))?;
    Ok(line.split_whitespace().next().context("sha256sum printed nothing")?.to_owned())
}
