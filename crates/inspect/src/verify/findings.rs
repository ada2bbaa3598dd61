//! Findings about a piece of a log. They are judged together with the neighbouring pieces.

use binlog::TransactionId;
use binlog::events::{LogicalClock, MariadbGtid};
use binlog::gtid::GtidSet;

use super::fault::FaultKind;

/// Maximum number of faults kept for one piece.
const FAULTS_KEPT_MAX: usize = 100;

/// Findings about a piece of a log.
#[derive(Debug, Default)]
pub(crate) struct PieceFindings {
    pub(crate) faults: Vec<PieceFault>,
    /// Number of further faults that are not kept.
    pub(crate) faults_more: u64,
    pub(crate) remarks: Vec<String>,
    pub(crate) facts: Vec<LogFact>,
    pub(crate) events: u64,
    /// Bytes of the log.
    pub(crate) bytes: u64,
    /// End of the piece, if it is a piece of the log itself.
    pub(crate) end: u64,
}

/// A fault and its position.
#[derive(Debug)]
pub(crate) struct PieceFault {
    pub(crate) offset: u64,
    pub(crate) kind: FaultKind,
    pub(crate) detail: String,
}

/// A fact that can be judged only together with the rest of the log, or with other logs.
#[derive(Debug)]
pub(crate) enum LogFact {
    /// A format description that is not artificial: sequence numbers start again.
    Format { previous: PreviousGtidsRule },
    /// The log has previous GTIDs, decodable or not.
    HasPrevious,
    /// The GTIDs of all logs before this one.
    Previous { offset: u64, set: GtidSet },
    /// MariaDB's last GTIDs before this log: domain, server, number.
    PreviousMariadb { offset: u64, list: Vec<MariadbGtid> },
    /// Start of a transaction.
    TransactionStart(TransactionStart),
    /// Bytes of the open transaction.
    TransactionBytes { bytes: u64 },
    /// End of the open transaction.
    TransactionEnd,
    /// The open transaction is incomplete.
    TransactionLost,
    /// The rest of the open transaction cannot be interpreted.
    InDoubt,
    /// The log continues in another one.
    Rotate { offset: u64, name: String },
}

/// Rule for a Previous_gtids event before the first transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PreviousGtidsRule {
    /// Required. MySQL since 5.7 writes the event into every log, and 5.6 only with GTIDs. MariaDB has another event.
    Always,
    Optional,
}

/// Data of a transaction's first event.
#[derive(Debug)]
pub(crate) struct TransactionStart {
    pub(crate) offset: u64,
    pub(crate) id: TransactionId,
    pub(crate) clock: Option<LogicalClock>,
    /// Stated size of the transaction.
    pub(crate) size: Option<u64>,
}

impl PieceFindings {
    pub(crate) fn add_fault(&mut self, offset: u64, kind: FaultKind, detail: impl ToString) {
        match self.faults.len() {
            FAULTS_KEPT_MAX => self.faults_more += 1,
            _ => self.faults.push(PieceFault { offset, kind, detail: detail.to_string() }),
        }
    }
}
