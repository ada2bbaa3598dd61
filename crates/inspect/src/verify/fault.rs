//! What can be wrong with a log.

use std::fmt;

use serde::Serialize;

/// Something that is wrong with a log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Fault {
    /// The log, as it was given.
    pub log: String,
    /// Where the event starts: bytes from the start of the log.
    pub offset: u64,
    /// What sort of thing it is.
    pub kind: FaultKind,
    /// What was found, and what was wanted.
    pub detail: String,
}

/// What sort of thing is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum FaultKind {
    /// It does not start as logs do.
    Start,
    /// There is no event where one should start.
    Framing,
    /// An event's checksum is not that of its bytes.
    Checksum,
    /// A format description says what cannot be.
    Format,
    /// An event's fields cannot be read.
    Event,
    /// An event cannot stand where it stands.
    Grammar,
    /// `end_log_pos` is not where the next event starts.
    Position,
    /// A transaction does not have the size that its GTID event says.
    Size,
    /// A GTID comes twice, or cannot be one.
    Gtid,
    /// A log's previous GTIDs are not those of the log before it and its previous GTIDs.
    Continuity,
    /// `sequence_number` or `last_committed` cannot be.
    Clock,
    /// A row, or the table that it is of, cannot be read.
    Row,
    /// A compressed transaction cannot be opened, or is not what it says.
    Payload,
    /// The log that comes next is not the one named.
    Rotation,
    /// The log stops within an event or a transaction, though nobody writes to it any more.
    Tail,
}

/// Something worth knowing that is not wrong.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Remark {
    /// The log, as it was given.
    pub log: String,
    /// What it is.
    pub detail: String,
}

impl FaultKind {
    /// As it is shown.
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

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} at {}: {}: {}", self.log, self.offset, self.kind, self.detail)
    }
}
