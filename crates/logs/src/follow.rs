//! Follows a store that is being written to, from one log to the next.

use std::path::{Path, PathBuf};

use crate::chunk::Chunk;
use crate::error::Error;
use crate::keyring::open_log;
use crate::reader::{End, LogReader, Next};
use crate::store::Store;

/// Reads a store that is being written to, from one log to the next. It never waits: if no more events are available,
/// it returns, and its caller asks again later.
#[derive(Debug)]
pub struct Follower {
    trail: Trail,
    keyring: Option<PathBuf>,
    reader: LogReader,
}

/// Cursor over the logs of a store that is being written to, for callers that read the logs themselves.
#[derive(Debug)]
pub struct Trail {
    store: Store,
    log: PathBuf,
    phase: Phase,
}

/// Action after the available part of a log is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// Wait: no more events are available yet.
    Wait,
    /// Read the same log again: it may have grown.
    ReadOn,
    /// Continue with this log: the present log is read completely.
    Next(PathBuf),
}

/// State of the present log.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    /// It may still grow.
    Reading,
    /// It has a successor, so it no longer grows. The events written since the last read are still to be read.
    Last,
}

impl Follower {
    /// Starts at the first event of one of the store's logs. Encrypted logs need the server's keyring file. The file is
    /// read again for each log, because keys are rotated.
    ///
    /// # Errors
    ///
    /// If the log or the keyring file cannot be read, or the keyring file is invalid.
    pub fn new(store: Store, log: PathBuf, keyring: Option<PathBuf>) -> Result<Self, Error> {
        let reader = open_log(&log, keyring.as_deref())?;
        Ok(Self { trail: Trail::new(store, log), keyring, reader })
    }

    /// Returns whole events of one log, up to `size` bytes; `None` if no more events are available yet.
    ///
    /// # Errors
    ///
    /// Those of [`LogReader::next_chunk`]. Also if a log with a successor is torn, or if logs were purged before they
    /// were read.
    pub fn next_chunk(&mut self, size: usize) -> Result<Option<Chunk>, Error> {
        loop {
            let end = match self.reader.next_chunk(size)? {
                Next::Some(chunk) => return Ok(Some(chunk)),
                Next::End(end) => end,
            };
            match self.trail.at_end(end, &self.reader)? {
                After::Wait => return Ok(None),
                After::ReadOn => {}
                After::Next(next) => self.reader = open_log(&next, self.keyring.as_deref())?,
            }
        }
    }

    /// Returns the log that was read last.
    pub fn log(&self) -> &Path {
        &self.trail.log
    }

    /// Returns the reader of that log, which has its format, its kind, and the start of the next event.
    pub const fn reader(&self) -> &LogReader {
        &self.reader
    }
}

impl Trail {
    /// Starts at one of the store's logs.
    pub const fn new(store: Store, log: PathBuf) -> Self {
        Self { store, log, phase: Phase::Reading }
    }

    /// Returns the store's logs, in order.
    pub fn logs(&self) -> &[PathBuf] {
        self.store.logs()
    }

    /// Starts at another of the store's logs. Call it before anything is read.
    pub fn start_at(&mut self, log: PathBuf) {
        (self.log, self.phase) = (log, Phase::Reading);
    }

    /// Takes the `end` that the reader of the present log has reached, and returns the next action. With
    /// [`After::Next`], the next log becomes the present one.
    ///
    /// # Errors
    ///
    /// Those of [`Follower::next_chunk`].
    pub fn at_end(&mut self, end: End, reader: &LogReader) -> Result<After, Error> {
        self.refresh()?;
        let Some(next) = self.next_log()? else {
            return self.look_for_removal(reader).map(|()| After::Wait);
        };
        // A log that was received only up to its head is received again: its further events are in another file.
        if reader.is_at_head() && self.log.exists() {
            self.look_for_removal(reader)?;
        }
        match (end, self.phase) {
            // The log may have grown between that end and the reading of the index.
            (End::Open { .. } | End::Torn(_), Phase::Reading) => {
                self.phase = Phase::Last;
                Ok(After::ReadOn)
            }
            (End::Torn(torn), Phase::Last) => Err(reader.torn(torn)),
            (End::Closed, _) | (End::Open { .. }, Phase::Last) => {
                (self.log, self.phase) = (next.clone(), Phase::Reading);
                Ok(After::Next(next))
            }
        }
    }

    /// Returns the log after the present one. If the log is missing, it reads the index again: a purged log is no
    /// longer in it.
    fn next_log(&mut self) -> Result<Option<PathBuf>, Error> {
        let next = self.store.after(&self.log)?.map(Path::to_owned);
        if next.as_ref().is_none_or(|next| next.exists()) {
            return Ok(next);
        }
        self.refresh()?;
        let next = self.store.after(&self.log)?.map(Path::to_owned);
        match next.as_ref().filter(|next| !next.exists()) {
            None => Ok(next),
            Some(missing) => {
                let (name, index) = (missing.display().to_string(), self.store.path().display().to_string());
                Err(Error::Missing { name, index })
            }
        }
    }

    fn refresh(&mut self) -> Result<(), Error> {
        match self.store.refresh() {
            // While a server purges logs, the index is absent for a moment.
            Err(Error::Io { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// Checks that the present log has not been removed: after `RESET BINARY LOGS AND GTIDS`, it never grows again.
    fn look_for_removal(&self, reader: &LogReader) -> Result<(), Error> {
        match reader.is_removed()? {
            true => Err(Error::Removed { name: self.log.display().to_string() }),
            false => Ok(()),
        }
    }
}
