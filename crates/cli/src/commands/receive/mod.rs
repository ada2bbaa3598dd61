//! `bintide receive`: receives a server's logs as they are written, byte for byte.

mod archiving_state;
mod failure;
mod notice_text;
mod receive_beside;
mod receive_display;
mod receive_metrics;
mod receiving_state;
pub(crate) mod retention;
mod stats_text;

#[cfg(feature = "archive")]
use std::path::Path;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::anyhow;
use binlog::ZstdLevel;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use logs::{LogEncryption, RetentionLimit};
#[cfg(feature = "archive")]
use receive::ReceiveFailure;
use receive::{
    DiskFullPolicy, GtidState, LogReceiver, ReceiveControl, ReceiveOptions, SourceFailurePolicy, StartPoint,
};
use servers::{CancelToken, LinkOptions, ServerAddress};
use wire::{PacketCompression, ReplicaEnd, SemiSync};

#[cfg(feature = "archive")]
use crate::commands::archive::{ArchiverShutdown, ReceivedLogArchiver, RunningArchiver};
#[cfg(feature = "archive")]
pub(crate) use crate::commands::receive::archiving_state::ArchivingFigures;
pub(crate) use crate::commands::receive::archiving_state::ArchivingState;
pub(crate) use crate::commands::receive::receive_beside::receive_beside;
pub(crate) use crate::commands::receive::receive_display::ReceiveDisplay;
pub(crate) use crate::commands::receive::receiving_state::ReceivingState;
pub(crate) use crate::commands::receive::retention::parse_retention;
use crate::connection_args::ConnectionArgs;
use crate::exit::{CommandFailure, CommandResult};
use crate::global_args::GlobalArgs;
use crate::http_site::HttpSite;
use crate::interrupt;
use crate::metrics::MetricsArgs;
use crate::metrics_registry::MetricsRegistry;
use crate::output_directory::refuse_url;
use crate::output_format::OutputFormat;
use crate::value_parsers::parse_level;

pub(crate) const EXAMPLES: &str = "\
Examples:
  An up-to-date copy of a server's logs, until Ctrl-C:
      bintide receive /backup/db1 --from 'mysql://repl@db1/?ssl-mode=REQUIRED' \\
          --password-file ~/.pw
  The logs of the last week, with metrics for Prometheus:
      bintide receive /backup/db1 --from mysql://repl@db1/ --keep 7d \\
          --metrics 127.0.0.1:9104
  From a server, or from a replica that replaces it:
      bintide receive /backup/db --from mysql://repl@db1/ \\
          --from mysql://repl@db2/
  Encrypted on disk:
      bintide receive /backup/db1 --from mysql://repl@db1/ \\
          --encrypt --keyring ~/keyring
  Archive each closed log in S3, and keep a week of logs here:
      bintide receive /backup/db1 --from mysql://repl@db1/ --keep 7d \\
          --archive s3://backups/db1
  The same, and encrypt what is stored in S3:
      bintide receive /backup/db1 --from mysql://repl@db1/ --keep 7d \\
          --archive s3://backups/db1 --encrypt-archive --keyring ~/keyring
  Up to the end of the logs, without waiting for more:
      bintide receive /backup/db1 --from mysql://repl@db1/ --stop-at-end

The same command resumes where the last run stopped. The account needs
REPLICATION SLAVE; with --change-tables, also SELECT on the tables if the logs
have no column names. With REPLICATION CLIENT, the error about an unknown
--start-log lists the logs of the source.";

/// Arguments of `receive`.
#[derive(Args, Debug)]
pub(crate) struct ReceiveArgs {
    /// Directory for the logs, with an index file like a server's. It is created if it does not exist; if it has
    /// logs, receive resumes after the last event.
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    #[command(flatten)]
    source: SourceArgs,
    /// Stop at the end of the last log instead of waiting for more events.
    #[arg(long)]
    stop_at_end: bool,
    #[cfg(feature = "archive")]
    #[command(flatten)]
    archiving: ReceivedArchiveArgs,
    #[command(flatten)]
    metrics: MetricsArgs,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Help for `--change-tables`, which needs `--archive` here.
#[cfg(all(feature = "archive", feature = "columns"))]
const CHANGE_TABLES_HELP: &str = "With --archive: also write the row changes of each log into the archive, as change \
    tables (Parquet files in tables/database=DB/table=TABLE/day=DAY/), which DuckDB, pyarrow and Spark can read there. If \
    neither the log nor the server has the column names, columns are named @1, @2 and so on";

/// Options of the archive of received logs.
#[cfg(feature = "archive")]
#[derive(Args, Debug)]
#[cfg_attr(feature = "columns", command(mut_arg("change_tables", |arg| arg.help(CHANGE_TABLES_HELP))))]
pub(crate) struct ReceivedArchiveArgs {
    /// Archive each log once the source has closed it: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX,
    /// or a directory. Use a separate prefix for each source. --keep deletes only archived logs. Not with --compress.
    #[arg(long, value_name = "ARCHIVE")]
    archive: Option<String>,
    /// With --archive: encrypt what is stored in the archive, with the newest key of --keyring: segments, manifests and
    /// change tables. Encrypted logs are decrypted first, because encrypted bytes cannot be compressed.
    #[arg(long)]
    encrypt_archive: bool,
    #[cfg(feature = "columns")]
    #[command(flatten)]
    tables: crate::commands::archive::ChangeTableArgs,
}

/// Options of receiving that other commands share.
#[derive(Args, Debug)]
pub(crate) struct SourceArgs {
    /// Source server, as mysql://USER@HOST:PORT/ or mysql://USER@localhost/?socket=FILE. The connection options below
    /// complete or replace this address. Repeatable: when the source is lost, the next server that has all transactions in DIR
    /// replaces it (MySQL with GTIDs only).
    #[arg(long, value_name = "SOURCE")]
    pub(crate) from: Vec<String>,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
    /// Start at this log of the source, such as binlog.000042 (empty directory only) [default: the oldest]
    #[arg(long, value_name = "LOG", value_parser = NonEmptyStringValueParser::new())]
    start_log: Option<String>,
    /// Start at the first log that contains a transaction not in GTIDS (empty directory only). GTIDS is for example the
    /// GTID set of a backup: 5ea5ca5e-0001-4000-8000-000000000001:1-4711, or 0-1-270 for MariaDB.
    #[arg(long, value_name = "GTIDS", conflicts_with = "start_log")]
    start_after_gtid: Option<GtidState>,
    /// Retain at most this age (time since the log was last written: 12h, 7d) or size (500M, 100G); older logs are
    /// deleted. The log being written is always retained.
    #[arg(long, value_name = "TIME|SIZE", value_parser = parse_retention)]
    keep: Option<RetentionLimit>,
    /// Acknowledge transactions to the source once they are on disk (semi-synchronous replication).
    #[arg(long)]
    semi_sync: bool,
    /// Compress the transactions of each log when it is closed, at this zstd level, 1 to 22 (as
    /// binlog_transaction_compression_level_zstd). This changes positions, so the source must have gtid_mode=ON. The
    /// file positions.LOG beside each log maps old positions to new ones.
    #[arg(long, value_name = "LEVEL", value_parser = parse_level)]
    compress: Option<ZstdLevel>,
    /// Encrypt new logs, as a server with binlog_encryption=ON does: each log has its own password, encrypted with
    /// the newest key of --keyring.
    #[arg(long)]
    encrypt: bool,
    /// Keyring file of encrypted logs, of component_keyring_file or the older keyring_file plugin.
    #[arg(long, value_name = "FILE")]
    pub(crate) keyring: Option<PathBuf>,
    /// Compress the connection with only this algorithm; --compression-algorithms allows several.
    #[arg(long, value_enum, value_name = "ALGORITHM")]
    compression: Option<NetworkCompression>,
}

/// Compression algorithm of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum NetworkCompression {
    /// No compression
    None,
    /// zlib
    Zlib,
    /// zstd
    Zstd,
}

/// Receives until it is stopped.
pub(crate) fn run(command: &ReceiveArgs, global: &GlobalArgs) -> CommandResult {
    command.metrics.check()?;
    refuse_url(&command.directory).map_err(CommandFailure::NotStarted)?;
    if !command.stop_at_end {
        interrupt::set_runs_until_stopped();
    }
    let addresses = command.source.addresses(global)?;
    let options = command.source.link_options(interrupt::cancel_on_interrupt());
    let end = if command.stop_at_end { ReplicaEnd::LastEvent } else { ReplicaEnd::Never };
    let settings = command.source.receive_options(command.directory.clone(), end)?;
    let archiving = ArchivingState::default();
    #[cfg(feature = "archive")]
    let archiver =
        command.archiving.open(&command.source, &command.directory, &settings.control, archiving.clone())?;
    #[cfg(all(feature = "archive", feature = "columns"))]
    let archiver = command.archiving.with_tables(archiver, &addresses)?;
    let display = Arc::new(ReceiveDisplay::new(global));
    let (receiver, store) = LogReceiver::open(settings, addresses, options, display.clone())?;
    if display.shows_gtids() {
        receiver.read_stored_gtids();
    }
    let state = ReceivingState { archiving, ..ReceivingState::new(receiver.stats(), Arc::clone(&display)) };
    let registry = state.add_metrics(MetricsRegistry::new());
    let _served = command.metrics.serve(HttpSite::new(registry, Arc::new(state.clone())))?;
    #[cfg(feature = "archive")]
    let archiver = archiver.map(ReceivedLogArchiver::start).transpose()?;
    let received = receiver.run(store);
    #[cfg(feature = "archive")]
    let received = command.finish_archive(archiver, received);
    received?;
    display.print(&state.figures(), &command.directory, OutputFormat::of(command.json))
}

#[cfg(feature = "archive")]
impl ReceiveArgs {
    /// Ends the archiver after the receiver. With `--stop-at-end`, it first archives all closed logs.
    fn finish_archive(
        &self,
        archiver: Option<RunningArchiver>,
        received: Result<(), ReceiveFailure>,
    ) -> Result<(), CommandFailure> {
        let end = match received.is_ok() && self.stop_at_end {
            true => ArchiverShutdown::Drain,
            false => ArchiverShutdown::Abandon,
        };
        let archived = archiver.map_or(Ok(()), |archiver| archiver.finish(end));
        received?;
        archived
    }
}

#[cfg(feature = "archive")]
impl ReceivedArchiveArgs {
    /// Opens the archive of `--archive` for the logs received into a directory. Change tables are requested separately,
    /// with `with_tables`.
    pub(crate) fn open(
        &self,
        source: &SourceArgs,
        directory: &Path,
        control: &ReceiveControl,
        state: ArchivingState,
    ) -> Result<Option<ReceivedLogArchiver>, CommandFailure> {
        let Some(location) = &self.archive else {
            #[cfg(feature = "columns")]
            if self.tables.change_tables {
                return Err(CommandFailure::NotStarted(anyhow!("--change-tables needs --archive")));
            }
            if self.encrypt_archive {
                return Err(CommandFailure::NotStarted(anyhow!("--encrypt-archive needs --archive")));
            }
            return Ok(None);
        };
        if source.compress.is_some() {
            return Err(CommandFailure::NotStarted(anyhow!(
                "--archive and --compress exclude each other: --compress would change logs that are archived. Omit \
                 --compress: logs become smaller in the archive"
            )));
        }
        let archiver = ReceivedLogArchiver::open(location, directory, control, state)?;
        match (self.encrypt_archive, &source.keyring) {
            (true, Some(keyring)) => Ok(Some(archiver.with_encryption(keyring.clone()))),
            (true, None) => Err(encryption_needs_keyring("--encrypt-archive")),
            (false, _) => Ok(Some(archiver)),
        }
    }

    /// Makes the archiver write change tables, if they are requested.
    #[cfg(feature = "columns")]
    pub(crate) fn with_tables(
        &self,
        archiver: Option<ReceivedLogArchiver>,
        sources: &[ServerAddress],
    ) -> Result<Option<ReceivedLogArchiver>, CommandFailure> {
        archiver.map(|archiver| archiver.with_tables(self.tables, sources)).transpose()
    }
}

/// Returns the failure for encryption without a key. `option` requests the encryption.
pub(crate) fn encryption_needs_keyring(option: &str) -> CommandFailure {
    CommandFailure::NotStarted(anyhow!("{option} needs --keyring FILE, the file with the encryption key"))
}

/// Returns the sources of `--from`; without this option, the one source in the connection options.
pub(crate) fn sources(from: &[String]) -> impl Iterator<Item = Option<&str>> {
    let named_by_options = from.is_empty().then_some(None);
    from.iter().map(|from| Some(from.as_str())).chain(named_by_options)
}

impl SourceArgs {
    /// Returns the sources.
    pub(crate) fn addresses(&self, global: &GlobalArgs) -> Result<Vec<ServerAddress>, CommandFailure> {
        sources(&self.from).map(|from| self.connection.address(from, "--from", global)).collect()
    }

    /// Returns the options of connections to the sources.
    pub(crate) fn link_options(&self, cancel: CancelToken) -> LinkOptions {
        let compressions = self.compression.map(Into::into).into_iter().collect();
        LinkOptions { compressions, cancel, ..LinkOptions::default() }
    }

    /// Returns the options of receiving into a directory.
    pub(crate) fn receive_options(
        &self,
        directory: PathBuf,
        end: ReplicaEnd,
    ) -> Result<ReceiveOptions, CommandFailure> {
        Ok(ReceiveOptions {
            directory,
            begin: self.start_point(),
            end,
            at_rest: self.log_encryption()?,
            keep: self.keep,
            compress: self.compress,
            semi_sync: if self.semi_sync { SemiSync::On } else { SemiSync::Off },
            when_full: DiskFullPolicy::Wait,
            on_source_failure: SourceFailurePolicy::Fail,
            control: ReceiveControl::default(),
        })
    }

    fn log_encryption(&self) -> Result<LogEncryption, CommandFailure> {
        match (self.encrypt, self.keyring.clone()) {
            (true, Some(keyring)) => Ok(LogEncryption::Encrypted { keyring }),
            (false, keyring) => Ok(LogEncryption::Plain { keyring }),
            (true, None) => Err(encryption_needs_keyring("--encrypt")),
        }
    }

    fn start_point(&self) -> StartPoint {
        match (&self.start_log, &self.start_after_gtid) {
            (Some(log), _) => StartPoint::Log(log.clone()),
            (None, Some(gtids)) => StartPoint::After(gtids.clone()),
            (None, None) => StartPoint::Oldest,
        }
    }
}

impl From<NetworkCompression> for Option<PacketCompression> {
    fn from(network: NetworkCompression) -> Self {
        match network {
            NetworkCompression::None => None,
            NetworkCompression::Zlib => Some(PacketCompression::Zlib { level: 6 }),
            NetworkCompression::Zstd => Some(PacketCompression::Zstd { level: 3 }),
        }
    }
}
