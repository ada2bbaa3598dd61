//! A running server as the source: its logs are received into a store and applied from there.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::anyhow;
use clap::Args;
use logs::{LogEncryption, RetentionLimit, Store};
use mysql_target::TargetInspector;
use receive::{DiskFullPolicy, LogReceiver, ReceiveControl, ReceiveOptions, SourceFailurePolicy, StartPoint};
use servers::{LinkOptions, PasswordSource, ServerAddress, ServerLink};
use wire::{ReplicaEnd, SemiSync};

use crate::commands::receive::{ReceiveDisplay, ReceivingState, parse_retention, receive_beside};
use crate::commands::replay::target::TargetAddress;
use crate::commands::replay::{ReplayArgs, apply, status};
use crate::connection_args::{ConnectionArgs, CredentialSharing, ReplaySource};
use crate::exit::{CommandFailure, CommandResult};
use crate::global_args::GlobalArgs;
use crate::interrupt;

/// Options that name the running server.
#[derive(Args, Debug)]
pub(super) struct ReplaySourceArgs {
    /// Apply a running server's logs as the server writes them, until Ctrl-C: mysql://USER@HOST:PORT/, as for --to. The
    /// connection options of this server have the prefix --source-, such as --source-ssl-ca. The logs are received into
    /// --relay, and applied from there. Repeatable: when the source is lost, the next server that has all transactions
    /// in --relay replaces it (MySQL with GTIDs only). Also accepts a directory of logs, as --follow does.
    #[arg(
        long,
        value_name = "SOURCE",
        conflicts_with_all = ["logs", "follow", "dry_run", "status", "forget"]
    )]
    from: Vec<String>,
    /// Directory for the logs of --from. bintide receives them as `bintide receive` does, and resumes from there.
    #[arg(long, value_name = "DIR", requires = "from")]
    relay: Option<PathBuf>,
    /// Retain at most this age (12h, 7d) or size (500M, 100G) of logs in --relay; older logs are deleted, even if they
    /// are not applied yet. Choose a value above the largest lag that you expect of the target.
    #[arg(long, value_name = "TIME|SIZE", value_parser = parse_retention, requires = "relay")]
    relay_keep: Option<RetentionLimit>,
    /// Former name of --source-password-file.
    #[arg(long, value_name = "FILE", requires = "from", hide = true)]
    #[arg(conflicts_with_all = ["source-password", "source-password-file", "source-password-command"])]
    from_password_file: Option<PathBuf>,
    #[command(flatten)]
    connection: ConnectionArgs<ReplaySource>,
}

impl ReplaySourceArgs {
    /// Returns the source of this address.
    fn source(
        &self,
        text: &str,
        target: &ConnectionArgs,
        global: &GlobalArgs,
    ) -> Result<ServerAddress, CommandFailure> {
        let mut address = self.connection.address_beside(target, CredentialSharing::Method, text, global)?;
        if let Some(path) = &self.from_password_file {
            address.password = PasswordSource::File(path.clone());
            address
                .password
                .read(&address.cancel)
                .map_err(|error| CommandFailure::NotStarted(error.into()))?;
        }
        Ok(address)
    }

    pub(super) const fn is_live(&self) -> bool {
        !self.from.is_empty()
    }
}

/// Receives and applies logs until Ctrl-C, or until receiving or applying fails.
pub(super) fn run(command: &mut ReplayArgs, global: &GlobalArgs) -> CommandResult {
    let from = command.source.from.clone();
    command.follow = true;
    if let [directory] = from.as_slice()
        && !directory.contains("://")
    {
        command.inputs.set_store(PathBuf::from(directory));
        return apply(command, global, None);
    }
    let Some(directory) = command.source.relay.clone() else {
        let why = "--from mysql://… needs --relay DIR, a directory for the server's logs";
        return Err(CommandFailure::NotStarted(anyhow!(why)));
    };
    let addresses: Result<Vec<ServerAddress>, CommandFailure> =
        from.iter().map(|from| command.source.source(from, command.to.connection(), global)).collect();
    let addresses = addresses?;
    let cancel = interrupt::cancel_on_interrupt();
    let options = LinkOptions { cancel: cancel.clone(), ..LinkOptions::default() };
    refuse_itself(command, &addresses, &options, global)?;
    let settings = ReceiveOptions {
        directory: directory.clone(),
        begin: relay_start_point(command, &directory, global)?,
        end: ReplicaEnd::Never,
        at_rest: LogEncryption::Plain { keyring: command.inputs.keyring() },
        keep: command.source.relay_keep,
        compress: None,
        semi_sync: SemiSync::Off,
        when_full: DiskFullPolicy::Wait,
        on_source_failure: SourceFailurePolicy::Fail,
        control: ReceiveControl::default(),
    };
    let display = Arc::new(ReceiveDisplay::without_progress(global));
    let (receiver, store) = LogReceiver::open(settings, addresses, options, display.clone())?;
    let receiving = ReceivingState::new(receiver.stats(), display);
    // If the receiver fails, nothing more can be applied.
    receive_beside(receiver, store, &cancel, &directory.clone(), || {
        command.inputs.set_store(directory);
        apply(command, global, Some(receiving))
    })
}

/// Refuses a source that is the target itself: its changes would be applied twice. A server that cannot be queried
/// passes; the connection later reports the error.
fn refuse_itself(
    command: &ReplayArgs,
    sources: &[ServerAddress],
    options: &LinkOptions,
    global: &GlobalArgs,
) -> Result<(), CommandFailure> {
    let TargetAddress::Mysql(target, _) = command.to.named(global)? else { return Ok(()) };
    if command.filters.renames() {
        return Ok(());
    }
    let Some(own) = server_uuid(&target, options) else { return Ok(()) };
    match sources.iter().find(|source| server_uuid(source, options).as_ref() == Some(&own)) {
        Some(source) => Err(CommandFailure::NotStarted(anyhow!(
            "--from {source} and --to {target} are the same server (same server_uuid): its changes would be applied \
             twice; give another target"
        ))),
        None => Ok(()),
    }
}

/// Refuses to follow the target's own directory: its logs would contain the applied changes again.
pub(super) fn refuse_own_directory(followed: &Store, target: &TargetAddress) -> Result<(), CommandFailure> {
    let (TargetAddress::Mysql(target, _), Some(directory)) =
        (target, followed.logs().first().and_then(|log| log.parent()))
    else {
        return Ok(());
    };
    let Ok(text) = std::fs::read_to_string(directory.join("auto.cnf")) else { return Ok(()) };
    let directory_uuid = text.lines().find_map(|line| line.strip_prefix("server-uuid=")).map(str::trim);
    let options = LinkOptions { cancel: interrupt::cancel_on_interrupt(), ..LinkOptions::default() };
    match directory_uuid.filter(|uuid| server_uuid(target, &options).as_deref() == Some(uuid.as_bytes())) {
        Some(uuid) => Err(CommandFailure::NotStarted(anyhow!(
            "{} is the data directory of --to {target} (its auto.cnf has server_uuid {uuid}): its changes would be \
             applied twice; give another target",
            directory.display()
        ))),
        None => Ok(()),
    }
}

fn server_uuid(server: &ServerAddress, options: &LinkOptions) -> Option<Vec<u8>> {
    let rows =
        ServerLink::open(server, options).and_then(|mut link| link.query("SELECT @@GLOBAL.server_uuid"));
    rows.ok()?.pop()?.into_iter().next().flatten()
}

/// Returns the start point of an empty relay directory: the first transaction that the target lacks.
fn relay_start_point(
    command: &ReplayArgs,
    relay: &Path,
    global: &GlobalArgs,
) -> Result<StartPoint, CommandFailure> {
    if Store::open(relay).is_ok() {
        return Ok(StartPoint::Oldest);
    }
    let applied = match command.to.named(global)? {
        TargetAddress::Mysql(address, _) => {
            let inspector = TargetInspector::connect(&address)
                .map_err(|error| CommandFailure::NotStarted(error.into()))?;
            inspector.applied()
        }
        TargetAddress::Sqlite(path) => status::applied(&path)?.unwrap_or_default(),
    };
    let gtids = applied.executed.union(&applied.progress.gtids);
    Ok(StartPoint::ForTarget { gtids, log: applied.progress.position.map(|saved| saved.log) })
}
