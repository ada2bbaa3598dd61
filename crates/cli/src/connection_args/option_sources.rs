//! Connection options from option files, addresses and environment variables.

use std::env;
use std::sync::Once;

use anyhow::anyhow;
use option_files::{FileChoice, FileOption, OptionFileEnvironment};
use servers::{ConnectionOptions, PasswordOption, PasswordSource};
use tracing::warn;

use super::option_table::PASSWORD;
use crate::exit::CommandFailure;
use crate::global_args::GlobalArgs;
use crate::option_file_messages::OptionFileMessages;

/// Reads the option files.
pub(super) fn read_files(
    mut choice: FileChoice,
    groups: &[&str],
    environment: &OptionFileEnvironment,
) -> Result<Vec<FileOption>, CommandFailure> {
    let mut messages = OptionFileMessages::default();
    let read = option_files::read(&mut choice, groups, environment, &mut messages);
    // MySQL's programs ignore a missing included file. bintide does not: the options in it would be lost.
    let lines = read.ok().filter(|_| !messages.has_errors()).ok_or_else(|| {
        CommandFailure::NotStarted(anyhow!("could not read the option files: {}", messages.errors()))
    })?;
    match &choice.login_path {
        Some(path)
            if !choice.login_none && !lines.iter().any(|line| line.group.eq_ignore_ascii_case(path)) =>
        {
            let path = String::from_utf8_lossy(path);
            Err(CommandFailure::NotStarted(anyhow!(
                "--login-path: the login path file does not contain {path}; run mysql_config_editor print --all to \
                 list its login paths"
            )))
        }
        _ => Ok(lines),
    }
}

/// Returns the connection options in lines of option files.
pub(super) fn options_of_lines(lines: &[FileOption]) -> Result<ConnectionOptions, CommandFailure> {
    ConnectionOptions::of_files(lines).map_err(|error| CommandFailure::NotStarted(error.into()))
}

/// Returns the connection options in an address; `option` is the option with the address.
pub(super) fn options_of_address(
    text: Option<&str>,
    option: &str,
    global: &GlobalArgs,
) -> Result<ConnectionOptions, CommandFailure> {
    let Some(text) = text else { return Ok(ConnectionOptions::default()) };
    let options = ConnectionOptions::of_address(text);
    let options = options.map_err(|error| CommandFailure::NotStarted(anyhow!("{option}: {error}")))?;
    if options.password.as_ref().is_some_and(is_text) {
        remark_on_open_password(global);
    }
    Ok(options)
}

/// Returns the options of MySQL's environment variables.
pub(crate) fn options_of_environment() -> ConnectionOptions {
    const VARIABLES: [(&str, &str); 6] = [
        ("MYSQL_HOST", "host"),
        ("MYSQL_TCP_PORT", "port"),
        ("MYSQL_UNIX_PORT", "socket"),
        ("MYSQL_PWD", PASSWORD),
        ("LOGNAME", "user"),
        ("USER", "user"),
    ];
    let mut options = ConnectionOptions::default();
    for (variable, name) in VARIABLES {
        if let Some(value) = env::var(variable).ok().filter(|value| !value.is_empty()) {
            // MySQL's programs also ignore a port that is not a number.
            let _ = options.set(name, Some(&value));
        }
    }
    options
}

/// Returns true if the password itself is given.
pub(super) fn is_text(password: &PasswordOption) -> bool {
    matches!(password, PasswordOption::Source(PasswordSource::Text(_)))
}

/// Warns once about a password on the command line.
pub(crate) fn remark_on_open_password(global: &GlobalArgs) {
    static REMARK: Once = Once::new();
    if global.quiet {
        return;
    }
    REMARK.call_once(|| {
        warn!(
            "other users of this machine may see a password on the command line; use --password-file, \
             --password-command, --defaults-file or --login-path"
        );
    });
}
