//! `bintide replay` as a program of its own.

use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use testkit::Server;

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
pub fn address(user: &str, server: &Server) -> String {
    format!("mysql://{user}@localhost/?socket={}", server.socket().display())
}

/// Applies logs to a server, as root, with these options.
///
/// # Errors
///
/// When it does not start.
pub fn replay(logs: &[PathBuf], target: &Server, more: &[&str]) -> Result<Ran> {
    Ok(command(logs, target, more)?.output()?.into())
}

/// The same, and does not wait for its end.
///
/// # Errors
///
/// When it does not start.
pub fn begin(logs: &[PathBuf], target: &Server, more: &[&str]) -> Result<Child> {
    let mut command = command(logs, target, more)?;
    Ok(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?)
}

/// What does so, not begun.
///
/// # Errors
///
/// When there is no such program.
pub fn command(logs: &[PathBuf], target: &Server, more: &[&str]) -> Result<Command> {
    let mut command = Command::new(bintide()?);
    command.env_clear().arg("replay").args(logs).args(["--to", &address("root", target)]).args(more);
    Ok(command)
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
