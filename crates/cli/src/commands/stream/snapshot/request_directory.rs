//! Requests for incremental snapshots: files that `stream snapshot` writes to a directory, and the stream reads.
//!
//! Files work for every output, whether the stream runs or not, and survive a crash of both programs. They need no open
//! port and no account: who may write to the directory may request snapshots.

use std::fs;
use std::io::{self, ErrorKind, Read as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use logs::{FileAccess, FileLock, make_directories, open_regular, replace_file};
use tracing::warn;

use crate::commands::stream::log_stream::now_ns;

/// Interval at which the stream reads the directory.
const SCAN_INTERVAL: Duration = Duration::from_secs(1);
/// Maximum size of a request in bytes. A request with more is malformed.
const REQUEST_SIZE_MAX: u64 = 1 << 20;
const PREFIX: &str = "snapshot-";
const SUFFIX: &str = ".request";

/// Directory of requests, for one stream.
#[derive(Debug)]
pub(in crate::commands::stream) struct RequestDirectory {
    path: PathBuf,
    scanned: Option<Instant>,
    /// Keeps other streams out of the directory: each request is for one stream.
    _lock: FileLock,
}

/// Request for snapshots.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SnapshotRequest {
    pub(super) id: String,
    pub(super) tables: Vec<[String; 2]>,
}

impl RequestDirectory {
    /// Opens a directory, which is created if it is missing.
    pub(in crate::commands::stream) fn open(path: &Path) -> Result<Self, anyhow::Error> {
        make_directories(path)?;
        let lock = FileLock::take(&path.join("stream"));
        let lock = lock.with_context(|| format!("could not lock {}", path.display()))?;
        let in_use = || anyhow!("{} is in use by another stream: give each stream its own", path.display());
        Ok(Self { path: path.to_owned(), scanned: None, _lock: lock.ok_or_else(in_use)? })
    }

    /// Returns whether the directory is to be read at `now`, and starts the next interval then.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let is_due = self.scanned.is_none_or(|scanned| now.duration_since(scanned) >= SCAN_INTERVAL);
        if is_due {
            self.scanned = Some(now);
        }
        is_due
    }

    /// Returns the requests, oldest first. Files that are no requests are renamed, with a warning. Fails if a file cannot be
    /// read.
    pub(super) fn requests(&self) -> io::Result<Vec<SnapshotRequest>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            names.push(entry?.file_name());
        }
        names.sort();
        let mut requests = Vec::new();
        for name in names {
            let id = name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.strip_suffix(SUFFIX));
            let Some(id) = id else { continue };
            let path = self.path.join(&name);
            let text = open_regular(&path).and_then(|file| io::read_to_string(file.take(REQUEST_SIZE_MAX)));
            let tables = match text {
                Ok(text) => serde_json::from_str(&text).map_err(|error| error.to_string()),
                // Not UTF-8, or not a regular file.
                Err(error) if matches!(error.kind(), ErrorKind::InvalidData | ErrorKind::InvalidInput) => {
                    Err(error.to_string())
                }
                // Another process has removed the request.
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                // The file may be a request: it is read again later.
                Err(error) => return Err(error),
            };
            match tables {
                Ok(tables) => requests.push(SnapshotRequest { id: id.to_owned(), tables }),
                Err(error) => {
                    let other = path.with_extension("malformed");
                    warn!(
                        "{} is not a request for a snapshot: {error}; renamed to {}",
                        path.display(),
                        other.display()
                    );
                    fs::rename(&path, other)?;
                }
            }
        }
        Ok(requests)
    }

    /// Removes a request.
    pub(super) fn remove(&self, id: &str) -> io::Result<()> {
        fs::remove_file(request_path(&self.path, id))
    }
}

/// Writes a request. The stream finds it within a second, or when it starts.
pub(super) fn write_request(directory: &Path, tables: &[[String; 2]]) -> Result<(), anyhow::Error> {
    make_directories(directory)?;
    let mut random = [0; 4];
    getrandom::fill(&mut random).map_err(|error| anyhow!("could not get a random number: {error}"))?;
    // Names sort by the time of the request.
    let id = format!("{:016x}{:08x}", now_ns(), u32::from_le_bytes(random));
    let text = serde_json::to_string(tables)?;
    let path = request_path(directory, &id);
    replace_file(&path, text.as_bytes(), FileAccess::Private)
        .with_context(|| format!("could not write {}", path.display()))
}

fn request_path(directory: &Path, id: &str) -> PathBuf {
    directory.join(format!("{PREFIX}{id}{SUFFIX}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::{Duration, Instant};

    use super::{RequestDirectory, write_request};

    #[test]
    fn requests_stay_until_they_are_removed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("signals");
        let table = |name: &str| ["d".to_owned(), name.to_owned()];
        write_request(&path, &[table("t.1"), table("\"u")]).unwrap();
        write_request(&path, &[table("v")]).unwrap();
        fs::write(path.join("snapshot-x.request"), "[").unwrap();
        fs::write(path.join("snapshot-y.request"), b"\xff").unwrap();
        fs::create_dir(path.join("snapshot-z.request")).unwrap();
        let mut requests = RequestDirectory::open(&path).unwrap();
        let error = RequestDirectory::open(&path).unwrap_err().to_string();
        assert!(error.contains("in use by another stream"), "{error}");
        let found = requests.requests().unwrap();
        let tables: Vec<_> = found.iter().flat_map(|request| &request.tables).cloned().collect();
        assert_eq!(tables, [table("t.1"), table("\"u"), table("v")]);
        requests.remove(&found[0].id).unwrap();
        assert_eq!(requests.requests().unwrap(), found[1..]);
        for name in ["x", "y", "z"] {
            assert!(path.join(format!("snapshot-{name}.malformed")).exists(), "{name}");
        }
        let start = Instant::now();
        let due = [0, 500, 1000].map(|ms| requests.take_due(start + Duration::from_millis(ms)));
        assert_eq!(due, [true, false, true]);
    }
}
