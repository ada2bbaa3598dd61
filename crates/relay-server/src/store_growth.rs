//! Growth of the store: notices that logs have grown, and wakes the clients that wait for it.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

use crate::lock;

/// Number of times that the store has grown, and the clients that wait for the next time.
#[derive(Debug, Default)]
pub(crate) struct StoreGrowth {
    count: Mutex<u64>,
    grown: Condvar,
    /// Signals of clients that wait for growth and for data at once.
    signals: Mutex<Vec<Weak<GrowthSignal>>>,
}

/// Descriptor that becomes readable when the store has grown.
#[derive(Debug)]
pub(crate) struct GrowthSignal(EventFd);

impl GrowthSignal {
    /// Makes the descriptor unreadable until the store grows again.
    pub(crate) fn clear(&self) {
        // An error means that the store has not grown.
        let _ = self.0.read();
    }

    /// Returns the descriptor.
    pub(crate) fn descriptor(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl StoreGrowth {
    /// Returns the number of times that the store has grown.
    pub(crate) fn count(&self) -> u64 {
        *lock(&self.count)
    }

    /// Wakes all clients that wait.
    pub(crate) fn note(&self) {
        *lock(&self.count) += 1;
        self.grown.notify_all();
        lock(&self.signals).retain(|signal| {
            let Some(signal) = signal.upgrade() else { return false };
            // An error means that the counter is at its maximum: the descriptor is readable already.
            let _ = signal.0.write(1);
            true
        });
    }

    /// Returns a signal of growth, for as long as it is kept.
    ///
    /// # Errors
    ///
    /// If the process has too many open files.
    pub(crate) fn subscribe(&self) -> io::Result<Arc<GrowthSignal>> {
        let flags = EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC;
        let signal = Arc::new(GrowthSignal(EventFd::from_value_and_flags(0, flags)?));
        lock(&self.signals).push(Arc::downgrade(&signal));
        Ok(signal)
    }

    /// Waits until the store has grown more often than `seen` times, or until this time.
    pub(crate) fn wait(&self, seen: u64, until: Instant) {
        let mut count = lock(&self.count);
        while *count == seen {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            count = match self.grown.wait_timeout(count, left) {
                Ok((count, _)) => count,
                Err(poisoned) => poisoned.into_inner().0,
            };
        }
    }
}

/// Interval at which sizes are read if the system reports no changes of files.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Interval at which sizes are read although the system reports changes: some file systems report only their own.
const CHECK_INTERVAL: Duration = Duration::from_millis(200);

/// Watch on the newest log of a store, and on its directory.
#[derive(Debug)]
pub(crate) struct StoreWatch {
    /// Reports of the system; `None` if it has none.
    changes: Option<Inotify>,
    /// Directories that are watched.
    folders: Vec<PathBuf>,
    /// Path and size of the newest log.
    newest: Option<(PathBuf, u64)>,
}

impl StoreWatch {
    /// Starts to watch nothing yet.
    pub(crate) fn new() -> Self {
        let changes = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok();
        Self { changes, folders: Vec::new(), newest: None }
    }

    /// Waits for a change, for a short time. Returns false if there was none for certain.
    pub(crate) fn wait(&self) -> bool {
        let Some(changes) = &self.changes else {
            std::thread::sleep(POLL_INTERVAL);
            return false;
        };
        let mut descriptors = [PollFd::new(changes.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(CHECK_INTERVAL).unwrap_or(PollTimeout::ZERO);
        if !matches!(poll(&mut descriptors, timeout), Ok(1..)) {
            return false;
        }
        // An error means that reports were lost: something has changed.
        let Ok(events) = changes.read_events() else { return true };
        let stem = self.newest.as_ref().and_then(|(path, _)| path.file_stem());
        // Other files of the directory, such as those of a running server, change all the time.
        events.iter().any(|event| {
            let name = event.name.as_ref().map(Path::new);
            name.is_none_or(|name| stem.is_none_or(|stem| name.file_stem() == Some(stem)))
        })
    }

    /// Takes the path of the newest log. Returns true if it is another one, or its size is another.
    pub(crate) fn check(&mut self, newest: Option<PathBuf>) -> bool {
        let newest = newest.map(|path| {
            let size = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
            (path, size)
        });
        if let Some(folder) = newest.as_ref().and_then(|(path, _)| path.parent()) {
            self.watch_folder(folder.to_owned());
        }
        let has_changed = newest != self.newest;
        self.newest = newest;
        has_changed
    }

    /// Watches a directory.
    pub(crate) fn watch_folder(&mut self, folder: PathBuf) {
        if self.folders.contains(&folder) {
            return;
        }
        let flags = AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_DELETE;
        let watched = self.changes.as_ref().map(|changes| changes.add_watch(&folder, flags));
        if let Some(Err(_)) = watched {
            self.changes = None;
        }
        self.folders.push(folder);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    use super::{StoreGrowth, StoreWatch};

    #[test]
    fn clients_are_woken_by_growth_or_a_timeout() {
        let growth = Arc::new(StoreGrowth::default());
        growth.wait(0, Instant::now() + Duration::from_millis(1));
        let seen = growth.count();
        let noting = Arc::clone(&growth);
        let thread = std::thread::spawn(move || noting.note());
        growth.wait(seen, Instant::now() + Duration::from_secs(60));
        assert_eq!(growth.count(), 1);
        thread.join().unwrap();
    }

    #[test]
    fn growing_logs_are_noticed() {
        let folder = tempfile::tempdir().unwrap();
        let log = folder.path().join("binlog.000001");
        std::fs::write(&log, "x").unwrap();
        let mut watch = StoreWatch::new();
        assert!(watch.check(Some(log.clone())));
        assert!(!watch.check(Some(log.clone())));
        std::fs::write(&log, "xx").unwrap();
        assert!(watch.changes.is_none() || watch.wait());
        assert!(watch.check(Some(log.clone())));
        std::fs::write(folder.path().join("ibdata1"), "x").unwrap();
        assert!(!watch.wait() && !watch.check(Some(log)));
    }
}
