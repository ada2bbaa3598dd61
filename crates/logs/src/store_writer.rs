//! A store that is written to: the logs of a source, byte for byte.

use std::fs::{self, File};
use std::io::{ErrorKind, Write as _};
use std::mem;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use binlog::encryption::KeyringKey;
use binlog::gtid::Uuid;
use binlog::{ChecksumAlgorithm, EventType, Framer, MAGIC, RawEvent};

use crate::contents::Contents;
use crate::error::Error;
use crate::keyring::{open_log, read_keyring};
use crate::log_file::LogFile;
use crate::own_files::private_options;
use crate::reader::Next;
use crate::regular_file::read_regular_text;
use crate::series::{LogName, Series};
use crate::store_folder::{INDEX_PREFIX, StoreFolder, is_log_name, log_names};

/// The names of logs that are about to go, one a line, until they are gone.
const PURGED: &str = "bintide.purged";

/// A store that is written to: the logs of a source, byte for byte, and an index of them.
///
/// A log is in the index once it is there; what was appended is safe once it was [synced](StoreWriter::sync). Opened
/// again after a crash, the last log is cut behind its last whole event, and the source is to be asked for what follows.
#[derive(Debug)]
pub struct StoreWriter {
    at_rest: AtRest,
    log: Option<OpenLog>,
    /// Bytes that were cut off when it was opened.
    cut: u64,
    /// Bytes that are just being written: more than none where the system has refused that.
    tried: u64,
    /// A log that the system could not bring to the disk, and up to where it is there. What is behind that may be gone
    /// from the disk although it can be read, and another try says nothing of it.
    doubtful: Option<(String, u64)>,
    // Last: it is locked as long as a file of it is open.
    folder: StoreFolder,
}

#[derive(Debug)]
struct OpenLog {
    name: String,
    /// Its name at the source.
    name_at_source: String,
    file: LogFile,
    /// Where the last event starts; the same as `position` as long as there is none.
    last: u64,
    /// Where the next event starts.
    position: u64,
    /// Up to there it is on the disk.
    synced: u64,
}

/// How a store's logs lie on the disk. A log that is there stays as it is, and is written on so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AtRest {
    /// New ones in the open.
    Plain {
        /// What opens the last one that is there, should it be encrypted.
        keyring: Option<PathBuf>,
    },
    /// New ones encrypted, as a server with `binlog_encryption` does it: with the newest key of a keyring file, which is
    /// read again for each, and a password of their own.
    Encrypted {
        /// The file.
        keyring: PathBuf,
    },
}

impl AtRest {
    /// The keyring file.
    pub fn keyring(&self) -> Option<&Path> {
        match self {
            Self::Plain { keyring } => keyring.as_deref(),
            Self::Encrypted { keyring } => Some(keyring),
        }
    }

    /// Can the keyring file be read, if there is one, and has it what a new log needs?
    ///
    /// # Errors
    ///
    /// When it cannot, is no keyring, or lacks a key.
    pub fn check(&self) -> Result<(), Error> {
        self.keyring().map(read_keyring).transpose()?;
        self.key().map(drop)
    }

    /// The key of a new log; none if it is in the open.
    fn key(&self) -> Result<Option<KeyringKey>, Error> {
        let Self::Encrypted { keyring } = self else { return Ok(None) };
        let keys = read_keyring(keyring)?;
        let named = |error| Error::NoLogKey { name: keyring.display().to_string(), error };
        keys.newest_log_key().map(|key| Some(key.clone())).map_err(named)
    }
}

/// What became of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Appended {
    /// It is the last one now.
    New,
    /// It was the last one before.
    Again,
}

/// Where in its last log a store ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorePlace<'s> {
    /// The log's name at the source.
    pub log: &'s str,
    /// The series that it is of; none for the store's first.
    pub series: Option<Series<'s>>,
    /// Where its last event starts: the same as `next` in a log that has none yet.
    pub last: u64,
    /// Where the next one starts.
    pub next: u64,
}

/// How much a store keeps. What is beyond goes, the oldest logs first, but never the one that is written to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// What was written to last within so much time.
    Age(Duration),
    /// So many bytes, in all logs together.
    Size(u64),
}

impl StoreWriter {
    /// Opens the store in `folder`, and makes the folder if it is not there.
    ///
    /// # Errors
    ///
    /// When the system refuses, another process writes to the store, the folder has logs and is no store, or the keyring
    /// file is none, or lacks a key.
    pub fn open(folder: &Path, at_rest: AtRest) -> Result<Self, Error> {
        at_rest.check()?; // In front of all that is made for the store.
        StoreFolder::lock(folder)?.open(at_rest)
    }

    fn in_folder(folder: StoreFolder, at_rest: AtRest) -> Result<Self, Error> {
        let mut store = Self { at_rest, log: None, cut: 0, tried: 0, doubtful: None, folder };
        store.recover_last()?;
        Ok(store)
    }

    /// Opens the last log again, where the system has refused to write, as is done behind a crash: what is not there is to
    /// be asked for again, and so is what could not be brought to the disk. Says how many bytes those are, as far as they
    /// had been appended or were to be.
    ///
    /// # Errors
    ///
    /// As [`StoreWriter::open`]; it can be tried again, and nothing else can be done until it has worked.
    pub fn reopen(&mut self) -> Result<u64, Error> {
        // What still waits is written now, or never.
        let before = self.log.take().map(|log| (log.name, log.position));
        self.cut_doubtful()?;
        self.recover_last()?;
        let missing = match (before, &self.log) {
            (Some((name, end)), Some(log)) if name == log.name => end.saturating_sub(log.position),
            _ => 0,
        };
        Ok(missing + mem::take(&mut self.tried))
    }

    fn cut_doubtful(&mut self) -> Result<(), Error> {
        let Some((name, synced)) = &self.doubtful else { return Ok(()) };
        let path = self.folder.path.join(name);
        if let Some(mut file) = LogFile::open(&path, self.at_rest.keyring())? {
            file.cut(*synced).map_err(io("cut", &path))?;
        }
        self.doubtful = None;
        Ok(())
    }

    /// A file of somebody else's, beside the logs: if it is not there yet, it goes when this does without a log having
    /// begun, as does all that was made for the store.
    pub fn goes_with(&mut self, path: &Path) {
        if self.log.is_none() {
            self.folder.made.if_new(path);
        }
    }

    fn recover_last(&mut self) -> Result<(), Error> {
        if let Some(last) = self.last_indexed()? {
            self.folder.made.keep();
            self.log = Some(self.recover(last)?);
        }
        Ok(())
    }

    /// Where it ends; none in an empty store. A source that is asked for the last event on, and not only for what
    /// follows, shows that it still has the same log.
    pub fn place(&self) -> Option<StorePlace<'_>> {
        self.log.as_ref().map(|log| StorePlace {
            log: &log.name_at_source,
            series: LogName::of(Path::new(&log.name)).and_then(|name| name.series),
            last: log.last,
            next: log.position,
        })
    }

    /// Where in the last log the next event starts: 0 in an empty store.
    pub fn end(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.position)
    }

    /// Where that ends in the last log which its file has: what is behind it waits in memory to be written.
    pub fn written(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| log.position.saturating_sub(log.file.waiting()))
    }

    /// Bytes that were cut off the last log when the store was opened: an event that was not written whole, or is
    /// damaged, and all behind it.
    pub fn cut(&self) -> u64 {
        self.cut
    }

    /// What follows is of this log, from `position` on.
    ///
    /// # Errors
    ///
    /// When the last log does not go on there, the name is none of a log, or there was such a log before; and when the
    /// system refuses.
    pub fn begin(&mut self, name: &str, position: u64) -> Result<(), Error> {
        match &self.log {
            Some(log) if log.name_at_source == name && position == log.last => return Ok(()),
            Some(log) if log.name_at_source == name => return self.check(position),
            _ => {}
        }
        if position != MAGIC.len() as u64 {
            return Err(Error::Place { name: name.to_owned(), found: position, wanted: MAGIC.len() as u64 });
        }
        self.begin_behind(name, |last, next| last.is_right_before(next))
    }

    /// What follows is of this log, wherever in it: the last log goes on, or this one begins. Does it? Within a series
    /// its number may be any higher one: what was asked for by GTIDs lacks nothing, and a source leaves out logs of its
    /// own whose transactions are all here. With the `server_uuid`
    /// of another server than the last log's, it begins a series of its own, whose logs have names of their own.
    ///
    /// # Errors
    ///
    /// As [`StoreWriter::begin`].
    pub fn go_on_in(&mut self, name: &str, other: Option<&str>) -> Result<bool, Error> {
        match (&self.log, other) {
            (Some(log), None) if log.name_at_source == name => Ok(false),
            (Some(_), Some(uuid)) => self.begin_series(name, uuid).map(|()| true),
            _ => self.begin_behind(name, |last, next| last.is_earlier_of_series(next)).map(|()| true),
        }
    }

    /// Goes back behind the last log's last whole transaction, and says which transactions are there then. What is
    /// behind stays for whoever is reading it, until the same comes again and is written over it, or another log begins.
    ///
    /// # Errors
    ///
    /// When the system refuses, or the log is damaged.
    pub fn rewind(&mut self) -> Result<Contents, Error> {
        self.sync()?;
        let Some(log) = &mut self.log else {
            return Err(Error::NoLogs { name: self.folder.path.display().to_string() });
        };
        let path = self.folder.path.join(&log.name);
        let contents = Contents::of(&path, self.at_rest.keyring())?;
        log.file.seek(contents.whole).map_err(io("write to", &path))?;
        (log.last, log.position, log.synced) = (contents.whole, contents.whole, contents.whole);
        Ok(contents)
    }

    /// Which transactions are there, as far as they are on the disk: with the last log, what it says is in front of it.
    ///
    /// # Errors
    ///
    /// As [`StoreWriter::rewind`].
    pub fn contents(&self) -> Result<Contents, Error> {
        match &self.log {
            Some(log) => Contents::of(&self.folder.path.join(&log.name), self.at_rest.keyring()),
            None => Err(Error::NoLogs { name: self.folder.path.display().to_string() }),
        }
    }

    /// Has the last log what stands in front of its transactions? One that has but a format description does not say
    /// which transactions are in front of it. An empty store lacks nothing.
    ///
    /// # Errors
    ///
    /// When the system refuses, or the log is damaged.
    pub fn has_head(&mut self) -> Result<bool, Error> {
        self.sync()?;
        let Some(log) = &self.log else { return Ok(true) };
        let mut reader = open_log(&self.folder.path.join(&log.name), self.at_rest.keyring())?;
        for _ in ["the format description", "what is behind it"] {
            if !matches!(reader.next_event()?, Next::Some(_)) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Removes the last log if it lacks [what stands in front of its transactions](StoreWriter::has_head) and another log
    /// is in front of it, which is the last one then.
    ///
    /// # Errors
    ///
    /// As [`StoreWriter::has_head`].
    pub fn drop_headless(&mut self) -> Result<(), Error> {
        if self.has_head()? {
            return Ok(());
        }
        let Some(index) = self.folder.index()? else { return Ok(()) };
        let text = read_regular_text(&index).map_err(io("read", &index))?;
        let names = log_names(&text, &index)?;
        let [kept @ .., last] = &names[..] else { return Ok(()) };
        let Some(before) = kept.last() else { return Ok(()) };
        let lines: String = text.lines().take(kept.len()).map(|line| format!("{line}\n")).collect();
        self.replace(&index, &lines)?;
        self.log = Some(self.recover((*before).to_owned())?);
        self.remove(last)
    }

    /// Nothing more comes behind the last event of the last log.
    fn cut_rest(&mut self) -> Result<(), Error> {
        self.sync()?;
        let Some(log) = &mut self.log else { return Ok(()) };
        let path = self.folder.path.join(&log.name);
        let size = log.file.size().map_err(io("look at", &path))?;
        if size > log.position {
            log.file.cut(log.position).map_err(io("cut", &path))?;
        }
        Ok(())
    }

    /// Begins this log, if the last one is before it in this sense.
    fn begin_behind(
        &mut self,
        name: &str,
        is_before: fn(&LogName<'_>, &LogName<'_>) -> bool,
    ) -> Result<(), Error> {
        let found = at_source(name)?;
        let Some(last) = self.log.as_ref().map(|log| log.name.clone()) else {
            return self.create(name, name, found.base);
        };
        let series = LogName::of(Path::new(&last)).and_then(|last| last.series);
        let local = series.map_or_else(|| name.to_owned(), |series| found.within(series));
        let names = LogName::of(Path::new(&last)).zip(LogName::of(Path::new(&local)));
        if names.is_none_or(|(last, local)| !is_before(&last, &local)) {
            return Err(Error::NotNext { name: name.to_owned(), last });
        }
        self.cut_rest()?;
        self.create(&local, name, found.base)
    }

    fn begin_series(&mut self, name: &str, uuid: &str) -> Result<(), Error> {
        let found = at_source(name)?;
        let before = self.place().and_then(|place| place.series).map_or(1, |series| series.number);
        let local = found.within(Series { number: before + 1, uuid });
        let is_uuid = uuid.parse::<Uuid>().is_ok();
        if !is_uuid || LogName::of(Path::new(&local)).is_none_or(|local| local.series.is_none()) {
            return Err(Error::LogName { name: local });
        }
        self.cut_rest()?;
        self.create(&local, name, found.base)
    }

    /// Appends an event, which starts at `position` in the log. The last event may come again, if it is the same.
    ///
    /// # Errors
    ///
    /// When the log does not go on there, none has begun, or the last event is another one; and when the system
    /// refuses.
    pub fn append(&mut self, position: u64, event: &[u8]) -> Result<Appended, Error> {
        let Some(log) = &mut self.log else {
            return Err(Error::Place { name: self.last_name(), found: position, wanted: 0 });
        };
        if position == log.last && position < log.position {
            log.compare_last(&self.folder.path, event)?;
            return Ok(Appended::Again);
        }
        self.check(position)?;
        let Some(log) = &mut self.log else { return Ok(Appended::Again) };
        self.tried = event.len() as u64;
        log.file
            .write_all(event)
            .map_err(|cause| io("write to", &self.folder.path.join(&log.name))(cause))?;
        self.tried = 0;
        log.last = log.position;
        log.position += event.len() as u64;
        Ok(Appended::New)
    }

    /// Appends an event behind the last one.
    ///
    /// # Errors
    ///
    /// When no log has begun, or the system refuses.
    pub fn append_next(&mut self, event: &[u8]) -> Result<(), Error> {
        let position = self.log.as_ref().map_or(0, |log| log.position);
        self.append(position, event).map(drop)
    }

    /// Removes the oldest logs as far as they are beyond what is to be kept, and says how many.
    ///
    /// They go from the index first: a log that is not in the index is not there, whenever this is stopped.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn purge(&mut self, keep: Keep, now: SystemTime) -> Result<usize, Error> {
        let Some(index) = self.folder.index()? else { return Ok(0) };
        let text = read_regular_text(&index).map_err(io("read", &index))?;
        let names = log_names(&text, &index)?;
        let count = self.count_beyond(&names, keep, now)?;
        if count == 0 {
            return Ok(0);
        }
        let line = |name: &str| format!("{name}\n");
        self.replace(
            &self.folder.path.join(PURGED),
            &names[..count].iter().copied().map(line).collect::<String>(),
        )?;
        self.replace(&index, &text.lines().skip(count).map(line).collect::<String>())?;
        self.remove_purged(&names[count..])?;
        Ok(count)
    }

    /// Whoever reads the file finds the old text or the new one.
    fn replace(&self, path: &Path, text: &str) -> Result<(), Error> {
        let new = path.with_extension("new");
        let written = private_options().write(true).truncate(true).open(&new).and_then(|mut file| {
            file.write_all(text.as_bytes())?;
            file.sync_all()
        });
        written.map_err(io("write to", &new))?;
        fs::rename(&new, path).map_err(io("replace", path))?;
        self.sync_folder()
    }

    /// Removes what a purge has named, as far as it is not in the index: nothing else in the folder is the store's to
    /// remove.
    fn remove_purged(&self, kept: &[&str]) -> Result<(), Error> {
        let list = self.folder.path.join(PURGED);
        let text = match read_regular_text(&list) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
            read => read.map_err(io("read", &list))?,
        };
        for name in text.lines().filter(|name| is_log_name(name) && !kept.contains(name)) {
            self.remove(name)?;
            // What was compressed has a list of its positions beside it.
            self.remove(&format!("positions.{name}"))?;
        }
        self.remove(PURGED)
    }

    /// How many of the oldest logs are beyond what is to be kept.
    fn count_beyond(&self, names: &[&str], keep: Keep, now: SystemTime) -> Result<usize, Error> {
        let mut kept_size = 0;
        // The last one is being written to.
        for (number, name) in names.iter().enumerate().rev() {
            let path = self.folder.path.join(name);
            let found = fs::metadata(&path).map_err(io("look at", &path))?;
            kept_size += found.len();
            let is_beyond = match keep {
                Keep::Size(size) => kept_size > size,
                Keep::Age(age) => {
                    let written = found.modified().map_err(io("look at", &path))?;
                    now.duration_since(written).is_ok_and(|since| since > age)
                }
            };
            if is_beyond && number + 1 < names.len() {
                return Ok(number + 1);
            }
        }
        Ok(0)
    }

    fn remove(&self, name: &str) -> Result<(), Error> {
        let path = self.folder.path.join(name);
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => Err(io("remove", &path)(cause)),
            _ => Ok(()),
        }
    }

    fn sync_folder(&self) -> Result<(), Error> {
        let folder = File::open(&self.folder.path).map_err(io("open", &self.folder.path))?;
        folder.sync_all().map_err(io("sync", &self.folder.path))
    }

    /// Has all that was appended on the disk.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn sync(&mut self) -> Result<(), Error> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let path = self.folder.path.join(&log.name);
        log.file.flush().map_err(io("write to", &path))?;
        if let Err(cause) = log.file.sync() {
            self.doubtful.get_or_insert_with(|| (log.name.clone(), log.synced));
            return Err(io("sync", &path)(cause));
        }
        log.synced = log.position;
        Ok(())
    }

    fn check(&self, found: u64) -> Result<(), Error> {
        match &self.log {
            Some(log) if log.position != found => {
                Err(Error::Place { name: log.name.clone(), found, wanted: log.position })
            }
            _ => Ok(()),
        }
    }

    fn last_name(&self) -> String {
        self.log.as_ref().map_or_else(|| self.folder.path.display().to_string(), |log| log.name.clone())
    }

    /// The log first, then its line in the index: a log that is not in the index was not begun.
    fn create(&mut self, name: &str, name_at_source: &str, base: &str) -> Result<(), Error> {
        let path = self.folder.path.join(name);
        let key = self.at_rest.key()?;
        self.tried = MAGIC.len() as u64;
        let file = LogFile::make(&path, key.as_ref()).map_err(io("make", &path))?;
        let index =
            self.folder.index()?.unwrap_or_else(|| self.folder.path.join(base).with_extension("index"));
        let mut lines = private_options().append(true).open(&index).map_err(io("open", &index))?;
        let line = format!("{INDEX_PREFIX}{name}\n");
        let written = lines.write_all(line.as_bytes()).and_then(|()| lines.sync_all());
        written.map_err(io("write to", &index))?;
        self.sync_folder()?;
        self.tried = 0;
        self.folder.made.keep();
        let start = MAGIC.len() as u64;
        let (name, name_at_source) = (name.to_owned(), name_at_source.to_owned());
        self.log = Some(OpenLog { name, name_at_source, file, last: start, position: start, synced: start });
        Ok(())
    }

    /// The last log in the index, whose last line is cut off if it was not written whole. What a purge that was
    /// stopped has left goes.
    fn last_indexed(&self) -> Result<Option<String>, Error> {
        let Some(index) = self.folder.index()? else { return Ok(None) };
        let text = read_regular_text(&index).map_err(io("read", &index))?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            let file = private_options().write(true).open(&index).map_err(io("open", &index))?;
            file.set_len(whole as u64).and_then(|()| file.sync_all()).map_err(io("cut", &index))?;
        }
        let names = log_names(&text[..whole], &index)?;
        self.remove_purged(&names)?;
        Ok(names.last().map(|name| (*name).to_owned()))
    }

    /// Opens a log, cut behind its last whole event.
    fn recover(&mut self, name: String) -> Result<OpenLog, Error> {
        let path = self.folder.path.join(&name);
        if let (false, Some(index)) = (path.exists(), self.folder.index()?) {
            let (name, index) = (path.display().to_string(), index.display().to_string());
            return Err(Error::Missing { name, index });
        }
        let start = MAGIC.len() as u64;
        let (mut file, last, position) = match LogFile::open(&path, self.at_rest.keyring())? {
            Some(file) => {
                let (last, position) = whole_end(&path, self.at_rest.keyring())?;
                (file, last, position)
            }
            None => {
                let key = self.at_rest.key()?;
                (LogFile::begin(&path, key.as_ref()).map_err(io("write to", &path))?, start, start)
            }
        };
        let size = file.size().map_err(io("open", &path))?;
        self.cut = size.saturating_sub(position);
        file.cut(position).map_err(io("cut", &path))?;
        file.seek(position).map_err(io("open", &path))?;
        let name_at_source =
            LogName::of(Path::new(&name)).map_or_else(|| name.clone(), |log| log.at_source());
        Ok(OpenLog { name, name_at_source, file, last, position, synced: position })
    }
}

impl StoreFolder {
    /// Opens the store in it.
    ///
    /// # Errors
    ///
    /// As [`StoreWriter::open`].
    pub fn open(self, at_rest: AtRest) -> Result<StoreWriter, Error> {
        at_rest.check()?;
        StoreWriter::in_folder(self, at_rest)
    }
}

impl OpenLog {
    /// The last event has come again: is it the one that is there?
    fn compare_last(&mut self, folder: &Path, event: &[u8]) -> Result<(), Error> {
        let path = folder.join(&self.name);
        let size = (self.position - self.last) as usize;
        let there = self.file.read(&path, self.last, size).map_err(io("read", &path))?;
        match there == event {
            true => Ok(()),
            false => Err(Error::NotSame { name: self.name.clone(), offset: self.last }),
        }
    }
}

/// The name of a source's log, which names no series.
fn at_source(name: &str) -> Result<LogName<'_>, Error> {
    let found = LogName::of(Path::new(name)).filter(|found| is_log_name(name) && found.series.is_none());
    found.ok_or_else(|| Error::LogName { name: name.to_owned() })
}

/// Where the last whole event starts and ends whose checksum, and those of all before it, are right.
fn whole_end(path: &Path, keyring: Option<&Path>) -> Result<(u64, u64), Error> {
    let mut reader = open_log(path, keyring)?;
    let start = MAGIC.len() as u64;
    let mut found = (start, start);
    loop {
        match reader.next_event() {
            Ok(Next::Some(event)) if is_sound(&event.raw) => found = (found.1, event.end()),
            Ok(_) | Err(Error::Corrupt { .. }) => return Ok(found),
            Err(error) => return Err(error),
        }
    }
}

/// Where events have no checksums, nobody verifies the four bytes behind the format description.
fn is_sound(raw: &RawEvent<'_>) -> bool {
    let mut framer = Framer::new();
    let is_verified = match raw.event_type() {
        EventType::FormatDescription => {
            framer.next(raw.bytes()).is_ok()
                && framer.format().is_some_and(|format| format.checksum == ChecksumAlgorithm::Crc32)
        }
        _ => true,
    };
    !is_verified || raw.verify().is_ok()
}

fn io(verb: &'static str, path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |cause| Error::io(verb, &path.display().to_string(), cause)
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use super::{AtRest, StoreWriter};
    use crate::reader::Next;

    fn samples() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples")
    }

    /// What a failed sync leaves can be read, and need not be on the disk.
    #[test]
    fn what_could_not_be_brought_to_the_disk_is_asked_for_again() {
        let keyring = samples().join("encrypted/keyring");
        for at_rest in [AtRest::Plain { keyring: None }, AtRest::Encrypted { keyring }] {
            let folder = tempfile::tempdir().unwrap();
            let mut store = StoreWriter::open(folder.path(), at_rest).unwrap();
            store.begin("binlog.000001", 4).unwrap();
            let mut reader = crate::LogReader::open(samples().join("gtids/binlog.000001")).unwrap();
            let mut events = Vec::new();
            while let Next::Some(event) = reader.next_event().unwrap() {
                events.push(event.raw.bytes().to_vec());
            }
            let (synced, rest) = events.split_at(3);
            synced.iter().for_each(|event| store.append_next(event).unwrap());
            store.sync().unwrap();
            let end = store.end();
            rest.iter().for_each(|event| store.append_next(event).unwrap());
            let lost = store.end() - end;
            store.doubtful = Some(("binlog.000001".to_owned(), end));
            assert_eq!((store.reopen().unwrap(), store.end()), (lost, end));
            rest.iter().for_each(|event| store.append_next(event).unwrap());
            store.sync().unwrap();
            assert_eq!((store.reopen().unwrap(), store.end()), (0, end + lost));
        }
    }
}
