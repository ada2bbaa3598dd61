//! Logs of archives wherever a log is opened by its path: `s3://BUCKET/PREFIX/LOG`, or in the directory of an archive.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use binlog::encryption::Keyring;
use logs::{ArchivedContents, ArchivedLogs, LogError, NoLogsReason, lock, set_archived_logs};

use crate::archive::{Archive, ManifestList};
use crate::archive_error::ArchiveError;
use crate::manifest::Manifest;
use crate::master_key::ArchiveKeys;
use crate::storage::{ArchiveStorage, MissingDirectory, is_object_url};

/// Archives that were opened.
#[derive(Default)]
struct OpenArchives {
    known: Mutex<KnownArchives>,
    /// Keys of encrypted archives, of all keyrings that the process was given.
    keys: Mutex<ArchiveKeys>,
}

#[derive(Default)]
struct KnownArchives {
    by_location: HashMap<String, Arc<OpenArchive>>,
    /// Process that opened them: a child process made by fork does not have the threads of their storages.
    process: u32,
}

struct OpenArchive {
    archive: Archive,
    known: ManifestList,
}

/// Directories that each archive has.
const DIRECTORIES: [&str; 2] = ["manifests", "segments"];

/// Makes logs of archives readable in this process, wherever a log is opened by its path. Only the first call has an
/// effect.
pub fn make_archives_readable() {
    set_archived_logs(Box::<OpenArchives>::default());
}

impl ArchivedLogs for OpenArchives {
    fn find(&self, path: &Path) -> Option<Result<Vec<PathBuf>, LogError>> {
        let mut without_key = None;
        if let Some((location, log)) = log_of_archive(path) {
            match self.archive(&location) {
                Ok(archive) => match archive.has_log(&log, path) {
                    Ok(true) => return Some(Ok(vec![path.to_owned()])),
                    Err(error) if !is_archive(path) => return Some(Err(error)),
                    Ok(false) | Err(_) => {}
                },
                Err(error) if !is_archive(path) => return Some(Err(unreadable(path, &error))),
                Err(error) => without_key = error.is_key_error().then(|| unreadable(path, &error)),
            }
        }
        let location = path.to_str().filter(|_| is_archive(path))?;
        let found = self.archive(location).map_err(|error| unreadable(path, &error)).and_then(|archive| {
            let directory = Path::new(location);
            // Without the log of a damaged manifest, the logs would have a gap.
            if let Some(damaged) = archive.known.damaged.first() {
                return Err(unreadable(directory, &damaged.error));
            }
            let logs = archive.known.manifests.iter().map(|manifest| directory.join(&manifest.log));
            let logs: Vec<_> = logs.collect();
            match logs.is_empty() {
                true => Err(LogError::NoLogs { name: location.to_owned(), reason: NoLogsReason::EmptyIndex }),
                false => Ok(logs),
            }
        });
        Some(match (found, without_key) {
            // The path is that of a log, whose archive cannot be read.
            (Err(LogError::NoLogs { .. }), Some(error)) => Err(error),
            (found, _) => found,
        })
    }

    fn open(&self, log: &Path) -> Option<Result<Box<dyn Read + Send>, LogError>> {
        let (location, name) = log_of_archive(log)?;
        let opened = self.archive(&location).map_err(|error| unreadable(log, &error)).and_then(|archive| {
            let found = archive.known.manifests.iter().find(|manifest| manifest.log == name);
            let manifest = found.ok_or_else(|| unreadable(log, &ArchiveError::UnknownLog { name }))?;
            let opened = archive.archive.open_log(manifest);
            let log = opened.map_err(|cause| unreadable(log, &ArchiveError::Read { cause }))?;
            Ok(Box::new(log) as Box<dyn Read + Send>)
        });
        Some(opened)
    }

    fn contents(&self, log: &Path) -> Option<ArchivedContents> {
        let (location, name) = log_of_archive(log)?;
        let archive = self.archive(&location).ok()?;
        archive.known.manifests.iter().find(|manifest| manifest.log == name).map(Manifest::contents)
    }

    fn forget(&self) {
        *lock(&self.known).of_this_process() = HashMap::new();
    }

    fn add_keyring(&self, keyring: Arc<Keyring>) {
        lock(&self.keys).add(keyring);
    }
}

impl OpenArchives {
    /// Returns an archive. Its manifests are read once, until the archives are forgotten.
    fn archive(&self, location: &str) -> Result<Arc<OpenArchive>, ArchiveError> {
        let mut known = lock(&self.known);
        let known = known.of_this_process();
        let key = location.trim_end_matches('/');
        if let Some(archive) = known.get(key) {
            return Ok(Arc::clone(archive));
        }
        let storage = ArchiveStorage::open(key, MissingDirectory::Refuse)?;
        let keys = lock(&self.keys).clone();
        let archive = Archive::new(storage).with_keys(keys);
        let manifests = archive.manifests()?;
        let opened = Arc::new(OpenArchive { archive, known: manifests });
        known.insert(key.to_owned(), Arc::clone(&opened));
        Ok(opened)
    }
}

impl KnownArchives {
    /// Returns the archives that this process has opened, by their locations.
    fn of_this_process(&mut self) -> &mut HashMap<String, Arc<OpenArchive>> {
        let process = std::process::id();
        if self.process != process {
            // To close the archives of the parent process would wait for its threads, which do not exist here.
            std::mem::forget(std::mem::take(&mut self.by_location));
            self.process = process;
        }
        &mut self.by_location
    }
}

impl OpenArchive {
    /// Returns whether the archive has a log.
    fn has_log(&self, log: &str, path: &Path) -> Result<bool, LogError> {
        match self.known.damaged.iter().find(|damaged| damaged.log == log) {
            Some(damaged) => Err(unreadable(path, &damaged.error)),
            None => Ok(self.known.manifests.iter().any(|manifest| manifest.log == log)),
        }
    }
}

/// Tells whether the path is the location of an archive.
fn is_archive(path: &Path) -> bool {
    path.to_str().is_some_and(is_object_url) || DIRECTORIES.iter().all(|name| path.join(name).is_dir())
}

/// Splits the path of an archived log into the location of the archive and the name of the log.
fn log_of_archive(path: &Path) -> Option<(String, String)> {
    let text = path.to_str()?;
    let (location, log) = text.rsplit_once('/').filter(|(_, log)| !log.is_empty())?;
    let is_url =
        is_object_url(location) && location.split_once("://").is_some_and(|(_, rest)| !rest.is_empty());
    let is_in_directory = || !path.exists() && is_archive(Path::new(location));
    (is_url || is_in_directory()).then(|| (location.to_owned(), log.to_owned()))
}

fn unreadable(path: &Path, error: &ArchiveError) -> LogError {
    LogError::Io {
        verb: "open",
        name: path.display().to_string(),
        cause: io::Error::other(error.to_string()),
    }
}
