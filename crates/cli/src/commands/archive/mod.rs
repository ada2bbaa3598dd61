//! `bintide archive`: logs on object storage or in a directory, compressed, and restored byte for byte.

mod add;
mod archive_metrics;
mod archiver_thread;
mod choice;
mod followed_logs;
mod log_archiver;
mod prune;
mod received_logs;
mod restore;
mod table_key;
#[cfg(feature = "columns")]
mod table_writer;
mod text;
mod verify;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "columns")]
use anyhow::Context;
use anyhow::anyhow;
use archive::{
    Archive, ArchiveError, ArchiveStorage, DamagedManifest, ManifestList, MasterKey, MissingDirectory,
    is_object_url,
};
use binlog::encryption::Keyring;
use clap::{Args, Subcommand};
use logs::read_keyring;
use nix::sys::stat::{Mode, umask};
use serde_json::{Value, json};
#[cfg(feature = "columns")]
use servers::ServerAddress;
use tracing::error;

pub(crate) use crate::commands::archive::archiver_thread::{ArchiverShutdown, RunningArchiver};
pub(crate) use crate::commands::archive::received_logs::{ArchivedLogCheck, ReceivedLogArchiver};
#[cfg(feature = "columns")]
pub(crate) use crate::commands::archive::table_writer::ChangeTableArgs;
use crate::exit::{CommandFailure, CommandResult, CommandVerdict, ErrorAdvice};
use crate::global_args::GlobalArgs;
use crate::log_args::FILES_HELP;
use crate::output_format::OutputFormat;

pub(crate) const EXAMPLES: &str = "\
Examples:
  Archive the closed logs of a directory in S3, and then delete the logs:
      bintide archive /backup/db1 --to s3://backups/db1 --then-remove
  Archive each log as soon as its server has closed it, until Ctrl-C:
      bintide archive /backup/db1 --to s3://backups/db1 --follow
  Also write the row changes of each log as Parquet files into the archive, and
  count them with DuckDB:
      bintide archive /backup/db1 --to s3://backups/db1 --change-tables
      duckdb -c \"select operation, count(*) from read_parquet(
          's3://backups/db1/tables/database=shop/table=orders/**/*.parquet',
          union_by_name = true) group by 1\"
  Encrypt what is stored in the archive, with the newest key of a keyring file:
      bintide archive /backup/db1 --to s3://backups/db1 --encrypt \\
          --keyring ~/keyring
  List the archived logs that have transactions of an hour:
      bintide archive ls s3://backups/db1 \\
          --start-datetime '2026-11-22 14:00:00' \\
          --stop-datetime '2026-11-22 15:00:00'
  Verify that all archived logs can be restored byte for byte:
      bintide archive verify s3://backups/db1
  Restore two logs:
      bintide archive restore s3://backups/db1 --to /restore \\
          binlog.000012 binlog.000013
  Show the archived logs that are older than a year and would be deleted:
      bintide archive prune s3://backups/db1 --keep 52w --dry-run

Credentials come from the environment (AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY,
AWS_REGION, AWS_ENDPOINT_URL), from ~/.aws, or from the machine. Commands that
read logs can also read an archive, such as bintide stats s3://backups/db1. Use
a separate prefix for each server.";

/// Help of `--ready-lag`: an archive is behind the server that closes logs.
const READY_LAG_HELP: &str = "Maximum age of the oldest closed log that is not archived yet: /readyz of --metrics \
                              answers 503 while it is older [default: no maximum]";

/// Arguments of `bintide archive`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(mut_arg("logs", |arg| arg.help(FILES_HELP)))]
#[command(mut_arg("ready_lag", |arg| arg.help(READY_LAG_HELP).long_help(READY_LAG_HELP)))]
#[command(mut_arg("keyring", |arg| arg.global(true)))]
pub(crate) struct ArchiveArgs {
    #[command(subcommand)]
    action: Option<ArchiveAction>,
    #[command(flatten)]
    add: add::ArchiveAddArgs,
}

/// Commands of `archive`.
#[derive(Debug, Subcommand)]
enum ArchiveAction {
    /// List the archived logs.
    Ls(ArchiveListArgs),
    /// Rebuild archived logs without writing them, and compare them with their SHA-256.
    Verify(verify::ArchiveVerifyArgs),
    /// Restore archived logs byte for byte.
    Restore(restore::RestoreArgs),
    /// Delete the oldest archived logs, and files of uploads that were interrupted more than a day ago.
    Prune(prune::PruneArgs),
    /// Print the key of encrypted change tables in base64, for programs that read these tables.
    TableKey(table_key::TableKeyArgs),
}

/// Arguments of `archive ls`.
#[derive(Args, Debug)]
struct ArchiveListArgs {
    #[command(flatten)]
    choice: choice::ChoiceArgs,
    /// Print the manifests as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Archives logs, or runs a subcommand.
pub(crate) fn run(command: &ArchiveArgs, global: &GlobalArgs) -> CommandResult {
    let Some(action) = &command.action else { return add::run(&command.add, global) };
    let keyring = command.add.keyring().map(read_keyring).transpose();
    let keyring = keyring.map_err(|error| CommandFailure::NotStarted(error.into()))?.map(Arc::new);
    match action {
        ArchiveAction::Ls(command) => {
            text::list(&command.choice, OutputFormat::of(command.json), keyring, global)
        }
        ArchiveAction::Verify(command) => verify::run(command, keyring, global),
        ArchiveAction::Restore(command) => restore::run(command, keyring, global),
        ArchiveAction::Prune(command) => prune::run(command, keyring, global),
        ArchiveAction::TableKey(command) => table_key::run(command, keyring),
    }
}

/// Opens an archive that exists. An encrypted archive needs the keyring.
fn open_archive(location: &str, keyring: Option<Arc<Keyring>>) -> Result<Archive, CommandFailure> {
    Ok(open_storage(location, MissingDirectory::Refuse)?.with_keys(keyring.into()))
}

/// Returns the key that encrypts new objects of an archive.
fn newest_key(keyring: &Keyring) -> Result<MasterKey, CommandFailure> {
    let key = MasterKey::newest(keyring).map_err(|error| ArchiveError::NoMasterKey { error });
    key.map_err(|error| CommandFailure::NotStarted(anyhow!(error)))
}

/// Returns the manifests of all logs of an archive.
fn archived_logs(archive: &Archive) -> Result<ManifestList, CommandFailure> {
    let not_started = |error: ArchiveError| CommandFailure::NotStarted(anyhow!(error));
    let manifests = archive.manifests().map_err(not_started)?;
    // An upload that was interrupted may have left a segment.
    let has_none = manifests.manifests.is_empty() && manifests.damaged.is_empty();
    if has_none && !archive.has_segments().map_err(not_started)? {
        let location = archive.location();
        let error = anyhow!("{location} is not an archive: it has neither manifests nor segments");
        return Err(CommandFailure::NotStarted(error));
    }
    Ok(manifests)
}

fn open_storage(location: &str, missing: MissingDirectory) -> Result<Archive, CommandFailure> {
    if missing == MissingDirectory::Create && !is_object_url(location) {
        protect_new_files();
    }
    let storage = ArchiveStorage::open(location, missing);
    storage.map(Archive::new).map_err(|error| CommandFailure::NotStarted(anyhow!(error)))
}

/// Returns the directory of an archive without symbolic links; `None` if the location is an object store, or no such
/// directory exists yet.
fn archive_directory(location: &str) -> Option<PathBuf> {
    fs::canonicalize(location).ok()
}

/// Returns whether the directory of an archive is the directory of its logs.
fn is_directory_of_logs(archive: Option<&Path>, logs: &Path) -> bool {
    archive.is_some_and(|archive| fs::canonicalize(logs).is_ok_and(|logs| logs == archive))
}

/// Denies other users access to the files that this process creates: logs contain the data of tables.
fn protect_new_files() {
    let others = Mode::from_bits_truncate(0o027);
    let denied = umask(others);
    umask(denied | others);
}

/// Returns the name of a log in an archive, for messages.
fn log_in(archive: &Archive, log: &str) -> String {
    let location = archive.location().trim_end_matches('/');
    match is_object_url(location) {
        true => format!("{location}/{log}"),
        false => PathBuf::from(location).join(log).display().to_string(),
    }
}

/// Returns the failure for an error with one log.
fn failed(error: ArchiveError, log: &str) -> CommandFailure {
    match error {
        ArchiveError::Interrupted => CommandFailure::Failed(anyhow!(logs::ordered::PipelineShutdown)),
        ArchiveError::KeyringRequired { .. } => {
            let error = anyhow!(error).context(ErrorAdvice("give it with --keyring"));
            CommandFailure::NotStarted(error)
        }
        ArchiveError::EncryptionRequired { .. } => {
            let advice =
                ErrorAdvice("give --encrypt (receive and relay: --encrypt-archive) and --keyring FILE");
            CommandFailure::NotStarted(anyhow!(error).context(advice).context(log.to_owned()))
        }
        error if error.is_key_error() => CommandFailure::NotStarted(anyhow!(error)),
        ArchiveError::WrongKey { .. } | ArchiveError::Key { .. } => {
            let advice = ErrorAdvice("give the keyring file of the server that wrote this log");
            CommandFailure::NotStarted(anyhow!(error).context(advice).context(log.to_owned()))
        }
        error => CommandFailure::Failed(anyhow!(error).context(log.to_owned())),
    }
}

/// Returns the SHA-256 of a file, as in manifests.
fn digest_of(path: &Path) -> io::Result<String> {
    let mut digest = archive::LogDigest::default();
    io::copy(&mut fs::File::open(path)?, &mut DigestWriter(&mut digest))?;
    Ok(digest.finish())
}

/// Writer that only hashes.
struct DigestWriter<'d>(&'d mut archive::LogDigest);

impl io::Write for DigestWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Creates the writer of change tables, if they are requested. `servers` have the column names that logs lack.
#[cfg(feature = "columns")]
fn table_writer(
    archive: &Archive,
    keyring: Option<PathBuf>,
    options: ChangeTableArgs,
    servers: Vec<ServerAddress>,
) -> Result<Option<table_writer::ChangeTableWriter>, CommandFailure> {
    if !options.change_tables {
        return Ok(None);
    }
    let writer = table_writer::ChangeTableWriter::new(archive, keyring, options, servers);
    let context =
        || "could not create a temporary directory for the change tables: set TMPDIR to another directory";
    writer.with_context(context).map(Some).map_err(CommandFailure::NotStarted)
}

/// Returns a manifest as JSON.
fn document(manifest: &archive::Manifest) -> Value {
    json!(manifest)
}

/// Reports the unreadable manifests. Returns the verdict of a command that has processed all other logs.
fn report_damaged(damaged: &[DamagedManifest]) -> CommandVerdict {
    for DamagedManifest { error, .. } in damaged {
        error!("{error}");
    }
    if damaged.is_empty() { CommandVerdict::Success } else { CommandVerdict::FaultsFound }
}

/// Returns the unreadable manifests as JSON.
fn damaged_document(damaged: &[DamagedManifest]) -> Value {
    let entry = |damaged: &DamagedManifest| json!({ "log": damaged.log, "fault": damaged.error.to_string() });
    damaged.iter().map(entry).collect()
}
