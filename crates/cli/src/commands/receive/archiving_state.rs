//! State of an archive that receives closed logs, for metrics, health and the result.

use std::sync::{Arc, Mutex, MutexGuard};
#[cfg(feature = "archive")]
use std::time::{Duration, SystemTime};

use logs::lock;

use crate::units::counted;

/// Numbers of archived logs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ArchivingFigures {
    /// Logs that this run has archived.
    pub(crate) logs: u64,
    /// Bytes of these logs.
    pub(crate) bytes_from: u64,
    /// Bytes of these logs in the archive.
    pub(crate) bytes_to: u64,
    /// Failed attempts, which are repeated.
    pub(crate) failures: u64,
    /// Logs that were in the archive before.
    #[cfg(feature = "archive")]
    pub(crate) present: u64,
    /// Closed logs that are not archived yet.
    pub(crate) waiting: u64,
    /// Time of the last change of the oldest log that waits, if known.
    #[cfg(feature = "archive")]
    pub(crate) waiting_since: Option<SystemTime>,
    /// Error of the last attempt; `None` if it succeeded.
    pub(crate) error: Option<String>,
}

#[cfg(feature = "archive")]
impl ArchivingFigures {
    /// Counts a log that was archived.
    pub(crate) const fn add(&mut self, size: u64, stored_size: u64) {
        self.logs += 1;
        self.bytes_from += size;
        self.bytes_to += stored_size;
    }

    /// Returns the time since the last change of the oldest log that waits; 0 if no log waits.
    pub(crate) fn lag(&self) -> Duration {
        self.waiting_since.map_or(Duration::ZERO, |since| since.elapsed().unwrap_or_default())
    }
}

/// State of an archive, shared between threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct ArchivingState(Arc<Mutex<ArchivingFigures>>);

impl ArchivingState {
    /// Returns the figures at this moment.
    pub(crate) fn figures(&self) -> ArchivingFigures {
        self.lock().clone()
    }

    /// Changes the figures.
    #[cfg(feature = "archive")]
    pub(crate) fn update(&self, change: impl FnOnce(&mut ArchivingFigures)) {
        change(&mut self.lock());
    }

    /// Returns a few words about waiting logs; `None` if no log waits.
    pub(crate) fn text(&self) -> Option<String> {
        let figures = self.lock();
        let logs =
            (figures.waiting > 0).then(|| format!("{} to archive", counted(figures.waiting, "log")))?;
        Some(match &figures.error {
            Some(error) => format!("{logs} ({error})"),
            None => logs,
        })
    }

    fn lock(&self) -> MutexGuard<'_, ArchivingFigures> {
        lock(&self.0)
    }
}
