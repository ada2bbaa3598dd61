//! Logs that a path names.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use crate::archived_logs::find_archived_logs;
use crate::error::LogError;
use crate::store::{IgnoredIndexPath, Store};

/// Logs that a file, directory, index or archive names.
#[derive(Clone, Debug, Default)]
pub struct FoundLogs {
    /// Logs, oldest first.
    pub logs: Vec<PathBuf>,
    /// Index that lists the logs, if there is one.
    pub index: Option<PathBuf>,
    /// Newer logs in the index's directory that the index does not list.
    pub unlisted: Vec<PathBuf>,
    /// Ignored path in the index: the logs are now in another directory.
    pub ignored_path: Option<IgnoredIndexPath>,
}

impl FoundLogs {
    /// Finds the logs that a path names. A path that is neither a directory, nor an index, nor an archive is a log.
    ///
    /// # Errors
    ///
    /// Fails if nothing has this path, if the directory or archive cannot be read, or if it has no logs.
    pub fn at(path: &Path) -> Result<Self, LogError> {
        if let Some(logs) = find_archived_logs(path) {
            return Ok(Self { logs: logs?, ..Self::default() });
        }
        let metadata =
            fs::metadata(path).map_err(|cause| LogError::io("open", &path.display().to_string(), cause))?;
        if !metadata.is_dir() && path.extension() != Some(OsStr::new("index")) {
            return Ok(Self { logs: vec![path.to_owned()], ..Self::default() });
        }
        let store = Store::open(path)?;
        Ok(Self {
            // Index files list logs as `./binlog.000001`.
            logs: store.logs().iter().map(|log| log.components().collect()).collect(),
            index: store.path().is_file().then(|| store.path().to_owned()),
            unlisted: store.unlisted_logs()?,
            ignored_path: store.ignored_path().cloned(),
        })
    }
}
