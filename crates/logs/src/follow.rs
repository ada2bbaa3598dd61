//! Follows a store that is being written to: from one log to the next.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::chunk::Chunk;
use crate::error::Error;
use crate::keyring::read_keyring;
use crate::reader::{End, LogReader, Next};
use crate::store::Store;

/// Reads a store that is being written to, from one log to the next. It never waits: it says that nothing more is
/// there yet, and its caller asks again later.
#[derive(Debug)]
pub struct Follower {
    store: Store,
    keyring: Option<PathBuf>,
    log: PathBuf,
    reader: LogReader,
    phase: Phase,
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
        let reader = open(&log, keyring.as_deref())?;
        Ok(Self { store, keyring, log, reader, phase: Phase::Reading })
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
            self.refresh()?;
            let Some(next) = self.store.after(&self.log)?.map(Path::to_owned) else {
                return self.look_for_removal().map(|()| None);
            };
            match (end, self.phase) {
                // Between that end and the look at the index, more may have come.
                (End::Open { .. } | End::Torn(_), Phase::Reading) => self.phase = Phase::Last,
                (End::Torn(torn), Phase::Last) => return Err(self.reader.torn(torn)),
                (End::Closed, _) | (End::Open { .. }, Phase::Last) => {
                    self.reader = open(&next, self.keyring.as_deref())?;
                    (self.log, self.phase) = (next, Phase::Reading);
                }
            }
        }
    }

    /// The log that was read last.
    pub fn log(&self) -> &Path {
        &self.log
    }

    /// What reads it: its format, its kind, and the place where the next event starts.
    pub const fn reader(&self) -> &LogReader {
        &self.reader
    }

    fn refresh(&mut self) -> Result<(), Error> {
        match self.store.refresh() {
            // When a server purges logs, there is no index for a moment.
            Err(Error::Io { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
            result => result,
        }
    }

    /// A log that was removed and has no successor is not coming back: `RESET BINARY LOGS AND GTIDS`.
    fn look_for_removal(&self) -> Result<(), Error> {
        match self.reader.is_removed()? {
            true => Err(Error::Removed { name: self.log.display().to_string() }),
            false => Ok(()),
        }
    }
}

fn open(log: &Path, keyring: Option<&Path>) -> Result<LogReader, Error> {
    let reader = LogReader::open(log)?;
    Ok(match keyring {
        Some(keyring) => reader.with_keyring(Arc::new(read_keyring(keyring)?)),
        None => reader,
    })
}
