//! Replay position of a target: shows it or drops it.

use std::io::{self, Write as _};
use std::path::Path;

use mysql_target::{MysqlTarget, TargetInspector};
use replay::AppliedState;
use servers::ServerAddress;

use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::json_document::write_document;
use crate::output_format::OutputFormat;
use crate::screen::{self, visible};

/// Prints the progress of a target, without changing anything there.
pub(super) fn status(address: &ServerAddress, format: OutputFormat) -> CommandResult {
    let inspector =
        TargetInspector::connect(address).map_err(|error| CommandFailure::NotStarted(error.into()))?;
    let applied = inspector.applied();
    let mut out = io::stdout().lock();
    if format == OutputFormat::Json {
        let document = serde_json::json!({
            "target": address.to_string(),
            "has_progress": inspector.has_progress(),
            "applied": applied.gtids().to_string(),
            "place": applied.progress.position.as_ref().map(ToString::to_string),
            "announced": applied.intent.as_ref().map(|intent| &intent.transaction),
            "source": inspector.source_server_id(),
            "gtid_executed": applied.executed.to_string(),
        });
        write_document(&mut out, &document)?;
    } else {
        screen::print(&text(&inspector, &applied), &mut out)?;
    }
    Ok(CommandVerdict::Success)
}

fn text(inspector: &TargetInspector, applied: &AppliedState) -> String {
    let none = || "none".to_owned();
    let set = |set: &binlog::gtid::GtidSet| if set.is_empty() { none() } else { set.to_string() };
    let mut text = format!("gtid_executed  {}\n", set(&applied.executed));
    if !inspector.has_progress() {
        text.push_str("No progress is saved: the table bintide.progress does not exist.\n");
        return text;
    }
    let position =
        applied.progress.position.as_ref().map_or_else(none, |position| format!("up to {position}"));
    text.push_str(&format!("applied        {}\n", set(&applied.gtids())));
    text.push_str(&format!("without GTIDs  {position}\n"));
    if let Some(source) = inspector.source_server_id() {
        text.push_str(&format!("logs of        server_id {source}\n"));
    }
    if let Some(intent) = &applied.intent {
        text.push_str(&format!("unconfirmed    {}\n", intent.transaction));
    }
    text.push_str("The progress is stored in the table bintide.progress; --forget drops it.\n");
    text
}

/// Returns the progress of a SQLite database; `None` if it has none.
#[cfg(feature = "sqlite")]
pub(super) fn applied(path: &Path) -> Result<Option<AppliedState>, CommandFailure> {
    sqlite_target::SqliteTarget::read_applied(path).map_err(|error| CommandFailure::NotStarted(error.into()))
}

/// Returns `None`: opening the database reports that this build of bintide has no SQLite support.
#[cfg(not(feature = "sqlite"))]
pub(super) fn applied(_: &Path) -> Result<Option<AppliedState>, CommandFailure> {
    Ok(None)
}

/// Prints the progress of a SQLite database, without changing anything there.
pub(super) fn status_of_file(path: &Path, format: OutputFormat) -> CommandResult {
    let applied = applied(path)?;
    let mut out = io::stdout().lock();
    if format == OutputFormat::Json {
        let progress = applied.as_ref().map(|applied| &applied.progress);
        let document = serde_json::json!({
            "target": format!("sqlite:{}", path.display()),
            "has_progress": progress.is_some(),
            "applied": progress.map(|progress| progress.gtids.to_string()).unwrap_or_default(),
            "place": progress.and_then(|progress| progress.position.as_ref()).map(ToString::to_string),
        });
        write_document(&mut out, &document)?;
        return Ok(CommandVerdict::Success);
    }
    match applied {
        None if !path.exists() => {
            let path = visible(&path.display().to_string());
            writeln!(out, "No progress is saved: the file {path} does not exist.")?;
        }
        None => writeln!(out, "No progress is saved: the table bintide.progress does not exist.")?,
        Some(AppliedState { progress, .. }) => {
            let position =
                progress.position.map_or_else(|| "none".to_owned(), |position| format!("up to {position}"));
            let gtids =
                if progress.gtids.is_empty() { "none".to_owned() } else { progress.gtids.to_string() };
            screen::print(&format!("applied        {gtids}\nwithout GTIDs  {position}\n"), &mut out)?;
            writeln!(
                out,
                "The progress is stored in the table bintide.progress; to start over, delete the \
                file."
            )?;
        }
    }
    Ok(CommandVerdict::Success)
}

/// Drops the progress table.
pub(super) fn forget(address: &ServerAddress) -> CommandResult {
    let not_begun = |error: replay::ReplayError| CommandFailure::NotStarted(error.into());
    // Opening the target would create the table.
    if TargetInspector::connect(address).map_err(not_begun)?.has_progress() {
        let target = MysqlTarget::open(address.clone()).map_err(not_begun)?;
        target.drop_progress().map_err(not_begun)?;
        writeln!(io::stdout(), "Dropped the table bintide.progress.")?;
    } else {
        writeln!(io::stdout(), "The table bintide.progress does not exist.")?;
    }
    Ok(CommandVerdict::Success)
}
