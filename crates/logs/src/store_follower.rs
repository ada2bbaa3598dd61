//! Reading of a store while it is written, from one log to the next.

use std::path::{Path, PathBuf};

use crate::error::LogError;
use crate::event_chunk::EventChunk;
use crate::keyring::open_log;
use crate::log_reader::{EndOfLog, LogReader, ReadOutcome};
use crate::store::Store;

/// Reader of a store that is being written, from one log to the next. Never waits: if no more events are available, the
/// call returns, and the caller calls again later.
#[derive(Debug)]
pub struct StoreFollower {
    cursor: StoreCursor,
    keyring: Option<PathBuf>,
    reader: LogReader,
}

/// Cursor over the logs of a store that is being written, for callers that read the logs themselves.
#[derive(Debug)]
pub struct StoreCursor {
    store: Store,
    log: PathBuf,
    phase: FollowPhase,
}

/// Action after the available part of a log is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEndAction {
    /// Wait: no more events are available yet.
    Wait,
    /// Read the same log again, because it may have grown.
    ReadAgain,
    /// Continue with this log: the present log is read completely.
    NextLog(PathBuf),
}

/// State of the present log.
#[derive(Clone, Copy, Debug, PartialEq)]
enum FollowPhase {
    /// The log may still grow.
    Reading,
    /// The log has a successor, so it no longer grows. Events written since the last read must still be read.
    FinalRead,
}

impl StoreFollower {
    /// Starts at the first event of one of the store's logs. Encrypted logs need the server's keyring file. The file is
    /// read again for each log, because keys are rotated.
    ///
    /// # Errors
    ///
    /// Fails if the log or the keyring file cannot be read, or the keyring file is invalid.
    pub fn new(store: Store, log: PathBuf, keyring: Option<PathBuf>) -> Result<Self, LogError> {
        let reader = open_log(&log, keyring.as_deref())?;
        Ok(Self { cursor: StoreCursor::new(store, log), keyring, reader })
    }

    /// Returns whole events of one log, up to `size` bytes; `None` if no more events are available yet.
    ///
    /// # Errors
    ///
    /// Fails as [`LogReader::next_chunk`] does, and if a log with a successor is torn, or if logs were purged before
    /// they were read.
    pub fn next_chunk(&mut self, size: usize) -> Result<Option<EventChunk>, LogError> {
        loop {
            let end = match self.reader.next_chunk(size)? {
                ReadOutcome::Some(chunk) => return Ok(Some(chunk)),
                ReadOutcome::End(end) => end,
            };
            match self.cursor.reach_end(end, &self.reader)? {
                LogEndAction::Wait => return Ok(None),
                LogEndAction::ReadAgain => {}
                LogEndAction::NextLog(next) => self.reader = open_log(&next, self.keyring.as_deref())?,
            }
        }
    }

    /// Returns the log that was read last.
    pub fn log(&self) -> &Path {
        &self.cursor.log
    }

    /// Returns the reader of the present log, which has the format, the kind, and the start of the next event.
    pub const fn reader(&self) -> &LogReader {
        &self.reader
    }
}

impl StoreCursor {
    /// Starts at one of the store's logs.
    pub const fn new(store: Store, log: PathBuf) -> Self {
        Self { store, log, phase: FollowPhase::Reading }
    }

    /// Returns the store's logs, in order.
    pub fn logs(&self) -> &[PathBuf] {
        self.store.logs()
    }

    /// Starts at another of the store's logs. Call it before anything is read.
    pub fn start_at(&mut self, log: PathBuf) {
        (self.log, self.phase) = (log, FollowPhase::Reading);
    }

    /// Takes the `end` that the reader of the present log has reached, and returns the next action. With
    /// [`LogEndAction::NextLog`], the next log becomes the present log.
    ///
    /// # Errors
    ///
    /// Fails as [`StoreFollower::next_chunk`] does.
    pub fn reach_end(&mut self, end: EndOfLog, reader: &LogReader) -> Result<LogEndAction, LogError> {
        self.refresh()?;
        let Some(next) = self.next_log()? else {
            return self.check_not_removed(reader).map(|()| LogEndAction::Wait);
        };
        // A log received only up to its head is received again: its further events are in another file.
        if reader.is_at_head() && self.log.exists() {
            self.check_not_removed(reader)?;
        }
        // After `RESET BINARY LOGS AND GTIDS`, the server uses the names of its logs again.
        if reader.is_replaced_by_log(&self.log)? {
            return Err(LogError::Removed { name: self.log.display().to_string() });
        }
        match (end, self.phase) {
            // The log may have grown after its end was reached, and before the index was read.
            (EndOfLog::Open { .. } | EndOfLog::Torn(_), FollowPhase::Reading) => {
                self.phase = FollowPhase::FinalRead;
                Ok(LogEndAction::ReadAgain)
            }
            (EndOfLog::Torn(torn), FollowPhase::FinalRead) => Err(reader.torn_error(torn)),
            (EndOfLog::Closed, _) | (EndOfLog::Open { .. }, FollowPhase::FinalRead) => {
                (self.log, self.phase) = (next.clone(), FollowPhase::Reading);
                Ok(LogEndAction::NextLog(next))
            }
        }
    }

    /// Returns the log after the present log. If that log is missing, reads the index again: a purged log is no longer
    /// listed.
    fn next_log(&mut self) -> Result<Option<PathBuf>, LogError> {
        let next = self.store.log_after(&self.log)?.map(Path::to_owned);
        if next.as_ref().is_none_or(|next| next.exists()) {
            return Ok(next);
        }
        self.refresh()?;
        let next = self.store.log_after(&self.log)?.map(Path::to_owned);
        match next.as_ref().filter(|next| !next.exists()) {
            None => Ok(next),
            Some(missing) => {
                let (name, index) = (missing.display().to_string(), self.store.path().display().to_string());
                Err(LogError::MissingLog { name, index })
            }
        }
    }

    fn refresh(&mut self) -> Result<(), LogError> {
        match self.store.refresh() {
            // While a server purges logs, the index is absent for a moment.
            Err(LogError::Io { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Checks that the present log has not been removed: after `RESET BINARY LOGS AND GTIDS`, it never grows again.
    fn check_not_removed(&self, reader: &LogReader) -> Result<(), LogError> {
        match reader.is_removed()? {
            true => Err(LogError::Removed { name: self.log.display().to_string() }),
            false => Ok(()),
        }
    }
}
