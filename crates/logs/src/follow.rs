//! Follows a store that is being written to: from one log to the next.

use std::path::{Path, PathBuf};

use crate::chunk::Chunk;
use crate::error::Error;
use crate::keyring::open_log;
use crate::reader::{End, LogReader, Next};
use crate::store::Store;

/// Reads a store that is being written to, from one log to the next. It never waits: it says that nothing more is
/// there yet, and its caller asks again later.
#[derive(Debug)]
pub struct Follower {
    trail: Trail,
    keyring: Option<PathBuf>,
    reader: LogReader,
}

/// The way through a store that is being written to, for whoever reads its logs himself.
#[derive(Debug)]
pub struct Trail {
    store: Store,
    log: PathBuf,
    phase: Phase,
}

/// What to do at the end of what there is of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum After {
    /// Nothing more is there yet: ask again later.
    Wait,
    /// Read on in the same log: more may be there by now.
    ReadOn,
    /// All of it is read. This is the next one.
    Next(PathBuf),
}

/// What is known of the log at hand.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Phase {
    Reading,
    /// It has a successor, so nothing more is written to it. What was written since it was read last is still to come.
    Last,
}

impl Follower {
    /// From the first event of one of the store's logs. Encrypted logs need the server's keyring file: it is read again
    /// for each log, for keys are rotated.
    ///
    /// # Errors
    ///
    /// When the system refuses, or when the keyring is none.
    pub fn new(store: Store, log: PathBuf, keyring: Option<PathBuf>) -> Result<Self, Error> {
        let reader = open_log(&log, keyring.as_deref())?;
        Ok(Self { trail: Trail::new(store, log), keyring, reader })
    }

    /// Whole events of one log, up to `size` bytes; `None` if nothing more is there yet.
    ///
    /// # Errors
    ///
    /// As [`LogReader::next_chunk`]; also when a log that has a successor is torn, or when logs were purged before
    /// they were read.
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

    /// The log that was read last.
    pub fn log(&self) -> &Path {
        &self.trail.log
    }

    /// What reads it: its format, its kind, and the place where the next event starts.
    pub const fn reader(&self) -> &LogReader {
        &self.reader
    }
}

impl Trail {
    /// From one of the store's logs on.
    pub const fn new(store: Store, log: PathBuf) -> Self {
        Self { store, log, phase: Phase::Reading }
    }

    /// The store's logs, in order.
    pub fn logs(&self) -> &[PathBuf] {
        self.store.logs()
    }

    /// From another of the store's logs on: before anything was read.
    pub fn start_at(&mut self, log: PathBuf) {
        (self.log, self.phase) = (log, Phase::Reading);
    }

    /// The reader of the log at hand has come to this end of it. Where there is a next log, that is the one at hand
    /// from here on.
    ///
    /// # Errors
    ///
    /// As [`Follower::next_chunk`].
    pub fn at_end(&mut self, end: End, reader: &LogReader) -> Result<After, Error> {
        self.refresh()?;
        let Some(next) = self.next_log()? else {
            return self.look_for_removal(reader).map(|()| After::Wait);
        };
        // One that was received up to its head only comes again: what came behind that is in another file.
        if reader.is_at_head() && self.log.exists() {
            self.look_for_removal(reader)?;
        }
        match (end, self.phase) {
            // Between that end and the look at the index, more may have come.
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

    /// The log behind the one at hand. One that was purged since the index was read is not in the index any more.
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
            // When a server purges logs, there is no index for a moment.
            Err(Error::Io { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// A log that was removed before its end is not coming back: `RESET BINARY LOGS AND GTIDS`.
    fn look_for_removal(&self, reader: &LogReader) -> Result<(), Error> {
        match reader.is_removed()? {
            true => Err(Error::Removed { name: self.log.display().to_string() }),
            false => Ok(()),
        }
    }
}
