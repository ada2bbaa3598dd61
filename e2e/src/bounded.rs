//! Runs of a command with a time limit, and their peak memory.

use std::io::{self, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::ProcessMemory;

use crate::command::CommandOutput;

/// Result of a run with a time limit.
#[derive(Debug)]
pub struct LimitedRun {
    /// Exit code and output.
    pub ran: CommandOutput,
    /// Peak memory in KiB; 0 if the command ended before its memory could be read.
    pub peak_kib: u64,
}

/// Interval between two reads of the command's state.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Runs a command to its end.
///
/// # Errors
///
/// Fails if the command does not start, or runs longer than `time_max`.
pub fn run(command: &mut Command, time_max: Duration) -> Result<LimitedRun> {
    run_within(command, None, time_max)
}

/// Runs a command, and sends it SIGINT, as Ctrl-C does, if it still runs after a time.
///
/// # Errors
///
/// Fails if the command does not start, or runs longer than `time_max` after SIGINT.
pub fn run_interrupted(
    command: &mut Command,
    interrupt_after: Duration,
    time_max: Duration,
) -> Result<LimitedRun> {
    run_within(command, Some(interrupt_after), time_max)
}

fn run_within(
    command: &mut Command,
    interrupt_after: Option<Duration>,
    time_max: Duration,
) -> Result<LimitedRun> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    thread::scope(|scope| {
        let stdout = scope.spawn(|| read(stdout));
        let stderr = scope.spawn(|| read(stderr));
        let mut peak_kib = 0;
        let ended = wait(&mut child, interrupt_after, time_max, &mut peak_kib);
        if ended.is_err() {
            // The readers end when the command closes its pipes.
            let _ = child.kill();
            let _ = child.wait();
        }
        let text = |read: thread::Result<io::Result<Vec<u8>>>| -> Result<String> {
            let bytes = read.map_err(|_| anyhow!("a reader panicked"))??;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let (stdout, stderr) = (text(stdout.join())?, text(stderr.join())?);
        let status = ended.with_context(|| format!("{command:?} printed: {stderr}"))?;
        Ok(LimitedRun { ran: CommandOutput { code: code_of(status), stdout, stderr }, peak_kib })
    })
}

/// Returns the exit code as shells report it: like mysqlbinlog, `dump` does not handle SIGINT.
fn code_of(status: ExitStatus) -> Option<i32> {
    const INTERRUPTED: i32 = 130;
    status.code().or_else(|| (status.signal() == Some(Signal::SIGINT as i32)).then_some(INTERRUPTED))
}

fn wait(
    child: &mut Child,
    mut interrupt_after: Option<Duration>,
    time_max: Duration,
    peak_kib: &mut u64,
) -> Result<ExitStatus> {
    let mut began = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        // The process may have ended meanwhile.
        if let Ok(memory) = ProcessMemory::of(child.id()) {
            *peak_kib = memory.peak_kib;
        }
        if interrupt_after.is_some_and(|after| began.elapsed() > after) {
            kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGINT)?;
            (began, interrupt_after) = (Instant::now(), None);
        }
        if began.elapsed() > time_max {
            bail!("the command still runs after {time_max:?}");
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn read(pipe: Option<impl Read>) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        pipe.read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

impl LimitedRun {
    /// Checks that the command ended without a panic and without a signal, with one of the exit codes in `codes`, and
    /// with a message if the code is not 0.
    ///
    /// # Errors
    ///
    /// Fails if one of these conditions does not hold.
    pub fn check_ended(&self, codes: &[i32]) -> Result<()> {
        let CommandOutput { code, stderr, .. } = &self.ran;
        let code = code.with_context(|| format!("a signal ended the command: {stderr}"))?;
        ensure!(!stderr.contains("panicked") && !stderr.contains("internal error"), "{stderr}");
        ensure!(codes.contains(&code), "exit code {code}, not one of {codes:?}: {stderr}");
        ensure!(code == 0 || code == 130 || !stderr.trim().is_empty(), "exit code {code} without a message");
        let is_visible = |character: char| character == '\n' || !character.is_control();
        ensure!(stderr.chars().all(is_visible), "control characters: {stderr:?}");
        Ok(())
    }
}
