//! `bintide archive prune`: deletes the oldest archived logs.

use std::io;

use anyhow::anyhow;
use archive::{Archive, Manifest, StoredObject};
use clap::Args;
use jiff::Timestamp;
use logs::RetentionLimit;
use serde_json::json;

use super::{document, failed, log_in, open_archive};
use crate::commands::receive::retention::parse_retention;
use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::json_document::write_document;
use crate::screen;
use crate::units::{bytes, counted};

/// Age of a segment without a manifest, in seconds, from which on its upload counts as interrupted.
const ORPHAN_AGE: i64 = 24 * 3600;

/// Arguments of `archive prune`.
#[derive(Args, Debug)]
pub(super) struct PruneArgs {
    /// Archive: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, or a directory.
    #[arg(value_name = "ARCHIVE")]
    location: String,
    /// Retain at most this age (30m, 12h, 7d, 2w), by the last event of a log, or this size in the archive (500M,
    /// 100G); older logs are deleted. The newest log stays.
    #[arg(long, value_name = "LIMIT", value_parser = parse_retention)]
    keep: RetentionLimit,
    /// Print what would be deleted, and delete nothing.
    #[arg(long)]
    dry_run: bool,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Deletes the logs beyond the limit.
pub(super) fn run(command: &PruneArgs, global: &GlobalArgs) -> CommandResult {
    let archive = open_archive(&command.location)?;
    let not_started = |error| CommandFailure::NotStarted(anyhow!("{error}"));
    let manifests = archive.manifests().map_err(not_started)?;
    let expired = &manifests[..expired_count(&manifests, command.keep, Timestamp::now().as_second())];
    let orphans = archive.orphans(&manifests, ORPHAN_AGE).map_err(not_started)?;
    if !command.dry_run {
        delete(&archive, expired, &orphans)?;
    }
    let mut out = io::stdout().lock();
    if command.json {
        let logs: Vec<_> = expired.iter().map(document).collect();
        let names: Vec<_> = orphans.iter().map(|object| &object.name).collect();
        let document = json!({ "dry_run": command.dry_run, "logs": logs, "interrupted_uploads": names });
        write_document(&mut out, &document)?;
    } else if !global.quiet {
        screen::print(&text(&archive, expired, &orphans, command.dry_run), &mut out)?;
    }
    Ok(CommandVerdict::Success)
}

fn delete(archive: &Archive, expired: &[Manifest], orphans: &[StoredObject]) -> Result<(), CommandFailure> {
    for manifest in expired {
        archive.remove(manifest).map_err(|error| failed(error, &log_in(archive, &manifest.log)))?;
    }
    for orphan in orphans {
        archive.remove_orphan(orphan).map_err(|error| failed(error, &orphan.name))?;
    }
    Ok(())
}

fn text(archive: &Archive, expired: &[Manifest], orphans: &[StoredObject], is_dry_run: bool) -> String {
    let verb = if is_dry_run { "would be deleted" } else { "deleted" };
    let mut text: String =
        expired.iter().map(|manifest| format!("{}: {verb}\n", log_in(archive, &manifest.log))).collect();
    let size = expired.iter().map(|manifest| manifest.segment_size).sum();
    let left = orphans.iter().map(|object| object.size).sum();
    text += &format!("{} {verb}, {}\n", counted(expired.len() as u64, "log"), bytes(size));
    if !orphans.is_empty() {
        let uploads = counted(orphans.len() as u64, "interrupted upload");
        text += &format!("{uploads} {verb}, {}\n", bytes(left));
    }
    text
}

/// Returns the number of the oldest logs beyond the limit. The newest log is never one of them.
fn expired_count(manifests: &[Manifest], keep: RetentionLimit, now: i64) -> usize {
    let mut kept_size = 0;
    for (number, manifest) in manifests.iter().enumerate().rev() {
        kept_size += manifest.segment_size;
        let is_beyond = match keep {
            RetentionLimit::Size(size) => kept_size > size,
            RetentionLimit::Age(age) => {
                let last = manifest.times.map_or(manifest.archived_at, |(_, last)| i64::from(last));
                u64::try_from(now - last).is_ok_and(|since| since > age.as_secs())
            }
        };
        if is_beyond {
            return (number + 1).min(manifests.len().saturating_sub(1));
        }
    }
    0
}
