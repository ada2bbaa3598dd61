//! Compresses the transactions of closed logs while `receive` runs.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use binlog::encryption::Keyring;
use binlog::{EVENT_SIZE_MAX, ZstdLevel};
use inspect::stats::{CompressionCounter, LogType};
use logs::{LogReader, RewritePositions, Store, lock, positions_path, read_keyring};
use rewrite::{
    CompressSettings, CompressedPolicy, ContentCheck, FileJob, MinimumGain, OldFormatPolicy,
    OutputEncryption, ResourcePlan, RewriteAction, RewriteError, RewriteOutcome, WriteMode, rewrite_file,
};
use servers::CancelToken;

use crate::compression_queue::{CompressionQueue, QueueStep};
use crate::monitor::SharedReceiveStats;
use crate::receive_control::ReceiveControl;
use crate::reporter::{ReceiveNotice, ReceiveReporter};
use crate::unchanged_logs::UnchangedLogs;

/// Maximum memory in bytes; a level may need more.
const MEMORY_MAX: u64 = 100_000_000;
/// Interval at which the compressor polls for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Bytes of a log that are read at once.
const CHUNK_SIZE: usize = 1 << 20;

/// Compresses closed logs, one after the other, in its own thread.
pub(crate) struct LogCompressor {
    directory: PathBuf,
    control: ReceiveControl,
    stats: SharedReceiveStats,
    shared: Arc<CompressorShared>,
    thread: Option<JoinHandle<()>>,
}

/// Logs to compress, and options.
pub(crate) struct CompressorSetup {
    /// Directory of the store.
    pub(crate) directory: PathBuf,
    /// Keyring file for encrypted logs. Compressed logs are encrypted again.
    pub(crate) keyring: Option<PathBuf>,
    /// Control with the level, which another thread may change.
    pub(crate) control: ReceiveControl,
    /// Token that stops compression, and leaves waiting logs uncompressed.
    pub(crate) cancel: CancelToken,
}

/// Handling of waiting logs when the run ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CompressorShutdown {
    /// Compress waiting logs, with one attempt each.
    Drain,
    /// Leave waiting logs uncompressed until the next run.
    Abandon,
}

/// State shared between the two threads.
#[derive(Default)]
struct CompressorShared {
    requests: Mutex<CompressionRequests>,
    changed: Condvar,
}

#[derive(Default)]
struct CompressionRequests {
    /// Closed logs in the index. Bounds the number of waiting logs.
    closed: Vec<PathBuf>,
    /// Closed logs in the index that stay as they are, because they were closed while there was no compression.
    left: HashSet<PathBuf>,
    /// Transactions that this run received, as received, of closed logs that do not have their final form yet.
    pending: HashMap<PathBuf, CompressionCounter>,
    end: Option<CompressorShutdown>,
}

impl CompressionRequests {
    /// Sets the closed logs. `counted` has the transactions of the newest one, as received.
    fn set_closed(&mut self, closed: Vec<PathBuf>, counted: Option<CompressionCounter>) {
        if let Some((newest, counted)) = closed.last().cloned().zip(counted) {
            self.pending.insert(newest, counted);
        }
        self.left.retain(|log| closed.contains(log));
        self.closed = closed;
        self.closed.retain(|log| !self.left.contains(log));
    }

    /// Leaves these closed logs as they are.
    fn leave(&mut self, logs: impl IntoIterator<Item = PathBuf>) {
        self.left.extend(logs);
        self.closed.retain(|log| !self.left.contains(log));
    }

    /// Leaves all closed logs as they are.
    fn leave_all(&mut self) {
        self.left.extend(self.closed.drain(..));
    }

    /// Takes the transactions of logs that stay as they were received, or were purged.
    fn take_settled(&mut self) -> Vec<CompressionCounter> {
        let closed = &self.closed;
        self.pending.extract_if(|log, _| !closed.contains(log)).map(|(_, counted)| counted).collect()
    }
}

impl CompressorShared {
    fn lock_requests(&self) -> MutexGuard<'_, CompressionRequests> {
        lock(&self.requests)
    }
}

impl LogCompressor {
    /// Starts the thread.
    ///
    /// # Errors
    ///
    /// Fails if the system starts no more threads.
    pub(crate) fn start(
        setup: CompressorSetup,
        stats: SharedReceiveStats,
        reporter: Arc<dyn ReceiveReporter>,
    ) -> io::Result<Self> {
        let (directory, control) = (setup.directory.clone(), setup.control.clone());
        let shared = Arc::new(CompressorShared::default());
        let began = Instant::now();
        let work =
            CompressionThread { setup, stats: stats.clone(), reporter, shared: Arc::clone(&shared), began };
        let thread = thread::Builder::new().name("compress".to_owned()).spawn(move || work.run())?;
        Ok(Self { directory, control, stats, shared, thread: Some(thread) })
    }

    /// Reads the closed logs from the index, after a new log has begun. `counted` has the transactions of the newest
    /// closed log, as received, if they do not count as stored yet.
    pub(crate) fn update_closed_logs(&self, counted: Option<CompressionCounter>) {
        let Some(closed) = self.closed_logs() else {
            counted.into_iter().for_each(|counted| self.stats.count_stored_log(counted));
            return;
        };
        let mut requests = self.shared.lock_requests();
        requests.set_closed(closed, counted);
        if self.control.compression().is_none() {
            requests.leave_all();
        }
        requests.take_settled().into_iter().for_each(|counted| self.stats.count_stored_log(counted));
        self.shared.changed.notify_all();
    }

    /// Leaves the closed logs as they are, except the newest one. Returns false if the index cannot be read now: then
    /// nothing is known of these logs.
    pub(crate) fn leave_earlier_logs(&self) -> bool {
        let Some(mut earlier) = self.closed_logs() else { return false };
        earlier.pop();
        self.shared.lock_requests().leave(earlier);
        true
    }

    /// Returns the closed logs in the index, oldest first. `None` if the index cannot be read: then no log is
    /// compressed now.
    fn closed_logs(&self) -> Option<Vec<PathBuf>> {
        let store = Store::open(&self.directory).ok()?;
        let closed = store.logs().split_last().map_or(&[][..], |(_, closed)| closed);
        // `components` removes the `./` of the index.
        Some(closed.iter().map(|log| log.components().collect()).collect())
    }

    /// Ends the thread.
    pub(crate) fn finish(&mut self, end: CompressorShutdown) {
        self.shared.lock_requests().end = Some(end);
        self.shared.changed.notify_all();
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for LogCompressor {
    fn drop(&mut self) {
        if self.thread.is_some() {
            self.finish(CompressorShutdown::Abandon);
        }
    }
}

struct CompressionThread {
    setup: CompressorSetup,
    stats: SharedReceiveStats,
    reporter: Arc<dyn ReceiveReporter>,
    shared: Arc<CompressorShared>,
    began: Instant,
}

impl CompressionThread {
    fn run(&self) {
        let mut waiting = CompressionQueue::default();
        // Report each error once, for any log, until a log is compressed successfully.
        let mut reported = HashSet::new();
        let mut unchanged = UnchangedLogs::load(&self.setup.directory);
        while let Some(log) = self.wait_for_log(&mut waiting) {
            let error = match self.compress_if_needed(&log, &mut unchanged) {
                Ok(()) => {
                    waiting.mark_done(&log);
                    reported.clear();
                    continue;
                }
                Err(_) if self.is_stopping() => continue,
                Err(error) => error,
            };
            let pause = waiting.mark_failed(&log, self.began.elapsed());
            // The log is compressed when its client has read it.
            if matches!(error, RewriteError::InUse { .. }) {
                continue;
            }
            self.stats.count_compression_failure();
            if reported.insert(error.to_string().replace(&log.display().to_string(), "")) {
                self.reporter.notice(&ReceiveNotice::CompressionFailed { error: &error, log: &log, pause });
            }
        }
    }

    /// Compresses a log if it exists, is not compressed yet, and was not left unchanged by an earlier run.
    fn compress_if_needed(&self, log: &Path, unchanged: &mut UnchangedLogs) -> Result<(), RewriteError> {
        // Compression was switched off at this moment.
        let Some(level) = self.setup.control.compression() else { return Ok(()) };
        if is_compressed(log)? || unchanged.contains(log, level) {
            self.count_as_received(log);
            return Ok(());
        }
        match self.compress(log, level) {
            Ok(RewriteOutcome::Unchanged) => {
                let closed = self.shared.lock_requests().closed.clone();
                // Without the list, the next run reads the log again.
                let _ = unchanged.add(log, level, &closed);
                Ok(())
            }
            Ok(_) => Ok(()),
            // It was purged in the meantime.
            Err(_) if !log.exists() => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Counts the transactions of a log that stays as it was received.
    fn count_as_received(&self, log: &Path) {
        if let Some(counted) = self.take_pending(log) {
            self.stats.count_stored_log(counted);
        }
    }

    fn take_pending(&self, log: &Path) -> Option<CompressionCounter> {
        self.shared.lock_requests().pending.remove(log)
    }

    /// Waits for the next log to compress; `None` at the end.
    fn wait_for_log(&self, waiting: &mut CompressionQueue) -> Option<PathBuf> {
        let mut requests = self.shared.lock_requests();
        loop {
            if self.setup.control.compression().is_none() {
                requests.leave_all();
            }
            requests.take_settled().into_iter().for_each(|counted| self.stats.count_stored_log(counted));
            waiting.retain_closed(&requests.closed);
            let waiting_count = waiting.count(&requests.closed);
            self.stats.set_logs_to_compress(waiting_count);
            match requests.end {
                _ if self.setup.cancel.is_cancelled() => return None,
                Some(CompressorShutdown::Abandon) => return None,
                Some(CompressorShutdown::Drain) => {
                    return waiting.untried(&requests.closed).map(Path::to_owned);
                }
                None => {}
            }
            let closed = requests.closed.clone();
            drop(requests);
            // Compression changes the positions in a log: a client that reads it as it is stored would be disconnected.
            let count = if waiting_count > 0 { self.setup.control.count_compressible(&closed) } else { 0 };
            let compressible = &closed[..count];
            let pause = match waiting.next(compressible, self.began.elapsed()) {
                QueueStep::Log(log) => return Some(log.to_owned()),
                QueueStep::WaitFor(pause) => pause.min(POLL_INTERVAL),
                QueueStep::Wait => POLL_INTERVAL,
            };
            let woken = self.shared.changed.wait_timeout(self.shared.lock_requests(), pause);
            requests = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn is_stopping(&self) -> bool {
        self.shared.lock_requests().end == Some(CompressorShutdown::Abandon)
            || self.setup.cancel.is_cancelled()
    }

    fn compress(&self, log: &Path, level: ZstdLevel) -> Result<RewriteOutcome, RewriteError> {
        let action = RewriteAction::Compress(CompressSettings {
            level,
            minimum_gain: MinimumGain::Percent(0),
            compressed: CompressedPolicy::Pass,
            event_size_max: EVENT_SIZE_MAX,
            old_format: OldFormatPolicy::Refuse,
        });
        let control = &self.setup.control;
        let size = fs::metadata(log).map_or(0, |found| found.len());
        let keyring = self.setup.keyring.as_ref().map(read_keyring).transpose()?.map(Arc::new);
        let job = FileJob {
            source: log,
            target: log,
            action,
            plan: ResourcePlan::new(action, NonZeroUsize::MIN, MEMORY_MAX, size),
            keyring: keyring.clone(),
            encryption: OutputEncryption::Preserve,
            check: ContentCheck::Skip,
            write_mode: WriteMode::Write,
            // A client may have begun to read the log meanwhile.
            may_replace: &|log| control.count_compressible(&[log.to_owned()]) == 1,
        };
        // A list of positions without its log remains from an interrupted run.
        let _ = fs::remove_file(positions_path(log));
        let done = rewrite_file(&job, &mut |_| match self.is_stopping() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        })?;
        if done.outcome != RewriteOutcome::Written {
            self.count_as_received(log);
            return Ok(done.outcome);
        }
        self.stats.count_compressed_log(&done.report.tally);
        let counted = self.count_compressed(log, keyring);
        // Also if the count failed: a retry finds a compressed log, and does not come here again.
        self.remove_purged(log);
        counted?;
        Ok(done.outcome)
    }

    /// Counts the transactions of a compressed log that this run received.
    fn count_compressed(&self, log: &Path, keyring: Option<Arc<Keyring>>) -> Result<(), logs::LogError> {
        let Some(received) = self.take_pending(log) else { return Ok(()) };
        let counted = count_last_transactions(log, keyring, received.transactions());
        // Each transaction counts once, also if the new log cannot be read.
        let (counted, outcome) = match counted {
            Ok(counted) => (counted, Ok(())),
            Err(error) => (received, Err(error)),
        };
        self.stats.count_stored_log(counted);
        outcome
    }

    /// Deletes a log that was purged during its compression: the compression has created it again.
    fn remove_purged(&self, log: &Path) {
        // Without the index, keep the log.
        let Ok(store) = Store::open(&self.setup.directory) else { return };
        if !store.logs().iter().any(|other| other == log) {
            let _ = fs::remove_file(log);
            let _ = fs::remove_file(positions_path(log));
        }
    }
}

/// Counts the compression of the last `last` transactions of a log. Earlier runs received the others.
fn count_last_transactions(
    log: &Path,
    keyring: Option<Arc<Keyring>>,
    last: u64,
) -> Result<CompressionCounter, logs::LogError> {
    let counted = count_after(log, keyring.clone(), 0)?;
    match counted.transactions().checked_sub(last) {
        None | Some(0) => Ok(counted),
        Some(skipped) => count_after(log, keyring, skipped),
    }
}

/// Counts the compression of a log's transactions after the first `skipped` ones.
fn count_after(
    log: &Path,
    keyring: Option<Arc<Keyring>>,
    mut skipped: u64,
) -> Result<CompressionCounter, logs::LogError> {
    let mut counter = CompressionCounter::of(LogType::Binary);
    let mut reader = LogReader::open_stored(log)?;
    if let Some(keyring) = keyring {
        reader = reader.with_keyring(keyring);
    }
    while let logs::ReadOutcome::Some(chunk) = reader.next_chunk(CHUNK_SIZE)? {
        for event in chunk.iter() {
            // Ignore events that cannot be decoded: the source sent them.
            let _ = counter.add_event(&event.raw, chunk.format());
            if skipped > 0 {
                skipped -= counter.take().transactions();
            }
        }
    }
    Ok(counter)
}

/// Returns whether the log was compressed: the list of positions beside it then ends with the log's size.
fn is_compressed(log: &Path) -> Result<bool, logs::LogError> {
    // A missing log was purged in the meantime.
    let Ok(found) = fs::metadata(log) else { return Ok(false) };
    Ok(RewritePositions::open(log, found.len())?.is_some())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use inspect::stats::{CompressionCounter, LogType};

    use super::{CompressionRequests, count_last_transactions, is_compressed};

    #[test]
    fn logs_closed_without_compression_stay_as_they_are() {
        let paths = |names: &str| names.split_whitespace().map(PathBuf::from).collect::<Vec<_>>();
        let mut requests = CompressionRequests::default();
        requests.set_closed(paths("a b c"), None);
        requests.leave(paths("a b"));
        assert_eq!(requests.closed, paths("c"));
        // A purged log is forgotten.
        requests.set_closed(paths("b c d"), None);
        assert_eq!((&requests.closed, requests.left.len()), (&paths("c d"), 1));
        requests.leave_all();
        requests.set_closed(paths("b c d e"), None);
        assert_eq!(requests.closed, paths("e"));
    }

    #[test]
    fn logs_that_stay_as_they_are_count_as_received() {
        let paths = |names: &str| names.split_whitespace().map(PathBuf::from).collect::<Vec<_>>();
        let counted = || Some(CompressionCounter::of(LogType::Binary));
        let mut requests = CompressionRequests::default();
        requests.set_closed(paths("a"), counted());
        requests.set_closed(paths("a b"), counted());
        assert_eq!(requests.take_settled().len(), 0);
        // A purged log.
        requests.set_closed(paths("b c"), counted());
        assert_eq!(requests.take_settled().len(), 1);
        requests.leave_all();
        assert_eq!((requests.take_settled().len(), requests.take_settled().len()), (2, 0));
    }

    #[test]
    fn only_transactions_of_this_run_count() {
        let log = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/json.binlog");
        let all = count_last_transactions(&log, None, u64::MAX).unwrap().transactions();
        assert!(all > 2);
        for last in [0, 1, all - 1, all] {
            let counted = count_last_transactions(&log, None, last).unwrap();
            assert_eq!(counted.transactions(), last);
        }
        let rows = |last| count_last_transactions(&log, None, last).unwrap().rows();
        assert_eq!(rows(1)[0].first_transaction_id, rows(all).last().unwrap().last_transaction_id);
    }

    #[test]
    fn position_lists_of_other_logs_are_ignored() {
        let directory = tempfile::tempdir().unwrap();
        let log = directory.path().join("b.000001");
        fs::write(&log, [0; 700]).unwrap();
        assert!(!is_compressed(&log).unwrap());
        for (list, expected) in [("4\t4\n# 1000 bytes became 700\n", true), ("4\t4\n", false), ("", false)] {
            fs::write(directory.path().join("positions.b.000001"), list).unwrap();
            assert_eq!(is_compressed(&log).unwrap(), expected, "{list}");
        }
        fs::write(directory.path().join("positions.b.000001"), "# 1000 bytes became 600\n").unwrap();
        assert!(!is_compressed(&log).unwrap());
    }
}
