//! What can go wrong with a log, and where.

use std::io::{
    self,
    ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull},
};
use std::path::{Path, PathBuf};

use binlog::encryption::{KeyringError, NoLogKey, OpenError};
use binlog::{DecodeError, PayloadError};

use crate::reader::Torn;

/// What can go wrong with a log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The system refuses.
    #[error("could not {verb} {name}: {cause}")]
    Io {
        /// What was tried.
        verb: &'static str,
        /// The file, or what else it is.
        name: String,
        /// What the system said.
        #[source]
        cause: io::Error,
    },
    /// An index names a log that is not there.
    #[error("{name} is not there, and {index} names it: put it back, or take its line out of the index")]
    Missing {
        /// The log.
        name: String,
        /// The index.
        index: String,
    },
    /// A directory is wanted to keep logs in.
    #[error("{name} is a file, and a directory is wanted: give the name of one, or of none yet")]
    NotAFolder {
        /// The file.
        name: String,
    },
    /// Somebody else writes to the store.
    #[error("{name} is being written to by another bintide")]
    Locked {
        /// The store's folder.
        name: String,
    },
    /// A folder has logs, and was not begun as a store.
    #[error(
        "{name} has {found}, which bintide receive did not write: give an empty directory, or one that does not exist. \
         If {name} is a store of bintide receive whose file bintide.lock was deleted, create an empty file of that name"
    )]
    ForeignLogs {
        /// The folder.
        name: String,
        /// A log or an index in it.
        found: String,
    },
    /// A line of a store's index is not the plain name of a log beside it.
    #[error(
        "{index}: line {number} is {line:?}, which is not the name of a log beside the index: bintide receive writes \
         only to logs in its own directory. Give another directory"
    )]
    IndexLine {
        /// The index.
        index: String,
        /// The line's number, from 1 on.
        number: usize,
        /// The line.
        line: String,
    },
    /// A source's log has a name that no server gives one.
    #[error("{name:?} is no name of a binary log: those are a name, a point and six digits or more")]
    LogName {
        /// The name.
        name: String,
    },
    /// A source's log is not the one behind the last that is there.
    #[error("{name} does not follow {last}: the source's logs were reset, or are those of another server")]
    NotNext {
        /// The log that begins.
        name: String,
        /// The last one that is there.
        last: String,
    },
    /// An event does not stand where the log ends.
    #[error("{name}: an event that starts at {found} came where one at {wanted} was wanted")]
    Place {
        /// The log.
        name: String,
        /// Where the event starts.
        found: u64,
        /// Where the log ends.
        wanted: u64,
    },
    /// A source's log is not the one that is there.
    #[error(
        "{name} at {offset}: the source has another event there: its logs were reset, or it is another server"
    )]
    NotSame {
        /// The log.
        name: String,
        /// Where the event starts: bytes from the start of the log.
        offset: u64,
    },
    /// It starts like no log.
    #[error("{name} is no binary log: it starts with {}, and a binary log with fe 62 69 6e", hex(found))]
    NotALog {
        /// The file, or what else it is.
        name: String,
        /// Its first bytes.
        found: [u8; 4],
    },
    /// It is encrypted, and there is no keyring.
    #[error("{name} is encrypted with the key {key_id}: it takes the keyring file of its server to read it")]
    Encrypted {
        /// The file, or what else it is.
        name: String,
        /// The key's name.
        key_id: String,
    },
    /// It is encrypted, and the keyring does not open it.
    #[error("{name} is encrypted: {error}")]
    MissingKey {
        /// The file, or what else it is.
        name: String,
        /// What is missing.
        #[source]
        error: OpenError,
    },
    /// It is encrypted, and what comes out is no log.
    #[error("{name} is encrypted with a key {key_id} that is not the one of that name in this keyring")]
    WrongKey {
        /// The file, or what else it is.
        name: String,
        /// The key's name.
        key_id: String,
    },
    /// It is encrypted the way MariaDB does it, from an event of its own on, with a key of the server's own plugins.
    #[error(
        "{name} is encrypted by MariaDB from {offset} on: only its server can read it \
         (mariadb-binlog --read-from-remote-server)"
    )]
    EncryptedByMariadb {
        /// The file, or what else it is.
        name: String,
        /// From where on, in bytes from the start of the log.
        offset: u64,
    },
    /// A file is no keyring.
    #[error("{name}: {error}")]
    Keyring {
        /// The file.
        name: String,
        /// What is wrong with it.
        #[source]
        error: KeyringError,
    },
    /// A keyring has no key that logs could be encrypted with.
    #[error("{name}: {error}")]
    NoLogKey {
        /// The keyring file.
        name: String,
        /// Why not.
        #[source]
        error: NoLogKey,
    },
    /// Something in it is not as it must be.
    #[error("{name} at {offset}: {error}")]
    Corrupt {
        /// The file, or what else it is.
        name: String,
        /// Where the event starts: bytes from the start of the log.
        offset: u64,
        /// What is wrong, with a place counted from the event's first byte.
        #[source]
        error: DecodeError,
    },
    /// An event of it cannot stand where it stands.
    #[error("{name} at {offset}: {reason}")]
    Grammar {
        /// The file, or what else it is.
        name: String,
        /// Where the event starts: bytes from the start of the log.
        offset: u64,
        /// What was found and wanted.
        reason: String,
    },
    /// A transaction payload in it cannot be opened.
    #[error("{name} at {offset}: {error}")]
    Payload {
        /// The file, or what else it is.
        name: String,
        /// Where the payload's event starts: bytes from the start of the log.
        offset: u64,
        /// What is wrong.
        #[source]
        error: PayloadError,
    },
    /// It stops within an event.
    #[error("{name} {torn}")]
    Torn {
        /// The file, or what else it is.
        name: String,
        /// Where, and what is missing.
        torn: Torn,
    },
    /// It ends before the place that was asked for.
    #[error("{name} has {size} bytes: nothing starts at {offset}")]
    Beyond {
        /// The file, or what else it is.
        name: String,
        /// The place, in bytes from the start of the log.
        offset: u64,
        /// Where the log ends.
        size: u64,
    },
    /// A directory holds more than one thing that could be meant.
    #[error("{name} has {what}: {}; name one of them", found.join(", "))]
    Several {
        /// The directory.
        name: String,
        /// What it has several of.
        what: &'static str,
        /// Which ones.
        found: Vec<String>,
    },
    /// A directory or an index holds no logs.
    #[error("{name} has no logs")]
    NoLogs {
        /// The directory or the index.
        name: String,
    },
    /// A folder was given, and its index names a log in another one.
    #[error(
        "{index}: line {number} names {line}, and there is no log of that name beside the index: give the index itself \
         to read logs in other directories"
    )]
    LogElsewhere {
        /// The index.
        index: String,
        /// The line's number, from 1 on.
        number: usize,
        /// The line.
        line: String,
    },
    /// A log is a pipe, a device or a directory.
    #[error(
        "{name} is not a regular file: only regular files are read as the logs of a directory or an index"
    )]
    NotRegular {
        /// The file.
        name: String,
    },
    /// A file is no index of logs.
    #[error("{name} is no index of logs: a line of it cannot be a path")]
    Index {
        /// The file.
        name: String,
    },
    /// The list of where a rewritten log's transactions stood before cannot be believed.
    #[error("{name} is no list of a rewritten log's positions: {reason}; remove it to go by the log's own")]
    Positions {
        /// The list.
        name: String,
        /// What is wrong with it.
        reason: String,
    },
    /// Logs went before they were read.
    #[error(
        "the logs between {name} and {next} were purged before they were read: what was in them is needed to go on; keep more"
    )]
    Purged {
        /// The last one that was read.
        name: String,
        /// The next one that is there.
        next: String,
    },
    /// The log went before its end had come, or it was replaced by another of its name.
    #[error(
        "{name} was removed while it was followed, before its end: start again, to go on with the logs that are there"
    )]
    Removed {
        /// The file.
        name: String,
    },
    /// It was cut off while it was being read.
    #[error("{name} was cut off while it was read: {offset} bytes are read, and it has {size} bytes now")]
    Shrunk {
        /// The file.
        name: String,
        /// How far it had been read.
        offset: u64,
        /// Its size now.
        size: u64,
    },
}

impl Error {
    /// Is it the log that is not as it must be? Else it could not be read: it is not there, or not for this user, or
    /// its key is not.
    pub const fn is_damage(&self) -> bool {
        matches!(
            self,
            Self::Corrupt { .. }
                | Self::Grammar { .. }
                | Self::Payload { .. }
                | Self::NotALog { .. }
                | Self::Torn { .. }
        )
    }

    /// Was there no room: on the disk, in a quota, or below the largest size of a file that is allowed?
    pub fn is_full(&self) -> bool {
        let is_full = |cause: &io::Error| matches!(cause.kind(), StorageFull | QuotaExceeded | FileTooLarge);
        matches!(self, Self::Io { cause, .. } if is_full(cause))
    }

    /// Is it a keyring file that cannot be read, is none, or has no key for a log? It may be so only while somebody writes
    /// it.
    pub fn is_of_keyring(&self) -> bool {
        matches!(
            self,
            Self::Keyring { .. } | Self::NoLogKey { .. } | Self::Io { verb: Self::READ_KEYRING, .. }
        )
    }

    pub(crate) const READ_KEYRING: &str = "read the keyring";

    pub(crate) fn several(folder: &Path, what: &'static str, found: &[PathBuf]) -> Self {
        let names = found.iter().map(|path| path.file_name().unwrap_or(path.as_os_str()));
        let found = names.map(|name| name.to_string_lossy().into_owned()).collect();
        Self::Several { name: folder.display().to_string(), what, found }
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

    use super::Error;

    #[test]
    fn a_disk_or_quota_without_room_is_told_from_other_trouble() {
        let check = |errno: i32, wanted| {
            let error = Error::io("write to", "b.000001", io::Error::from_raw_os_error(errno));
            assert_eq!((error.is_full(), error.is_of_keyring()), (wanted, false), "{error}");
        };
        let [no_space, quota, too_large, input_output, permission] = [28, 122, 27, 5, 13];
        for errno in [no_space, quota, too_large] {
            check(errno, true);
        }
        for errno in [input_output, permission] {
            check(errno, false);
        }
        let keyring = Error::io(Error::READ_KEYRING, "keyring", io::Error::from_raw_os_error(permission));
        assert!(keyring.is_of_keyring());
    }
}
