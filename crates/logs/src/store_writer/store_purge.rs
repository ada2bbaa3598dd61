//! Purge of a store: removes the oldest logs, from the index first. On a full disk, the index cannot be rewritten before
//! the logs are removed: an empty file then names the first log to keep, until the purge is complete.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::StoreWriter;
use crate::error::LogError;
use crate::own_files::{FileAccess, private_options, replace_file, sync_parent};
use crate::regular_file::read_regular_text;
use crate::rewrite_positions::{numbered_path, positions_path};
use crate::store_directory::{
    PURGE_LIST, PURGE_MARK_PREFIX, PURGE_MARK_SUFFIX, entries, io_error, is_log_name, log_names, whole_lines,
};

/// Retention limit of a store. The oldest logs beyond it are deleted, but never the log being written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionLimit {
    /// Logs that were last written within this time are retained.
    Age(Duration),
    /// Logs are retained up to this total size in bytes.
    Size(u64),
}

impl StoreWriter {
    /// Removes the oldest logs beyond the retention limit, and returns their number. `first_needed` gets the logs,
    /// oldest first, and returns the index of the first log to keep; `None` if none must stay.
    ///
    /// Removes them from the index first: a log that is not in the index does not belong to the store. An interrupted
    /// purge therefore leaves a consistent store. On a full disk, removes the logs first, and the next opening completes
    /// an interrupted purge.
    ///
    /// # Errors
    ///
    /// Fails if a file cannot be read, written or removed.
    pub fn purge(
        &mut self,
        keep: RetentionLimit,
        now: SystemTime,
        first_needed: impl FnOnce(&[&str]) -> Option<usize>,
    ) -> Result<usize, LogError> {
        self.purge_counted(|store, names| {
            let expired = store.count_expired(names, keep, now)?;
            Ok(if expired == 0 { 0 } else { expired.min(first_needed(names).unwrap_or(usize::MAX)) })
        })
    }

    /// Removes the logs before this log, but not the last `kept` logs. Returns the number of removed logs: 0 if the store
    /// has no such log.
    ///
    /// # Errors
    ///
    /// Fails as [`StoreWriter::purge`] does.
    pub fn purge_before(&mut self, log: &str, kept: usize) -> Result<usize, LogError> {
        self.purge_counted(|_, names| {
            let before = names.iter().position(|name| *name == log).unwrap_or(0);
            Ok(before.min(names.len().saturating_sub(kept)))
        })
    }

    /// Removes as many of the oldest logs as `count` returns. Never removes the last log.
    fn purge_counted(
        &mut self,
        count: impl FnOnce(&Self, &[&str]) -> Result<usize, LogError>,
    ) -> Result<usize, LogError> {
        self.complete_purges()?;
        let Some(index) = self.directory.index()? else { return Ok(0) };
        let text = read_regular_text(&index).map_err(io_error("read", &index))?;
        let names = log_names(&text, &index)?;
        let count = count(self, &names)?;
        if count == 0 {
            return Ok(0);
        }
        assert!(count < names.len(), "ours: the last log is never purged");
        match self.remove_from_index(&index, &text, count) {
            Ok(()) => self.remove_purged(&names[count..])?,
            Err(error) if error.is_disk_full() => self.purge_on_full_disk(names[count])?,
            Err(error) => return Err(error),
        }
        Ok(count)
    }

    /// Lists the oldest logs as purged, and removes them from the index.
    fn remove_from_index(&self, index: &Path, text: &str, count: usize) -> Result<(), LogError> {
        self.list_purged(&log_names(text, index)?[..count])?;
        self.drop_index_lines(index, text, count)
    }

    /// Lists logs as purged: if their removal is interrupted, the next opening of the store completes it.
    pub(super) fn list_purged(&self, names: &[&str]) -> Result<(), LogError> {
        let lines: String = names.iter().map(|name| format!("{name}\n")).collect();
        self.replace(&self.directory.path.join(PURGE_LIST), &lines)
    }

    /// Rewrites the index without its first `count` lines.
    fn drop_index_lines(&self, index: &Path, text: &str, count: usize) -> Result<(), LogError> {
        self.replace(index, &text.lines().skip(count).map(|line| format!("{line}\n")).collect::<String>())
    }

    /// Purges the logs before this one without space for a new index: their removal frees the space. An empty file
    /// needs no space, and makes an interrupted purge known to the next opening.
    fn purge_on_full_disk(&self, first_kept: &str) -> Result<(), LogError> {
        let mark = self.directory.path.join(format!("{PURGE_MARK_PREFIX}{first_kept}{PURGE_MARK_SUFFIX}"));
        private_options()
            .write(true)
            .open(&mark)
            .and_then(|_| sync_parent(&mark))
            .map_err(io_error("create", &mark))?;
        self.complete_purges()
    }

    /// Completes purges on a full disk: removes the logs first, then their lines of the index.
    pub(super) fn complete_purges(&self) -> Result<(), LogError> {
        for path in entries(&self.directory.path)? {
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            let first_kept =
                name.strip_prefix(PURGE_MARK_PREFIX).and_then(|name| name.strip_suffix(PURGE_MARK_SUFFIX));
            let Some(first_kept) = first_kept else { continue };
            self.complete_purge_before(first_kept)?;
            self.remove(name)?;
        }
        Ok(())
    }

    fn complete_purge_before(&self, first_kept: &str) -> Result<(), LogError> {
        let Some(index) = self.directory.index()? else { return Ok(()) };
        let text = read_regular_text(&index).map_err(io_error("read", &index))?;
        let text = whole_lines(&text);
        let names = log_names(text, &index)?;
        // Without the log, the purge is complete except for its mark.
        let count = names.iter().position(|name| *name == first_kept).unwrap_or(0);
        if count > 0 {
            names[..count].iter().try_for_each(|name| self.remove_log(name))?;
            self.drop_index_lines(&index, text, count)?;
        }
        // A purge that failed on the full disk may have left its list.
        self.remove_purged(&names[count..])
    }

    /// Replaces a file's text atomically.
    pub(super) fn replace(&self, path: &Path, text: &str) -> Result<(), LogError> {
        replace_file(path, text.as_bytes(), FileAccess::Private).map_err(io_error("replace", path))
    }

    /// Removes the logs that an interrupted purge has listed, unless they are in the index. The store removes no other
    /// files of the directory.
    pub(super) fn remove_purged(&self, kept: &[&str]) -> Result<(), LogError> {
        let list = self.directory.path.join(PURGE_LIST);
        let text = match read_regular_text(&list) {
            Err(cause) if cause.kind() == ErrorKind::NotFound => return Ok(()),
            read => read.map_err(io_error("read", &list))?,
        };
        for name in text.lines().filter(|name| is_log_name(name) && !kept.contains(name)) {
            self.remove_log(name)?;
        }
        self.remove(PURGE_LIST)
    }

    fn remove_log(&self, name: &str) -> Result<(), LogError> {
        self.remove(name)?;
        // A compressed log has a list of positions beside it, or several. The last list goes first, so that none remains
        // behind a gap.
        let first = positions_path(Path::new(name));
        let list = |number| numbered_path(&first, number).display().to_string();
        let exists = |number: &u64| self.directory.path.join(list(*number)).exists();
        let count = (1..).take_while(exists).count() as u64;
        (1..=count).rev().try_for_each(|number| self.remove(&list(number)))
    }

    /// Returns the number of the oldest logs beyond the retention limit.
    fn count_expired(
        &self,
        names: &[&str],
        keep: RetentionLimit,
        now: SystemTime,
    ) -> Result<usize, LogError> {
        let mut kept_size = 0;
        // Never count the last log, because it is being written.
        for (number, name) in names.iter().enumerate().rev() {
            let path = self.directory.path.join(name);
            let found = match fs::metadata(&path) {
                // A log whose file is missing takes no space.
                Err(cause) if cause.kind() == ErrorKind::NotFound => continue,
                found => found.map_err(io_error("read the metadata of", &path))?,
            };
            kept_size += found.len();
            let is_beyond = match keep {
                RetentionLimit::Size(size) => kept_size > size,
                RetentionLimit::Age(age) => {
                    let written = found.modified().map_err(io_error("read the metadata of", &path))?;
                    now.duration_since(written).is_ok_and(|since| since > age)
                }
            };
            if is_beyond && number + 1 < names.len() {
                return Ok(number + 1);
            }
        }
        Ok(0)
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), LogError> {
        let path = self.directory.path.join(name);
        match fs::remove_file(&path) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => Err(io_error("remove", &path)(cause)),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::StoreWriter;
    use crate::LogEncryption;

    /// Returns the names of the files that a purge may change, and the index.
    fn files(directory: &Path) -> (Vec<String>, String) {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| !["b.index", "bintide.lock"].contains(&name.as_str()));
        names.sort();
        (names, fs::read_to_string(directory.join("b.index")).unwrap())
    }

    fn opened(directory: &Path) -> StoreWriter {
        StoreWriter::open(directory, LogEncryption::Plain { keyring: None }).unwrap()
    }

    /// Creates a store of three logs.
    fn three_logs(directory: &Path) -> StoreWriter {
        let mut store = opened(directory);
        for name in ["b.000001", "b.000002", "b.000003"] {
            store.begin_log(name, 4).unwrap();
        }
        store.sync().unwrap();
        store
    }

    #[test]
    fn purges_on_a_full_disk_remove_the_logs_first() {
        let directory = tempfile::tempdir().unwrap();
        let store = three_logs(directory.path());
        // A log that was compressed, and decompressed again.
        for list in ["positions.b.000001", "positions.b.000001.2"] {
            fs::write(directory.path().join(list), "").unwrap();
        }
        // Of a purge that could not write the index.
        fs::write(directory.path().join("bintide.purged"), "b.000001\n").unwrap();
        store.purge_on_full_disk("b.000003").unwrap();
        let expected = (vec!["b.000003".to_owned()], "./b.000003\n".to_owned());
        assert_eq!(files(directory.path()), expected);
        store.purge_on_full_disk("b.000003").unwrap();
        assert_eq!(files(directory.path()), expected);
    }

    #[test]
    fn interrupted_purges_on_a_full_disk_are_completed() {
        let directory = tempfile::tempdir().unwrap();
        drop(three_logs(directory.path()));
        fs::write(directory.path().join("bintide.purge-before.b.000003.mark"), "").unwrap();
        fs::remove_file(directory.path().join("b.000001")).unwrap();
        let store = opened(directory.path());
        assert_eq!(files(directory.path()), (vec!["b.000003".to_owned()], "./b.000003\n".to_owned()));
        assert_eq!(store.store_end().map(|end| end.log), Some("b.000003"));
    }

    #[test]
    fn missing_logs_do_not_prevent_a_purge() {
        let directory = tempfile::tempdir().unwrap();
        let mut store = three_logs(directory.path());
        fs::remove_file(directory.path().join("b.000002")).unwrap();
        let keep = super::RetentionLimit::Size(0);
        assert_eq!(store.purge(keep, std::time::SystemTime::now(), |_| None).unwrap(), 1);
        assert_eq!(files(directory.path()).1, "./b.000002\n./b.000003\n");
        assert_eq!(store.purge_before("b.000003", 2).unwrap(), 0);
        assert_eq!(store.purge_before("b.000003", 1).unwrap(), 1);
        assert_eq!(files(directory.path()).0, ["b.000003"]);
    }
}
