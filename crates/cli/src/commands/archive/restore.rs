//! `bintide archive restore`: archived logs become files again.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use archive::{Archive, ArchiveError, Manifest, SegmentError};
use binlog::encryption::Keyring;
use clap::Args;
use logs::{DirectoryLock, private_options, sync_parent};
use serde_json::json;
use tracing::error;

use super::choice::{ChoiceArgs, ChosenLogs};
use super::text::total_size;
use super::{digest_of, failed, log_in};
use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::json_document::write_document;
use crate::output_directory::{create_directory, refuse_archive};
use crate::progress::ByteProgress;
use crate::screen;
use crate::units::{bytes, counted};

/// Arguments of `archive restore`.
#[derive(Args, Debug)]
pub(super) struct RestoreArgs {
    #[command(flatten)]
    choice: ChoiceArgs,
    /// Directory for the restored logs. It is created if it does not exist. Logs that an earlier run has restored there
    /// are skipped; other files are not replaced.
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Restores the chosen logs.
pub(super) fn run(
    command: &RestoreArgs,
    keyring: Option<Arc<Keyring>>,
    global: &GlobalArgs,
) -> CommandResult {
    let ChosenLogs { archive, manifests, damaged } = command.choice.find(keyring.clone())?;
    refuse_archive(&command.to).context("--to").map_err(CommandFailure::NotStarted)?;
    create_directory(&command.to).context("--to").map_err(CommandFailure::NotStarted)?;
    let Some(_lock) = lock(&command.to)? else {
        return Err(CommandFailure::NotStarted(anyhow!(
            "another process restores logs to {}: wait until it ends, or restore to another directory",
            command.to.display()
        )));
    };
    let total = total_size(manifests.iter().map(|manifest| manifest.size));
    let mut progress = ByteProgress::new(global, Some(total));
    let source = RestoreSource { archive, keyring };
    let (mut done, mut restored) = (0_u64, Vec::new());
    let unread = damaged.iter().map(|damaged| (damaged.log.clone(), damaged.error.to_string()));
    let mut faults: Vec<(String, String)> = unread.collect();
    for manifest in &manifests {
        let path = command.to.join(&manifest.log);
        if path.symlink_metadata().is_ok() {
            check_existing(&path, manifest)?;
            done = done.saturating_add(manifest.size);
            restored.push(manifest);
            continue;
        }
        let mut watch = |size| {
            done = done.saturating_add(size);
            progress.update(done);
        };
        let result = restore_one(&source, manifest, &path, &mut watch)?;
        if interrupt::is_stop_requested() {
            return Ok(CommandVerdict::Success);
        }
        match result {
            Ok(()) => restored.push(manifest),
            Err(fault) => faults.push((manifest.log.clone(), fault)),
        }
    }
    drop(progress);
    report(command, &source.archive, &restored, &faults, global)
}

/// Prints the result. Exit code 1 if a log is not restored.
fn report(
    command: &RestoreArgs,
    archive: &Archive,
    restored: &[&Manifest],
    faults: &[(String, String)],
    global: &GlobalArgs,
) -> CommandResult {
    let size = total_size(restored.iter().map(|manifest| manifest.size));
    for (log, fault) in faults {
        error!("{}: {fault}", log_in(archive, log));
    }
    if command.json {
        let logs: Vec<_> = restored.iter().map(|manifest| &manifest.log).collect();
        let faults: Vec<_> =
            faults.iter().map(|(log, fault)| json!({ "log": log, "fault": fault })).collect();
        let document = json!({ "restored": logs, "bytes": size, "faults": faults });
        screen::unless_closed(write_document(&mut io::stdout().lock(), &document))?;
    } else if !global.quiet {
        let logs = counted(restored.len() as u64, "log");
        screen::write_line(format_args!("{logs} restored byte for byte, {}", bytes(size)));
    }
    Ok(if faults.is_empty() { CommandVerdict::Success } else { CommandVerdict::FaultsFound })
}

/// Locks the directory, so that no other restore writes to it; returns `None` if one does.
fn lock(directory: &Path) -> Result<Option<DirectoryLock>, CommandFailure> {
    let lock =
        DirectoryLock::take(directory).with_context(|| format!("could not lock {}", directory.display()));
    lock.map_err(CommandFailure::NotStarted)
}

/// Checks that an existing file is the log: an earlier run has restored it.
fn check_existing(path: &Path, manifest: &Manifest) -> Result<(), CommandFailure> {
    match digest_of(path).with_context(|| format!("could not read {}", path.display()))? == manifest.sha256 {
        true => Ok(()),
        false => Err(CommandFailure::NotStarted(anyhow!(
            "{} exists and is not the archived log: restore to another directory",
            path.display()
        ))),
    }
}

/// Archive with the keys of its logs.
struct RestoreSource {
    archive: Archive,
    keyring: Option<Arc<Keyring>>,
}

/// Restores one log. The file gets its name only when it is complete. The inner error is a fault of this archived log,
/// and its remedy.
fn restore_one(
    source: &RestoreSource,
    manifest: &Manifest,
    path: &Path,
    watch: &mut dyn FnMut(u64),
) -> Result<Result<(), String>, CommandFailure> {
    let archive = &source.archive;
    let part = path.with_file_name(format!(".{}.part", manifest.log));
    let name = part.display().to_string();
    let write_error = |cause| ArchiveError::Write { name: name.clone(), cause };
    // Remove the unfinished file of an earlier run that was killed.
    let _ = fs::remove_file(&part);
    let file = private_options().write(true).create_new(true).open(&part);
    let mut file = file.with_context(|| format!("could not create {name}"))?;
    let restored = archive.restore(manifest, source.keyring.as_deref(), |bytes| {
        file.write_all(bytes).map_err(write_error)?;
        watch(bytes.len() as u64);
        Ok(interrupt::stop_flow())
    });
    let is_complete = restored.is_ok() && !interrupt::is_stop_requested();
    let finished = if is_complete { publish(&file, &part, path) } else { Ok(()) };
    let _ = fs::remove_file(&part);
    match restored {
        Err(error) if is_of_one_log(&error) => return Ok(Err(with_remedy(&error, manifest))),
        restored => restored.map_err(|error| failed(error, &log_in(archive, &manifest.log)))?,
    }
    finished.with_context(|| format!("could not write {}", path.display()))?;
    Ok(Ok(()))
}

/// Returns whether an error concerns only the archived log, and not the directory, the storage or the keys.
fn is_of_one_log(error: &ArchiveError) -> bool {
    match error {
        ArchiveError::Segment(_)
        | ArchiveError::MissingSegment { .. }
        | ArchiveError::Header { .. }
        | ArchiveError::Read { .. } => true,
        ArchiveError::EncryptedObject { .. } => !error.is_key_error(),
        _ => false,
    }
}

/// Returns the text of an error of one log. If the segment is damaged, also the remedy.
fn with_remedy(error: &ArchiveError, manifest: &Manifest) -> String {
    match error {
        ArchiveError::Read { .. } | ArchiveError::Segment(SegmentError::Version { .. }) => error.to_string(),
        ArchiveError::MissingSegment { .. } => {
            format!("{error}; if the log exists elsewhere, archive it again")
        }
        _ => format!(
            "{error}; if the log exists elsewhere, delete {} from the archive, and archive the log again",
            manifest.segment
        ),
    }
}

/// Renames a complete file to its final name, unless this name is in use.
fn publish(file: &fs::File, part: &Path, path: &Path) -> io::Result<()> {
    file.sync_all()?;
    // Unlike a rename, a link does not replace a file.
    fs::hard_link(part, path)?;
    fs::remove_file(part)?;
    sync_parent(path)
}
