//! Logs in archives. Another crate opens them; this one reads them like files.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::error::LogError;

/// Archives that a program can read: each has logs with names.
pub trait ArchivedLogs: Send + Sync {
    /// Returns the paths of the logs that `path` names: all logs of an archive, oldest first, or one of them. `None` if
    /// the path names no archive.
    fn find(&self, path: &Path) -> Option<Result<Vec<PathBuf>, LogError>>;

    /// Opens a log of an archive, decrypted. `None` if the path names none.
    fn open(&self, log: &Path) -> Option<Result<Box<dyn Read + Send>, LogError>>;

    /// Returns the size of a log of an archive in bytes.
    fn size(&self, log: &Path) -> Option<u64>;
}

static ARCHIVED_LOGS: OnceLock<Box<dyn ArchivedLogs>> = OnceLock::new();

/// Makes logs of archives readable in this process, wherever a log is opened by its path. Only the first call has an
/// effect.
pub fn set_archived_logs(archives: Box<dyn ArchivedLogs>) {
    // A second set of archives would contradict paths that were found by the first one.
    let _ = ARCHIVED_LOGS.set(archives);
}

/// Returns the paths of the archived logs that `path` names; `None` if it names no archive.
///
/// # Errors
///
/// If the archive cannot be read.
pub fn find_archived_logs(path: &Path) -> Option<Result<Vec<PathBuf>, LogError>> {
    ARCHIVED_LOGS.get()?.find(path)
}

/// Returns the size of an archived log in bytes; `None` if the path names none.
pub fn archived_log_size(log: &Path) -> Option<u64> {
    ARCHIVED_LOGS.get()?.size(log)
}

pub(crate) fn open_archived_log(log: &Path) -> Option<Result<Box<dyn Read + Send>, LogError>> {
    ARCHIVED_LOGS.get()?.open(log)
}
