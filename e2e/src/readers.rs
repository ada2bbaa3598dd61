//! Programs that read Parquet files: DuckDB and pyarrow.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Result, ensure};
use testkit::PythonEnvironment;

/// Runs a script of `readers` with the real readers, and returns what it prints.
///
/// # Errors
///
/// Fails if the readers cannot be fetched, or the script fails.
pub fn read_back<A: AsRef<OsStr>>(script: &str, arguments: &[A]) -> Result<String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("readers").join(script);
    let mut command = Command::new(PythonEnvironment::READERS.python()?);
    let output = command.arg(script).args(arguments).stdin(Stdio::null()).output()?;
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{error}{}", String::from_utf8_lossy(&output.stdout));
    Ok(String::from_utf8(output.stdout)?)
}
