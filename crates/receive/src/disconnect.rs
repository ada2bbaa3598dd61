//! Reason for the end of a connection.

use servers::ConnectionError;

use crate::error::ReceiveError;
use crate::source_candidate::SourceRejection;

/// Reason for the end of a connection.
pub(crate) enum Disconnect {
    /// The requested end was reached, or the run was cancelled.
    Done,
    /// Another thread has paused the run or named another source, also if the run was resumed since.
    Paused,
    /// The source is unreachable, and may come back.
    Lost(ConnectionError),
    /// The server cannot continue after the stored transactions yet, for this reason.
    Unfit(SourceRejection),
    /// The disk is full.
    DiskFull(logs::LogError),
    /// Another disk error: the contents of the directory are now unknown.
    DiskError(logs::LogError),
    /// The keyring is unreadable or lacks a key: another process may be writing the keyring.
    Keyring(logs::LogError),
    /// The process or the machine has too many open files. Other files will be closed.
    DescriptorLimit(logs::LogError),
    /// The requested start is not available.
    StartUnavailable(ReceiveError),
    /// A permanent error.
    Failed(ReceiveError),
}

impl From<ConnectionError> for Disconnect {
    fn from(error: ConnectionError) -> Self {
        match &error {
            ConnectionError::Cancelled => Self::Done,
            _ if error.is_transient() => Self::Lost(error),
            _ => Self::Failed(error.into()),
        }
    }
}

impl From<logs::LogError> for Disconnect {
    fn from(error: logs::LogError) -> Self {
        match error {
            error if error.is_disk_full() => Self::DiskFull(error),
            error if error.is_keyring_error() => Self::Keyring(error),
            error if error.is_descriptor_limit() => Self::DescriptorLimit(error),
            error @ (logs::LogError::EventMismatch { .. } | logs::LogError::NotNextLog { .. }) => {
                Self::Failed(ReceiveError::OtherLog(error))
            }
            error @ (logs::LogError::Io { .. }
            | logs::LogError::ReplacedLog { .. }
            | logs::LogError::RemovedIndex { .. }) => Self::DiskError(error),
            error => Self::Failed(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::Disconnect;

    #[test]
    fn disk_errors_do_not_change_the_source() {
        let of = |code| {
            let (name, cause) = ("binlog.000001".to_owned(), io::Error::from_raw_os_error(code));
            Disconnect::from(logs::LogError::Io { verb: "sync", name, cause })
        };
        let [no_space, input_output, too_many_files] = [28, 5, 24];
        assert!(matches!(of(too_many_files), Disconnect::DescriptorLimit(_)));
        assert!(matches!(of(no_space), Disconnect::DiskFull(_)));
        assert!(matches!(of(input_output), Disconnect::DiskError(_)));
    }
}
