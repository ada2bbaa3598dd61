//! Runs the workspace's tests, with all that they need at hand.

use std::env;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use testkit::{Home, Package};

use crate::workspace;

/// Fetches the servers, builds the command, and runs every test of the workspace; `filters` go to the tests.
pub(crate) fn test(filters: &[String]) -> Result<()> {
    for package in Package::ALL {
        Home::find(package)?;
    }
    cargo(&["build", "--package", "bintide"])?;
    let mut arguments = vec!["test", "--workspace"];
    if !filters.is_empty() {
        arguments.push("--");
        arguments.extend(filters.iter().map(String::as_str));
    }
    cargo(&arguments)
}

/// What the format crate can leave out.
const FEATURES: [&str; 5] = ["zstd", "zlib", "ciphers", "charsets", "serde"];

/// Checks that each feature of the format crate stands alone and can be left out, and tests all of them together.
pub(crate) fn features() -> Result<()> {
    lint_with("")?;
    for feature in FEATURES {
        lint_with(feature)?;
        let others: Vec<&str> = FEATURES.into_iter().filter(|other| *other != feature).collect();
        lint_with(&others.join(","))?;
    }
    cargo(&["test", "--quiet", "--package", "bintide-binlog", "--all-features"])
}

fn lint_with(features: &str) -> Result<()> {
    let package = ["clippy", "--quiet", "--package", "bintide-binlog", "--no-default-features"];
    cargo(&[&package[..], &["--features", features, "--", "-D", "warnings"]].concat())
}

/// Runs cargo in the workspace.
pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    let program = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(program).args(arguments).current_dir(workspace::root()).status();
    let status = status.context("could not run cargo")?;
    ensure!(status.success(), "cargo {} failed", arguments.join(" "));
    Ok(())
}
