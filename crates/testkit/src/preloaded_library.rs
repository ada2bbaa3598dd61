//! Libraries that tests preload into programs: C sources, compiled once.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

use crate::cache::target_dir;

/// Returns the library compiled from `source`. Compiles a source only once.
///
/// # Errors
/// Fails if there is no C compiler, or a file cannot be written.
pub(crate) fn build_library(name: &str, source: &str) -> Result<PathBuf> {
    static MAKING: Mutex<()> = Mutex::new(());
    let _alone = MAKING.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = target_dir().join("testkit");
    fs::create_dir_all(&directory)?;
    let library = directory.join(format!("{name}.so"));
    let copy = directory.join(format!("{name}.c"));
    if library.exists() && fs::read_to_string(&copy).is_ok_and(|text| text == source) {
        return Ok(library);
    }
    let own = std::process::id();
    let (own_copy, made) =
        (directory.join(format!("{name}-{own}.c")), directory.join(format!("{name}-{own}.so")));
    fs::write(&own_copy, source)?;
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-O2", "-o"]).args([&made, &own_copy]).output();
    let compiled = compiled.context("could not run cc, a C compiler")?;
    ensure!(compiled.status.success(), "{name}.c: {}", String::from_utf8_lossy(&compiled.stderr));
    // Other processes may build it at the same time: each renames a complete file.
    fs::rename(&made, &library)?;
    fs::rename(&own_copy, &copy)?;
    Ok(library)
}
