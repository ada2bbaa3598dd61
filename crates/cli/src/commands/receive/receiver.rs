//! Receives logs: one connection after the other, each to a source that can continue.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::mem;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::anyhow;
use binlog::ZstdLevel;
use logs::{LogEncryption, RetentionLimit, StoreFolder, StoreWriter};
use servers::{LinkOptions, ServerAddress};
use wire::{ReplicaEnd, SemiSync};

use crate::commands::receive::disconnect::Disconnect;
use crate::commands::receive::disk_space::{DiskFullBackoff, DiskSpace};
use crate::commands::receive::identity::ReplicaIdentity;
use crate::commands::receive::log_compressor::{CompressorShutdown, LogCompressor};
use crate::commands::receive::monitor::{ReceiveMonitor, SharedReceiveStats};
use crate::commands::receive::source_rotation::{BACKOFF_MIN, SourceRotation, SourceTrouble};
use crate::commands::receive::start_point::StartPoint;
use crate::exit::{CommandFailure, CommandResult, ErrorAdvice};
use crate::global_args::GlobalArgs;
use crate::log_args::add_advice;
use crate::screen;
use crate::units::{bytes, counted, duration};

/// Interval at which blocking waits poll for Ctrl-C.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum time to connect to one of several sources.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// Time to wait for a valid keyring file when a log begins: another process may be writing it.
const KEYRING_TIMEOUT: Duration = Duration::from_secs(10);
const KEYRING_ADVICE: ErrorAdvice = ErrorAdvice(
    "write the complete keyring to a new file, rename it over the old one, and run the command again",
);

const FOLDER_ADVICE: ErrorAdvice =
    ErrorAdvice("give a directory that this user may write to or create, or run bintide as its owner");

/// Options of one `receive` run.
pub(crate) struct ReceiveOptions {
    /// Directory of the store.
    pub(crate) folder: PathBuf,
    /// Start point of an empty store.
    pub(crate) begin: StartPoint,
    pub(crate) end: ReplicaEnd,
    /// Encryption of logs on disk.
    pub(crate) at_rest: LogEncryption,
    pub(crate) keep: Option<RetentionLimit>,
    /// Compression level of closed logs; `None` to leave them uncompressed.
    pub(crate) compress: Option<ZstdLevel>,
    pub(crate) semi_sync: SemiSync,
    /// Reaction to a full disk.
    pub(crate) when_full: DiskFullPolicy,
}

/// Reaction to a full disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DiskFullPolicy {
    /// Waits until space is free.
    Wait,
    /// Fails.
    Fail,
}

/// State of a `receive` run.
pub(crate) struct LogReceiver {
    pub(super) wanted: ReceiveOptions,
    quiet: bool,
    addresses: Vec<ServerAddress>,
    pub(super) options: LinkOptions,
    pub(super) identity: ReplicaIdentity,
    pub(super) watch: ReceiveMonitor,
    pub(super) rotation: SourceRotation,
    pub(super) compressor: Option<LogCompressor>,
    /// Set while the disk is full: since a write failed, and until one succeeds.
    disk_full: Option<DiskFullBackoff>,
    /// Messages shown since the last received event, so that each is shown once.
    shown_messages: HashSet<String>,
    /// Set while a lost connection has been reported.
    is_lost: bool,
}

impl LogReceiver {
    /// Opens the store and deletes logs beyond `keep`. Connects to no source yet.
    pub(crate) fn open(
        wanted: ReceiveOptions,
        addresses: Vec<ServerAddress>,
        mut options: LinkOptions,
        watch: ReceiveMonitor,
        global: &GlobalArgs,
    ) -> Result<(Self, StoreWriter), CommandFailure> {
        if addresses.len() > 1 {
            options.connect_timeout = options.connect_timeout.min(CONNECT_TIMEOUT);
        }
        let not_begun = |error: logs::LogError| {
            CommandFailure::NotStarted(match is_folder_error(&error) {
                true => anyhow::Error::from(error).context(FOLDER_ADVICE),
                false => add_advice(error),
            })
        };
        refuse_data_directory(&wanted.folder).map_err(CommandFailure::NotStarted)?;
        wanted.at_rest.check().map_err(not_begun)?;
        let store = StoreFolder::lock(&wanted.folder).map_err(not_begun)?;
        refuse_open_logs(&store).map_err(CommandFailure::NotStarted)?;
        let mut store = store.open(wanted.at_rest.clone()).map_err(not_begun)?;
        let identity = ReplicaIdentity::load_or_create(&wanted.folder, &mut store)
            .map_err(CommandFailure::NotStarted)?;
        // A log that has just begun may have to be dropped, so the log before it is kept until then.
        if let Some(keep) = wanted.keep
            && store.has_head().map_err(not_begun)?
        {
            watch.count_purged(store.purge(keep, SystemTime::now()).map_err(not_begun)?);
        }
        let quiet = global.quiet;
        let turn = SourceRotation::of(addresses.len());
        let compressor = wanted.compress.map(|level| {
            let say: fn(&str) = if quiet { |_| {} } else { say };
            LogCompressor::start(&wanted.folder, wanted.at_rest.keyring(), level, watch.board(), say)
        });
        let receiver = Self {
            wanted,
            quiet,
            addresses,
            options,
            identity,
            watch,
            rotation: turn,
            compressor,
            disk_full: None,
            shown_messages: HashSet::new(),
            is_lost: false,
        };
        receiver.show_store(&store);
        Ok((receiver, store))
    }

    /// Runs one connection after the other until the run is cancelled.
    pub(crate) fn run(&mut self, mut store: StoreWriter) -> Result<(), CommandFailure> {
        loop {
            let before = end_of(&store);
            let ended = self.run_connection(&mut store);
            self.watch.set_disconnected();
            if before != end_of(&store) {
                self.rotation.note_progress();
                self.shown_messages.clear();
            }
            match ended {
                Disconnect::Done => break,
                Disconnect::Lost(error) => self.schedule_retry(error.into(), SourceTrouble::Lost)?,
                Disconnect::Unfit(reason) => {
                    self.schedule_retry(anyhow!(reason), SourceTrouble::Unsuitable)?
                }
                Disconnect::Failed(error) => self.schedule_retry(error, SourceTrouble::Permanent)?,
                Disconnect::StartUnavailable(error) => return Err(CommandFailure::NotStarted(error)),
                Disconnect::DiskError(error) => return Err(self.disk_failure(&mut store, error)),
                Disconnect::Keyring(error) => {
                    if !self.rotation.has_begun() || !self.wait_for_keyring(&error) {
                        let error = anyhow::Error::from(error).context(KEYRING_ADVICE);
                        self.schedule_retry(error, SourceTrouble::Permanent)?;
                    }
                }
                Disconnect::DiskFull(error) if self.wanted.when_full == DiskFullPolicy::Fail => {
                    return Err(CommandFailure::Failed(error.into()));
                }
                Disconnect::DiskFull(error) => self.wait_for_room(&mut store, &error)?,
            }
            if self.options.cancel.is_cancelled() {
                break;
            }
        }
        self.sync(&mut store).map_err(anyhow::Error::from)?;
        if let Some(compressor) = &mut self.compressor {
            compressor.finish(match self.wanted.end {
                ReplicaEnd::LastEvent => CompressorShutdown::Drain,
                ReplicaEnd::Never => CompressorShutdown::Abandon,
            });
        }
        Ok(())
    }

    /// Returns the address of the current source.
    pub(super) fn address(&self) -> &ServerAddress {
        &self.addresses[self.rotation.current()]
    }

    /// Tells whether there is more than one source.
    pub(super) fn has_others(&self) -> bool {
        self.addresses.len() > 1
    }

    pub(super) fn board(&self) -> SharedReceiveStats {
        self.watch.board()
    }

    /// Prints the result.
    pub(super) fn print(&mut self, folder: &Path, json: bool) -> CommandResult {
        self.watch.print(folder, json)
    }

    /// Waits until the next attempt. Returns the error if no further attempt can succeed.
    fn schedule_retry(&mut self, error: anyhow::Error, trouble: SourceTrouble) -> Result<(), CommandFailure> {
        let (has_begun, before) = (self.rotation.has_begun(), self.rotation.current());
        let Some(pause) = self.rotation.next_backoff(trouble) else {
            return Err(if has_begun {
                CommandFailure::Failed(error)
            } else {
                CommandFailure::NotStarted(error)
            });
        };
        let what = match self.rotation.current() == before {
            true => "retrying".to_owned(),
            false => format!("trying {}", self.address()),
        };
        let when = if pause.is_zero() { "now".to_owned() } else { format!("in {}", duration(pause)) };
        let line = format!("{error:#}; {what} {when}");
        self.say_once(line);
        self.is_lost = true;
        self.sleep_unless_cancelled(pause);
        Ok(())
    }

    /// Records that a source is connected, and reports it if the connection had been lost.
    pub(super) fn note_connected(&mut self, clock_s: Option<u64>) {
        self.watch.set_connected(clock_s);
        if mem::take(&mut self.is_lost) {
            self.say_once(format!("connected to the server at {}", self.address().endpoint()));
        }
    }

    /// Shows a message unless it was shown since the last received event. Otherwise a lost source would repeat it at
    /// each attempt.
    fn say_once(&mut self, line: String) {
        if !self.shown_messages.contains(&line) {
            self.say(&line);
            self.shown_messages.insert(line);
        }
    }

    pub(super) fn say(&self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    fn sleep_unless_cancelled(&self, pause: Duration) {
        let glances = pause.as_millis() / POLL_INTERVAL.as_millis();
        for _ in 0..glances {
            if self.options.cancel.is_cancelled() {
                return;
            }
            thread::sleep(POLL_INTERVAL);
        }
    }

    fn show_store(&self, store: &StoreWriter) {
        self.watch.set_store(&self.wanted.folder, self.wanted.at_rest.keyring());
        if store.cut_bytes() > 0 {
            let cut = counted(store.cut_bytes(), "byte");
            self.say(&format!("removed {cut} of an incomplete event; the source sends it again"));
        }
        if let (Some(option), Some(place)) = (self.wanted.begin.option(), store.store_end()) {
            self.say(&format!(
                "{option} is ignored: it applies to an empty directory only, but {} has logs; resuming in {} at {}",
                self.wanted.folder.display(),
                place.log,
                place.next
            ));
        }
    }

    /// Ends the state of a full disk after a successful write.
    pub(super) fn end_disk_full(&mut self) {
        if self.disk_full.take().is_some() {
            self.watch.set_full(false);
            self.say("disk space is free again: resuming");
        }
    }

    /// Waits until the store can be written to again, or the run is cancelled.
    fn wait_for_room(
        &mut self,
        store: &mut StoreWriter,
        error: &logs::LogError,
    ) -> Result<(), CommandFailure> {
        self.watch.set_full(true);
        let mut lacking = self.reopen_store(store)?;
        let is_new = self.disk_full.is_none();
        let mut no_room = self.disk_full.take().unwrap_or_default();
        no_room.found(lacking.unwrap_or_default(), self.watch.elapsed());
        if is_new {
            let until = match no_room.wanted(DiskSpace::of(&self.wanted.folder)) {
                Some(wanted) => format!("{} are free", bytes(wanted)),
                None => "space is free".to_owned(),
            };
            self.say(&format!("{error}; receiving is paused until {until}"));
        }
        while !self.options.cancel.is_cancelled() {
            self.sleep_unless_cancelled(BACKOFF_MIN);
            self.watch.tick();
            // Expired logs may take the space: they are purged while the disk is full.
            let is_purged = lacking.is_some() && self.purge_for_room(store)?;
            if !no_room.is_over(DiskSpace::of(&self.wanted.folder), self.watch.elapsed()) {
                continue;
            }
            if is_purged {
                break;
            }
            if lacking.is_none() {
                lacking = self.reopen_store(store)?;
            }
            no_room.found(lacking.unwrap_or_default(), self.watch.elapsed());
        }
        let lacks_events = no_room.lacks_events();
        self.disk_full = Some(no_room);
        if !lacks_events && !self.options.cancel.is_cancelled() {
            self.end_disk_full();
        }
        Ok(())
    }

    /// Purges expired logs. Returns false if the disk has no space even to record that.
    fn purge_for_room(&self, store: &mut StoreWriter) -> Result<bool, CommandFailure> {
        match self.purge_behind_head(store) {
            Err(Disconnect::DiskFull(_)) => Ok(false),
            Err(Disconnect::Failed(error)) => Err(CommandFailure::Failed(error)),
            Err(Disconnect::DiskError(error)) => Err(CommandFailure::Failed(error.into())),
            // The next connection meets any other error again, and reports it.
            _ => Ok(true),
        }
    }

    /// Waits up to `KEYRING_TIMEOUT` for a valid keyring file, or for cancellation. Returns false if neither
    /// happens.
    fn wait_for_keyring(&self, error: &logs::LogError) -> bool {
        self.say(&format!("{error}; waiting {} for a valid keyring", duration(KEYRING_TIMEOUT)));
        for _ in 0..KEYRING_TIMEOUT.as_millis() / BACKOFF_MIN.as_millis() {
            self.sleep_unless_cancelled(BACKOFF_MIN);
            if self.options.cancel.is_cancelled() || self.wanted.at_rest.check().is_ok() {
                return true;
            }
        }
        false
    }

    /// Returns the failure for a disk error, which no other source can solve. Reopens the store, so that the next run
    /// does not rely on unsynced data.
    fn disk_failure(&self, store: &mut StoreWriter, error: logs::LogError) -> CommandFailure {
        let error = match store.reopen() {
            Ok(_) => anyhow::Error::from(error),
            Err(again) => anyhow::Error::from(error).context(again),
        };
        if self.rotation.has_begun() {
            CommandFailure::Failed(error)
        } else {
            CommandFailure::NotStarted(error)
        }
    }

    /// Reopens the store and returns the number of bytes that were not written; `None` if the disk has no space for
    /// that either.
    fn reopen_store(&mut self, store: &mut StoreWriter) -> Result<Option<u64>, CommandFailure> {
        match store.reopen() {
            Ok(lacking) => {
                self.watch.discard_pending(store);
                Ok(Some(lacking))
            }
            Err(error) if error.is_disk_full() => Ok(None),
            Err(error) => Err(CommandFailure::Failed(error.into())),
        }
    }
}

/// Tells whether the directory is not writable for this user, or read-only.
fn is_folder_error(error: &logs::LogError) -> bool {
    let is_so = |cause: &io::Error| {
        matches!(cause.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
    };
    !error.is_keyring_error() && matches!(error, logs::LogError::Io { cause, .. } if is_so(cause))
}

fn say(text: &str) {
    screen::write_message(text);
}

fn end_of(store: &StoreWriter) -> Option<(String, u64)> {
    store.store_end().map(|place| (place.log.to_owned(), place.next))
}

/// Refuses a server's data directory: the server would find logs that it did not write.
fn refuse_data_directory(folder: &Path) -> Result<(), anyhow::Error> {
    const OF_A_SERVER: [&str; 4] = ["auto.cnf", "ibdata1", "mysql.ibd", "aria_log_control"];
    match OF_A_SERVER.into_iter().find(|name| folder.join(name).exists()) {
        None => Ok(()),
        Some(name) => Err(anyhow!(
            "{} is a server's data directory (it has {name}): give a directory only for received logs",
            folder.display()
        )),
    }
}

/// Refuses a directory whose logs another process writes: they belong to a server.
fn refuse_open_logs(folder: &StoreFolder) -> Result<(), anyhow::Error> {
    match logs::find_running_server(folder.path()) {
        None => Ok(()),
        Some(running) => Err(anyhow!(
            "{} is in use: {running}; give a directory that only bintide receive writes to",
            folder.path().display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use std::io;
    use std::path::Path;
    use std::thread;

    use logs::{LogEncryption, LogReader, ReadOutcome, RetentionLimit};
    use servers::{LinkOptions, ServerAddress};
    use wire::{ReplicaEnd, SemiSync};

    use super::{DiskFullPolicy, LogReceiver, POLL_INTERVAL, ReceiveOptions};
    use crate::commands::receive::monitor::ReceiveMonitor;
    use crate::commands::receive::start_point::StartPoint;
    use crate::global_args::GlobalArgs;
    use crate::screen::ColorWhen;

    #[test]
    fn expired_logs_are_purged_while_the_disk_is_full() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = ReceiveOptions {
            folder: folder.path().to_owned(),
            begin: StartPoint::Oldest,
            end: ReplicaEnd::Never,
            at_rest: LogEncryption::Plain { keyring: None },
            keep: Some(RetentionLimit::Size(1)),
            compress: None,
            semi_sync: SemiSync::Off,
            when_full: DiskFullPolicy::Wait,
        };
        let global = GlobalArgs { color: ColorWhen::Never, config: None, quiet: true };
        let (addresses, options) =
            (vec![ServerAddress::parse("mysql://root@localhost/").unwrap()], LinkOptions::default());
        let opened = LogReceiver::open(wanted, addresses, options, ReceiveMonitor::silent(), &global);
        let Ok((mut receiver, mut store)) = opened else { panic!("an empty directory is opened") };
        for name in ["b.000001", "b.000002"] {
            store.begin_log(name, 4).unwrap();
            let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/gtids/binlog.000001");
            let mut reader = LogReader::open(sample).unwrap();
            while let ReadOutcome::Some(event) = reader.next_event().unwrap() {
                store.append_next(event.raw.bytes()).unwrap();
            }
        }
        // A disk that never has free space.
        receiver.wanted.folder = "/proc".into();
        let (cancel, first) = (receiver.options.cancel.clone(), folder.path().join("b.000001"));
        let watcher = thread::spawn(move || {
            (0..300).take_while(|_| first.exists()).for_each(|_| thread::sleep(POLL_INTERVAL));
            cancel.cancel();
        });
        let cause = io::Error::from_raw_os_error(28);
        let error = logs::LogError::Io { verb: "write to", name: "b.000002".to_owned(), cause };
        assert!(receiver.wait_for_room(&mut store, &error).is_ok());
        watcher.join().unwrap();
        assert!(!folder.path().join("b.000001").exists() && folder.path().join("b.000002").exists());
    }
}
