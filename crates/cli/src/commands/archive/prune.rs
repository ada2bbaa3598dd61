//! `bintide archive prune`: deletes the oldest archived logs.

use std::io;
use std::sync::Arc;

use anyhow::anyhow;
use archive::{Archive, Manifest, StoredObject};
use binlog::encryption::Keyring;
use clap::Args;
use jiff::Timestamp;
use logs::{RetentionLimit, is_later_in_store};
use serde_json::json;

use super::text::total_size;
use super::{archived_logs, damaged_document, document, failed, log_in, open_archive, report_damaged};
use crate::commands::receive::retention::parse_retention;
use crate::exit::{CommandFailure, CommandResult};
use crate::global_args::GlobalArgs;
use crate::json_document::write_document;
use crate::screen;
use crate::units::{bytes, counted};

/// Minimum age, in seconds, of a segment without a manifest that counts as an interrupted upload.
const ORPHAN_AGE: i64 = 24 * 3600;

/// Arguments of `archive prune`.
#[derive(Args, Debug)]
pub(super) struct PruneArgs {
    /// Archive: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, or a directory.
    #[arg(value_name = "ARCHIVE")]
    location: String,
    /// Retain logs up to this age (30m, 12h, 7d, 2w; the age of their last event), or up to this total size with change
    /// tables (500M, 100G); older logs are deleted. The newest log is always retained.
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
pub(super) fn run(command: &PruneArgs, keyring: Option<Arc<Keyring>>, global: &GlobalArgs) -> CommandResult {
    let archive = open_archive(&command.location, keyring)?;
    let not_started = |error| CommandFailure::NotStarted(anyhow!("{error}"));
    let known = archived_logs(&archive)?;
    let now_s = Timestamp::now().as_second();
    let expired = expired(&known.manifests, command.keep, now_s);
    let orphans = archive.orphans(&known, now_s - ORPHAN_AGE).map_err(not_started)?;
    if !command.dry_run {
        delete(&archive, &expired, &orphans)?;
    }
    let mut out = io::stdout().lock();
    if command.json {
        let logs: Vec<_> = expired.iter().map(|manifest| document(manifest)).collect();
        let names: Vec<_> = orphans.iter().map(|object| &object.name).collect();
        let mut document = json!({ "dry_run": command.dry_run, "logs": logs, "interrupted_uploads": names });
        if !known.damaged.is_empty() {
            document["damaged_manifests"] = damaged_document(&known.damaged);
        }
        write_document(&mut out, &document)?;
    } else if !global.quiet {
        screen::print(&text(&archive, &expired, &orphans, command.dry_run), &mut out)?;
    }
    Ok(report_damaged(&known.damaged))
}

fn delete(archive: &Archive, expired: &[&Manifest], orphans: &[StoredObject]) -> Result<(), CommandFailure> {
    for manifest in expired {
        archive.remove(manifest).map_err(|error| failed(error, &log_in(archive, &manifest.log)))?;
    }
    for orphan in orphans {
        archive.remove_orphan(orphan).map_err(|error| failed(error, &orphan.name))?;
    }
    Ok(())
}

fn text(archive: &Archive, expired: &[&Manifest], orphans: &[StoredObject], is_dry_run: bool) -> String {
    let verb = if is_dry_run { "would be deleted" } else { "deleted" };
    let mut text: String =
        expired.iter().map(|manifest| format!("{}: {verb}\n", log_in(archive, &manifest.log))).collect();
    let size = total_size(expired.iter().map(|manifest| manifest.stored_size()));
    let left = total_size(orphans.iter().map(|object| object.size));
    text += &format!("{} {verb}, {}\n", counted(expired.len() as u64, "log"), bytes(size));
    if !orphans.is_empty() {
        let uploads = counted(orphans.len() as u64, "interrupted upload");
        text += &format!("{uploads} {verb}, {}\n", bytes(left));
    }
    text
}

/// Returns the logs beyond the limit, the oldest first, but none after a log of the same server that stays: the archive
/// would have a gap. `manifests` has the oldest log first; its last log is never beyond the limit.
fn expired(manifests: &[Manifest], keep: RetentionLimit, now_s: i64) -> Vec<&Manifest> {
    let mut kept_size = 0_u64;
    let mut beyond = Vec::new();
    for manifest in manifests.iter().rev() {
        kept_size = kept_size.saturating_add(manifest.stored_size());
        let is_beyond = match keep {
            RetentionLimit::Size(size) => kept_size > size,
            RetentionLimit::Age(age) => {
                // A statement can have any timestamp (SET timestamp).
                let event_s = manifest.times.map(|(_, last)| i64::from(last).min(manifest.archived_at));
                let last_s = event_s.unwrap_or(manifest.archived_at);
                u64::try_from(now_s.saturating_sub(last_s)).is_ok_and(|since| since > age.as_secs())
            }
        };
        beyond.push(is_beyond);
    }
    if let Some(newest) = beyond.first_mut() {
        *newest = false;
    }
    // The oldest log of each server that stays.
    let mut kept: Vec<&str> = Vec::new();
    let mut expired = Vec::new();
    for (manifest, is_beyond) in manifests.iter().zip(beyond.into_iter().rev()) {
        let log = manifest.log.as_str();
        let follows_kept = kept.iter().any(|kept| is_later_in_store(log, kept));
        match is_beyond {
            _ if follows_kept => {}
            true => expired.push(manifest),
            false => kept.push(log),
        }
    }
    expired
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use archive::Manifest;
    use logs::RetentionLimit;
    use serde_json::json;

    use super::expired;

    fn manifest(log: &str, last_s: Option<u32>) -> Manifest {
        let document = json!({
            "format": 1, "log": log, "size": 1000, "sha256": "", "front_sha256": "",
            "segment": format!("segments/{log}.0"), "segment_size": 100, "segment_sha256": "", "gtids": "",
            "times": last_s.map(|last| (last - 10, last)), "archived_at": 990, "bintide": "", "libzstd": 0,
            "statistics": { "events": 1, "transactions": 1, "rows": 1, "payloads_decompressed": 0, "payloads_kept": 0 },
        });
        serde_json::from_value(document).unwrap()
    }

    #[test]
    fn limits_choose_the_oldest_logs() {
        // The clock of server `a` was set back between its second and its third log.
        let logs =
            [("a.000001", Some(100)), ("a.000002", Some(900)), ("a.000003", Some(200)), ("b.000001", None)];
        let manifests: Vec<_> = logs.iter().map(|(log, last)| manifest(log, *last)).collect();
        let check = |keep, expected: &[&str]| {
            let found: Vec<_> = expired(&manifests, keep, 1000).iter().map(|log| log.log.as_str()).collect();
            assert_eq!(found, expected, "{keep:?}");
        };
        let age = |seconds| RetentionLimit::Age(Duration::from_secs(seconds));
        check(age(850), &["a.000001"]);
        // Without `a.000003`, the archive would have a gap.
        check(age(500), &["a.000001"]);
        check(age(0), &["a.000001", "a.000002", "a.000003"]);
        check(RetentionLimit::Size(400), &[]);
        check(RetentionLimit::Size(250), &["a.000001", "a.000002"]);
        check(RetentionLimit::Size(0), &["a.000001", "a.000002", "a.000003"]);
        assert!(expired(&[], age(0), 1000).is_empty());
    }
}
