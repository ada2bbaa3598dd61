//! Newest logs of a running server, received by the replication protocol into a temporary directory.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use clap::Args;
use logs::LogEncryption;
use receive::{DiskFullPolicy, LogReceiver, ReceiveControl, ReceiveOptions, SourceFailurePolicy, StartPoint};
use servers::{LinkOptions, ResultRow, ServerAddress, SqlConnection};
use tempfile::TempDir;
use wire::{ReplicaEnd, SemiSync};

use crate::commands::receive::ReceiveDisplay;
use crate::connection_args::ConnectionArgs;
use crate::exit::CommandFailure;
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::value_parsers::parse_positive_size;

/// Options that name a running server, whose newest logs are read.
#[derive(Args, Debug)]
pub(crate) struct NewestLogArgs {
    /// Read the newest logs of a running server: mysql://USER@HOST:PORT/, or mysql://USER@localhost/?socket=FILE. The
    /// connection options below complete or replace this address. The logs are received into a temporary directory, as
    /// a replica would receive them. Nothing is changed on the server.
    #[arg(long, value_name = "SERVER", conflicts_with = "logs")]
    from: Option<String>,
    /// With --from: approximate size of the newest logs to receive, such as 100M or 2G; always whole logs.
    #[arg(long, value_name = "SIZE", value_parser = parse_positive_size, default_value = "256M", conflicts_with = "logs")]
    fetch: u64,
    #[command(flatten)]
    connection: ConnectionArgs,
}

impl NewestLogArgs {
    /// Refuses LOG arguments together with a server.
    pub(crate) fn refuse_beside_logs(&self) -> Result<(), CommandFailure> {
        self.connection.refuse_beside_logs()
    }

    /// Queries the server with `query`, then receives its newest logs. Dropping the directory deletes them.
    pub(crate) fn fetch<T>(
        &self,
        global: &GlobalArgs,
        query: impl FnOnce(&mut SqlConnection, &ServerAddress) -> Result<T, CommandFailure>,
    ) -> Result<(TempDir, T), CommandFailure> {
        let address = self.connection.address(self.from.as_deref(), "--from", global)?;
        let own = Permissions::from_mode(0o700); // Logs contain the data of tables.
        let directory = tempfile::Builder::new().prefix("bintide-").permissions(own).tempdir();
        let directory = directory.context("could not create a temporary directory");
        let directory = directory.map_err(CommandFailure::NotStarted)?;
        let mut connection =
            SqlConnection::open(&address).map_err(|error| CommandFailure::NotStarted(error.into()))?;
        let answer = query(&mut connection, &address)?;
        let first = self.first_log(&mut connection).map_err(CommandFailure::NotStarted)?;
        drop(connection);
        receive(&directory, address, first, global)?;
        Ok((directory, answer))
    }

    /// Returns the oldest of the newest logs whose total size reaches `--fetch`.
    fn first_log(&self, connection: &mut SqlConnection) -> Result<String, anyhow::Error> {
        let logs = connection.rows("SHOW BINARY LOGS").context(
            "could not list the server's binary logs (privilege REPLICATION CLIENT, on MariaDB BINLOG MONITOR)",
        )?;
        let field = |row: &ResultRow, index: usize| {
            String::from_utf8_lossy(row.get(index).and_then(Option::as_deref).unwrap_or_default())
                .into_owned()
        };
        let mut size = 0_u64;
        let enough = logs.iter().rev().find(|row| {
            size = size.saturating_add(field(row, 1).parse().unwrap_or_default());
            size >= self.fetch
        });
        let first = enough.or(logs.first()).ok_or_else(|| anyhow!("the server has no binary log"))?;
        Ok(field(first, 0))
    }
}

fn receive(
    directory: &TempDir,
    address: ServerAddress,
    first: String,
    global: &GlobalArgs,
) -> Result<(), CommandFailure> {
    let options = LinkOptions { cancel: interrupt::cancel_on_interrupt(), ..LinkOptions::default() };
    let settings = ReceiveOptions {
        directory: directory.path().to_owned(),
        begin: StartPoint::Log(first),
        end: ReplicaEnd::LastEvent,
        at_rest: LogEncryption::Plain { keyring: None },
        keep: None,
        semi_sync: SemiSync::Off,
        compress: None,
        when_full: DiskFullPolicy::Fail,
        on_source_failure: SourceFailurePolicy::Fail,
        control: ReceiveControl::default(),
    };
    let display = Arc::new(ReceiveDisplay::new(global));
    let (receiver, store) = LogReceiver::open(settings, vec![address], options, display)?;
    let full = |error: anyhow::Error| {
        let is_full = error.downcast_ref::<logs::LogError>().is_some_and(logs::LogError::is_disk_full);
        match is_full {
            true => error.context(
                "not enough disk space for the logs: set TMPDIR to a larger directory, or lower --fetch",
            ),
            false => error,
        }
    };
    receiver.run(store).map_err(|failure| match failure.into() {
        CommandFailure::Aborted(error) => CommandFailure::Aborted(full(error)),
        other => other,
    })
}
