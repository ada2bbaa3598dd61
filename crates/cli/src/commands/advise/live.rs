//! Newest logs of a running server, received by the replication protocol, and readings of the server.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;

use anyhow::{Context, anyhow};
use clap::Args;
use logs::AtRest;
use servers::{Address, Connection, LinkOptions};
use tempfile::TempDir;
use wire::{End, SemiSync};

use super::server::Server;
use crate::args::Global;
use crate::commands::receive::{Begin, Receiver, Wanted, Watch, WhenFull};
use crate::connection_args::ConnectionArgs;
use crate::exit::Failure;
use crate::interrupt;

/// Options that name a running server.
#[derive(Args, Debug)]
pub(super) struct Live {
    /// Advise a running server: mysql://USER@HOST:PORT/, or mysql://USER@localhost/?socket=FILE. The connection
    /// options below can complete or replace this address. The server's newest logs are received into a temporary
    /// directory, as a replica would receive them. The server is also queried for its settings, statistics and
    /// replication clients. Nothing is changed on the server.
    #[arg(long, value_name = "SERVER", conflicts_with = "logs")]
    from: Option<String>,
    /// Approximate size of the newest logs to receive, as 100M or 2G; always whole logs.
    #[arg(long, value_name = "SIZE", value_parser = super::sample_size, default_value = "256M", conflicts_with = "logs")]
    fetch: u64,
    #[command(flatten)]
    connection: ConnectionArgs,
}

/// Received logs and readings of the server. Dropping it deletes the logs.
pub(super) struct Fetched {
    pub(super) folder: TempDir,
    pub(super) server: Server,
}

impl Live {
    /// Refuses LOG arguments together with a server.
    pub(super) fn refuse_beside_logs(&self) -> Result<(), Failure> {
        self.connection.refuse_beside_logs()
    }

    /// Receives the newest logs and queries the server.
    pub(super) fn fetch(&self, global: &Global) -> Result<Fetched, Failure> {
        let address = self.connection.address(self.from.as_deref(), "--from", global)?;
        let own = Permissions::from_mode(0o700); // Logs contain the data of tables.
        let folder = tempfile::Builder::new().prefix("bintide-").permissions(own).tempdir();
        let folder = folder.context("could not create a temporary directory");
        let folder = folder.map_err(Failure::NotBegun)?;
        let mut connection = Connection::open(&address).map_err(|error| Failure::NotBegun(error.into()))?;
        let server = Server::ask(&mut connection);
        if server.is_mariadb() {
            return Err(Failure::NotBegun(anyhow!(
                "{address} is a MariaDB server, which has no binlog_transaction_compression: use MySQL 8.0.20 or newer"
            )));
        }
        let first = self.first_log(&mut connection).map_err(Failure::NotBegun)?;
        drop(connection);
        receive(&folder, address, first, global)?;
        Ok(Fetched { folder, server })
    }

    /// Returns the oldest of the newest logs whose total size reaches `--fetch`.
    fn first_log(&self, connection: &mut Connection) -> Result<String, anyhow::Error> {
        let logs = connection.rows("SHOW BINARY LOGS").context("could not list the server's binary logs")?;
        let field = |row: &servers::Row, index: usize| {
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

fn receive(folder: &TempDir, address: Address, first: String, global: &Global) -> Result<(), Failure> {
    let options = LinkOptions { cancel: interrupt::cancel(), ..LinkOptions::default() };
    let wanted = Wanted {
        folder: folder.path().to_owned(),
        begin: Begin::Log(first),
        end: End::LastEvent,
        at_rest: AtRest::Plain { keyring: None },
        keep: None,
        semi_sync: SemiSync::Off,
        compress: None,
        when_full: WhenFull::Fail,
    };
    let (mut receiver, store) = Receiver::open(wanted, vec![address], options, Watch::new(global), global)?;
    let full = |error: anyhow::Error| {
        let is_full = error.downcast_ref::<logs::Error>().is_some_and(logs::Error::is_full);
        match is_full {
            true => error.context(
                "not enough disk space for the logs: set TMPDIR to a larger directory, or lower --fetch",
            ),
            false => error,
        }
    };
    receiver.run(store).map(drop).map_err(|failure| match failure {
        Failure::Failed(error) => Failure::Failed(full(error)),
        other => other,
    })
}
