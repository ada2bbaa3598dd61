//! Panics: one line that names the defect, an orderly end, and exit code 1.
//!
//! A panic of any thread, even a detached one, requests the end of all work, as Ctrl-C does.

use std::env;
use std::panic::{self, AssertUnwindSafe, PanicHookInfo};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::anyhow;
use tracing::error;

use crate::exit::{CommandFailure, CommandResult};
use crate::{interrupt, messages};

static HAS_PANICKED: AtomicBool = AtomicBool::new(false);

/// Installs a hook that reports the first panic of any thread. Later panics, which follow from it, are silent.
pub(crate) fn install() {
    let with_backtrace = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        if HAS_PANICKED.swap(true, Ordering::Relaxed) {
            return;
        }
        messages::install_default();
        error!("{}", panic_message(panic));
        if env::var_os("RUST_BACKTRACE").is_some() {
            with_backtrace(panic);
        }
        interrupt::request_stop();
    }));
}

/// Returns whether a thread has panicked.
pub(crate) fn has_panicked() -> bool {
    HAS_PANICKED.load(Ordering::Relaxed)
}

/// Runs `work`, and turns a panic into a failure.
pub(crate) fn catch(work: impl FnOnce() -> CommandResult) -> CommandResult {
    let caught = panic::catch_unwind(AssertUnwindSafe(work));
    caught.unwrap_or_else(|_| Err(CommandFailure::Failed(anyhow!("a thread panicked"))))
}

fn panic_message(panic: &PanicHookInfo<'_>) -> String {
    let thread = thread::current();
    let location = panic.location().map_or_else(String::new, |location| format!(" at {location}"));
    let who = thread.name().map_or_else(|| "a thread".to_owned(), |name| format!("the thread {name}"));
    let message = logs::panic_message(panic.payload()).replace('\n', " ");
    format!("internal error: {who} panicked{location}: {message}; please report this defect")
}
