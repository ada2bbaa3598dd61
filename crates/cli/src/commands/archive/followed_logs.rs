//! `bintide archive --follow`: archives each log of a directory once its server has closed it, until stopped.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use archive::Manifest;
use logs::{LogError, Store};

use super::archiver_thread::{ArchiverShared, ArchiverShutdown, POLL_INTERVAL, RunningArchiver};
use super::log_archiver::{ArchiverObserver, LogArchiver, check_skipped_logs, is_of_unfit_log};
use super::text;
use crate::commands::receive::ArchivingState;
use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::log_args::add_advice;
use crate::progress::ByteProgress;
use crate::screen;
use crate::service_state::ServiceState;
use crate::units::{bytes, counted};

/// Archiver of a directory that a server or `receive` writes.
pub(super) struct FollowedLogArchiver {
    archiver: LogArchiver<FollowedLogObserver>,
    store: Store,
    shared: Arc<ArchiverShared>,
}

/// Observer that prints archived logs, and keeps only numbers of them.
pub(super) struct FollowedLogObserver {
    shared: Arc<ArchiverShared>,
    global: GlobalArgs,
    /// Progress of the present log.
    bar: Option<ByteProgress>,
    /// Closed logs that are not archived yet, each with the time of its last change.
    waiting: VecDeque<(PathBuf, Option<SystemTime>)>,
}

impl FollowedLogObserver {
    /// Creates the observer of a run with this state.
    pub(super) fn new(state: ArchivingState, global: &GlobalArgs) -> Self {
        Self {
            shared: Arc::new(ArchiverShared::new(state)),
            global: global.clone(),
            bar: None,
            waiting: VecDeque::new(),
        }
    }

    fn set_waiting(&mut self, logs: Vec<PathBuf>) {
        let with_time = |log: PathBuf| {
            let changed = fs::metadata(&log).and_then(|found| found.modified()).ok();
            (log, changed)
        };
        self.waiting = logs.into_iter().map(with_time).collect();
        self.count_waiting();
    }

    fn remove_waiting(&mut self, log: &Path) {
        self.waiting.retain(|(waiting, _)| waiting != log);
        self.count_waiting();
    }

    fn count_waiting(&self) {
        let oldest = self.waiting.front().and_then(|(_, changed)| *changed);
        self.shared.state.update(|figures| {
            figures.waiting = self.waiting.len() as u64;
            figures.waiting_since = oldest;
        });
    }
}

impl ArchiverObserver for FollowedLogObserver {
    fn is_stopping(&self) -> bool {
        self.shared.is_stopping()
    }

    fn progress(&mut self, bytes_read: u64, bytes_total: Option<u64>) {
        let global = &self.global;
        self.bar.get_or_insert_with(|| ByteProgress::new(global, bytes_total)).update(bytes_read);
    }

    fn archived(&mut self, log: &Path, manifest: Manifest) {
        self.bar = None;
        if !self.global.quiet {
            screen::write_line(text::archived_line(log, &manifest));
        }
        text::warn_kept(log, &manifest);
        text::warn_missing_tables(log, &manifest);
        self.shared.state.update(|figures| figures.add(manifest.size, manifest.stored_size()));
        self.remove_waiting(log);
    }

    fn present(&mut self, log: &Path) {
        self.bar = None;
        self.shared.state.update(|figures| figures.present += 1);
        self.remove_waiting(log);
    }

    fn left_open(&mut self, _: &Path) {}

    fn removed(&mut self, log: &Path) {
        if !self.global.quiet {
            screen::write_line(text::removed_line(log));
        }
    }
}

impl FollowedLogArchiver {
    /// Creates an archiver of this directory.
    pub(super) fn new(archiver: LogArchiver<FollowedLogObserver>, store: Store) -> Self {
        let shared = Arc::clone(&archiver.observer.shared);
        Self { archiver, store, shared }
    }

    /// Archives closed logs until the command is stopped. A failure of the archive is repeated; a log that can never be
    /// archived ends the command.
    pub(super) fn run(mut self, global: &GlobalArgs) -> CommandResult {
        let shared = Arc::clone(&self.shared);
        let running = RunningArchiver::start(Arc::clone(&shared), move || self.archive_closed(), is_final)?;
        while !interrupt::is_stop_requested() && !running.has_ended() {
            thread::sleep(POLL_INTERVAL);
        }
        running.finish(ArchiverShutdown::Abandon)?;
        if !global.quiet {
            screen::write_line(text::archived_sum(&shared.state.figures()));
        }
        Ok(CommandVerdict::Success)
    }

    fn archive_closed(&mut self) -> Result<(), CommandFailure> {
        self.store.refresh().map_err(|error| CommandFailure::Failed(add_advice(error)))?;
        let logs = self.store.logs();
        let closed = &logs[..logs.len().saturating_sub(1)];
        let waiting = self.archiver.unfinished(closed);
        self.archiver.observer.set_waiting(waiting);
        let outcome = self.archiver.archive_all(logs);
        self.archiver.observer.bar = None;
        check_skipped_logs(outcome?, "")
    }
}

/// Returns whether every later attempt would fail, too: the file is not a log, the archive has a log of this name with
/// other contents, or the key is missing.
fn is_final(failure: &CommandFailure) -> bool {
    match failure {
        CommandFailure::Usage(_) => true,
        // A log that cannot be opened may have been purged.
        CommandFailure::NotStarted(error) => {
            !matches!(error.downcast_ref::<LogError>(), Some(LogError::Io { .. }))
        }
        failure => is_of_unfit_log(failure),
    }
}

/// State of `archive --follow` for health and metrics.
#[derive(Clone, Debug)]
pub(super) struct FollowedLogState(pub(super) ArchivingState);

impl ServiceState for FollowedLogState {
    fn readiness(&self) -> Result<(), String> {
        match self.0.figures().error {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn lag(&self) -> Option<Duration> {
        Some(self.0.figures().lag())
    }

    fn summary(&self) -> String {
        let figures = self.0.figures();
        let archived = format!(
            "{} archived, {} of {}",
            counted(figures.logs, "log"),
            bytes(figures.bytes_to),
            bytes(figures.bytes_from)
        );
        [Some(archived), self.0.text()].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}
