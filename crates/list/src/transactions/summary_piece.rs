//! Parts of a transaction's summary.

use std::sync::Arc;

use binlog::events::{CommitStamps, LogicalClock, PayloadCompression, RowsKind};
use binlog::{DecodeError, EventRole, Table, TransactionId};

/// Contribution of one event to its transaction.
pub(crate) struct SummaryPiece {
    /// Position and context; `None` inside a payload.
    pub(crate) outer: Option<OuterEvent>,
    pub(crate) role: EventRole,
    /// Fields of the event that starts a transaction.
    pub(crate) start: Option<Box<StartStamps>>,
    pub(crate) payload: Option<PayloadFacts>,
    pub(crate) rows: Option<EventRowCount>,
    /// True for a statement that passes the filter by database.
    pub(crate) is_selected_statement: bool,
    /// Size of the event, in bytes.
    pub(crate) size: u32,
    /// Error, if the event cannot be decoded.
    pub(crate) error: Option<Box<DecodeError>>,
}

/// Position and context of an event outside payloads.
#[derive(Clone)]
pub(crate) struct OuterEvent {
    pub(crate) log_name: Arc<str>,
    pub(crate) position: u64,
    pub(crate) end: u64,
    pub(crate) timestamp: u32,
    pub(crate) server_id: u32,
    /// Transaction of the event, if one has begun.
    pub(crate) id: Option<TransactionId>,
    pub(crate) is_selected: bool,
}

/// Fields of the event that starts a transaction.
pub(crate) struct StartStamps {
    pub(crate) clock: Option<LogicalClock>,
    pub(crate) stamps: Option<CommitStamps>,
}

/// Fields of a payload's event.
#[derive(Clone, Copy)]
pub(crate) struct PayloadFacts {
    pub(crate) compression: PayloadCompression,
    pub(crate) size: u64,
}

/// Rows changed by one event.
pub(crate) struct EventRowCount {
    pub(crate) table: Arc<Table>,
    pub(crate) kind: RowsKind,
    pub(crate) rows: u64,
}
