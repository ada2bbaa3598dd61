//! Runs cargo from a program that cargo itself may have started.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// Prefixes of the variables by which cargo describes a package to the programs that it starts. Build scripts of
/// dependencies read some of them and run again when they change, which compiles hundreds of C files of a cryptographic
/// library.
const PACKAGE_VARIABLE_PREFIXES: [&str; 3] = ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_PRIMARY_"];

/// Returns a command that runs cargo in a directory as a shell would, so that earlier builds stay valid.
pub fn cargo_command(directory: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    without_package_variables(command.current_dir(directory));
    command
}

/// Removes the variables that cargo sets for the package of the running program: because of them, cargo would
/// compile packages again.
pub fn without_package_variables(command: &mut Command) -> &mut Command {
    for (name, _) in env::vars_os() {
        if name
            .to_str()
            .is_some_and(|name| PACKAGE_VARIABLE_PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
        {
            command.env_remove(name);
        }
    }
    command
}

/// Returns the root of the workspace: the directory with its lock file.
pub fn workspace_root() -> PathBuf {
    // A program built in another clone of the workspace belongs to the clone that cargo runs it in.
    let manifest = env::var_os("CARGO_MANIFEST_DIR").map(PathBuf::from);
    let package = manifest.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    let root = package.ancestors().find(|directory| directory.join("Cargo.lock").exists());
    root.map_or_else(|| package.clone(), Path::to_path_buf)
}

/// Runs cargo in the workspace.
///
/// # Errors
///
/// Fails if cargo cannot be started, or fails.
pub fn run_cargo(arguments: &[&str]) -> Result<()> {
    run_cargo_with(arguments, |_| {})
}

/// Runs cargo in the workspace, with changes to its command, such as environment variables.
///
/// # Errors
///
/// Fails if cargo cannot be started, or fails.
pub fn run_cargo_with(arguments: &[&str], change: impl FnOnce(&mut Command)) -> Result<()> {
    let mut command = cargo_command(&workspace_root());
    change(command.args(arguments));
    let status = command.status().context("could not run cargo")?;
    ensure!(status.success(), "cargo {} failed", arguments.join(" "));
    Ok(())
}
