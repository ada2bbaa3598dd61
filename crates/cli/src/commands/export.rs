//! `bintide export`: writes row changes as Parquet files.

#[cfg(feature = "archive")]
mod object_export;

use std::collections::HashSet;
use std::io;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use anyhow::{Context, anyhow};
use binlog::ZstdLevel;
use clap::{Args, ValueEnum};
use columns::{
    ChangeDecoder, ChangeExport, ColumnsError, DecodeSettings, ExportCounts, ExportLimits, ExportLog,
    export_logs,
};
use serde_json::json;
use servers::SqlConnection;
use stream::{DdlSchema, StatementPolicy, UnnamedColumnPolicy};
use tracing::{info, warn};

use crate::column_name_source::{ColumnNameSource, warn_changed};
use crate::connection_args::ConnectionArgs;
use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::json_document::write_document;
use crate::log_args::{InputLocation, InputLogs, LogArgs, add_advice};
use crate::output_directory::{refuse_archive, refuse_file, refuse_url};
use crate::progress::ByteProgress;
use crate::transaction_args::TransactionArgs;
use crate::units::{bytes, counted, duration};
use crate::value_parsers::{parse_at_least_one, parse_level, parse_memory, parse_positive_size};

pub(crate) const EXAMPLES: &str = "\
Examples:
  All row changes of a server's logs:
      bintide export --to changes /var/lib/mysql
  Query them with DuckDB:
      duckdb -c \"select operation, count(*) from read_parquet(
          'changes/database=shop/table=orders/**/*.parquet') group by 1\"
  Changes of one table since 14:00:
      bintide export --to changes --table shop.orders \\
          --start-datetime '2026-11-27 14:00:00' binlog.000012
  Logs without column names (binlog_row_metadata=MINIMAL): take them from a
  server, or from the table definitions in the logs:
      bintide export --to changes --schema mysql://reader@db1/ binlog.000012
      bintide export --to changes --schema ddl /var/lib/mysql
  To an object store, with credentials from the environment or from ~/.aws:
      bintide export --to s3://changes/db1 /var/lib/mysql

Exporting a log again replaces its earlier files. Use a directory or prefix for
the logs of one server only.";

/// Arguments of `bintide export`.
#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    inputs: LogArgs,
    /// Directory for the files, which is created if it does not exist, or an object store: s3://BUCKET/PREFIX,
    /// gs://BUCKET/PREFIX or az://CONTAINER/PREFIX.
    #[arg(long, value_name = "DIR|URL")]
    to: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    /// Skip changes that are logged as statements, instead of failing. The log does not contain the rows of these
    /// changes.
    #[arg(long)]
    skip_statements: bool,
    #[command(flatten)]
    transactions: TransactionArgs,
    #[command(flatten)]
    files: ExportFileArgs,
    #[command(flatten)]
    names: ExportNameArgs,
}

/// Options of the files.
#[derive(Args, Debug)]
#[command(next_help_heading = "Files")]
struct ExportFileArgs {
    /// Start another file for a table and day when a file reaches this size.
    #[arg(long, value_name = "SIZE", default_value = "500M", value_parser = parse_positive_size)]
    file_size: u64,
    /// Size of a row group, the part of a file that is in memory while it is written.
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = parse_positive_size)]
    row_group_size: u64,
    /// Maximum memory of all row groups that are being written. If they need more, the largest ones are written early.
    #[arg(long, value_name = "SIZE", default_value = "200M", value_parser = parse_memory)]
    memory: u64,
    /// Maximum number of files that are written at the same time.
    #[arg(long, value_name = "COUNT", default_value = "64", value_parser = parse_at_least_one)]
    open_files: NonZeroUsize,
    /// zstd compression level, 1 to 22.
    #[arg(long, value_name = "LEVEL", default_value = "3", value_parser = parse_level)]
    level: ZstdLevel,
}

/// Open destination of an export.
enum ExportDestination {
    Directory(ChangeExport),
    #[cfg(feature = "archive")]
    Objects(object_export::ObjectExport),
}

/// Options of column names.
#[derive(Args, Debug)]
#[command(next_help_heading = "Column names")]
struct ExportNameArgs {
    /// Column names in the files
    #[arg(long, value_enum, value_name = "NAMES", default_value_t = ExportNaming::Named)]
    columns: ExportNaming,
    /// Source of column names that the log does not have: a server, as mysql://USER@HOST:PORT/ (the account needs
    /// SELECT on the tables); or ddl: the table definitions in the logs. The connection options below complete or
    /// replace the address of the server.
    #[arg(long, value_name = "SERVER|ddl")]
    schema: Option<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Value of `--columns`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ExportNaming {
    /// Names; an error if a name is not known
    Named,
    /// Names, or @1, @2 and so on if they are not known
    Numbered,
}

/// Exports the logs.
pub(crate) fn run(command: &ExportArgs, global: &GlobalArgs) -> CommandResult {
    let started = Instant::now();
    command.check_destination()?;
    let mut found = command.inputs.find_logs()?;
    found.check_indexes()?;
    check_names(&found)?;
    for gap in found.gaps() {
        warn!("{gap}: their row changes are not exported");
    }
    let source = command.names.source(global)?;
    if matches!(source, ColumnNameSource::Unknown) {
        // Other sources depend on the DDL statements in all logs.
        found.leave_out_archived(&command.transactions.selection()?);
    }
    let mut decoder = command.decoder(source)?;
    let destination = command.open_destination()?;
    let mut progress = ByteProgress::new(global, found.bytes_total);
    let mut watch = |bytes_done| {
        progress.update(bytes_done);
        interrupt::stop_flow()
    };
    let exported = match destination {
        ExportDestination::Directory(export) => {
            finished(export_logs(logs(&found), &mut decoder, export, &mut watch))
        }
        #[cfg(feature = "archive")]
        ExportDestination::Objects(export) => export.run(logs(&found), &mut decoder, &mut watch),
    };
    drop(progress);
    warn_changed(&decoder.take_mismatches());
    let Some(counts) = exported? else { return Ok(CommandVerdict::Success) };
    if counts.rows == 0 && !command.transactions.selection()?.selects_all() {
        warn!("nothing in the logs matches the selection");
    }
    match command.json {
        true => write_document(&mut io::stdout().lock(), &document(counts))?,
        false => info!("{}", summary(counts, started)),
    }
    Ok(CommandVerdict::Success)
}

/// Refuses two logs of the same name: the second one would replace the files of the first one.
fn check_names(found: &InputLogs) -> Result<(), CommandFailure> {
    let mut names = HashSet::new();
    match found.locations.iter().map(log_name).find(|name| !names.insert(name.clone())) {
        Some(name) => Err(CommandFailure::NotStarted(anyhow!(
            "two logs are named {name}: export the logs of each server to a directory of its own"
        ))),
        None => Ok(()),
    }
}

fn log_name(location: &InputLocation) -> String {
    match location {
        InputLocation::File(path) => logs::base_name(path),
        InputLocation::Stdin => "stdin".to_owned(),
    }
}

fn logs(found: &InputLogs) -> impl Iterator<Item = Result<ExportLog, logs::LogError>> {
    found
        .locations
        .iter()
        .map(|location| Ok(ExportLog { name: log_name(location), reader: found.open(location)? }))
}

fn document(counts: ExportCounts) -> serde_json::Value {
    let ExportCounts { logs, files, rows, bytes } = counts;
    json!({ "logs": logs, "files": files, "row_changes": rows, "bytes": bytes })
}

fn summary(counts: ExportCounts, started: Instant) -> String {
    format!(
        "exported {} of {} to {} of {} in {}",
        counted(counts.rows, "row change"),
        counted(counts.logs, "log"),
        counted(counts.files, "file"),
        bytes(counts.bytes),
        duration(started.elapsed())
    )
}

/// Returns the numbers of an export; `None` if it was stopped.
fn finished(exported: Result<ExportCounts, ColumnsError>) -> Result<Option<ExportCounts>, CommandFailure> {
    match exported {
        Ok(counts) => Ok(Some(counts)),
        Err(ColumnsError::Stopped) if interrupt::is_stop_requested() => Ok(None),
        Err(ColumnsError::Log(error)) => Err(CommandFailure::Failed(add_advice(error))),
        Err(error) => Err(CommandFailure::Failed(error.into())),
    }
}

impl ExportArgs {
    /// Returns the destination if it is the URL of an object store.
    fn object_url(&self) -> Option<&str> {
        const SCHEMES: [&str; 3] = ["s3", "gs", "az"];
        let text = self.to.to_str()?;
        let (scheme, _) = text.split_once("://")?;
        SCHEMES.contains(&scheme).then_some(text)
    }

    /// Refuses a destination that cannot be used, before the logs are read.
    fn check_destination(&self) -> Result<(), CommandFailure> {
        let refused = match self.object_url() {
            Some(_) if cfg!(feature = "archive") => Ok(()),
            Some(url) => {
                Err(anyhow!("{url} is an object store: this needs a build with the feature archive"))
            }
            None => refuse_url(&self.to)
                .map_err(|error| anyhow!("{error}, s3://…, gs://… or az://…"))
                .and_then(|()| refuse_archive(&self.to)),
        };
        refused.context("--to").map_err(CommandFailure::NotStarted)
    }

    /// Opens the destination, and records the selected changes there.
    fn open_destination(&self) -> Result<ExportDestination, CommandFailure> {
        let (limits, selection) = (self.files.limits(), self.transactions.description());
        #[cfg(feature = "archive")]
        if let Some(url) = self.object_url() {
            let export = object_export::ObjectExport::open(url, limits, &selection)?;
            return Ok(ExportDestination::Objects(export));
        }
        let open = || {
            refuse_file(&self.to)?;
            let export = ChangeExport::open(&self.to, limits)?;
            export.record_selection(&selection)?;
            Ok(export)
        };
        let export: anyhow::Result<ChangeExport> = open();
        export.context("--to").map_err(CommandFailure::NotStarted).map(ExportDestination::Directory)
    }

    fn decoder(&self, source: ColumnNameSource) -> Result<ChangeDecoder, CommandFailure> {
        let settings = DecodeSettings {
            selection: self.transactions.selection()?,
            unnamed_columns: match self.names.columns {
                ExportNaming::Named => UnnamedColumnPolicy::Refuse,
                ExportNaming::Numbered => UnnamedColumnPolicy::Number,
            },
            statements: if self.skip_statements { StatementPolicy::Skip } else { StatementPolicy::Refuse },
        };
        let decoder = ChangeDecoder::new(settings);
        Ok(match source.catalogue() {
            Some(catalogue) => decoder.with_column_catalogue(catalogue),
            None => decoder,
        })
    }
}

impl ExportNameArgs {
    fn source(&self, global: &GlobalArgs) -> Result<ColumnNameSource, CommandFailure> {
        let names_server = self.connection.names_server();
        match self.schema.as_deref() {
            Some("ddl") if names_server => Err(CommandFailure::NotStarted(anyhow!(
                "--schema=ddl needs no server: omit the connection options"
            ))),
            Some("ddl") => Ok(ColumnNameSource::Log(DdlSchema::default())),
            None if !names_server => Ok(ColumnNameSource::Unknown),
            server => {
                let address = self.connection.address(server, "--schema", global)?;
                let opened = SqlConnection::open(&address).context("--schema");
                opened.map_err(CommandFailure::NotStarted)?;
                Ok(ColumnNameSource::Server(Box::new(address)))
            }
        }
    }
}

impl ExportFileArgs {
    fn limits(&self) -> ExportLimits {
        let size = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        ExportLimits {
            row_group_bytes: size(self.row_group_size),
            file_bytes: size(self.file_size),
            memory_bytes: size(self.memory),
            open_files: self.open_files.get(),
            zstd_level: self.level,
        }
    }
}
