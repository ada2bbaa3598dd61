//! What transactions are applied to: `--to`, and the password of its account.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use replay::MysqlTarget;
use servers::Address;

use crate::exit::Failure;

/// Which target, and as whom.
#[derive(Args, Debug)]
pub(super) struct To {
    /// The server to apply them to: mysql://USER@HOST:PORT/, or mysql://USER@localhost/?socket=PATH; with TLS,
    /// ?tls=required or ?tls-ca=FILE.
    #[arg(long, value_name = "TARGET")]
    to: String,
    /// Read the account's password from the first line of this file; otherwise it is MYSQL_PWD's.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

impl To {
    /// Which server, and as whom; nothing is connected yet.
    pub(super) fn address(&self) -> Result<Address, Failure> {
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
pub(super) fn open(address: Address) -> Result<MysqlTarget, Failure> {
    MysqlTarget::open(address).map_err(|error| Failure::NotBegun(error.into()))
}

fn first_line(path: &Path) -> Result<String, anyhow::Error> {
    let text = std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
