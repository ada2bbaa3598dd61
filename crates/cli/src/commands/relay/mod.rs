//! `bintide relay`: serves logs to replicas and clients.

mod accounts;
mod changed_source;
mod received_logs;
mod relay_metrics;
mod relay_site;
mod relay_status;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use anyhow::anyhow;
use clap::{Args, Subcommand};
use logs::find_archived_logs;
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use receive::{AckCondition, LogReceiver, ReceiveControl, SourceFailurePolicy};
use relay::{AccountFile, FormChoice, LogForm, RelayStore, UpstreamControl};
use relay_server::{
    AckGate, AckOutcome, RelayNotice, RelayServer, RelayServerError, RelayServerOptions, TlsFiles,
};
use servers::{CancelToken, PasswordSource, ServerAddress};
use tracing::{info, warn};
use wire::ReplicaEnd;

#[cfg(feature = "archive")]
use crate::commands::archive::{ArchiverShutdown, ReceivedLogArchiver};
#[cfg(feature = "archive")]
use crate::commands::receive::ReceivedArchiveArgs;
use crate::commands::receive::{ArchivingState, ReceiveDisplay, ReceivingState, SourceArgs, receive_beside};
use crate::commands::relay::accounts::AccountsArgs;
#[cfg(feature = "archive")]
use crate::commands::relay::received_logs::ArchivedDirectory;
use crate::commands::relay::received_logs::ReceivedLogs;
use crate::commands::relay::relay_site::{LagSampler, RelaySite};
use crate::commands::relay::relay_status::StatusArgs;
use crate::connection_args::{ConnectionArgs, CredentialSharing, DefinitionServer, main_server_options};
use crate::exit::{CommandFailure, CommandResult, CommandVerdict, ErrorAdvice};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::metrics::MetricsArgs;
use crate::output_directory::refuse_url;
use crate::service_notifier::notify_reload;
use crate::typed_options::CommandLineOptions;
use crate::units::duration;
use crate::value_parsers::{number_within, parse_size};

pub(crate) const EXAMPLES: &str = "\
Examples:
  Serve the logs that bintide receive or a backup writes, to clients on this
  machine only:
      bintide relay /backup/db1
  Receive logs, and serve them to the accounts in /backup/db1/accounts.toml:
      mkdir -p /backup/db1
      bintide relay user add repl --accounts /backup/db1/accounts.toml \\
          --password-file ~/.repl
      bintide relay /backup/db1 --from mysql://repl@db1/ --listen 0.0.0.0:3307
  Then on a replica (before MySQL 8.0.23 with CHANGE MASTER TO; before 8.0 and
  for MariaDB, the account also needs --native-password):
      CHANGE REPLICATION SOURCE TO SOURCE_HOST='relay1', SOURCE_PORT=3307,
        SOURCE_USER='repl', SOURCE_PASSWORD='...', SOURCE_SSL=1,
        SOURCE_AUTO_POSITION=1;
  Compress transactions for a slow network:
      bintide relay /backup/db1 --form compressed:9 --listen 0.0.0.0:3307
  Show a running relay's clients, forms and logs:
      bintide relay status mysql://monitor@relay1:3307/

With --form auto, bintide, and replicas and mysqlbinlog of MySQL 8.0.20 or
later, get the logs as they are stored. All other clients get uncompressed
transactions: older MySQL, MariaDB, connectors. Ctrl-C or SIGTERM stops the
relay; replicas reconnect by themselves. SIGHUP reloads accounts and
certificates.";

/// Help for `--metrics`, which also serves the page.
const METRICS_HELP: &str = "Serve a status page, metrics for Prometheus, /healthz and /readyz over HTTP at this \
    address, such as 127.0.0.1:9104";

/// Arguments of `relay`.
#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(mut_arg("metrics", |arg| arg.help(METRICS_HELP)))]
pub(crate) struct RelayArgs {
    // Must be the first field, because clap removes an argument once a field has read it.
    #[command(flatten)]
    given: CommandLineOptions,
    #[command(subcommand)]
    action: Option<RelayAction>,
    /// Directory or index file of the logs. With --from, relay receives into this directory; otherwise another program
    /// writes the logs: bintide receive, a backup program, or a running server.
    #[arg(value_name = "DIR", required = true)]
    directory: Option<PathBuf>,
    /// Address to listen on. Port 0 means any free port. Without accounts, the address must be local, and every client
    /// has the role admin.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:3307")]
    listen: String,
    /// Form of the logs for accounts without a form of their own: as-is, plain, compressed, compressed:LEVEL or auto.
    /// With auto, each client gets a form that it can read.
    #[arg(long, value_name = "FORM", default_value = "auto")]
    form: FormChoice,
    /// File of accounts; edit it with `bintide relay user` [default: accounts.toml in DIR]
    #[arg(long, value_name = "FILE")]
    accounts: Option<PathBuf>,
    /// server_id of the relay [default: a random one, kept in the state directory]
    #[arg(long, value_name = "NUMBER", value_parser = number_within::<u32>(1..=u32::MAX))]
    server_id: Option<u32>,
    /// Certificate chain of the relay (PEM) [default: a certificate that the relay creates at its first start]
    #[arg(long, value_name = "FILE")]
    server_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM) [default: in the file of --server-cert]
    #[arg(long, value_name = "FILE", requires = "server_cert")]
    server_key: Option<PathBuf>,
    /// Certificate authorities that sign client certificates (PEM), for accounts that require a certificate
    #[arg(long, value_name = "FILE")]
    client_ca: Option<PathBuf>,
    /// Directory for the relay's own files: identity, certificate, keys, and indexes of forms [default: .relay in DIR]
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Server to which the relay sends queries for table definitions, such as SHOW CREATE TABLE of Debezium and
    /// go-mysql's canal. Its connection options have the prefix --definitions-, such as --definitions-password-file.
    /// Without this option, the relay refuses these statements.
    #[arg(id = "definitions-from", long, value_name = "ADDRESS")]
    definitions_from: Option<String>,
    #[command(flatten)]
    definitions: ConnectionArgs<DefinitionServer>,
    /// Maximum number of connections
    #[arg(long, value_name = "NUMBER", default_value = "4000", value_parser = number_within::<usize>(1..=100_000))]
    max_connections: usize,
    /// Memory limit of the cache for each form. The cache holds the newest part of the logs; older parts are read from
    /// the files again.
    #[arg(long, value_name = "SIZE", default_value = "32M", value_parser = parse_size)]
    form_cache: u64,
    #[command(flatten)]
    source: SourceArgs,
    #[cfg(feature = "archive")]
    #[command(flatten)]
    archiving: ReceivedArchiveArgs,
    /// With --semi-sync: acknowledge a transaction to the source only after this number of the relay's replicas have
    /// acknowledged it (as rpl_semi_sync_source_wait_for_replica_count).
    #[arg(long, value_name = "NUMBER", requires = "semi_sync", value_parser = number_within::<u16>(1..=u16::MAX))]
    wait_for_replicas: Option<u16>,
    /// With --wait-for-replicas: maximum time to wait for their acknowledgements. After this time, the relay
    /// acknowledges without them until enough replicas have caught up. Set it below the source's own
    /// rpl_semi_sync_source_timeout.
    #[arg(long, value_name = "SECONDS", default_value = "5", requires = "wait_for_replicas")]
    ack_timeout: u32,
    #[command(flatten)]
    metrics: MetricsArgs,
}

/// Commands of `relay`.
#[derive(Debug, Subcommand)]
enum RelayAction {
    /// Add, remove or list accounts.
    User(AccountsArgs),
    /// Show the state of running relays: source, clients and their lag, forms, logs.
    Status(Box<StatusArgs>),
}

/// Name of the file of accounts in the directory of the logs.
const ACCOUNTS_NAME: &str = "accounts.toml";
/// Name of the state directory in the directory of the logs.
const STATE_NAME: &str = ".relay";
/// Interval at which the relay polls for signals and for the receiver's end.
const POLL_INTERVAL: Duration = Duration::from_millis(50);
/// File descriptors for everything but connections.
const OTHER_DESCRIPTORS: u64 = 128;

/// Serves until it is stopped, or changes accounts.
pub(crate) fn run(command: &RelayArgs, global: &GlobalArgs) -> CommandResult {
    match &command.action {
        Some(RelayAction::User(accounts)) => return accounts::run(accounts),
        Some(RelayAction::Status(status)) => return relay_status::run(status, global),
        None => {}
    }
    let Some(directory) = &command.directory else {
        return Err(CommandFailure::NotStarted(anyhow!("relay needs a directory of logs")));
    };
    command.metrics.check()?;
    interrupt::set_runs_until_stopped();
    raise_descriptor_limit(command.max_connections);
    match command.source.from.is_empty() {
        true => serve_stored(command, directory, global),
        false => receive_and_serve(command, directory, global),
    }
}

/// Serves a directory that another program writes.
fn serve_stored(command: &RelayArgs, directory: &Path, global: &GlobalArgs) -> CommandResult {
    if command.source.connection.names_server() {
        let why = "connection options name a server, but relay receives only from the servers of --from: give --from";
        return Err(CommandFailure::NotStarted(anyhow!(why)));
    }
    command.refuse_receive_options()?;
    if directory.is_file() && directory.extension().is_none_or(|extension| extension != "index") {
        let name = directory.display();
        return Err(CommandFailure::NotStarted(anyhow!(
            "{name} is a file; expected a directory of logs or its index"
        )));
    }
    if find_archived_logs(directory).is_some() {
        return Err(CommandFailure::NotStarted(anyhow!(
            "{} is an archive, and relay serves only files: restore its logs first with `bintide archive restore`",
            directory.display()
        )));
    }
    let site = RelaySite::new(None);
    let (http, sampler) = site.http_site();
    let _served = command.metrics.serve(http)?;
    let options = command.server_options(directory, global)?;
    let serving = ServingParts { site: &site, sampler, control: None };
    serve(command, directory, serving, options)
}

/// Receives into a directory, and serves it from the first log on.
fn receive_and_serve(command: &RelayArgs, directory: &Path, global: &GlobalArgs) -> CommandResult {
    refuse_url(directory).map_err(CommandFailure::NotStarted)?;
    let cancel = interrupt::cancel_on_interrupt();
    let mut settings = command.source.receive_options(directory.to_owned(), ReplicaEnd::Never)?;
    // Clients need the stored logs also while the source fails.
    settings.on_source_failure = SourceFailurePolicy::Stay;
    let archiving = ArchivingState::default();
    #[cfg(feature = "archive")]
    let archiver =
        command.archiving.open(&command.source, directory, &settings.control, archiving.clone())?;
    let options = command.source.link_options(cancel.clone());
    let display = Arc::new(ReceiveDisplay::without_progress(global));
    let addresses = command.source.addresses(global)?;
    check_password_files(&addresses, &cancel)?;
    #[cfg(all(feature = "archive", feature = "columns"))]
    let archiver = command.archiving.with_tables(archiver, &addresses)?;
    let sources = Mutex::new(addresses.clone());
    let (mut receiver, store) = LogReceiver::open(settings, addresses, options, display.clone())?;
    receiver.read_stored_gtids();
    let received = Arc::new(ReceivedLogs {
        sources,
        stats: receiver.stats(),
        control: receiver.control(),
        #[cfg(feature = "archive")]
        archive: archiver.as_ref().map(|archiver| ArchivedDirectory {
            directory: directory.to_owned(),
            archived: archiver.archived_logs(),
        }),
        options: command.source.link_options(cancel.clone()),
    });
    let gate = command.ack_gate();
    if let Some(gate) = &gate {
        receiver.set_ack_condition(Arc::new(ReplicaCondition(Arc::clone(gate))));
    }
    let state = ReceivingState { archiving, ..ReceivingState::new(receiver.stats(), display) };
    let site = RelaySite::new(Some(state));
    let (http, sampler) = site.http_site();
    let _served = command.metrics.serve(http)?;
    #[cfg(feature = "archive")]
    let archiver = archiver.map(ReceivedLogArchiver::start).transpose()?;
    let outcome = receive_beside(receiver, store, &cancel, directory, || {
        let options = RelayServerOptions {
            ack_gate: gate,
            upstream_control: Some(Arc::clone(&received) as Arc<dyn UpstreamControl>),
            ..command.server_options(directory, global)?
        };
        let serving = ServingParts { site: &site, sampler, control: Some(received.control.clone()) };
        serve(command, directory, serving, options)
    });
    #[cfg(feature = "archive")]
    if let Some(archiver) = archiver {
        // The next run archives the remaining logs.
        archiver.finish(ArchiverShutdown::Abandon)?;
    }
    outcome
}

/// Refuses an unusable password file at the start. Later, the relay serves its logs, and reads the file again for each
/// connection.
fn check_password_files(addresses: &[ServerAddress], cancel: &CancelToken) -> Result<(), CommandFailure> {
    let with_file = addresses.iter().filter(|address| matches!(address.password, PasswordSource::File(_)));
    for address in with_file {
        address.password.read(cancel).map_err(|error| CommandFailure::NotStarted(error.into()))?;
    }
    Ok(())
}

/// Condition for the relay's acknowledgements: enough of its replicas have acknowledged.
struct ReplicaCondition(Arc<AckGate>);

impl AckCondition for ReplicaCondition {
    fn wait(&self, is_cancelled: &mut dyn FnMut() -> bool) -> bool {
        self.0.wait(is_cancelled) == AckOutcome::Acknowledge
    }
}

/// Parts of the command that use a running relay.
struct ServingParts<'s> {
    site: &'s Arc<RelaySite>,
    sampler: LagSampler,
    /// Control of the receiver; `None` if another program writes the logs.
    control: Option<ReceiveControl>,
}

fn serve(
    command: &RelayArgs,
    directory: &Path,
    serving: ServingParts<'_>,
    options: RelayServerOptions,
) -> CommandResult {
    let ServingParts { site, mut sampler, control } = serving;
    let not_started = |error: anyhow::Error| CommandFailure::NotStarted(error);
    let store = RelayStore::open(directory, command.source.keyring.clone());
    let store = store.map_err(|error| not_started(error.into()))?;
    // A log that a client reads is neither deleted nor compressed, so this is set before there are clients.
    let protect_logs = |server: &RelayServer| {
        if let Some(control) = control {
            control.protect_logs(server.log_finder(None));
            control.hold_compression(server.log_finder(Some(LogForm::AsIs)));
        }
    };
    let server =
        RelayServer::start(store, options, protect_logs).map_err(|error| not_started(with_advice(error)))?;
    site.set_serving(&server);
    info!("serving {} at {}", directory.display(), server.address());
    while !interrupt::is_stop_requested() {
        thread::sleep(POLL_INTERVAL);
        sampler.sample();
        if interrupt::take_reload_request() {
            match notify_reload(|| server.reload()) {
                Ok(()) => info!("reloaded accounts and certificates"),
                Err(error) => {
                    warn!("could not reload accounts and certificates: {error}; the old ones remain in use");
                }
            }
        }
    }
    server.stop();
    Ok(CommandVerdict::Success)
}

/// Options that have an effect only on received logs.
const RECEIVE_OPTIONS: [&str; 12] = [
    "keep",
    "compress",
    "encrypt",
    "semi_sync",
    "start_log",
    "start_after_gtid",
    "compression",
    "encrypt_archive",
    "change_tables",
    "skip_statements",
    "wait_for_replicas",
    "ack_timeout",
];

impl RelayArgs {
    /// Refuses options that have no effect without `--from`. Settings may be for other commands too, so they have no
    /// effect.
    fn refuse_receive_options(&self) -> Result<(), CommandFailure> {
        let refuse = |why: String| Err(CommandFailure::NotStarted(anyhow!(why)));
        if self.given.first_of(["archive"]).is_some() {
            return refuse(
                "--archive archives received logs: give --from, or use bintide archive".to_owned(),
            );
        }
        if let Some(option) = self.given.first_of(RECEIVE_OPTIONS) {
            let option = option.replace('_', "-");
            return refuse(format!("--{option} has an effect only on received logs: give --from"));
        }
        // The server of --definitions-from has the same account, unless it is given separately.
        let connection = main_server_options().filter(|_| self.definitions_from.is_none());
        match self.given.first_of(connection) {
            Some(option) => {
                refuse(format!("--{option} has an effect only on the connection to a source: give --from"))
            }
            None => Ok(()),
        }
    }

    /// Returns the gate for `--wait-for-replicas`.
    fn ack_gate(&self) -> Option<Arc<AckGate>> {
        let timeout = Duration::from_secs(self.ack_timeout.into());
        let gate = |replicas: u16| AckGate::new(replicas.into(), timeout, Arc::new(show_notice));
        self.wait_for_replicas.map(gate).map(Arc::new)
    }

    fn server_options(
        &self,
        directory: &Path,
        global: &GlobalArgs,
    ) -> Result<RelayServerOptions, CommandFailure> {
        let parent =
            if directory.is_dir() { directory } else { directory.parent().unwrap_or(Path::new(".")) };
        let of_a_server = logs::find_server_file(parent).is_some();
        let state = match &self.state {
            Some(state) => state.clone(),
            None if of_a_server => {
                return Err(CommandFailure::NotStarted(anyhow!(
                    "{} is a server's data directory, and relay does not write there: give --state DIR, a directory \
                     for its own files",
                    parent.display()
                )));
            }
            None => parent.join(STATE_NAME),
        };
        if let Some(path) = &self.accounts
            && !path.exists()
        {
            return Err(CommandFailure::NotStarted(anyhow!(
                "--accounts: {} does not exist; to create it, add an account: bintide relay user add NAME --accounts {}",
                path.display(),
                path.display()
            )));
        }
        Ok(RelayServerOptions {
            listen: self.listen.clone(),
            form: self.form,
            accounts: AccountFile::new(self.accounts.clone().unwrap_or_else(|| parent.join(ACCOUNTS_NAME))),
            server_id: self.server_id,
            tls: TlsFiles {
                certificate: self.server_cert.clone(),
                key: self.server_key.clone(),
                client_ca: self.client_ca.clone(),
            },
            state,
            definitions_from: self.definition_server(global)?,
            connections_max: self.max_connections,
            form_cache_bytes: usize::try_from(self.form_cache).unwrap_or(usize::MAX),
            ack_gate: None,
            upstream_control: None,
            notices: Arc::new(show_notice),
        })
    }
}

impl RelayArgs {
    /// Returns the address of the server that answers queries for table definitions.
    fn definition_server(&self, global: &GlobalArgs) -> Result<Option<ServerAddress>, CommandFailure> {
        let Some(text) = &self.definitions_from else { return Ok(None) };
        let main = &self.source.connection;
        self.definitions.address_beside(main, CredentialSharing::Account, text, global).map(Some)
    }
}

fn show_notice(notice: RelayNotice) {
    match notice {
        RelayNotice::LoginFailed { peer, error } => warn!("login from {peer} failed: {error}"),
        RelayNotice::TlsFailed { peer, error } => {
            warn!(
                "TLS handshake with {peer} failed: {error}; the relay supports TLS 1.2 and 1.3 with ECDHE ciphers"
            );
        }
        RelayNotice::RelayChanged { account, statement } => info!("{account} executed: {statement}"),
        RelayNotice::DumpFailed { user, error } => warn!("could not serve {user}: {error}"),
        RelayNotice::ClientAhead { user, log, position } => {
            warn!("{user} waits for {log}:{position}, which is not received yet");
        }
        RelayNotice::LogMissing { log } => {
            warn!("the index lists {log}, but its file is missing: clients that need this log get an error");
        }
        RelayNotice::IndexNotSaved { error } => {
            warn!("{error}; after a restart, the relay creates this index again");
        }
        RelayNotice::AckTimeout { replicas, acknowledged, timeout } => warn!(
            "{acknowledged} of {replicas} replicas acknowledged within {}: replication is asynchronous until they have caught \
             up",
            duration(timeout)
        ),
        RelayNotice::AcksResumed { replicas } => {
            info!("{replicas} replicas have caught up: replication is semi-synchronous again");
        }
        RelayNotice::NotAccepted { error } => {
            warn!("could not accept a connection: {error}; clients wait until the relay can");
        }
        RelayNotice::NoThread { error } => warn!("refused a client: could not start a thread: {error}"),
        other => warn!("{other:?}"),
    }
}

fn with_advice(error: RelayServerError) -> anyhow::Error {
    const ACCOUNTS_ADVICE: ErrorAdvice = ErrorAdvice(
        "listen on 127.0.0.1, or add an account: bintide relay user add NAME --accounts DIR/accounts.toml",
    );
    let needs_account = matches!(error, RelayServerError::NoAccounts { .. });
    let error = anyhow::Error::from(error);
    if needs_account { error.context(ACCOUNTS_ADVICE) } else { error }
}

/// Allows two descriptors for each connection: its socket, and for a semi-synchronous replica the signal that logs have
/// grown. If the system refuses, fewer clients can connect.
fn raise_descriptor_limit(connections: usize) {
    let required = 2 * connections as u64 + OTHER_DESCRIPTORS;
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < required
        && let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, required.min(hard), hard)
    {
        warn!("could not raise the limit of open files from {soft} to {required}: {error}");
    }
}
