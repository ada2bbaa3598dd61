//! Receives logs: one connection after the other, each to a source that can continue.

use std::collections::HashSet;
use std::io::{self, ErrorKind};
use std::mem;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::anyhow;
use binlog::Level;
use logs::{AtRest, Keep, StoreFolder, StoreWriter};
use servers::{Address, LinkOptions};
use wire::{End, SemiSync};

use crate::args::Global;
use crate::commands::receive::begin::Begin;
use crate::commands::receive::compress::{AtEnd, Compressor};
use crate::commands::receive::ended::Ended;
use crate::commands::receive::identity::Identity;
use crate::commands::receive::room::{NoRoom, Room};
use crate::commands::receive::turn::{PAUSE_MIN, Trouble, Turn};
use crate::commands::receive::watch::{Board, Watch};
use crate::exit::{Advice, Failure, Outcome};
use crate::inputs::advised;
use crate::running;
use crate::screen;
use crate::units::{bytes, counted, duration};

/// Interval at which blocking waits poll for Ctrl-C.
const GLANCE: Duration = Duration::from_millis(100);

/// Maximum time to connect to one of several sources.
const CONNECT_MAX: Duration = Duration::from_secs(3);

/// Time to wait for a valid keyring file when a log begins: another process may be writing it.
const KEYRING_PATIENCE: Duration = Duration::from_secs(10);
const WHOLE_KEYRING: Advice =
    Advice("write the complete keyring to a new file, rename it over the old one, and run the command again");

const OUR_FOLDER: Advice =
    Advice("give a directory that this user may write to or create, or run bintide as its owner");

/// Options of one `receive` run.
pub(crate) struct Wanted {
    /// Directory of the store.
    pub(crate) folder: PathBuf,
    /// Start point of an empty store.
    pub(crate) begin: Begin,
    pub(crate) end: End,
    /// Encryption of logs on disk.
    pub(crate) at_rest: AtRest,
    pub(crate) keep: Option<Keep>,
    /// Compression level of closed logs; `None` to leave them uncompressed.
    pub(crate) compress: Option<Level>,
    pub(crate) semi_sync: SemiSync,
    /// Reaction to a full disk.
    pub(crate) when_full: WhenFull,
}

/// Reaction to a full disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WhenFull {
    /// Waits until space is free.
    Wait,
    /// Fails.
    Fail,
}

/// State of a `receive` run.
pub(crate) struct Receiver {
    pub(super) wanted: Wanted,
    quiet: bool,
    addresses: Vec<Address>,
    pub(super) options: LinkOptions,
    pub(super) identity: Identity,
    pub(super) watch: Watch,
    pub(super) turn: Turn,
    pub(super) compressor: Option<Compressor>,
    /// Set while the disk is full: since a write failed, and until one succeeds.
    no_room: Option<NoRoom>,
    /// Messages shown since the last received event, so that each is shown once.
    said: HashSet<String>,
    /// Set while a lost connection has been reported.
    is_lost: bool,
}

impl Receiver {
    /// Opens the store and deletes logs beyond `keep`. Connects to no source yet.
    pub(crate) fn open(
        wanted: Wanted,
        addresses: Vec<Address>,
        mut options: LinkOptions,
        watch: Watch,
        global: &Global,
    ) -> Result<(Self, StoreWriter), Failure> {
        if addresses.len() > 1 {
            options.connect_timeout = options.connect_timeout.min(CONNECT_MAX);
        }
        let not_begun = |error: logs::Error| {
            Failure::NotBegun(match is_not_ours(&error) {
                true => anyhow::Error::from(error).context(OUR_FOLDER),
                false => advised(error),
            })
        };
        refuse_data_directory(&wanted.folder).map_err(Failure::NotBegun)?;
        wanted.at_rest.check().map_err(not_begun)?;
        let store = StoreFolder::lock(&wanted.folder).map_err(not_begun)?;
        refuse_open_logs(&store).map_err(Failure::NotBegun)?;
        let mut store = store.open(wanted.at_rest.clone()).map_err(not_begun)?;
        let identity = Identity::of(&wanted.folder, &mut store).map_err(Failure::NotBegun)?;
        // A log that has just begun may have to be dropped, so the log before it is kept until then.
        if let Some(keep) = wanted.keep
            && store.has_head().map_err(not_begun)?
        {
            watch.purged(store.purge(keep, SystemTime::now()).map_err(not_begun)?);
        }
        let quiet = global.quiet;
        let turn = Turn::of(addresses.len());
        let compressor = wanted.compress.map(|level| {
            let say: fn(&str) = if quiet { |_| {} } else { say };
            Compressor::start(&wanted.folder, wanted.at_rest.keyring(), level, watch.board(), say)
        });
        let receiver = Self {
            wanted,
            quiet,
            addresses,
            options,
            identity,
            watch,
            turn,
            compressor,
            no_room: None,
            said: HashSet::new(),
            is_lost: false,
        };
        receiver.opened(&store);
        Ok((receiver, store))
    }

    /// Runs one connection after the other until the run is cancelled.
    pub(crate) fn run(&mut self, mut store: StoreWriter) -> Result<(), Failure> {
        loop {
            let before = end_of(&store);
            let ended = self.connection(&mut store);
            self.watch.disconnected();
            if before != end_of(&store) {
                self.turn.got_further();
                self.said.clear();
            }
            match ended {
                Ended::Done => break,
                Ended::Lost(error) => self.try_again(error.into(), Trouble::Lost)?,
                Ended::Unfit(reason) => self.try_again(anyhow!(reason), Trouble::Unfit)?,
                Ended::Failed(error) => self.try_again(error, Trouble::Hopeless)?,
                Ended::Wrong(error) => return Err(Failure::NotBegun(error)),
                Ended::Disk(error) => return Err(self.broken(&mut store, error)),
                Ended::Keyring(error) => {
                    if !self.turn.has_begun() || !self.wait_for_keyring(&error) {
                        let error = anyhow::Error::from(error).context(WHOLE_KEYRING);
                        self.try_again(error, Trouble::Hopeless)?;
                    }
                }
                Ended::Full(error) if self.wanted.when_full == WhenFull::Fail => {
                    return Err(Failure::Failed(error.into()));
                }
                Ended::Full(error) => self.wait_for_room(&mut store, &error)?,
            }
            if self.options.cancel.is_cancelled() {
                break;
            }
        }
        self.sync(&mut store).map_err(anyhow::Error::from)?;
        if let Some(compressor) = &mut self.compressor {
            compressor.finish(match self.wanted.end {
                End::LastEvent => AtEnd::Done,
                End::Never => AtEnd::Left,
            });
        }
        Ok(())
    }

    /// Returns the address of the current source.
    pub(super) fn address(&self) -> &Address {
        &self.addresses[self.turn.now()]
    }

    /// Tells whether there is more than one source.
    pub(super) fn has_others(&self) -> bool {
        self.addresses.len() > 1
    }

    pub(super) fn board(&self) -> Board {
        self.watch.board()
    }

    /// Prints the result.
    pub(super) fn print(&mut self, folder: &Path, json: bool) -> Outcome {
        self.watch.print(folder, json)
    }

    /// Waits until the next attempt. Returns the error if no further attempt can succeed.
    fn try_again(&mut self, error: anyhow::Error, trouble: Trouble) -> Result<(), Failure> {
        let (has_begun, before) = (self.turn.has_begun(), self.turn.now());
        let Some(pause) = self.turn.after(trouble) else {
            return Err(if has_begun { Failure::Failed(error) } else { Failure::NotBegun(error) });
        };
        let what = match self.turn.now() == before {
            true => "retrying".to_owned(),
            false => format!("trying {}", self.address()),
        };
        let when = if pause.is_zero() { "now".to_owned() } else { format!("in {}", duration(pause)) };
        let line = format!("{error:#}; {what} {when}");
        self.say_once(line);
        self.is_lost = true;
        self.rest(pause);
        Ok(())
    }

    /// Records that a source is connected, and reports it if the connection had been lost.
    pub(super) fn connected(&mut self, clock_s: Option<u64>) {
        self.watch.connected(clock_s);
        if mem::take(&mut self.is_lost) {
            self.say_once(format!("connected to the server at {}", self.address().place()));
        }
    }

    /// Shows a message unless it was shown since the last received event. Otherwise a lost source would repeat it at
    /// each attempt.
    fn say_once(&mut self, line: String) {
        if !self.said.contains(&line) {
            self.say(&line);
            self.said.insert(line);
        }
    }

    pub(super) fn say(&self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    fn rest(&self, pause: Duration) {
        let glances = pause.as_millis() / GLANCE.as_millis();
        for _ in 0..glances {
            if self.options.cancel.is_cancelled() {
                return;
            }
            thread::sleep(GLANCE);
        }
    }

    fn opened(&self, store: &StoreWriter) {
        self.watch.opened(&self.wanted.folder, self.wanted.at_rest.keyring());
        if store.cut() > 0 {
            let cut = counted(store.cut(), "byte");
            self.say(&format!("removed {cut} of an incomplete event; the source sends it again"));
        }
        if let (Some(option), Some(place)) = (self.wanted.begin.option(), store.place()) {
            self.say(&format!(
                "{option} is ignored: it applies to an empty directory only, but {} has logs; resuming in {} at {}",
                self.wanted.folder.display(),
                place.log,
                place.next
            ));
        }
    }

    /// Ends the state of a full disk after a successful write.
    pub(super) fn has_room(&mut self) {
        if self.no_room.take().is_some() {
            self.watch.set_full(false);
            self.say("disk space is free again: resuming");
        }
    }

    /// Waits until the store can be written to again, or the run is cancelled.
    fn wait_for_room(&mut self, store: &mut StoreWriter, error: &logs::Error) -> Result<(), Failure> {
        self.watch.set_full(true);
        let mut lacking = self.reopened(store)?;
        let is_new = self.no_room.is_none();
        let mut no_room = self.no_room.take().unwrap_or_default();
        no_room.found(lacking.unwrap_or_default(), self.watch.elapsed());
        if is_new {
            let until = match no_room.wanted(Room::of(&self.wanted.folder)) {
                Some(wanted) => format!("{} are free", bytes(wanted)),
                None => "space is free".to_owned(),
            };
            self.say(&format!("{error}; receiving is paused until {until}"));
        }
        while !self.options.cancel.is_cancelled() {
            self.rest(PAUSE_MIN);
            self.watch.tick();
            // Expired logs may take the space: they are purged while the disk is full.
            let is_purged = lacking.is_some() && self.is_purged(store)?;
            if !no_room.is_over(Room::of(&self.wanted.folder), self.watch.elapsed()) {
                continue;
            }
            if is_purged {
                break;
            }
            if lacking.is_none() {
                lacking = self.reopened(store)?;
            }
            no_room.found(lacking.unwrap_or_default(), self.watch.elapsed());
        }
        let lacks_events = no_room.lacks_events();
        self.no_room = Some(no_room);
        if !lacks_events && !self.options.cancel.is_cancelled() {
            self.has_room();
        }
        Ok(())
    }

    /// Purges expired logs. Returns false if the disk has no space even to record that.
    fn is_purged(&self, store: &mut StoreWriter) -> Result<bool, Failure> {
        match self.purge_behind_head(store) {
            Err(Ended::Full(_)) => Ok(false),
            Err(Ended::Failed(error)) => Err(Failure::Failed(error)),
            Err(Ended::Disk(error)) => Err(Failure::Failed(error.into())),
            // The next connection meets any other error again, and reports it.
            _ => Ok(true),
        }
    }

    /// Waits up to `KEYRING_PATIENCE` for a valid keyring file, or for cancellation. Returns false if neither
    /// happens.
    fn wait_for_keyring(&self, error: &logs::Error) -> bool {
        self.say(&format!("{error}; waiting {} for a valid keyring", duration(KEYRING_PATIENCE)));
        for _ in 0..KEYRING_PATIENCE.as_millis() / PAUSE_MIN.as_millis() {
            self.rest(PAUSE_MIN);
            if self.options.cancel.is_cancelled() || self.wanted.at_rest.check().is_ok() {
                return true;
            }
        }
        false
    }

    /// Returns the failure for a disk error, which no other source can solve. Reopens the store, so that the next run
    /// does not rely on unsynced data.
    fn broken(&self, store: &mut StoreWriter, error: logs::Error) -> Failure {
        let error = match store.reopen() {
            Ok(_) => anyhow::Error::from(error),
            Err(again) => anyhow::Error::from(error).context(again),
        };
        if self.turn.has_begun() { Failure::Failed(error) } else { Failure::NotBegun(error) }
    }

    /// Reopens the store and returns the number of bytes that were not written; `None` if the disk has no space for
    /// that either.
    fn reopened(&mut self, store: &mut StoreWriter) -> Result<Option<u64>, Failure> {
        match store.reopen() {
            Ok(lacking) => {
                self.watch.reopened(store);
                Ok(Some(lacking))
            }
            Err(error) if error.is_full() => Ok(None),
            Err(error) => Err(Failure::Failed(error.into())),
        }
    }
}

/// Tells whether the directory is not writable for this user, or read-only.
fn is_not_ours(error: &logs::Error) -> bool {
    let is_so = |cause: &io::Error| {
        matches!(cause.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem)
    };
    !error.is_of_keyring() && matches!(error, logs::Error::Io { cause, .. } if is_so(cause))
}

fn say(text: &str) {
    screen::remark(text);
}

fn end_of(store: &StoreWriter) -> Option<(String, u64)> {
    store.place().map(|place| (place.log.to_owned(), place.next))
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
    match running::in_directory(folder.path()) {
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

    use logs::{AtRest, Keep, LogReader, Next};
    use servers::{Address, LinkOptions};
    use wire::{End, SemiSync};

    use super::{GLANCE, Receiver, Wanted, WhenFull};
    use crate::args::Global;
    use crate::commands::receive::begin::Begin;
    use crate::commands::receive::watch::Watch;
    use crate::screen::When;

    #[test]
    fn what_is_beyond_what_is_kept_goes_while_there_is_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let wanted = Wanted {
            folder: folder.path().to_owned(),
            begin: Begin::Oldest,
            end: End::Never,
            at_rest: AtRest::Plain { keyring: None },
            keep: Some(Keep::Size(1)),
            compress: None,
            semi_sync: SemiSync::Off,
            when_full: WhenFull::Wait,
        };
        let global = Global { color: When::Never, config: None, quiet: true };
        let (addresses, options) =
            (vec![Address::parse("mysql://root@localhost/").unwrap()], LinkOptions::default());
        let opened = Receiver::open(wanted, addresses, options, Watch::silent(), &global);
        let Ok((mut receiver, mut store)) = opened else { panic!("an empty directory is opened") };
        for name in ["b.000001", "b.000002"] {
            store.begin(name, 4).unwrap();
            let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/gtids/binlog.000001");
            let mut reader = LogReader::open(sample).unwrap();
            while let Next::Some(event) = reader.next_event().unwrap() {
                store.append_next(event.raw.bytes()).unwrap();
            }
        }
        // A disk that never has free space.
        receiver.wanted.folder = "/proc".into();
        let (cancel, first) = (receiver.options.cancel.clone(), folder.path().join("b.000001"));
        let watcher = thread::spawn(move || {
            (0..300).take_while(|_| first.exists()).for_each(|_| thread::sleep(GLANCE));
            cancel.cancel();
        });
        let cause = io::Error::from_raw_os_error(28);
        let error = logs::Error::Io { verb: "write to", name: "b.000002".to_owned(), cause };
        assert!(receiver.wait_for_room(&mut store, &error).is_ok());
        watcher.join().unwrap();
        assert!(!folder.path().join("b.000001").exists() && folder.path().join("b.000002").exists());
    }
}
