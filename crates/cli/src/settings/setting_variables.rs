//! Environment variables with settings.

use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};

use clap::Command;
use option_files::nearest_name;
use tracing::warn;

use super::{keys, options, suggestion};

/// Prefix of all variables.
const VARIABLE_PREFIX: &str = "BINTIDE_";

/// Returns whether any variable has the prefix of settings.
pub(crate) fn has_variables() -> bool {
    env::vars_os().any(|(name, _)| name.as_encoded_bytes().starts_with(VARIABLE_PREFIX.as_bytes()))
}

/// Variable that has the prefix of settings, but no option.
pub(crate) struct UnknownVariable {
    name: String,
    /// Remark on the name; empty if there is none.
    remark: String,
}

/// Returns variables that have the prefix of settings, but no option.
pub(crate) fn unknown_variables(command: &Command) -> Vec<UnknownVariable> {
    let mut known: BTreeSet<String> = ["BINTIDE_CONFIG".to_owned()].into();
    let general: Vec<String> = options(command).into_iter().map(|(_, long)| long).collect();
    known.extend(general.iter().map(|long| variable_name(None, long)));
    for (name, inner) in command.get_subcommands().map(|inner| (inner.get_name(), inner)) {
        for long in keys(inner) {
            known.extend([variable_name(None, &long), variable_name(Some(name), &long)]);
        }
    }
    let set = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut unknown: Vec<String> =
        set.filter(|name| name.starts_with(VARIABLE_PREFIX) && !known.contains(name)).collect();
    unknown.sort_unstable();
    let remark = |name: &str| {
        let is_of_command = |long: &&String| {
            let mut commands = command.get_subcommands().map(Command::get_name);
            commands.any(|command| variable_name(Some(command), long) == name)
        };
        if let Some(long) = general.iter().find(is_of_command) {
            return format!(" ({} sets --{long} for all commands)", variable_name(None, long));
        }
        let letters = name.len() - VARIABLE_PREFIX.len();
        suggestion(nearest_name(name, letters, known.iter().map(String::as_str)))
    };
    unknown.into_iter().map(|name| UnknownVariable { remark: remark(&name), name }).collect()
}

/// Warns of unknown variables.
pub(crate) fn warn_unknown(unknown: &[UnknownVariable]) {
    for UnknownVariable { name, remark } in unknown {
        warn!("ignored {name}: unknown setting{remark}; see Settings in `bintide --help`");
    }
}

/// Returns the variable that sets an option, if there is one. An empty variable counts as not set.
pub(super) fn find_variable(command: Option<&str>, long: &str) -> Option<(String, OsString)> {
    let names = [command.map(|command| variable_name(Some(command), long)), Some(variable_name(None, long))];
    names.into_iter().flatten().find_map(|name| {
        let value = env::var_os(&name).filter(|value| value != OsStr::new(""))?;
        Some((name, value))
    })
}

/// Returns the name of the variable that sets an option, of one command or of all.
pub(super) fn variable_name(command: Option<&str>, long: &str) -> String {
    let shouted = |name: &str| name.replace('-', "_").to_uppercase();
    let parts = [command.map(shouted), Some(shouted(long))];
    format!("{VARIABLE_PREFIX}{}", parts.into_iter().flatten().collect::<Vec<String>>().join("_"))
}
