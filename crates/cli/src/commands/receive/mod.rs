//! `bintide receive`: a server's logs, byte for byte, as they are written.

mod begin;
mod candidate;
mod compress;
mod connection;
mod ended;
mod figures;
mod identity;
mod joined;
mod keep;
mod reached;
mod receiver;
mod refused;
mod room;
mod statistics;
mod turn;
mod unwritten;
mod waiting;
mod watch;

use std::path::PathBuf;

use anyhow::anyhow;
use binlog::Level;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};
use logs::{AtRest, Keep};
use servers::{Address, LinkOptions};
use wire::{Compression, End, SemiSync};

use crate::args::Global;
pub(crate) use crate::commands::receive::begin::Begin;
use crate::commands::receive::begin::Had;
pub(crate) use crate::commands::receive::ended::passes;
pub(crate) use crate::commands::receive::keep::parse as parse_keep;
pub(crate) use crate::commands::receive::receiver::{Receiver, Wanted, WhenFull};
pub(crate) use crate::commands::receive::refused::CANNOT_SEND;
pub(crate) use crate::commands::receive::watch::Watch;
use crate::commands::rewrite::level;
use crate::connection_args::ConnectionArgs;
use crate::exit::{Failure, Outcome};
use crate::interrupt;
use crate::metrics::Metrics;

pub(crate) const EXAMPLES: &str = "\
Examples:
  A copy of a server's logs that is never far behind, until Ctrl-C:
      bintide receive /backup/db1 --from 'mysql://repl@db1/?ssl-mode=REQUIRED' --password-file ~/.pw
  A week of them, watched by Prometheus:
      bintide receive /backup/db1 --from mysql://repl@db1/ --keep 7d --metrics 127.0.0.1:9104
  From a server, or the replica that takes its place:
      bintide receive /backup/db --from mysql://repl@db1/ --from mysql://repl@db2/
  Nobody who gets at the disk can read it:
      bintide receive /backup/db1 --from mysql://repl@db1/ --encrypt --keyring ~/keyring
  What there is now, and no more:
      bintide receive /backup/db1 --from mysql://repl@db1/ --stop-at-end

Stopped in whatever way, the same command goes on where it stopped. The account
needs REPLICATION SLAVE, and nothing else.";

/// Arguments of `receive`.
#[derive(Args, Debug)]
pub(crate) struct Receive {
    /// The directory that the logs are kept in: with an index, as a server's own. It is made if it is not there, and
    /// written on where it ends.
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Source server, as mysql://USER@HOST:PORT/ or mysql://USER@localhost/?socket=FILE. The connection options below
    /// can complete or replace this address. Given several times: when one source is lost, the next one that has all the
    /// transactions in DIR takes its place (MySQL with GTIDs).
    #[arg(long, value_name = "SOURCE")]
    from: Vec<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Begin an empty directory with this log of the source, as binlog.000042, instead of the oldest that it has.
    #[arg(long, value_name = "LOG", value_parser = NonEmptyStringValueParser::new())]
    start_log: Option<String>,
    /// Begin an empty directory with the log that has the source's first transaction which is none of these: what a
    /// backup has, as 5ea5ca5e-0001-4000-8000-000000000001:1-4711, or 0-1-270 of a MariaDB.
    #[arg(long, value_name = "GTIDS", conflicts_with = "start_log")]
    start_after_gtid: Option<Had>,
    /// Stop at the end of the last log, instead of waiting for more.
    #[arg(long)]
    stop_at_end: bool,
    /// Keep so much, and remove the oldest logs beyond it: a time as 12h or 7d, or a size as 500M or 100G. The log that
    /// is written to always stays.
    #[arg(long, value_name = "TIME|SIZE", value_parser = parse_keep)]
    keep: Option<Keep>,
    /// Acknowledge transactions once they are on this disk, to a source that waits for that (semi-synchronous
    /// replication).
    #[arg(long)]
    semi_sync: bool,
    /// Compress the transactions of each log once it is closed, as hard as binlog_transaction_compression_level_zstd says:
    /// 1 to 22. The source must have gtid_mode=ON, for positions are others then: beside each log goes positions.LOG.
    #[arg(long, value_name = "LEVEL", value_parser = level)]
    compress: Option<Level>,
    /// Encrypt the logs that begin from now on, as a server with binlog_encryption=ON does: each with a password of its own,
    /// which stands in it under the newest key of --keyring.
    #[arg(long)]
    encrypt: bool,
    /// The keyring file of --encrypt, and that a log is opened with that is encrypted and goes on:
    /// component_keyring_file's, or an old keyring_file's.
    #[arg(long, value_name = "FILE")]
    keyring: Option<PathBuf>,
    /// Compress the connection with this algorithm only; see --compression-algorithms.
    #[arg(long, value_enum, value_name = "ALGORITHM")]
    compression: Option<Network>,
    #[command(flatten)]
    metrics: Metrics,
    /// Print the outcome as one JSON document.
    #[arg(long)]
    json: bool,
}

/// How the network's bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Network {
    /// Not at all.
    None,
    /// By zlib.
    Zlib,
    /// By zstd.
    Zstd,
}

/// Receives until it is told to stop.
pub(crate) fn run(command: &Receive, global: &Global) -> Outcome {
    command.metrics.check()?;
    if !command.stop_at_end {
        interrupt::runs_until_stopped();
    }
    let addresses: Result<Vec<Address>, Failure> =
        sources(&command.from).map(|from| command.connection.address(from, "--from", global)).collect();
    let options = LinkOptions {
        compressions: command.compression.map(Into::into).into_iter().collect(),
        cancel: interrupt::cancel(),
        ..LinkOptions::default()
    };
    let wanted = Wanted {
        folder: command.folder.clone(),
        begin: command.begin(),
        end: if command.stop_at_end { End::LastEvent } else { End::Never },
        at_rest: command.at_rest()?,
        keep: command.keep,
        compress: command.compress,
        semi_sync: if command.semi_sync { SemiSync::On } else { SemiSync::Off },
        when_full: WhenFull::Wait,
    };
    let (mut receiver, store) = Receiver::open(wanted, addresses?, options, Watch::new(global), global)?;
    let board = receiver.board();
    let _served = command.metrics.serve(global, move || board.sheet())?;
    receiver.run(store)?;
    receiver.print(&command.folder, command.json)
}

/// The sources that are named; without one, the connection options name it alone.
pub(crate) fn sources(from: &[String]) -> impl Iterator<Item = Option<&str>> {
    let named_by_options = from.is_empty().then_some(None);
    from.iter().map(|from| Some(from.as_str())).chain(named_by_options)
}

impl Receive {
    fn at_rest(&self) -> Result<AtRest, Failure> {
        match (self.encrypt, self.keyring.clone()) {
            (true, Some(keyring)) => Ok(AtRest::Encrypted { keyring }),
            (false, keyring) => Ok(AtRest::Plain { keyring }),
            (true, None) => {
                let why =
                    "--encrypt needs --keyring FILE: the key that logs are encrypted with comes from there";
                Err(Failure::NotBegun(anyhow!(why)))
            }
        }
    }

    fn begin(&self) -> Begin {
        match (&self.start_log, &self.start_after_gtid) {
            (Some(log), _) => Begin::Log(log.clone()),
            (None, Some(had)) => Begin::After(had.clone()),
            (None, None) => Begin::Oldest,
        }
    }
}

impl From<Network> for Option<Compression> {
    fn from(network: Network) -> Self {
        match network {
            Network::None => None,
            Network::Zlib => Some(Compression::Zlib { level: 6 }),
            Network::Zstd => Some(Compression::Zstd { level: 3 }),
        }
    }
}
