//! Archived logs as text.

use std::io;
use std::path::Path;
use std::sync::Arc;

use archive::{Manifest, ManifestTables};
use binlog::encryption::Keyring;
use jiff::Timestamp;
use serde_json::json;
use tracing::warn;

use super::choice::{ChoiceArgs, ChosenLogs};
use super::{damaged_document, document, report_damaged};
use crate::commands::receive::ArchivingFigures;
use crate::exit::CommandResult;
use crate::global_args::GlobalArgs;
use crate::json_document::write_document;
use crate::output_format::OutputFormat;
use crate::screen::{self, ReportStyle, table_lines, visible};
use crate::units::{bytes, count, counted, share};

/// Prints the chosen manifests.
pub(super) fn list(
    choice: &ChoiceArgs,
    format: OutputFormat,
    keyring: Option<Arc<Keyring>>,
    global: &GlobalArgs,
) -> CommandResult {
    let ChosenLogs { manifests, damaged, .. } = choice.find(keyring)?;
    let mut out = io::stdout().lock();
    if format == OutputFormat::Json {
        let logs: Vec<_> = manifests.iter().map(document).collect();
        let mut document = json!({ "logs": logs });
        if !damaged.is_empty() {
            document["damaged_manifests"] = damaged_document(&damaged);
        }
        write_document(&mut out, &document)?;
    } else {
        let text = table(&manifests, ReportStyle::new(global.color.on_stdout()));
        screen::print(&text, &mut out)?;
    }
    Ok(report_damaged(&damaged))
}

/// Returns a table of archived logs.
pub(super) fn table(manifests: &[Manifest], style: ReportStyle) -> String {
    let columns =
        ["log", ">size", ">archived", ">share", ">transactions", "first event (UTC)", "last event (UTC)"];
    let has_tables = manifests.iter().any(|manifest| manifest.change_tables.is_some());
    let has_keys = manifests.iter().any(|manifest| manifest.segment_key.is_some());
    let tables_column: &[&str] = if has_tables { &[">change tables"] } else { &[] };
    let key_column: &[&str] = if has_keys { &["encrypted"] } else { &[] };
    let columns = [&columns[..], tables_column, key_column].concat();
    let mut table = style.table(&columns);
    for manifest in manifests {
        let (first, last) = match manifest.times {
            Some((first, last)) => (time(i64::from(first)), time(i64::from(last))),
            None => (String::new(), String::new()),
        };
        let mut row = vec![
            visible(&manifest.log),
            bytes(manifest.size),
            bytes(manifest.segment_size),
            share(manifest.segment_size, manifest.size),
            count(manifest.statistics.transactions),
            first,
            last,
        ];
        if has_tables {
            row.push(match &manifest.change_tables {
                Some(tables) if tables.missing.is_none() => bytes(tables.size()),
                _ => "none".to_owned(),
            });
        }
        if has_keys {
            row.push(if manifest.segment_key.is_some() { "yes" } else { "no" }.to_owned());
        }
        table.add_row(row);
    }
    let (size, archived) = sizes(manifests);
    let logs = counted(manifests.len() as u64, "log");
    let tables = total_size(manifests.iter().map(tables_size));
    let tables = if has_tables { format!(", {} of change tables", bytes(tables)) } else { String::new() };
    format!("{}{logs}, {}, {} in the archive{tables}\n", table_lines(&table), bytes(size), bytes(archived))
}

/// Returns the line about one log that was archived.
pub(super) fn archived_line(log: &Path, manifest: &Manifest) -> String {
    let Manifest { size, segment_size, .. } = manifest;
    let log = visible(&log.display().to_string());
    let tables = match &manifest.change_tables {
        Some(tables) if tables.missing.is_none() => format!("; change tables of {}", bytes(tables.size())),
        _ => String::new(),
    };
    let share = share(*segment_size, *size);
    format!("{log}: archived, {} of {} ({share}){tables}", bytes(*segment_size), bytes(*size))
}

/// Returns the line about an archived log that was deleted from its directory.
pub(super) fn removed_line(log: &Path) -> String {
    format!("{}: deleted", visible(&log.display().to_string()))
}

/// Returns the line about all logs of a run.
pub(super) fn archived_sum(figures: &ArchivingFigures) -> String {
    let ArchivingFigures { bytes_from, bytes_to, present, .. } = figures;
    let logs = counted(figures.logs, "log");
    format!(
        "{logs} archived, {} of {}; {present} already in the archive",
        bytes(*bytes_to),
        bytes(*bytes_from)
    )
}

/// Warns of parts of a log that were stored unchanged because they could not be decoded.
pub(super) fn warn_kept(log: &Path, manifest: &Manifest) {
    let log = log.display();
    for (reason, size) in &manifest.statistics.kept_bytes {
        match reason.as_str() {
            "encrypted" => warn!(
                "{log} is encrypted: it is stored unchanged, and does not become smaller. With --keyring, it is stored \
                 decrypted"
            ),
            _ => warn!("{log}: {} stored unchanged ({reason})", counted(*size, "byte")),
        }
    }
    for (reason, events) in &manifest.statistics.whole_events {
        warn!("{log}: {} stored unchanged ({reason})", counted(*events, "event"));
    }
}

/// Warns of a log that an earlier run has archived without encryption.
pub(super) fn warn_plain(log: &Path, manifest: &Manifest) {
    if manifest.segment_key.is_none() {
        warn!(
            "{} was archived without --encrypt, and stays unencrypted. To encrypt it, archive the log to a new location",
            log.display()
        );
    }
}

/// Warns of an archived log that was incomplete, and was written again.
pub(super) fn warn_repaired(log: &Path) {
    warn!(
        "{}: its segment or a change table was missing or truncated in the archive; it was written again",
        log.display()
    );
}

/// Warns of a log without the change tables that were requested.
pub(super) fn warn_missing_tables(log: &Path, manifest: &Manifest) {
    if let Some(why) = manifest.change_tables.as_ref().and_then(|tables| tables.missing.as_ref()) {
        warn!("{} has no change tables in the archive: {why}", log.display());
    }
}

fn tables_size(manifest: &Manifest) -> u64 {
    manifest.change_tables.as_ref().map_or(0, ManifestTables::size)
}

fn sizes(manifests: &[Manifest]) -> (u64, u64) {
    let size = total_size(manifests.iter().map(|manifest| manifest.size));
    (size, total_size(manifests.iter().map(|manifest| manifest.segment_size)))
}

/// Returns the sum of sizes, which come from manifests and can be any numbers.
pub(super) fn total_size(sizes: impl Iterator<Item = u64>) -> u64 {
    sizes.fold(0, u64::saturating_add)
}

fn time(seconds: i64) -> String {
    match Timestamp::from_second(seconds) {
        Ok(time) => time.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        Err(_) => String::new(),
    }
}
