//! Detection of growth of a store's logs.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};

/// Interval at which sizes are read if the system reports no changes of files.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// Watch on the newest log of a store, and on its directory.
#[derive(Debug)]
pub struct StoreWatch {
    /// Change notifications of the system; `None` if there are none.
    changes: Option<Inotify>,
    /// Directories that are watched.
    directories: Vec<PathBuf>,
    /// Path and size of the newest log.
    newest: Option<(PathBuf, u64)>,
}

impl StoreWatch {
    /// Creates a watch that watches nothing yet.
    pub fn new() -> Self {
        let changes = Inotify::init(InitFlags::IN_NONBLOCK | InitFlags::IN_CLOEXEC).ok();
        Self { changes, directories: Vec::new(), newest: None }
    }

    /// Waits for a change, at most for this time. Returns whether the system has reported one. If the system reports no
    /// changes, waits only briefly.
    pub fn wait(&self, longest: Duration) -> bool {
        let Some(changes) = &self.changes else {
            std::thread::sleep(POLL_INTERVAL.min(longest));
            return false;
        };
        let mut descriptors = [PollFd::new(changes.as_fd(), PollFlags::POLLIN)];
        let timeout = PollTimeout::try_from(longest).unwrap_or(PollTimeout::ZERO);
        if !matches!(poll(&mut descriptors, timeout), Ok(1..)) {
            return false;
        }
        // An error means that notifications were lost: there may be a change.
        let Ok(events) = changes.read_events() else { return true };
        let stem = self.newest.as_ref().and_then(|(path, _)| path.file_stem());
        // Ignore other files of the directory: a running server changes its files all the time.
        events.iter().any(|event| {
            let name = event.name.as_ref().map(Path::new);
            name.is_none_or(|name| stem.is_none_or(|stem| name.file_stem() == Some(stem)))
        })
    }

    /// Takes the path of the newest log. Returns true if the path or the log's size has changed.
    pub fn check(&mut self, newest: Option<PathBuf>) -> bool {
        let newest = newest.map(|path| {
            let size = std::fs::metadata(&path).map_or(0, |metadata| metadata.len());
            (path, size)
        });
        if let Some(directory) = newest.as_ref().and_then(|(path, _)| path.parent()) {
            self.watch_directory(directory.to_owned());
        }
        let has_changed = newest != self.newest;
        self.newest = newest;
        has_changed
    }

    /// Watches a directory.
    pub fn watch_directory(&mut self, directory: PathBuf) {
        if self.directories.contains(&directory) {
            return;
        }
        let flags = AddWatchFlags::IN_MODIFY
            | AddWatchFlags::IN_CREATE
            | AddWatchFlags::IN_MOVED_TO
            | AddWatchFlags::IN_DELETE;
        let watched = self.changes.as_ref().map(|changes| changes.add_watch(&directory, flags));
        if let Some(Err(_)) = watched {
            self.changes = None;
        }
        self.directories.push(directory);
    }
}

impl Default for StoreWatch {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::StoreWatch;

    const TIMEOUT: Duration = Duration::from_millis(200);

    #[test]
    fn growing_logs_are_noticed() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("binlog.000001");
        std::fs::write(&log, "x").unwrap();
        let mut watch = StoreWatch::new();
        assert!(watch.check(Some(log.clone())));
        assert!(!watch.check(Some(log.clone())));
        std::fs::write(&log, "xx").unwrap();
        assert_eq!(watch.changes.is_some(), cfg!(target_os = "linux"));
        assert!(watch.changes.is_none() || watch.wait(TIMEOUT));
        assert!(watch.check(Some(log.clone())));
        std::fs::write(directory.path().join("ibdata1"), "x").unwrap();
        assert!(!watch.wait(TIMEOUT) && !watch.check(Some(log)));
    }
}
