//! Target that transactions are applied to: `--to`.

use std::path::PathBuf;

use anyhow::anyhow;
use clap::{Args, ValueEnum};
use mysql_target::{ApplyAs, MysqlTarget};
use replay::ReplayTarget;
use servers::ServerAddress;
#[cfg(feature = "sqlite")]
use sqlite_target::SqliteTarget;

use crate::connection_args::{ConnectionArgs, CredentialSharing, VerifyServer};
use crate::exit::CommandFailure;
use crate::global_args::GlobalArgs;

/// Options that name the target and the account.
#[derive(Args, Debug)]
pub(super) struct TargetArgs {
    /// Target: a server, as mysql://USER@HOST:PORT/ or mysql://USER@localhost/?socket=FILE; the connection options
    /// below complete or replace this address. Or a SQLite database, as sqlite:FILE; it is created if it does not
    /// exist.
    #[arg(long, value_name = "TARGET", required_unless_present_any = TARGET_OPTIONS)]
    to: Option<String>,
    #[command(flatten)]
    connection: ConnectionArgs,
    /// Form in which row changes are applied to a server
    #[arg(long, value_enum, value_name = "METHOD", default_value_t = ApplyMethod::Auto)]
    apply_as: ApplyMethod,
}

/// Method that applies row changes to a server
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ApplyMethod {
    /// As events if the server and the account allow it, otherwise as SQL statements
    Auto,
    /// As row events, in BINLOG statements
    Binlog,
    /// As INSERT, UPDATE and DELETE statements
    Sql,
}

impl From<ApplyMethod> for ApplyAs {
    fn from(named: ApplyMethod) -> Self {
        match named {
            ApplyMethod::Auto => Self::Auto,
            ApplyMethod::Binlog => Self::Binlog,
            ApplyMethod::Sql => Self::Sql,
        }
    }
}

/// Options that each suffice to name a target.
const TARGET_OPTIONS: [&str; 5] = ["host", "port", "socket", "protocol", "login-path"];
/// Prefix of a server's address.
const MYSQL_SCHEME: &str = "mysql://";
/// Prefix of a SQLite database's address.
const SQLITE_SCHEME: &str = "sqlite:";

/// Connected target.
#[derive(Debug)]
pub(super) enum OpenTarget {
    Mysql(Box<MysqlTarget>),
    #[cfg(feature = "sqlite")]
    Sqlite(Box<SqliteTarget>),
}

/// Address of a target, checked as far as possible without a connection.
#[derive(Clone)]
pub(super) enum TargetAddress {
    Mysql(Box<ServerAddress>, ApplyAs),
    Sqlite(PathBuf),
}

impl TargetArgs {
    pub(super) const fn connection(&self) -> &ConnectionArgs {
        &self.connection
    }

    /// Returns the target's address and the account, without connecting.
    pub(super) fn named(&self, global: &GlobalArgs) -> Result<TargetAddress, CommandFailure> {
        let text = self.to.as_deref();
        match text.and_then(|text| text.strip_prefix(SQLITE_SCHEME)) {
            Some("") => Err(CommandFailure::NotStarted(anyhow!(
                "--to sqlite: needs a file name, such as sqlite:copy.db"
            ))),
            Some(path) => Ok(TargetAddress::Sqlite(path.into())),
            // The text may be a mistyped address that contains a password.
            None if text.is_some_and(|text| !text.starts_with(MYSQL_SCHEME)) => {
                Err(CommandFailure::NotStarted(anyhow!(
                    "--to{}: expected a server, as mysql://USER@HOST:PORT/, or a SQLite database, as sqlite:FILE",
                    text.filter(|text| !text.contains(['@', ':']))
                        .map(|text| format!(" {text}"))
                        .unwrap_or_default()
                )))
            }
            None => self
                .connection
                .address(text, "--to", global)
                .map(|address| TargetAddress::Mysql(address.into(), self.apply_as.into())),
        }
    }

    /// Returns the server of `--verify`. Uses the target's password if the server has none.
    pub(super) fn verify_server(
        &self,
        text: &str,
        own: &ConnectionArgs<VerifyServer>,
        target: &TargetAddress,
        global: &GlobalArgs,
    ) -> Result<ServerAddress, CommandFailure> {
        let sharing = match target {
            TargetAddress::Mysql(target, _) => CredentialSharing::Password(target.password.clone()),
            TargetAddress::Sqlite(_) => CredentialSharing::All,
        };
        own.address_beside(&self.connection, sharing, text, global)
    }
}

/// Connects to the target and takes its lock.
pub(super) fn open(named: TargetAddress) -> Result<OpenTarget, CommandFailure> {
    let not_begun = |error: replay::ReplayError| CommandFailure::NotStarted(error.into());
    match named {
        TargetAddress::Mysql(address, apply_as) => {
            let target = MysqlTarget::open_as(*address, apply_as).map_err(not_begun)?;
            Ok(OpenTarget::Mysql(target.into()))
        }
        #[cfg(feature = "sqlite")]
        TargetAddress::Sqlite(path) => {
            SqliteTarget::open(&path).map(|target| OpenTarget::Sqlite(Box::new(target))).map_err(not_begun)
        }
        #[cfg(not(feature = "sqlite"))]
        TargetAddress::Sqlite(path) => {
            let path = path.display();
            Err(CommandFailure::NotStarted(anyhow!(
                "--to sqlite:{path}: this bintide was built without SQLite"
            )))
        }
    }
}

impl TargetAddress {
    /// Returns the server's address. Fails for a SQLite database: `option` requires a server.
    pub(super) fn server(&self, option: &str) -> Result<&ServerAddress, CommandFailure> {
        match self {
            Self::Mysql(address, _) => Ok(address),
            Self::Sqlite(_) => {
                Err(CommandFailure::NotStarted(anyhow!("{option} requires a server as target: mysql://…")))
            }
        }
    }
}

impl OpenTarget {
    /// Makes the target write applied transactions to its own binary log.
    pub(super) fn enable_logging(self) -> Result<Self, CommandFailure> {
        match self {
            Self::Mysql(target) => {
                let target =
                    target.with_source_gtids().map_err(|error| CommandFailure::NotStarted(error.into()))?;
                Ok(Self::Mysql(target.into()))
            }
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => {
                Err(CommandFailure::NotStarted(anyhow!("--log: a SQLite database has no binary log")))
            }
        }
    }

    /// From now on, records progress in the logs of this server.
    pub(super) fn set_source(&self, writer: Option<u32>) -> Result<(), CommandFailure> {
        match (self, writer) {
            (Self::Mysql(target), Some(writer)) => {
                target.set_source(writer).map_err(|error| CommandFailure::NotStarted(error.into()))
            }
            _ => Ok(()),
        }
    }

    /// Returns the target that transactions are applied to.
    pub(super) fn target(&self) -> &dyn ReplayTarget {
        match self {
            Self::Mysql(target) => &**target,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(target) => &**target,
        }
    }

    /// Returns the connection ids of the sessions that apply transactions.
    pub(super) fn connections(&self) -> Vec<u32> {
        match self {
            Self::Mysql(target) => target.connection_ids(),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Vec::new(),
        }
    }

    /// Returns the differences from the source, one per line.
    pub(super) fn remarks(&self) -> Vec<String> {
        match self {
            Self::Mysql(target) => target.remarks(),
            #[cfg(feature = "sqlite")]
            Self::Sqlite(target) => target.remarks().lines(),
        }
    }
}
