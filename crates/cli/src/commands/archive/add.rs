//! `bintide archive LOG… --to ARCHIVE`: archives closed logs.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow};
use archive::{Archive, ArchiveError, ArchiveOutcome, Manifest, MissingFolder, SegmentTrial};
use binlog::MAGIC;
use clap::Args;
use logs::{
    EndOfLog, LogEncryption, LogError, LogReader, RawPiece, ReadOutcome, Store, StoreWriter, WriterPresence,
    find_running_server, find_writer, is_later_in_store, is_received_store, parent_of, read_keyring,
};
use serde_json::json;
use tracing::warn;

use super::{digest_of, document, failed, open_storage, text};
use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::json_document::write_document;
use crate::log_args::{InputPlace, LogArgs, add_advice};
use crate::progress::ByteProgress;
use crate::screen;

/// Interval at which a followed store is looked at.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Interval at which signals are looked for meanwhile.
const SIGNAL_INTERVAL: Duration = Duration::from_millis(50);
/// Size of the first piece of a log, which shows whether it is one.
const FIRST_PIECE_SIZE: usize = 4096;
/// Size of the pieces in which the end of a log is looked for.
const PIECE_SIZE: usize = 4 << 20;

/// Arguments of `bintide archive` without another command.
#[derive(Args, Debug)]
pub(super) struct ArchiveAddArgs {
    #[command(flatten)]
    inputs: LogArgs,
    /// Archive to which the logs are added: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, or a
    /// directory. Use a separate prefix for each server.
    #[arg(long, value_name = "ARCHIVE", required = true)]
    to: Option<String>,
    /// Delete each log from its directory after it was archived and read back from the archive. The newest log of a
    /// directory stays.
    #[arg(long)]
    then_remove: bool,
    /// Continue until stopped: archive each log of the directory as soon as its server has closed it.
    #[arg(long)]
    follow: bool,
    /// Print the manifests of the archived logs as one JSON document.
    #[arg(long, conflicts_with = "follow")]
    json: bool,
}

/// A run of `bintide archive`.
struct ArchiveRun<'r> {
    command: &'r ArchiveAddArgs,
    global: &'r GlobalArgs,
    archive: Archive,
    archived: Vec<Manifest>,
    /// Number of logs that were in the archive before.
    present: u64,
    /// Logs that are in the archive.
    finished: HashSet<PathBuf>,
    /// Size and time of the last change of logs that were still open.
    open: HashMap<PathBuf, (u64, Option<SystemTime>)>,
}

/// Archives the logs.
pub(super) fn run(command: &ArchiveAddArgs, global: &GlobalArgs) -> CommandResult {
    let Some(location) = &command.to else {
        return Err(CommandFailure::NotStarted(anyhow!("archive needs the archive's location: --to")));
    };
    let folder = command.follow.then(|| command.inputs.store("--follow")).transpose()?;
    let found = command.inputs.find_logs()?;
    found.check_indexes()?;
    let mut logs = Vec::new();
    for place in found.places {
        match place {
            InputPlace::File(path) => logs.push(path),
            InputPlace::Stdin => {
                return Err(CommandFailure::NotStarted(anyhow!(
                    "archive reads the name of a log from its file, so it cannot read standard input"
                )));
            }
        }
    }
    if command.then_remove {
        check_removal(&logs)?;
    }
    let archive = open_storage(location, MissingFolder::Create)?;
    let mut run = ArchiveRun {
        command,
        global,
        archive,
        archived: Vec::new(),
        present: 0,
        finished: HashSet::new(),
        open: HashMap::new(),
    };
    run.archive_all(&logs)?;
    if let Some(mut store) = folder {
        interrupt::set_runs_until_stopped();
        while run.wait() {
            store.refresh().map_err(|error| CommandFailure::Failed(add_advice(error)))?;
            run.archive_all(store.logs())?;
        }
    }
    run.report()
}

impl ArchiveRun<'_> {
    /// Archives all closed logs among these.
    fn archive_all(&mut self, logs: &[PathBuf]) -> Result<(), CommandFailure> {
        for (number, log) in logs.iter().enumerate() {
            if interrupt::is_stop_requested() {
                return Ok(());
            }
            if self.finished.contains(log) {
                continue;
            }
            // A later log of the same server shows that this one is closed.
            let has_later = logs.get(number + 1).is_some_and(|later| is_later(later, log));
            if !has_later && !self.is_closed(log)? {
                if !self.command.follow {
                    warn!("{} is still open: it is archived once its server has closed it", log.display());
                }
                continue;
            }
            check_log(log)?;
            if !self.archive_one(log)? {
                return Ok(());
            }
            self.finished.insert(log.clone());
            if self.command.then_remove && has_later {
                self.remove(log)?;
            }
        }
        Ok(())
    }

    /// Removes an archived log. From a store, it removes all archived logs in front of the first one that is not: a store
    /// has no gaps.
    fn remove(&self, log: &Path) -> Result<(), CommandFailure> {
        let folder = parent_of(log);
        if !is_received_store(folder) {
            return fs::remove_file(log)
                .and_then(|()| logs::sync_parent(log))
                .with_context(|| format!("could not delete {}", log.display()))
                .map_err(CommandFailure::Failed);
        }
        let archived: HashSet<_> = self.finished.iter().filter(|other| parent_of(other) == folder).collect();
        let names: HashSet<_> = archived.iter().filter_map(|log| log.file_name()).collect();
        let unreadable = |error: LogError| CommandFailure::Failed(add_advice(error));
        let store = Store::open(folder).map_err(unreadable)?;
        let mut logs = store.logs().iter().filter_map(|log| log.file_name());
        let newest = logs.clone().next_back();
        let first_kept = logs.find(|name| !names.contains(name)).or(newest);
        let Some(first_kept) = first_kept.and_then(|name| name.to_str()) else { return Ok(()) };
        let encryption = LogEncryption::Plain { keyring: self.command.inputs.keyring() };
        let purged =
            StoreWriter::open(folder, encryption).and_then(|mut store| store.purge_before(first_kept));
        purged.map(drop).map_err(unreadable)
    }

    /// Archives one log. Returns false if the run was stopped meanwhile.
    fn archive_one(&mut self, log: &Path) -> Result<bool, CommandFailure> {
        let keyring = self.command.inputs.keyring().map(read_keyring).transpose();
        let keyring = keyring.map_err(|error| CommandFailure::NotStarted(error.into()))?;
        let size = fs::metadata(log).ok().map(|found| found.len());
        let trial = if self.command.then_remove { SegmentTrial::ReadBack } else { SegmentTrial::Blocks };
        let mut progress = ByteProgress::new(self.global, size);
        let mut watch = |done| {
            progress.update(done);
            match interrupt::is_stop_requested() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let added = self.archive.add(log, keyring.as_ref(), trial, &mut watch);
        drop(progress);
        match added {
            Ok(ArchiveOutcome::Present(manifest)) => {
                self.present += 1;
                if self.command.then_remove {
                    self.check_present(log, &manifest)?;
                }
            }
            Ok(ArchiveOutcome::Archived(manifest)) => {
                if !self.global.quiet && !self.command.json {
                    screen::write_line(text::archived_line(log, &manifest));
                }
                text::warn_kept(log, &manifest);
                self.archived.push(manifest);
            }
            Err(ArchiveError::Interrupted) => return Ok(false),
            Err(error) => return Err(failed(error, &log.display().to_string())),
        }
        Ok(true)
    }

    /// Checks that an archived log can be restored, and is this one, before it is removed.
    fn check_present(&self, log: &Path, manifest: &Manifest) -> Result<(), CommandFailure> {
        let name = log.display().to_string();
        if digest_of(log).with_context(|| format!("could not read {name}"))? != manifest.sha256 {
            return Err(failed(ArchiveError::OtherLog { name: manifest.log.clone() }, &name));
        }
        self.archive.verify(manifest).map_err(|error| failed(error, &name))
    }

    /// Tells whether the server has closed the log: it ends with a Rotate or Stop event. A log that has not changed since
    /// the last call is not read again.
    fn is_closed(&mut self, log: &Path) -> Result<bool, CommandFailure> {
        let found = fs::metadata(log).with_context(|| format!("could not open {}", log.display()))?;
        let version = (found.len(), found.modified().ok());
        if self.open.get(log) == Some(&version) {
            return Ok(false);
        }
        let is_closed = match self.read_to_end(log)? {
            EndOfLog::Closed => true,
            _ if !self.command.inputs.names(log) => false,
            // A log that was given by name does not grow any more, unless a process writes it.
            end => match find_writer(log) {
                WriterPresence::Closed => true,
                WriterPresence::Open => false,
                WriterPresence::Unknown => !may_be_in_use(&end),
            },
        };
        if !is_closed {
            self.open.insert(log.to_owned(), version);
        }
        Ok(is_closed)
    }

    /// Reads a log, and returns its end. A damaged log ends where its damage begins, and an encrypted one without its
    /// keyring at its start.
    fn read_to_end(&self, log: &Path) -> Result<EndOfLog, CommandFailure> {
        let unreadable = |error: LogError| CommandFailure::NotStarted(add_advice(error));
        let mut reader = LogReader::open(log).map_err(unreadable)?;
        if let Some(keyring) = self.command.inputs.keyring() {
            reader = reader.with_keyring(read_keyring(keyring).map_err(unreadable)?.into());
        }
        loop {
            match reader.next_raw_piece(PIECE_SIZE, PIECE_SIZE) {
                Ok(ReadOutcome::Some(RawPiece::Chunk(_) | RawPiece::LargePayload(_))) => {}
                Ok(ReadOutcome::End(end)) => return Ok(end),
                Err(LogError::Corrupt { .. } | LogError::KeyringRequired { .. }) => {
                    return Ok(EndOfLog::Open { in_use: reader.in_use() });
                }
                Err(error) => return Err(unreadable(error)),
            }
        }
    }

    /// Waits for the next look at the store. Returns false once the run is to stop.
    fn wait(&self) -> bool {
        let mut left = POLL_INTERVAL;
        while !left.is_zero() && !interrupt::is_stop_requested() {
            thread::sleep(SIGNAL_INTERVAL);
            left = left.saturating_sub(SIGNAL_INTERVAL);
        }
        !interrupt::is_stop_requested()
    }

    fn report(&self) -> CommandResult {
        if self.command.json {
            let manifests: Vec<_> = self.archived.iter().map(document).collect();
            let document = json!({ "archived": manifests, "already_archived": self.present });
            write_document(&mut io::stdout().lock(), &document)?;
        } else if !self.global.quiet && self.archived.len() != 1 {
            screen::write_line(text::archived_sum(&self.archived, self.present));
        }
        Ok(CommandVerdict::Success)
    }
}

/// Refuses a file that is not a log, or has no events.
fn check_log(log: &Path) -> Result<(), CommandFailure> {
    let mut reader = LogReader::open(log).map_err(|error| CommandFailure::NotStarted(add_advice(error)))?;
    match reader.next_raw_piece(FIRST_PIECE_SIZE, FIRST_PIECE_SIZE) {
        Ok(ReadOutcome::End(EndOfLog::Torn(torn))) if torn.offset <= MAGIC.len() as u64 => {
            Err(CommandFailure::NotStarted(anyhow!("{}", reader.torn_error(torn))))
        }
        Err(error @ LogError::NotALog { .. }) => Err(CommandFailure::NotStarted(add_advice(error))),
        _ => Ok(()),
    }
}

/// Returns whether a log is later than another one of the same directory.
fn is_later(log: &Path, than: &Path) -> bool {
    let names =
        log.file_name().and_then(|log| log.to_str()).zip(than.file_name().and_then(|than| than.to_str()));
    parent_of(log) == parent_of(than) && names.is_some_and(|(log, than)| is_later_in_store(log, than))
}

/// Returns whether the server may still write the log: it clears this mark when it closes the log.
fn may_be_in_use(end: &EndOfLog) -> bool {
    match end {
        EndOfLog::Closed => false,
        EndOfLog::Open { in_use } => *in_use,
        EndOfLog::Torn(torn) => torn.in_use,
    }
}

/// Refuses to remove logs of a server, or logs that an index would miss.
fn check_removal(logs: &[PathBuf]) -> Result<(), CommandFailure> {
    let mut folders: Vec<&Path> = logs.iter().map(|log| parent_of(log)).collect();
    folders.dedup();
    for folder in folders {
        let name = folder.display();
        if let Some(server) = find_running_server(folder) {
            return Err(CommandFailure::NotStarted(anyhow!(
                "{name} belongs to a running server ({server}): delete its logs with PURGE BINARY LOGS"
            )));
        }
        let has_index = has_index(folder).with_context(|| format!("could not read the directory {name}"));
        if has_index.map_err(CommandFailure::NotStarted)? && !is_received_store(folder) {
            return Err(CommandFailure::NotStarted(anyhow!(
                "{name} has an index file that bintide does not maintain: delete the logs with the program that \
                 maintains it"
            )));
        }
    }
    Ok(())
}

fn has_index(folder: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(folder)? {
        if entry?.path().extension().is_some_and(|end| end == "index") {
            return Ok(true);
        }
    }
    Ok(false)
}
