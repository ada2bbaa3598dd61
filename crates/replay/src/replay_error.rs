//! Reasons why a replay stopped.

use binlog::gtid::GtidSet;
use logs::ThreadPanic;

use crate::apply_plan::ApplyPlanError;
use crate::target_table_definition::TargetTableName;

/// Reason why a replay stopped. The target has whole transactions only, and its progress lists them, except after
/// [`ReplayError::KeptChanges`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// A log cannot be read.
    #[error(transparent)]
    Read(#[from] logs::LogError),
    /// An event is malformed, or out of place.
    #[error("{log} at {position}: {reason}")]
    Corrupt {
        /// Name of the log.
        log: String,
        /// Position where the event starts.
        position: u64,
        /// Reason.
        reason: String,
    },
    /// A log ends within a transaction.
    #[error("{log} ends within the transaction that starts at {start}")]
    TornTransaction {
        /// Name of the log.
        log: String,
        /// Position where the transaction starts.
        start: u64,
    },
    /// A transaction cannot be applied.
    #[error("{transaction}: {error}")]
    Plan {
        /// Log, position and GTID of the transaction.
        transaction: String,
        /// Reason.
        #[source]
        error: ApplyPlanError,
    },
    /// The target refused a transaction.
    #[error("{transaction}: {failure}")]
    Apply {
        /// Log, position and GTID of the transaction.
        transaction: String,
        /// True if the transaction has a GTID of MySQL.
        has_gtid: bool,
        /// Error from the target.
        #[source]
        failure: TargetFailure,
    },
    /// A transaction failed after it changed a table whose engine cannot roll back.
    #[error(
        "{transaction}: {failure}; {table} is not an InnoDB table, so its changes cannot be rolled back, and it may already \
         have some or all of them: compare it with the source. Then either undo these changes and run the same command \
         again, or complete them and exclude the transaction with {skip_option}"
    )]
    KeptChanges {
        /// Log, position and GTID of the transaction.
        transaction: String,
        /// The table.
        table: TargetTableName,
        /// Option that leaves the transaction out.
        skip_option: String,
        /// Error from the target.
        failure: TargetFailure,
    },
    /// The target refused an operation that belongs to no transaction.
    #[error("could not {verb}: {failure}")]
    Target {
        /// The operation.
        verb: &'static str,
        /// Error from the target.
        #[source]
        failure: TargetFailure,
    },
    /// The target lacks transactions that precede a log, and the earlier logs do not contain them.
    #[error("the target lacks transactions that precede {log}: {missing}")]
    Gap {
        /// The missing transactions.
        missing: GtidSet,
        /// The log whose `Previous_gtids` event names them.
        log: String,
    },
    /// The target or the logs do not allow this replay.
    #[error("{0}")]
    Refused(String),
    /// A thread of the replay panicked.
    #[error(transparent)]
    Panic(#[from] ThreadPanic),
    /// The observer stopped the replay. [`replay`](crate::replay) returns a report instead of this error.
    #[error("interrupted; run the same command again to resume")]
    Interrupted,
}

/// Error from a target.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct TargetFailure {
    /// Message of the target.
    pub message: String,
    /// Kind of failure, which decides what to do next.
    pub kind: TargetFailureKind,
    /// Error number of the target, if it has one.
    pub code: Option<u16>,
}

/// Kinds of failures, by the possible next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TargetFailureKind {
    /// The transaction can be retried: a lock wait timed out, or a deadlock was broken.
    Locked,
    /// The session is lost: the outcome of the last request is unknown.
    Lost,
    /// The caller cancelled the operation.
    Cancelled,
    /// A retry would fail again.
    Refused,
    /// The target cannot store changes at present: its disk is full, it is read-only, or the account lacks a privilege.
    /// The transaction is not the cause.
    Environment,
}

impl TargetFailure {
    /// Creates a failure that a retry cannot resolve.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: TargetFailureKind::Refused, code: None }
    }

    /// Turns the failure into an error that names the failed operation.
    pub fn into_error(self, verb: &'static str) -> ReplayError {
        match self.kind {
            TargetFailureKind::Cancelled => ReplayError::Interrupted,
            _ => ReplayError::Target { verb, failure: self },
        }
    }
}
