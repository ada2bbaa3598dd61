//! The logs that a command reads: files, directories, indexes, standard input.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use binlog::encryption::Keyring;
use binlog::{DecodeError, EVENT_SIZE_MAX, Reason};
use clap::Args;
use logs::{LogReader, Store, read_keyring};

use crate::args::Global;
use crate::exit::{Advice, Failure};
use crate::screen;

/// Which logs to read.
#[derive(Args, Clone, Debug)]
pub(crate) struct Inputs {
    /// Logs: files, directories or their indexes (which say which logs there are, and in which order), `-` for
    /// standard input.
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,
    /// The keyring file that encrypted logs are opened with: component_keyring_file's, or an old keyring_file's.
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
}

/// The logs, found but not opened.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// In the order given; those of a directory in the order of its index.
    pub(crate) places: Vec<Place>,
    /// Their sizes together, if all have one.
    pub(crate) bytes_total: Option<u64>,
    /// What opens encrypted ones.
    pub(crate) keyring: Option<Arc<Keyring>>,
    /// Logs that lie beside those of an index, behind its last one, and are not in it.
    unlisted: Vec<PathBuf>,
    /// Logs that an index names, and which one.
    indexed: Vec<(PathBuf, PathBuf)>,
}

/// One log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl Inputs {
    /// Finds them all, so that what is not there is said before the work starts.
    pub(crate) fn find(&self, global: &Global) -> Result<Found, Failure> {
        let (mut places, mut unlisted, mut indexed) = (Vec::new(), Vec::new(), Vec::new());
        for path in &self.logs {
            if path.as_os_str() == "-" {
                places.push(Place::Stdin);
                continue;
            }
            let (logs, index) = find(path, &mut unlisted, global)?;
            if let Some(index) = index {
                indexed.extend(logs.iter().map(|log| (log.clone(), index.clone())));
            }
            places.extend(logs.into_iter().map(Place::File));
        }
        if places.iter().filter(|place| **place == Place::Stdin).count() > 1 {
            return Err(Failure::NotBegun(anyhow!("standard input can be read only once; give `-` once")));
        }
        let keyring = self.keyring.as_ref().map(read_keyring).transpose();
        let keyring = keyring.map_err(|error| Failure::NotBegun(error.into()))?.map(Arc::new);
        Ok(Found { bytes_total: places.iter().map(size).sum(), places, keyring, unlisted, indexed })
    }
}

impl Inputs {
    /// Are any logs given?
    pub(crate) const fn has_logs(&self) -> bool {
        !self.logs.is_empty()
    }

    /// Reads this store in place of what was given.
    pub(crate) fn set_store(&mut self, folder: PathBuf) {
        self.logs = vec![folder];
    }

    /// The store that is to be followed: one directory, or its index.
    pub(crate) fn store(&self) -> Result<Store, Failure> {
        let [path] = self.logs.as_slice() else {
            return Err(Failure::NotBegun(anyhow!("--follow takes one directory, or its index")));
        };
        let is_index = path.extension().is_some_and(|extension| extension == "index");
        if !is_index && !path.is_dir() {
            let path = path.display();
            return Err(Failure::NotBegun(anyhow!(
                "--follow takes a directory or its index, which says what comes next: {path} is neither"
            )));
        }
        Store::open(path).map_err(|error| Failure::NotBegun(advised(error)))
    }

    /// The keyring file.
    pub(crate) fn keyring(&self) -> Option<PathBuf> {
        self.keyring.clone()
    }
}

impl Found {
    /// Says which logs were given more than once, and are therefore `counted` so.
    pub(crate) fn remark_on_twice(&self, global: &Global, counted: &str) {
        let mut seen = HashSet::new();
        let identity = |place: &&Place| match place {
            Place::File(path) => fs::metadata(path).ok().map(|data| (data.dev(), data.ino())),
            Place::Stdin => None,
        };
        let again = self.places.iter().filter(|place| identity(place).is_some_and(|one| !seen.insert(one)));
        for place in again.filter(|_| !global.quiet) {
            screen::remark(format_args!("{place} was given before, and is {counted} again"));
        }
    }

    /// Says which logs an index lacks, and that are therefore not read.
    fn remark_on_unlisted(&self, global: &Global) {
        for log in self.unlisted.iter().filter(|_| !global.quiet) {
            let log = log.display();
            screen::remark(format_args!(
                "{log} is not in the index beside it, and is not read; give it by its name if it is meant"
            ));
        }
    }

    /// Refuses indexes that name logs which are not there, and says which logs they lack.
    pub(crate) fn check_indexes(&self, global: &Global) -> Result<(), Failure> {
        match self.indexed.iter().find_map(|(log, _)| self.missing(log)) {
            Some(error) => Err(Failure::NotBegun(error.into())),
            None => {
                self.remark_on_unlisted(global);
                Ok(())
            }
        }
    }

    /// What there is to say of a log that is not there, and that an index names.
    fn missing(&self, log: &Path) -> Option<logs::Error> {
        let (_, index) = self.indexed.iter().find(|(named, _)| named == log && !log.exists())?;
        Some(logs::Error::Missing { name: log.display().to_string(), index: index.display().to_string() })
    }

    /// Opens one of the places.
    pub(crate) fn open(&self, place: &Place) -> Result<LogReader, logs::Error> {
        let reader = match place {
            Place::File(path) => {
                let is_indexed = self.indexed.iter().any(|(log, _)| log == path);
                let opened = if is_indexed { LogReader::open_stored(path) } else { LogReader::open(path) };
                opened.map_err(|error| self.missing(path).unwrap_or(error))?
            }
            Place::Stdin => LogReader::stdin(),
        };
        Ok(match &self.keyring {
            Some(keyring) => reader.with_keyring(Arc::clone(keyring)),
            None => reader,
        })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(out),
            Self::Stdin => out.write_str("standard input"),
        }
    }
}

/// Was a compressed event refused because it does not fit in `--memory`?
pub(crate) fn needs_memory(error: &DecodeError) -> bool {
    match error.reason {
        Reason::OutOfRange { field: "event size" | "size of a decompressed part", max, .. } => {
            max < u64::from(EVENT_SIZE_MAX)
        }
        _ => false,
    }
}

/// Advice for an event that does not fit in `--memory`.
pub(crate) const MEMORY_ADVICE: Advice = Advice("raise --memory to more than three times the event's size");

/// The error, with what can be done about it if we know.
pub(crate) fn advised(error: impl std::error::Error + Send + Sync + 'static) -> anyhow::Error {
    let of_payload = match (&error as &dyn std::any::Any).downcast_ref::<inspect::Error>() {
        Some(
            inspect::Error::Payload { error, .. } | inspect::Error::Log(logs::Error::Payload { error, .. }),
        ) => Some(&error.error),
        _ => None,
    };
    let cause: Option<&logs::Error> = match (&error as &dyn std::any::Any).downcast_ref::<inspect::Error>() {
        Some(inspect::Error::Log(cause)) => Some(cause),
        _ => (&error as &dyn std::any::Any).downcast_ref(),
    };
    let advice = match cause {
        _ if of_payload.is_some_and(needs_memory) => Some(MEMORY_ADVICE),
        Some(logs::Error::Encrypted { .. }) => Some(Advice("give it with --keyring")),
        Some(logs::Error::Io { cause, .. }) if cause.kind() == std::io::ErrorKind::PermissionDenied => {
            Some(Advice("run it as the user that owns the logs"))
        }
        Some(logs::Error::Corrupt { .. }) => Some(Advice("see what `bintide verify` says")),
        _ => None,
    };
    match advice {
        Some(advice) => anyhow::Error::new(error).context(advice),
        None => anyhow::Error::new(error),
    }
}

/// The logs that are meant, and the index that says so, if one does.
fn find(
    path: &Path,
    unlisted: &mut Vec<PathBuf>,
    global: &Global,
) -> Result<(Vec<PathBuf>, Option<PathBuf>), Failure> {
    let metadata = fs::metadata(path).with_context(|| format!("could not open {}", path.display()));
    let is_index = path.extension().is_some_and(|extension| extension == "index");
    if !metadata.map_err(Failure::NotBegun)?.is_dir() && !is_index {
        return Ok((vec![path.to_owned()], None));
    }
    let store = Store::open(path).map_err(|error| Failure::NotBegun(advised(error)))?;
    if let Some(line) = store.elsewhere().filter(|_| !global.quiet) {
        screen::remark(format_args!("{line}"));
    }
    unlisted.extend(store.unlisted().map_err(|error| Failure::NotBegun(advised(error)))?);
    // Indexes say `./binlog.000001`.
    let logs = store.logs().iter().map(|log| log.components().collect()).collect();
    let index = store.path().is_file().then(|| store.path().to_owned());
    Ok((logs, index))
}

fn size(place: &Place) -> Option<u64> {
    match place {
        Place::File(path) => fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|data| data.len()),
        Place::Stdin => None,
    }
}
