//! Errors of warming.

use crate::relay_position::RelayPosition;

/// Error of warming.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WarmError {
    /// A query of the replica failed.
    #[error("could not {doing}: {cause}")]
    Server {
        /// Attempted action.
        doing: &'static str,
        /// Error of the connection or the server.
        #[source]
        cause: servers::ConnectionError,
    },
    /// The server or the arguments are unsuitable.
    #[error("{0}")]
    Unsuitable(String),
    /// A thread of the run panicked.
    #[error(transparent)]
    Panic(#[from] logs::ThreadPanic),
    /// Relay logs cannot be read.
    #[error(transparent)]
    Log(#[from] logs::LogError),
    /// A relay log is corrupt.
    #[error("{log} at {}: {reason}", position.offset)]
    Corrupt {
        /// Path of the logs.
        log: String,
        /// Start of the event.
        position: RelayPosition,
        /// Reason.
        reason: String,
    },
}

impl WarmError {
    pub(crate) const fn server(doing: &'static str) -> impl Fn(servers::ConnectionError) -> Self {
        move |cause| Self::Server { doing, cause }
    }

    /// Returns whether the error is temporary, such as a server restart.
    pub(crate) fn is_transient(&self) -> bool {
        let Self::Server { cause, .. } = self else { return false };
        // A cancelled query means the end of the run.
        matches!(cause, servers::ConnectionError::Cancelled) || cause.is_transient()
    }
}
