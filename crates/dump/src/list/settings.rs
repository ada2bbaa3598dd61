//! What to list, and how.

use std::num::NonZeroUsize;
use std::sync::Arc;

use binlog::encryption::Keyring;

use super::range::Range;
use super::select::Select;
use super::walk::Source;
use super::{events_table, transactions};

/// What to list, and how.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ListSettings {
    /// The logs, in order.
    pub sources: Vec<Source>,
    /// What becomes of them.
    pub form: Form,
    /// From where to where.
    pub range: Range,
    /// Which events of those.
    pub select: Select,
    /// Threads that work.
    pub jobs: NonZeroUsize,
    /// Compare events with their checksums?
    pub checksums: Checksums,
    /// What to do at an event that cannot be decoded.
    pub damage: Damage,
    /// The keys of encrypted logs.
    pub keyring: Option<Arc<Keyring>>,
    /// Payloads whose events take more bytes are opened as they are read, and cut into chunks for all workers; the
    /// others are opened by the worker that comes across them.
    pub(crate) payload_size_large: usize,
}

/// Less would not keep several workers busy, more would take memory.
const PAYLOAD_SIZE_LARGE: usize = 256 << 10;

impl ListSettings {
    /// All of the logs, on all cores, checksums verified, nothing damaged let through.
    pub fn new(form: Form, sources: Vec<Source>) -> Self {
        Self {
            sources,
            form,
            range: Range::default(),
            select: Select::default(),
            jobs: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
            checksums: Checksums::Verify,
            damage: Damage::Stop,
            keyring: None,
            payload_size_large: PAYLOAD_SIZE_LARGE,
        }
    }
}

/// What becomes of logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Form {
    /// The table of `SHOW BINLOG EVENTS`.
    Events,
    /// A line of JSON an event.
    Json,
    /// A row a transaction.
    Transactions,
    /// A line of JSON a transaction.
    TransactionsJson,
}

impl Form {
    /// What stands above all lines.
    pub const fn head(self) -> &'static [u8] {
        match self {
            Self::Events => events_table::HEAD,
            Self::Transactions => transactions::HEAD,
            Self::Json | Self::TransactionsJson => b"",
        }
    }
}

/// Compare events with their checksums?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checksums {
    /// Yes: one that differs cannot be decoded.
    Verify,
    /// No.
    Ignore,
}

/// What to do at an event that cannot be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// End with an error.
    Stop,
    /// Show it as bytes with what is wrong, and go on.
    Show,
}
