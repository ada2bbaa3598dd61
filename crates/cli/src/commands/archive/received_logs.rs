//! Archives the logs that `receive` closes, in a separate thread.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::anyhow;
use archive::{Archive, Manifest, MissingDirectory};
use logs::{Store, lock};
use receive::ReceiveControl;
#[cfg(feature = "columns")]
use servers::ServerAddress;
use tracing::info;

use super::archiver_thread::{ArchiverShared, RunningArchiver};
use super::log_archiver::{
    ArchiveEncryption, ArchiverObserver, ArchiverSettings, LastLogPolicy, LogArchiver, check_skipped_logs,
};
use super::{archive_directory, is_directory_of_logs, open_storage, text};
use crate::commands::receive::ArchivingState;
use crate::exit::CommandFailure;

/// Archiver of a directory into which logs are received.
pub(crate) struct ReceivedLogArchiver {
    archive: Archive,
    directory: PathBuf,
    shared: Arc<ArchiverShared>,
    archived: ArchivedNames,
    settings: ArchiverSettings,
    #[cfg(feature = "columns")]
    tables: Option<super::table_writer::ChangeTableWriter>,
}

/// Names of the stored logs that are in the archive, shared between threads.
type ArchivedNames = Arc<Mutex<HashSet<String>>>;

/// Function that reports whether a stored log is in the archive.
pub(crate) type ArchivedLogCheck = Box<dyn Fn(&str) -> bool + Send + Sync>;

impl ReceivedLogArchiver {
    /// Opens the archive at this location for the logs of a directory. From now on, the receiver's retention limit
    /// deletes only logs that are known to be archived.
    pub(crate) fn open(
        location: &str,
        directory: &Path,
        control: &ReceiveControl,
        state: ArchivingState,
    ) -> Result<Self, CommandFailure> {
        let archive = open_storage(location, MissingDirectory::Create)?;
        if is_directory_of_logs(archive_directory(location).as_deref(), directory) {
            return Err(CommandFailure::NotStarted(anyhow!(
                "{location} cannot be the archive of its own logs: give --archive another directory"
            )));
        }
        let archived = ArchivedNames::default();
        let protecting = Arc::clone(&archived);
        control.protect_logs(move |logs| {
            let archived = lock(&protecting);
            logs.iter().position(|log| !archived.contains(*log))
        });
        Ok(Self {
            archive,
            directory: directory.to_owned(),
            shared: Arc::new(ArchiverShared::new(state)),
            archived,
            settings: ArchiverSettings { last_log: LastLogPolicy::Leave, ..ArchiverSettings::default() },
            #[cfg(feature = "columns")]
            tables: None,
        })
    }

    /// Encrypts new objects of the archive with the newest key of this keyring file. Encrypted logs are then decrypted
    /// before they are archived.
    pub(crate) fn with_encryption(mut self, keyring: PathBuf) -> Self {
        self.settings.encryption = ArchiveEncryption::NewestKey;
        self.settings.keyring = Some(keyring);
        self
    }

    /// Makes the archiver write change tables, if they are requested. The sources have the column names that the logs
    /// lack.
    #[cfg(feature = "columns")]
    pub(crate) fn with_tables(
        mut self,
        options: super::ChangeTableArgs,
        sources: &[ServerAddress],
    ) -> Result<Self, CommandFailure> {
        let keyring = self.settings.keyring.clone();
        self.tables = super::table_writer(&self.archive, keyring, options, sources.to_vec())?;
        Ok(self)
    }

    /// Returns a function that reports whether a stored log is in the archive.
    pub(crate) fn archived_logs(&self) -> ArchivedLogCheck {
        let archived = Arc::clone(&self.archived);
        Box::new(move |log| lock(&archived).contains(log))
    }

    /// Starts the thread. It repeats each failed attempt.
    pub(crate) fn start(self) -> Result<RunningArchiver, CommandFailure> {
        let observer = ReceivedLogObserver { shared: Arc::clone(&self.shared), archived: self.archived };
        let archiver = LogArchiver::new(self.archive, self.settings, observer);
        #[cfg(feature = "columns")]
        let archiver = archiver.with_tables(self.tables);
        let (mut archiver, directory) = (archiver, self.directory);
        RunningArchiver::start(self.shared, move || archive_closed(&directory, &mut archiver), |_| false)
    }
}

fn archive_closed(
    directory: &Path,
    archiver: &mut LogArchiver<ReceivedLogObserver>,
) -> Result<(), CommandFailure> {
    // An empty directory has no index yet. The receiver reports an index that it cannot read.
    let Ok(store) = Store::open(directory) else { return Ok(()) };
    archiver.observer.begin_attempt(store.logs());
    let damaged = archiver.archive_all(store.logs())?;
    check_skipped_logs(damaged, "; until then, --keep deletes neither this log nor later ones")
}

/// Observer that counts archived logs, and reports them as messages.
struct ReceivedLogObserver {
    shared: Arc<ArchiverShared>,
    archived: ArchivedNames,
}

impl ReceivedLogObserver {
    /// Counts the closed logs among these that are not archived.
    fn begin_attempt(&self, logs: &[PathBuf]) {
        let names: HashSet<String> = logs.iter().filter_map(|log| name_of(log)).collect();
        let archived = {
            let mut archived = lock(&self.archived);
            archived.retain(|name| names.contains(name));
            archived.len()
        };
        let closed = logs.len().saturating_sub(1);
        self.shared.state.update(|figures| figures.waiting = closed.saturating_sub(archived) as u64);
    }

    fn add(&self, log: &Path) {
        lock(&self.archived).extend(name_of(log));
        self.shared.state.update(|figures| figures.waiting = figures.waiting.saturating_sub(1));
    }
}

impl ArchiverObserver for ReceivedLogObserver {
    fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }

    fn progress(&mut self, _: u64, _: Option<u64>) {}

    fn archived(&mut self, log: &Path, manifest: Manifest) {
        info!("{}", text::archived_line(log, &manifest));
        text::warn_missing_tables(log, &manifest);
        self.shared.state.update(|figures| figures.add(manifest.size, manifest.stored_size()));
        self.add(log);
    }

    fn present(&mut self, log: &Path) {
        self.add(log);
    }

    fn left_open(&mut self, _: &Path) {}

    /// `receive` deletes logs only as `--keep` says.
    fn removed(&mut self, _: &Path) {}
}

fn name_of(log: &Path) -> Option<String> {
    log.file_name().and_then(|name| name.to_str()).map(str::to_owned)
}
