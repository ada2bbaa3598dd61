//! A directory of logs: which there are, in which order.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::Error;
use crate::series::LogName;

/// The logs of one server or of one replication channel, in order: those that an index lists, or, where there is none,
/// those of one name in one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    place: Place,
    logs: Vec<PathBuf>,
    /// The index, as it was read.
    text: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    Index(PathBuf),
    Folder(PathBuf),
}

impl Store {
    /// Opens a directory, or an index: `binlog.index`, or the index of a relay log.
    ///
    /// # Errors
    ///
    /// When the system refuses, when a directory has several indexes or logs of several names and no index, or when it
    /// has no logs.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        if !path.is_dir() {
            return Self::read(Place::Index(path.to_owned()));
        }
        let mut indexes: Vec<PathBuf> = entries(path)?;
        indexes.retain(|entry| entry.extension() == Some(OsStr::new("index")));
        match indexes.as_slice() {
            [] => Self::read(Place::Folder(path.to_owned())),
            [index] => Self::read(Place::Index(index.clone())),
            several => Err(Error::several(path, "indexes", several)),
        }
    }

    /// The paths of the logs, oldest first.
    pub fn logs(&self) -> &[PathBuf] {
        &self.logs
    }

    /// The index, or where there is none the directory.
    pub fn path(&self) -> &Path {
        match &self.place {
            Place::Index(path) | Place::Folder(path) => path,
        }
    }

    /// Logs that lie beside the last one that the index lists, and are later ones of the same name: a stale index lacks
    /// them. None where there is no index.
    ///
    /// # Errors
    ///
    /// When the system refuses.
    pub fn unlisted(&self) -> Result<Vec<PathBuf>, Error> {
        let (Place::Index(_), Some(last)) = (&self.place, self.logs.last()) else { return Ok(Vec::new()) };
        let (Some(folder), Some(name)) = (last.parent(), LogName::of(last)) else { return Ok(Vec::new()) };
        let is_later = |path: &PathBuf| {
            LogName::of(path).is_some_and(|other| other.base == name.base && name.is_before(&other))
        };
        Ok(entries(folder)?.into_iter().filter(is_later).collect())
    }

    /// Looks again: logs come and go.
    ///
    /// # Errors
    ///
    /// As [`Store::open`].
    pub fn refresh(&mut self) -> Result<(), Error> {
        if let Place::Index(path) = &self.place
            && read_text(path)? == self.text
        {
            return Ok(()); // Looking for each of its logs takes longer than reading it.
        }
        *self = Self::read(self.place.clone())?;
        Ok(())
    }

    /// The log behind `log`, which need not be there any more.
    ///
    /// # Errors
    ///
    /// When logs between the two have been purged.
    pub fn after(&self, log: &Path) -> Result<Option<&Path>, Error> {
        let name = log.file_name();
        if let Some(index) = self.logs.iter().position(|other| other.file_name() == name) {
            return Ok(self.logs.get(index + 1).map(PathBuf::as_path));
        }
        let last = LogName::of(log);
        let mut named = self.logs.iter().filter_map(|path| Some((LogName::of(path)?, path)));
        match named.find(|(name, _)| last.is_none_or(|last| last.is_before(name))) {
            Some((name, next)) if last.is_none_or(|last| !last.is_right_before(&name)) => {
                Err(Error::Purged { name: log.display().to_string(), next: next.display().to_string() })
            }
            next => Ok(next.map(|(_, path)| path.as_path())),
        }
    }

    fn read(place: Place) -> Result<Self, Error> {
        let text = match &place {
            Place::Index(path) => read_text(path)?,
            Place::Folder(_) => Vec::new(),
        };
        let logs = match &place {
            Place::Index(path) => logs_of(&text, path)?,
            Place::Folder(path) => list_folder(path)?,
        };
        if logs.is_empty() {
            let (Place::Index(path) | Place::Folder(path)) = &place;
            return Err(Error::NoLogs { name: path.display().to_string() });
        }
        Ok(Self { place, logs, text })
    }
}

fn read_text(index: &Path) -> Result<Vec<u8>, Error> {
    fs::read(index).map_err(|cause| Error::io("read the index", &index.display().to_string(), cause))
}

/// A line a log: absolute, or relative to the data directory, which need not be where the index is, and need not be
/// the one that they lie in now.
fn logs_of(text: &[u8], path: &Path) -> Result<Vec<PathBuf>, Error> {
    let folder = path.parent().unwrap_or(Path::new(""));
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let line = as_path(line).ok_or_else(|| Error::Index { name: path.display().to_string() })?;
            let listed = folder.join(line);
            // Copied elsewhere together, logs lie beside their index.
            let beside = folder.join(line.file_name().unwrap_or(line.as_os_str()));
            Ok(if !listed.exists() && beside.exists() { beside } else { listed })
        })
        .collect()
}

#[cfg(unix)]
fn as_path(bytes: &[u8]) -> Option<&Path> {
    use std::os::unix::ffi::OsStrExt as _;
    let is_path = !bytes.contains(&0);
    is_path.then(|| Path::new(OsStr::from_bytes(bytes)))
}

#[cfg(not(unix))]
fn as_path(bytes: &[u8]) -> Option<&Path> {
    str::from_utf8(bytes).ok().filter(|text| !text.contains('\0')).map(Path::new)
}

fn entries(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let list = || fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>();
    let mut paths = list().map_err(|cause| Error::io("list", &folder.display().to_string(), cause))?;
    paths.sort();
    Ok(paths)
}

/// Files that are numbered as logs are, all of the same name.
fn list_folder(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = entries(folder)?;
    let logs: Vec<(LogName<'_>, &PathBuf)> =
        entries.iter().filter_map(|path| Some((LogName::of(path)?, path))).collect();
    // What was rewritten in place has a list of its positions beside it, named after it.
    let names: Vec<&OsStr> = logs.iter().filter_map(|(_, path)| path.file_name()).collect();
    let is_beside = |path: &Path| {
        let log = path.file_name().and_then(OsStr::to_str).and_then(|name| name.strip_prefix("positions."));
        log.is_some_and(|log| names.contains(&OsStr::new(log)))
    };
    let mut logs: Vec<_> = logs.iter().filter(|(_, path)| !is_beside(path)).copied().collect();
    logs.sort_by_key(|(name, _)| (name.base, name.series_number(), name.number));
    let mut bases: Vec<PathBuf> = logs.iter().map(|(name, _)| PathBuf::from(name.base)).collect();
    bases.dedup();
    if bases.len() > 1 {
        return Err(Error::several(folder, "logs of several names and no index", &bases));
    }
    Ok(logs.into_iter().map(|(_, path)| path.clone()).collect())
}
