//! `bintide stream`: writes row changes as JSON records.

mod adopt;
mod debezium_args;
mod heartbeat_timer;
mod kafka_args;
#[cfg(feature = "kafka")]
mod kafka_notices;
mod live;
mod log_stream;
mod snapshot;
mod stdout_reader;
mod stream_metrics;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand, ValueEnum};
use logs::open_regular;
use servers::{ServerAddress, SqlConnection};
use stream::{
    DdlSchema, DirectorySink, Envelope, QueryText, RecordSink, ResumeToken, SavedProgress, SnapshotProgress,
    StatementPolicy, StreamSettings, UnnamedColumnPolicy, lock_progress,
};
use wire::ReplicaEnd;

use crate::column_name_source::ColumnNameSource;
use crate::commands::stream::debezium_args::DebeziumArgs;
use crate::commands::stream::heartbeat_timer::HeartbeatTimer;
use crate::commands::stream::kafka_args::{KafkaArgs, KafkaStream};
use crate::commands::stream::live::{LiveStream, ResumePoint, ResumedOutput};
use crate::commands::stream::log_stream::LogStreamInputs;
use crate::commands::stream::snapshot::incremental::{IncrementalSettings, IncrementalSnapshots};
use crate::commands::stream::snapshot::request::StreamSnapshotArgs;
use crate::commands::stream::snapshot::request_directory::RequestDirectory;
use crate::commands::stream::stdout_reader::ProgressFile;
use crate::commands::stream::stream_metrics::SharedStreamFigures;
use crate::commands::table_args::TableArgs;
use crate::connection_args::{ConnectionArgs, CredentialSharing, SchemaServer};
use crate::exit::{CommandFailure, CommandResult};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::log_args::LogArgs;
use crate::metrics::MetricsArgs;
use crate::output_directory::refuse_file;
use crate::temporary_files::TemporaryFiles;
use crate::value_parsers;

pub(crate) const EXAMPLES: &str = "\
Examples:
  Row changes of a log in Debezium's format, one record per line:
      bintide stream --format debezium binlog.000012
  In Maxwell's format, one database, all logs of a server:
      bintide stream --format maxwell --wild-do-table 'shop.%' /var/lib/mysql
  From a compressed backup to a program:
      zstd -dc binlog.000012.zst | bintide stream --format maxwell - | jq .data
  To a program; after a crash of either, resume where it stopped (the last
  records may be repeated):
      bintide stream --format debezium --progress state /var/lib/mysql |
          consumer
  To files, each transaction exactly once, even after crashes:
      bintide stream --format debezium --out changes /var/lib/mysql
  Follow a running server:
      bintide stream --format debezium --from mysql://repl@db1/ --progress state
  First the current rows of all tables, then the changes:
      bintide stream --format debezium --from mysql://repl@db1/ --out changes \\
          --snapshot
  Read the rows of a table while a stream with the same --signals runs:
      bintide stream snapshot --table shop.orders --signals /var/lib/bintide
  To Apache Kafka, each transaction exactly once:
      bintide stream --format debezium --from mysql://repl@db1/ \\
          --to kafka://b1:9092,b2:9092/
  Continue in Kafka where a Debezium connector stopped:
      bintide stream adopt --debezium-offsets data/offsets.dat \\
          --to kafka://b1:9092,b2:9092/
  Resume after a transaction:
      bintide stream --format debezium --resume binlog.000012:7301 \\
          /var/lib/mysql

With binlog_row_metadata=FULL, the log contains column names. Otherwise stream
queries the server of --schema, or of --from; --schema ddl takes the names from
table definitions in the logs; --columns numbered needs no names.";

/// Arguments of `bintide stream`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct StreamArgs {
    #[command(subcommand)]
    action: Option<StreamAction>,
    #[command(flatten)]
    inputs: LogArgs,
    /// Record format.
    #[arg(long, value_enum, value_name = "FORMAT", required = true)]
    format: Option<RecordForm>,
    /// Column names in records
    #[arg(long, value_enum, value_name = "MODE", default_value_t = ColumnNaming::Named)]
    columns: ColumnNaming,
    /// Source of column names that the log does not have: a server, as mysql://USER@HOST:PORT/ (the account needs
    /// SELECT on the tables); or ddl: the table definitions in the logs. The connection options of this server have the
    /// prefix --schema-, such as --schema-ssl-ca. [default: the server of --from]
    #[arg(long, value_name = "SERVER|ddl")]
    schema: Option<String>,
    /// Skip changes that are logged as statements, instead of failing. The log does not contain the rows of these
    /// changes.
    #[arg(long)]
    skip_statements: bool,
    /// Add the original statement to each record, if the source logs it (binlog_rows_query_log_events). Statements
    /// contain values of all columns, so it cannot be combined with options that leave out or mask columns.
    #[arg(long)]
    queries: bool,
    /// Name of the source in Debezium's records: its topic prefix.
    #[arg(long, value_name = "NAME", default_value = "bintide")]
    name: String,
    // The heading of a group also applies to all arguments after it.
    #[command(flatten)]
    temporary: TemporaryFiles,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[command(flatten)]
    debezium: DebeziumArgs,
    #[command(flatten)]
    server: StreamSourceArgs,
    #[command(flatten)]
    goes_on: OutputArgs,
    #[command(flatten)]
    kafka: KafkaArgs,
    #[command(flatten)]
    tables: TableArgs,
}

/// Commands of `stream`.
#[derive(Debug, Subcommand)]
enum StreamAction {
    /// Continue where a Debezium connector stopped.
    ///
    /// Saves the connector's offset as the progress of a new stream to Kafka. The stream then continues in the
    /// connector's topics, without a gap. Stop the connector first. If it had written records after its saved offset, the
    /// stream does not write them again.
    Adopt(adopt::StreamAdoptArgs),
    /// Read tables while a stream runs.
    ///
    /// Requests the rows of tables from the running stream with the same --signals, for example of tables that were
    /// added later, or to read tables again. The stream continues without locks, and writes the rows in parts, between
    /// the changes. The source must be MySQL with gtid_mode=ON, and each table must have a primary key.
    Snapshot(StreamSnapshotArgs),
}

/// Options that name a running server.
#[derive(Args, Debug)]
#[command(next_help_heading = "Running server, instead of logs")]
struct StreamSourceArgs {
    /// Follow this server's log as it is written, from its oldest log on: mysql://USER@HOST:PORT/, or
    /// mysql://USER@localhost/?socket=FILE. The connection options below complete or replace this address. The account
    /// needs REPLICATION SLAVE.
    #[arg(long, value_name = "SOURCE", conflicts_with_all = ["logs", "keyring"])]
    from: Option<String>,
    /// server_id of this client. It must be different from the server_id of the source and of all its replicas
    /// [default: a large random number]
    #[arg(long, value_name = "NUMBER", value_parser = value_parsers::number_within::<u32>(1..=u32::MAX))]
    #[arg(conflicts_with = "logs")]
    server_id: Option<u32>,
    /// First write the current rows of all selected tables, then all later changes. Has an effect only if no progress
    /// is saved.
    #[arg(long, conflicts_with_all = ["logs", "resume"])]
    snapshot: bool,
    /// Directory for requests of `bintide stream snapshot` to this stream. It is created if it does not exist.
    #[arg(long, value_name = "DIR", conflicts_with = "logs")]
    signals: Option<PathBuf>,
    /// Stop at the end of the last log instead of waiting for more events.
    #[arg(long, conflicts_with = "logs")]
    stop_at_end: bool,
    #[command(flatten)]
    connection: ConnectionArgs,
    #[command(flatten)]
    schema: ConnectionArgs<SchemaServer>,
}

/// Options of the output, and of where a run resumes.
#[derive(Args, Debug)]
#[command(next_help_heading = "Output and resuming")]
struct OutputArgs {
    /// Resume after this transaction: the value of the field `resume` in its last record.
    #[arg(long, value_name = "POSITION", conflicts_with_all = ["progress", "out"])]
    resume: Option<ResumeToken>,
    /// Save the progress in this file, and resume from it. With a pipe, the progress includes only records that the
    /// reader has read. After a crash, the last records may be repeated.
    #[arg(long, value_name = "FILE", conflicts_with = "out")]
    progress: Option<PathBuf>,
    /// Write records to files in this directory, each transaction exactly once. Finished files never change.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Finish a file of --out at the end of the transaction that reaches this size.
    #[arg(long, value_name = "SIZE", default_value = "64M", requires = "out", value_parser = parse_file_size)]
    file_size: u64,
}

fn parse_file_size(text: &str) -> Result<u64, String> {
    match value_parsers::parse_size(text)? {
        0 => Err("expected a size of at least one byte, such as 64M".to_owned()),
        bytes => Ok(bytes),
    }
}

/// Value of `--format`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum RecordForm {
    /// Records of Debezium's MySQL connector
    Debezium,
    /// Records of Maxwell, as JSON
    Maxwell,
}

/// Value of `--columns`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ColumnNaming {
    /// Names; an error if a name is not known
    Named,
    /// Names, or @1, @2 and so on if they are not known
    Numbered,
}

/// Writes records of logs, or of a running server.
pub(crate) fn run(command: &StreamArgs, global: &GlobalArgs) -> CommandResult {
    match &command.action {
        Some(StreamAction::Adopt(arguments)) => return adopt::run(arguments),
        Some(StreamAction::Snapshot(arguments)) => return snapshot::request::run(arguments),
        None => {}
    }
    command.temporary.limit();
    command.metrics.check()?;
    let settings = command.settings()?;
    let schema = command.schema(global)?;
    if command.inputs.has_logs() {
        if !matches!(schema, ColumnNameSource::Server(_)) {
            command.server.connection.refuse_beside_logs()?;
        }
        let found = command.inputs.find_logs()?;
        let figures = SharedStreamFigures::default();
        let mut resumed = command.open_output(&settings, &figures)?;
        let schema = load_definitions(schema, &mut resumed.output)?;
        let _served = command.metrics.serve(figures.site())?;
        let inputs = LogStreamInputs { found: &found, settings, schema, figures };
        return log_stream::write_records(inputs, resumed, global);
    }
    if !command.server.stop_at_end {
        interrupt::set_runs_until_stopped();
    }
    let mut live = LiveStream {
        address: command.server.source(global)?,
        server_id: command.server.server_id()?,
        end: if command.server.stop_at_end { ReplicaEnd::LastEvent } else { ReplicaEnd::Never },
        schema,
        snapshot: command.server.snapshot,
        is_piped: command.goes_on.out.is_none() && !command.kafka.is_given(),
        unmatched: settings.filter.unmatched_rules(),
        settings,
        figures: SharedStreamFigures::of_server(),
        is_lost: false,
        heartbeats: command.kafka.heartbeat_interval().map(HeartbeatTimer::new),
        incremental: None,
    };
    if let (Some(_), ColumnNameSource::Server(address)) = (&command.schema, &live.schema) {
        check_reachable(address)?;
    }
    let mut resumed = command.open_output(&live.settings, &live.figures)?;
    live.schema = load_definitions(live.schema, &mut resumed.output)?;
    live.incremental = command.server.incremental_snapshots(&live, &resumed.output)?;
    let _served = command.metrics.serve(live.figures.site())?;
    live::follow(&mut live, resumed)
}

/// Checks that the server of `--schema` accepts a login. The stream queries it only when a table occurs in the log,
/// which may be days later, and then retries a lost connection.
fn check_reachable(address: &ServerAddress) -> Result<(), CommandFailure> {
    let opened = SqlConnection::open(address).context("--schema");
    opened.map(drop).map_err(CommandFailure::NotStarted)
}

/// Loads the saved definitions if `--schema ddl` is given. Otherwise discards them, because they are no longer updated.
fn load_definitions(
    schema: ColumnNameSource,
    output: &mut RecordSink,
) -> Result<ColumnNameSource, CommandFailure> {
    match schema {
        ColumnNameSource::Log(_) => {
            Ok(ColumnNameSource::Log(log_stream::saved_definitions(output)?.unwrap_or_default()))
        }
        schema => {
            output.forget_schema();
            Ok(schema)
        }
    }
}

impl StreamSourceArgs {
    /// Returns the server whose log is followed.
    fn source(&self, global: &GlobalArgs) -> Result<ServerAddress, CommandFailure> {
        self.connection.address(self.from.as_deref(), "--from", global)
    }

    /// Returns the incremental snapshots that are to be finished, or can be requested.
    fn incremental_snapshots(
        &self,
        live: &LiveStream,
        output: &RecordSink,
    ) -> Result<Option<IncrementalSnapshots>, CommandFailure> {
        let directory = self.signals.as_deref().map(RequestDirectory::open).transpose();
        let directory = directory.context("--signals").map_err(CommandFailure::NotStarted)?;
        let (stream, address, figures) = (&live.settings, &live.address, &live.figures);
        let settings = IncrementalSettings { stream, address, directory, figures };
        let snapshots = IncrementalSnapshots::new(settings, output.snapshot().clone());
        snapshots.map_err(|error| CommandFailure::NotStarted(error.into()))
    }

    fn server_id(&self) -> Result<u32, CommandFailure> {
        if let Some(server_id) = self.server_id {
            return Ok(server_id);
        }
        let mut bytes = [0; 4];
        getrandom::fill(&mut bytes).map_err(|error| {
            CommandFailure::NotStarted(anyhow!("could not get a random server_id: {error}"))
        })?;
        // The highest bit avoids the small numbers that people assign to servers.
        Ok(u32::from_le_bytes(bytes) | 1 << 31)
    }
}

impl StreamArgs {
    /// Returns the source of column names that the log does not have.
    fn schema(&self, global: &GlobalArgs) -> Result<ColumnNameSource, CommandFailure> {
        let has_source = !self.inputs.has_logs();
        match self.schema.as_deref() {
            Some("ddl") => Ok(ColumnNameSource::Log(DdlSchema::default())),
            Some(server) => {
                let sharing = if has_source { CredentialSharing::Account } else { CredentialSharing::All };
                let main = &self.server.connection;
                let address = self.server.schema.address_beside(main, sharing, server, global)?;
                Ok(ColumnNameSource::Server(Box::new(address)))
            }
            None if has_source => Ok(ColumnNameSource::Server(Box::new(self.server.source(global)?))),
            None => Ok(ColumnNameSource::Unknown),
        }
    }

    /// Opens the output, and returns the point to resume from.
    fn open_output(
        &self,
        settings: &StreamSettings,
        figures: &SharedStreamFigures,
    ) -> Result<ResumedOutput, CommandFailure> {
        let stream = KafkaStream { name: &settings.name, envelope: settings.envelope, figures };
        match self.kafka.open_output(&stream)? {
            Some(resumed) => Ok(resumed),
            None => self.goes_on.open_output(settings.envelope),
        }
    }

    fn settings(&self) -> Result<StreamSettings, CommandFailure> {
        let envelope = match self.format {
            Some(RecordForm::Maxwell) => Envelope::Maxwell,
            // It is required.
            Some(RecordForm::Debezium) | None => Envelope::Debezium,
        };
        self.debezium.check(envelope)?;
        if self.queries {
            self.debezium.refuse_beside_queries()?;
        }
        Ok(StreamSettings {
            envelope,
            modes: self.debezium.modes(),
            rules: Arc::new(self.debezium.rules()),
            filter: self.tables.filter_without_progress()?,
            unnamed_columns: match self.columns {
                ColumnNaming::Named => UnnamedColumnPolicy::Refuse,
                ColumnNaming::Numbered => UnnamedColumnPolicy::Number,
            },
            statements: if self.skip_statements { StatementPolicy::Skip } else { StatementPolicy::Refuse },
            query_text: if self.queries { QueryText::Include } else { QueryText::Omit },
            schemas: self.kafka.schema_policy(),
            name: self.name.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        })
    }
}

impl OutputArgs {
    /// Opens the output, and returns the point to resume from.
    fn open_output(&self, envelope: Envelope) -> Result<ResumedOutput, CommandFailure> {
        if let Some(directory) = &self.out {
            refuse_file(directory).context("--out").map_err(CommandFailure::NotStarted)?;
            let files = DirectorySink::open(directory, self.file_size, envelope).context("--out");
            let files = files.map_err(CommandFailure::NotStarted)?;
            let resume =
                ResumePoint { token: files.resume_token().cloned(), gtid_state: files.gtid_state().cloned() };
            let snapshot = files.snapshot().cloned().unwrap_or_default();
            let output = RecordSink::for_files(files).resumed_snapshot(snapshot);
            return Ok(ResumedOutput { output, resume });
        }
        let (mut schema_number, mut snapshot) = (None, SnapshotProgress::default());
        let lock = self.progress.as_ref().map(|path| lock_progress(path)).transpose();
        let lock = lock.context("could not lock the progress file").map_err(CommandFailure::NotStarted)?;
        let resume = match &self.progress {
            None => ResumePoint { token: self.resume.clone(), gtid_state: None },
            Some(path) => match open_regular(path).and_then(io::read_to_string) {
                Ok(text) => {
                    let saved = SavedProgress::parse(&text).map_err(|_| foreign_progress_error(path))?;
                    (schema_number, snapshot) = (saved.schema_number, saved.snapshot);
                    ResumePoint { token: Some(saved.token), gtid_state: saved.gtid_state }
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => ResumePoint::default(),
                Err(error) => {
                    let error = anyhow!(error).context(format!("could not read {}", path.display()));
                    return Err(CommandFailure::NotStarted(error));
                }
            },
        };
        let progress = self.progress.clone().zip(lock);
        let pipe = stdout_reader::open_stdout(progress.map(|(path, lock)| ProgressFile {
            path,
            lock,
            definitions: schema_number,
        }));
        let pipe = pipe.context("could not write to standard output").map_err(CommandFailure::NotStarted)?;
        let output = RecordSink::for_pipe(pipe).resumed_snapshot(snapshot);
        Ok(ResumedOutput { output, resume })
    }
}

fn foreign_progress_error(path: &Path) -> CommandFailure {
    CommandFailure::NotStarted(anyhow!(
        "--progress: {} is not a progress file of bintide stream: give another file, or a name that does not exist yet",
        path.display()
    ))
}
