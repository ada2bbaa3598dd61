//! Events passed to outputs, and the reasons to refuse one.

use binlog::{DecodeError, Event, EventFormat, EventHeader, RawEvent};
use logs::{InnerPosition, LargePayloadHead, WalkEvent};

/// An event and its position.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LocatedEvent<'a> {
    /// The log's name without its directory.
    pub(crate) log_name: &'a str,
    /// Start of the event; inside a payload, start of the payload's event.
    pub(crate) position: u64,
    /// End of the event; inside a payload, end of the payload's event.
    pub(crate) end: u64,
    /// Position inside a payload.
    pub(crate) inner: Option<InnerPosition>,
    /// `end_log_pos` of the event's header; inside a payload, of the payload's event.
    pub(crate) end_log_pos: u32,
    /// The event's header.
    pub(crate) header: EventHeader,
    /// The event's bytes; `None` for a payload too large for memory.
    pub(crate) raw: Option<RawEvent<'a>>,
    /// Size of the event's payload, if it has one.
    pub(crate) payload_size: Option<u64>,
    /// Format of the event.
    pub(crate) format: &'a EventFormat,
}

impl<'a> LocatedEvent<'a> {
    /// `outer_end_log_pos` is the `end_log_pos` of the event itself or, for an event in a payload, of the payload's
    /// event.
    pub(crate) fn new(log_name: &'a str, event: &WalkEvent<'a>, outer_end_log_pos: u32) -> Self {
        LocatedEvent {
            log_name,
            position: event.offset,
            end: event.end,
            inner: event.inner,
            end_log_pos: outer_end_log_pos,
            header: *event.raw.header(),
            raw: Some(event.raw),
            payload_size: None,
            format: event.format,
        }
    }

    /// Locates the event of a large payload.
    pub(crate) fn large(log_name: &'a str, head: &'a LargePayloadHead) -> Self {
        LocatedEvent {
            log_name,
            position: head.offset,
            end: head.end(),
            inner: None,
            end_log_pos: head.header.next_position,
            header: head.header,
            raw: None,
            payload_size: Some(head.fields.payload_size),
            format: &head.format,
        }
    }
}

/// Event to list.
#[derive(Clone, Copy)]
pub(crate) struct ListedEvent<'e> {
    pub(crate) located: &'e LocatedEvent<'e>,
    /// The decoded event, decompressed if the bytes are a compressed event of MariaDB.
    pub(crate) event: &'e Event<'e>,
}

/// Reason why an output refuses an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OutputRefusal {
    /// The event is corrupt.
    Damaged(DecodeError),
    /// A condition names a column, but the log has no column names.
    NoColumnNames,
}

impl From<DecodeError> for OutputRefusal {
    fn from(error: DecodeError) -> Self {
        Self::Damaged(error)
    }
}
