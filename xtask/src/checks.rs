//! Runs the workspace's tests, with the servers and the command that they need.

use std::num::NonZeroUsize;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs, thread};

use anyhow::{Context, Result, ensure};
use testkit::{
    KafkaBroker, PackageHome, RegistryServer, SERVERS_VARIABLE, TestPackage, run_cargo, run_cargo_with,
    workspace_root,
};

/// Fetches the servers, builds the command, and runs every test of the workspace. `filters` are passed to the test
/// programs. `servers` are those of the tests that run on many servers.
pub(crate) fn run_tests(filters: &[String], servers: Option<&str>) -> Result<()> {
    let chosen = servers.map_or_else(TestPackage::from_env, TestPackage::parse_list)?;
    for package in crate::servers::needed_packages(&chosen) {
        PackageHome::find(package)?;
    }
    KafkaBroker::fetch()?;
    RegistryServer::fetch()?;
    run_cargo(&BUILD_BINTIDE)?;
    let mut arguments = vec!["test", "--workspace", "--no-fail-fast", "--features", TESTED_FEATURES];
    if !filters.is_empty() {
        arguments.push("--");
        arguments.extend(filters.iter().map(String::as_str));
    }
    run_cargo_with(&arguments, |tests| {
        tests.env("BINTIDE_BIN", testkit::target_dir().join("debug/bintide"));
        tests.envs(servers.map(|servers| (SERVERS_VARIABLE, servers)));
        // Most tests wait for servers part of their time, so more of them run than there are cores.
        if env::var_os(TEST_THREADS_VARIABLE).is_none() {
            let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
            tests.env(TEST_THREADS_VARIABLE, (cores * 2).to_string());
        }
    })
}

/// Arguments of cargo that build the command, and the example of the demo. Building the whole workspace selects the
/// same features of dependencies as its tests.
pub(crate) const BUILD_BINTIDE: [&str; 8] =
    ["build", "--workspace", "--bin", "bintide", "--example", "row_counts", "--features", TESTED_FEATURES];

/// Arguments of cargo that build the same for the demo, without the optional parts, which take minutes. The profile is
/// that of this program, so that both share the crates that they depend on.
pub(crate) const BUILD_DEMO: [&str; 8] =
    ["build", "--workspace", "--profile", "demo", "--bin", "bintide", "--example", "row_counts"];

/// Features of the command that the tests need, besides the default ones.
pub(crate) const TESTED_FEATURES: &str = "bintide/archive,bintide/columns,bintide/kafka-tls";

/// Environment variable with the number of tests that run at once.
const TEST_THREADS_VARIABLE: &str = "RUST_TEST_THREADS";

/// Features of the format crate.
const FEATURES: [&str; 5] = ["zstd", "zlib", "ciphers", "charsets", "serde"];

/// Checks that each feature of the format crate works alone and can be disabled, and that the command can be built
/// without its own features. The tests of the workspace enable all of them together.
pub(crate) fn check_features() -> Result<()> {
    // `--workspace` gives third-party crates the same features as the other lints, so that they are compiled once.
    let command = ["--workspace", "--bin", "bintide"];
    lint_with(&command, "")?;
    lint_with(&command, "bintide/archive")?;
    lint_with(&command, "bintide/columns")?;
    let format = ["--package", "bintide-binlog"];
    lint_with(&format, "")?;
    for feature in FEATURES {
        lint_with(&format, feature)?;
        let others: Vec<&str> = FEATURES.into_iter().filter(|other| *other != feature).collect();
        lint_with(&format, &others.join(","))?;
    }
    Ok(())
}

/// Checks that the command compiles with the oldest supported version of Rust, which rustup fetches.
pub(crate) fn check_oldest_rust() -> Result<()> {
    let version = &workspace_field(&workspace_root(), "rust-version")?;
    run_rustup(&["toolchain", "install", version, "--profile=minimal", "--no-self-update"])?;
    let target = testkit::target_dir().join("oldest-rust");
    let target = target.to_str().context("the target directory is not UTF-8")?;
    let cargo = ["cargo", "check", "--quiet", "--locked", "--package=bintide", "--target-dir", target];
    run_rustup(&[&["run", version], &cargo[..]].concat())
}

/// Returns a field of `workspace.package` in the manifest of a workspace.
pub(crate) fn workspace_field(root: &Path, name: &str) -> Result<String> {
    let manifest: toml::Table = fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let value = manifest["workspace"]["package"].get(name).and_then(toml::Value::as_str);
    Ok(value.with_context(|| format!("Cargo.toml has no workspace.package.{name}"))?.to_owned())
}

fn run_rustup(arguments: &[&str]) -> Result<()> {
    let mut rustup = Command::new("rustup");
    rustup.args(arguments).current_dir(workspace_root()).stdout(Stdio::null());
    // cargo sets these variables for this program; they would select its own compiler.
    for name in ["CARGO", "RUSTC", "RUSTDOC", "RUSTUP_TOOLCHAIN"] {
        rustup.env_remove(name);
    }
    let status = rustup.status().context("could not run rustup: install it")?;
    ensure!(status.success(), "rustup {} failed", arguments.join(" "));
    Ok(())
}

/// Packages of the workspace that are not published.
const UNPUBLISHED: [&str; 5] = ["bintide-bench", "bintide-e2e", "bintide-fuzz", "bintide-testkit", "xtask"];

/// Packs each crate as for crates.io, and builds it from its package.
pub(crate) fn check_packages() -> Result<()> {
    let mut arguments = vec!["package", "--workspace", "--allow-dirty"];
    arguments.extend(UNPUBLISHED.iter().flat_map(|name| ["--exclude", *name]));
    run_cargo(&arguments)
}

fn lint_with(package: &[&str], features: &str) -> Result<()> {
    let options = ["--quiet", "--no-default-features", "--features", features];
    run_cargo(&[&["clippy"], package, &options, &["--", "-D", "warnings"]].concat())
}

/// Runs a bench. The benches are a program of their own, so that the other tasks need not wait for its dependencies.
pub(crate) fn run_bench(arguments: &[String]) -> Result<()> {
    let mut all = vec!["run", "--quiet", "--package", "bintide-bench", "--"];
    all.extend(arguments.iter().map(String::as_str));
    run_cargo(&all)
}

/// Builds bintide, and runs one of the end-to-end examples with it.
pub(crate) fn run_example(name: &str, numbers: [u64; 2]) -> Result<()> {
    run_cargo(&["build", "--quiet", "--package", "bintide", "--features", TESTED_FEATURES])?;
    let [first, second] = numbers.map(|number| number.to_string());
    run_cargo(&["run", "--quiet", "--package", "bintide-e2e", "--example", name, "--", &first, &second])
}
