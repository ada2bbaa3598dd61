//! What a piece of a log shows, to be judged together with what comes before and after it.

use binlog::TransactionId;
use binlog::events::LogicalClock;
use binlog::gtid::GtidSet;

use super::fault::FaultKind;

/// Faults kept of one piece: a log that is all wrong need not say so a million times.
const FAULTS_KEPT: usize = 100;

/// What a piece of a log shows.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    pub(crate) faults: Vec<Found>,
    /// More faults, not kept.
    pub(crate) faults_more: u64,
    pub(crate) remarks: Vec<String>,
    pub(crate) seen: Vec<Seen>,
    pub(crate) events: u64,
    /// Bytes of the log.
    pub(crate) bytes: u64,
    /// Where the piece ends, if it is one of the log itself.
    pub(crate) end: u64,
}

/// A fault, and where.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) offset: u64,
    pub(crate) kind: FaultKind,
    pub(crate) detail: String,
}

/// Something that means more together with the rest of the log, or with other logs.
#[derive(Debug)]
pub(crate) enum Seen {
    /// A format description that is not made up: sequence numbers start anew.
    Format { previous: Previous },
    /// The log says what came before it, readable or not.
    HasPrevious,
    /// The GTIDs of all logs before this one.
    Previous { offset: u64, set: GtidSet },
    /// MariaDB's last GTIDs before this log: domain, server, number.
    PreviousMariadb { offset: u64, list: Vec<(u32, u32, u64)> },
    /// A transaction starts.
    Starts(Starts),
    /// More of the open transaction, in bytes.
    Part { bytes: u64 },
    /// The open transaction has come to its end.
    Ends,
    /// The open transaction has no end.
    Lost,
    /// How the open transaction goes on cannot be told.
    InDoubt,
    /// The log goes on in another.
    Rotate { offset: u64, name: String },
}

/// Does a Previous_gtids event stand in front of a server's first transaction?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Previous {
    /// MySQL writes it into every log since 5.7; 5.6 only if it has GTIDs, and MariaDB has an event of its own.
    Always,
    Perhaps,
}

/// What a transaction's first event says.
#[derive(Debug)]
pub(crate) struct Starts {
    pub(crate) offset: u64,
    pub(crate) id: TransactionId,
    pub(crate) clock: Option<LogicalClock>,
    /// The size that it should have.
    pub(crate) size: Option<u64>,
}

impl Findings {
    pub(crate) fn fault(&mut self, offset: u64, kind: FaultKind, detail: impl ToString) {
        match self.faults.len() {
            FAULTS_KEPT => self.faults_more += 1,
            _ => self.faults.push(Found { offset, kind, detail: detail.to_string() }),
        }
    }
}
