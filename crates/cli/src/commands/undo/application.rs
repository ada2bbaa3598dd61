//! Applies the inverse to a server.

use std::io::{self, Write};

use anyhow::{Context, anyhow};
use mysql_target::{AppliedChanges, CheckedTransaction, RowConflict, WrittenRows};
use replay::{TargetFailure, TargetFailureKind};
use servers::ServerAddress;
use tracing::info;
use undo::{InverseCounts, InversePart};

use super::{Inverse, UndoOutputArgs, conflict_text, logged_actions, summary};
use crate::exit::{CommandFailure, CommandResult, CommandVerdict, ErrorAdvice};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::json_document::write_document;
use crate::progress::ByteProgress;
use crate::units::counted;

/// Maximum number of conflicts that are listed. The others are counted: bounds memory and output.
const CONFLICTS_LISTED_MAX: usize = 1_000;

/// Rows that differ from the result of the undone changes.
#[derive(Debug, Default)]
pub(super) struct Conflicts {
    pub(super) count: u64,
    /// The first [`CONFLICTS_LISTED_MAX`] conflicts.
    pub(super) listed: Vec<RowConflict>,
}

/// Result of applying the inverse.
#[derive(Debug, Default)]
struct ApplicationResult {
    /// Changes that were made.
    counts: InverseCounts,
    conflicts: Conflicts,
}

impl ApplicationResult {
    /// Adds the results of a statement. `is_counted` tells whether an earlier statement of the transaction changed rows.
    fn add(&mut self, written: WrittenRows, is_counted: &mut bool) {
        let AppliedChanges { inserted, updated, deleted } = written.applied;
        self.counts.inserted += inserted;
        self.counts.updated += updated;
        self.counts.deleted += deleted;
        if !*is_counted && !written.applied.is_empty() {
            self.counts.transactions += 1;
            *is_counted = true;
        }
        let Conflicts { count, listed } = &mut self.conflicts;
        *count += written.conflicts.len() as u64;
        let room = CONFLICTS_LISTED_MAX - listed.len();
        listed.extend(written.conflicts.into_iter().take(room));
    }
}

/// Applies the inverse as one transaction.
pub(super) fn apply(
    mut inverse: Inverse,
    address: &ServerAddress,
    output: &UndoOutputArgs,
    global: &GlobalArgs,
) -> CommandResult {
    let mut transaction = CheckedTransaction::begin(address)
        .map_err(|failure| CommandFailure::NotStarted(anyhow!("{failure}")))?;
    if output.skip_changed {
        transaction = transaction.with_skipping();
    }
    let Some(result) = write_rows(&mut inverse, &mut transaction, global)? else {
        return Ok(CommandVerdict::Success);
    };
    let conflicts = result.conflicts;
    let is_kept = conflicts.count == 0 || output.skip_changed;
    match is_kept {
        true => transaction.commit().map_err(commit_failure)?,
        false => transaction.roll_back().map_err(|failure| CommandFailure::Failed(anyhow!("{failure}")))?,
    }
    let counts = if is_kept { result.counts } else { InverseCounts::default() };
    let mut out = io::stdout().lock();
    match output.json {
        true => {
            let document = conflict_text::document(&counts, &conflicts, is_kept);
            write_document(&mut out, &document)?;
        }
        false => out.write_all(conflict_text::render(&conflicts).as_bytes())?,
    }
    match (conflicts.count, is_kept) {
        (0, _) => info!("applied {}", summary(&counts)),
        (count, true) if counts.transactions == 0 => {
            info!("nothing was changed; skipped {}", counted(count, "row"));
        }
        (count, true) => info!("applied {}; skipped {}", summary(&counts), counted(count, "row")),
        (count, false) => return Err(refusal(count)),
    }
    Ok(CommandVerdict::Success)
}

/// Writes all row changes. Returns `None` when interrupted.
fn write_rows(
    inverse: &mut Inverse,
    transaction: &mut CheckedTransaction,
    global: &GlobalArgs,
) -> Result<Option<ApplicationResult>, CommandFailure> {
    let mut result = ApplicationResult::default();
    let mut is_counted = false;
    let bytes_total = inverse.log.remaining();
    let mut progress = ByteProgress::new(global, Some(bytes_total));
    let mut name = String::new();
    loop {
        progress.update(bytes_total - inverse.log.remaining());
        let part = inverse.log.next_part().context("could not read a temporary file")?;
        if interrupt::is_stop_requested() {
            return Ok(None);
        }
        match part {
            None => return Ok(Some(result)),
            Some(InversePart::Transaction(undone)) => {
                undone.name.clone_into(&mut name);
                is_counted = false;
            }
            Some(part @ (InversePart::Statement { maps: events, .. } | InversePart::Rows(events))) => {
                let rows = Inverse::rows(&inverse.format, events);
                let begun = match logged_actions(&part) {
                    Some(actions) => transaction.begin_statement(actions, &rows),
                    None => Ok(()),
                };
                let written = begun.and_then(|()| transaction.write(&rows)).map_err(|failure| {
                    CommandFailure::Failed(anyhow!("could not undo {name}: {failure}. Nothing was changed"))
                });
                result.add(written?, &mut is_counted);
            }
        }
    }
}

fn refusal(count: u64) -> CommandFailure {
    let error = anyhow!("the changes of {} cannot be undone: nothing was changed", counted(count, "row"));
    CommandFailure::Failed(error.context(ErrorAdvice("use --skip-changed to undo the other changes")))
}

fn commit_failure(failure: TargetFailure) -> CommandFailure {
    CommandFailure::Failed(match failure.kind {
        TargetFailureKind::Lost => anyhow!(
            "it is unknown whether the inverse was committed: {failure}. Run the same command again: it changes \
             nothing if the inverse was committed"
        ),
        _ => anyhow!("could not commit the inverse: {failure}. Nothing was changed"),
    })
}
