//! `bintide warm`: reads pages that a replica's applier will need into memory ahead of it.

mod status_text;
mod warm_metrics;
mod warm_progress_monitor;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::anyhow;
use binlog::server_error::SPECIFIC_ACCESS_DENIED_ERROR;
use clap::Args;
use servers::{ConnectionOptions, PasswordSource, ServerAddress};
use warm::{FixedPace, NonReplicaPolicy, SearchConnections, WarmPace, WarmSettings};

pub(crate) use crate::commands::warm::status_text::{document, sentence};
pub(crate) use crate::commands::warm::warm_metrics::WARM_METRICS;
pub(crate) use crate::commands::warm::warm_progress_monitor::SharedWarmStatus;

use crate::commands::warm::warm_progress_monitor::WarmProgressMonitor;
use crate::connection_args::ConnectionArgs;
use crate::exit::{CommandFailure, CommandResult, ErrorAdvice};
use crate::global_args::GlobalArgs;
use crate::http_site::HttpSite;
use crate::interrupt;
use crate::log_args;
use crate::metrics::MetricsArgs;
use crate::metrics_registry::MetricsRegistry;
use crate::output_format::OutputFormat;
use crate::value_parsers::{number_within, parse_number};

pub(crate) const EXAMPLES: &str = "\
Examples:
  For a lagging replica, on the replica's machine, until Ctrl-C:
      bintide warm --socket /run/mysqld/mysqld.sock -u warm \\
          --password-file ~/.pw
  For one replication channel, with metrics for Prometheus:
      bintide warm -h 127.0.0.1 -u warm --channel east --metrics 127.0.0.1:9104
  With the rules of Replication Booster, at most five seconds ahead:
      bintide warm -h 127.0.0.1 -u warm -p -t 20 -s 5

warm reads the replica's relay logs, so run it on the replica's machine, as a
user who may read them. The account needs SELECT on the tables and REPLICATION
CLIENT (on MariaDB since 10.5, SLAVE MONITOR). With SELECT on
performance_schema, warm measures how many pages warm and the applier read. With
PROCESS, it sees the applier's position inside a large transaction. warm changes
no data and locks no rows; DDL may wait for one of its statements.

-p WORD uses the next word as the password, as in Replication Booster.";

const HOST_HELP: &str =
    "Host name of the replica. localhost means the Unix socket file, except with --port [default: 127.0.0.1]";

/// Arguments of `warm`.
#[derive(Args, Debug)]
#[command(mut_arg("host", |arg| arg.help(HOST_HELP)))]
#[command(mut_arg("user", |arg| arg.help("User name of the account [default: root]")))]
pub(crate) struct WarmArgs {
    /// Number of connections that search for pages [default: 10, or up to 32 if reading a page takes long]
    #[arg(short, long, value_name = "N", value_parser = number_within::<u16>(1..=1000))]
    threads: Option<u16>,
    /// Skip this number of events after the applier's position: read no pages for them. -o, -s and -m are the fixed
    /// limits of Replication Booster, an older tool. If one is given, all three replace the automatic limit on how far
    /// ahead warm reads [default with -s or -m: 500]
    #[arg(short, long, value_name = "EVENTS", value_parser = parse_number::<u64>)]
    offset_events: Option<u64>,
    /// Stay at most this number of seconds ahead, in the source's time [default with -o or -m: 3]
    #[arg(short, long, value_name = "SECONDS", value_parser = parse_number::<u32>)]
    seconds_prefetch: Option<u32>,
    /// Sleep this number of milliseconds when the limit of -s is reached [default with -o or -s: 10]
    #[arg(short, long, value_name = "MILLISECONDS", value_parser = parse_number::<u64>)]
    millis_sleep: Option<u64>,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Account that queries the replica's position, if it differs from --user.
    #[arg(short, long = "admin_user", value_name = "USER")]
    admin_user: Option<String>,
    /// Password of --admin_user.
    #[arg(short = 'b', long = "admin_password", value_name = "PASSWORD")]
    admin_password: Option<String>,
    /// Read ahead only for this replication channel [default: all channels]
    #[arg(long, value_name = "NAME")]
    channel: Option<String>,
    /// Directory or index file of the relay logs, if they are not where the replica reports them.
    #[arg(long, value_name = "PATH")]
    relay_logs: Option<PathBuf>,
    /// Keyring file for encrypted relay logs.
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
    /// Also accept a server that is not a replica: search for all changes in --relay-logs. Has no effect on a replica.
    #[arg(long, requires = "relay_logs")]
    force: bool,
    #[command(flatten)]
    metrics: MetricsArgs,
    /// Print the result as one JSON document.
    #[arg(long)]
    json: bool,
}

/// Defaults of Replication Booster.
const BOOSTER_PACE: FixedPace = FixedPace { offset_events: 500, seconds_prefetch: 3, millis_sleep: 10 };

/// Warms until it is stopped.
pub(crate) fn run(command: &WarmArgs, global: &GlobalArgs) -> CommandResult {
    command.metrics.check()?;
    interrupt::set_runs_until_stopped();
    let settings = command.settings(global)?;
    let stats = SharedWarmStatus::default();
    let shown = stats.clone();
    let registry = MetricsRegistry::new().with(WARM_METRICS, move || shown.get());
    let served = command.metrics.serve(HttpSite::new(registry, Arc::new(stats.clone())))?;
    let mut watch = WarmProgressMonitor::new(global, stats);
    let report = warm::warm(&settings, &mut watch).map_err(|error| watch.failure(error))?;
    drop(served);
    watch.print(&report, OutputFormat::of(command.json))
}

impl WarmArgs {
    fn settings(&self, global: &GlobalArgs) -> Result<WarmSettings, CommandFailure> {
        let address = self.address(global)?;
        let mut admin = address.clone();
        if let Some(user) = &self.admin_user {
            admin.user.clone_from(user);
        }
        if let Some(password) = &self.admin_password {
            admin.password = PasswordSource::Text(password.clone());
        }
        Ok(WarmSettings {
            address,
            admin,
            channel: self.channel.clone(),
            relay_logs: self.relay_logs.clone(),
            keyring: self.keyring.clone(),
            threads: self.threads(),
            pace: self.pace(),
            non_replica: if self.force { NonReplicaPolicy::Allow } else { NonReplicaPolicy::Refuse },
        })
    }

    fn threads(&self) -> SearchConnections {
        match (self.threads, self.pace()) {
            (Some(threads), _) => SearchConnections::fixed(threads.into()),
            (None, WarmPace::Measured) => SearchConnections::MEASURED,
            (None, WarmPace::Fixed(_)) => SearchConnections::fixed(SearchConnections::MEASURED.usual),
        }
    }

    /// Returns the pace: if any rule of Replication Booster is given, all of its rules apply.
    fn pace(&self) -> WarmPace {
        match (self.offset_events, self.seconds_prefetch, self.millis_sleep) {
            (None, None, None) => WarmPace::Measured,
            (events, seconds, millis) => WarmPace::Fixed(FixedPace {
                offset_events: events.unwrap_or(BOOSTER_PACE.offset_events),
                seconds_prefetch: seconds.unwrap_or(BOOSTER_PACE.seconds_prefetch),
                millis_sleep: millis.unwrap_or(BOOSTER_PACE.millis_sleep),
            }),
        }
    }

    /// Returns the replica's address. Defaults: 127.0.0.1 and the account root.
    fn address(&self, global: &GlobalArgs) -> Result<ServerAddress, CommandFailure> {
        let own = ConnectionOptions {
            user: Some("root".to_owned()),
            host: Some("127.0.0.1".to_owned()),
            ..ConnectionOptions::default()
        };
        self.connection.address_with(Some("mysql://"), "warm", &own, global)
    }
}

/// Adds a remedy to the error, if one is known.
fn add_advice(error: warm::WarmError) -> anyhow::Error {
    if let warm::WarmError::Server { doing, cause: servers::ConnectionError::PlaintextPassword { plugin } } =
        &error
    {
        return anyhow!(
            "could not {doing}: {plugin} needs the cleartext password, because the server has not cached it (or the \
             password is wrong), but the connection is not encrypted: set --ssl-mode=REQUIRED, or connect by --socket; \
             if the server has no TLS, --get-server-public-key requests the RSA public key that encrypts the password, \
             and --server-public-key-path FILE names a copy of that key"
        );
    }
    let advice = match &error {
        warm::WarmError::Log(logs::LogError::Io { cause, .. }) if cause.kind() == io::ErrorKind::NotFound => {
            Some(
                "relay logs are read as files: run bintide on the replica's machine, or give their directory with \
             --relay-logs",
            )
        }
        warm::WarmError::Server { cause: servers::ConnectionError::UnsupportedPlugin { .. }, .. } => {
            Some(ACCOUNT_ADVICE)
        }
        warm::WarmError::Server { cause, .. } => {
            let found = SERVER_ERROR_ADVICE.iter().find(|(code, _)| cause.code() == Some(*code));
            found.map(|(_, advice)| *advice)
        }
        _ => None,
    };
    match (advice, error) {
        (Some(advice), error) => anyhow::Error::new(error).context(ErrorAdvice(advice)),
        (None, warm::WarmError::Log(error)) => log_args::add_advice(error),
        (None, error) => error.into(),
    }
}

/// Advice for server errors that refuse the account or a privilege.
const SERVER_ERROR_ADVICE: [(u16, &str); 3] = [
    (1045, ACCOUNT_ADVICE),
    (1698, ACCOUNT_ADVICE),
    (SPECIFIC_ACCESS_DENIED_ERROR, "grant the account REPLICATION CLIENT (on MariaDB SLAVE MONITOR) ON *.*"),
];
const ACCOUNT_ADVICE: &str =
    "give an account that may log in, with --user and --password-file or --password, or with --defaults-file";
