//! `bintide archive LOG… --to ARCHIVE`: archives closed logs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use archive::{Archive, DamagedManifest, Manifest, MissingDirectory};
use clap::Args;
use logs::{Store, find_running_server, is_received_store, parent_of};
use serde_json::json;
#[cfg(feature = "columns")]
use servers::{ServerAddress, SqlConnection};
use tracing::warn;

use super::archive_metrics::ARCHIVE_METRICS;
use super::followed_logs::{FollowedLogArchiver, FollowedLogObserver, FollowedLogState};
use super::log_archiver::{
    ArchiveEncryption, ArchiverObserver, ArchiverSettings, LastLogPolicy, LocalLogPolicy, LogArchiver,
    check_log,
};
use super::{
    archive_directory, damaged_document, document, is_directory_of_logs, open_storage, report_damaged, text,
};
use crate::commands::receive::{ArchivingFigures, ArchivingState, encryption_needs_keyring};
#[cfg(feature = "columns")]
use crate::connection_args::ConnectionArgs;
use crate::exit::{CommandFailure, CommandResult};
use crate::global_args::GlobalArgs;
use crate::http_site::HttpSite;
use crate::interrupt;
use crate::json_document::write_document;
use crate::log_args::{InputLocation, LogArgs};
use crate::metrics::MetricsArgs;
use crate::metrics_registry::MetricsRegistry;
use crate::progress::ByteProgress;
use crate::screen;

/// Arguments of `bintide archive` without another command.
#[derive(Args, Debug)]
pub(super) struct ArchiveAddArgs {
    #[command(flatten)]
    inputs: LogArgs,
    /// Archive to which the logs are added: s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, or a
    /// directory. Use a separate prefix for each server.
    #[arg(long, value_name = "ARCHIVE", required = true)]
    to: Option<String>,
    /// Delete each log from its directory after it was archived and read back from the archive. The newest log of a
    /// directory stays.
    #[arg(long)]
    then_remove: bool,
    /// Encrypt what is stored in the archive, with the newest key of --keyring: segments, manifests and change tables.
    /// After that, logs can be added to this archive only with --encrypt. Names and sizes of objects stay readable;
    /// names of change tables contain the names of databases and tables.
    #[arg(long)]
    encrypt: bool,
    /// Continue until stopped: archive each log of the directory as soon as its server has closed it.
    #[arg(long)]
    follow: bool,
    #[cfg(feature = "columns")]
    #[command(flatten)]
    tables: super::ChangeTableArgs,
    /// Print the manifests of the archived logs as one JSON document.
    #[arg(long, conflicts_with = "follow")]
    json: bool,
    #[command(flatten)]
    metrics: MetricsArgs,
    #[cfg(feature = "columns")]
    #[command(flatten)]
    names: TableNameArgs,
}

/// Options of the column names in change tables.
#[cfg(feature = "columns")]
#[derive(Args, Debug)]
#[command(next_help_heading = "Column names of change tables")]
struct TableNameArgs {
    /// Server that has the tables, as mysql://USER@HOST:PORT/ or mysql://USER@localhost/?socket=FILE. The column names
    /// and ENUM texts are read from this server if the logs do not have them (binlog_row_metadata=MINIMAL, the default
    /// of MySQL). The account needs SELECT on the tables. The connection options below complete or replace this
    /// address.
    #[arg(long, value_name = "SERVER", requires = "change_tables")]
    schema: Option<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Observer of `bintide archive` without `--follow`: prints messages and the result.
struct ArchiveReport<'r> {
    command: &'r ArchiveAddArgs,
    global: &'r GlobalArgs,
    /// Progress of the present log.
    bar: Option<ByteProgress>,
    figures: ArchivingFigures,
    /// Manifests of the archived logs, for `--json`.
    archived: Vec<Manifest>,
}

/// Archives the logs.
pub(super) fn run(command: &ArchiveAddArgs, global: &GlobalArgs) -> CommandResult {
    let Some(location) = &command.to else {
        return Err(CommandFailure::NotStarted(anyhow!("archive needs the archive's location: --to")));
    };
    command.metrics.check()?;
    if command.encrypt && command.keyring().is_none() {
        return Err(encryption_needs_keyring("--encrypt"));
    }
    let followed = command.follow.then(|| command.inputs.store("--follow")).transpose()?;
    if followed.is_none() && command.metrics.is_given() {
        return Err(CommandFailure::NotStarted(anyhow!(
            "--metrics, --metrics-file and --ready-lag require --follow"
        )));
    }
    let found = command.inputs.find_logs()?;
    found.check_indexes()?;
    let mut logs = Vec::new();
    for location in found.locations {
        match location {
            InputLocation::File(path) => logs.push(path),
            InputLocation::Stdin => {
                return Err(CommandFailure::NotStarted(anyhow!(
                    "archive reads the name of a log from its file, so it cannot read standard input"
                )));
            }
        }
    }
    for log in &logs {
        check_input(log).map_err(CommandFailure::NotStarted)?;
        if command.inputs.given().contains(log) {
            // Before the directory of the archive is created.
            check_log(log)?;
        }
    }
    check_location(location, &logs).map_err(CommandFailure::NotStarted)?;
    if command.then_remove {
        check_removal(&logs)?;
    }
    let archive = open_storage(location, MissingDirectory::Create)?;
    match followed {
        Some(store) => follow(command, archive, store, global),
        None => {
            // A store that cannot be reached, or refuses the login, is a failure of the start.
            archive.has_segments().map_err(|error| CommandFailure::NotStarted(anyhow!(error)))?;
            let (bar, figures, archived) = (None, ArchivingFigures::default(), Vec::new());
            let report = ArchiveReport { command, global, bar, figures, archived };
            let mut archiver = command.archiver(archive, report, global)?;
            let damaged = archiver.archive_all(&logs)?;
            archiver.observer.finish(&damaged)
        }
    }
}

/// Archives closed logs of a directory until the command is stopped.
fn follow(command: &ArchiveAddArgs, archive: Archive, store: Store, global: &GlobalArgs) -> CommandResult {
    interrupt::set_runs_until_stopped();
    let state = ArchivingState::default();
    let observer = FollowedLogObserver::new(state.clone(), global);
    let archiver = FollowedLogArchiver::new(command.archiver(archive, observer, global)?, store);
    let figures = state.clone();
    let registry = MetricsRegistry::new().with(ARCHIVE_METRICS, move || figures.figures());
    let _served = command.metrics.serve(HttpSite::new(registry, Arc::new(FollowedLogState(state))))?;
    archiver.run(global)
}

/// Refuses a log that cannot be read from its start again.
fn check_input(log: &Path) -> anyhow::Result<()> {
    if fs::metadata(log).is_ok_and(|found| !found.is_file()) {
        bail!("{} is not a regular file: expected a log", log.display());
    }
    Ok(())
}

/// Refuses an archive in the directory of a log: commands that are given the directory would read the archive in place
/// of the logs.
fn check_location(location: &str, logs: &[PathBuf]) -> anyhow::Result<()> {
    let archive = archive_directory(location);
    if let Some(log) = logs.iter().find(|log| is_directory_of_logs(archive.as_deref(), parent_of(log))) {
        let name = log.display();
        bail!(
            "{location} is the directory of {name}: give the archive a directory of its own, such as {location}/archive"
        );
    }
    Ok(())
}

impl ArchiveAddArgs {
    /// Returns the path of the keyring file.
    pub(super) fn keyring(&self) -> Option<PathBuf> {
        self.inputs.keyring()
    }

    /// Returns the archiver with the settings of the options.
    #[cfg_attr(
        not(feature = "columns"),
        expect(unused_variables, reason = "only change tables need a server")
    )]
    fn archiver<O: ArchiverObserver>(
        &self,
        archive: Archive,
        observer: O,
        global: &GlobalArgs,
    ) -> Result<LogArchiver<O>, CommandFailure> {
        #[cfg(feature = "columns")]
        let tables = {
            let servers = self.names.servers(self, global)?;
            super::table_writer(&archive, self.inputs.keyring(), self.tables, servers)?
        };
        let archiver = LogArchiver::new(archive, self.settings(), observer);
        #[cfg(feature = "columns")]
        let archiver = archiver.with_tables(tables);
        Ok(archiver)
    }

    fn settings(&self) -> ArchiverSettings {
        ArchiverSettings {
            keyring: self.keyring(),
            encryption: if self.encrypt { ArchiveEncryption::NewestKey } else { ArchiveEncryption::None },
            named: self.inputs.given().to_vec(),
            local_logs: if self.then_remove { LocalLogPolicy::Remove } else { LocalLogPolicy::Keep },
            last_log: if self.follow { LastLogPolicy::ReadAtRest } else { LastLogPolicy::Read },
        }
    }
}

#[cfg(feature = "columns")]
impl TableNameArgs {
    /// Returns the server with the column names, if one is given.
    fn servers(
        &self,
        command: &ArchiveAddArgs,
        global: &GlobalArgs,
    ) -> Result<Vec<ServerAddress>, CommandFailure> {
        if self.schema.is_none() && !self.connection.names_server() {
            return Ok(Vec::new());
        }
        if !command.tables.change_tables {
            return Err(CommandFailure::NotStarted(anyhow!(
                "a server is given, but no --change-tables: a server is needed only for the column names of change tables"
            )));
        }
        let address = self.connection.address(self.schema.as_deref(), "--schema", global)?;
        // A service waits for its server.
        if !command.follow {
            let opened = SqlConnection::open(&address).context("--schema");
            opened.map_err(CommandFailure::NotStarted)?;
        }
        Ok(vec![address])
    }
}

impl ArchiverObserver for ArchiveReport<'_> {
    fn is_stopping(&self) -> bool {
        interrupt::is_stop_requested()
    }

    fn progress(&mut self, bytes_read: u64, bytes_total: Option<u64>) {
        let global = self.global;
        self.bar.get_or_insert_with(|| ByteProgress::new(global, bytes_total)).update(bytes_read);
    }

    fn archived(&mut self, log: &Path, manifest: Manifest) {
        self.bar = None;
        if !self.global.quiet && !self.command.json {
            screen::write_line(text::archived_line(log, &manifest));
        }
        text::warn_kept(log, &manifest);
        text::warn_missing_tables(log, &manifest);
        self.figures.add(manifest.size, manifest.stored_size());
        if self.command.json {
            self.archived.push(manifest);
        }
    }

    fn present(&mut self, _: &Path) {
        self.bar = None;
        self.figures.present += 1;
    }

    fn left_open(&mut self, log: &Path) {
        warn!("{} is still open: it is archived once its server has closed it", log.display());
    }

    fn removed(&mut self, log: &Path) {
        if !self.global.quiet && !self.command.json {
            screen::write_line(text::removed_line(log));
        }
    }
}

impl ArchiveReport<'_> {
    /// Prints the result. `damaged` has the manifests of the skipped logs.
    fn finish(&mut self, damaged: &[DamagedManifest]) -> CommandResult {
        self.bar = None;
        if self.command.json {
            let manifests: Vec<_> = self.archived.iter().map(document).collect();
            let mut document = json!({ "archived": manifests, "already_archived": self.figures.present });
            if !damaged.is_empty() {
                document["damaged_manifests"] = damaged_document(damaged);
            }
            write_document(&mut io::stdout().lock(), &document)?;
        } else if !self.global.quiet && self.figures.logs != 1 {
            screen::write_line(text::archived_sum(&self.figures));
        }
        Ok(report_damaged(damaged))
    }
}

/// Refuses to remove logs of a server, or logs that an index would miss.
fn check_removal(logs: &[PathBuf]) -> Result<(), CommandFailure> {
    let mut directories: Vec<&Path> = logs.iter().map(|log| parent_of(log)).collect();
    directories.dedup();
    for directory in directories {
        let name = directory.display();
        if let Some(server) = find_running_server(directory) {
            return Err(CommandFailure::NotStarted(anyhow!(
                "{name} belongs to a running server ({server}): delete its logs with PURGE BINARY LOGS"
            )));
        }
        let has_index = has_index(directory).with_context(|| format!("could not read the directory {name}"));
        if has_index.map_err(CommandFailure::NotStarted)? && !is_received_store(directory) {
            return Err(CommandFailure::NotStarted(anyhow!(
                "{name} has an index file that bintide does not maintain: delete the logs with the program that \
                 maintains it"
            )));
        }
    }
    Ok(())
}

fn has_index(directory: &Path) -> io::Result<bool> {
    for entry in fs::read_dir(directory)? {
        if entry?.path().extension().is_some_and(|end| end == "index") {
            return Ok(true);
        }
    }
    Ok(false)
}
