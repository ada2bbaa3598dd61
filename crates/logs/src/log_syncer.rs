//! Thread that syncs a log to disk, while more events are written.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use crate::mutex_lock::lock;

use nix::sys::eventfd::{EfdFlags, EventFd};

/// Thread that syncs a log to disk. One sync covers all bytes written before it began. Requests made while a sync runs
/// are merged into one.
///
/// After a failed sync, no further sync begins until the error is taken: the system reports an error only once, and the
/// next sync would succeed although bytes are lost.
#[derive(Debug)]
pub(crate) struct LogSyncer {
    shared: Arc<SyncerShared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct SyncerShared {
    state: Mutex<SyncerState>,
    changed: Condvar,
    /// Readable once a sync has ended.
    ended: EventFd,
}

#[derive(Debug, Default)]
struct SyncerState {
    /// Number of the last requested sync.
    last: u64,
    /// Request whose sync has not begun.
    next: Option<SyncRequest>,
    is_busy: bool,
    /// Last completed sync, until it is taken.
    end: Option<SyncEnd>,
    is_stopping: bool,
}

#[derive(Debug)]
struct SyncRequest {
    number: u64,
    file: Arc<File>,
    size: u64,
}

/// End of a sync.
#[derive(Debug)]
pub(crate) struct SyncEnd {
    /// Number of the sync.
    pub(crate) number: u64,
    /// Size of the part of the log that the sync covers.
    pub(crate) size: u64,
    /// Result of the sync.
    pub(crate) result: io::Result<()>,
}

impl LogSyncer {
    /// Starts the thread.
    pub(crate) fn start() -> io::Result<Self> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let ended = EventFd::from_value_and_flags(0, flags)?;
        let shared = Arc::new(SyncerShared { state: Mutex::default(), changed: Condvar::new(), ended });
        let syncing = Arc::clone(&shared);
        let thread = thread::Builder::new().name("sync".to_owned()).spawn(move || syncing.run())?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Requests a sync of the part of a log that is written to its file. Returns the number of the sync.
    pub(crate) fn request(&self, file: Arc<File>, size: u64) -> u64 {
        let mut state = self.shared.lock();
        if state.end.as_ref().is_some_and(|end| end.result.is_err()) {
            return state.last;
        }
        let is_growing = state.next.as_ref().is_none_or(|next| next.size <= size);
        assert!(is_growing, "ours: a log only grows while it is synced");
        if state.next.is_none() {
            state.last += 1;
        }
        let number = state.last;
        state.next = Some(SyncRequest { number, file, size });
        drop(state);
        self.shared.changed.notify_all();
        number
    }

    /// Takes the last completed sync, without waiting.
    pub(crate) fn take_end(&self) -> Option<SyncEnd> {
        let end = self.shared.lock().end.take()?;
        // An error means that there was no further signal.
        let _ = self.shared.ended.read();
        Some(end)
    }

    /// Waits until all requested syncs have ended, and takes the end of the last sync.
    pub(crate) fn finish(&self) -> Option<SyncEnd> {
        let mut state = self.shared.lock();
        while state.is_busy || state.next.is_some() {
            state = self.shared.wait(state);
        }
        drop(state);
        self.take_end()
    }

    /// Returns a descriptor that is readable once a sync has ended.
    pub(crate) fn signal(&self) -> BorrowedFd<'_> {
        self.shared.ended.as_fd()
    }
}

impl Drop for LogSyncer {
    fn drop(&mut self) {
        self.shared.lock().is_stopping = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic of the thread has already printed its message.
            let _ = thread.join();
        }
    }
}

impl SyncerShared {
    fn run(&self) {
        let mut state = self.lock();
        while !state.is_stopping {
            let Some(SyncRequest { number, file, size }) = state.next.take() else {
                state = self.wait(state);
                continue;
            };
            let is_sound = state.end.as_ref().is_none_or(|end| end.result.is_ok());
            assert!(is_sound, "ours: no sync begins before an earlier error is taken");
            state.is_busy = true;
            drop(state);
            let result = file.sync_data();
            drop(file);
            state = self.lock();
            state.is_busy = false;
            if result.is_err() {
                state.next = None;
            }
            state.end = Some(SyncEnd { number, size, result });
            self.changed.notify_all();
            // An error means that the counter is at its maximum: the descriptor is readable already.
            let _ = self.ended.write(1);
        }
    }

    fn lock(&self) -> MutexGuard<'_, SyncerState> {
        lock(&self.state)
    }

    fn wait<'s>(&self, state: MutexGuard<'s, SyncerState>) -> MutexGuard<'s, SyncerState> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write as _;
    use std::sync::Arc;

    use super::LogSyncer;

    #[test]
    fn requests_that_wait_become_one_sync() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"log").unwrap();
        let (syncer, file) = (LogSyncer::start().unwrap(), Arc::new(file));
        let numbers: Vec<u64> = (1..=100).map(|size| syncer.request(Arc::clone(&file), size)).collect();
        assert!(numbers.is_sorted());
        let end = syncer.finish().unwrap();
        assert_eq!((Some(&end.number), end.size), (numbers.last(), 100));
        assert!(end.result.is_ok() && syncer.take_end().is_none());
        assert_eq!(syncer.request(file, 101), end.number + 1);
    }

    #[test]
    fn no_sync_follows_an_error_until_the_error_is_taken() {
        // A pipe cannot be synced.
        let (pipe, _writer) = std::io::pipe().unwrap();
        let pipe = Arc::new(File::from(std::os::fd::OwnedFd::from(pipe)));
        let (syncer, good) = (LogSyncer::start().unwrap(), Arc::new(tempfile::tempfile().unwrap()));
        let failing = syncer.request(pipe, 1);
        while syncer.shared.lock().end.is_none() {
            std::thread::yield_now();
        }
        assert_eq!(syncer.request(Arc::clone(&good), 2), failing);
        let end = syncer.finish().unwrap();
        assert!((end.number, end.size) == (failing, 1) && end.result.is_err());
        syncer.request(good, 3);
        assert!(syncer.finish().unwrap().result.is_ok());
    }
}
