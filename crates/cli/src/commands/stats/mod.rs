//! `bintide stats`: counts transactions, rows and bytes.

mod breakdown_rows;
mod compression_cells;
mod html;
mod text;

use std::io::{self, Write};
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use inspect::stats::{
    self, BreakdownKind, ChecksumVerification, CompressionRow, LogEnd, StatsReport, StatsSettings,
};
use mysqlbinlog::local_zone;
use tracing::{error, warn};

use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::json_document::write_document;
use crate::log_args::{InputLocation, LogArgs, add_advice, no_events_error};
use crate::newest_log_args::NewestLogArgs;
use crate::page;
use crate::progress::ByteProgress;
use crate::screen::{self, ReportStyle};
use crate::transaction_args::TransactionArgs;
use crate::units::counted;
use crate::value_parsers::parse_number;

pub(crate) const EXAMPLES: &str = "\
Examples:
  Statistics of one log:
      bintide stats binlog.000012
  Statistics of all logs of a server, without a connection to it:
      bintide stats /var/lib/mysql
  Rows by table, most rows first: the same output as mysqlbinlog piped into
  perl, about a hundred times as fast (compressed logs: about forty times):
      bintide stats --rows binlog.000012
  The largest transaction, as JSON:
      bintide stats --json binlog.000012 | jq '.largest[0]'
  An HTML page with charts:
      bintide stats --html report.html /var/lib/mysql
  From a compressed backup:
      zstd -dc binlog.000012.zst | bintide stats -
  The statements and connections that wrote the most between 14:00 and 14:20:
      bintide stats --start-datetime '2026-11-23 14:00:00' \\
          --stop-datetime '2026-11-23 14:20:00' /var/lib/mysql
  Changes of one table by hour, on a running server, from its newest logs:
      bintide stats --by hour --table shop.orders --from mysql://repl@db1/

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
    /// Length of the lists of largest and longest transactions, and of the groups of --by.
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = parse_number::<usize>)]
    top: usize,
    /// Also count by this property; separate several with commas [default: none; if transactions or tables are
    /// selected, account,statement]
    #[arg(long, value_name = "PROPERTY", value_enum, value_delimiter = ',', conflicts_with = "rows")]
    by: Vec<BreakdownArg>,
    /// Stop at an event with a wrong checksum. Without this option, checksums are not verified, as in mysqlbinlog.
    #[arg(long)]
    verify_binlog_checksum: bool,
    #[command(flatten)]
    newest_logs: NewestLogArgs,
    #[command(flatten)]
    transactions: TransactionArgs,
}

/// Value of `--by`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BreakdownArg {
    /// Minute of the commit
    Minute,
    /// Hour of the commit
    Hour,
    /// Changed table
    Table,
    /// Account or, if the log does not have it, connection
    Account,
    /// Statement without its literals
    Statement,
}

impl BreakdownArg {
    const fn kind(self) -> BreakdownKind {
        match self {
            Self::Minute => BreakdownKind::Minute,
            Self::Hour => BreakdownKind::Hour,
            Self::Table => BreakdownKind::Table,
            Self::Account => BreakdownKind::Account,
            Self::Statement => BreakdownKind::Statement,
        }
    }
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
        page::write(&html::render(&report, &local_zone(), command.top), path, &mut out)?;
    } else if command.rows {
        out.write_all(report.rows_lines())?;
    } else if command.json {
        write_document(&mut out, &report)?;
    } else {
        let style = ReportStyle::new(global.color.on_stdout());
        let text = text::render(&report, style, &local_zone(), command.top);
        screen::print(&text, &mut out)?;
    }
    Ok(verdict(&report))
}

/// Warns of logs that end within an event, which is not counted.
fn warn_torn(report: &StatsReport) {
    for log in report.logs.iter().filter(|log| log.events > 0) {
        if let LogEnd::Torn { offset, bytes, .. } = log.end {
            let bytes = counted(bytes, "byte");
            warn!("{} is torn at {offset}: {bytes} of an incomplete event are not counted", log.name);
        }
    }
}

/// Returns the verdict: a file without any event is not a log.
fn verdict(report: &StatsReport) -> CommandVerdict {
    warn_torn(report);
    let mut verdict = CommandVerdict::Success;
    for log in report.logs.iter().filter(|log| log.events == 0) {
        error!("{}", no_events_error(&log.name));
        verdict = CommandVerdict::FaultsFound;
    }
    verdict
}

fn collect(command: &StatsArgs, global: &GlobalArgs) -> Result<StatsReport, CommandFailure> {
    let settings = settings(command)?;
    let fetched = match command.inputs.has_logs() {
        true => command.newest_logs.refuse_beside_logs().map(|()| None)?,
        false => Some(command.newest_logs.fetch(global, |_, _| Ok(()))?.0),
    };
    let mut inputs = command.inputs.clone();
    if let Some(directory) = &fetched {
        inputs.set_store(directory.path().to_owned());
    }
    let mut found = inputs.find_logs()?;
    found.leave_out_archived(&command.transactions.selection()?);
    let mut progress = ByteProgress::new(global, found.bytes_total);
    let readers = found.locations.iter().map(|location| found.open(location));
    let mut watch = |bytes_done| {
        progress.update(bytes_done);
        interrupt::stop_flow()
    };
    let report = stats::collect(readers, &settings, &mut watch);
    let mut report = report.map_err(|error| CommandFailure::Failed(add_advice(error)))?;
    if fetched.is_some() {
        name_as_on_server(&mut report, &found.locations);
        warn_late_start(&report, &settings);
    }
    if report.totals.transactions == 0 && !settings.selection.selects_all() {
        warn!("nothing in the logs matches the selection");
    }
    Ok(report)
}

fn settings(command: &StatsArgs) -> Result<StatsSettings, CommandFailure> {
    let mut settings = StatsSettings::new(command.top);
    settings.selection = command.transactions.selection()?;
    settings.zone = local_zone();
    if command.verify_binlog_checksum {
        settings.checksums = ChecksumVerification::Verify;
    }
    let mut kinds: Vec<BreakdownKind> = Vec::new();
    for kind in command.by.iter().map(|by| by.kind()) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if kinds.is_empty() && !settings.selection.selects_all() && !command.rows {
        kinds = vec![BreakdownKind::Account, BreakdownKind::Statement];
    }
    settings.breakdowns = kinds.into();
    Ok(settings)
}

/// Names the logs of a temporary directory as the server does.
fn name_as_on_server(report: &mut StatsReport, locations: &[InputLocation]) {
    let directory = locations.iter().find_map(|location| match location {
        InputLocation::File(path) => path.parent(),
        InputLocation::Stdin => None,
    });
    let Some(directory) = directory.map(|directory| format!("{}/", directory.display())) else { return };
    let shorten = |name: &mut String| {
        if let Some(short) = name.strip_prefix(&directory) {
            *name = short.to_owned();
        }
    };
    report.logs.iter_mut().for_each(|log| shorten(&mut log.name));
    report.largest.iter_mut().chain(&mut report.longest).for_each(|each| shorten(&mut each.log));
}

/// Warns if the logs of a server begin after the start of the selected period.
fn warn_late_start(report: &StatsReport, settings: &StatsSettings) {
    let begun = report.logs.first().and_then(|log| log.begun);
    if let (Some(start_us), Some(begun)) = (settings.selection.start_us, begun)
        && begun.0 > start_us
    {
        let begun = begun.in_zone(&settings.zone);
        warn!(
            "the received logs begin at {begun}, after --start-datetime; to receive older logs, increase --fetch"
        );
    }
}
