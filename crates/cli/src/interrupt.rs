//! Signals: the first one requests an orderly stop; after it, Ctrl-C stops the process immediately.

use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use anyhow::Context;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use servers::CancelToken;
use signal_hook::flag;

use crate::exit::CommandFailure;

/// Set when the work is to stop.
static STOP_REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Set when a part of the command has failed.
static PART_FAILED: AtomicBool = AtomicBool::new(false);
/// Set by SIGTERM.
static TERMINATED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Set by SIGHUP in a command that reads files again.
static RELOAD_REQUESTED: LazyLock<Arc<AtomicBool>> = LazyLock::new(Arc::default);
/// Set by a command that runs until it is stopped: a stop is its regular end.
static RUNS_UNTIL_STOPPED: AtomicBool = AtomicBool::new(false);

/// Exit code of an interrupted run: 128 plus the number of SIGINT, as in shells.
pub(crate) const EXIT_INTERRUPTED: u8 = 130;

/// Effect of SIGHUP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HangupEffect {
    /// The signal stops the work, as SIGTERM does.
    Stop,
    /// The command reads its files again: see [`take_reload_request`].
    Reload,
}

/// Installs handlers for SIGINT, SIGTERM and SIGHUP. An ignored SIGHUP, as with `nohup`, stays ignored.
pub(crate) fn install(hangup: HangupEffect) -> Result<(), CommandFailure> {
    register_handlers(hangup)
        .context("could not install signal handlers")
        .map_err(CommandFailure::NotStarted)?;
    logs::set_stop_check(is_stop_requested);
    Ok(())
}

fn register_handlers(hangup: HangupEffect) -> io::Result<()> {
    // The first handler of a signal replaces its default effect. A signal that arrives before the last one is registered
    // would have no effect at all, so it waits.
    let mask = SigSet::all().thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        match (signal, hangup) {
            (Signal::SIGHUP, _) if is_ignored(signal) => {}
            (Signal::SIGHUP, HangupEffect::Reload) => {
                flag::register(signal as i32, Arc::clone(&RELOAD_REQUESTED))?;
            }
            _ => register_handler(signal)?,
        }
    }
    Ok(mask.thread_set_mask()?)
}

/// Returns true if SIGHUP arrived since the last call, in a command that can reload its files.
pub(crate) fn take_reload_request() -> bool {
    RELOAD_REQUESTED.swap(false, Ordering::Relaxed)
}

/// Registers the handlers of a signal. They run in this order, so that a second signal finds the flag of the first.
///
/// Only Ctrl-C stops the process immediately: other programs, such as `timeout`, send SIGTERM twice.
fn register_handler(signal: Signal) -> io::Result<()> {
    let number = signal as i32;
    if signal == Signal::SIGINT {
        flag::register_conditional_shutdown(number, EXIT_INTERRUPTED.into(), Arc::clone(&STOP_REQUESTED))?;
    }
    if signal == Signal::SIGTERM {
        flag::register(number, Arc::clone(&TERMINATED))?;
    }
    flag::register(number, Arc::clone(&STOP_REQUESTED)).map(drop)
}

/// Returns whether this process ignores the signal; false if that is not known.
fn is_ignored(signal: Signal) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignored_signals(&status).is_some_and(|mask| mask >> (signal as u32 - 1) & 1 == 1)
}

/// Returns the mask of ignored signals of a process status: the bit of signal 1 is the lowest.
fn ignored_signals(status: &str) -> Option<u64> {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(mask.trim(), 16).ok()
}

/// Records that this command runs until it is stopped.
pub(crate) fn set_runs_until_stopped() {
    RUNS_UNTIL_STOPPED.store(true, Ordering::Relaxed);
}

/// Returns whether SIGTERM stopped a command that runs until it is stopped. This is success, not an interruption:
/// service managers and container runtimes stop programs by this signal.
pub(crate) fn is_orderly_stop() -> bool {
    TERMINATED.load(Ordering::Relaxed) && RUNS_UNTIL_STOPPED.load(Ordering::Relaxed)
}

/// Requests all work to stop, as Ctrl-C does, because a part has failed.
pub(crate) fn request_stop() {
    PART_FAILED.store(true, Ordering::Relaxed);
    // A thread that sees the request also sees its reason.
    STOP_REQUESTED.store(true, Ordering::Release);
}

/// Returns whether the work must stop.
pub(crate) fn is_stop_requested() -> bool {
    STOP_REQUESTED.load(Ordering::Acquire)
}

/// Returns `Break` if the work is to stop, as the result of a progress callback.
pub(crate) fn stop_flow() -> ControlFlow<()> {
    if is_stop_requested() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Returns whether the work must stop because a part of the command has failed.
pub(crate) fn has_part_failed() -> bool {
    PART_FAILED.load(Ordering::Relaxed)
}

/// Returns a `CancelToken` that ends waits on connections after Ctrl-C.
pub(crate) fn cancel_on_interrupt() -> CancelToken {
    CancelToken::with_flag(Arc::clone(&STOP_REQUESTED))
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
