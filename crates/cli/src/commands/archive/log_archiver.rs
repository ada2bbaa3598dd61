//! Archives each closed log of a directory once: for `archive`, `archive --follow`, and `receive --archive`.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use anyhow::{Context, anyhow};
use archive::{
    AddOptions, Archive, ArchiveError, ArchiveOutcome, DamagedManifest, Manifest, SegmentTrial, TableWriter,
};
use binlog::MAGIC;
use binlog::encryption::Keyring;
use logs::{
    EndOfLog, LogEncryption, LogError, LogReader, RawPiece, ReadOutcome, Store, StoreWriter, WriterPresence,
    base_name, find_writer, is_later_in_store, is_received_store, lock, log_order, parent_of, read_keyring,
};
use tracing::warn;

#[cfg(feature = "columns")]
use super::table_writer::ChangeTableWriter;
use super::{digest_of, failed, newest_key, text};
use crate::commands::receive::encryption_needs_keyring;
use crate::exit::CommandFailure;
use crate::log_args::add_advice;
use crate::units::counted;

/// Size of the first piece of a file, which shows whether it is a log.
const FIRST_PIECE_SIZE: usize = 4096;
/// Size of the pieces in which a log is read to find its end.
const PIECE_SIZE: usize = 4 << 20;
/// Number of events at the start of a log: the format description, and the list of earlier transactions.
const HEAD_EVENTS: usize = 2;

/// Settings of a [`LogArchiver`].
#[derive(Clone, Debug, Default)]
pub(super) struct ArchiverSettings {
    /// Keyring file of encrypted logs and archives; without a keyring, encrypted logs are archived unchanged.
    pub(super) keyring: Option<PathBuf>,
    pub(super) encryption: ArchiveEncryption,
    /// Logs given by name: they do not grow, unless a process writes them.
    pub(super) named: Vec<PathBuf>,
    pub(super) local_logs: LocalLogPolicy,
    pub(super) last_log: LastLogPolicy,
}

/// Encryption of objects that are added to an archive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ArchiveEncryption {
    /// No encryption. An encrypted archive refuses such objects.
    #[default]
    None,
    /// With the newest key for logs of the keyring.
    NewestKey,
}

/// Handling of a log that no later log follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LastLogPolicy {
    /// Read the log, to find out whether its server has closed it.
    #[default]
    Read,
    /// As `Read`, but only if the log has not grown between two checks: a growing log is not closed.
    ReadAtRest,
    /// Treat the log as open.
    Leave,
}

/// Handling of a log's file after the log was archived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum LocalLogPolicy {
    /// Keep the log.
    #[default]
    Keep,
    /// Remove the log after the archived log was read back, unless it is the newest one.
    Remove,
}

/// Observer of a [`LogArchiver`].
pub(super) trait ArchiverObserver: Send {
    /// Returns whether the archiver is to stop.
    fn is_stopping(&self) -> bool;

    /// Takes the number of bytes of the present log that were read, of all bytes if known.
    fn progress(&mut self, bytes_read: u64, bytes_total: Option<u64>);

    /// Takes the manifest of a log that was archived.
    fn archived(&mut self, log: &Path, manifest: Manifest);

    /// Takes a log that was in the archive already.
    fn present(&mut self, log: &Path);

    /// Takes a log that its server has not closed yet.
    fn left_open(&mut self, log: &Path);

    /// Takes an archived log that was deleted from its directory.
    fn removed(&mut self, log: &Path);
}

/// Archives closed logs, each once.
pub(super) struct LogArchiver<O> {
    archive: Archive,
    settings: ArchiverSettings,
    pub(super) observer: O,
    /// Logs that are in the archive, with their state when they were archived.
    finished: HashMap<PathBuf, LogVersion>,
    /// Logs that were still open, with their last observed state.
    open: HashMap<PathBuf, LogObservation>,
    #[cfg(feature = "columns")]
    tables: Option<ChangeTableWriter>,
}

/// Size of a log, and the time of its last change: another log of this name differs.
type LogVersion = (u64, Option<SystemTime>);

/// Log that was open when it was last seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LogObservation {
    version: LogVersion,
    /// Set if this version was read.
    is_read: bool,
}

/// Result of archiving one log.
enum ArchiveStep {
    /// The archive has the log.
    Archived,
    /// The log is still open, or has no events.
    LeftOut,
    /// The archive has a damaged manifest of the log.
    Damaged(DamagedManifest),
    /// The run was stopped.
    Stopped,
}

/// Fails if logs were skipped because their manifests are damaged. `effect` follows the error in the message.
pub(super) fn check_skipped_logs(damaged: Vec<DamagedManifest>, effect: &str) -> Result<(), CommandFailure> {
    let more = damaged.len().saturating_sub(1);
    let Some(DamagedManifest { log, error }) = damaged.into_iter().next() else { return Ok(()) };
    let others = match more {
        0 => String::new(),
        more => format!("; the same applies to {}", counted(more as u64, "further manifest")),
    };
    Err(CommandFailure::Failed(anyhow!("{log}: {error}{effect}{others}")))
}

impl<O: ArchiverObserver> LogArchiver<O> {
    /// Creates an archiver for this archive.
    pub(super) fn new(archive: Archive, settings: ArchiverSettings, observer: O) -> Self {
        Self {
            archive,
            settings,
            observer,
            finished: HashMap::new(),
            open: HashMap::new(),
            #[cfg(feature = "columns")]
            tables: None,
        }
    }

    /// Makes the archiver write change tables of each log, too.
    #[cfg(feature = "columns")]
    pub(super) fn with_tables(mut self, tables: Option<ChangeTableWriter>) -> Self {
        self.tables = tables;
        self
    }

    /// Returns the logs among these that are not known to be archived.
    pub(super) fn unfinished(&self, logs: &[PathBuf]) -> Vec<PathBuf> {
        logs.iter().filter(|log| !self.is_finished(log)).cloned().collect()
    }

    /// Archives all closed logs among these. Skips logs whose manifests are damaged, and returns these manifests. Also
    /// skips logs that can never be archived, and returns the error of the first one at the end.
    pub(super) fn archive_all(&mut self, logs: &[PathBuf]) -> Result<Vec<DamagedManifest>, CommandFailure> {
        let mut damaged = Vec::new();
        let mut unfit = None;
        // Forget logs that have disappeared, because their number is unlimited.
        let listed: HashSet<&PathBuf> = logs.iter().collect();
        self.finished.retain(|log, _| listed.contains(log));
        self.open.retain(|log, _| listed.contains(log));
        for (number, log) in logs.iter().enumerate() {
            if self.observer.is_stopping() {
                break;
            }
            let has_later = self.has_later(log, &logs[number + 1..]);
            let is_new = !self.is_finished(log);
            if is_new {
                let version = fs::metadata(log).ok().map(version_of);
                match self.archive_if_closed(log, has_later) {
                    Ok(ArchiveStep::Archived) => {}
                    Ok(ArchiveStep::LeftOut) => continue,
                    Ok(ArchiveStep::Damaged(manifest)) => {
                        damaged.push(manifest);
                        continue;
                    }
                    Ok(ArchiveStep::Stopped) => break,
                    Err(failure) if is_of_unfit_log(&failure) => {
                        unfit.get_or_insert(failure);
                        continue;
                    }
                    Err(failure) => return Err(failure),
                }
                self.finished.extend(version.map(|version| (log.clone(), version)));
            }
            if self.settings.local_logs == LocalLogPolicy::Remove {
                self.remove_unless_newest(log, has_later, is_new)?;
            }
        }
        unfit.map_or(Ok(damaged), Err)
    }

    /// Returns whether a log was archived as it is now. After RESET BINARY LOGS, a server uses the same names again.
    fn is_finished(&self, log: &Path) -> bool {
        let known = self.finished.get(log);
        known.is_some_and(|known| fs::metadata(log).ok().map(version_of).is_none_or(|found| found == *known))
    }

    fn archive_if_closed(&mut self, log: &Path, has_later: bool) -> Result<ArchiveStep, CommandFailure> {
        if !has_later && !self.is_closed(log)? {
            self.observer.left_open(log);
            return Ok(ArchiveStep::LeftOut);
        }
        let found = fs::metadata(log).ok();
        if has_later && found.as_ref().is_some_and(|found| found.len() <= MAGIC.len() as u64) {
            // A server leaves such a log if it crashes while it creates it.
            warn!("{} has no events, and is not archived", log.display());
            self.finished.extend(found.map(|found| (log.to_owned(), version_of(found))));
            return Ok(ArchiveStep::LeftOut);
        }
        check_log(log)?;
        self.archive_one(log)
    }

    /// Returns whether a later log shows that this log is closed. The first log of another server counts only with its
    /// head: `receive` may remove a log without a head, and append to the previous log.
    fn has_later(&self, log: &Path, following: &[PathBuf]) -> bool {
        let Some(later) = following.first().filter(|later| is_later(later, log)) else { return false };
        let series =
            |path: &Path| path.file_name().and_then(|name| name.to_str()).map(|name| log_order(name).0);
        // Only the last log of a directory can lack its head.
        series(later) == series(log) || following.len() > 1 || self.has_head(later)
    }

    fn has_head(&self, log: &Path) -> bool {
        let Ok(mut reader) = self.open_log(log) else { return false };
        (0..HEAD_EVENTS).all(|_| matches!(reader.next_event(), Ok(ReadOutcome::Some(_))))
    }

    fn open_log(&self, log: &Path) -> Result<LogReader, LogError> {
        LogReader::open(log)?.with_keyring_file(self.settings.keyring.as_ref())
    }

    /// Reads the keyring. A server may have added a key since the last log.
    fn keyring(&self) -> Result<Option<Arc<Keyring>>, CommandFailure> {
        let keyring = self.settings.keyring.as_ref().map(read_keyring).transpose();
        let keyring = keyring.map_err(|error| CommandFailure::NotStarted(error.into()))?;
        Ok(keyring.map(Arc::new))
    }

    /// Returns the archive with the keys that read and write its objects.
    fn archive_with(&self, keyring: Option<&Arc<Keyring>>) -> Result<Archive, CommandFailure> {
        let key = match (self.settings.encryption, keyring) {
            (ArchiveEncryption::None, _) => None,
            (ArchiveEncryption::NewestKey, Some(keyring)) => Some(newest_key(keyring)?),
            (ArchiveEncryption::NewestKey, None) => return Err(encryption_needs_keyring("encryption")),
        };
        Ok(self.archive.clone().with_keys(keyring.cloned().into()).with_master_key(key))
    }

    /// Archives one log.
    fn archive_one(&mut self, log: &Path) -> Result<ArchiveStep, CommandFailure> {
        let keyring = self.keyring()?;
        let archive = self.archive_with(keyring.as_ref())?;
        let size = fs::metadata(log).ok().map(|found| found.len());
        let trial = match self.settings.local_logs {
            LocalLogPolicy::Remove => SegmentTrial::ReadBack,
            LocalLogPolicy::Keep => SegmentTrial::Blocks,
        };
        let observer = Mutex::new(&mut self.observer);
        let is_stopping = || lock(&observer).is_stopping();
        #[cfg(feature = "columns")]
        let mut write =
            self.tables.as_mut().map(|tables| |log: &Path| tables.write(log, &archive, is_stopping));
        #[cfg(feature = "columns")]
        let tables = write.as_mut().map(|write| write as &mut TableWriter<'_>);
        #[cfg(not(feature = "columns"))]
        let tables: Option<&mut TableWriter<'_>> = None;
        let options = AddOptions { keyring: keyring.as_deref(), trial, tables };
        let mut watch = |done| {
            lock(&observer).progress(done, size);
            match is_stopping() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let added = archive.add(log, options, &mut watch);
        #[cfg(feature = "columns")]
        if let Some(tables) = &self.tables {
            // Files that cannot be deleted now will be deleted with their directory.
            let _ = tables.clear();
        }
        match added {
            Ok(outcome) => self.note_outcome(log, &archive, outcome)?,
            Err(ArchiveError::Interrupted) => return Ok(ArchiveStep::Stopped),
            Err(error) if error.is_damaged_manifest() => {
                return Ok(ArchiveStep::Damaged(DamagedManifest { log: base_name(log), error }));
            }
            Err(error) => return Err(failed(error, &log.display().to_string())),
        }
        Ok(ArchiveStep::Archived)
    }

    /// Reports a log that the archive has now. Before the local log is removed, checks what an earlier run has stored.
    fn note_outcome(
        &mut self,
        log: &Path,
        archive: &Archive,
        outcome: ArchiveOutcome,
    ) -> Result<(), CommandFailure> {
        let is_new = matches!(outcome, ArchiveOutcome::Archived(_));
        let is_repaired = matches!(outcome, ArchiveOutcome::Repaired(_));
        let is_present = matches!(outcome, ArchiveOutcome::Present(_));
        let manifest = outcome.into_manifest();
        if !is_new && self.settings.local_logs == LocalLogPolicy::Remove {
            check_present(log, archive, &manifest)?;
        }
        if !is_new && self.settings.encryption == ArchiveEncryption::NewestKey {
            text::warn_plain(log, &manifest);
        }
        if is_repaired {
            text::warn_repaired(log);
        }
        match is_present {
            true => self.observer.present(log),
            false => self.observer.archived(log, manifest),
        }
        Ok(())
    }

    /// Returns whether the server has closed the log, so that it ends with a Rotate or Stop event. Does not read an
    /// unchanged log again.
    fn is_closed(&mut self, log: &Path) -> Result<bool, CommandFailure> {
        if self.settings.last_log == LastLogPolicy::Leave {
            return Ok(false);
        }
        let found = fs::metadata(log).with_context(|| format!("could not open {}", log.display()))?;
        let version = version_of(found);
        let seen = self.open.get(log).filter(|seen| seen.version == version);
        let is_at_rest = seen.is_some() || self.settings.last_log == LastLogPolicy::Read;
        if !is_at_rest || seen.is_some_and(|seen| seen.is_read) {
            self.open.insert(log.to_owned(), LogObservation { version, is_read: is_at_rest });
            return Ok(false);
        }
        let is_closed = match self.read_to_end(log)? {
            EndOfLog::Closed => true,
            _ if !self.settings.named.iter().any(|named| named == log) => false,
            // A log that was given by name does not grow any more, unless a process writes it.
            end => match find_writer(log) {
                WriterPresence::Closed => true,
                WriterPresence::Open => false,
                WriterPresence::Unknown => !may_be_in_use(&end),
            },
        };
        if !is_closed {
            self.open.insert(log.to_owned(), LogObservation { version, is_read: true });
        }
        Ok(is_closed)
    }

    /// Reads a log, and returns its end. A damaged log ends at its first damage, and an encrypted log without a keyring
    /// at its start.
    fn read_to_end(&self, log: &Path) -> Result<EndOfLog, CommandFailure> {
        let unreadable = |error: LogError| CommandFailure::NotStarted(add_advice(error));
        let mut reader = self.open_log(log).map_err(unreadable)?;
        loop {
            match reader.next_raw_piece(PIECE_SIZE, PIECE_SIZE) {
                Ok(ReadOutcome::Some(RawPiece::Chunk(_) | RawPiece::LargeEvent(_))) => {}
                Ok(ReadOutcome::End(end)) => return Ok(end),
                Err(LogError::Corrupt { .. } | LogError::KeyringRequired { .. }) => {
                    return Ok(EndOfLog::Open { in_use: reader.in_use() });
                }
                Err(error) => return Err(unreadable(error)),
            }
        }
    }

    /// Removes an archived log, if its directory has a later log. `is_new` is set if the log was archived just now.
    fn remove_unless_newest(
        &mut self,
        log: &Path,
        has_later: bool,
        is_new: bool,
    ) -> Result<(), CommandFailure> {
        // A store removes its archived logs from the oldest one on: only a new one lets it remove more.
        if !is_new && is_received_store(parent_of(log)) {
            return Ok(());
        }
        if has_later || directory_has_later(log) {
            return self.remove(log);
        }
        if is_new && self.settings.last_log == LastLogPolicy::Read {
            warn!("{} is the newest log of its directory, and is not deleted", log.display());
        }
        Ok(())
    }

    /// Removes an archived log. From a store, removes all archived logs before the first one that is not archived: a
    /// store has no gaps.
    fn remove(&mut self, log: &Path) -> Result<(), CommandFailure> {
        let removed = match is_received_store(parent_of(log)) {
            true => self.remove_from_store(parent_of(log))?,
            false => {
                fs::remove_file(log)
                    .and_then(|()| logs::sync_parent(log))
                    .with_context(|| format!("could not delete {}", log.display()))
                    .map_err(CommandFailure::Failed)?;
                vec![log.to_owned()]
            }
        };
        removed.iter().for_each(|log| self.observer.removed(log));
        Ok(())
    }

    /// Removes the archived logs of a store before the first one that is not archived, and returns them.
    fn remove_from_store(&self, directory: &Path) -> Result<Vec<PathBuf>, CommandFailure> {
        let archived: HashSet<_> =
            self.finished.keys().filter(|other| parent_of(other) == directory).collect();
        let names: HashSet<_> = archived.iter().filter_map(|log| log.file_name()).collect();
        let unreadable = |error: LogError| CommandFailure::Failed(add_advice(error));
        let store = Store::open(directory).map_err(unreadable)?;
        let logs = store.logs();
        let is_archived = |log: &PathBuf| log.file_name().is_some_and(|name| names.contains(name));
        let archived = logs.iter().take_while(|log| is_archived(log)).count();
        let Some(first_kept) = logs.get(archived).or(logs.last()) else { return Ok(Vec::new()) };
        let Some(first_kept) = first_kept.file_name().and_then(OsStr::to_str) else { return Ok(Vec::new()) };
        let encryption = LogEncryption::Plain { keyring: self.settings.keyring.clone() };
        let purged =
            StoreWriter::open(directory, encryption).and_then(|mut store| store.purge_before(first_kept, 1));
        Ok(logs.iter().take(purged.map_err(unreadable)?).cloned().collect())
    }
}

/// Checks that the archived log can be restored and equals this log, before this log is removed.
fn check_present(log: &Path, archive: &Archive, manifest: &Manifest) -> Result<(), CommandFailure> {
    let name = log.display().to_string();
    if digest_of(log).with_context(|| format!("could not read {name}"))? != manifest.sha256 {
        return Err(failed(ArchiveError::OtherLog { name: manifest.log.clone() }, &name));
    }
    archive.verify(manifest).map_err(|error| failed(error, &name))
}

/// Returns whether the failure is of a log that can never be archived: it is not a log, has no events, or the archive has
/// a log of this name with other contents.
pub(super) fn is_of_unfit_log(failure: &CommandFailure) -> bool {
    let (CommandFailure::Failed(error) | CommandFailure::Aborted(error)) = failure else { return false };
    match error.downcast_ref() {
        Some(LogError::NotALog { .. }) => true,
        Some(LogError::Torn { torn, .. }) => !torn.follows_events(),
        _ => matches!(error.downcast_ref(), Some(ArchiveError::OtherLog { .. })),
    }
}

/// Refuses a file that is not a log, or has no events.
pub(super) fn check_log(log: &Path) -> Result<(), CommandFailure> {
    let mut reader = LogReader::open(log).map_err(|error| CommandFailure::NotStarted(add_advice(error)))?;
    match reader.next_raw_piece(FIRST_PIECE_SIZE, FIRST_PIECE_SIZE) {
        Ok(ReadOutcome::End(EndOfLog::Torn(torn))) if !torn.follows_events() => {
            Err(CommandFailure::Failed(reader.torn_error(torn).into()))
        }
        Err(error @ LogError::NotALog { .. }) => Err(CommandFailure::Failed(add_advice(error))),
        _ => Ok(()),
    }
}

/// Returns whether a log is later than another one of the same directory.
fn is_later(log: &Path, than: &Path) -> bool {
    let names =
        log.file_name().and_then(|log| log.to_str()).zip(than.file_name().and_then(|than| than.to_str()));
    parent_of(log) == parent_of(than) && names.is_some_and(|(log, than)| is_later_in_store(log, than))
}

/// Returns whether the directory of a log has a later log of the same server.
fn directory_has_later(log: &Path) -> bool {
    let series = |name: &OsStr| name.to_str().map(|name| log_order(name).0.to_owned());
    let Ok(entries) = fs::read_dir(parent_of(log)) else { return false };
    let mut paths = entries.flatten().map(|entry| parent_of(log).join(entry.file_name()));
    paths.any(|other| {
        is_later(&other, log) && other.file_name().and_then(series) == log.file_name().and_then(series)
    })
}

fn version_of(found: Metadata) -> LogVersion {
    (found.len(), found.modified().ok())
}

/// Returns whether the server may still write the log: it clears this mark when it closes the log.
fn may_be_in_use(end: &EndOfLog) -> bool {
    match end {
        EndOfLog::Closed => false,
        EndOfLog::Open { in_use } => *in_use,
        EndOfLog::Torn(torn) => torn.in_use,
    }
}
