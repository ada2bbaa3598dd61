//! Purge of a store: removes the oldest logs, from the index first.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::time::{Duration, SystemTime};

use super::StoreWriter;
use crate::error::LogError;
use crate::own_files::{FileAccess, replace_file};
use crate::regular_file::read_regular_text;
use crate::store_directory::{PURGE_LIST, io_error, is_log_name, log_names};

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
    /// purge therefore leaves a consistent store.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, written or removed.
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

    /// Removes the logs before this log, and returns their number: 0 if the store has no such log.
    ///
    /// # Errors
    ///
    /// The errors of [`StoreWriter::purge`].
    pub fn purge_before(&mut self, log: &str) -> Result<usize, LogError> {
        self.purge_counted(|_, names| Ok(names.iter().position(|name| *name == log).unwrap_or(0)))
    }

    /// Removes as many of the oldest logs as `count` returns. Never removes the last log.
    fn purge_counted(
        &mut self,
        count: impl FnOnce(&Self, &[&str]) -> Result<usize, LogError>,
    ) -> Result<usize, LogError> {
        let Some(index) = self.directory.index()? else { return Ok(0) };
        let text = read_regular_text(&index).map_err(io_error("read", &index))?;
        let names = log_names(&text, &index)?;
        let count = count(self, &names)?;
        if count == 0 {
            return Ok(0);
        }
        assert!(count < names.len(), "ours: the last log is never purged");
        let line = |name: &str| format!("{name}\n");
        self.replace(
            &self.directory.path.join(PURGE_LIST),
            &names[..count].iter().copied().map(line).collect::<String>(),
        )?;
        self.replace(&index, &text.lines().skip(count).map(line).collect::<String>())?;
        self.remove_purged(&names[count..])?;
        Ok(count)
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
            self.remove(name)?;
            // A compressed log has a position list beside it.
            self.remove(&format!("positions.{name}"))?;
        }
        self.remove(PURGE_LIST)
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
            let found = fs::metadata(&path).map_err(io_error("read the metadata of", &path))?;
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
