//! Receives logs over consecutive connections, each to a source that can continue.

use std::collections::HashSet;
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, SystemTime};

use binlog::ZstdLevel;
use inspect::stats::CompressionCounter;
use logs::{LogEncryption, RetentionLimit, StoreDirectory, StoreWriter};
use servers::{LinkOptions, ServerAddress};
use wire::{ReplicaEnd, SemiSync, SourceFacts};

use crate::compression_statistics::StoredFormCount;
use crate::disconnect::Disconnect;
use crate::disk_space::{DiskFullBackoff, DiskSpace};
use crate::error::{ReceiveError, ReceiveFailure};
use crate::identity::ReplicaIdentity;
use crate::log_compressor::{CompressorSetup, CompressorShutdown, LogCompressor};
use crate::monitor::{ReceiveMonitor, SharedReceiveStats};
use crate::receive_control::ReceiveControl;
use crate::reporter::{ReceiveNotice, ReceiveReporter};
use crate::source_rotation::{BACKOFF_MIN, SourceRotation, SourceTrouble};
use crate::start_point::StartPoint;

/// Interval at which blocking waits poll for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum time for connecting to one of several sources.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Maximum wait for a valid keyring file when a log begins: another process may be writing the file.
const KEYRING_TIMEOUT: Duration = Duration::from_secs(10);

/// Options of one `receive` run.
pub struct ReceiveOptions {
    /// Directory of the store.
    pub directory: PathBuf,
    /// Start point of an empty store.
    pub begin: StartPoint,
    /// End of the run: at the end of the source's logs, or never.
    pub end: ReplicaEnd,
    /// Encryption of logs on disk.
    pub at_rest: LogEncryption,
    /// Limit of stored logs; `None` to keep all.
    pub keep: Option<RetentionLimit>,
    /// Compression level of closed logs; `None` to leave them uncompressed.
    pub compress: Option<ZstdLevel>,
    /// Acknowledgement of transactions that are on disk.
    pub semi_sync: SemiSync,
    /// Action on a full disk.
    pub when_full: DiskFullPolicy,
    /// Action if the sources fail.
    pub on_source_failure: SourceFailurePolicy,
    /// Control of the run. Set its protection from `keep` before the store is opened.
    pub control: ReceiveControl,
}

/// Action on a full disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFullPolicy {
    /// Waits until space is free.
    Wait,
    /// Fails.
    Fail,
}

/// Action if no source can be reached at first, or all sources have a permanent error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SourceFailurePolicy {
    /// Fails.
    Fail,
    /// Repeats connections and logins. After other permanent errors, pauses until [`ReceiveControl::resume`]. With an
    /// empty store, a permanent error is still a failure.
    Stay,
}

/// Condition for acknowledging transactions on disk to the source.
pub trait AckCondition: Send + Sync {
    /// Waits until all transactions that are on disk now may be acknowledged. The receiver receives nothing meanwhile.
    /// Calls `is_cancelled` several times a second, and returns false as soon as it returns true. `is_cancelled` also
    /// serves the requests of other threads, so it can take some time.
    fn wait(&self, is_cancelled: &mut dyn FnMut() -> bool) -> bool;
}

/// Source named by another thread during the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum NamedSource {
    /// No other source: the sources are unchanged since the start.
    None,
    /// The same host and port as the only source, with another account or other options.
    SameAddress,
    /// Another host or port, possibly another server.
    OtherAddress,
}

/// State of a `receive` run.
pub struct LogReceiver {
    pub(crate) settings: ReceiveOptions,
    reporter: Arc<dyn ReceiveReporter>,
    addresses: Vec<ServerAddress>,
    /// Source named by another thread since the start.
    named_source: NamedSource,
    pub(crate) options: LinkOptions,
    pub(crate) identity: ReplicaIdentity,
    pub(crate) monitor: ReceiveMonitor,
    pub(crate) rotation: SourceRotation,
    pub(crate) compressor: Option<LogCompressor>,
    /// Condition for acknowledgements; `None` to acknowledge all transactions on disk.
    pub(crate) ack_condition: Option<Arc<dyn AckCondition>>,
    /// Set while the disk is full: from a failed write to the next successful write.
    disk_full: Option<DiskFullBackoff>,
    /// Notices since the last received event. Prevents repeated reports.
    reported: HashSet<String>,
    /// True from the report of a lost connection to the next connection.
    is_lost: bool,
    pub(crate) control: ReceiveControl,
}

impl LogReceiver {
    /// Opens the store and deletes logs beyond `keep`. Connects to no source yet. The token of `options` ends the run.
    ///
    /// # Errors
    ///
    /// Fails if the directory belongs to a server, or cannot be read or written, or no thread can be started.
    ///
    /// # Panics
    ///
    /// If there are no addresses.
    pub fn open(
        settings: ReceiveOptions,
        addresses: Vec<ServerAddress>,
        mut options: LinkOptions,
        reporter: Arc<dyn ReceiveReporter>,
    ) -> Result<(Self, StoreWriter), ReceiveError> {
        assert!(!addresses.is_empty(), "ours: the caller names at least one source");
        if addresses.len() > 1 {
            options.connect_timeout = options.connect_timeout.min(CONNECT_TIMEOUT);
        }
        refuse_data_directory(&settings.directory)?;
        settings.at_rest.check().map_err(ReceiveError::OpenStore)?;
        let store = StoreDirectory::lock(&settings.directory).map_err(ReceiveError::OpenStore)?;
        refuse_open_logs(&store)?;
        let mut store = store.open(settings.at_rest.clone()).map_err(ReceiveError::OpenStore)?;
        let identity = ReplicaIdentity::load_or_create(&settings.directory, &mut store)?;
        let monitor = ReceiveMonitor::new(Arc::clone(&reporter));
        // The last log may have just begun, and may have to be dropped. Keep the previous log until its head is stored.
        if let Some(keep) = settings.keep
            && store.has_head().map_err(ReceiveError::OpenStore)?
        {
            let first_needed = |logs: &[&str]| settings.control.first_needed(logs);
            match store.purge(keep, SystemTime::now(), first_needed) {
                Ok(purged) => monitor.count_purged(purged),
                // Once an event cannot be written, the run waits for space, and purges meanwhile.
                Err(error) if error.is_disk_full() && settings.when_full == DiskFullPolicy::Wait => {}
                Err(error) => return Err(ReceiveError::OpenStore(error)),
            }
        }
        let rotation = match settings.on_source_failure {
            SourceFailurePolicy::Fail => SourceRotation::of(addresses.len()),
            SourceFailurePolicy::Stay => SourceRotation::of(addresses.len()).retrying_at_first(),
        };
        settings.control.set_compression(settings.compress);
        let mut receiver = Self {
            control: settings.control.clone(),
            settings,
            reporter,
            addresses,
            named_source: NamedSource::None,
            options,
            identity,
            monitor,
            rotation,
            compressor: None,
            ack_condition: None,
            disk_full: None,
            reported: HashSet::new(),
            is_lost: false,
        };
        if receiver.settings.compress.is_some() {
            let compressor = receiver.start_compressor().map_err(ReceiveError::StartCompressor)?;
            receiver.compressor = Some(compressor);
            // Nothing was received yet.
            let _ = receiver.monitor.stats().close_log(StoredFormCount::OnCompression);
        }
        receiver.report_store(&store);
        Ok((receiver, store))
    }

    fn start_compressor(&self) -> io::Result<LogCompressor> {
        let setup = CompressorSetup {
            directory: self.settings.directory.clone(),
            keyring: self.settings.at_rest.keyring().map(Path::to_owned),
            control: self.control.clone(),
            cancel: self.options.cancel.clone(),
        };
        LogCompressor::start(setup, self.monitor.stats(), Arc::clone(&self.reporter))
    }

    /// Starts the compressor for the log that was just closed, if another thread has switched compression on.
    pub(crate) fn start_compressor_if_needed(&mut self) {
        if self.compressor.is_none() && self.control.compression().is_some() {
            // After an error, the next closed log tries again.
            match self.start_compressor() {
                Ok(compressor) if compressor.leave_earlier_logs() => self.compressor = Some(compressor),
                Ok(_) => {}
                Err(error) => self.say(&ReceiveNotice::CompressionNotStarted { error: &error }),
            }
        }
    }

    /// Counts the log that was just closed, now or after its compression.
    pub(crate) fn count_closed_log(&self) {
        let is_compressing = self.compressor.is_some() && self.control.compression().is_some();
        let next = if is_compressing { StoredFormCount::OnCompression } else { StoredFormCount::OnReceipt };
        self.update_closed_logs(self.monitor.stats().close_log(next));
    }

    /// Passes the closed logs to the compressor, if there is one. `counted` has the transactions of the newest closed
    /// log, as received, if they do not count as stored yet.
    pub(crate) fn update_closed_logs(&self, counted: Option<CompressionCounter>) {
        match (&self.compressor, counted) {
            (Some(compressor), counted) => compressor.update_closed_logs(counted),
            (None, Some(counted)) => self.monitor.stats().count_stored_log(counted),
            (None, None) => {}
        }
    }

    /// Sets a condition that must hold before transactions on disk are acknowledged to the source.
    pub fn set_ack_condition(&mut self, condition: Arc<dyn AckCondition>) {
        self.ack_condition = Some(condition);
    }

    /// Runs one connection after the other until the run is cancelled.
    ///
    /// # Errors
    ///
    /// Fails if no source can continue, or the disk fails for another reason than lacking space.
    pub fn run(mut self, mut store: StoreWriter) -> Result<(), ReceiveFailure> {
        loop {
            self.wait_while_paused(&mut store);
            if self.options.cancel.is_cancelled() {
                break;
            }
            self.take_new_source();
            let before = end_of(&store);
            self.monitor.set_source(self.address());
            let ended = self.run_connection(&mut store);
            self.monitor.set_disconnected();
            if before != end_of(&store) {
                self.rotation.reset();
                self.reported.clear();
            }
            match ended {
                Disconnect::Done => break,
                Disconnect::Paused => {}
                Disconnect::Lost(error) => {
                    self.schedule_retry(&mut store, error.into(), SourceTrouble::Lost)?
                }
                Disconnect::Unfit(reason) => {
                    let error = ReceiveError::Unsuitable(reason);
                    self.schedule_retry(&mut store, error, SourceTrouble::Unsuitable)?
                }
                Disconnect::Failed(error) => {
                    self.schedule_retry(&mut store, error, SourceTrouble::Permanent)?
                }
                Disconnect::DescriptorLimit(error) => self.wait_for_descriptors(&mut store, error)?,
                Disconnect::StartUnavailable(error) => return Err(ReceiveFailure::NotStarted(error)),
                Disconnect::DiskError(error) => return Err(self.disk_failure(&mut store, error)),
                Disconnect::Keyring(error) => {
                    if !self.rotation.has_begun() || !self.wait_for_keyring(&mut store, &error) {
                        let error = ReceiveError::Keyring(error);
                        self.schedule_retry(&mut store, error, SourceTrouble::Permanent)?;
                    }
                }
                Disconnect::DiskFull(error) if self.settings.when_full == DiskFullPolicy::Fail => {
                    return Err(ReceiveFailure::Failed(error.into()));
                }
                Disconnect::DiskFull(error) => self.wait_for_space(&mut store, &error)?,
            }
            if self.options.cancel.is_cancelled() {
                break;
            }
        }
        self.sync(&mut store).map_err(|error| ReceiveFailure::Failed(error.into()))?;
        if let Some(compressor) = &mut self.compressor {
            compressor.finish(match self.settings.end {
                ReplicaEnd::LastEvent => CompressorShutdown::Drain,
                ReplicaEnd::Never => CompressorShutdown::Abandon,
            });
        }
        Ok(())
    }

    /// Returns the address of the current source.
    pub(crate) fn address(&self) -> &ServerAddress {
        &self.addresses[self.rotation.current()]
    }

    /// Returns whether the current source may be another server than the previous source.
    pub(crate) fn has_others(&self) -> bool {
        self.addresses.len() > 1 || self.named_source == NamedSource::OtherAddress
    }

    /// Replaces the sources by the source that another thread has named.
    fn take_new_source(&mut self) {
        let Some(source) = self.control.take_new_source() else { return };
        let is_other = self.has_others() || source.endpoint() != self.address().endpoint();
        self.named_source = if is_other { NamedSource::OtherAddress } else { NamedSource::SameAddress };
        self.addresses = vec![source];
        self.rotation = SourceRotation::of(1);
        // Retry the new source while it is unreachable.
        self.rotation.set_begun();
        self.reported.clear();
    }

    /// Returns the shared statistics, which the run keeps updating.
    pub fn stats(&self) -> SharedReceiveStats {
        self.monitor.stats()
    }

    /// Returns the handle with which other threads control the run.
    pub fn control(&self) -> ReceiveControl {
        self.control.clone()
    }

    /// Adds the GTIDs of the stored transactions to the statistics, for a display that shows them.
    pub fn read_stored_gtids(&self) {
        self.monitor.read_stored_gtids(&self.settings.directory, self.settings.at_rest.keyring());
    }

    /// Waits until the next attempt. Returns the error if no further attempt can succeed.
    fn schedule_retry(
        &mut self,
        store: &mut StoreWriter,
        error: ReceiveError,
        trouble: SourceTrouble,
    ) -> Result<(), ReceiveFailure> {
        self.monitor.set_error(&error);
        let stays =
            self.settings.on_source_failure == SourceFailurePolicy::Stay && store.store_end().is_some();
        let trouble = match error.is_denied_connection() && stays {
            true => SourceTrouble::Denied,
            false => trouble,
        };
        let (has_begun, before) = (self.rotation.has_begun(), self.rotation.current());
        let Some(pause) = self.rotation.next_backoff(trouble) else {
            if stays || self.named_source != NamedSource::None {
                // The run continues after a pause, which another thread ends: with another source, or with this one,
                // which may be corrected.
                self.rotation.reset();
                // Another thread may have paused the run already, or named another source.
                if !self.control.ends_connection() {
                    self.control.pause();
                    self.say(&ReceiveNotice::Stopped { error: &error });
                }
                return Ok(());
            }
            return Err(if has_begun {
                ReceiveFailure::Failed(error)
            } else {
                ReceiveFailure::NotStarted(error)
            });
        };
        let next = (self.rotation.current() != before).then(|| self.address().to_string());
        self.say_once(&ReceiveNotice::Retry { error: &error, next, pause });
        self.is_lost = true;
        sleep_unless(pause, || {
            self.serve_requests(store);
            self.options.cancel.is_cancelled() || self.control.ends_connection()
        });
        Ok(())
    }

    /// Waits until the run may connect, or is cancelled.
    fn wait_while_paused(&self, store: &mut StoreWriter) {
        while self.control.is_paused() && !self.options.cancel.is_cancelled() {
            self.serve_requests(store);
            thread::sleep(POLL_INTERVAL);
        }
    }

    /// Serves the requests of other threads.
    pub(crate) fn serve_requests(&self, store: &mut StoreWriter) {
        self.control.serve_requests(|log| {
            // The last log may have just begun, and may have to be removed: then the log before it is needed. A store
            // that could not be reopened does not know its last log.
            let kept = if store.store_end().is_some() && store.has_head()? { 1 } else { 2 };
            let purged = store.purge_before(log, kept)?;
            self.monitor.count_purged(purged);
            Ok(purged)
        });
    }

    /// Records that a source is connected, and reports it if the connection had been lost.
    pub(crate) fn record_connected(&mut self, facts: &SourceFacts) {
        self.monitor.set_connected(facts);
        if mem::take(&mut self.is_lost) {
            self.say_once(&ReceiveNotice::Reconnected { endpoint: self.address().endpoint() });
        }
    }

    /// Reports a notice, unless the same notice was reported since the last received event. Otherwise each attempt to
    /// connect to a lost source would repeat the notice.
    fn say_once(&mut self, notice: &ReceiveNotice<'_>) {
        if self.reported.insert(format!("{notice:?}")) {
            self.say(notice);
        }
    }

    pub(crate) fn say(&self, notice: &ReceiveNotice<'_>) {
        self.reporter.notice(notice);
    }

    /// Sleeps unless the run is cancelled. Meanwhile serves the requests of other threads.
    fn sleep_unless_cancelled(&self, store: &mut StoreWriter, pause: Duration) {
        sleep_unless(pause, || {
            self.serve_requests(store);
            self.options.cancel.is_cancelled()
        });
    }

    fn report_store(&self, store: &StoreWriter) {
        if store.truncated_bytes() > 0 {
            self.say(&ReceiveNotice::IncompleteEventRemoved { bytes: store.truncated_bytes() });
        }
        if store.is_encrypted() && matches!(self.settings.at_rest, LogEncryption::Plain { .. }) {
            self.say(&ReceiveNotice::EncryptionEnds { directory: &self.settings.directory });
        }
        if let (true, Some(end)) = (self.settings.begin.is_requested(), store.store_end()) {
            self.say(&ReceiveNotice::StartPointIgnored {
                begin: &self.settings.begin,
                directory: &self.settings.directory,
                log: end.log,
                position: end.next,
            });
        }
    }

    /// Ends the state of a full disk after a successful write.
    pub(crate) fn end_disk_full(&mut self) {
        if self.disk_full.take().is_some() {
            self.monitor.set_free();
            self.say(&ReceiveNotice::DiskFree);
        }
    }

    /// Waits until the store can be written to again, or the run is cancelled.
    fn wait_for_space(
        &mut self,
        store: &mut StoreWriter,
        error: &logs::LogError,
    ) -> Result<(), ReceiveFailure> {
        self.monitor.set_full(error);
        let mut lacking = self.reopen_store(store)?;
        let is_new = self.disk_full.is_none();
        let mut backoff = self.disk_full.take().unwrap_or_default();
        backoff.found(lacking.unwrap_or_default(), self.monitor.elapsed());
        if is_new {
            let needed = backoff.needed(DiskSpace::of(&self.settings.directory));
            self.say(&ReceiveNotice::DiskFull { error, needed });
        }
        while !self.options.cancel.is_cancelled() {
            self.sleep_unless_cancelled(store, BACKOFF_MIN);
            self.monitor.tick();
            // Expired logs may take up the space, so purge them while the disk is full.
            let is_purged = lacking.is_some() && self.purge_for_space(store)?;
            if !backoff.is_over(DiskSpace::of(&self.settings.directory), self.monitor.elapsed()) {
                continue;
            }
            if is_purged {
                break;
            }
            if lacking.is_none() {
                lacking = self.reopen_store(store)?;
            }
            backoff.found(lacking.unwrap_or_default(), self.monitor.elapsed());
        }
        let lacks_events = backoff.lacks_events();
        self.disk_full = Some(backoff);
        if !lacks_events && !self.options.cancel.is_cancelled() {
            self.end_disk_full();
        }
        Ok(())
    }

    /// Purges expired logs. Returns false if the disk is too full to write the index.
    fn purge_for_space(&self, store: &mut StoreWriter) -> Result<bool, ReceiveFailure> {
        match self.purge_after_head(store) {
            Err(Disconnect::DiskFull(_)) => Ok(false),
            Err(Disconnect::Failed(error)) => Err(ReceiveFailure::Failed(error)),
            Err(Disconnect::DiskError(error)) => Err(ReceiveFailure::Failed(error.into())),
            // The next connection gets any other error again, and reports it.
            _ => Ok(true),
        }
    }

    /// Waits up to `KEYRING_TIMEOUT` for a valid keyring file, or for cancellation. Returns false after a timeout.
    fn wait_for_keyring(&self, store: &mut StoreWriter, error: &logs::LogError) -> bool {
        self.say(&ReceiveNotice::KeyringWait { error, timeout: KEYRING_TIMEOUT });
        for _ in 0..KEYRING_TIMEOUT.as_millis() / BACKOFF_MIN.as_millis() {
            self.sleep_unless_cancelled(store, BACKOFF_MIN);
            if self.options.cancel.is_cancelled() || self.settings.at_rest.check().is_ok() {
                return true;
            }
        }
        false
    }

    /// Returns the failure for a disk error, which no other source can solve. Reopens the store, so that the next run
    /// does not depend on unsynced data.
    fn disk_failure(&self, store: &mut StoreWriter, error: logs::LogError) -> ReceiveFailure {
        let error = match store.reopen() {
            Ok(_) => ReceiveError::Log(error),
            Err(again) => ReceiveError::ReopenStore { error, again },
        };
        if self.rotation.has_begun() {
            ReceiveFailure::Failed(error)
        } else {
            ReceiveFailure::NotStarted(error)
        }
    }

    /// Waits until the store can be reopened: the failed call may have changed its files, but not `store`. No other
    /// source could help.
    fn wait_for_descriptors(
        &mut self,
        store: &mut StoreWriter,
        error: logs::LogError,
    ) -> Result<(), ReceiveFailure> {
        let error = ReceiveError::Log(error);
        self.monitor.set_error(&error);
        self.say_once(&ReceiveNotice::Retry { error: &error, next: None, pause: BACKOFF_MIN });
        self.is_lost = true;
        while !self.options.cancel.is_cancelled() && self.reopen_store(store)?.is_none() {
            self.sleep_unless_cancelled(store, BACKOFF_MIN);
        }
        Ok(())
    }

    /// Reopens the store, and returns the number of unwritten bytes; `None` if the disk has no space for reopening, or
    /// there are too many open files.
    fn reopen_store(&mut self, store: &mut StoreWriter) -> Result<Option<u64>, ReceiveFailure> {
        match store.reopen() {
            Ok(lacking) => {
                self.monitor.discard_pending(store);
                Ok(Some(lacking))
            }
            Err(error) if error.is_disk_full() || error.is_descriptor_limit() => Ok(None),
            Err(error) => Err(ReceiveFailure::Failed(error.into())),
        }
    }
}

/// Sleeps until the time is over, or `is_over` returns true.
fn sleep_unless(pause: Duration, mut is_over: impl FnMut() -> bool) {
    for _ in 0..pause.as_millis() / POLL_INTERVAL.as_millis() {
        if is_over() {
            return;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn end_of(store: &StoreWriter) -> Option<(String, u64)> {
    store.store_end().map(|end| (end.log.to_owned(), end.next))
}

/// Refuses a server's data directory: the server would find logs that it did not write.
fn refuse_data_directory(directory: &Path) -> Result<(), ReceiveError> {
    match logs::find_server_file(directory) {
        None => Ok(()),
        Some(file) => Err(ReceiveError::DataDirectory { directory: directory.to_owned(), file }),
    }
}

/// Refuses a directory whose logs another process is writing: they belong to a server.
fn refuse_open_logs(directory: &StoreDirectory) -> Result<(), ReceiveError> {
    match logs::find_running_server(directory.path()) {
        None => Ok(()),
        Some(running) => Err(ReceiveError::InUse { directory: directory.path().to_owned(), running }),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::sync::Arc;
    use std::thread;

    use logs::{LogEncryption, LogReader, ReadOutcome, RetentionLimit};
    use servers::{LinkOptions, ServerAddress};
    use wire::{ReplicaEnd, SemiSync};

    use super::{DiskFullPolicy, LogReceiver, POLL_INTERVAL, ReceiveOptions, SourceFailurePolicy};
    use crate::monitor::SharedReceiveStats;
    use crate::receive_control::ReceiveControl;
    use crate::reporter::{ReceiveNotice, ReceiveReporter};
    use crate::start_point::StartPoint;

    /// A reporter that drops all reports.
    struct SilentReporter;

    impl ReceiveReporter for SilentReporter {
        fn notice(&self, _: &ReceiveNotice<'_>) {}
        fn progress(&self, _: &SharedReceiveStats) {}
    }

    #[test]
    fn expired_logs_are_purged_while_the_disk_is_full() {
        let directory = tempfile::tempdir().unwrap();
        let settings = ReceiveOptions {
            directory: directory.path().to_owned(),
            begin: StartPoint::Oldest,
            end: ReplicaEnd::Never,
            at_rest: LogEncryption::Plain { keyring: None },
            keep: Some(RetentionLimit::Size(1)),
            compress: None,
            semi_sync: SemiSync::Off,
            when_full: DiskFullPolicy::Wait,
            on_source_failure: SourceFailurePolicy::Fail,
            control: ReceiveControl::default(),
        };
        let (addresses, options) =
            (vec![ServerAddress::parse("mysql://root@localhost/").unwrap()], LinkOptions::default());
        let opened = LogReceiver::open(settings, addresses, options, Arc::new(SilentReporter));
        let Ok((mut receiver, mut store)) = opened else { panic!("an empty directory was not opened") };
        for name in ["b.000001", "b.000002"] {
            store.begin_log(name, 4).unwrap();
            let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/gtids/binlog.000001");
            let mut reader = LogReader::open(sample).unwrap();
            while let ReadOutcome::Some(event) = reader.next_event().unwrap() {
                store.append_next(event.raw.bytes()).unwrap();
            }
        }
        // A disk that never has free space.
        receiver.settings.directory = "/proc".into();
        let (cancel, first) = (receiver.options.cancel.clone(), directory.path().join("b.000001"));
        let watcher = thread::spawn(move || {
            (0..300).take_while(|_| first.exists()).for_each(|_| thread::sleep(POLL_INTERVAL));
            cancel.cancel();
        });
        let cause = io::Error::from_raw_os_error(28);
        let error = logs::LogError::Io { verb: "write to", name: "b.000002".to_owned(), cause };
        assert!(receiver.wait_for_space(&mut store, &error).is_ok());
        watcher.join().unwrap();
        assert!(!directory.path().join("b.000001").exists() && directory.path().join("b.000002").exists());
    }
}
