//! Queue of the logs that a source still has to read.

use crate::replay_log::ReplayLog;

/// The logs of a source that are not read yet, and the names of all logs.
#[derive(Debug)]
pub(super) struct LogQueue {
    names: Vec<String>,
    unread: std::vec::IntoIter<ReplayLog>,
    /// Number of logs that were taken from the queue, read or left out.
    taken: usize,
}

impl LogQueue {
    /// Creates a queue. `names` are the names of the logs on their own server, also of logs that come later.
    pub(super) fn new(logs: Vec<ReplayLog>, names: Vec<String>) -> Self {
        Self { names, unread: logs.into_iter(), taken: 0 }
    }

    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    pub(super) const fn taken(&self) -> usize {
        self.taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.unread.as_slice().is_empty()
    }

    /// Returns the next log, which stays in the queue.
    pub(super) fn peek(&self) -> Option<&ReplayLog> {
        self.unread.as_slice().first()
    }

    /// Takes the next log.
    pub(super) fn take(&mut self) -> Option<ReplayLog> {
        let log = self.unread.next()?;
        self.taken += 1;
        Some(log)
    }

    /// Makes a log of a followed store the only log of the queue.
    pub(super) fn follow_with(&mut self, log: ReplayLog) {
        let name = log.name();
        if !self.names.contains(&name) {
            self.names.push(name);
        }
        self.unread = vec![log].into_iter();
    }

    /// Makes the log with this number the only log of the queue.
    pub(super) fn start_at(&mut self, number: usize, log: ReplayLog) {
        self.unread = vec![log].into_iter();
        self.taken = number;
    }
}
