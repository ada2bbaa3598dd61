//! Options of settings that options on the command line require.

use std::ffi::{OsStr, OsString};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgAction, Command};

use super::setting_value::is_on;

/// Returns the arguments with the options that they require and that only settings give. clap ignores defaults, as which
/// it has the settings, when an option on the command line requires another one.
pub(crate) fn with_required(command: &Command, mut args: Vec<OsString>) -> Vec<OsString> {
    loop {
        let Err(error) = command.clone().try_get_matches_from(&args) else { return args };
        let missing = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(missing)) if error.kind() == ErrorKind::MissingRequiredArgument => {
                missing
            }
            _ => return args,
        };
        let added: Vec<OsString> =
            missing.iter().flat_map(|usage| given_by_settings(command, usage, &args)).collect();
        // A second attempt with the same options would fail, too.
        if added.is_empty() || added.iter().any(|word| args.contains(word)) {
            return args;
        }
        let end = args.iter().position(|arg| arg == "--").unwrap_or(args.len());
        args.splice(end..end, added);
    }
}

/// Returns an option with the values that settings give it. `usage` is the option as in a message of clap.
fn given_by_settings(command: &Command, usage: &str, args: &[OsString]) -> Vec<OsString> {
    let name = usage.split([' ', '=', '[']).next().and_then(|word| word.strip_prefix("--"));
    let (Some(long), Some(inner)) = (name, chosen_command(command, args)) else { return Vec::new() };
    let Some(arg) = inner.get_arguments().find(|arg| arg.get_long() == Some(long)) else { return Vec::new() };
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
    let option = |value: &OsStr| {
        let mut word = OsString::from(format!("--{long}"));
        if !is_switch {
            word.push("=");
            word.push(value);
        }
        word
    };
    let values = arg.get_default_values().iter().filter(|value| !is_switch || is_on(value) == Some(true));
    values.map(|value| option(value)).collect()
}

/// Returns the innermost command that the arguments name.
fn chosen_command<'c>(command: &'c Command, args: &[OsString]) -> Option<&'c Command> {
    let matches = command.clone().ignore_errors(true).try_get_matches_from(args).ok()?;
    let (mut chosen, mut next) = (command, matches.subcommand());
    while let Some((name, matches)) = next {
        chosen = chosen.find_subcommand(name)?;
        next = matches.subcommand();
    }
    Some(chosen)
}
