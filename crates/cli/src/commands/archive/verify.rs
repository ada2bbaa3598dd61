//! `bintide archive verify`: rebuilds archived logs without writing them.

use std::io;
use std::sync::Arc;

use binlog::encryption::Keyring;
use clap::Args;
use serde_json::json;

use super::choice::{ChoiceArgs, ChosenLogs};
use super::log_in;
use super::text::total_size;
use crate::exit::{CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::json_document::write_document;
use crate::progress::ByteProgress;
use crate::screen::{self, ReportStyle, visible};
use crate::units::{bytes, counted};

/// Arguments of `archive verify`.
#[derive(Args, Debug)]
pub(super) struct ArchiveVerifyArgs {
    #[command(flatten)]
    choice: ChoiceArgs,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Verifies the chosen logs.
pub(super) fn run(
    command: &ArchiveVerifyArgs,
    keyring: Option<Arc<Keyring>>,
    global: &GlobalArgs,
) -> CommandResult {
    let ChosenLogs { archive, manifests, damaged } = command.choice.find(keyring)?;
    let total = total_size(manifests.iter().map(|manifest| manifest.size));
    let (mut done, mut equal) = (0_u64, 0);
    let unread = damaged.into_iter().map(|damaged| (damaged.log, damaged.error.to_string()));
    let mut faults: Vec<_> = unread.collect();
    let logs = manifests.len() + faults.len();
    let mut progress = ByteProgress::new(global, Some(total));
    for manifest in &manifests {
        if interrupt::is_stop_requested() {
            return Ok(CommandVerdict::Success);
        }
        match archive.verify(manifest).and_then(|()| archive.verify_tables(manifest)) {
            Ok(()) => equal += 1,
            Err(error) => faults.push((manifest.log.clone(), error.to_string())),
        }
        done = done.saturating_add(manifest.size);
        progress.update(done);
    }
    drop(progress);
    let verdict = if faults.is_empty() { CommandVerdict::Success } else { CommandVerdict::FaultsFound };
    let mut out = io::stdout().lock();
    if command.json {
        let faults: Vec<_> =
            faults.iter().map(|(log, fault)| json!({ "log": log, "fault": fault })).collect();
        let document = json!({ "logs": logs, "byte_identical": equal, "bytes": total, "faults": faults });
        screen::unless_closed(write_document(&mut out, &document))?;
        return Ok(verdict);
    }
    let style = ReportStyle::new(global.color.on_stdout());
    let mut text = String::new();
    for (log, fault) in &faults {
        let line = visible(&format!("{}: {fault}", log_in(&archive, log)));
        text += &format!("{}\n", style.highlight_fault(&line));
    }
    if !global.quiet {
        let logs = counted(logs as u64, "log");
        text += &format!("{equal} of {logs} can be restored byte for byte, {}\n", bytes(total));
    }
    screen::unless_closed(screen::print(&text, &mut out))?;
    Ok(verdict)
}
