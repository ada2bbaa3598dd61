//! A store that is still being written.

use std::path::PathBuf;
use std::time::Duration;

use logs::{Store, StoreCursor, StoreWatch};

/// A store whose logs a source follows while they grow.
#[derive(Debug)]
pub(super) struct FollowedStore {
    /// Finder of the next log.
    pub(super) cursor: StoreCursor,
    watch: StoreWatch,
    /// Path of the log that `watch` observes.
    watched: Option<PathBuf>,
}

impl FollowedStore {
    /// Follows a store from this log on.
    pub(super) fn new(store: Store, first: PathBuf) -> Self {
        Self { cursor: StoreCursor::new(store, first), watch: StoreWatch::new(), watched: None }
    }

    /// Waits until the logs may have grown since the last call, at most for this time.
    pub(super) fn wait_for_growth(&mut self, longest: Duration) {
        let newest = self.cursor.logs().last();
        if self.watched.as_ref() == newest {
            self.watch.wait(longest);
            return;
        }
        // The log may have grown before it was watched.
        self.watched = newest.cloned();
        self.watch.check(self.watched.clone());
    }
}
