//! Faults of a log.

use std::fmt;

use serde::Serialize;

/// A fault of a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogFault {
    /// Name of the log, as given by the user.
    pub log: String,
    /// Start of the event, in bytes from the start of the log.
    pub offset: u64,
    /// Kind of the fault.
    pub kind: FaultKind,
    /// Value found, and value expected.
    pub detail: String,
}

/// Kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FaultKind {
    /// The log does not start with the magic number.
    Start,
    /// No event can be read at a position where one should start.
    Framing,
    /// An event's checksum does not match its bytes.
    Checksum,
    /// A format description has impossible values.
    Format,
    /// An event's fields cannot be decoded.
    Event,
    /// An event violates the grammar of transactions.
    Grammar,
    /// `end_log_pos` is not the start of the next event.
    Position,
    /// A transaction's size differs from the size in its GTID event.
    Size,
    /// A GTID is a duplicate or invalid.
    Gtid,
    /// A log's previous GTIDs differ from the previous log's GTIDs and transactions.
    Continuity,
    /// `sequence_number` or `last_committed` has an impossible value.
    Clock,
    /// A row, or the map of its table, cannot be decoded.
    Row,
    /// A compressed transaction cannot be decompressed, or differs from its header.
    Payload,
    /// The log does not continue in the next numbered log.
    Rotation,
    /// The log ends within an event or a transaction, although it is no longer being written to.
    Tail,
}

/// An observation that is not a fault.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LogRemark {
    /// Name of the log, as given by the user.
    pub log: String,
    /// Text of the observation.
    pub detail: String,
}

impl FaultKind {
    /// Returns the name, as in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Framing => "framing",
            Self::Checksum => "checksum",
            Self::Format => "format",
            Self::Event => "event",
            Self::Grammar => "grammar",
            Self::Position => "position",
            Self::Size => "size",
            Self::Gtid => "gtid",
            Self::Continuity => "continuity",
            Self::Clock => "clock",
            Self::Row => "row",
            Self::Payload => "payload",
            Self::Rotation => "rotation",
            Self::Tail => "tail",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

impl fmt::Display for LogFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} at {}: {}: {}", self.log, self.offset, self.kind, self.detail)
    }
}
