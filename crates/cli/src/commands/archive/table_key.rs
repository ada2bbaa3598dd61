//! `bintide archive table-key`: prints the key of encrypted change tables.

use std::io;
use std::sync::Arc;

use anyhow::anyhow;
use archive::MasterKey;
use binlog::encryption::Keyring;
use clap::Args;

use super::newest_key;
use crate::commands::receive::encryption_needs_keyring;
use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::screen;

/// Arguments of `archive table-key`.
#[derive(Args, Debug)]
pub(super) struct TableKeyArgs {
    /// Name of the key in the keyring, as manifests state it (archive ls --json) [default: the newest key]
    #[arg(long, value_name = "NAME")]
    key: Option<String>,
}

/// Prints the key.
pub(super) fn run(command: &TableKeyArgs, keyring: Option<Arc<Keyring>>) -> CommandResult {
    let keyring = keyring.ok_or_else(|| encryption_needs_keyring("table-key"))?;
    let key = match &command.key {
        Some(name) => MasterKey::named(&keyring, name)
            .map_err(|error| CommandFailure::NotStarted(anyhow!(error).context("--key")))?,
        None => newest_key(&keyring)?,
    };
    screen::print(&format!("{}\n", key.table_key().base64()), &mut io::stdout().lock())?;
    Ok(CommandVerdict::Success)
}
