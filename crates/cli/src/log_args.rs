//! Logs that a command reads: files, directories, indexes, standard input.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use binlog::encryption::Keyring;
use binlog::{DecodeError, DecodeReason, EVENT_SIZE_MAX};
use clap::Args;
use inspect::stats::StatsSelection;
use inspect::verify::MissingLogs;
use logs::{FileIdentity, FoundLogs, LogReader, Store, add_archive_keyring, archived_contents, read_keyring};
use replay::ReplayLog;
use tracing::warn;

use crate::exit::{CommandFailure, ErrorAdvice};

/// Help for the LOG arguments of commands that cannot read standard input.
pub(crate) const FILES_HELP: &str = "Logs: files, directories, index files or archives. For a directory, its index file \
    determines the logs and their order";

/// Help for the LOG arguments of commands that accept neither standard input nor archives.
pub(crate) const LOG_FILES_HELP: &str = "Logs: files, directories or index files. For a directory, its index file \
    determines the logs and their order";

/// Options that name the logs to read.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogArgs {
    /// Logs to read: files, directories, index files or archives; `-` for standard input. For a directory, its index file
    /// determines the logs and their order.
    #[arg(value_name = "LOG", required = true)]
    logs: Vec<PathBuf>,
    /// Keyring file for encrypted logs and archives, of component_keyring_file or the older keyring_file plugin.
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
}

/// Logs that were found but not opened.
#[derive(Clone, Debug)]
pub(crate) struct InputLogs {
    /// Logs in the order of the arguments; logs of a directory in the order of its index.
    pub(crate) locations: Vec<InputLocation>,
    /// Sum of the logs' sizes, if all are known.
    pub(crate) bytes_total: Option<u64>,
    /// Keys of encrypted logs.
    pub(crate) keyring: Option<Arc<Keyring>>,
    /// Logs in the directory of an index, newer than its last log, that the index does not list.
    unlisted: Vec<PathBuf>,
    /// Positions in `locations` of the logs that a directory or an index lists directly after the log before.
    listed_after: BTreeSet<usize>,
    /// True if archived logs were left out.
    is_reduced: bool,
    /// Logs that an index lists, each with the path of the index.
    indexed: BTreeMap<PathBuf, PathBuf>,
}

/// Gap between two logs: missing logs, according to the numbers in the names.
#[derive(Clone, Debug)]
pub(crate) struct NumberGap {
    missing: MissingLogs,
    before: PathBuf,
    after: PathBuf,
    /// Position in `locations` of the log after the missing ones.
    pub(crate) next: usize,
    pub(crate) listing: LogListing,
}

/// Origin of the order of two logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogListing {
    /// A directory or an index lists the two logs directly after each other.
    Index,
    /// Both logs are arguments.
    Arguments,
}

/// Location of one log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum InputLocation {
    /// File.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

impl LogArgs {
    /// Finds all logs, so that a missing log is reported before the work starts. A log that is given several times is
    /// read once.
    pub(crate) fn find_logs(&self) -> Result<InputLogs, CommandFailure> {
        let keyring = self.keyring.as_ref().map(read_keyring).transpose();
        let keyring = keyring.map_err(|error| CommandFailure::NotStarted(error.into()))?.map(Arc::new);
        if let Some(keyring) = &keyring {
            add_archive_keyring(Arc::clone(keyring));
        }
        let (mut locations, mut unlisted, mut indexed) = (Vec::new(), Vec::new(), BTreeMap::new());
        let (mut listed_after, mut seen) = (BTreeSet::new(), SeenLogs::default());
        for path in &self.logs {
            if path.as_os_str() == "-" {
                locations.push(InputLocation::Stdin);
                continue;
            }
            let (logs, index) = find(path, &mut unlisted)?;
            if let Some(index) = index {
                indexed.extend(logs.iter().map(|log| (log.clone(), index.clone())));
            }
            let mut is_after = false;
            for log in logs {
                if seen.is_repeated(&log) {
                    warn!("{} is given more than once: it is read once", log.display());
                    is_after = false;
                    continue;
                }
                if std::mem::replace(&mut is_after, true) {
                    listed_after.insert(locations.len());
                }
                locations.push(InputLocation::File(log));
            }
        }
        if locations.iter().filter(|location| **location == InputLocation::Stdin).count() > 1 {
            return Err(CommandFailure::NotStarted(anyhow!(
                "standard input can be read only once: give - once"
            )));
        }
        let bytes_total = total_size(&locations);
        Ok(InputLogs { locations, bytes_total, keyring, unlisted, listed_after, is_reduced: false, indexed })
    }
}

impl LogArgs {
    /// Returns the logs of one file, directory or index.
    pub(crate) fn of_one(path: PathBuf, keyring: Option<PathBuf>) -> Self {
        Self { logs: vec![path], keyring }
    }

    /// Returns the logs, directories and indexes, as given.
    #[cfg(feature = "archive")]
    pub(crate) fn given(&self) -> &[PathBuf] {
        &self.logs
    }

    /// Returns whether any logs are given.
    pub(crate) const fn has_logs(&self) -> bool {
        !self.logs.is_empty()
    }

    /// Replaces the given logs with this store.
    pub(crate) fn set_store(&mut self, directory: PathBuf) {
        self.logs = vec![directory];
    }

    /// Returns the store to follow: one directory, or its index. `option` is the option or argument that requires a
    /// store.
    pub(crate) fn store(&self, option: &str) -> Result<Store, CommandFailure> {
        if self.logs.iter().any(|path| path.as_os_str() == "-") {
            return Err(CommandFailure::NotStarted(anyhow!(
                "{option} takes one directory or its index file, not standard input"
            )));
        }
        let [path] = self.logs.as_slice() else {
            return Err(CommandFailure::NotStarted(anyhow!(
                "{option} takes one directory or its index file"
            )));
        };
        let is_index = path.extension().is_some_and(|extension| extension == "index");
        if !is_index && !metadata(path)?.is_dir() {
            let path = path.display();
            return Err(CommandFailure::NotStarted(anyhow!(
                "{option} needs a directory or an index file, but {path} is neither"
            )));
        }
        Store::open(path).map_err(|error| CommandFailure::NotStarted(add_advice(error)))
    }

    /// Returns the path of the keyring file.
    pub(crate) fn keyring(&self) -> Option<PathBuf> {
        self.keyring.clone()
    }
}

impl InputLogs {
    /// Returns whether a directory or an index lists the log at this position directly after the previous log.
    pub(crate) fn is_listed_after(&self, position: usize) -> bool {
        self.listed_after.contains(&position)
    }

    /// Returns the gaps in the numbers of the logs; none if archived logs were left out, which have no transaction of
    /// the selection.
    pub(crate) fn gaps(&self) -> Vec<NumberGap> {
        if self.is_reduced {
            return Vec::new();
        }
        let gap = |(number, pair): (usize, &[InputLocation])| {
            let [InputLocation::File(before), InputLocation::File(after)] = pair else { return None };
            let next = number + 1;
            let listing = match self.is_listed_after(next) {
                true => LogListing::Index,
                false => LogListing::Arguments,
            };
            let missing = MissingLogs::between(before.to_str()?, after.to_str()?)?;
            Some(NumberGap { missing, before: before.clone(), after: after.clone(), next, listing })
        };
        self.locations.windows(2).enumerate().filter_map(gap).collect()
    }

    /// Leaves out archived logs without a selected transaction, by their manifests.
    pub(crate) fn leave_out_archived(&mut self, selection: &StatsSelection) {
        let is_needed = |location: &InputLocation| match location {
            InputLocation::File(path) => {
                archived_contents(path).is_none_or(|contents| selection.may_select(&contents))
            }
            InputLocation::Stdin => true,
        };
        let count = self.locations.len();
        self.locations.retain(is_needed);
        if self.locations.len() < count {
            self.bytes_total = total_size(&self.locations);
            // Positions of listed logs have changed.
            self.listed_after.clear();
            self.is_reduced = true;
        }
    }

    /// Warns about logs that the index does not list, and that are not read.
    fn warn_unlisted(&self) {
        for log in &self.unlisted {
            warn!("{}", Store::unlisted_log_warning(log));
        }
    }

    /// Returns the logs as sources of transactions.
    pub(crate) fn replay_logs(&self) -> Vec<ReplayLog> {
        let log = |location: &InputLocation| match location {
            InputLocation::File(path) => ReplayLog::File(path.clone()),
            InputLocation::Stdin => ReplayLog::Stdin,
        };
        self.locations.iter().map(log).collect()
    }

    /// Refuses indexes that list missing files, and warns about logs that an index does not list.
    pub(crate) fn check_indexes(&self) -> Result<(), CommandFailure> {
        match self.indexed.keys().find_map(|log| self.missing_log_error(log)) {
            Some(error) => Err(CommandFailure::NotStarted(error.into())),
            None => {
                self.warn_unlisted();
                Ok(())
            }
        }
    }

    /// Returns the error for a missing file that an index lists.
    fn missing_log_error(&self, log: &Path) -> Option<logs::LogError> {
        let index = self.indexed.get(log).filter(|_| !log.exists())?;
        Some(logs::LogError::MissingLog {
            name: log.display().to_string(),
            index: index.display().to_string(),
        })
    }

    /// Opens one of the logs.
    pub(crate) fn open(&self, location: &InputLocation) -> Result<LogReader, logs::LogError> {
        let reader = match location {
            InputLocation::File(path) => {
                let is_indexed = self.indexed.contains_key(path);
                let opened = if is_indexed { LogReader::open_stored(path) } else { LogReader::open(path) };
                opened.map_err(|error| self.missing_log_error(path).unwrap_or(error))?
            }
            InputLocation::Stdin => LogReader::from_stdin(),
        };
        Ok(match &self.keyring {
            Some(keyring) => reader.with_keyring(Arc::clone(keyring)),
            None => reader,
        })
    }
}

impl fmt::Display for NumberGap {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |path: &Path| path.file_name().unwrap_or_default().display().to_string();
        let Self { missing, before, after, .. } = self;
        write!(out, "{missing} {} missing between {} and {}", missing.verb(), name(before), name(after))
    }
}

impl fmt::Display for InputLocation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(out),
            Self::Stdin => out.write_str("standard input"),
        }
    }
}

/// Returns whether a compressed event was refused because it does not fit in `--memory`.
pub(crate) fn needs_memory(error: &DecodeError) -> bool {
    match error.reason {
        DecodeReason::OutOfRange { field: "event size" | "size of a decompressed part", max, .. } => {
            max < u64::from(EVENT_SIZE_MAX)
        }
        _ => false,
    }
}

/// Advice for an event that does not fit in `--memory`.
pub(crate) const MEMORY_ADVICE: ErrorAdvice =
    ErrorAdvice("increase --memory to more than three times the size of the event");

/// Advice for a log that ends within an event or a transaction.
const TORN_ADVICE: ErrorAdvice = ErrorAdvice(
    "give the complete log, or a copy of its whole transactions: bintide verify LOG --repair-tail COPY",
);

/// Returns whether a log is torn after its format description: a copy of its whole transactions is then a valid log.
pub(crate) const fn is_torn_after_format(error: &logs::LogError) -> bool {
    matches!(error, logs::LogError::Torn { torn, .. } if torn.follows_events())
}

/// Returns the error for a log without any event, not even a format description.
pub(crate) fn no_events_error(log: &str) -> String {
    format!("{log} has no events; it is empty or torn at its start: omit it, or give the complete log")
}

/// Adds a remedy to the error, if one is known.
pub(crate) fn add_advice(error: impl std::error::Error + Send + Sync + 'static) -> anyhow::Error {
    let of_payload = match (&error as &dyn std::any::Any).downcast_ref::<inspect::InspectError>() {
        Some(
            inspect::InspectError::Payload { error, .. }
            | inspect::InspectError::Log(logs::LogError::Payload { error, .. }),
        ) => Some(&error.error),
        _ => None,
    };
    let is_bad_event =
        matches!((&error as &dyn std::any::Any).downcast_ref(), Some(inspect::InspectError::Event { .. }));
    let cause: Option<&logs::LogError> =
        match (&error as &dyn std::any::Any).downcast_ref::<inspect::InspectError>() {
            Some(inspect::InspectError::Log(cause)) => Some(cause),
            _ => (&error as &dyn std::any::Any).downcast_ref(),
        };
    let advice = match cause {
        _ if of_payload.is_some_and(needs_memory) => Some(MEMORY_ADVICE),
        _ if of_payload.is_some() || is_bad_event => Some(ErrorAdvice("run bintide verify for details")),
        Some(logs::LogError::KeyringRequired { .. }) => Some(ErrorAdvice("give this file with --keyring")),
        Some(logs::LogError::MissingKey { .. } | logs::LogError::WrongKey { .. }) => {
            Some(ErrorAdvice("give the keyring file of the server that wrote this log"))
        }
        Some(logs::LogError::Io { cause, .. }) if cause.kind() == std::io::ErrorKind::PermissionDenied => {
            Some(ErrorAdvice("run bintide as the user that owns the logs"))
        }
        Some(logs::LogError::Corrupt { .. }) => Some(ErrorAdvice("run bintide verify for details")),
        Some(error) if is_torn_after_format(error) => Some(TORN_ADVICE),
        _ => None,
    };
    match advice {
        Some(advice) => anyhow::Error::new(error).context(advice),
        None => anyhow::Error::new(error),
    }
}

/// Returns the logs that a path names, and the index that lists them, if there is one.
fn find(path: &Path, unlisted: &mut Vec<PathBuf>) -> Result<(Vec<PathBuf>, Option<PathBuf>), CommandFailure> {
    let found = FoundLogs::at(path).map_err(|error| CommandFailure::NotStarted(add_advice(error)))?;
    if let Some(line) = found.ignored_path {
        warn!("{line}");
    }
    unlisted.extend(found.unlisted);
    Ok((found.logs, found.index))
}

fn metadata(path: &Path) -> Result<fs::Metadata, CommandFailure> {
    let metadata = fs::metadata(path).with_context(|| format!("could not open {}", path.display()));
    metadata.map_err(CommandFailure::NotStarted)
}

/// Logs that were given: files, and the paths of archived logs.
#[derive(Default)]
struct SeenLogs {
    files: HashSet<FileIdentity>,
    archived: HashSet<PathBuf>,
}

impl SeenLogs {
    /// Adds a log. Returns whether it was given before, also by another path.
    fn is_repeated(&mut self, log: &Path) -> bool {
        match fs::metadata(log) {
            Ok(metadata) => metadata.is_file() && !self.files.insert(FileIdentity::of(&metadata)),
            Err(_) => archived_contents(log).is_some() && !self.archived.insert(whole_path(log)),
        }
    }
}

/// Returns the path of an archived log with the whole path of the archive's directory. URLs stay unchanged.
fn whole_path(log: &Path) -> PathBuf {
    let directory = fs::canonicalize(logs::parent_of(log)).ok();
    match directory.zip(log.file_name()) {
        Some((directory, name)) => directory.join(name),
        None => log.to_owned(),
    }
}

/// Returns the sum of the sizes of logs; `None` if one is unknown. Sizes from manifests can be any numbers.
fn total_size(locations: &[InputLocation]) -> Option<u64> {
    locations.iter().map(file_size).try_fold(0, |sum: u64, size| Some(sum.saturating_add(size?)))
}

fn file_size(location: &InputLocation) -> Option<u64> {
    match location {
        InputLocation::File(path) => archived_contents(path)
            .map(|contents| contents.size)
            .or_else(|| fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|data| data.len())),
        InputLocation::Stdin => None,
    }
}
