//! Errors of serving logs.

use binlog::DecodeError;
use logs::LogError;
use rewrite::RewriteError;

/// Error of reading a store in a form.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RelayError {
    /// The stored logs cannot be read.
    #[error(transparent)]
    Read(#[from] LogError),
    /// A log cannot be rendered in its form.
    #[error(transparent)]
    Render(#[from] RewriteError),
    /// A part of an event that the relay must decode is malformed.
    #[error("{name} at {position}: {error}")]
    Event {
        /// Name of the log.
        name: String,
        /// Start of the event in the log's form, in bytes.
        position: u64,
        /// Error in the event.
        error: DecodeError,
    },
    /// The store has no log of this name.
    #[error("the store has no log {name:?}: it was purged, or is from another server")]
    UnknownLog {
        /// Requested name.
        name: String,
    },
    /// The log ends before the position.
    #[error("{name} in the form {form} has {size} bytes; position {position} is beyond its end")]
    PastEnd {
        /// Name of the log.
        name: String,
        /// Name of the form.
        form: String,
        /// Size of the log in its form, in bytes.
        size: u64,
        /// Requested position.
        position: u64,
    },
    /// No event starts at the position.
    #[error(
        "no event of {name} in the form {form} starts at {position}; the previous event starts at {before}"
    )]
    NotAnEvent {
        /// Name of the log.
        name: String,
        /// Name of the form.
        form: String,
        /// Start of the last event before the position.
        before: u64,
        /// Requested position.
        position: u64,
    },
    /// The log is a relay log.
    #[error("{name} is a relay log; bintide relay serves binary logs")]
    RelayLog {
        /// Name of the log.
        name: String,
    },
    /// The log has no complete format description, although another log follows it.
    #[error(
        "{name} has no whole format description, although another log follows it: the log is torn after {size} bytes. \
         Receive it again, or remove it from the directory and the index"
    )]
    NoFormat {
        /// Name of the log.
        name: String,
        /// Size of the file, in bytes.
        size: u64,
    },
    /// The log became shorter.
    #[error("{name} changed while it was served: it is shorter, or another log has taken its place")]
    Changed {
        /// Name of the log.
        name: String,
    },
    /// The statement that reads the log was interrupted.
    #[error("the statement was interrupted")]
    Interrupted,
    /// The directory of indexes cannot be used.
    #[error("could not {verb} {path}: {cause}")]
    Index {
        /// Action that failed.
        verb: &'static str,
        /// Path of the file or directory.
        path: String,
        /// Error of the operating system.
        #[source]
        cause: std::io::Error,
    },
}

impl RelayError {
    /// Returns whether a log is corrupt. Clients get the log up to the fault.
    pub(crate) const fn is_fault_of_log(&self) -> bool {
        matches!(
            self,
            Self::Event { .. }
                | Self::NoFormat { .. }
                | Self::Read(
                    LogError::Corrupt { .. }
                        | LogError::Payload { .. }
                        | LogError::SecondLog { .. }
                        | LogError::Torn { .. }
                )
                | Self::Render(RewriteError::Corrupt { .. })
        )
    }
}
