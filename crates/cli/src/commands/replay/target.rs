//! What transactions are applied to: `--to`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
#[cfg(feature = "sqlite")]
use replay::SqliteTarget;
use replay::{ApplyAs, MysqlTarget, Target};
use servers::Address;

use crate::args::Global;
use crate::connection_args::{ConnectionArgs, Sharing, VerifyServer};
use crate::exit::Failure;

/// Which target, and as whom.
#[derive(Args, Debug)]
pub(super) struct To {
    /// Target: a server, as mysql://USER@HOST:PORT/ or mysql://USER@localhost/?socket=FILE; the connection options below
    /// can complete or replace this address. Or a SQLite database, as sqlite:FILE; it is created if it does not exist.
    #[arg(long, value_name = "TARGET", required_unless_present_any = NAMING_TARGET)]
    to: Option<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// How row changes are made on a server.
    #[arg(long, value_enum, default_value_t = As::Auto)]
    apply_as: As,
}

/// How row changes are made on a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum As {
    /// As events where the server and the account allow it, else as SQL statements.
    Auto,
    /// As the events that they are, in BINLOG statements.
    Binlog,
    /// As INSERT, UPDATE and DELETE statements.
    Sql,
}

impl From<As> for ApplyAs {
    fn from(named: As) -> Self {
        match named {
            As::Auto => Self::Auto,
            As::Binlog => Self::Binlog,
            As::Sql => Self::Sql,
        }
    }
}

/// The options of which one is enough to name a target.
const NAMING_TARGET: [&str; 5] = ["host", "port", "socket", "protocol", "login-path"];
/// How a target that is a server begins.
const MYSQL: &str = "mysql://";
/// How a target that is a SQLite database begins.
const SQLITE: &str = "sqlite:";

/// A target that is there to be applied to.
#[derive(Debug)]
pub(super) enum Opened {
    Mysql(Box<MysqlTarget>),
    #[cfg(feature = "sqlite")]
    Sqlite(SqliteTarget),
}

/// Which target: checked as far as that can be done without it.
#[derive(Clone)]
pub(super) enum Named {
    Mysql(Box<Address>, ApplyAs),
    Sqlite(PathBuf),
}

impl To {
    pub(super) const fn connection(&self) -> &ConnectionArgs {
        &self.connection
    }

    /// Which target, and as whom; nothing is connected yet.
    pub(super) fn named(&self, global: &Global) -> Result<Named, Failure> {
        let text = self.to.as_deref();
        match text.and_then(|text| text.strip_prefix(SQLITE)) {
            Some("") => {
                Err(Failure::NotBegun(anyhow!("--to: sqlite: has a file behind it, as sqlite:copy.db")))
            }
            Some(path) => Ok(Named::Sqlite(path.into())),
            // The text may be an address with a slip in it, and have a password.
            None if text.is_some_and(|text| !text.starts_with(MYSQL)) => Err(Failure::NotBegun(anyhow!(
                "--to{}: a target is a server, as mysql://USER@HOST:PORT/, or a SQLite database, as sqlite:FILE",
                text.filter(|text| !text.contains(['@', ':']))
                    .map(|text| format!(" {text}"))
                    .unwrap_or_default()
            ))),
            None => self
                .connection
                .address(text, "--to", global)
                .map(|address| Named::Mysql(address.into(), self.apply_as.into())),
        }
    }

    /// Returns the server of `--verify`. Its password is the target's, if it has none of its own.
    pub(super) fn verify_server(
        &self,
        text: &str,
        own: &ConnectionArgs<VerifyServer>,
        target: &Named,
        global: &Global,
    ) -> Result<Address, Failure> {
        let sharing = match target {
            Named::Mysql(target, _) => Sharing::Password(target.password.clone()),
            Named::Sqlite(_) => Sharing::All,
        };
        own.address_beside(&self.connection, sharing, text, global)
    }
}

/// Connects, and takes the target's lock.
pub(super) fn open(named: Named) -> Result<Opened, Failure> {
    let not_begun = |error: replay::Error| Failure::NotBegun(error.into());
    match named {
        Named::Mysql(address, apply_as) => {
            let target = MysqlTarget::open_as(*address, apply_as).map_err(not_begun)?;
            Ok(Opened::Mysql(target.into()))
        }
        #[cfg(feature = "sqlite")]
        Named::Sqlite(path) => SqliteTarget::open(&path).map(Opened::Sqlite).map_err(not_begun),
        #[cfg(not(feature = "sqlite"))]
        Named::Sqlite(path) => {
            let path = path.display();
            Err(Failure::NotBegun(anyhow!("--to sqlite:{path}: this bintide was built without SQLite")))
        }
    }
}

impl Named {
    /// The server's address; what only a server has is not to be had of a file.
    pub(super) fn server(&self, asked: &str) -> Result<&Address, Failure> {
        match self {
            Self::Mysql(address, _) => Ok(address),
            Self::Sqlite(_) => Err(Failure::NotBegun(anyhow!("{asked} is of servers: mysql://…"))),
        }
    }
}

impl Opened {
    /// Has what is applied written to the target's own binary log.
    pub(super) fn logging(self) -> Result<Self, Failure> {
        match self {
            Self::Mysql(target) => {
                let target = target.logging().map_err(|error| Failure::NotBegun(error.into()))?;
                Ok(Self::Mysql(target.into()))
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Err(Failure::NotBegun(anyhow!("--log: a SQLite database has no binary log"))),
        }
    }

    /// From here on, progress is in the logs that this server wrote.
    pub(super) fn set_source(&self, writer: Option<u32>) -> Result<(), Failure> {
        match (self, writer) {
            (Self::Mysql(target), Some(writer)) => {
                target.set_source(writer).map_err(|error| Failure::NotBegun(error.into()))
            }
            _ => Ok(()),
        }
    }

    /// What transactions are applied to.
    pub(super) fn target(&self) -> &dyn Target {
        match self {
            Self::Mysql(target) => &**target,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(target) => target,
        }
    }

    /// The sessions that apply, by a server's numbers for their connections.
    pub(super) fn connections(&self) -> Vec<u32> {
        match self {
            Self::Mysql(target) => target.connections(),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Vec::new(),
        }
    }

    /// What was done otherwise than on the source: a line each.
    pub(super) fn remarks(&self) -> Vec<String> {
        match self {
            Self::Mysql(target) => target.remarks(),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(target) => target.remarks().lines(),
        }
    }
}
