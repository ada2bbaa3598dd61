//! Logs in archives. Another crate opens them; this one reads them like files.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use binlog::gtid::GtidSet;

use crate::error::LogError;

/// Archives that a program can read: each has logs with names.
pub trait ArchivedLogs: Send + Sync {
    /// Returns the paths of the logs that `path` names: all logs of an archive, oldest first, or one of them. `None` if
    /// the path names no archive.
    fn find(&self, path: &Path) -> Option<Result<Vec<PathBuf>, LogError>>;

    /// Opens a log of an archive, decrypted. `None` if the path names none.
    fn open(&self, log: &Path) -> Option<Result<Box<dyn Read + Send>, LogError>>;

    /// Returns what is known of a log of an archive without reading it. `None` if the path names none.
    fn contents(&self, log: &Path) -> Option<ArchivedContents>;
}

/// Contents of an archived log, from its manifest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchivedContents {
    /// Size of the log in bytes.
    pub size: u64,
    /// Transactions of MySQL; `None` if not known.
    pub gtids: Option<GtidSet>,
    /// Earliest and latest time of events and commits, in seconds since 1970; `None` if not known.
    pub times: Option<(u32, u32)>,
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

/// Returns what is known of an archived log without reading it; `None` if the path names none.
pub fn archived_contents(log: &Path) -> Option<ArchivedContents> {
    ARCHIVED_LOGS.get()?.contents(log)
}

pub(crate) fn open_archived_log(log: &Path) -> Option<Result<Box<dyn Read + Send>, LogError>> {
    ARCHIVED_LOGS.get()?.open(log)
}
