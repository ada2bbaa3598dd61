//! A store that is written to: the logs of a source, byte for byte.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use binlog::{ChecksumAlgorithm, EventType, Framer, MAGIC, RawEvent};
use nix::fcntl::{Flock, FlockArg};

use crate::error::Error;
use crate::reader::{LogReader, Next};
use crate::store::LogName;

/// Bytes that wait to be written at once.
const BUFFER_SIZE: usize = 256 << 10;
/// Keeps a second writer out.
const LOCK: &str = "bintide.lock";
/// What stands in front of a log's name in an index, as servers write it.
const INDEX_PREFIX: &str = "./";

/// A store that is written to: the logs of a source, byte for byte, and an index of them.
///
/// A log is in the index once it is there; what was appended is safe once it was [synced](StoreWriter::sync). Opened
/// again after a crash, the last log is cut behind its last whole event, and the source is to be asked for what follows.
#[derive(Debug)]
pub struct StoreWriter {
    folder: PathBuf,
    log: Option<OpenLog>,
    /// Bytes that were cut off when it was opened.
    cut: u64,
    _lock: Flock<File>,
}

#[derive(Debug)]
struct OpenLog {
    name: String,
    file: BufWriter<File>,
    /// Where the next event starts.
    position: u64,
}

impl StoreWriter {
    /// Opens the store in `folder`, and makes the folder if it is not there.
    ///
    /// # Errors
    ///
    /// When the system refuses, somebody else writes to the store, or what is there is no store.
    pub fn open(folder: &Path) -> Result<Self, Error> {
        let name = folder.display().to_string();
        fs::create_dir_all(folder).map_err(|cause| Error::io("make", &name, cause))?;
        let lock = folder.join(LOCK);
        let file = File::create(&lock).map_err(io("make", &lock))?;
        let lock = Flock::lock(file, FlockArg::LockExclusiveNonblock)
            .map_err(|(_, _)| Error::Locked { name: name.clone() })?;
        let mut store = Self { folder: folder.to_owned(), log: None, cut: 0, _lock: lock };
        if let Some(last) = store.last_indexed()? {
            store.log = Some(store.recover(last)?);
        }
        Ok(store)
    }

    /// The last log, and where its next event starts: what the source is to be asked for. None in an empty store.
    pub fn place(&self) -> Option<(&str, u64)> {
        self.log.as_ref().map(|log| (log.name.as_str(), log.position))
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
            Some(log) if log.name == name => return self.check(position),
            _ => {}
        }
        let is_plain = Path::new(name).file_name() == Some(OsStr::new(name));
        let Some(found) = LogName::of(Path::new(name)).filter(|_| is_plain) else {
            return Err(Error::LogName { name: name.to_owned() });
        };
        if let Some(last) = &self.log {
            let last = LogName::of(Path::new(&last.name));
            if last.is_none_or(|last| last.base != found.base || found.number != last.number + 1) {
                return Err(Error::NotNext { name: name.to_owned(), last: self.last_name() });
            }
        }
        if position != MAGIC.len() as u64 {
            return Err(Error::Place { name: name.to_owned(), found: position, wanted: MAGIC.len() as u64 });
        }
        self.sync()?;
        self.create(name, found.base)
    }

    /// Appends an event, which starts at `position` in the log.
    ///
    /// # Errors
    ///
    /// When the log does not go on there, or none has begun; and when the system refuses.
    pub fn append(&mut self, position: u64, event: &[u8]) -> Result<(), Error> {
        self.check(position)?;
        let Some(log) = &mut self.log else {
            return Err(Error::Place { name: self.last_name(), found: position, wanted: 0 });
        };
        log.file.write_all(event).map_err(|cause| Error::io("write to", &log.name, cause))?;
        log.position += event.len() as u64;
        Ok(())
    }

    /// Has all that was appended on the disk.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn sync(&mut self) -> Result<(), Error> {
        let Some(log) = &mut self.log else { return Ok(()) };
        let synced = log.file.flush().and_then(|()| log.file.get_ref().sync_data());
        synced.map_err(|cause| Error::io("sync", &log.name, cause))
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
        self.log.as_ref().map_or_else(|| self.folder.display().to_string(), |log| log.name.clone())
    }

    /// The log first, then its line in the index: a log that is not in the index was not begun.
    fn create(&mut self, name: &str, base: &str) -> Result<(), Error> {
        let path = self.folder.join(name);
        let file = File::create(&path).map_err(io("make", &path))?;
        let mut file = BufWriter::with_capacity(BUFFER_SIZE, file);
        let written = file.write_all(&MAGIC).and_then(|()| file.flush());
        written.and_then(|()| file.get_ref().sync_all()).map_err(io("write to", &path))?;
        let index = self.folder.join(base).with_extension("index");
        let mut lines =
            OpenOptions::new().append(true).create(true).open(&index).map_err(io("open", &index))?;
        let line = format!("{INDEX_PREFIX}{name}\n");
        let written = lines.write_all(line.as_bytes()).and_then(|()| lines.sync_all());
        written.map_err(io("write to", &index))?;
        let folder = File::open(&self.folder).map_err(io("open", &self.folder))?;
        folder.sync_all().map_err(io("sync", &self.folder))?;
        self.log = Some(OpenLog { name: name.to_owned(), file, position: MAGIC.len() as u64 });
        Ok(())
    }

    /// The last log in the index, whose last line is cut off if it was not written whole.
    fn last_indexed(&self) -> Result<Option<String>, Error> {
        let entries = fs::read_dir(&self.folder).map_err(io("list", &self.folder))?;
        let paths = entries.filter_map(Result::ok).map(|entry| entry.path());
        let indexes: Vec<PathBuf> =
            paths.filter(|path| path.extension() == Some(OsStr::new("index"))).collect();
        let index = match indexes.as_slice() {
            [] => return Ok(None),
            [index] => index,
            several => return Err(Error::several(&self.folder, "indexes", several)),
        };
        let text = fs::read_to_string(index).map_err(io("read", index))?;
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            let file = OpenOptions::new().write(true).open(index).map_err(io("open", index))?;
            file.set_len(whole as u64).and_then(|()| file.sync_all()).map_err(io("cut", index))?;
        }
        let last = text[..whole].lines().next_back();
        Ok(last.map(|line| line.strip_prefix(INDEX_PREFIX).unwrap_or(line).to_owned()))
    }

    /// Opens a log, cut behind its last whole event.
    fn recover(&mut self, name: String) -> Result<OpenLog, Error> {
        let path = self.folder.join(&name);
        let mut file = OpenOptions::new().read(true).write(true).open(&path).map_err(io("open", &path))?;
        let size = file.metadata().map_err(io("open", &path))?.len();
        let position = whole_end(&path)?;
        self.cut = size.saturating_sub(position);
        if size < MAGIC.len() as u64 {
            file.set_len(0).and_then(|()| file.write_all(&MAGIC)).map_err(io("write to", &path))?;
        }
        file.set_len(position).and_then(|()| file.sync_all()).map_err(io("cut", &path))?;
        file.seek(SeekFrom::Start(position)).map_err(io("open", &path))?;
        Ok(OpenLog { name, file: BufWriter::with_capacity(BUFFER_SIZE, file), position })
    }
}

/// Where the last whole event ends whose checksum, and those of all before it, are right.
fn whole_end(path: &Path) -> Result<u64, Error> {
    let mut reader = LogReader::open(path)?;
    let mut end = MAGIC.len() as u64;
    loop {
        match reader.next_event() {
            Ok(Next::Some(event)) if is_sound(&event.raw) => end = event.end(),
            Ok(_) | Err(Error::Corrupt { .. }) => return Ok(end),
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
