//! `bintide stats`: what logs hold.

mod html;
mod text;

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use inspect::stats::{self, CompressionRow, Report, Settings};
use jiff::tz::TimeZone;

use crate::args::Global;
use crate::exit::{Failure, Outcome, Verdict};
use crate::inputs::{Inputs, advised};
use crate::interrupt;
use crate::page;
use crate::progress::Progress;
use crate::screen::{self, Style};

pub(crate) const EXAMPLES: &str = "\
Examples:
  What is in this log?
      bintide stats binlog.000012
  In all logs that a server's index names, without taking part in its work:
      bintide stats /var/lib/mysql
  Which tables wrote most rows? The same bytes as the usual one-liner of
  mysqlbinlog and perl prints, some hundred times sooner:
      bintide stats --rows binlog.000012
  The largest transaction, for a program:
      bintide stats --json binlog.000012 | jq '.largest[0]'
  A page with charts, to be read in a browser or printed:
      bintide stats --html report.html /var/lib/mysql
  From a compressed backup:
      zstd -dc binlog.000012.zst | bintide stats -

Transactions count by what they were before compression. A commit's time is
that of the server that wrote the log; times are shown in the time zone of TZ.";

/// Arguments of `bintide stats`.
#[derive(Args, Debug)]
pub(crate) struct Stats {
    #[command(flatten)]
    inputs: Inputs,
    /// Print a line for each table and kind of change: rows, kind, table; most first.
    #[arg(long, conflicts_with = "json")]
    rows: bool,
    /// Print everything as one JSON document.
    #[arg(long)]
    json: bool,
    /// Write a page with charts to this file: it needs nothing else, and prints well. `-` is standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "rows"])]
    html: Option<PathBuf>,
    /// How many of the largest and of the longest transactions to name.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    top: usize,
}

/// The rows of binary_log_transaction_compression_stats, as a table.
pub(crate) fn compression(rows: &[CompressionRow], style: Style) -> String {
    text::compression(rows, style)
}

/// Counts, then prints.
pub(crate) fn run(command: &Stats, global: &Global) -> Outcome {
    if let Some(path) = &command.html {
        page::check(path)?;
    }
    let report = collect(command, global)?;
    let mut out = io::stdout().lock();
    if let Some(path) = &command.html {
        page::write(&html::render(&report, &TimeZone::system()), path, &mut out)?;
    } else if command.rows {
        out.write_all(report.rows_lines())?;
    } else if command.json {
        serde_json::to_writer_pretty(&mut out, &report).map_err(io::Error::from)?;
        out.write_all(b"\n")?;
    } else {
        let style = Style::new(global.color.on_stdout());
        screen::print(&text::render(&report, style, &TimeZone::system()), &mut out)?;
    }
    Ok(verdict(&report))
}

/// What holds no event at all is no log.
fn verdict(report: &Report) -> Verdict {
    let mut verdict = Verdict::Fine;
    for log in report.logs.iter().filter(|log| log.events == 0) {
        screen::remark(format_args!("{} holds no events: it is empty, or torn at its start", log.name));
        verdict = Verdict::FaultsFound;
    }
    verdict
}

fn collect(command: &Stats, global: &Global) -> Result<Report, Failure> {
    let found = command.inputs.find(global)?;
    found.remark_on_twice(global, "counted");
    let mut progress = Progress::new(global, found.bytes_total);
    let readers = found.places.iter().map(|place| found.open(place));
    let mut watch = |bytes_done| {
        progress.at(bytes_done);
        match interrupt::requested() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let report = stats::collect(readers, Settings { top: command.top }, &mut watch);
    report.map_err(|error| Failure::Failed(advised(error)))
}
