//! Thread that archives closed logs until the end of a run, and repeats failed attempts.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use logs::lock;
use tracing::warn;

use crate::background_thread::start_thread;
use crate::commands::receive::ArchivingState;
use crate::exit::{CommandFailure, failure_message};
use crate::interrupt;
use crate::units::{counted, duration};

/// Interval at which the thread checks the directory for another closed log.
const STORE_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which waits poll for the end of the run.
pub(super) const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// Minimum and maximum pause after a failed attempt.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(10 * 60);
/// Maximum wait for the thread to abandon an unfinished log when the run ends. If an object store does not answer in
/// time, the process ends anyway: a segment without a manifest is ignored.
const ABANDON_TIMEOUT: Duration = Duration::from_secs(5);

/// Archiver whose thread runs.
pub(crate) struct RunningArchiver {
    shared: Arc<ArchiverShared>,
    thread: JoinHandle<Result<(), CommandFailure>>,
}

/// Handling of logs that are not archived when the run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArchiverShutdown {
    /// Archive waiting logs, with one attempt.
    Drain,
    /// Leaves them to the next run.
    Abandon,
}

/// State that the thread shares with its command.
#[derive(Default)]
pub(super) struct ArchiverShared {
    pub(super) state: ArchivingState,
    end: Mutex<Option<ArchiverShutdown>>,
}

impl RunningArchiver {
    /// Starts a thread that makes attempts until the end of the run, or until a failure that is final.
    pub(super) fn start(
        shared: Arc<ArchiverShared>,
        attempt: impl FnMut() -> Result<(), CommandFailure> + Send + 'static,
        is_final: fn(&CommandFailure) -> bool,
    ) -> Result<Self, CommandFailure> {
        let running = Arc::clone(&shared);
        let thread = start_thread("archiver", move || running.repeat(attempt, is_final))?;
        Ok(Self { shared, thread })
    }

    /// Returns whether the thread has ended by itself.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }

    /// Ends the thread. Returns its error if logs were to be archived at the end, or if its failure was final.
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
    pub(super) fn new(state: ArchivingState) -> Self {
        Self { state, ..Self::default() }
    }

    /// Returns whether the thread is to stop at once.
    pub(super) fn is_stopping(&self) -> bool {
        interrupt::is_stop_requested() || self.end() == Some(ArchiverShutdown::Abandon)
    }

    /// Makes attempts until the end of the run. A failed attempt is repeated after growing pauses.
    fn repeat(
        &self,
        mut attempt: impl FnMut() -> Result<(), CommandFailure>,
        is_final: fn(&CommandFailure) -> bool,
    ) -> Result<(), CommandFailure> {
        let mut backoff = None;
        // Report each error once, until an attempt succeeds.
        let mut reported = HashSet::new();
        loop {
            let is_last = self.end().is_some();
            match attempt() {
                _ if self.is_stopping() => return Ok(()),
                Err(failure) if is_final(&failure) => return Err(failure),
                outcome if is_last => return outcome,
                Ok(()) => {
                    (backoff, reported) = (None, HashSet::new());
                    self.state.update(|figures| figures.error = None);
                }
                Err(failure) => {
                    let pause = backoff.map_or(BACKOFF_MIN, |pause: Duration| (pause * 2).min(BACKOFF_MAX));
                    backoff = Some(pause);
                    let error = failure_message(&failure);
                    if reported.insert(error.clone()) {
                        self.warn_failed(&error, pause);
                    }
                    self.state.update(|figures| {
                        figures.failures += 1;
                        figures.error = Some(error);
                    });
                }
            }
            self.wait(backoff.unwrap_or(STORE_INTERVAL));
        }
    }

    fn warn_failed(&self, error: &str, pause: Duration) {
        let logs = counted(self.state.figures().waiting, "closed log");
        warn!("{error}; {logs} to archive; retrying in {}, then at growing intervals", duration(pause));
    }

    fn end(&self) -> Option<ArchiverShutdown> {
        *lock(&self.end)
    }

    /// Waits for this time, or until the run ends.
    fn wait(&self, pause: Duration) {
        let began = Instant::now();
        while began.elapsed() < pause && self.end().is_none() && !interrupt::is_stop_requested() {
            thread::sleep(POLL_INTERVAL);
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::{ArchiverShared, ArchiverShutdown};
    use crate::exit::CommandFailure;

    #[test]
    fn failures_are_repeated_until_one_is_final() {
        let shared = ArchiverShared::default();
        let mut outcomes = [
            Err(CommandFailure::Failed(anyhow!("away"))),
            Ok(()),
            Err(CommandFailure::NotStarted(anyhow!("wrong key"))),
        ]
        .into_iter();
        let is_final = |failure: &CommandFailure| matches!(failure, CommandFailure::NotStarted(_));
        let ended = shared.repeat(|| outcomes.next().unwrap(), is_final);
        assert!(matches!(ended, Err(CommandFailure::NotStarted(_))));
        let figures = shared.state.figures();
        assert_eq!((figures.failures, figures.error), (1, None));
    }

    #[test]
    fn the_last_attempt_is_not_repeated() {
        let shared = ArchiverShared::default();
        *shared.end.lock().unwrap() = Some(ArchiverShutdown::Drain);
        let failed = || Err(CommandFailure::Failed(anyhow!("away")));
        assert!(shared.repeat(failed, |_| false).is_err());
    }
}
