//! Cargo, run by a program that cargo itself may have started.

use std::env;
use std::path::Path;
use std::process::Command;

/// What cargo tells the programs that it starts about their own package. Build scripts of dependencies look at some of
/// it, and run again whenever it differs: hundreds of C files of a cryptographic library, each time.
const OF_A_PACKAGE: [&str; 3] = ["CARGO_MANIFEST_", "CARGO_PKG_", "CARGO_PRIMARY_"];

/// Cargo in a folder, as if a shell had started it: what it built for others stays as it is.
pub fn cargo(folder: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(folder);
    for (name, _) in env::vars_os() {
        if name.to_str().is_some_and(|name| OF_A_PACKAGE.iter().any(|prefix| name.starts_with(prefix))) {
            command.env_remove(name);
        }
    }
    command
}
