//! `bintide verify`: are logs sound?

use std::io::{self, Write};
use std::ops::ControlFlow;

use clap::Args;
use inspect::verify::{self, LogVerdict, Verdict, Verdicts};
use serde_json::json;

use crate::args::Global;
use crate::exit::{Failure, Outcome, Verdict as Exit};
use crate::inputs::{Inputs, Place};
use crate::interrupt;
use crate::progress::Progress;
use crate::screen::Style;
use crate::units::{bytes, count};

pub(crate) const EXAMPLES: &str = "\
Examples:
  Is this log sound?
      bintide verify binlog.000012
  Is every log that a server's index names sound, and do they follow each other?
      bintide verify /var/lib/mysql
  For a script: 0 sound, 1 faults found, 2 could not be read
      bintide verify --quiet --json backup/binlog.0000* > verdict.json";

/// Arguments of `bintide verify`.
#[derive(Args, Debug)]
pub(crate) struct Verify {
    #[command(flatten)]
    inputs: Inputs,
    /// Print everything as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Looks, then prints.
pub(crate) fn run(command: &Verify, global: &Global) -> Outcome {
    let verdicts = look(command, global)?;
    let mut out = io::stdout().lock();
    match command.json {
        true => print_json(&verdicts, &mut out)?,
        false => print_text(&verdicts, Style::new(global.color.on_stdout()), global, &mut out)?,
    }
    Ok(match verdicts.verdict() {
        Verdict::Sound => Exit::Fine,
        Verdict::Faulty => Exit::FaultsFound,
        Verdict::Unreadable => Exit::Unreadable,
    })
}

fn look(command: &Verify, global: &Global) -> Result<Verdicts, Failure> {
    let found = command.inputs.find()?;
    let mut progress = Progress::new(global, found.bytes_total);
    let readers = found.places.iter().map(|place| (place.to_string(), place.open()));
    let mut watch = |bytes_done| {
        progress.at(bytes_done);
        match interrupt::requested() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    verify::verify(readers, &mut watch).map_err(|error| Failure::Failed(error.into()))
}

fn print_json(verdicts: &Verdicts, out: &mut impl Write) -> io::Result<()> {
    let document = json!({
        "verdict": verdicts.verdict(),
        "logs": verdicts.logs,
        "faults": verdicts.faults,
        "remarks": verdicts.remarks,
        "unreadable": verdicts.unreadable,
    });
    serde_json::to_writer_pretty(&mut *out, &document)?;
    out.write_all(b"\n")
}

fn print_text(verdicts: &Verdicts, style: Style, global: &Global, out: &mut impl Write) -> io::Result<()> {
    for fault in &verdicts.faults {
        writeln!(out, "{}", style.alarm(&fault.to_string()))?;
    }
    for unreadable in &verdicts.unreadable {
        writeln!(out, "{}", style.alarm(&unreadable.cause))?;
    }
    if !global.quiet {
        for remark in &verdicts.remarks {
            writeln!(out, "{}: {}", remark.log, remark.detail)?;
        }
        for log in &verdicts.logs {
            writeln!(out, "{}", summary(log, verdicts))?;
        }
    }
    Ok(())
}

fn summary(log: &LogVerdict, verdicts: &Verdicts) -> String {
    let is_unreadable = verdicts.unreadable.iter().any(|each| each.name == log.name);
    let word = match log.faults {
        _ if is_unreadable => "not read to its end".to_owned(),
        0 => "sound".to_owned(),
        1 => "1 fault".to_owned(),
        faults => format!("{} faults", count(faults)),
    };
    let (size, events, transactions) = (bytes(log.bytes), count(log.events), count(log.transactions));
    format!("{}: {word}: {transactions} transactions, {events} events, {size}", log.name)
}

impl std::fmt::Display for Place {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(out),
            Self::Stdin => out.write_str("standard input"),
        }
    }
}
