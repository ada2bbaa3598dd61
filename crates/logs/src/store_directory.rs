//! Locked directory of a store that is being written.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::created_paths::CreatedPaths;
use crate::error::LogError;
use crate::file_name::is_file_name;
use crate::log_file_writer::has_at_most_log_start;
use crate::log_series::LogName;
use crate::own_files::DirectoryLock;
use crate::regular_file::{read_regular_text, starts_as_log};

/// Name of the file that marks a directory as a store of `bintide receive`, and that is locked.
pub(crate) const MARK_FILE_NAME: &str = "bintide.lock";

/// Returns whether `bintide receive` wrote this directory.
pub fn is_received_store(directory: &Path) -> bool {
    directory.join(MARK_FILE_NAME).exists()
}

/// Name of the file with the replica identity of `bintide receive`.
pub const IDENTITY_FILE_NAME: &str = "replica.cnf";
/// Name of the file that lists the logs being purged, one per line, until they are removed.
pub(crate) const PURGE_LIST: &str = "bintide.purged";
/// Prefix of the file that names the first log to keep, while a purge on a full disk is not complete.
pub(crate) const PURGE_MARK_PREFIX: &str = "bintide.purge-before.";
/// End of that file's name, so that it is not the name of a log.
pub(crate) const PURGE_MARK_SUFFIX: &str = ".mark";
/// Prefix of log names in an index, as on servers.
pub(crate) const INDEX_PREFIX: &str = "./";

/// Directory of a store, locked for one writer before anything in it is read or changed.
///
/// A directory with logs is a store only if it has the mark. Opening refuses the directory of a server, or a copy of
/// such a directory.
#[derive(Debug)]
pub struct StoreDirectory {
    pub(crate) path: PathBuf,
    // Declared before the lock, which is released last.
    pub(crate) created: CreatedPaths,
    _lock: DirectoryLock,
}

impl StoreDirectory {
    /// Locks a directory, and creates it if it is missing.
    ///
    /// # Errors
    ///
    /// Fails if the directory cannot be created or read, another process writes to the store, or the directory has logs
    /// but is not a store.
    pub fn lock(path: &Path) -> Result<Self, LogError> {
        let mut created = CreatedPaths::create_directory(path)?;
        let Some(lock) = DirectoryLock::take(path).map_err(io_error("lock", path))? else {
            created.keep();
            return Err(LogError::Locked { name: path.display().to_string() });
        };
        let mark = path.join(MARK_FILE_NAME);
        if !is_regular(&mark) {
            refuse_foreign(path)?;
        }
        created.add_if_missing(&mark);
        let Some(lock) = lock.with_mark(&mark).map_err(io_error("lock", &mark))? else {
            created.keep();
            return Err(LogError::Locked { name: path.display().to_string() });
        };
        let directory = Self { path: path.to_owned(), created, _lock: lock };
        directory.check_index()?;
        Ok(directory)
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the index; `None` in an empty store.
    pub(crate) fn index(&self) -> Result<Option<PathBuf>, LogError> {
        only_index(&self.path)
    }

    /// Checks that the index names only logs in its own directory. An incomplete last line is ignored.
    fn check_index(&self) -> Result<(), LogError> {
        let Some(index) = self.index()? else { return Ok(()) };
        let text = read_regular_text(&index).map_err(io_error("read", &index))?;
        log_names(whole_lines(&text), &index).map(drop)
    }
}

/// Returns the text of an index without an incomplete last line: an interrupted write can leave one.
pub(crate) fn whole_lines(text: &str) -> &str {
    text.rfind('\n').map_or("", |end| &text[..=end])
}

/// Returns the names of the logs in an index's text.
///
/// # Errors
///
/// Fails if a line is not the plain name of a log.
pub(crate) fn log_names<'t>(text: &'t str, index: &Path) -> Result<Vec<&'t str>, LogError> {
    let names = text.lines().zip(1..).map(|(line, number)| {
        let name = line.strip_prefix(INDEX_PREFIX).unwrap_or(line);
        let outside =
            || LogError::IndexLine { index: index.display().to_string(), number, line: line.to_owned() };
        is_log_name(name).then_some(name).ok_or_else(outside)
    });
    names.collect()
}

/// Returns whether the text is a log's name, and not a path.
pub(crate) fn is_log_name(name: &str) -> bool {
    is_file_name(name.as_bytes())
        && !name.contains(char::is_control)
        && LogName::of(Path::new(name)).is_some()
}

/// Checks that a directory without a mark has no index and no logs: such files would belong to another program.
fn refuse_foreign(directory: &Path) -> Result<(), LogError> {
    let found = entries(directory)?.into_iter().find(|path| is_index_of_logs(path) || is_log(path));
    match found {
        Some(found) => Err(LogError::ForeignLogs {
            name: directory.display().to_string(),
            found: found.file_name().unwrap_or_default().display().to_string(),
        }),
        None => Ok(()),
    }
}

/// Returns whether the file is a log with more bytes than a crash can leave of a new log.
pub(crate) fn is_log(path: &Path) -> bool {
    LogName::of(path).is_some()
        && starts_as_log(path)
        && !has_at_most_log_start(path).is_ok_and(|is_start| is_start)
}

/// Returns whether the file is an index with at least one line. A store whose first log could not be created leaves an
/// index without lines.
fn is_index_of_logs(path: &Path) -> bool {
    is_index(path) && !read_regular_text(path).is_ok_and(|text| !text.contains('\n'))
}

fn is_index(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("index"))
}

/// Returns the path of the directory's index; `None` without one.
pub(crate) fn only_index(directory: &Path) -> Result<Option<PathBuf>, LogError> {
    let mut indexes = indexes(directory)?;
    match indexes.len() {
        0 | 1 => Ok(indexes.pop()),
        _ => Err(LogError::ambiguous(directory, "indexes", &indexes)),
    }
}

fn indexes(directory: &Path) -> Result<Vec<PathBuf>, LogError> {
    let mut paths = entries(directory)?;
    paths.retain(|path| is_index(path));
    Ok(paths)
}

pub(crate) fn entries(directory: &Path) -> Result<Vec<PathBuf>, LogError> {
    let list =
        || fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<PathBuf>>>();
    list().map_err(io_error("list", directory))
}

pub(crate) fn is_regular(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|found| found.is_file())
}

pub(crate) fn io_error(verb: &'static str, path: &Path) -> impl Fn(std::io::Error) -> LogError {
    move |cause| LogError::io(verb, &path.display().to_string(), cause)
}
