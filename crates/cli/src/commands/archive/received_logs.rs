//! Archives the logs that `receive` closes, in a separate thread.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use archive::{Archive, Manifest, MissingDirectory};
use logs::Store;
use receive::ReceiveControl;
#[cfg(feature = "columns")]
use servers::ServerAddress;
use tracing::{info, warn};

use super::log_archiver::{ArchiverObserver, ArchiverSettings, LastLogPolicy, LogArchiver, lock};
use super::{is_directory_of_logs, open_storage, text};
use crate::commands::receive::ArchivingState;
use crate::exit::{CommandFailure, failure_message};
use crate::interrupt;
use crate::units::{counted, duration};

/// Interval at which the thread checks the directory for another closed log.
const STORE_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which waits poll for the end of the run.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Minimum and maximum pause after a failed attempt.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(10 * 60);
/// Maximum wait for the thread to abandon an unfinished log when the run ends. If an object store does not answer in
/// time, the process ends anyway: a segment without a manifest is ignored.
const ABANDON_TIMEOUT: Duration = Duration::from_secs(5);

/// Archiver of a directory into which logs are received.
pub(crate) struct ReceivedLogArchiver {
    archive: Archive,
    folder: PathBuf,
    shared: Arc<ArchiverShared>,
    #[cfg(feature = "columns")]
    tables: Option<super::table_writer::ChangeTableWriter>,
}

/// Archiver whose thread runs.
pub(crate) struct RunningArchiver {
    shared: Arc<ArchiverShared>,
    thread: JoinHandle<Result<(), CommandFailure>>,
}

/// Function that reports whether a stored log is in the archive.
pub(crate) type ArchivedLogs = Box<dyn Fn(&str) -> bool + Send + Sync>;

/// Handling of logs that are not archived when the run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArchiverShutdown {
    /// Archive waiting logs, with one attempt.
    Drain,
    /// Leaves them to the next run.
    Abandon,
}

/// State shared between the receiver and the archiver.
#[derive(Default)]
struct ArchiverShared {
    state: ArchivingState,
    /// Names of the stored logs that are in the archive.
    archived: Mutex<HashSet<String>>,
    end: Mutex<Option<ArchiverShutdown>>,
}

impl ReceivedLogArchiver {
    /// Opens the archive at this location for the logs of a directory. From now on, the receiver's retention limit
    /// spares logs that are not known to be archived.
    pub(crate) fn open(
        location: &str,
        folder: &Path,
        control: &ReceiveControl,
        state: ArchivingState,
    ) -> Result<Self, CommandFailure> {
        let archive = open_storage(location, MissingDirectory::Create)?;
        if is_directory_of_logs(location, folder) {
            return Err(CommandFailure::NotStarted(anyhow!(
                "{location} cannot be the archive of its own logs: give --archive another directory"
            )));
        }
        let shared = Arc::new(ArchiverShared { state, ..ArchiverShared::default() });
        let protecting = Arc::clone(&shared);
        control.protect_logs(move |logs| {
            let archived = lock(&protecting.archived);
            logs.iter().position(|log| !archived.contains(*log))
        });
        Ok(Self {
            archive,
            folder: folder.to_owned(),
            shared,
            #[cfg(feature = "columns")]
            tables: None,
        })
    }

    /// Makes the archiver write change tables, if they are requested. The sources have the column names that the logs
    /// lack.
    #[cfg(feature = "columns")]
    pub(crate) fn with_tables(
        mut self,
        options: super::ChangeTableArgs,
        sources: &[ServerAddress],
    ) -> Result<Self, CommandFailure> {
        self.tables = super::table_writer(&self.archive, None, options, sources.to_vec())?;
        Ok(self)
    }

    /// Returns a function that reports whether a stored log is in the archive.
    pub(crate) fn archived_logs(&self) -> ArchivedLogs {
        let shared = Arc::clone(&self.shared);
        Box::new(move |log| lock(&shared.archived).contains(log))
    }

    /// Starts the thread.
    pub(crate) fn start(self) -> RunningArchiver {
        let shared = Arc::clone(&self.shared);
        RunningArchiver { shared, thread: thread::spawn(move || self.run()) }
    }

    /// Archives closed logs until the end of the run. A failed attempt is repeated after growing pauses.
    fn run(self) -> Result<(), CommandFailure> {
        let Self {
            archive,
            folder,
            shared,
            #[cfg(feature = "columns")]
            tables,
        } = self;
        let observer = ReceivedLogObserver { shared: Arc::clone(&shared) };
        let settings = ArchiverSettings { last_log: LastLogPolicy::Leave, ..ArchiverSettings::default() };
        let archiver = LogArchiver::new(archive, settings, observer);
        #[cfg(feature = "columns")]
        let archiver = archiver.with_tables(tables);
        let mut archiver = archiver;
        let mut backoff = None;
        // Report each error once, until an attempt succeeds.
        let mut reported = HashSet::new();
        loop {
            let is_last = shared.end().is_some();
            let outcome = shared.archive_closed(&folder, &mut archiver);
            match outcome {
                _ if shared.is_stopping() => return Ok(()),
                outcome if is_last => return outcome,
                Ok(()) => {
                    (backoff, reported) = (None, HashSet::new());
                    shared.state.update(|figures| figures.error = None);
                }
                Err(failure) => {
                    let pause = backoff.map_or(BACKOFF_MIN, |pause: Duration| (pause * 2).min(BACKOFF_MAX));
                    backoff = Some(pause);
                    let error = failure_message(&failure);
                    if reported.insert(error.clone()) {
                        shared.warn_failed(&error, pause);
                    }
                    shared.state.update(|figures| {
                        figures.failures += 1;
                        figures.error = Some(error);
                    });
                }
            }
            shared.wait(backoff.unwrap_or(STORE_INTERVAL));
        }
    }
}

impl RunningArchiver {
    /// Ends the thread. Returns its error if logs were to be archived at the end.
    pub(crate) fn finish(self, end: ArchiverShutdown) -> Result<(), CommandFailure> {
        *lock(&self.shared.end) = Some(end);
        let mut stopping_since = None;
        while !self.thread.is_finished() {
            if self.shared.is_stopping() {
                let since: &Instant = stopping_since.get_or_insert_with(Instant::now);
                if since.elapsed() > ABANDON_TIMEOUT {
                    return Ok(());
                }
            }
            thread::sleep(POLL_INTERVAL);
        }
        self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl ArchiverShared {
    fn archive_closed(
        &self,
        folder: &Path,
        archiver: &mut LogArchiver<ReceivedLogObserver>,
    ) -> Result<(), CommandFailure> {
        // An empty directory has no index yet. The receiver reports an index that it cannot read.
        let Ok(store) = Store::open(folder) else { return Ok(()) };
        let names: HashSet<String> = store.logs().iter().filter_map(|log| name_of(log)).collect();
        let archived = {
            let mut archived = lock(&self.archived);
            archived.retain(|name| names.contains(name));
            archived.len()
        };
        let closed = store.logs().len().saturating_sub(1);
        self.state.update(|figures| figures.waiting = closed.saturating_sub(archived) as u64);
        archiver.archive_all(store.logs())
    }

    fn warn_failed(&self, error: &str, pause: Duration) {
        let logs = counted(self.state.figures().waiting, "closed log");
        warn!("{error}; {logs} to archive; retrying in {}, then at growing intervals", duration(pause));
    }

    fn end(&self) -> Option<ArchiverShutdown> {
        *lock(&self.end)
    }

    fn is_stopping(&self) -> bool {
        interrupt::is_stop_requested() || self.end() == Some(ArchiverShutdown::Abandon)
    }

    /// Waits for this time, or until the run ends.
    fn wait(&self, pause: Duration) {
        let began = Instant::now();
        while began.elapsed() < pause && self.end().is_none() && !interrupt::is_stop_requested() {
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn add(&self, log: &Path) {
        lock(&self.archived).extend(name_of(log));
        self.state.update(|figures| figures.waiting = figures.waiting.saturating_sub(1));
    }
}

/// Observer that counts archived logs, and reports them as messages.
struct ReceivedLogObserver {
    shared: Arc<ArchiverShared>,
}

impl ArchiverObserver for ReceivedLogObserver {
    fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }

    fn progress(&mut self, _: u64, _: Option<u64>) {}

    fn archived(&mut self, log: &Path, manifest: Manifest) {
        info!("{}", text::archived_line(log, &manifest));
        text::warn_missing_tables(log, &manifest);
        self.shared.state.update(|figures| {
            figures.logs += 1;
            figures.bytes_from += manifest.size;
            figures.bytes_to += manifest.stored_size();
        });
        self.shared.add(log);
    }

    fn present(&mut self, log: &Path) {
        self.shared.add(log);
    }

    fn left_open(&mut self, _: &Path) {}
}

fn name_of(log: &Path) -> Option<String> {
    log.file_name().and_then(|name| name.to_str()).map(str::to_owned)
}
