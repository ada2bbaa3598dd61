//! `bintide relay user`: accounts of a relay.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use anyhow::anyhow;
use clap::{Args, Subcommand};
use relay::{
    AccountFile, AccountRole, FormChoice, HostPattern, RelayAccount, RelayAccounts, TransportRequirement,
};
use serde_json::{Value, json};
use servers::{CancelToken, PasswordSource};
use wire::{PasswordPlugin, StoredPassword};

use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::json_document::write_document;
use crate::value_parsers::number_within;

/// Arguments of `relay user`.
#[derive(Args, Debug)]
pub(super) struct AccountsArgs {
    #[command(subcommand)]
    action: AccountAction,
}

/// Commands of `relay user`.
#[derive(Debug, Subcommand)]
enum AccountAction {
    /// Add an account.
    Add(AddArgs),
    /// Remove all accounts with this name.
    Remove(RemoveArgs),
    /// List all accounts.
    List(ListArgs),
}

/// Arguments of `relay user add`.
#[derive(Args, Debug)]
struct AddArgs {
    /// Name of the account
    name: String,
    /// File of accounts. It is created if it does not exist; its directory must exist.
    #[arg(long, value_name = "FILE")]
    accounts: PathBuf,
    /// Read the password from the first line of this file; without it, bintide prompts for the password.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Role: replica may read logs; monitor may query the relay's status by SQL; admin may do both, and control the
    /// relay by SQL (such as KILL, PURGE and SET GLOBAL)
    #[arg(long, default_value = "replica", value_name = "ROLE")]
    role: AccountRole,
    /// Host from which the account may log in: an address, a network such as 10.0.0.0/8, a pattern such as 10.0.%,
    /// localhost, or % for any. Repeat the option for more hosts
    #[arg(long, default_value = "%", value_name = "HOST")]
    host: Vec<HostPattern>,
    /// Form of the logs: as-is, plain, compressed, compressed:LEVEL, or auto (the form of relay --form)
    #[arg(long, default_value = "auto", value_name = "FORM")]
    form: FormChoice,
    /// Required security of the connection: none, tls, or certificate
    #[arg(long, default_value = "none", value_name = "REQUIREMENT")]
    require: TransportRequirement,
    /// Maximum number of connections of the account at the same time
    #[arg(long, value_name = "NUMBER", value_parser = number_within::<u32>(1..=u32::MAX))]
    connections: Option<u32>,
    /// Use mysql_native_password, for clients without caching_sha2_password: MySQL before 8.0, MariaDB
    #[arg(long)]
    native_password: bool,
    /// Add the account without a password: clients can log in with the name alone
    #[arg(long, conflicts_with_all = ["password_file", "native_password"])]
    no_password: bool,
}

/// Arguments of `relay user remove`.
#[derive(Args, Debug)]
struct RemoveArgs {
    /// Name of the account
    name: String,
    /// File of accounts
    #[arg(long, value_name = "FILE")]
    accounts: PathBuf,
}

/// Arguments of `relay user list`.
#[derive(Args, Debug)]
struct ListArgs {
    /// File of accounts
    #[arg(long, value_name = "FILE")]
    accounts: PathBuf,
    /// Print the accounts as a JSON document
    #[arg(long)]
    json: bool,
}

/// Changes or lists accounts.
pub(super) fn run(command: &AccountsArgs) -> CommandResult {
    match &command.action {
        AccountAction::Add(command) => {
            AccountFile::new(&command.accounts).add(&command.account()?).map_err(not_started)?;
        }
        AccountAction::Remove(command) => {
            AccountFile::new(&command.accounts).remove(&command.name).map_err(not_started)?;
        }
        AccountAction::List(command) => {
            check_exists(&command.accounts)?;
            let accounts = AccountFile::new(&command.accounts).load().map_err(not_started)?;
            match command.json {
                true => write_document(&mut io::stdout(), &accounts_document(&accounts))?,
                false => io::stdout().write_all(accounts_table(&accounts).as_bytes())?,
            }
        }
    }
    Ok(CommandVerdict::Success)
}

/// Refuses a missing file: a wrong path would look like a relay without accounts.
fn check_exists(accounts: &Path) -> Result<(), CommandFailure> {
    match fs::metadata(accounts) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(CommandFailure::NotStarted(anyhow!(
            "{} does not exist: `bintide relay user add` creates it",
            accounts.display()
        ))),
        _ => Ok(()),
    }
}

/// Returns the accounts as a table, a line each.
fn accounts_table(accounts: &RelayAccounts) -> String {
    let mut table = format!("{:<20} {:<24} {:<8} {:<12} {}\n", "name", "hosts", "role", "require", "form");
    for account in accounts.iter() {
        let RelayAccount { name, role, requirement, form, .. } = account;
        let (role, requirement) = (role.to_string(), requirement.to_string());
        table +=
            &format!("{name:<20} {:<24} {role:<8} {requirement:<12} {form}\n", host_names(account).join(","));
    }
    table
}

/// Returns the accounts without their passwords.
fn accounts_document(accounts: &RelayAccounts) -> Value {
    let rows: Vec<Value> = accounts
        .iter()
        .map(|account| {
            json!({
                "name": account.name,
                "hosts": host_names(account),
                "role": account.role.to_string(),
                "require": account.requirement.to_string(),
                "form": account.form.to_string(),
                "connections": account.connections_max,
            })
        })
        .collect();
    json!({ "accounts": rows })
}

fn host_names(account: &RelayAccount) -> Vec<String> {
    account.hosts.iter().map(ToString::to_string).collect()
}

fn not_started(error: relay::AccountFileError) -> CommandFailure {
    CommandFailure::NotStarted(error.into())
}

impl AddArgs {
    fn account(&self) -> Result<RelayAccount, CommandFailure> {
        let password = self.password()?;
        let stored = match (password.as_str(), self.native_password) {
            (_, true) => Ok(StoredPassword::native(password.as_bytes())),
            ("", false) => Ok(StoredPassword::empty(PasswordPlugin::CachingSha2)),
            (_, false) => {
                let mut seed = [0; 32];
                getrandom::fill(&mut seed).map_err(|error| CommandFailure::NotStarted(error.into()))?;
                StoredPassword::caching_sha2(password.as_bytes(), seed)
            }
        };
        Ok(RelayAccount {
            name: self.name.clone(),
            hosts: self.host.clone(),
            password: stored.map_err(|error| CommandFailure::NotStarted(error.into()))?,
            role: self.role,
            requirement: self.require,
            form: self.form,
            connections_max: self.connections,
        })
    }

    /// Returns the password; an empty one only if requested.
    fn password(&self) -> Result<String, CommandFailure> {
        if self.no_password {
            return Ok(String::new());
        }
        let password = self.read_password()?;
        match (password.is_empty(), &self.password_file) {
            (false, _) => Ok(password),
            (true, Some(path)) => Err(CommandFailure::NotStarted(anyhow!(
                "the first line of {} is empty: write the password there, or give --no-password for an account without \
                 a password",
                path.display()
            ))),
            (true, None) => Err(CommandFailure::NotStarted(anyhow!(
                "the password is empty: type one, or give --no-password for an account without a password"
            ))),
        }
    }

    fn read_password(&self) -> Result<String, CommandFailure> {
        let Some(path) = &self.password_file else {
            let password = rpassword::prompt_password("Password: ");
            return password.map_err(|error| {
                CommandFailure::NotStarted(anyhow!("could not read the password from the terminal: {error}"))
            });
        };
        let password = PasswordSource::File(path.clone()).read(&CancelToken::default());
        password.map_err(|error| CommandFailure::NotStarted(error.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_files_are_no_empty_lists() {
        let directory = tempfile::tempdir().unwrap();
        assert!(check_exists(&directory.path().join("accounts.toml")).is_err());
        assert!(check_exists(directory.path()).is_ok());
    }

    #[test]
    fn accounts_are_listed_without_their_passwords() {
        let accounts = RelayAccounts::new(vec![RelayAccount {
            name: "repl".to_owned(),
            hosts: vec!["10.0.0.0/8".parse().unwrap(), "localhost".parse().unwrap()],
            password: StoredPassword::native(b"secret"),
            role: AccountRole::Replica,
            requirement: TransportRequirement::Tls,
            form: FormChoice::Auto,
            connections_max: Some(3),
        }]);
        let expected = json!([{
            "name": "repl",
            "hosts": ["10.0.0.0/8", "localhost"],
            "role": "replica",
            "require": "tls",
            "form": "auto",
            "connections": 3,
        }]);
        assert_eq!(accounts_document(&accounts), json!({ "accounts": expected }));
        let table = accounts_table(&accounts);
        let words: Vec<&str> = table.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(words, ["repl", "10.0.0.0/8,localhost", "replica", "tls", "auto"]);
    }
}
