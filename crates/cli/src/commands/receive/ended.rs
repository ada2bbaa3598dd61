//! Why a connection has ended.

use anyhow::Error as Failure;
use servers::Error;

use crate::exit::Advice;

/// Why a connection has ended.
pub(super) enum Ended {
    /// There is no more, as was asked for, or it was called off.
    Done,
    /// The source is gone, and may come back.
    Lost(Error),
    /// The server cannot go on with what is here, for this reason; it may be able to later.
    Unfit(String),
    /// There is no room on the disk.
    Full(logs::Error),
    /// The disk refuses for another reason: what is in the directory is not known any more.
    Disk(logs::Error),
    /// The keyring cannot be read, or lacks a key: it may just be written anew.
    Keyring(logs::Error),
    /// What was asked for is not to be had.
    Wrong(Failure),
    /// Nothing that passes.
    Failed(Failure),
}

/// What to do where the source has not what is here.
pub(super) const ANOTHER_DIRECTORY: Advice =
    Advice("keep this directory as it is, and receive into another one from here on");

/// Errors of a source that pass: too many connections (1040), shutdown (1053), a connection that was interrupted (1158
/// to 1161) or killed (1317, 1927, 3169), a server that is not up yet or going offline (1077, 3032, 3100, 3168).
const PASSING: [u16; 14] =
    [1040, 1053, 1077, 1158, 1159, 1160, 1161, 1203, 1317, 1927, 3032, 3100, 3168, 3169];

/// Is the source gone, and may come back?
pub(crate) fn passes(error: &Error) -> bool {
    match error {
        // What gives the password may be out of reach for a while.
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
