//! Errors of receiving as failures of a command: exit code and remedy.

use std::io::{self, ErrorKind};

use logs::LogError;
use receive::{ReceiveError, ReceiveFailure, ResumeObstacle};

use crate::exit::{CommandFailure, ErrorAdvice};
use crate::log_args::add_advice;

/// Advice if the source lacks stored events.
const ANOTHER_DIRECTORY_ADVICE: ErrorAdvice =
    ErrorAdvice("keep this directory as it is, and receive into another one");

/// Advice if the source cannot send its log, also into another directory.
const CORRECT_SOURCE_ADVICE: ErrorAdvice = ErrorAdvice("correct the source, and run the command again");

/// Advice if the source has a fault, or lacks stored events.
const UNCLEAR_SOURCE_ADVICE: ErrorAdvice = ErrorAdvice(
    "correct the source, and run the command again; if its logs were reset, keep this directory as it is, and receive \
     into another one",
);

/// Advice if the last log is not as receive wrote it.
const RESTORE_LOG_ADVICE: ErrorAdvice = ErrorAdvice(
    "if this log was compressed, restore it with bintide decompress --output DIR, and replace it with the restored \
     log; otherwise keep this directory as it is, and receive into another one",
);

const NEWER_BACKUP_ADVICE: ErrorAdvice = ErrorAdvice(
    "give the GTIDs of a backup that is not older than the source's logs, or omit the option to start at the oldest \
     log",
);

const KEYRING_ADVICE: ErrorAdvice = ErrorAdvice(
    "write the complete keyring to a new file, rename it over the old one, and run the command again",
);

const WRITABLE_DIRECTORY_ADVICE: ErrorAdvice =
    ErrorAdvice("give a directory that this user may write to or create, or run bintide as its owner");

const OWN_DIRECTORY_ADVICE: ErrorAdvice = ErrorAdvice(
    "another process uses a copy of this directory's replica.cnf: stop it, and delete replica.cnf in the copied directory",
);

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
            ReceiveFailure::Failed(error) => Self::Aborted(with_advice(error)),
        }
    }
}

/// Returns the remedy for an error, if one is known.
pub(super) fn advice(error: &ReceiveError) -> Option<ErrorAdvice> {
    match error {
        ReceiveError::OpenStore(error) if is_access_error(error) => Some(WRITABLE_DIRECTORY_ADVICE),
        ReceiveError::OtherLog(_) => Some(ANOTHER_DIRECTORY_ADVICE),
        ReceiveError::CannotResume { obstacle, .. } => Some(match obstacle {
            ResumeObstacle::LogsGone => ANOTHER_DIRECTORY_ADVICE,
            ResumeObstacle::Unclear => UNCLEAR_SOURCE_ADVICE,
            ResumeObstacle::SourceFault => CORRECT_SOURCE_ADVICE,
        }),
        ReceiveError::RewrittenLog { .. } => Some(RESTORE_LOG_ADVICE),
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
        // All other errors have their cause as source, or none.
        error => error.into(),
    };
    match advice {
        Some(advice) => error.context(advice),
        None => error,
    }
}

/// Returns whether the directory is not writable for this user, or read-only.
fn is_access_error(error: &LogError) -> bool {
    let is_so = |cause: &io::Error| {
        matches!(cause.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
    };
    !error.is_keyring_error() && matches!(error, LogError::Io { cause, .. } if is_so(cause))
}

#[cfg(test)]
mod tests {
    use std::io;

    use logs::LogError;
    use receive::{ReceiveError, ReceiveFailure, ResumeObstacle};
    use servers::ConnectionError;

    use super::{ANOTHER_DIRECTORY_ADVICE, WRITABLE_DIRECTORY_ADVICE};
    use crate::exit::{CommandFailure, ErrorAdvice};

    fn disk_error(code: i32) -> LogError {
        let cause = io::Error::from_raw_os_error(code);
        LogError::Io { verb: "write to", name: "binlog.000001".to_owned(), cause }
    }

    #[test]
    fn unwritable_directories_fail_before_the_start() {
        let permission_denied = 13;
        let failure = CommandFailure::from(ReceiveError::OpenStore(disk_error(permission_denied)));
        let CommandFailure::NotStarted(error) = failure else { panic!("{failure:?}") };
        assert_eq!(error.downcast_ref::<ErrorAdvice>().unwrap().0, WRITABLE_DIRECTORY_ADVICE.0);
        assert!(error.downcast_ref::<LogError>().is_some());
    }

    #[test]
    fn errors_of_logs_and_connections_stay_visible() {
        let failed = |error| match CommandFailure::from(ReceiveFailure::Failed(error)) {
            CommandFailure::Aborted(error) => error,
            other => panic!("{other:?}"),
        };
        let input_output = 5;
        let (error, again) = (disk_error(input_output), disk_error(input_output));
        for error in [ReceiveError::Log(disk_error(input_output)), ReceiveError::ReopenStore { error, again }]
        {
            assert!(failed(error).downcast_ref::<LogError>().is_some());
        }
        let error = ConnectionError::Refused { code: 1236, message: "purged".to_owned() };
        let error = failed(ReceiveError::CannotResume {
            log: "b.000001".to_owned(),
            position: 4,
            reason: None,
            obstacle: ResumeObstacle::LogsGone,
            error,
        });
        assert!(error.chain().any(|cause| cause.is::<ConnectionError>()));
        assert_eq!(error.downcast_ref::<ErrorAdvice>().unwrap().0, ANOTHER_DIRECTORY_ADVICE.0);
        let expected = "the source cannot resume after b.000001 at 4: purged (error 1236)";
        assert!(format!("{error:#}").ends_with(expected), "{error:#}");
    }
}
