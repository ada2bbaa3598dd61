//! `bintide stats`: counts transactions, rows and bytes.

mod html;
mod text;

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;

use clap::Args;
use inspect::stats::{self, CompressionRow, StatsReport, StatsSettings};
use jiff::tz::TimeZone;
use tracing::error;

use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::log_args::{LogArgs, add_advice, no_events_error};
use crate::page;
use crate::progress::ByteProgress;
use crate::screen::{self, ReportStyle};
use crate::value_parsers::parse_number;

pub(crate) const EXAMPLES: &str = "\
Examples:
  Statistics of one log:
      bintide stats binlog.000012
  Statistics of all logs of a server, without a connection to it:
      bintide stats /var/lib/mysql
  Rows by table, most first: the same output as mysqlbinlog piped into perl,
  about a hundred times as fast (compressed logs: about forty times):
      bintide stats --rows binlog.000012
  The largest transaction, as JSON:
      bintide stats --json binlog.000012 | jq '.largest[0]'
  An HTML page with charts:
      bintide stats --html report.html /var/lib/mysql
  From a compressed backup:
      zstd -dc binlog.000012.zst | bintide stats -

Transaction sizes are sizes before compression. Commit times are those of the
server that wrote the log, shown in the time zone of TZ.";

/// Arguments of `bintide stats`.
#[derive(Args, Debug)]
pub(crate) struct StatsArgs {
    #[command(flatten)]
    inputs: LogArgs,
    /// Print one line for each table and kind of change: rows, kind, table; most rows first.
    #[arg(long, conflicts_with = "json")]
    rows: bool,
    /// Print the report as one JSON document.
    #[arg(long)]
    json: bool,
    /// Write an HTML page with charts to this file; it needs no other files. `-` is standard output.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["json", "rows"])]
    html: Option<PathBuf>,
    /// Number of the largest and of the longest transactions to list.
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = parse_number::<usize>)]
    top: usize,
}

/// Returns the rows of binary_log_transaction_compression_stats as a table.
pub(crate) fn compression(rows: &[CompressionRow], style: ReportStyle) -> String {
    text::compression(rows, style)
}

/// Counts the events, then prints the report.
pub(crate) fn run(command: &StatsArgs, global: &GlobalArgs) -> CommandResult {
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
        let style = ReportStyle::new(global.color.on_stdout());
        screen::print(&text::render(&report, style, &TimeZone::system()), &mut out)?;
    }
    Ok(verdict(&report))
}

/// Returns the verdict: a file without any event is not a log.
fn verdict(report: &StatsReport) -> CommandVerdict {
    let mut verdict = CommandVerdict::Success;
    for log in report.logs.iter().filter(|log| log.events == 0) {
        error!("{}", no_events_error(&log.name));
        verdict = CommandVerdict::FaultsFound;
    }
    verdict
}

fn collect(command: &StatsArgs, global: &GlobalArgs) -> Result<StatsReport, CommandFailure> {
    let found = command.inputs.find_logs()?;
    found.warn_duplicates("counted");
    let mut progress = ByteProgress::new(global, found.bytes_total);
    let readers = found.places.iter().map(|place| found.open(place));
    let mut watch = |bytes_done| {
        progress.update(bytes_done);
        match interrupt::is_stop_requested() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    };
    let report = stats::collect(readers, StatsSettings { top: command.top }, &mut watch);
    report.map_err(|error| CommandFailure::Failed(add_advice(error)))
}
