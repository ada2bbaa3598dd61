//! Progress files: their text, their lock, and their replacement.

use std::fmt;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use logs::{FileAccess, FileLock, private_options, replace_file};

use crate::resume_token::{ResumeToken, ResumeTokenError};
use crate::snapshot_progress::{SnapshotProgress, split_snapshot_line};
use crate::stream_gtid_state::StreamGtidState;

/// Contents of the progress file of a pipe. That of a directory has a further line after the first one.
///
/// ```text
/// TOKEN
/// schema NUMBER           if table definitions are saved
/// snapshot {…}            if tables are not read yet
/// server ID               if the records came from a server
/// gtids GTIDS             if its GTIDs are known
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedProgress {
    /// Position to resume at.
    pub token: ResumeToken,
    /// Number of the file with the table definitions.
    pub schema_number: Option<u64>,
    /// Progress of incremental snapshots.
    pub snapshot: SnapshotProgress,
    /// GTIDs received from a server; `None` if the records came from log files.
    pub gtid_state: Option<StreamGtidState>,
}

impl SavedProgress {
    /// Parses the progress file of a pipe.
    ///
    /// # Errors
    ///
    /// Fails if the text is malformed.
    pub fn parse(text: &str) -> Result<Self, ResumeTokenError> {
        let (token, state) = text.split_once('\n').unwrap_or((text, ""));
        Self::parse_parts(token.trim_end(), state)
    }

    /// Parses the first line, and the lines of the state.
    pub(crate) fn parse_parts(token: &str, state: &str) -> Result<Self, ResumeTokenError> {
        let token = token.parse()?;
        let (schema_number, rest) = split_schema_line(state).ok_or_else(|| ResumeTokenError::new(state))?;
        let (snapshot, rest) = split_snapshot_line(rest).ok_or_else(|| ResumeTokenError::new(rest))?;
        let gtid_state = match rest.is_empty() {
            true => None,
            false => Some(StreamGtidState::parse(rest).ok_or_else(|| ResumeTokenError::new(rest))?),
        };
        Ok(Self { token, schema_number, snapshot, gtid_state })
    }

    /// Formats the lines after the first one.
    pub(crate) fn state_text(&self) -> String {
        let schema = self.schema_number.map(|number| format!("schema {number}\n")).unwrap_or_default();
        let gtid_state = self.gtid_state.as_ref().map(StreamGtidState::to_string).unwrap_or_default();
        format!("{schema}{}{gtid_state}", self.snapshot)
    }
}

impl fmt::Display for SavedProgress {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}\n{}", self.token, self.state_text())
    }
}

/// Parses an optional line `schema 3`; returns its number and the rest of the text. `None` if the line is malformed.
fn split_schema_line(text: &str) -> Option<(Option<u64>, &str)> {
    let Some(rest) = text.strip_prefix("schema ") else { return Some((None, text)) };
    let (number, rest) = rest.split_once('\n')?;
    Some((Some(number.parse().ok()?), rest))
}

/// Locks a progress file without changing it, and checks that progress can be saved.
///
/// # Errors
///
/// Fails if progress cannot be saved, or another process holds the lock. The error contains the path.
pub fn lock_progress(path: &Path) -> io::Result<FileLock> {
    let named = |error: io::Error| with_path(path, &error);
    let lock = FileLock::take(path).map_err(named)?.ok_or_else(|| in_use_error(path))?;
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    create_options().truncate(true).open(&new).and_then(|_| fs::remove_file(&new)).map_err(named)?;
    Ok(lock)
}

/// Replaces a file atomically: after a crash it has either the old or the new text.
pub(crate) fn write_atomically(path: &Path, text: &str) -> io::Result<()> {
    replace_file(path, text.as_bytes(), FileAccess::Private).map_err(|error| with_path(path, &error))
}

/// Returns the options to write a new file.
pub(crate) fn create_options() -> OpenOptions {
    let mut options = private_options();
    options.write(true);
    options
}

pub(crate) fn in_use_error(path: &Path) -> io::Error {
    io::Error::other(format!(
        "{} is in use by another process: wait until it ends, or stop it",
        path.display()
    ))
}

/// Adds a path to an error.
pub(crate) fn with_path(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::{SavedProgress, lock_progress};

    #[test]
    fn progress_round_trips_as_text() {
        let check = |text: &str, expected: Option<(Option<u64>, bool)>| {
            let saved = SavedProgress::parse(text).ok();
            if let Some(saved) = &saved {
                assert_eq!(saved.to_string(), text);
            }
            let found = saved.map(|saved| (saved.schema_number, saved.gtid_state.is_some()));
            assert_eq!(found, expected, "{text:?}");
        };
        check("binlog.000001:10\n", Some((None, false)));
        check("binlog.000001:10,a:1\nschema 3\n", Some((Some(3), false)));
        check("binlog.000001:10\nschema 3\nserver here\n", Some((Some(3), true)));
        check("binlog.000001:10\nserver here\n", Some((None, true)));
        check("binlog.000001:10\nschema x\n", None);
        check("x\n", None);
    }

    #[test]
    fn progress_has_one_writer() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("progress");
        let lock = lock_progress(&path).unwrap();
        let error = lock_progress(&path).unwrap_err().to_string();
        assert!(error.contains("in use by another process") && error.contains("progress"), "{error}");
        drop(lock);
        drop(lock_progress(&path).unwrap());
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }
}
