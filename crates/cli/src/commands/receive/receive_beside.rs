//! Runs a receiver beside a command that reads the received logs.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;
use std::thread::{self, ScopedJoinHandle};
use std::time::Duration;

use binlog::encryption::ENCRYPTED_HEADER_SIZE;
use binlog::{MAGIC, MAGIC_ENCRYPTED};
use logs::{Store, StoreWriter};
use receive::LogReceiver;
use servers::CancelToken;

use crate::exit::{CommandResult, CommandVerdict};
use crate::interrupt;

/// Interval at which the wait for the first log polls.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Receives into `directory`, and runs `command` as soon as a log there has an event. If the receiver fails, requests
/// `command` to stop, as Ctrl-C does. When `command` ends, stops the receiver. Without any event, does not run
/// `command`.
///
/// `cancel` is the token of the receiver's options.
pub(crate) fn receive_beside(
    receiver: LogReceiver,
    store: StoreWriter,
    cancel: &CancelToken,
    directory: &Path,
    command: impl FnOnce() -> CommandResult,
) -> CommandResult {
    thread::scope(|scope| {
        let receiving = scope.spawn(move || {
            // Boxed: the error is large.
            let ended = receiver.run(store).map_err(Box::new);
            if ended.is_err() {
                interrupt::request_stop();
            }
            ended
        });
        let outcome = match wait_for_first_event(directory, &receiving) {
            true => command(),
            false => Ok(CommandVerdict::Success),
        };
        cancel.cancel();
        match receiving.join() {
            Ok(Ok(())) => outcome,
            Ok(Err(failure)) => Err((*failure).into()),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    })
}

/// Waits for the first event of the first log. Returns false if the receiver ends or is interrupted before.
fn wait_for_first_event<T>(directory: &Path, receiving: &ScopedJoinHandle<'_, T>) -> bool {
    while !has_event(directory) {
        if receiving.is_finished() || interrupt::is_stop_requested() {
            return has_event(directory);
        }
        thread::sleep(POLL_INTERVAL);
    }
    true
}

/// Returns whether the directory has a log with an event.
fn has_event(directory: &Path) -> bool {
    let store = Store::open(directory).ok();
    let first = store.and_then(|store| File::open(store.logs().first()?).ok());
    first.is_some_and(|mut log| {
        let mut magic = [0; MAGIC.len()];
        let empty_size = match log.read_exact(&mut magic) {
            Ok(()) if magic == MAGIC_ENCRYPTED => ENCRYPTED_HEADER_SIZE + MAGIC.len(),
            _ => MAGIC.len(),
        };
        log.metadata().is_ok_and(|found| found.len() > empty_size as u64)
    })
}
