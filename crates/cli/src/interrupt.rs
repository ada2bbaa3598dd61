//! Signals: the first asks the work to stop at the next good place, the second stops it at once.

use std::env;
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use nix::sys::signal::Signal;
use servers::Cancel;
use signal_hook::flag;

use crate::exit::Failure;

/// Set once the work is to stop.
static REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Set by SIGTERM.
static TERMINATED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Set by a command that runs until it is stopped: to be stopped is its orderly end.
static RUNS_UNTIL_STOPPED: AtomicBool = AtomicBool::new(false);

/// The exit code of an interrupted run: 128 and the number of SIGINT, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

/// Installs the handlers of SIGINT, SIGTERM and SIGHUP. A SIGHUP that is ignored, as `nohup` has it, stays ignored.
pub(crate) fn install() -> Result<(), Failure> {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        if signal == Signal::SIGHUP && is_ignored(signal) {
            continue;
        }
        handle(signal).context("could not install signal handlers").map_err(Failure::NotBegun)?;
    }
    Ok(())
}

/// Handlers run in this order: a second signal finds the flag that the first one set.
fn handle(signal: Signal) -> std::io::Result<()> {
    let number = signal as i32;
    flag::register_conditional_shutdown(number, INTERRUPTED.into(), Arc::clone(&REQUESTED))?;
    if signal == Signal::SIGTERM {
        flag::register(number, Arc::clone(&TERMINATED))?;
    }
    flag::register(number, Arc::clone(&REQUESTED)).map(drop)
}

/// Is the signal ignored by this process? Where that cannot be found out, it is taken not to be.
fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_signals(&status).is_some_and(|mask| mask >> (signal as u32 - 1) & 1 == 1)
}

/// Returns the mask of ignored signals of a process status: the bit of signal 1 is the lowest.
fn ignored_signals(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// Notes that this command runs until it is stopped.
pub(crate) fn runs_until_stopped() {
    RUNS_UNTIL_STOPPED.store(true, Ordering::Relaxed);
}

/// Was a service stopped by its manager? That is success, and no interruption.
pub(crate) fn is_orderly_stop() -> bool {
    TERMINATED.load(Ordering::Relaxed)
        && RUNS_UNTIL_STOPPED.load(Ordering::Relaxed)
        && env::var_os("NOTIFY_SOCKET").is_some()
}

/// Asks all work to stop, as Ctrl-C does: a part of it has failed.
pub(crate) fn request() {
    REQUESTED.store(true, Ordering::Relaxed);
}

/// Was the work asked to stop?
pub(crate) fn requested() -> bool {
    REQUESTED.load(Ordering::Relaxed)
}

/// Returns what cancels waits on a connection after Ctrl-C.
pub(crate) fn cancel() -> Cancel {
    /// Interval at which it polls for Ctrl-C.
    const POLL_INTERVAL: Duration = Duration::from_millis(100);
    let cancel = Cancel::default();
    let watched = cancel.clone();
    thread::spawn(move || {
        while !requested() {
            thread::sleep(POLL_INTERVAL);
        }
        watched.cancel();
    });
    cancel
}

#[cfg(test)]
mod tests {
    use super::ignored_signals;

    #[test]
    fn ignored_signals_of_a_process() {
        let status = "Name:\tx\nSigBlk:\t0000000000000000\nSigIgn:\t0000000000001001\nSigCgt:\t0\n";
        assert_eq!(ignored_signals(status), Some(0x1001));
        assert_eq!(ignored_signals("Name:\tx\n"), None);
    }
}
