//! Collects a log's events into whole transactions.

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
    /// What it says of itself.
    pub const fn outline(&self) -> &Outline {
        &self.outline
    }

    /// What its events are to be decoded with.
    pub const fn format(&self) -> &Arc<Format> {
        &self.format
    }

    /// Its events as they stand in the log, one behind the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// Its events, one by one; a payload is one event.
    pub fn events(&self) -> impl Iterator<Item = RawEvent<'_>> {
        let (mut rest, checksum) = (self.bytes.as_slice(), self.checksum);
        std::iter::from_fn(move || {
            let (raw, behind) = RawEvent::split_first(rest, checksum)?;
            rest = behind;
            Some(raw)
        })
    }
}

/// Collects a log's events into whole transactions.
///
/// It holds one transaction at most, up to a limit in bytes. Who does not need whole transactions, or must cope with
/// any size, follows the log with a [`Tracker`] instead.
#[derive(Clone, Debug)]
pub struct Assembler {
    tracker: Tracker,
    size_max: usize,
    format: Arc<Format>,
    taking: Taking,
    /// Bytes of the last transaction: the next one is mostly about as large.
    size_last: usize,
}

/// What is made ready for a transaction's events before they come, at most, in bytes.
const READY_MAX: usize = 16 << 10;

/// What happens to the open transaction's events.
#[derive(Clone, Debug)]
enum Taking {
    /// They are collected.
    Events { position: u64, checksum: Checksum, bytes: Vec<u8> },
    /// They are passed over: there is no open transaction, or it has been refused.
    Nothing,
}

/// A transaction that could not be put together. The assembler passes over what is left of it, and goes on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssembleError {
    /// An event that cannot be decoded.
    Decode(DecodeError),
    /// An event that cannot stand where it stands.
    Fault {
        /// What was found and wanted.
        fault: Fault,
        /// The transaction that the event is all of, whole and sound, if it is one.
        whole: Option<Box<Transaction>>,
    },
    /// More events than may be held.
    TooLarge {
        /// Where the transaction starts.
        position: u64,
        /// The limit, in bytes.
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
    /// For a log of this format, read from its start or from behind a transaction. No transaction may be larger than
    /// `size_max`, in bytes.
    pub fn new(format: Format, size_max: usize) -> Self {
        let (tracker, format) = (Tracker::new(), Arc::new(format));
        Self { tracker, size_max, format, taking: Taking::Nothing, size_last: 0 }
    }

    /// The transaction that has started and not ended: at the end of a log, one that was torn.
    pub const fn open(&self) -> Option<&Outline> {
        self.tracker.open()
    }

    /// How many bytes it holds of the open transaction.
    pub fn held(&self) -> usize {
        match &self.taking {
            Taking::Events { bytes, .. } => bytes.len(),
            Taking::Nothing => 0,
        }
    }

    /// Gives away the events of the open transaction that came by now, one behind the other. It is followed to its
    /// end, but not handed out.
    pub fn give_up(&mut self) -> Vec<u8> {
        match mem::replace(&mut self.taking, Taking::Nothing) {
            Taking::Events { bytes, .. } => bytes,
            Taking::Nothing => Vec::new(),
        }
    }

    /// Takes the next event, which starts at `position` of its file; gives the transaction that it ends.
    ///
    /// # Errors
    ///
    /// When the event cannot be decoded or cannot stand there, or when the transaction becomes too large. A
    /// transaction in which that happened is not handed out.
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
            let reason = Reason::Unexpected { field, found, wanted: "that of the transaction's first event" };
            return Err(AssembleError::Decode(DecodeError::new(raw.bytes().len(), reason)));
        }
        if bytes.len() + raw.bytes().len() > self.size_max {
            return Err(AssembleError::TooLarge { position: *position, size_max: self.size_max });
        }
        bytes.extend_from_slice(raw.bytes());
        Ok(())
    }
}
