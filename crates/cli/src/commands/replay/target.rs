//! What transactions are applied to: `--to`, and the password of its account.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, ValueEnum};
#[cfg(feature = "sqlite")]
use replay::SqliteTarget;
use replay::{ApplyAs, MysqlTarget, Target};
use servers::Address;

use crate::exit::Failure;

/// Which target, and as whom.
#[derive(Args, Debug)]
pub(super) struct To {
    /// The server to apply them to: mysql://USER@HOST:PORT/, or mysql://USER@localhost/?socket=PATH; with TLS,
    /// ?tls=required or ?tls-ca=FILE. Or a SQLite database, which is made if it is not there: sqlite:FILE.
    #[arg(long, value_name = "TARGET")]
    to: String,
    /// Read the account's password from the first line of this file; otherwise it is MYSQL_PWD's.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
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
pub(super) enum Named {
    Mysql(Box<Address>, ApplyAs),
    Sqlite(PathBuf),
}

impl To {
    /// Which target, and as whom; nothing is connected yet.
    pub(super) fn named(&self) -> Result<Named, Failure> {
        match self.to.strip_prefix(SQLITE) {
            Some("") => {
                Err(Failure::NotBegun(anyhow!("--to: sqlite: has a file behind it, as sqlite:copy.db")))
            }
            Some(path) => Ok(Named::Sqlite(path.into())),
            None => self.address().map(|address| Named::Mysql(address.into(), self.apply_as.into())),
        }
    }

    fn address(&self) -> Result<Address, Failure> {
        let mut address =
            Address::parse(&self.to).map_err(|error| Failure::NotBegun(anyhow!("--to: {error}")))?;
        if let Some(path) = &self.password_file {
            address.password = Some(first_line(path).map_err(Failure::NotBegun)?);
        } else if address.password.is_none() {
            address.password = std::env::var("MYSQL_PWD").ok();
        }
        Ok(address)
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

    /// What transactions are applied to.
    pub(super) fn target(&self) -> &dyn Target {
        match self {
            Self::Mysql(target) => &**target,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(target) => target,
        }
    }

    /// May several sessions apply transactions at once?
    pub(super) const fn is_parallel(&self) -> bool {
        matches!(self, Self::Mysql(_))
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

fn first_line(path: &Path) -> Result<String, anyhow::Error> {
    let text = std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
