//! Errors of reading and writing logs.

use std::fmt;
use std::io::{
    self,
    ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull},
};
use std::path::{Path, PathBuf};

use binlog::encryption::{EncryptionKeyError, KeyringError, NoLogKey};
use binlog::{DecodeError, PayloadError};
use nix::errno::Errno;

use crate::log_reader::TornEvent;

/// Error of reading or writing a log or a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LogError {
    /// An operating system call failed.
    #[error("could not {verb} {name}: {cause}")]
    Io {
        /// Failed operation, as a verb phrase: `open`, `write to`.
        verb: &'static str,
        /// Path of the file, or `standard input`.
        name: String,
        /// Error of the operating system.
        #[source]
        cause: io::Error,
    },
    /// An index names a log that does not exist.
    #[error(
        "{name} does not exist, but {index} names it: restore the log, or remove its line from the index"
    )]
    MissingLog {
        /// Path or name of the log.
        name: String,
        /// Path of the index.
        index: String,
    },
    /// The log that is being written was removed or replaced.
    #[error(
        "{name} was removed or replaced while bintide wrote to it: restore the log, or remove its line from the index"
    )]
    ReplacedLog {
        /// Path of the log.
        name: String,
    },
    /// The index of a store was removed while logs were written.
    #[error("the index in {directory} was removed while bintide wrote logs there: restore the index")]
    RemovedIndex {
        /// Path of the store's directory.
        directory: String,
    },
    /// The path of a store is a file.
    #[error("{name} is a file; expected a directory: give another path, or remove the file")]
    NotADirectory {
        /// Path of the file.
        name: String,
    },
    /// Another process has locked the store.
    #[error("{name} is in use: another bintide process writes to it; stop it, or give another directory")]
    Locked {
        /// Path of the store's directory.
        name: String,
    },
    /// A directory contains logs, but has no mark of a store.
    #[error(
        "{name} contains {found}, which bintide receive did not write: give an empty or a new directory. \
         If bintide receive wrote {name} and its file bintide.lock was deleted, create an empty file bintide.lock there"
    )]
    ForeignLogs {
        /// Path of the directory.
        name: String,
        /// Name of a log or an index in the directory.
        found: String,
    },
    /// A line of a store's index is not the plain file name of a log in the index's directory.
    #[error(
        "{index}: line {number} is {line:?}, which is not the name of a log beside the index: bintide receive writes \
         only to logs in the directory of the index. Give another directory"
    )]
    IndexLine {
        /// Path of the index.
        index: String,
        /// Number of the line, from 1.
        number: usize,
        /// Text of the line.
        line: String,
    },
    /// The source sent an invalid log name.
    #[error("{name:?} is not the name of a binary log: expected a base name, a dot and at least six digits")]
    InvalidLogName {
        /// Invalid name.
        name: String,
    },
    /// A source's log is not the successor of the store's last log.
    #[error("{name} does not follow {last}: the source's logs were reset, or it is a different server")]
    NotNextLog {
        /// Name of the source's log.
        name: String,
        /// Name of the store's last log.
        last: String,
    },
    /// An event does not start at the end of the log.
    #[error("{name}: an event starts at {found}; expected {expected}")]
    PositionMismatch {
        /// Path or name of the log.
        name: String,
        /// Start of the event.
        found: u64,
        /// End of the log, in bytes.
        expected: u64,
    },
    /// The source's last event differs from the store's.
    #[error(
        "{name} at {offset}: the source has a different event at this position: its logs were reset, or it is a \
        different server"
    )]
    EventMismatch {
        /// Path or name of the log.
        name: String,
        /// Start of the event, in bytes from the start of the log.
        offset: u64,
    },
    /// The file does not start with the magic number of a log.
    #[error("{name} is not a binary log: it starts with {}; expected fe 62 69 6e", hex(found))]
    NotALog {
        /// Path of the file, or `standard input`.
        name: String,
        /// First bytes of the file.
        found: [u8; 4],
    },
    /// The log is encrypted, and no keyring was given.
    #[error("{name} is encrypted with the key {key_id}: reading it requires the keyring file of its server")]
    KeyringRequired {
        /// Path of the file, or `standard input`.
        name: String,
        /// Name of the key.
        key_id: String,
    },
    /// The log is encrypted, and the keyring cannot decrypt its header.
    #[error("{name} is encrypted: {error}")]
    MissingKey {
        /// Path of the file, or `standard input`.
        name: String,
        /// Cause, such as a key that the keyring lacks.
        #[source]
        error: EncryptionKeyError,
    },
    /// The log is encrypted, and its decrypted bytes are not a log.
    #[error("{name} is encrypted with the key {key_id}: the keyring has a different key with this name")]
    WrongKey {
        /// Path of the file, or `standard input`.
        name: String,
        /// Name of the key.
        key_id: String,
    },
    /// The log is encrypted by MariaDB, from a Start_encryption event on, with a key of a MariaDB key management
    /// plugin.
    #[error(
        "{name} is encrypted by MariaDB from {offset} on: only its server can read it \
         (mariadb-binlog --read-from-remote-server)"
    )]
    EncryptedByMariadb {
        /// Path of the file, or `standard input`.
        name: String,
        /// Start of the encrypted part, in bytes from the start of the log.
        offset: u64,
    },
    /// A keyring file is invalid.
    #[error("{name}: {error}")]
    InvalidKeyring {
        /// Path of the file.
        name: String,
        /// Cause.
        #[source]
        error: KeyringError,
    },
    /// A keyring has no key that can encrypt logs.
    #[error("{name}: {error}")]
    NoLogKey {
        /// Path of the keyring file.
        name: String,
        /// Cause.
        #[source]
        error: NoLogKey,
    },
    /// An event is malformed.
    #[error("{name} at {offset}: {error}")]
    Corrupt {
        /// Path of the file, or `standard input`.
        name: String,
        /// Start of the event, in bytes from the start of the log.
        offset: u64,
        /// Cause, with an offset from the event's first byte.
        #[source]
        error: DecodeError,
    },
    /// An event violates the transaction grammar.
    #[error("{name} at {offset}: {reason}")]
    Grammar {
        /// Path of the file, or `standard input`.
        name: String,
        /// Start of the event, in bytes from the start of the log.
        offset: u64,
        /// Found and expected events.
        reason: String,
    },
    /// A transaction payload cannot be decompressed.
    #[error("{name} at {offset}: {error}")]
    Payload {
        /// Path of the file, or `standard input`.
        name: String,
        /// Start of the payload's event, in bytes from the start of the log.
        offset: u64,
        /// Cause.
        #[source]
        error: PayloadError,
    },
    /// A second log starts after the end of the first log in the same file.
    #[error(
        "{name} at {offset}: a second log starts here, but a file must contain one log: split the file at this position"
    )]
    SecondLog {
        /// Path of the file.
        name: String,
        /// End of the first log, in bytes from the start of the file.
        offset: u64,
    },
    /// The log ends within an event.
    #[error("{name} {torn}")]
    Torn {
        /// Path of the file, or `standard input`.
        name: String,
        /// Position of the event, and its found and expected sizes.
        torn: TornEvent,
    },
    /// The requested position is beyond the end of the log.
    #[error("{name} has {size} bytes: position {offset} is beyond its end")]
    PastEnd {
        /// Path of the file, or `standard input`.
        name: String,
        /// Requested position, in bytes from the start of the log.
        offset: u64,
        /// Size of the log, in bytes.
        size: u64,
    },
    /// A directory has several indexes, or logs of several base names.
    #[error("{name} has {what}: {}; give one index file, or the log files of one name", found.join(", "))]
    Ambiguous {
        /// Path of the directory.
        name: String,
        /// Kind of the candidates, in the plural.
        what: &'static str,
        /// Names of the candidates.
        found: Vec<String>,
    },
    /// A directory or an index has no logs.
    #[error("{name} {reason}")]
    NoLogs {
        /// Path of the directory or the index.
        name: String,
        /// Reason.
        reason: NoLogsReason,
    },
    /// The index of a given directory names a log that exists only in another directory.
    #[error(
        "{index}: line {number} names {line}, but the index's directory has no such log: give the index itself \
         to read logs in other directories"
    )]
    LogElsewhere {
        /// Path of the index.
        index: String,
        /// Number of the line, from 1.
        number: usize,
        /// Text of the line.
        line: String,
    },
    /// A log is a pipe, a device or a directory.
    #[error("{name} is not a regular file: the logs of a directory or an index must be regular files")]
    NotRegular {
        /// Path of the file.
        name: String,
    },
    /// A file is not an index of logs.
    #[error("{name} is not an index of logs: one of its lines is not a valid path")]
    InvalidIndex {
        /// Path of the file.
        name: String,
    },
    /// The position list of a rewritten log is invalid.
    #[error(
        "{name} is not a position list of a rewritten log: {reason}. Remove the file to use the log's own positions"
    )]
    InvalidPositionList {
        /// Path of the list.
        name: String,
        /// Cause.
        reason: String,
    },
    /// Logs were purged before they were read.
    #[error(
        "cannot continue: the logs between {name} and {next} were purged before they were read. Retain logs longer"
    )]
    Purged {
        /// Path of the last log that was read.
        name: String,
        /// Path of the next log that exists.
        next: String,
    },
    /// The log was removed before it was read to its end, or another log replaced it under the same name.
    #[error("{name} was removed, or another log replaced it: restart to continue with the existing logs")]
    Removed {
        /// Path of the file.
        name: String,
    },
    /// The log was truncated to less than the part already read.
    #[error("{name} was truncated while it was read: {offset} bytes were read, and it has {size} bytes now")]
    Truncated {
        /// Path of the file.
        name: String,
        /// Number of bytes read before.
        offset: u64,
        /// Present size in bytes.
        size: u64,
    },
}

/// Reason why a directory or an index has no logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoLogsReason {
    /// The index lists no log.
    EmptyIndex,
    /// The directory has neither an index nor a file with the name of a log.
    NoLogName,
}

impl fmt::Display for NoLogsReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::EmptyIndex => "lists no logs",
            Self::NoLogName => {
                "has no logs: it contains no index, and no file with a name such as binlog.000001. To read files with \
                 other names, give their names"
            }
        })
    }
}

/// Returns whether the disk or a quota is full, or a file would exceed the system's limit on file sizes.
pub fn is_disk_full(cause: &io::Error) -> bool {
    matches!(cause.kind(), StorageFull | QuotaExceeded | FileTooLarge)
}

impl LogError {
    /// Returns whether the log itself is damaged. Otherwise the log could not be read: it does not exist, or the user
    /// may not read it, or its key is missing.
    pub const fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Corrupt { .. }
                | Self::Grammar { .. }
                | Self::Payload { .. }
                | Self::NotALog { .. }
                | Self::SecondLog { .. }
                | Self::Torn { .. }
        )
    }

    /// Returns whether the disk or a quota is full, or a file would exceed the system's limit on file sizes.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Self::Io { cause, .. } if is_disk_full(cause))
    }

    /// Returns whether the process or the machine has too many open files. The error is temporary: other files will be
    /// closed.
    pub fn is_descriptor_limit(&self) -> bool {
        const LIMITS: [i32; 2] = [Errno::EMFILE as i32, Errno::ENFILE as i32];
        matches!(self, Self::Io { cause, .. } if cause.raw_os_error().is_some_and(|code| LIMITS.contains(&code)))
    }

    /// Returns whether a keyring file could not be read, is invalid, or has no key for a log. The error may be
    /// temporary: another process may be writing the file.
    pub fn is_keyring_error(&self) -> bool {
        matches!(
            self,
            Self::InvalidKeyring { .. } | Self::NoLogKey { .. } | Self::Io { verb: Self::READ_KEYRING, .. }
        )
    }

    pub(crate) const READ_KEYRING: &str = "read the keyring";

    pub(crate) fn ambiguous(directory: &Path, what: &'static str, found: &[PathBuf]) -> Self {
        let names = found.iter().map(|path| path.file_name().unwrap_or(path.as_os_str()));
        let found = names.map(|name| name.to_string_lossy().into_owned()).collect();
        Self::Ambiguous { name: directory.display().to_string(), what, found }
    }

    pub(crate) fn io(verb: &'static str, name: &str, cause: io::Error) -> Self {
        Self::Io { verb, name: name.to_owned(), cause }
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.join(" ")
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::LogError;

    #[test]
    fn disk_full_errors_are_recognized() {
        let check = |errno: i32, expected| {
            let error = LogError::io("write to", "b.000001", io::Error::from_raw_os_error(errno));
            assert_eq!((error.is_disk_full(), error.is_keyring_error()), (expected, false), "{error}");
        };
        let [no_space, quota, too_large, input_output, permission] = [28, 122, 27, 5, 13];
        for errno in [no_space, quota, too_large] {
            check(errno, true);
        }
        for errno in [input_output, permission] {
            check(errno, false);
        }
        let too_many_files = io::Error::from_raw_os_error(24);
        assert!(LogError::io("open", "b.000001", too_many_files).is_descriptor_limit());
        let keyring =
            LogError::io(LogError::READ_KEYRING, "keyring", io::Error::from_raw_os_error(permission));
        assert!(keyring.is_keyring_error());
    }
}
