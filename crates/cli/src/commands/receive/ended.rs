//! Reason for the end of a connection.

use anyhow::Error as Failure;
use servers::Error;

use crate::exit::Advice;

/// Reason for the end of a connection.
pub(super) enum Ended {
    /// The requested end was reached, or the run was cancelled.
    Done,
    /// The source is unreachable, and may come back.
    Lost(Error),
    /// The server cannot continue after the stored transactions, for this reason; it may be able to later.
    Unfit(String),
    /// The disk is full.
    Full(logs::Error),
    /// Another disk error: the contents of the directory are no longer known.
    Disk(logs::Error),
    /// The keyring is unreadable or lacks a key: another process may be writing it.
    Keyring(logs::Error),
    /// The requested start is not available.
    Wrong(Failure),
    /// A permanent error.
    Failed(Failure),
}

/// Advice if the source lacks stored events.
pub(super) const ANOTHER_DIRECTORY: Advice =
    Advice("keep this directory as it is, and receive into another one");

/// Transient errors of a source: too many connections (1040), shutdown (1053), a connection that was interrupted
/// (1158 to 1161) or killed (1317, 1927, 3169), a server that is not ready yet or going offline (1077, 3032, 3100,
/// 3168).
const PASSING: [u16; 14] =
    [1040, 1053, 1077, 1158, 1159, 1160, 1161, 1203, 1317, 1927, 3032, 3100, 3168, 3169];

/// Tells whether the error is transient, so that another attempt may succeed.
pub(crate) fn passes(error: &Error) -> bool {
    match error {
        // A password command may fail for a while.
        Error::Lost { .. } | Error::Silent { .. } | Error::Password(_) => true,
        Error::Refused { code, .. } => PASSING.contains(code),
        _ => false,
    }
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        match &error {
            Error::Cancelled => Self::Done,
            _ if passes(&error) => Self::Lost(error),
            _ => Self::Failed(error.into()),
        }
    }
}

impl From<logs::Error> for Ended {
    fn from(error: logs::Error) -> Self {
        match error {
            error if error.is_full() => Self::Full(error),
            error if error.is_of_keyring() => Self::Keyring(error),
            error @ (logs::Error::NotSame { .. } | logs::Error::NotNext { .. }) => {
                Self::Failed(Failure::from(error).context(ANOTHER_DIRECTORY))
            }
            error @ logs::Error::Io { .. } => Self::Disk(error),
            error => Self::Failed(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::Ended;

    #[test]
    fn another_source_does_not_help_against_a_broken_disk() {
        let of = |code| {
            let (name, cause) = ("binlog.000001".to_owned(), io::Error::from_raw_os_error(code));
            Ended::from(logs::Error::Io { verb: "sync", name, cause })
        };
        let [no_space, input_output] = [28, 5];
        assert!(matches!(of(no_space), Ended::Full(_)));
        assert!(matches!(of(input_output), Ended::Disk(_)));
    }
}
