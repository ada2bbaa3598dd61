//! The account that a command uses on a server: its password, and MySQL's option files.

use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::Args;
use servers::{Address, Defaults, PublicKey};

use crate::args::Global;
use crate::exit::Failure;
use crate::interrupt;
use crate::screen;

/// As whom a server is reached.
#[derive(Args, Debug)]
pub(crate) struct Account {
    /// Read the account's password from the first line of this file.
    #[arg(long, value_name = "FILE", conflicts_with = "password")]
    password_file: Option<PathBuf>,
    /// Ask for the account's password on the terminal.
    #[arg(long)]
    password: bool,
    /// Take what the server's address does not say from the group [client] of this option file of MySQL: user,
    /// password, host, port, socket, ssl-mode, ssl-ca, get-server-public-key, server-public-key-path.
    #[arg(long, value_name = "FILE")]
    defaults_file: Option<PathBuf>,
    #[command(flatten)]
    key: Key,
}

/// What a password is encrypted by where the connection is not.
#[derive(Args, Clone, Debug)]
pub(crate) struct Key {
    /// Ask the server for the key that passwords are encrypted by without TLS. Whoever sits in between can send another,
    /// and read the password.
    #[arg(long)]
    get_server_public_key: bool,
    /// The file with that key, as PEM: a copy of the server's public_key.pem.
    #[arg(long, value_name = "FILE")]
    server_public_key_path: Option<PathBuf>,
}

impl Key {
    /// Where the key comes from: what is said here counts, and a file more than the server's word.
    pub(crate) fn or(&self, default: PublicKey) -> PublicKey {
        match (&self.server_public_key_path, self.get_server_public_key) {
            (Some(path), _) => PublicKey::File(path.clone()),
            (None, true) => PublicKey::OfServer,
            (None, false) => default,
        }
    }
}

impl Account {
    /// Whose password is in this file, if in any; the key is as this account has it.
    pub(crate) fn of_file(&self, password_file: Option<PathBuf>) -> Self {
        Self { password_file, password: false, defaults_file: None, key: self.key.clone() }
    }

    /// The server of this address, and as whom; nothing is connected yet. `option` is where the address was given.
    pub(crate) fn address(&self, text: &str, option: &str, global: &Global) -> Result<Address, Failure> {
        let mut address = self.parse(text, option, global)?;
        if let Some(password) = self.asked_for().map_err(Failure::NotBegun)? {
            address.password = Some(password);
        } else if address.password.is_none() {
            address.password = std::env::var("MYSQL_PWD").ok();
        }
        Ok(address)
    }

    /// Another server beside one whose address is known: its password is that one's, if it has none of its own.
    pub(crate) fn beside(
        &self,
        text: &str,
        option: &str,
        known: &Address,
        global: &Global,
    ) -> Result<Address, Failure> {
        let mut address = self.parse(text, option, global)?;
        if address.password.is_none() {
            address.password.clone_from(&known.password);
        }
        Ok(address)
    }

    fn parse(&self, text: &str, option: &str, global: &Global) -> Result<Address, Failure> {
        let is_open = Address::parse(text).is_ok_and(|address| address.password.is_some());
        if is_open {
            remark_on_open_password(global);
        }
        let defaults = self.defaults_file.as_deref().map(Defaults::read).transpose();
        let defaults = defaults.map_err(|error| Failure::NotBegun(error.into()))?.unwrap_or_default();
        let address = Address::parse_with(text, &defaults);
        let address = address.map_err(|error| Failure::NotBegun(anyhow!("{option}: {error}")))?;
        let public_key = self.key.or(address.public_key);
        Ok(Address { cancel: interrupt::cancel(), public_key, ..address })
    }

    fn asked_for(&self) -> Result<Option<String>, anyhow::Error> {
        if let Some(path) = &self.password_file {
            return first_line(path).map(Some);
        }
        if !self.password {
            return Ok(None);
        }
        let asked = rpassword::prompt_password("Enter password: ");
        asked.map(Some).context("could not ask for the password: there is no terminal; give --password-file")
    }
}

/// A password was given on the command line.
pub(crate) fn remark_on_open_password(global: &Global) {
    if !global.quiet {
        screen::remark(format_args!(
            "a password on the command line is in the shell's history, and other users can see it for a moment: \
             --password-file, --defaults-file and --password keep it to you"
        ));
    }
}

/// A password is the first line of its file.
pub(crate) fn first_line(path: &Path) -> Result<String, anyhow::Error> {
    let text = std::fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
