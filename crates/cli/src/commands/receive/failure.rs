//! Errors of receiving as failures of a command: exit code, and what to do.

use std::io::{self, ErrorKind};

use logs::LogError;
use receive::{ReceiveError, ReceiveFailure};

use crate::exit::{CommandFailure, ErrorAdvice};
use crate::log_args::add_advice;

/// Advice if the source lacks stored events.
const ANOTHER_DIRECTORY_ADVICE: ErrorAdvice =
    ErrorAdvice("keep this directory as it is, and receive into another one");

const NEWER_BACKUP_ADVICE: ErrorAdvice = ErrorAdvice(
    "give the GTIDs of a backup that is not older than the source's logs, or omit the option to start at the oldest \
     log",
);

const KEYRING_ADVICE: ErrorAdvice = ErrorAdvice(
    "write the complete keyring to a new file, rename it over the old one, and run the command again",
);

const FOLDER_ADVICE: ErrorAdvice =
    ErrorAdvice("give a directory that this user may write to or create, or run bintide as its owner");

const OWN_DIRECTORY_ADVICE: ErrorAdvice =
    ErrorAdvice("another process uses a copy of this directory's replica.cnf: give each directory its own");

/// A store that could not be opened is a run that was not started.
impl From<ReceiveError> for CommandFailure {
    fn from(error: ReceiveError) -> Self {
        Self::NotStarted(with_advice(error))
    }
}

impl From<ReceiveFailure> for CommandFailure {
    fn from(failure: ReceiveFailure) -> Self {
        match failure {
            ReceiveFailure::NotStarted(error) => Self::NotStarted(with_advice(error)),
            ReceiveFailure::Failed(error) => Self::Failed(with_advice(error)),
        }
    }
}

/// Returns the remedy for an error, if one is known.
pub(super) fn advice(error: &ReceiveError) -> Option<ErrorAdvice> {
    match error {
        ReceiveError::OpenStore(error) if is_folder_error(error) => Some(FOLDER_ADVICE),
        ReceiveError::OtherLog(_) | ReceiveError::CannotResume { .. } => Some(ANOTHER_DIRECTORY_ADVICE),
        ReceiveError::Keyring(_) => Some(KEYRING_ADVICE),
        ReceiveError::SharedIdentity(_) => Some(OWN_DIRECTORY_ADVICE),
        ReceiveError::CannotStartAfter(_) => Some(NEWER_BACKUP_ADVICE),
        _ => None,
    }
}

/// Adds the remedy. The errors of logs and connections stay visible to the rules for exit codes.
fn with_advice(error: ReceiveError) -> anyhow::Error {
    let advice = advice(&error);
    let error = match error {
        ReceiveError::OpenStore(error) if advice.is_none() => add_advice(error),
        ReceiveError::OpenStore(error)
        | ReceiveError::Log(error)
        | ReceiveError::OtherLog(error)
        | ReceiveError::Keyring(error) => error.into(),
        ReceiveError::ReopenStore { error, again } => anyhow::Error::from(error).context(again),
        ReceiveError::Connection(error) | ReceiveError::SharedIdentity(error) => error.into(),
        error => error.into(),
    };
    match advice {
        Some(advice) => error.context(advice),
        None => error,
    }
}

/// Tells whether the directory is not writable for this user, or read-only.
fn is_folder_error(error: &LogError) -> bool {
    let is_so = |cause: &io::Error| {
        matches!(cause.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
    };
    !error.is_keyring_error() && matches!(error, LogError::Io { cause, .. } if is_so(cause))
}
