//! Independent readers of Parquet: DuckDB and pyarrow, in a virtual environment of Python.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cache;

/// Packages of the environment. DuckDB needs pytz for times with a time zone.
const PACKAGES: [&str; 3] = ["duckdb==1.5.5", "pyarrow==26.0.1", "pytz==2025.2"];

/// Version of the environment. Raise it when the packages change.
const REVISION: u32 = 1;

/// Returns a Python that has DuckDB and pyarrow. They are fetched into the cache if they are missing.
///
/// # Errors
/// Returns an error if the machine has no Python with `venv`, or if the packages cannot be fetched.
pub fn parquet_readers() -> Result<PathBuf> {
    let folder = cache::cached_folder(&format!("readers-{REVISION}"), install)?;
    Ok(python_in(&folder))
}

fn install(folder: &Path) -> Result<()> {
    run(Command::new("python3").args(["-m", "venv"]).arg(folder))
        .context("could not make a virtual environment: install python3-venv")?;
    let install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    run(Command::new(python_in(folder)).args(install).args(PACKAGES)).context("could not install the readers")
}

fn python_in(folder: &Path) -> PathBuf {
    folder.join("bin/python")
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("could not run {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
