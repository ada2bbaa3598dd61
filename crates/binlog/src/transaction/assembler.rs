//! Assembly of events into whole transactions.

use std::fmt;
use std::mem;
use std::sync::Arc;

use crate::error::{DecodeError, Reason};
use crate::format::Format;
use crate::raw::{Checksum, RawEvent};
use crate::transaction::grammar::{Fault, Step};
use crate::transaction::outline::{Outline, TrackError, Tracked, Tracker};

/// A whole transaction: its outline, and its events in one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    outline: Outline,
    format: Arc<Format>,
    checksum: Checksum,
    bytes: Vec<u8>,
}

impl Transaction {
    /// Returns the outline.
    pub const fn outline(&self) -> &Outline {
        &self.outline
    }

    /// Returns the format for decoding the events.
    pub const fn format(&self) -> &Arc<Format> {
        &self.format
    }

    /// Returns the bytes of all events, as in the log.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Returns the events one by one; a payload is one event.
    pub fn events(&self) -> impl Iterator<Item = RawEvent<'_>> {
        let (mut rest, checksum) = (self.bytes.as_slice(), self.checksum);
        std::iter::from_fn(move || {
            let (raw, behind) = RawEvent::split_first(rest, checksum)?;
            rest = behind;
            Some(raw)
        })
    }
}

/// Assembles a log's events into whole transactions.
///
/// Holds at most one transaction, up to a limit in bytes. Use a [`Tracker`] for transactions of any size, or if whole
/// transactions are not needed.
#[derive(Clone, Debug)]
pub struct Assembler {
    tracker: Tracker,
    size_max: usize,
    format: Arc<Format>,
    taking: Taking,
    /// Size of the last transaction in bytes; the next one often has a similar size.
    size_last: usize,
}

/// Maximum number of bytes allocated for a transaction in advance.
const READY_MAX: usize = 16 << 10;

/// State of the open transaction's events.
#[derive(Clone, Debug)]
enum Taking {
    /// Events are collected.
    Events { position: u64, checksum: Checksum, bytes: Vec<u8> },
    /// Events are skipped: no transaction is open, or it failed.
    Nothing,
}

/// Error in a transaction. The assembler skips the rest of the transaction and continues.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssembleError {
    /// An event cannot be decoded.
    Decode(DecodeError),
    /// An event is not allowed at its place.
    Fault {
        /// Event found, and what was expected.
        fault: Fault,
        /// Transaction that consists of this event alone, if it is one.
        whole: Option<Box<Transaction>>,
    },
    /// The transaction exceeds the size limit.
    TooLarge {
        /// Position of the transaction.
        position: u64,
        /// Limit in bytes.
        size_max: usize,
    },
}

impl fmt::Display for AssembleError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decode(error) => error.fmt(out),
            Self::Fault { fault, .. } => fault.fmt(out),
            Self::TooLarge { position, size_max } => {
                write!(out, "the transaction at {position} is larger than {size_max} bytes")
            }
        }
    }
}

impl std::error::Error for AssembleError {}

impl Assembler {
    /// Creates an assembler for a log of this format, read from its start or from the end of a transaction.
    /// `size_max` is the maximum size of a transaction in bytes.
    pub fn new(format: Format, size_max: usize) -> Self {
        let (tracker, format) = (Tracker::new(), Arc::new(format));
        Self { tracker, size_max, format, taking: Taking::Nothing, size_last: 0 }
    }

    /// Returns the transaction that has started but not ended. At the end of a log, it is torn.
    pub const fn open(&self) -> Option<&Outline> {
        self.tracker.open()
    }

    /// Returns the number of collected bytes of the open transaction.
    pub fn held(&self) -> usize {
        match &self.taking {
            Taking::Events { bytes, .. } => bytes.len(),
            Taking::Nothing => 0,
        }
    }

    /// Removes and returns the collected events of the open transaction. The assembler follows the transaction to its
    /// end, but does not return it.
    pub fn give_up(&mut self) -> Vec<u8> {
        match mem::replace(&mut self.taking, Taking::Nothing) {
            Taking::Events { bytes, .. } => bytes,
            Taking::Nothing => Vec::new(),
        }
    }

    /// Adds the next event, which starts at `position` of its file. Returns the transaction that it ends.
    ///
    /// # Errors
    ///
    /// Fails if the event cannot be decoded or is not allowed at its place, or if the transaction becomes too large.
    /// The transaction is then not returned.
    pub fn push(
        &mut self,
        position: u64,
        raw: &RawEvent<'_>,
        format: &Format,
    ) -> Result<Option<Transaction>, AssembleError> {
        match self.tracker.track(position, raw, format) {
            Ok(tracked) => self.take(position, tracked, raw, format),
            Err(TrackError::Decode(error)) => {
                self.taking = Taking::Nothing;
                Err(AssembleError::Decode(error))
            }
            Err(TrackError::Fault(broken)) => {
                self.taking = Taking::Nothing;
                let mut whole = None;
                if broken.tracked.step.transaction.is_first() {
                    whole = self.take(position, broken.tracked, raw, format)?.map(Box::new);
                }
                Err(AssembleError::Fault { fault: broken.fault, whole })
            }
        }
    }

    fn take(
        &mut self,
        position: u64,
        tracked: Tracked,
        raw: &RawEvent<'_>,
        format: &Format,
    ) -> Result<Option<Transaction>, AssembleError> {
        if tracked.step == Step::OUTSIDE {
            return Ok(None);
        }
        if tracked.step.transaction.is_first() {
            self.start(position, raw.checksum(), format);
        }
        self.collect(raw).inspect_err(|_| self.taking = Taking::Nothing)?;
        let Some(outline) = tracked.ended else { return Ok(None) };
        let format = Arc::clone(&self.format);
        Ok(match mem::replace(&mut self.taking, Taking::Nothing) {
            Taking::Events { checksum, bytes, .. } => {
                self.size_last = bytes.len();
                Some(Transaction { outline, format, checksum, bytes })
            }
            Taking::Nothing => None,
        })
    }

    fn start(&mut self, position: u64, checksum: Checksum, format: &Format) {
        let bytes = Vec::with_capacity(self.size_last.min(READY_MAX));
        self.taking = Taking::Events { position, checksum, bytes };
        if *self.format != *format {
            self.format = Arc::new(format.clone());
        }
    }

    fn collect(&mut self, raw: &RawEvent<'_>) -> Result<(), AssembleError> {
        let Taking::Events { position, checksum, bytes } = &mut self.taking else { return Ok(()) };
        if raw.checksum() != *checksum {
            let (field, found) = ("size of the checksum", raw.checksum().size() as u64);
            let reason =
                Reason::Unexpected { field, found, wanted: "the size in the transaction's first event" };
            return Err(AssembleError::Decode(DecodeError::new(raw.bytes().len(), reason)));
        }
        if bytes.len() + raw.bytes().len() > self.size_max {
            return Err(AssembleError::TooLarge { position: *position, size_max: self.size_max });
        }
        bytes.extend_from_slice(raw.bytes());
        Ok(())
    }
}
