//! Coverage-guided fuzzing with cargo-fuzz.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use testkit::workspace_root;

#[derive(Args)]
pub(crate) struct FuzzOptions {
    /// Fuzz target [default: all, one after the other]
    target: Option<String>,
    /// Minutes for each target
    #[arg(long, default_value_t = 10)]
    minutes: u32,
}

/// Runs the fuzz targets. A failure names the directory of the input that caused it.
pub(crate) fn fuzz(fuzzing: &FuzzOptions) -> Result<()> {
    ensure_cargo_fuzz()?;
    let all = write_seeds()?;
    let targets = match &fuzzing.target {
        None => all,
        Some(target) if all.contains(target) => vec![target.clone()],
        Some(target) => bail!("unknown target `{target}`; expected one of {}", all.join(", ")),
    };
    for target in &targets {
        println!("fuzzing {target} for {} minutes", fuzzing.minutes);
        run(target, fuzzing.minutes)?;
    }
    Ok(())
}

fn run(target: &str, minutes: u32) -> Result<()> {
    let artifacts = fuzz_directory().join("artifacts").join(target);
    fs::create_dir_all(&artifacts).with_context(|| format!("could not create {}", artifacts.display()))?;
    let status = cargo()
        // Instrumentation needs unstable options. This variable enables them in the stable compiler, so that no nightly
        // compiler is needed.
        .env("RUSTC_BOOTSTRAP", "1")
        // The state that glibc keeps for a thread looks like a leak.
        .env("ASAN_OPTIONS", "detect_leaks=0")
        .args(["fuzz", "run", "--fuzz-dir", "fuzz/libfuzzer", "--target-dir"])
        .args([&fuzz_directory().join("build"), Path::new(target), &corpus_directory().join(target)])
        .arg("--")
        .arg(format!("-max_total_time={}", minutes * 60))
        .arg(format!("-artifact_prefix={}/", artifacts.display()))
        .args(["-timeout=20", "-rss_limit_mb=2048", "-max_len=16384", "-print_final_stats=1"])
        .status()
        .context("could not run cargo fuzz")?;
    ensure!(
        status.success(),
        "{target} failed; copy the input from {} to fuzz/findings/{target}/, and fix the cause",
        artifacts.display()
    );
    Ok(())
}

/// Writes the seeds of all targets, and returns the targets' names.
fn write_seeds() -> Result<Vec<String>> {
    let output = cargo()
        .args(["run", "--quiet", "--package", "bintide-fuzz", "--bin", "seeds", "--"])
        .arg(corpus_directory())
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("could not run cargo")?;
    ensure!(output.status.success(), "could not write the seeds");
    Ok(String::from_utf8(output.stdout)?.lines().map(str::to_owned).collect())
}

fn ensure_cargo_fuzz() -> Result<()> {
    let output = cargo().args(["fuzz", "--version"]).output().context("could not run cargo")?;
    ensure!(output.status.success(), "cargo-fuzz is missing: `cargo install cargo-fuzz`");
    Ok(())
}

fn cargo() -> Command {
    testkit::cargo_command(&workspace_root())
}

fn corpus_directory() -> PathBuf {
    fuzz_directory().join("corpus")
}

/// Returns the directory of all fuzzing results. It keeps inputs that reach new code for later runs.
fn fuzz_directory() -> PathBuf {
    let target =
        env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace_root().join("target"), PathBuf::from);
    target.join("fuzz")
}
