//! Settings of a list.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use binlog::encryption::Keyring;

use super::event_range::EventRange;
use super::event_selection::EventSelection;
use super::{events_table, transactions};
use crate::list_source::ListSource;

/// Settings of a list.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListSettings {
    /// Logs, in order.
    pub sources: Vec<ListSource>,
    /// Format of the output.
    pub format: ListFormat,
    /// Limits: positions, times, events to skip.
    pub range: EventRange,
    /// Filters.
    pub selection: EventSelection,
    /// Number of worker threads.
    pub jobs: NonZeroUsize,
    /// Treatment of checksums.
    pub checksums: ChecksumPolicy,
    /// Action at an event that cannot be decoded.
    pub damage: ListDamagePolicy,
    /// Keys of encrypted logs.
    pub keyring: Option<Arc<Keyring>>,
    /// Flag that ends the list when true, in the same way as a closed output.
    pub stop: Option<Arc<AtomicBool>>,
    /// Size of events above which a payload is decompressed while it is read, and cut into chunks for all workers. A
    /// smaller payload is decompressed by the worker that has its chunk.
    pub(crate) payload_size_large: usize,
}

/// Less would not keep several workers busy; more would cost memory.
pub(crate) const PAYLOAD_SIZE_LARGE: usize = 256 << 10;

impl ListSettings {
    /// Creates settings for all events of the logs, on all cores, with verified checksums, ending at damage.
    pub fn new(form: ListFormat, sources: Vec<ListSource>) -> Self {
        Self {
            sources,
            format: form,
            range: EventRange::default(),
            selection: EventSelection::default(),
            jobs: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            checksums: ChecksumPolicy::Verify,
            damage: ListDamagePolicy::Stop,
            keyring: None,
            stop: None,
            payload_size_large: PAYLOAD_SIZE_LARGE,
        }
    }
}

impl ListSettings {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

/// Format of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListFormat {
    /// The table of `SHOW BINLOG EVENTS`.
    Events,
    /// One JSON line per event.
    Json,
    /// One table row per transaction.
    Transactions,
    /// One JSON line per transaction.
    TransactionsJson,
}

impl ListFormat {
    /// Returns the header line, which may be empty.
    pub const fn header_line(self) -> &'static [u8] {
        match self {
            Self::Events => events_table::HEADER_LINE,
            Self::Transactions => transactions::HEADER_LINE,
            Self::Json | Self::TransactionsJson => b"",
        }
    }
}

/// Treatment of checksums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChecksumPolicy {
    /// Verify: an event with a wrong checksum is an error.
    Verify,
    /// Ignore checksums.
    Ignore,
}

/// Action at an event that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListDamagePolicy {
    /// End with an error.
    Stop,
    /// Print the error and the event's bytes, and continue.
    Show,
}
