//! Ctrl-C: the first asks the work to stop at the next good place, the second stops at once.

use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

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

/// Has the user asked to stop?
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}
