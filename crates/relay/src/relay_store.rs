//! The served store: its logs by name, and the transactions before each log.

use std::collections::HashMap;
use std::fs::{File, Metadata};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use binlog::events::MariadbGtid;
use binlog::gtid::{Gtid, GtidSet};
use binlog::{Event, EventFlags, EventFormat, EventType, HEADER_SIZE, MAGIC};
use logs::{
    FileIdentity, LogError, LogKind, LogReader, ReadOutcome, Store, lock, open_regular, read_keyring,
};

use crate::error::RelayError;
use crate::mariadb_position::gtid_list;

/// The served store: a directory of logs, which another thread or program may be writing.
#[derive(Debug)]
pub struct RelayStore {
    store: Mutex<Store>,
    keyring: Option<PathBuf>,
    heads: Mutex<HashMap<Arc<str>, CachedLogHead>>,
}

/// First events of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadEvents {
    /// Format of the log.
    pub format: EventFormat,
    /// GTIDs of all earlier logs; `None` without a Previous_gtids event.
    pub previous_gtids: Option<GtidSet>,
    /// GTID of the log's first transaction; `None` if there is no transaction yet, or it has no GTID.
    pub first_gtid: Option<Gtid>,
    /// Last GTIDs of all earlier logs; `None` without a Gtid_list event of MariaDB.
    pub gtid_list: Option<Vec<MariadbGtid>>,
    /// CRC32 of the format description, without its in-use flag. Logs of the same name have different checksums.
    pub(crate) stamp: u32,
    /// True if an event follows the head: the head never changes then.
    pub(crate) is_final: bool,
}

/// Identity of a log's file. Changes when the log is rewritten in place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct LogFileId {
    identity: FileIdentity,
    /// Creation time of the file; `None` if the file system does not record it. Needed because a new file can get the
    /// inode of a removed file.
    created: Option<SystemTime>,
}

impl LogFileId {
    fn of(found: &Metadata) -> Self {
        Self { identity: FileIdentity::of(found), created: found.created().ok() }
    }
}

/// Head of a log, and the identity of its file.
#[derive(Debug)]
struct CachedLogHead {
    file: LogFileId,
    head: Arc<HeadEvents>,
}

/// Maximum number of events in a head. Servers write two to four; MariaDB may add checkpoints.
const HEAD_EVENTS_MAX: usize = 1024;

impl RelayStore {
    /// Opens a directory or an index. Encrypted logs need the server's keyring file.
    ///
    /// # Errors
    ///
    /// Fails as [`Store::open`] does.
    pub fn open(path: impl AsRef<Path>, keyring: Option<PathBuf>) -> Result<Self, RelayError> {
        // The keyring is read again for each log. Read it now, to report a wrong path before the first client connects.
        keyring.as_deref().map(read_keyring).transpose()?;
        let store = Mutex::new(Store::open(path)?);
        Ok(Self { store, keyring, heads: Mutex::default() })
    }

    /// Reads the list of logs again, and returns their names, oldest first.
    ///
    /// # Errors
    ///
    /// Fails if the list cannot be read.
    pub fn log_names(&self) -> Result<Vec<Arc<str>>, RelayError> {
        let mut store = lock(&self.store);
        refresh(&mut store)?;
        Ok(store.logs().iter().filter_map(|path| log_name(path)).collect())
    }

    /// Returns the first events of a log; `None` if its format description is not written yet.
    ///
    /// # Errors
    ///
    /// Fails if the store has no such log, or the log cannot be read or is a relay log.
    pub fn head(&self, log: &Arc<str>) -> Result<Option<Arc<HeadEvents>>, RelayError> {
        let file = self.identity(log)?;
        if let Some(head) = self.known_head(log, file).filter(|head| head.is_final) {
            return Ok(Some(head));
        }
        let head = read_head(log, self.open_log(log)?)?.map(Arc::new);
        if let Some(head) = &head {
            let known = CachedLogHead { file, head: Arc::clone(head) };
            lock(&self.heads).insert(Arc::clone(log), known);
        }
        Ok(head)
    }

    /// Returns the version of the server that wrote a log, from its format description; `None` if the format
    /// description is not written yet. Reads the log only once.
    ///
    /// # Errors
    ///
    /// Fails as [`RelayStore::head`] does.
    pub fn writer_version(&self, log: &Arc<str>) -> Result<Option<String>, RelayError> {
        let known = self.known_head(log, self.identity(log)?);
        let head = match known {
            Some(head) => Some(head),
            None => self.head(log)?,
        };
        Ok(head.map(|head| String::from_utf8_lossy(&head.format.server_version).into_owned()))
    }

    fn known_head(&self, log: &Arc<str>, file: LogFileId) -> Option<Arc<HeadEvents>> {
        let heads = lock(&self.heads);
        heads.get(log).filter(|known| known.file == file).map(|known| Arc::clone(&known.head))
    }

    /// Returns whether another log follows this one, so that it no longer grows.
    pub(crate) fn has_successor(&self, log: &str) -> Result<bool, RelayError> {
        let names = self.log_names()?;
        Ok(names.iter().position(|name| &**name == log).is_some_and(|index| index + 1 < names.len()))
    }

    /// Drops the state of purged logs. Returns the names of the logs, oldest first.
    ///
    /// # Errors
    ///
    /// Fails if the list cannot be read.
    pub fn forget_purged(&self) -> Result<Vec<Arc<str>>, RelayError> {
        let names = self.log_names()?;
        lock(&self.heads).retain(|log, _| names.contains(log));
        Ok(names)
    }

    /// Returns the path of a log.
    ///
    /// # Errors
    ///
    /// Fails if the store has no such log, or its list cannot be read.
    pub fn path(&self, log: &str) -> Result<PathBuf, RelayError> {
        let mut store = lock(&self.store);
        if let Some(path) = find_log(&store, log) {
            return Ok(path);
        }
        refresh(&mut store)?;
        find_log(&store, log).ok_or_else(|| RelayError::UnknownLog { name: log.to_owned() })
    }

    /// Returns the identity of a log's file.
    pub(crate) fn identity(&self, log: &str) -> Result<LogFileId, RelayError> {
        let path = self.path(log)?;
        let found = std::fs::metadata(&path).map_err(|cause| LogError::Io {
            verb: "read the metadata of",
            name: path.display().to_string(),
            cause,
        })?;
        Ok(LogFileId::of(&found))
    }

    /// Opens the file of an unencrypted log. `None` if the log is encrypted, or its file was replaced.
    pub(crate) fn plain_file(&self, log: &str, id: LogFileId) -> Result<Option<File>, RelayError> {
        let Ok(file) = open_regular(&self.path(log)?) else { return Ok(None) };
        let mut magic = [0; MAGIC.len()];
        let is_plain = file.read_exact_at(&mut magic, 0).is_ok() && magic == MAGIC;
        let is_same = file.metadata().is_ok_and(|found| LogFileId::of(&found) == id);
        Ok((is_plain && is_same).then_some(file))
    }

    /// Opens a log.
    pub(crate) fn open_log(&self, log: &str) -> Result<LogReader, RelayError> {
        Ok(open_path(&self.path(log)?, self.keyring.as_deref())?)
    }

    /// Returns a closure that opens the log again.
    pub(crate) fn opener(
        &self,
        log: &str,
    ) -> Result<impl Fn() -> Result<LogReader, LogError> + Send + Sync + 'static, RelayError> {
        let (path, keyring) = (self.path(log)?, self.keyring.clone());
        Ok(move || open_path(&path, keyring.as_deref()))
    }

    /// Returns a copy of the list of logs.
    pub(crate) fn list(&self) -> Store {
        lock(&self.store).clone()
    }
}

/// Returns the name of a log without its directory.
pub(crate) fn log_name(path: &Path) -> Option<Arc<str>> {
    path.file_name()?.to_str().map(Arc::from)
}

fn find_log(store: &Store, log: &str) -> Option<PathBuf> {
    store.logs().iter().find(|path| path.file_name().is_some_and(|name| name == log)).cloned()
}

fn refresh(store: &mut Store) -> Result<(), RelayError> {
    match store.refresh() {
        // While a server purges logs, the index is absent for a moment.
        Err(LogError::Io { cause, .. }) if cause.kind() == std::io::ErrorKind::NotFound => Ok(()),
        result => Ok(result?),
    }
}

fn open_path(path: &Path, keyring: Option<&Path>) -> Result<LogReader, LogError> {
    let reader = LogReader::open_stored(path)?;
    Ok(match keyring {
        Some(keyring) => reader.with_keyring(Arc::new(read_keyring(keyring)?)),
        None => reader,
    })
}

fn read_head(log: &str, mut reader: LogReader) -> Result<Option<HeadEvents>, RelayError> {
    let mut head: Option<HeadEvents> = None;
    for _ in 0..HEAD_EVENTS_MAX {
        let format = reader.format().cloned();
        let event = match reader.next_event()? {
            ReadOutcome::Some(event) => event,
            ReadOutcome::End(_) => break,
        };
        let wrong = |error| RelayError::Event { name: log.to_owned(), position: event.offset, error };
        match (event.raw.event_type(), &mut head, format) {
            (EventType::FormatDescription, none @ None, _) => {
                let format = read_format(&event.raw).map_err(wrong)?;
                *none = Some(HeadEvents {
                    format,
                    previous_gtids: None,
                    first_gtid: None,
                    gtid_list: None,
                    stamp: format_stamp(event.raw.bytes()),
                    is_final: false,
                });
            }
            (EventType::PreviousGtids, Some(head), Some(format)) => {
                if let Event::PreviousGtids(previous) = event.raw.decode(&format).map_err(wrong)? {
                    head.previous_gtids = Some(GtidSet::decode(previous.set).map_err(wrong)?);
                }
            }
            (EventType::MariadbGtidList, Some(head), Some(format)) => {
                head.gtid_list = Some(gtid_list(&event.raw.decode(&format).map_err(wrong)?));
            }
            (
                EventType::Gtid | EventType::GtidTagged | EventType::AnonymousGtid,
                Some(head),
                Some(format),
            ) => {
                head.first_gtid = event.raw.decode(&format).map_err(wrong)?.gtid();
                head.is_final = true;
            }
            (event_type, Some(head), _) => head.is_final = !is_head_event(event_type),
            _ => {}
        }
        if head.as_ref().is_some_and(|head| head.is_final) {
            break;
        }
    }
    match reader.kind() {
        LogKind::Relay => Err(RelayError::RelayLog { name: log.to_owned() }),
        LogKind::Binary => Ok(head),
    }
}

/// Returns whether servers write events of this type before a log's first transaction.
const fn is_head_event(event_type: EventType) -> bool {
    use EventType as E;
    matches!(event_type, E::FormatDescription | E::PreviousGtids | E::MariadbGtidList | E::Unknown(_))
        || matches!(event_type, E::MariadbBinlogCheckpoint | E::MariadbStartEncryption)
}

/// Returns the CRC32 of a format description without its in-use flag.
pub(crate) fn format_stamp(event: &[u8]) -> u32 {
    let mut bytes = event.to_vec();
    if let Some(flags) = bytes.get_mut(HEADER_SIZE - 2) {
        *flags &= !(EventFlags::IN_USE.0 as u8);
    }
    crc32fast::hash(&bytes)
}

fn read_format(raw: &binlog::RawEvent<'_>) -> Result<EventFormat, binlog::DecodeError> {
    let mut framer = binlog::Framer::new();
    framer.next(raw.bytes())?;
    let none = binlog::DecodeReason::Unsupported { what: "a log without a format description" };
    framer.format().cloned().ok_or(binlog::DecodeError::new(0, none))
}
