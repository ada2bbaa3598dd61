//! Writer of a store: the logs of a source, byte for byte.

mod store_purge;
mod store_recovery;

use std::fs::File;
use std::io::{self, ErrorKind, Write as _};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};

use binlog::MAGIC;
use binlog::encryption::KeyringKey;
use binlog::gtid::Uuid;

pub use self::store_purge::RetentionLimit;
use crate::error::{LogError, NoLogsReason};
use crate::keyring::{open_log, read_keyring};
use crate::log_contents::LogContents;
use crate::log_file_writer::LogFileWriter;
use crate::log_reader::ReadOutcome;
use crate::log_series::{LogName, LogSeries};
use crate::log_syncer::{LogSyncer, SyncEnd};
use crate::own_files::private_options;
use crate::regular_file::read_regular_text;
use crate::store_directory::{INDEX_PREFIX, StoreDirectory, io_error, is_log_name, log_names};

/// Writer of a store: the logs of a source, byte for byte, and their index.
///
/// A log is in the index once its file exists. Appended events are safe after a [sync](StoreWriter::sync), or once a
/// [started sync](StoreWriter::start_sync) has ended. After a crash, opening the store truncates the last log after its
/// last whole event, and the source must send the following events again.
#[derive(Debug)]
pub struct StoreWriter {
    encryption: LogEncryption,
    log: Option<OpenLog>,
    /// Number of bytes removed when the store was opened.
    truncated: u64,
    /// Size of the present write. Greater than 0 after a failed write.
    pending_bytes: u64,
    /// Failed sync, until the lost bytes are removed. No other sync begins meanwhile.
    failed_sync: Option<FailedSync>,
    /// Thread that syncs the last log; `None` until the first [`StoreWriter::start_sync`].
    syncer: Option<LogSyncer>,
    /// Number of the last started sync.
    started_sync: u64,
    /// Number of the last started sync that has ended without an error.
    ended_sync: u64,
    // Last field: the lock must outlive the open files.
    directory: StoreDirectory,
}

/// Failed sync of a log. The bytes after the last successful sync may be missing on the disk although they can be read.
/// The system reports an error only once, so another sync would succeed without them.
#[derive(Debug)]
struct FailedSync {
    log: String,
    /// Size of the log at the last successful sync.
    synced: u64,
    /// Number of the system's error, if it has one.
    error_number: Option<i32>,
}

#[derive(Debug)]
struct OpenLog {
    name: String,
    /// Name of the log at the source.
    name_at_source: String,
    file: LogFileWriter,
    /// Start of the last event; equal to `position` if there is none.
    last: u64,
    /// Start of the next event.
    position: u64,
    /// Size of the part that is synced to disk.
    synced: u64,
    /// Size of the part for which a sync was started.
    requested: u64,
}

/// Number of events of a log's head: the format description, and the event that follows it.
const HEAD_EVENTS: usize = 2;

/// Encryption of a store's new logs on disk. Does not apply to an existing log that is continued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogEncryption {
    /// New logs are not encrypted.
    Plain {
        /// Keyring file that opens the last existing log, if it is encrypted.
        keyring: Option<PathBuf>,
    },
    /// New logs are encrypted as by a server with `binlog_encryption`: each with its own password and the newest key of
    /// a keyring file. The file is read again for each log.
    Encrypted {
        /// Path of the keyring file.
        keyring: PathBuf,
    },
}

impl LogEncryption {
    /// Returns the path of the keyring file.
    pub fn keyring(&self) -> Option<&Path> {
        match self {
            Self::Plain { keyring } => keyring.as_deref(),
            Self::Encrypted { keyring } => Some(keyring),
        }
    }

    /// Checks that the keyring file, if one is set, can be read, and has the key that a new log needs.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is not a keyring, or lacks a key.
    pub fn check(&self) -> Result<(), LogError> {
        self.keyring().map(read_keyring).transpose()?;
        self.new_log_key().map(drop)
    }

    /// Returns the key of a new log; `None` if new logs are not encrypted.
    fn new_log_key(&self) -> Result<Option<KeyringKey>, LogError> {
        let Self::Encrypted { keyring } = self else { return Ok(None) };
        let keys = read_keyring(keyring)?;
        let named = |error| LogError::NoLogKey { name: keyring.display().to_string(), error };
        keys.newest_log_key().map(|key| Some(key.clone())).map_err(named)
    }
}

/// Result of appending an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendOutcome {
    /// The event was appended.
    New,
    /// The event equals the last event of the log.
    Repeated,
}

/// Result of [`StoreWriter::begin_or_continue_log`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogStart {
    /// A new log has begun.
    Begun,
    /// The last log continues.
    Continued,
}

/// End of a store, in its last log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreEnd<'s> {
    /// Name of the log at the source.
    pub log: &'s str,
    /// Name of the log's file in the directory.
    pub file: &'s str,
    /// Series of the log; `None` for the store's first series.
    pub series: Option<LogSeries<'s>>,
    /// Start of the log's last event; equal to `next` if the log has no event.
    pub last: u64,
    /// Start of the next event.
    pub next: u64,
}

impl StoreWriter {
    /// Opens the store in `directory`, and creates the directory if it is missing.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or written, if another process writes to the store, if the directory has logs and
    /// is not a store, or if the keyring file is invalid or lacks a key.
    pub fn open(directory: &Path, at_rest: LogEncryption) -> Result<Self, LogError> {
        at_rest.check()?; // Before any file of the store is created.
        StoreDirectory::lock(directory)?.open(at_rest)
    }

    fn in_directory(directory: StoreDirectory, at_rest: LogEncryption) -> Result<Self, LogError> {
        let mut store = Self {
            encryption: at_rest,
            log: None,
            truncated: 0,
            pending_bytes: 0,
            failed_sync: None,
            syncer: None,
            started_sync: 0,
            ended_sync: 0,
            directory,
        };
        store.recover_last()?;
        Ok(store)
    }

    /// Registers a file beside the logs that the caller is about to create. If no log begins before the writer is
    /// dropped, removes the file with all other new files of the store. Keeps a file that existed before.
    pub fn add_created_path(&mut self, path: &Path) {
        if self.log.is_none() {
            self.directory.created.add_if_missing(path);
        }
    }

    /// Returns the end of the store; `None` if it is empty. By sending the last event again, a source shows that it
    /// still has the same log.
    pub fn store_end(&self) -> Option<StoreEnd<'_>> {
        self.log.as_ref().map(|log| StoreEnd {
            log: &log.name_at_source,
            file: &log.name,
            series: LogName::of(Path::new(&log.name)).and_then(|name| name.series),
            last: log.last,
            next: log.position,
        })
    }

    /// Returns whether the last log is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.log.as_ref().is_some_and(|log| log.file.is_encrypted())
    }

    /// Returns the start of the next event in the last log; 0 in an empty store.
    pub fn next_position(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.position)
    }

    /// Returns the size of the last log's part that is written to its file. Later bytes are still in memory.
    pub fn written_position(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.position.saturating_sub(log.file.buffered_size()))
    }

    /// Returns the number of bytes removed from the last log when the store was opened: an incomplete or damaged event,
    /// and all later bytes.
    pub fn truncated_bytes(&self) -> u64 {
        self.truncated
    }

    /// Starts or continues this log of the source at `position`.
    ///
    /// # Errors
    ///
    /// Fails if the last log does not end there, the name is not a log's name, the log is not the successor of the last
    /// log, or a file cannot be written.
    pub fn begin_log(&mut self, name: &str, position: u64) -> Result<(), LogError> {
        match &self.log {
            Some(log) if log.name_at_source == name && position == log.last => return Ok(()),
            Some(log) if log.name_at_source == name => return log.check_end(position),
            _ => {}
        }
        if position != MAGIC.len() as u64 {
            return Err(LogError::PositionMismatch {
                name: name.to_owned(),
                found: position,
                expected: MAGIC.len() as u64,
            });
        }
        self.begin_after(name, |last, next| last.is_directly_before(next))
    }

    /// Continues the last log, or begins this one. Within a series, any higher number is valid: a stream requested by
    /// GTIDs is complete, and a source skips logs whose transactions are all present. With a `new_source_uuid`, begins a
    /// new series, whose logs have their own names.
    ///
    /// # Errors
    ///
    /// Fails as [`StoreWriter::begin_log`] does.
    pub fn begin_or_continue_log(
        &mut self,
        name: &str,
        new_source_uuid: Option<&str>,
    ) -> Result<LogStart, LogError> {
        match (&self.log, new_source_uuid) {
            (Some(log), None) if log.name_at_source == name => return Ok(LogStart::Continued),
            (Some(_), Some(uuid)) => self.begin_series(name, uuid)?,
            _ => self.begin_after(name, |last, next| last.is_earlier_of_series(next))?,
        }
        Ok(LogStart::Begun)
    }

    /// Goes back to the end of the last log's last whole transaction, and returns the transactions up to there. Readers
    /// keep the later bytes until the same events are written again, or another log begins.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or written, or the log is damaged.
    pub fn rewind(&mut self) -> Result<LogContents, LogError> {
        self.sync()?;
        let Some(log) = &mut self.log else {
            return Err(self.no_logs_error());
        };
        let path = self.directory.path.join(&log.name);
        let contents = LogContents::read(&path, self.encryption.keyring())?;
        log.file.seek(contents.whole_end).map_err(io_error("write to", &path))?;
        log.set_end(contents.whole_end);
        Ok(contents)
    }

    /// Returns the transactions on disk: of the last log, and of earlier logs by its Previous_gtids event.
    ///
    /// # Errors
    ///
    /// Fails as [`StoreWriter::rewind`] does.
    pub fn contents(&self) -> Result<LogContents, LogError> {
        match &self.log {
            Some(log) => LogContents::read(&self.directory.path.join(&log.name), self.encryption.keyring()),
            None => Err(self.no_logs_error()),
        }
    }

    fn no_logs_error(&self) -> LogError {
        LogError::NoLogs { name: self.directory.path.display().to_string(), reason: NoLogsReason::NoLogName }
    }

    /// Returns whether the last log has its head: the events before its transactions. A log with only a format
    /// description does not state the earlier transactions. Returns true for an empty store.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read or written, or the log is damaged.
    pub fn has_head(&mut self) -> Result<bool, LogError> {
        self.sync()?;
        let Some(log) = &self.log else { return Ok(true) };
        let mut reader = open_log(&self.directory.path.join(&log.name), self.encryption.keyring())?;
        for _ in 0..HEAD_EVENTS {
            if !matches!(reader.next_event()?, ReadOutcome::Some(_)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes the last log if it lacks [its head](StoreWriter::has_head) and is not the only log. The previous log
    /// becomes the last log.
    ///
    /// # Errors
    ///
    /// Fails as [`StoreWriter::has_head`] does.
    pub fn remove_headless_log(&mut self) -> Result<(), LogError> {
        if self.has_head()? {
            return Ok(());
        }
        let Some(index) = self.directory.index()? else { return Ok(()) };
        let text = read_regular_text(&index).map_err(io_error("read", &index))?;
        let names = log_names(&text, &index)?;
        let [kept @ .., last] = &names[..] else { return Ok(()) };
        let Some(before) = kept.last() else { return Ok(()) };
        let is_own = self.log.as_ref().is_some_and(|log| log.name == *last);
        assert!(is_own, "ours: the last log of the index is being written");
        // What can fail comes first. The next opening completes an interrupted removal.
        let before = self.recover((*before).to_owned())?;
        self.list_purged(&[last])?;
        let lines: String = text.lines().take(kept.len()).map(|line| format!("{line}\n")).collect();
        self.replace(&index, &lines)?;
        self.log = Some(before);
        self.remove_purged(kept)
    }

    /// Truncates the last log after its last event.
    fn truncate_log(&mut self) -> Result<(), LogError> {
        self.sync()?;
        let Some(log) = &mut self.log else { return Ok(()) };
        let path = self.directory.path.join(&log.name);
        let size = log.file.size().map_err(io_error("read the metadata of", &path))?;
        if size > log.position {
            log.file.truncate(log.position).map_err(io_error("truncate", &path))?;
        }
        Ok(())
    }

    /// Begins this log, if `is_before` accepts the last log as its predecessor.
    fn begin_after(
        &mut self,
        name: &str,
        is_before: fn(&LogName<'_>, &LogName<'_>) -> bool,
    ) -> Result<(), LogError> {
        let found = parse_source_name(name)?;
        let Some(last) = self.log.as_ref().map(|log| log.name.clone()) else {
            return self.create(name, name, found.base);
        };
        let series = LogName::of(Path::new(&last)).and_then(|last| last.series);
        let local = series.map_or_else(|| name.to_owned(), |series| found.name_in_series(series));
        let names = LogName::of(Path::new(&last)).zip(LogName::of(Path::new(&local)));
        if names.is_none_or(|(last, local)| !is_before(&last, &local)) {
            return Err(LogError::NotNextLog { name: name.to_owned(), last });
        }
        self.truncate_log()?;
        self.create(&local, name, found.base)
    }

    fn begin_series(&mut self, name: &str, uuid: &str) -> Result<(), LogError> {
        let found = parse_source_name(name)?;
        let before = self.store_end().and_then(|end| end.series).map_or(1, |series| series.number);
        let local = found.name_in_series(LogSeries { number: before + 1, uuid });
        let is_uuid = uuid.parse::<Uuid>().is_ok();
        if !is_uuid || LogName::of(Path::new(&local)).is_none_or(|local| local.series.is_none()) {
            return Err(LogError::InvalidLogName { name: local });
        }
        self.truncate_log()?;
        self.create(&local, name, found.base)
    }

    /// Appends an event, which starts at `position` in the log. The last event may be repeated, if it is equal.
    ///
    /// # Errors
    ///
    /// Fails if the log does not end there, if no log has begun, if a repeated event differs, or if the file cannot be
    /// written.
    pub fn append(&mut self, position: u64, event: &[u8]) -> Result<AppendOutcome, LogError> {
        let Some(log) = &mut self.log else {
            let name = self.directory.path.display().to_string();
            return Err(LogError::PositionMismatch { name, found: position, expected: 0 });
        };
        if position == log.last && position < log.position {
            log.compare_last(&self.directory.path, event)?;
            return Ok(AppendOutcome::Repeated);
        }
        log.check_end(position)?;
        assert!(log.last <= log.position, "ours: the last event starts before its end");
        assert!(log.synced <= log.position, "ours: only appended events are synced");
        assert_eq!(log.file.position(), log.position, "ours: an event is written at the end of its log");
        self.pending_bytes = event.len() as u64;
        log.file
            .write_all(event)
            .map_err(|cause| io_error("write to", &self.directory.path.join(&log.name))(cause))?;
        self.pending_bytes = 0;
        log.last = log.position;
        log.position += event.len() as u64;
        Ok(AppendOutcome::New)
    }

    /// Appends an event after the last event.
    ///
    /// # Errors
    ///
    /// Fails if no log has begun, or the file cannot be written.
    pub fn append_next(&mut self, event: &[u8]) -> Result<(), LogError> {
        let position = self.log.as_ref().map_or(0, |log| log.position);
        self.append(position, event).map(drop)
    }

    fn sync_directory(&self) -> Result<(), LogError> {
        let directory = File::open(&self.directory.path).map_err(io_error("open", &self.directory.path))?;
        directory.sync_all().map_err(io_error("sync", &self.directory.path))
    }

    /// Syncs all appended events to disk.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written or synced, if it was removed or replaced, or if an earlier sync has failed.
    /// After a failed sync, the error stays until the store is [reopened](StoreWriter::reopen).
    pub fn sync(&mut self) -> Result<(), LogError> {
        self.refuse_after_failed_sync()?;
        self.refuse_replaced_log()?;
        self.flush()?;
        self.finish_syncs()?;
        let Some(log) = &mut self.log else { return Ok(()) };
        if log.synced == log.position {
            return Ok(());
        }
        let (size, result) = (log.position, log.file.sync());
        self.end_sync(SyncEnd { number: self.started_sync, size, result })
    }

    /// Writes all appended events to the file, and starts to sync them to disk in a thread of the store. More events
    /// can be appended meanwhile. Returns the number of the sync, for comparison with [`StoreWriter::ended_sync`].
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written, if it was removed or replaced, if the thread cannot be started, or if an
    /// earlier sync has failed.
    pub fn start_sync(&mut self) -> Result<u64, LogError> {
        self.refuse_after_failed_sync()?;
        self.refuse_replaced_log()?;
        self.flush()?;
        self.ended_sync()?;
        let Some(log) = &mut self.log else { return Ok(self.started_sync) };
        assert!(log.synced <= log.requested, "ours: each synced byte was requested");
        if log.requested == log.position {
            return Ok(self.started_sync);
        }
        let failed = |cause| io_error("start to sync", &self.directory.path.join(&log.name))(cause);
        let syncer = match self.syncer.take() {
            Some(syncer) => syncer,
            None => LogSyncer::start().map_err(failed)?,
        };
        let syncer = self.syncer.insert(syncer);
        self.started_sync = syncer.request(log.file.share().map_err(failed)?, log.position);
        log.requested = log.position;
        Ok(self.started_sync)
    }

    /// Returns the number of the last completed sync. All events appended before its start are safe.
    ///
    /// # Errors
    ///
    /// Fails if a sync has failed.
    pub fn ended_sync(&mut self) -> Result<u64, LogError> {
        if let Some(end) = self.syncer.as_ref().and_then(LogSyncer::take_end) {
            self.end_sync(end)?;
        }
        Ok(self.ended_sync)
    }

    /// Returns a descriptor that is readable once a started sync has ended, until [`StoreWriter::ended_sync`] is
    /// called.
    pub fn sync_signal(&self) -> Option<BorrowedFd<'_>> {
        self.syncer.as_ref().map(LogSyncer::signal)
    }

    /// Returns the number of bytes at the end of the last log for which no sync was started.
    pub fn unsynced_bytes(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.position - log.requested)
    }

    fn flush(&mut self) -> Result<(), LogError> {
        let Some(log) = &mut self.log else { return Ok(()) };
        log.file.flush().map_err(io_error("write to", &self.directory.path.join(&log.name)))
    }

    /// Returns the error of an earlier failed sync again.
    fn refuse_after_failed_sync(&self) -> Result<(), LogError> {
        let Some(FailedSync { log, error_number, .. }) = &self.failed_sync else { return Ok(()) };
        let cause = error_number.map_or_else(|| ErrorKind::Other.into(), io::Error::from_raw_os_error);
        Err(io_error("sync", &self.directory.path.join(log))(cause))
    }

    /// Checks that the last log's path still leads to the written file. Readers would not find the events of a removed
    /// file, which no other call reports.
    fn refuse_replaced_log(&self) -> Result<(), LogError> {
        let Some(log) = &self.log else { return Ok(()) };
        assert!(log.requested <= log.position, "ours: only appended events are synced");
        let path = self.directory.path.join(&log.name);
        match log.file.is_at(&path).map_err(io_error("read the metadata of", &path))? {
            true => Ok(()),
            false => Err(LogError::ReplacedLog { name: path.display().to_string() }),
        }
    }

    /// Returns the path of the index; in an empty store, the path that it will have.
    fn index_path(&self, base: &str) -> Result<PathBuf, LogError> {
        match (self.directory.index()?, &self.log) {
            (Some(index), _) => Ok(index),
            (None, None) => Ok(self.directory.path.join(base).with_extension("index")),
            (None, Some(_)) => {
                Err(LogError::RemovedIndex { directory: self.directory.path.display().to_string() })
            }
        }
    }

    /// Waits until all started syncs have ended.
    fn finish_syncs(&mut self) -> Result<(), LogError> {
        match self.syncer.as_ref().and_then(LogSyncer::finish) {
            Some(end) => self.end_sync(end),
            None => Ok(()),
        }
    }

    /// Takes the end of a sync of the last log.
    fn end_sync(&mut self, end: SyncEnd) -> Result<(), LogError> {
        let SyncEnd { number, size, result } = end;
        let Some(log) = &mut self.log else { return Ok(()) };
        if let Err(cause) = result {
            self.failed_sync.get_or_insert_with(|| FailedSync {
                log: log.name.clone(),
                synced: log.synced,
                error_number: cause.raw_os_error(),
            });
            return Err(io_error("sync", &self.directory.path.join(&log.name))(cause));
        }
        assert!(size <= log.position, "ours: no log ends or begins while it is synced");
        assert!(number >= self.ended_sync, "ours: syncs end in order");
        (log.synced, log.requested) = (size, log.requested.max(size));
        self.ended_sync = number;
        Ok(())
    }

    /// Creates the log first, then its line in the index: a log that is not in the index has not begun.
    fn create(&mut self, name: &str, name_at_source: &str, base: &str) -> Result<(), LogError> {
        let before = self.log.as_ref();
        assert!(before.is_none_or(|log| log.name != name), "ours: a new log has a new name");
        let is_on_disk = before.is_none_or(|log| log.synced == log.position);
        assert!(is_on_disk, "ours: a log is on disk before the next one begins");
        let path = self.directory.path.join(name);
        let index = self.index_path(base)?;
        assert_eq!(index.parent(), path.parent(), "ours: an index is beside its logs");
        let key = self.encryption.new_log_key()?;
        self.pending_bytes = MAGIC.len() as u64;
        let file = LogFileWriter::create(&path, key.as_ref()).map_err(io_error("create", &path))?;
        let mut lines = private_options().append(true).open(&index).map_err(io_error("open", &index))?;
        let line = format!("{INDEX_PREFIX}{name}\n");
        let written = lines.write_all(line.as_bytes()).and_then(|()| lines.sync_all());
        written.map_err(io_error("write to", &index))?;
        self.sync_directory()?;
        self.pending_bytes = 0;
        self.directory.created.keep();
        let start = MAGIC.len() as u64;
        let (name, name_at_source) = (name.to_owned(), name_at_source.to_owned());
        let log = OpenLog {
            name,
            name_at_source,
            file,
            last: start,
            position: start,
            synced: start,
            requested: start,
        };
        self.log = Some(log);
        Ok(())
    }
}

impl StoreDirectory {
    /// Opens the store in this directory.
    ///
    /// # Errors
    ///
    /// Fails as [`StoreWriter::open`] does.
    pub fn open(self, at_rest: LogEncryption) -> Result<StoreWriter, LogError> {
        at_rest.check()?;
        StoreWriter::in_directory(self, at_rest)
    }
}

impl OpenLog {
    /// Sets the end of the log to this position. All bytes before it must be on disk.
    const fn set_end(&mut self, end: u64) {
        (self.last, self.position, self.synced, self.requested) = (end, end, end, end);
    }

    /// Checks that the log ends at this position.
    fn check_end(&self, found: u64) -> Result<(), LogError> {
        match self.position == found {
            true => Ok(()),
            false => {
                Err(LogError::PositionMismatch { name: self.name.clone(), found, expected: self.position })
            }
        }
    }

    /// Checks that a repeated event equals the last event of the log.
    fn compare_last(&mut self, directory: &Path, event: &[u8]) -> Result<(), LogError> {
        let path = directory.join(&self.name);
        let size = (self.position - self.last) as usize;
        let there = self.file.read(&path, self.last, size).map_err(io_error("read", &path))?;
        match there == event {
            true => Ok(()),
            false => Err(LogError::EventMismatch { name: self.name.clone(), offset: self.last }),
        }
    }
}

/// Parses the name of a source's log, which has no series.
fn parse_source_name(name: &str) -> Result<LogName<'_>, LogError> {
    let found = LogName::of(Path::new(name)).filter(|found| is_log_name(name) && found.series.is_none());
    found.ok_or_else(|| LogError::InvalidLogName { name: name.to_owned() })
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{FailedSync, LogEncryption, StoreWriter};
    use crate::log_reader::ReadOutcome;

    fn samples() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples")
    }

    #[test]
    fn a_started_sync_covers_earlier_events() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = StoreWriter::open(directory.path(), LogEncryption::Plain { keyring: None }).unwrap();
        assert_eq!((store.start_sync().unwrap(), store.ended_sync().unwrap()), (0, 0));
        store.begin_log("binlog.000001", 4).unwrap();
        let mut reader = crate::LogReader::open(samples().join("gtids/binlog.000001")).unwrap();
        while let ReadOutcome::Some(event) = reader.next_event().unwrap() {
            store.append_next(event.raw.bytes()).unwrap();
            let sync = store.start_sync().unwrap();
            assert_eq!((store.unsynced_bytes(), store.written_position()), (0, store.next_position()));
            assert_eq!(store.start_sync().unwrap(), sync, "nothing was appended since");
        }
        let sync = store.start_sync().unwrap();
        while store.ended_sync().unwrap() < sync {
            std::thread::yield_now();
        }
        let end = store.next_position();
        assert_eq!((store.reopen().unwrap(), store.next_position()), (0, end));
        store.sync().unwrap();
        store.begin_log("binlog.000002", 4).unwrap();
    }

    #[test]
    fn logs_have_a_number_and_follow_each_other() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = StoreWriter::open(directory.path(), LogEncryption::Plain { keyring: None }).unwrap();
        let mut check = |name: &str, expected: &str| {
            let error = store.begin_log(name, 4).unwrap_err().to_string();
            assert_eq!(error.replace(directory.path().to_str().unwrap(), "DIR"), expected);
        };
        check(
            "binlog.1",
            "\"binlog.1\" is not the name of a binary log: expected a base name, a dot and at least six digits",
        );
        std::fs::copy(samples().join("xa.binlog"), directory.path().join("binlog.000007")).unwrap();
        check(
            "binlog.000007",
            "could not create DIR/binlog.000007: it exists, but the index does not name it: restore the index, or \
             give another directory",
        );
        store.begin_log("binlog.000008", 4).unwrap();
        let error = store.begin_log("binlog.000003", 4).unwrap_err();
        assert_eq!(
            error.to_string(),
            "binlog.000003 does not follow binlog.000008: the source's logs were reset, or it is a different server"
        );
    }

    /// Bytes of a failed sync can be read, but may be missing on the disk.
    #[test]
    fn events_of_a_failed_sync_are_cut_on_reopen() {
        let keyring = samples().join("encrypted/keyring");
        for at_rest in [LogEncryption::Plain { keyring: None }, LogEncryption::Encrypted { keyring }] {
            let directory = tempfile::tempdir().unwrap();
            let mut store = StoreWriter::open(directory.path(), at_rest).unwrap();
            store.begin_log("binlog.000001", 4).unwrap();
            let mut reader = crate::LogReader::open(samples().join("gtids/binlog.000001")).unwrap();
            let mut events = Vec::new();
            while let ReadOutcome::Some(event) = reader.next_event().unwrap() {
                events.push(event.raw.bytes().to_vec());
            }
            let (synced, rest) = events.split_at(3);
            synced.iter().for_each(|event| store.append_next(event).unwrap());
            store.sync().unwrap();
            let end = store.next_position();
            rest.iter().for_each(|event| store.append_next(event).unwrap());
            let lost = store.next_position() - end;
            let (log, error_number) = ("binlog.000001".to_owned(), Some(28));
            store.failed_sync = Some(FailedSync { log, synced: end, error_number });
            // Another sync would succeed, and count the lost bytes as synced.
            assert!(store.sync().is_err_and(|error| error.is_disk_full()));
            assert!(store.start_sync().is_err_and(|error| error.is_disk_full()));
            assert!(store.begin_log("binlog.000002", 4).is_err());
            assert_eq!(store.log.as_ref().map(|log| log.synced), Some(end));
            assert_eq!((store.reopen().unwrap(), store.next_position()), (lost, end));
            rest.iter().for_each(|event| store.append_next(event).unwrap());
            store.sync().unwrap();
            assert_eq!((store.reopen().unwrap(), store.next_position()), (0, end + lost));
        }
    }
}
