//! Runs of `bintide replay` as a separate process.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::{TestServer, wait_until_within};

use crate::program::bintide;

/// Exit code and output of a command that has ended.
#[derive(Debug)]
pub struct CommandOutput {
    /// Exit code; `None` if a signal ended the run.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Returns a server's address for one of its accounts.
pub fn address(user: &str, server: &TestServer) -> String {
    format!("mysql://{user}@localhost/?socket={}", server.socket().display())
}

/// Applies logs to a server, as root, with these options.
///
/// # Errors
///
/// Fails if the command does not start.
pub fn replay(logs: &[PathBuf], target: &TestServer, more: &[&str]) -> Result<CommandOutput> {
    Ok(command(logs, target, more)?.output()?.into())
}

/// Starts the same command, and does not wait for its end.
///
/// # Errors
///
/// Fails if the command does not start.
pub fn begin(logs: &[PathBuf], target: &TestServer, more: &[&str]) -> Result<Child> {
    let mut command = command(logs, target, more)?;
    Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

/// Returns the same command without starting it.
///
/// # Errors
///
/// Fails if bintide cannot be built.
pub fn command(logs: &[PathBuf], target: &TestServer, more: &[&str]) -> Result<Command> {
    let mut command = Command::new(bintide()?);
    command.env_clear().arg("replay").args(logs).args(["--to", &address("root", target)]).args(more);
    Ok(command)
}

/// A running program that is killed when a test fails.
#[derive(Debug)]
pub struct ChildGuard(Option<Child>);

impl ChildGuard {
    /// Starts the program.
    ///
    /// # Errors
    ///
    /// Fails if the program does not start.
    pub fn start(command: &mut Command) -> Result<Self> {
        Ok(Self(Some(command.spawn()?)))
    }

    /// Sends SIGINT, as Ctrl-C does.
    ///
    /// # Errors
    ///
    /// Fails if the program has ended.
    pub fn interrupt(&self) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.id())?), Signal::SIGINT)?)
    }

    /// Waits for the end; returns the rest of the output in the program's pipes.
    ///
    /// # Errors
    ///
    /// Fails if a pipe cannot be read.
    pub fn output(mut self) -> Result<Output> {
        let child = self.0.take().context("the program was already waited for")?;
        Ok(child.wait_with_output()?)
    }
}

impl Deref for ChildGuard {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("ours: present until the program is waited for")
    }
}

impl DerefMut for ChildGuard {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("ours: present until the program is waited for")
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // The program may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Repeats a check until it succeeds, for at most a minute.
///
/// # Errors
///
/// Fails if the check fails until the end, with its last error.
pub fn wait_for(check: impl FnMut() -> Result<()>) -> Result<()> {
    wait_for_within(Duration::from_secs(60), check)
}

/// Repeats a check until it succeeds, for at most this time.
///
/// # Errors
///
/// Fails if the check fails until the end, with its last error.
pub fn wait_for_within(limit: Duration, mut check: impl FnMut() -> Result<()>) -> Result<()> {
    let mut last = None;
    let waited = wait_until_within(limit, "a check to succeed", || {
        last = check().err();
        Ok(last.is_none())
    });
    waited.map_err(|timeout| last.unwrap_or(timeout))
}
