//! Measures time and memory of one run of a program.

use std::env;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use serde::{Deserialize, Serialize};

/// Time and memory of one run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct RunMeasurement {
    /// Elapsed time.
    pub(crate) seconds: f64,
    /// User and system CPU time, of all cores together.
    pub(crate) cpu_seconds: f64,
    /// Peak memory of the program, or of the largest program in a pipe.
    pub(crate) peak_bytes: u64,
}

/// Measure a program (internal use by the benches)
#[derive(Args)]
pub(crate) struct MeasureOptions {
    /// File for the program's output
    #[arg(long, default_value = "/dev/null")]
    output: PathBuf,
    /// Program and its arguments
    #[arg(last = true, required = true)]
    command: Vec<OsString>,
}

/// Measures a program in a separate process, because the kernel sums up all children of a process.
pub(super) fn run_measured(command: &[OsString], output: Option<&Path>) -> Result<RunMeasurement> {
    let mut measuring = Command::new(env::current_exe()?);
    measuring.arg("measure");
    if let Some(output) = output {
        measuring.arg("--output").arg(output);
    }
    let result = measuring.arg("--").args(command).stderr(Stdio::inherit()).output()?;
    ensure!(result.status.success(), "the program failed");
    serde_json::from_slice(&result.stdout).context("the measurement is not JSON")
}

/// Runs the program, and prints its measurement.
pub(crate) fn measure_once(measuring: &MeasureOptions) -> Result<()> {
    let (program, arguments) = measuring.command.split_first().context("no program")?;
    let output = File::options().create(true).write(true).truncate(true).open(&measuring.output)?;
    let begin = Instant::now();
    let status = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(output)
        .status()
        .with_context(|| format!("could not start {}", program.display()))?;
    let seconds = begin.elapsed().as_secs_f64();
    ensure!(status.success(), "{} failed: {status}", program.display());
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let cpu_microseconds = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    let peak_bytes = u64::try_from(usage.max_rss())? * 1024;
    let measured = RunMeasurement { seconds, cpu_seconds: cpu_microseconds as f64 / 1e6, peak_bytes };
    println!("{}", serde_json::to_string(&measured)?);
    Ok(())
}
