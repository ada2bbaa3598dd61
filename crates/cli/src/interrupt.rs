//! Ctrl-C: the first asks the work to stop at the next good place, the second stops at once.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use servers::Cancel;

use crate::exit::Failure;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Listens for SIGINT, SIGTERM and SIGHUP from here on.
pub(crate) fn install() -> Result<(), Failure> {
    let install = ctrlc::set_handler(|| {
        if REQUESTED.swap(true, Ordering::Relaxed) {
            process::exit(130);
        }
    });
    install.context("listen for signals").map_err(Failure::NotBegun)
}

/// Asks all work to stop, as Ctrl-C does: a part of it has failed.
pub(crate) fn request() {
    REQUESTED.store(true, Ordering::Relaxed);
}

/// Has the user asked to stop?
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Calls off what waits on a connection, after Ctrl-C.
pub(crate) fn cancel() -> Cancel {
    /// How often it looks for Ctrl-C.
    const GLANCE: Duration = Duration::from_millis(100);
    let cancel = Cancel::default();
    let watched = cancel.clone();
    thread::spawn(move || {
        while !requested() {
            thread::sleep(GLANCE);
        }
        watched.cancel();
    });
    cancel
}
