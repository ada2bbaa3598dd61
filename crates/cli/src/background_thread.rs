//! Threads beside the work of a command.

use std::thread::{self, JoinHandle};

use anyhow::Context;

use crate::exit::CommandFailure;

/// Starts a thread with a name that tools such as `top -H` show.
///
/// # Errors
///
/// Fails if the system starts no more threads.
pub(crate) fn start_thread<T: Send + 'static>(
    name: &str,
    run: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, CommandFailure> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(run);
    started.context("could not start a thread").map_err(CommandFailure::NotStarted)
}
