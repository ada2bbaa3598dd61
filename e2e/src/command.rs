//! `bintide replay` as a program of its own.

use std::ops::{Deref, DerefMut};
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use testkit::TestServer;

use crate::program::bintide;

/// What a run came to.
#[derive(Debug)]
pub struct Ran {
    /// Its exit code; none if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: String,
    /// What it said besides.
    pub stderr: String,
}

impl From<Output> for Ran {
    fn from(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// A server's address, for an account that it knows.
pub fn address(user: &str, server: &TestServer) -> String {
    format!("mysql://{user}@localhost/?socket={}", server.socket().display())
}

/// Applies logs to a server, as root, with these options.
///
/// # Errors
///
/// When it does not start.
pub fn replay(logs: &[PathBuf], target: &TestServer, more: &[&str]) -> Result<Ran> {
    Ok(command(logs, target, more)?.output()?.into())
}

/// The same, and does not wait for its end.
///
/// # Errors
///
/// When it does not start.
pub fn begin(logs: &[PathBuf], target: &TestServer, more: &[&str]) -> Result<Child> {
    let mut command = command(logs, target, more)?;
    Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

/// What does so, not begun.
///
/// # Errors
///
/// When there is no such program.
pub fn command(logs: &[PathBuf], target: &TestServer, more: &[&str]) -> Result<Command> {
    let mut command = Command::new(bintide()?);
    command.env_clear().arg("replay").args(logs).args(["--to", &address("root", target)]).args(more);
    Ok(command)
}

/// A program that runs, and does not outlive a test that fails.
#[derive(Debug)]
pub struct Running(Option<Child>);

impl Running {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// When it does not start.
    pub fn start(command: &mut Command) -> Result<Self> {
        Ok(Self(Some(command.spawn()?)))
    }

    /// Asks it to end, as Ctrl-C does.
    ///
    /// # Errors
    ///
    /// When it is gone.
    pub fn interrupt(&self) -> Result<()> {
        Ok(kill(Pid::from_raw(i32::try_from(self.id())?), Signal::SIGINT)?)
    }

    /// Waits for its end; gives what it left in the pipes that it was given.
    ///
    /// # Errors
    ///
    /// When a pipe cannot be read.
    pub fn output(mut self) -> Result<Output> {
        let child = self.0.take().context("nothing runs")?;
        Ok(child.wait_with_output()?)
    }
}

impl Deref for Running {
    type Target = Child;

    fn deref(&self) -> &Child {
        self.0.as_ref().expect("ours: there until it is waited for")
    }
}

impl DerefMut for Running {
    fn deref_mut(&mut self) -> &mut Child {
        self.0.as_mut().expect("ours: there until it is waited for")
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Some(child) = &mut self.0 {
            // It may have ended by itself.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Waits until something is so; a minute is more than enough.
///
/// # Errors
///
/// When it is not so by then, or cannot be told.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !is_so()? {
        if began.elapsed() > Duration::from_secs(60) {
            bail!("{what} does not come");
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
