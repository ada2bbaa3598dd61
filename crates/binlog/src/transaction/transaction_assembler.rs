//! Assembly of events into whole transactions.

use std::fmt;
use std::mem;
use std::sync::Arc;

use crate::error::{DecodeError, DecodeReason};
use crate::format::EventFormat;
use crate::raw::{EventChecksum, RawEvent};
use crate::transaction::transaction_grammar::{GrammarFault, GrammarStep};
use crate::transaction::transaction_outline::{
    TrackError, TrackedEvent, TransactionOutline, TransactionTracker,
};

/// A whole transaction: its outline, and its events in one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transaction {
    outline: TransactionOutline,
    format: Arc<EventFormat>,
    checksum: EventChecksum,
    bytes: Vec<u8>,
}

impl Transaction {
    /// Returns the outline.
    pub const fn outline(&self) -> &TransactionOutline {
        &self.outline
    }

    /// Returns the format for decoding the events.
    pub const fn format(&self) -> &Arc<EventFormat> {
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
            let (raw, after) = RawEvent::split_first(rest, checksum)?;
            rest = after;
            Some(raw)
        })
    }
}

/// Assembles a log's events into whole transactions.
///
/// Holds at most one transaction, up to a limit in bytes. Use a [`TransactionTracker`] for transactions of any size, or
/// if whole transactions are not needed.
#[derive(Clone, Debug)]
pub struct TransactionAssembler {
    tracker: TransactionTracker,
    size_max: usize,
    format: Arc<EventFormat>,
    state: CollectState,
    /// Size of the last transaction in bytes; the next one often has a similar size.
    size_last: usize,
}

/// Maximum number of bytes allocated for a transaction in advance.
const PREALLOCATION_MAX: usize = 16 << 10;

/// State of the open transaction's events.
#[derive(Clone, Debug)]
enum CollectState {
    /// Events are collected.
    Collecting { position: u64, checksum: EventChecksum, bytes: Vec<u8> },
    /// Events are skipped: no transaction is open, or it failed.
    Skipping,
}

/// Error in a transaction. The assembler skips the remaining events of the transaction, and continues.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum AssembleError {
    /// An event cannot be decoded.
    Decode(DecodeError),
    /// An event is not allowed in this state.
    Fault {
        /// Found and expected events.
        fault: GrammarFault,
        /// The transaction, if this event is a whole transaction.
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

impl TransactionAssembler {
    /// Creates an assembler for a log of this format, read from its start or from the end of a transaction.
    /// `size_max` is the maximum size of a transaction in bytes.
    pub fn new(format: EventFormat, size_max: usize) -> Self {
        let (tracker, format) = (TransactionTracker::new(), Arc::new(format));
        Self { tracker, size_max, format, state: CollectState::Skipping, size_last: 0 }
    }

    /// Returns the transaction that has started but not ended. At the end of a log, it is torn.
    pub const fn open(&self) -> Option<&TransactionOutline> {
        self.tracker.open()
    }

    /// Returns the number of collected bytes of the open transaction.
    pub fn collected_size(&self) -> usize {
        match &self.state {
            CollectState::Collecting { bytes, .. } => bytes.len(),
            CollectState::Skipping => 0,
        }
    }

    /// Removes and returns the collected events of the open transaction. The assembler follows the transaction to its
    /// end, but does not return it.
    pub fn take_collected(&mut self) -> Vec<u8> {
        match mem::replace(&mut self.state, CollectState::Skipping) {
            CollectState::Collecting { bytes, .. } => bytes,
            CollectState::Skipping => Vec::new(),
        }
    }

    /// Adds the next event, which starts at `position` of its file. Returns the transaction that it ends.
    ///
    /// # Errors
    ///
    /// Fails if the event cannot be decoded or is not allowed in this state, or if the transaction becomes too large.
    /// The transaction is then not returned.
    pub fn push(
        &mut self,
        position: u64,
        raw: &RawEvent<'_>,
        format: &EventFormat,
    ) -> Result<Option<Transaction>, AssembleError> {
        match self.tracker.track(position, raw, format) {
            Ok(tracked) => self.take(position, tracked, raw, format),
            Err(TrackError::Decode(error)) => {
                self.state = CollectState::Skipping;
                Err(AssembleError::Decode(error))
            }
            Err(TrackError::Fault(broken)) => {
                self.state = CollectState::Skipping;
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
        tracked: TrackedEvent,
        raw: &RawEvent<'_>,
        format: &EventFormat,
    ) -> Result<Option<Transaction>, AssembleError> {
        if tracked.step == GrammarStep::OUTSIDE {
            return Ok(None);
        }
        if tracked.step.transaction.is_first() {
            self.start(position, raw.checksum(), format);
        }
        self.collect(raw).inspect_err(|_| self.state = CollectState::Skipping)?;
        let Some(outline) = tracked.ended else { return Ok(None) };
        let format = Arc::clone(&self.format);
        Ok(match mem::replace(&mut self.state, CollectState::Skipping) {
            CollectState::Collecting { checksum, bytes, .. } => {
                self.size_last = bytes.len();
                Some(Transaction { outline, format, checksum, bytes })
            }
            CollectState::Skipping => None,
        })
    }

    fn start(&mut self, position: u64, checksum: EventChecksum, format: &EventFormat) {
        let bytes = Vec::with_capacity(self.size_last.min(PREALLOCATION_MAX));
        self.state = CollectState::Collecting { position, checksum, bytes };
        if *self.format != *format {
            self.format = Arc::new(format.clone());
        }
    }

    fn collect(&mut self, raw: &RawEvent<'_>) -> Result<(), AssembleError> {
        let CollectState::Collecting { position, checksum, bytes } = &mut self.state else { return Ok(()) };
        if raw.checksum() != *checksum {
            let (field, found) = ("size of the checksum", raw.checksum().size() as u64);
            let reason = DecodeReason::Unexpected {
                field,
                found,
                expected: "the size in the transaction's first event",
            };
            return Err(AssembleError::Decode(DecodeError::new(raw.bytes().len(), reason)));
        }
        if bytes.len() + raw.bytes().len() > self.size_max {
            return Err(AssembleError::TooLarge { position: *position, size_max: self.size_max });
        }
        bytes.extend_from_slice(raw.bytes());
        Ok(())
    }
}
