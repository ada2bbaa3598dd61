//! Why a replay stopped.

use binlog::gtid::GtidSet;
use logs::ThreadPanic;

use crate::order::is_temporary;
use crate::work::WorkError;

/// Why a replay stopped. Whatever it was, the target is as after some whole transactions of the source, and its
/// progress says which.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The logs cannot be read.
    #[error(transparent)]
    Read(#[from] logs::Error),
    /// An event in them is not as it must be, or stands where it cannot.
    #[error("{log} at {position}: {reason}")]
    Corrupt {
        /// The log.
        log: String,
        /// Where the event starts.
        position: u64,
        /// What is wrong.
        reason: String,
    },
    /// A log ends within a transaction.
    #[error("{log} ends within the transaction that starts at {start}")]
    Cut {
        /// The log.
        log: String,
        /// Where the transaction starts.
        start: u64,
    },
    /// A transaction holds what cannot be applied.
    #[error("{unit}: {error}")]
    Work {
        /// The transaction.
        unit: String,
        /// What it holds.
        #[source]
        error: WorkError,
    },
    /// A transaction was refused by the target.
    #[error("{unit}: {failure}")]
    Apply {
        /// The transaction.
        unit: String,
        /// What the target said.
        #[source]
        failure: Failure,
    },
    /// The target refused something that belongs to no transaction.
    #[error("could not {verb}: {failure}")]
    Target {
        /// What was tried.
        verb: &'static str,
        /// What the target said.
        #[source]
        failure: Failure,
    },
    /// The target lacks transactions that are in front of a log, and the logs in front of it do not have them.
    #[error("the target lacks {missing}, which the source ran before {log}")]
    Gap {
        /// What it lacks.
        missing: GtidSet,
        /// The log, which says so.
        log: String,
    },
    /// Something on the target is not as a replay needs it.
    #[error("{0}")]
    Refused(String),
    /// A thread of the replay panicked.
    #[error(transparent)]
    Panic(#[from] ThreadPanic),
    /// Whoever watched it wanted no more: [`replay`](crate::replay) then gives its report all the same.
    #[error("interrupted; the same command goes on from here")]
    Interrupted,
}

/// What a target says when it cannot do something.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// What happened, in the target's words.
    pub message: String,
    /// What may be done about it.
    pub kind: FailureKind,
    /// The target's number for it, if it has one.
    pub code: Option<u16>,
}

/// What may be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FailureKind {
    /// The transaction may be tried again: a lock was waited for too long, or a deadlock was broken.
    Locked,
    /// Nobody knows what became of the last request: the session is lost.
    Lost,
    /// Whoever asked for it wanted no more.
    CalledOff,
    /// It will fail again.
    Refused,
}

impl Failure {
    /// A failure that will come again.
    pub fn refused(message: impl Into<String>) -> Self {
        Self { message: message.into(), kind: FailureKind::Refused, code: None }
    }

    /// Says what was tried.
    pub(crate) fn at(self, verb: &'static str) -> Error {
        match self.kind {
            FailureKind::CalledOff => Error::Interrupted,
            _ => Error::Target { verb, failure: self },
        }
    }
}

impl From<servers::Error> for Failure {
    fn from(error: servers::Error) -> Self {
        let kind = match &error {
            servers::Error::Lost { .. } => FailureKind::Lost,
            servers::Error::Cancelled => FailureKind::CalledOff,
            _ if error.code().is_some_and(is_temporary) => FailureKind::Locked,
            _ => FailureKind::Refused,
        };
        Self { message: error.to_string(), kind, code: error.code() }
    }
}
