//! `bintide verify`: verifies logs.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::Args;
use inspect::InspectError;
use inspect::verify::{self, LogOrder, LogVerdict, VerifyInput, VerifyReport, VerifyVerdict};
use serde_json::json;
use tracing::{error, warn};

use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::json_document::write_document;
use crate::log_args::{InputLocation, InputLogs, LogArgs, add_advice};
use crate::progress::ByteProgress;
use crate::screen::{self, ReportStyle, visible};
use crate::units::{bytes, count, counted};

pub(crate) const EXAMPLES: &str = "\
Examples:
  Verify one log:
      bintide verify binlog.000012
  Verify all logs of a server, and that no log is missing between them:
      bintide verify /var/lib/mysql
  For a script (exit code 0: sound; 1: faults found; 2: could not be read):
      bintide verify --quiet --json backup/binlog.0000* > verdict.json
  Copy a log up to its last whole transaction, as crash recovery does:
      bintide verify binlog.000012 --repair-tail repaired.000012";

/// Arguments of `bintide verify`.
#[derive(Args, Debug)]
pub(crate) struct VerifyArgs {
    #[command(flatten)]
    inputs: LogArgs,
    /// Print the report as one JSON document.
    #[arg(long)]
    json: bool,
    /// Write a repaired copy of the log to COPY: it ends after the last whole transaction, and is not flagged as in
    /// use. Requires exactly one log.
    #[arg(long, value_name = "COPY")]
    repair_tail: Option<PathBuf>,
}

/// Verifies the logs, then prints the report.
pub(crate) fn run(command: &VerifyArgs, global: &GlobalArgs) -> CommandResult {
    let found = command.inputs.find_logs()?;
    if let Some(copy) = &command.repair_tail {
        check_repair(&found, copy)?;
    }
    let verdicts = verify_logs(&found, global)?;
    for unreadable in &verdicts.unreadable {
        error!("{}", &unreadable.cause);
    }
    let mut out = io::stdout().lock();
    screen::unless_closed(match command.json {
        true => print_json(&verdicts, &mut out),
        false => print_text(&verdicts, ReportStyle::new(global.color.on_stdout()), global, &mut out),
    })?;
    if let Some(copy) = &command.repair_tail {
        repair_tail(&found, copy, &verdicts, global)?;
    }
    Ok(match verdicts.verdict() {
        VerifyVerdict::Sound => CommandVerdict::Success,
        VerifyVerdict::Faulty => CommandVerdict::FaultsFound,
        VerifyVerdict::Unreadable => CommandVerdict::Unreadable,
    })
}

fn verify_logs(found: &InputLogs, global: &GlobalArgs) -> Result<VerifyReport, CommandFailure> {
    let mut progress = ByteProgress::new(global, found.bytes_total);
    let inputs = found.locations.iter().enumerate().map(|(position, location)| VerifyInput {
        name: location.to_string(),
        reader: found.open(location),
        order: if found.is_listed_after(position) { LogOrder::Listed } else { LogOrder::Unknown },
    });
    let mut watch = |bytes_done| {
        progress.update(bytes_done);
        interrupt::stop_flow()
    };
    let verdicts = verify::verify(inputs, &mut watch);
    // A log whose wait was stopped is not unreadable.
    let stopped = logs::is_wait_stopped().then_some(Err(InspectError::Stopped));
    stopped.unwrap_or(verdicts).map_err(|error| CommandFailure::Failed(error.into()))
}

/// Refuses an impossible repair, before hours of reading.
fn check_repair(found: &InputLogs, copy: &Path) -> Result<(), CommandFailure> {
    let refuse = |why: String| Err(CommandFailure::NotStarted(anyhow!(why)));
    match found.locations.as_slice() {
        [InputLocation::File(_)] if copy.exists() => {
            refuse(format!("{} exists: give the name of a new file", copy.display()))
        }
        [InputLocation::File(log)] if !log.is_file() => {
            refuse(format!("{} is not a regular file: --repair-tail copies a log file", log.display()))
        }
        [InputLocation::File(_)] => match copy.parent() {
            Some(parent) if !parent.as_os_str().is_empty() && !parent.is_dir() => refuse(format!(
                "{} is not a directory: --repair-tail writes its copy there",
                parent.display()
            )),
            _ => Ok(()),
        },
        _ => refuse("--repair-tail copies one log: give one file".into()),
    }
}

fn repair_tail(
    found: &InputLogs,
    copy: &Path,
    verdicts: &VerifyReport,
    global: &GlobalArgs,
) -> Result<(), CommandFailure> {
    let [location @ InputLocation::File(log)] = found.locations.as_slice() else {
        return Err(CommandFailure::NotStarted(anyhow!("--repair-tail copies one log: give one file")));
    };
    let reader = found.open(location).map_err(|error| CommandFailure::NotStarted(add_advice(error)))?;
    let repaired = verify::repair_tail(log, reader, copy).map_err(anyhow::Error::new)?;
    let kept_faults = verdicts.faults.iter().filter(|fault| fault.offset < repaired.whole_end).count() as u64;
    if kept_faults > 0 {
        let (copy, faults) = (copy.display(), counted(kept_faults, "fault"));
        warn!(
            "{copy} still has {faults}: --repair-tail removes only a torn or incomplete end. Restore the log from another copy"
        );
    }
    if !global.quiet {
        let (kept, cut) = (counted(repaired.bytes_kept, "byte"), count(repaired.bytes_cut));
        let (copy, log) = (copy.display(), log.display());
        match (repaired.bytes_cut, repaired.was_in_use) {
            (0, false) if kept_faults > 0 => screen::write_line(format_args!(
                "wrote {copy}: all {kept} of {log}, which has no torn or incomplete end"
            )),
            (0, false) => screen::write_line(format_args!(
                "{log} needs no repair: {copy} is an identical copy of {kept}"
            )),
            (0, true) => {
                screen::write_line(format_args!("wrote {copy}: all {kept} of {log}, without the in-use flag"))
            }
            (_, false) => screen::write_line(format_args!("wrote {copy}: {kept}, {cut} less than {log}")),
            (_, true) => screen::write_line(format_args!(
                "wrote {copy}: {kept}, {cut} less than {log}, without the in-use flag"
            )),
        }
    }
    Ok(())
}

fn print_json(verdicts: &VerifyReport, out: &mut impl Write) -> io::Result<()> {
    let document = json!({
        "verdict": verdicts.verdict(),
        "logs": verdicts.logs,
        "faults": verdicts.faults,
        "remarks": verdicts.remarks,
        "unreadable": verdicts.unreadable,
    });
    write_document(out, &document)
}

fn print_text(
    verdicts: &VerifyReport,
    style: ReportStyle,
    global: &GlobalArgs,
    out: &mut impl Write,
) -> io::Result<()> {
    for fault in &verdicts.faults {
        writeln!(out, "{}", style.highlight_fault(&visible(&fault.to_string())))?;
    }
    if !global.quiet {
        for remark in &verdicts.remarks {
            writeln!(out, "{}", visible(&format!("{}: {}", remark.log, remark.detail)))?;
        }
        for log in &verdicts.logs {
            writeln!(out, "{}", visible(&summary(log, verdicts)))?;
        }
    }
    Ok(())
}

fn summary(log: &LogVerdict, verdicts: &VerifyReport) -> String {
    let is_unreadable = verdicts.unreadable.iter().any(|each| each.name == log.name);
    let word = match log.faults {
        _ if is_unreadable => "not read completely".to_owned(),
        0 => "sound".to_owned(),
        faults => counted(faults, "fault"),
    };
    let (transactions, events) = (counted(log.transactions, "transaction"), counted(log.events, "event"));
    format!("{}: {word}: {transactions}, {events}, {}", log.name, bytes(log.bytes))
}
