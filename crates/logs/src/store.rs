//! List of the logs of a store, in order.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use crate::archived_logs::find_archived_logs;
use crate::error::{LogError, NoLogsReason};
use crate::file_identity::FileIdentity;
use crate::log_series::LogName;
use crate::regular_file::open_regular;

/// Logs of one server or of one replication channel, in order: the logs listed in an index or, without an index, the
/// logs with one base name in one directory.
///
/// A log in the index's directory takes precedence over the path in the index: the index of a copied directory may
/// still name the original files. Logs in other directories are read only if the index itself is given, as for a server
/// with `--log-bin-index`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Store {
    location: StoreLocation,
    logs: Vec<PathBuf>,
    /// Content of the index when it was last read.
    text: Vec<u8>,
    ignored_path: Option<IgnoredIndexPath>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum StoreLocation {
    /// Index given directly.
    Index(PathBuf),
    /// Index of a given directory.
    IndexOfDirectory(PathBuf),
    /// Directory without an index.
    Directory(PathBuf),
    /// Archive.
    Archive(PathBuf),
}

/// Line of an index that names an existing file in another directory, although the index's directory has a log of the
/// same name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IgnoredIndexPath {
    /// Path of the index.
    pub index: PathBuf,
    /// Number of the line, from 1.
    pub number: usize,
    /// File that the line names.
    pub named: PathBuf,
    /// Log in the index's directory, which is read instead.
    pub read: PathBuf,
}

impl fmt::Display for IgnoredIndexPath {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [index, named, read] = [&self.index, &self.named, &self.read].map(|path| path.display());
        write!(
            out,
            "{index}: line {} names {named}; {read} in the directory of the index is read instead",
            self.number
        )
    }
}

impl Store {
    /// Opens a directory, or an index: `binlog.index`, or the index of a relay log.
    ///
    /// # Errors
    ///
    /// Fails if a file or directory cannot be read, if a directory has several indexes, or logs with several base names
    /// and no index, or if there are no logs.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, LogError> {
        let path = path.as_ref();
        if let Some(logs) = find_archived_logs(path) {
            let (location, text) = (StoreLocation::Archive(path.to_owned()), Vec::new());
            return Ok(Self { location, logs: logs?, text, ignored_path: None });
        }
        if !path.is_dir() {
            return Self::read(StoreLocation::Index(path.to_owned()));
        }
        let mut indexes: Vec<PathBuf> = entries(path)?;
        indexes.retain(|entry| entry.extension() == Some(OsStr::new("index")));
        match indexes.as_slice() {
            [] => Self::read(StoreLocation::Directory(path.to_owned())),
            [index] => Self::read(StoreLocation::IndexOfDirectory(index.clone())),
            several => Err(LogError::ambiguous(path, "indexes", several)),
        }
    }

    /// Returns the paths of the logs, oldest first.
    pub fn logs(&self) -> &[PathBuf] {
        &self.logs
    }

    /// Returns the path of the index, or of the directory if there is no index.
    pub fn path(&self) -> &Path {
        match &self.location {
            StoreLocation::Index(path)
            | StoreLocation::IndexOfDirectory(path)
            | StoreLocation::Directory(path)
            | StoreLocation::Archive(path) => path,
        }
    }

    /// Returns the first line of the index that names an existing file in another directory, if the log in the index's
    /// directory is read instead.
    pub fn ignored_path(&self) -> Option<&IgnoredIndexPath> {
        self.ignored_path.as_ref()
    }

    /// Returns later logs with the same base name in the directory of the last listed log, which a stale index lacks.
    /// Without an index, returns none.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be read.
    pub fn unlisted_logs(&self) -> Result<Vec<PathBuf>, LogError> {
        if matches!(self.location, StoreLocation::Directory(_) | StoreLocation::Archive(_)) {
            return Ok(Vec::new());
        }
        let Some(last) = self.logs.last() else { return Ok(Vec::new()) };
        let (Some(directory), Some(name)) = (last.parent(), LogName::of(last)) else { return Ok(Vec::new()) };
        let is_later = |path: &PathBuf| {
            LogName::of(path).is_some_and(|other| other.base == name.base && name.is_before(&other))
        };
        Ok(entries(directory)?.into_iter().filter(is_later).collect())
    }

    /// Returns the warning about a log that the index does not list.
    pub fn unlisted_log_warning(log: &Path) -> String {
        let log = log.display();
        format!("{log} is not listed in the index and was not read: to read it, give its file name")
    }

    /// Reads the list of logs again, because logs are added and purged.
    ///
    /// # Errors
    ///
    /// Fails as [`Store::open`] does.
    pub fn refresh(&mut self) -> Result<(), LogError> {
        if let StoreLocation::Index(path) | StoreLocation::IndexOfDirectory(path) = &self.location
            && read_text(path)? == self.text
        {
            return Ok(()); // Checking each of its logs takes longer than reading the index.
        }
        *self = Self::read(self.location.clone())?;
        Ok(())
    }

    /// Returns the log after `log`, which may have been purged.
    ///
    /// # Errors
    ///
    /// Fails if logs between the two have been purged.
    pub fn log_after(&self, log: &Path) -> Result<Option<&Path>, LogError> {
        let name = log.file_name();
        if let Some(index) = self.logs.iter().position(|other| other.file_name() == name) {
            return Ok(self.logs.get(index + 1).map(PathBuf::as_path));
        }
        let last = LogName::of(log);
        let mut named = self.logs.iter().filter_map(|path| Some((LogName::of(path)?, path)));
        match named.find(|(name, _)| last.is_none_or(|last| last.is_before(name))) {
            Some((name, next)) if last.is_none_or(|last| !last.is_directly_before(&name)) => {
                Err(LogError::Purged { name: log.display().to_string(), next: next.display().to_string() })
            }
            next => Ok(next.map(|(_, path)| path.as_path())),
        }
    }

    fn read(location: StoreLocation) -> Result<Self, LogError> {
        let mut elsewhere = None;
        let (text, logs) = match &location {
            StoreLocation::Archive(path) => return Self::open(path),
            StoreLocation::Directory(path) => (Vec::new(), list_directory(path)?),
            StoreLocation::Index(path) | StoreLocation::IndexOfDirectory(path) => {
                let text = read_text(path)?;
                let logs = parse_index(&text, path, &location, &mut elsewhere)?;
                (text, logs)
            }
        };
        let store = Self { location, logs, text, ignored_path: elsewhere };
        let is_special = |log: &&PathBuf| fs::metadata(log).is_ok_and(|found| !found.is_file());
        match store.logs.iter().find(is_special) {
            Some(log) => Err(LogError::NotRegular { name: log.display().to_string() }),
            None if store.logs.is_empty() => {
                let reason = match store.location {
                    StoreLocation::Directory(_) => NoLogsReason::NoLogName,
                    StoreLocation::Index(_)
                    | StoreLocation::IndexOfDirectory(_)
                    | StoreLocation::Archive(_) => NoLogsReason::EmptyIndex,
                };
                Err(LogError::NoLogs { name: store.path().display().to_string(), reason })
            }
            None => Ok(store),
        }
    }
}

fn read_text(index: &Path) -> Result<Vec<u8>, LogError> {
    let mut text = Vec::new();
    let read = open_regular(index).and_then(|mut file| file.read_to_end(&mut text));
    read.map_err(|cause| {
        let verb = if cause.kind() == ErrorKind::NotFound { "open" } else { "read the index" };
        LogError::io(verb, &index.display().to_string(), cause)
    })?;
    Ok(text)
}

/// Parses an index: one path per line, absolute or relative to the data directory. The data directory may differ from
/// the index's directory, and from the present directory of the logs.
fn parse_index(
    text: &[u8],
    index: &Path,
    location: &StoreLocation,
    elsewhere: &mut Option<IgnoredIndexPath>,
) -> Result<Vec<PathBuf>, LogError> {
    let directory = index.parent().unwrap_or(Path::new(""));
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).zip(1..);
    let mut logs = Vec::new();
    for (line, number) in lines.filter(|(line, _)| !line.is_empty()) {
        let line =
            as_path(line).ok_or_else(|| LogError::InvalidIndex { name: index.display().to_string() })?;
        let named = directory.join(line);
        // Without the `./` that servers write before names.
        let beside = directory.join(line.file_name().unwrap_or(line.as_os_str()));
        let log = match location {
            _ if names_no_directory(line) => beside,
            _ if beside.exists() => {
                if named.exists() && !is_same_file(&named, &beside) {
                    let (index, read) = (index.to_owned(), beside.clone());
                    elsewhere.get_or_insert(IgnoredIndexPath { index, number, named, read });
                }
                beside
            }
            StoreLocation::IndexOfDirectory(_) if named.exists() => {
                let (index, line) = (index.display().to_string(), line.display().to_string());
                return Err(LogError::LogElsewhere { index, number, line });
            }
            StoreLocation::IndexOfDirectory(_) => beside,
            _ => named,
        };
        logs.push(log);
    }
    Ok(logs)
}

/// Returns whether the line is a plain file name, with or without `./` in front.
fn names_no_directory(line: &Path) -> bool {
    line.parent().is_none_or(|directory| directory.as_os_str().is_empty() || directory == Path::new("."))
}

fn is_same_file(one: &Path, other: &Path) -> bool {
    let identities = FileIdentity::of_path(one).ok().zip(FileIdentity::of_path(other).ok());
    identities.is_some_and(|(one, other)| one == other)
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

fn entries(directory: &Path) -> Result<Vec<PathBuf>, LogError> {
    let mut paths = crate::store_directory::entries(directory)?;
    paths.sort();
    Ok(paths)
}

/// Returns the files with names of logs. They must have one base name.
fn list_directory(directory: &Path) -> Result<Vec<PathBuf>, LogError> {
    let entries = entries(directory)?;
    let logs: Vec<(LogName<'_>, &PathBuf)> =
        entries.iter().filter_map(|path| Some((LogName::of(path)?, path))).collect();
    // A log that was rewritten in place has a position list beside it, named after the log.
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
        return Err(LogError::ambiguous(directory, "logs of several names and no index", &bases));
    }
    Ok(logs.into_iter().map(|(_, path)| path.clone()).collect())
}
