//! Newest logs of directories that `bintide receive` writes.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::LogError;
use crate::log_series::{LogName, LogSeries};
use crate::regular_file::read_regular_text;
use crate::store_directory::{
    IDENTITY_FILE_NAME, MARK_FILE_NAME, PURGE_LIST, entries, io_error, is_log, is_regular, log_names,
    only_index, whole_lines,
};

/// Newest logs of directories that `bintide receive` writes. Such a log must not change: its size is the position where
/// `bintide receive` resumes.
///
/// Any file that only `bintide receive` writes identifies a directory, because a user or a backup may have removed the
/// other files or the index.
#[derive(Clone, Debug, Default)]
pub struct NewestReceivedLogs {
    /// Canonical paths.
    logs: HashSet<PathBuf>,
}

impl NewestReceivedLogs {
    /// Finds the newest logs in the directories of `logs`. Each directory is read once. Missing logs are ignored.
    ///
    /// # Errors
    ///
    /// Fails if a directory or its index cannot be read.
    pub fn find_beside<'p>(logs: impl IntoIterator<Item = &'p Path>) -> Result<Self, LogError> {
        let found = logs.into_iter().filter_map(|log| fs::canonicalize(log).ok());
        let directories: BTreeSet<PathBuf> = found.filter_map(|log| Some(log.parent()?.to_owned())).collect();
        let mut newest = HashSet::new();
        for directory in directories {
            newest.extend(newest_logs(&directory)?);
        }
        Ok(Self { logs: newest })
    }

    /// Returns whether the file is one of these logs.
    pub fn contains(&self, log: &Path) -> bool {
        fs::canonicalize(log).is_ok_and(|log| self.logs.contains(&log))
    }
}

/// Returns the newest log of a directory that `bintide receive` writes; several if the directory has logs of several
/// base names and no index.
fn newest_logs(directory: &Path) -> Result<Vec<PathBuf>, LogError> {
    let paths = entries(directory)?;
    if !paths.iter().any(|path| is_written_by_receive(path)) {
        return Ok(Vec::new());
    }
    if let Some(newest) = last_indexed(directory)? {
        return Ok(vec![directory.join(newest)]);
    }
    let logs: Vec<&PathBuf> = paths.iter().filter(|path| is_log(path)).collect();
    let is_before = |one: &Path, other: &Path| {
        LogName::of(one).zip(LogName::of(other)).is_some_and(|(one, other)| one.is_before(&other))
    };
    let is_newest = |log: &&PathBuf| !logs.iter().any(|other| is_before(log, other));
    Ok(logs.iter().copied().filter(is_newest).cloned().collect())
}

/// Returns whether only `bintide receive` writes a file of this name.
fn is_written_by_receive(path: &Path) -> bool {
    const NAMES: [&str; 3] = [MARK_FILE_NAME, IDENTITY_FILE_NAME, PURGE_LIST];
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    (NAMES.contains(&name) || LogSeries::of(name).is_some()) && is_regular(path)
}

/// Returns the name of the last log in the directory's index; `None` without an index, or if `bintide receive` could
/// not read it.
fn last_indexed(directory: &Path) -> Result<Option<String>, LogError> {
    let index = match only_index(directory) {
        Err(LogError::Ambiguous { .. }) => return Ok(None),
        index => index?,
    };
    let Some(index) = index else { return Ok(None) };
    let text = read_regular_text(&index).map_err(io_error("read", &index))?;
    let names = log_names(whole_lines(&text), &index).unwrap_or_default();
    Ok(names.last().map(|name| (*name).to_owned()))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::NewestReceivedLogs;

    const LOGS: [&str; 3] = ["b.000009", "b.000010", "b.000011"];

    /// Checks which of the logs are the newest in a directory with these files, each with its text.
    fn check(files: &[(&str, &str)], expected: &[&str]) {
        let directory = tempfile::tempdir().unwrap();
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/gtids/binlog.000001");
        let logs = LOGS.map(|name| directory.path().join(name));
        for log in &logs {
            fs::copy(&sample, log).unwrap();
        }
        files.iter().for_each(|(name, text)| fs::write(directory.path().join(name), text).unwrap());
        let newest = NewestReceivedLogs::find_beside(logs.iter().map(AsRef::as_ref)).unwrap();
        let found: Vec<&str> =
            LOGS.iter().zip(&logs).filter(|(_, log)| newest.contains(log)).map(|(name, _)| *name).collect();
        assert_eq!(found, expected, "{files:?}");
    }

    #[test]
    fn directories_are_recognised_by_each_file_of_receive() {
        let index = ("b.index", "./b.000009\n./b.000010\n./b.0000");
        check(&[index], &[]);
        check(&[("positions.b.000009", "# 9 bytes became 7\n")], &[]);
        for mark in ["bintide.lock", "replica.cnf", "bintide.purged"] {
            check(&[(mark, ""), index], &["b.000010"]);
            check(&[(mark, "")], &["b.000011"]);
            check(&[(mark, ""), ("b.index", "")], &["b.000011"]);
            check(&[(mark, ""), ("b.index", "/var/lib/mysql/b.000009\n")], &["b.000011"]);
            check(&[(mark, ""), index, ("other.index", "")], &["b.000011"]);
        }
    }

    #[test]
    fn logs_of_a_later_series_are_newer() {
        let later = "b.2.5ea5ca5e-0001-4000-8000-000000000001.000001";
        let empty = "b.000012";
        // A crash has left a log without events, which receive overwrites.
        check(&[("replica.cnf", ""), (empty, "\u{0}")], &["b.000011"]);
        let directory = tempfile::tempdir().unwrap();
        let sample = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../samples/gtids/binlog.000001");
        let [first, second] = ["b.000009", later].map(|name| directory.path().join(name));
        for log in [&first, &second] {
            fs::copy(&sample, log).unwrap();
        }
        let newest = NewestReceivedLogs::find_beside([first.as_path()]).unwrap();
        assert!(newest.contains(&second) && !newest.contains(&first));
    }
}
