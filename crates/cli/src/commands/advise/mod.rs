//! `bintide advise`: estimates the effect of transaction compression on logs.

mod html;
mod server_readings;
mod text;

use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::thread;
use std::time::Duration;

use advise::{AdviseReport, AdviseSettings, LogSource, MeasureExtent, MeasurementPlan, ServerReport};
use anyhow::anyhow;
use binlog::ZstdLevel;
use clap::Args;
use logs::archived_contents;
use mysqlbinlog::local_zone;
use serde::Serialize;
use servers::{ServerAddress, SqlConnection};
use tracing::{error, warn};

use crate::commands::advise::server_readings::ServerReadings;
use crate::commands::rewrite::MEMORY_DEFAULT;
use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::json_document::write_document;
use crate::log_args::{FILES_HELP, InputLocation, InputLogs, LogArgs, add_advice, no_events_error};
use crate::newest_log_args::NewestLogArgs;
use crate::page;
use crate::progress::ByteProgress;
use crate::screen::{self, ReportStyle};
use crate::units::{bytes, counted};
use crate::value_parsers::{
    number_within, parse_at_least_one, parse_level, parse_number, parse_positive_size, parse_size,
};

pub(crate) const EXAMPLES: &str = "\
Examples:
  Estimate the effect of compression on a server's logs, in half a minute for
  any number of logs:
      bintide advise /var/lib/mysql
  Exact figures, from all transactions of two logs:
      bintide advise --all binlog.000012 binlog.000013
  Other levels, and 90 seconds for a more precise estimate:
      bintide advise --levels 1,2,3,4,5 --time 90 /var/lib/mysql
  The same random sample in each run, for comparisons:
      bintide advise --sample 100M --seed 7 /var/lib/mysql
  An HTML page with charts:
      bintide advise --html advice.html /var/lib/mysql
  A running server, from its newest logs, settings and statistics:
      bintide advise --from mysql://repl@db1/ --password-file ~/.pw
  The lowest level that saves half, from the JSON document:
      bintide advise --json binlog.000012 |
          jq '[.levels[] | select(.saved_share > 0.5)][0].level'

Sizes are those of whole log files as a server would write them. Times are
measured on one core of this machine; a slower machine takes longer in
proportion.
advise writes nothing, and queries no server except that of --from. The account
on this server needs REPLICATION SLAVE and REPLICATION CLIENT, and SELECT on
performance_schema for the server's own measurements.";

const FROM_HELP: &str = "Measure the newest logs of a running server: mysql://USER@HOST:PORT/, or \
    mysql://USER@localhost/?socket=FILE. The connection options below complete or replace this address. The logs are \
    received into a temporary directory, as a replica would receive them. The server is also queried for its \
    settings, statistics and replication clients. Nothing is changed on the server";

/// Arguments of `bintide advise`.
#[derive(Args, Debug)]
#[command(mut_arg("logs", |arg| arg.help(FILES_HELP)))]
#[command(mut_arg("from", |arg| arg.help(FROM_HELP)))]
pub(crate) struct AdviseArgs {
    #[command(flatten)]
    inputs: LogArgs,
    #[command(flatten)]
    newest_logs: NewestLogArgs,
    /// Compression levels to measure, separated by commas: 1 to 22 [default: 1,3,6,9,12,19]
    #[arg(long, short, value_name = "LEVELS", value_delimiter = ',', value_parser = parse_level)]
    #[arg(hide_default_value = true, default_values = ["1", "3", "6", "9", "12", "19"])]
    levels: Vec<ZstdLevel>,
    /// Measure all transactions: exact, but high levels take many minutes per gigabyte.
    #[arg(long)]
    all: bool,
    /// Approximate measuring time in seconds. The report states the precision that was reached [default: 30; no limit
    /// with --sample]
    #[arg(long, value_name = "SECONDS", conflicts_with = "all")]
    #[arg(value_parser = number_within::<u64>(1..=u64::MAX))]
    time: Option<u64>,
    /// Measure approximately this amount of the logs, such as 100M or 2G, at random positions.
    #[arg(long, value_name = "SIZE", conflicts_with = "all", value_parser = parse_positive_size)]
    sample: Option<u64>,
    /// Seed of the random positions: the same seed selects the same positions.
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = parse_number::<u64>)]
    seed: u64,
    /// Maximum number of threads; fewer if --memory requires it [default: one per core].
    #[arg(long, value_name = "COUNT", value_parser = parse_at_least_one)]
    jobs: Option<NonZeroUsize>,
    /// Maximum memory, such as 300M or 2G [default: 300M, or more if the level needs it].
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    memory: Option<u64>,
    /// Print the report as one JSON document.
    #[arg(long)]
    json: bool,
    /// Write an HTML page with charts to this file, instead of tables or in addition to --json; the page needs no
    /// other files. `-` is standard output.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Default of `--time`, in seconds.
const TIME_DEFAULT_S: u64 = 30;

/// Measures the logs, then prints the report.
pub(crate) fn run(command: &AdviseArgs, global: &GlobalArgs) -> CommandResult {
    if let Some(path) = &command.html {
        page::check(path)?;
        if command.json && path.as_os_str() == "-" {
            return Err(CommandFailure::NotStarted(anyhow!(
                "--html - and --json both write to standard output: give --html a file name"
            )));
        }
    }
    let fetched = match command.inputs.has_logs() {
        true => command.newest_logs.refuse_beside_logs().map(|()| None)?,
        false => Some(command.newest_logs.fetch(global, query_server)?),
    };
    let mut inputs = command.inputs.clone();
    if let Some((directory, _)) = &fetched {
        inputs.set_store(directory.path().to_owned());
    }
    let names = if fetched.is_some() { LogNaming::OfFiles } else { LogNaming::AsGiven };
    let report = measure(command, &inputs, names, global)?;
    let server = fetched.as_ref().map(|(_, server)| server);
    let mut out = io::stdout().lock();
    if let Some(path) = &command.html {
        page::write(&html::render(&report, server, &local_zone()), path, &mut out)?;
    }
    if command.json {
        write_document(
            &mut out,
            &AdviceDocument {
                server: AdviceServer { writer: &report.server, readings: server },
                report: &report,
            },
        )?;
    } else if command.html.is_none() {
        screen::print(&text::render(&report, server, ReportStyle::new(global.color.on_stdout())), &mut out)?;
    }
    Ok(verdict(&report))
}

/// Queries a server, and refuses MariaDB.
fn query_server(
    connection: &mut SqlConnection,
    address: &ServerAddress,
) -> Result<ServerReadings, CommandFailure> {
    let server = ServerReadings::query(connection);
    match server.is_mariadb() {
        true => Err(CommandFailure::NotStarted(anyhow!(
            "{address} is a MariaDB server, which has no binlog_transaction_compression: use MySQL 8.0.20 or later"
        ))),
        false => Ok(server),
    }
}

/// Returns the verdict: a file without any event is not a log.
fn verdict(report: &AdviseReport) -> CommandVerdict {
    let mut verdict = CommandVerdict::Success;
    for log in report.logs.iter().filter(|log| !log.has_events) {
        error!("{}", no_events_error(&log.name));
        verdict = CommandVerdict::FaultsFound;
    }
    verdict
}

/// Names of logs in the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LogNaming {
    /// Paths, as given.
    AsGiven,
    /// File names, as on the server, without the temporary directory.
    OfFiles,
}

/// The report, and the readings of a running server.
#[derive(Serialize)]
struct AdviceDocument<'d> {
    server: AdviceServer<'d>,
    #[serde(flatten)]
    report: &'d AdviseReport,
}

/// Compression features of the servers that wrote the logs, and the readings of a running server.
#[derive(Serialize)]
struct AdviceServer<'d> {
    #[serde(flatten)]
    writer: &'d ServerReport,
    #[serde(flatten)]
    readings: Option<&'d ServerReadings>,
}

fn measure(
    command: &AdviseArgs,
    inputs: &LogArgs,
    names: LogNaming,
    global: &GlobalArgs,
) -> Result<AdviseReport, CommandFailure> {
    let found = inputs.find_logs()?;
    found.check_indexes()?;
    let sources = sources(&found, names)?;
    let mut levels = Vec::new();
    for level in &command.levels {
        if !levels.contains(level) {
            levels.push(*level);
        }
    }
    let cores = thread::available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let extent = match command.all {
        true => MeasureExtent::All,
        false => {
            let usual = command.sample.is_none().then_some(TIME_DEFAULT_S);
            let time = command.time.or(usual).map(Duration::from_secs);
            MeasureExtent::Sample { time, bytes: command.sample }
        }
    };
    let requested = command.jobs.unwrap_or(cores);
    let plan = plan(&levels, requested, &sources, command.memory)?;
    let MeasurementPlan { workers, sizes, .. } = plan;
    let settings = AdviseSettings { levels, extent, seed: command.seed, workers, sizes };
    let mut progress = ByteProgress::new(global, found.bytes_total);
    let mut watch = |bytes_done| {
        progress.update(bytes_done);
        interrupt::stop_flow()
    };
    let report = advise::advise(&sources, &settings, &mut watch);
    report.map_err(|error| CommandFailure::Failed(add_advice(error)))
}

/// Plans threads and memory. Reports a lack of memory before the work begins.
fn plan(
    levels: &[ZstdLevel],
    requested: NonZeroUsize,
    sources: &[LogSource<'_>],
    memory: Option<u64>,
) -> Result<MeasurementPlan, CommandFailure> {
    let size_max = sources.iter().map(|source| source.bytes).max().unwrap_or_default();
    let most = memory.unwrap_or(MEMORY_DEFAULT);
    let plan = MeasurementPlan::new(levels, requested, most, size_max);
    let threads = counted(plan.workers.get() as u64, "thread");
    let need = format!("{threads} can need {} of memory", bytes(plan.memory_needed));
    if plan.memory_needed > most && memory.is_some() {
        return Err(CommandFailure::NotStarted(anyhow!(
            "{need}, and --memory allows {}: increase --memory, or lower --levels",
            bytes(most)
        )));
    }
    if plan.workers < requested {
        warn!(
            "using {} of {requested} threads, which can need {} of memory; to use more threads, increase --memory",
            plan.workers,
            bytes(plan.memory_needed)
        );
    } else if plan.memory_needed > most {
        warn!("{need}, more than the default of --memory, {}; to need less, lower --levels", bytes(most));
    }
    Ok(plan)
}

/// Returns the logs to measure. Sampling reads the logs more than once, so all logs must be files.
fn sources(found: &InputLogs, names: LogNaming) -> Result<Vec<LogSource<'_>>, CommandFailure> {
    found.locations.iter().map(|location| source(found, location, names)).collect()
}

fn source<'f>(
    found: &'f InputLogs,
    location: &'f InputLocation,
    names: LogNaming,
) -> Result<LogSource<'f>, CommandFailure> {
    let InputLocation::File(path) = location else {
        let refusal =
            anyhow!("sampling reads logs twice, but standard input can be read only once: give a file");
        return Err(CommandFailure::NotStarted(refusal));
    };
    let data = std::fs::metadata(path).ok().filter(std::fs::Metadata::is_file);
    let archived = || archived_contents(path).map(|contents| contents.size);
    let Some(bytes) = data.map(|data| data.len()).or_else(archived) else {
        return Err(CommandFailure::NotStarted(anyhow!(
            "{} is not a regular file: advise reads logs twice, but a pipe or a device can be read only once; give a \
             file",
            path.display()
        )));
    };
    let name = match (names, path.file_name()) {
        (LogNaming::OfFiles, Some(name)) => name.display().to_string(),
        _ => location.to_string(),
    };
    Ok(LogSource { name, bytes, open: Box::new(move || found.open(location)) })
}
