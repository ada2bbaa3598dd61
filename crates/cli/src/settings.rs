//! Settings from the environment and from a file, with lower priority than the command line.
//!
//! This module contains no names of options. `BINTIDE_STATS_TOP`, or `top` in the table `[stats]` of the file, sets the
//! option `--top` of the command `stats`. Without a command, a setting applies to all commands that have the option:
//! `BINTIDE_KEYRING`, or `keyring` above all tables.

mod required_options;
mod setting_conflicts;
mod setting_value;
mod setting_variables;
mod settings_file;

use std::ffi::OsString;

use anyhow::Context;
use clap::parser::ValueSource;
use clap::{Arg, ArgGroup, Command, Id};
use mysqlbinlog::{OptionPreset, presettable_options};

pub(crate) use self::required_options::with_required;
use self::setting_conflicts::{are_exclusive, without_overridden};
use self::setting_value::{GivenSetting, SettingValue, apply_layers, apply_setting};
pub(crate) use self::setting_value::{LAYERED_OPTIONS, SETTING_LAYERS, layers_id};
use self::setting_variables::find_variable;
pub(crate) use self::setting_variables::{has_variables, unknown_variables, warn_unknown};
pub(crate) use self::settings_file::{SettingsFile, config_path, load};
use self::settings_file::{in_file, value_texts};
use crate::exit::CommandFailure;

/// Name of the command whose options clap does not parse.
const DUMP_COMMAND: &str = "dump";

/// Makes the settings of the environment and the file the defaults of a command's options. Leaves out settings that
/// exclude an option on the command line.
pub(crate) fn apply_settings(
    command: Command,
    settings: &SettingsFile,
    args: &[OsString],
) -> Result<Command, CommandFailure> {
    // Without settings, skip the search for each option, so that commands start fast.
    if settings.table.is_empty() && !has_variables() {
        return Ok(command);
    }
    settings.check(&command)?;
    let typed = TypedOptions::find(&command, args);
    apply_to_commands(command, settings, &typed).map_err(CommandFailure::NotStarted)
}

/// Returns the settings of the command whose options clap does not parse. `command` is the whole command.
pub(crate) fn dump_presets(
    command: &Command,
    settings: &SettingsFile,
) -> Result<Vec<OptionPreset>, CommandFailure> {
    settings.check(command)?;
    let mut presets = Vec::new();
    for long in presettable_options() {
        let values = match find_variable(Some(DUMP_COMMAND), long) {
            Some((_, value)) => Some(vec![value]),
            None => in_file(&settings.table, DUMP_COMMAND, long)
                .with_context(|| settings.path.display().to_string())
                .map_err(CommandFailure::NotStarted)?
                .map(|values| values.into_iter().map(OsString::from).collect()),
        };
        presets.extend(values.map(|values| OptionPreset { option: long.to_owned(), values }));
    }
    Ok(presets)
}

/// Options and other arguments on the command line, of the command and of a command in it.
#[derive(Debug, Default)]
struct TypedOptions {
    /// Name of the command; empty if there is none.
    command: String,
    ids: Vec<Id>,
}

impl TypedOptions {
    /// Finds the command and its options on the command line. Ignores errors, which clap reports later.
    fn find(command: &Command, args: &[OsString]) -> Self {
        let Ok(matches) = command.clone().ignore_errors(true).try_get_matches_from(args) else {
            return Self::default();
        };
        let mut found = Self::default();
        let mut next = matches.subcommand().map(|(name, matches)| (command, name, matches));
        while let Some((outer, name, matches)) = next {
            let Some(inner) = outer.find_subcommand(name) else { break };
            if found.command.is_empty() {
                inner.get_name().clone_into(&mut found.command);
            }
            let is_typed = |id: &&Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
            found.ids.extend(inner.get_arguments().map(Arg::get_id).filter(is_typed).cloned());
            next = matches.subcommand().map(|(name, matches)| (inner, name, matches));
        }
        found
    }
}

fn apply_to_commands(
    command: Command,
    settings: &SettingsFile,
    typed: &TypedOptions,
) -> anyhow::Result<Command> {
    let command = apply_to_command(command, None, settings, &[])?;
    // Other commands may refuse values of this one.
    let name = &typed.command;
    match command.find_subcommand(name).filter(|_| name != DUMP_COMMAND).cloned() {
        Some(inner) => {
            let inner = apply_to_tree(inner, name, settings, &typed.ids)?;
            Ok(command.mut_subcommand(name, |_| inner))
        }
        None => Ok(command),
    }
}

/// Applies the settings of a command to it, and to the commands in it, such as `archive ls`.
fn apply_to_tree(
    command: Command,
    name: &str,
    settings: &SettingsFile,
    typed: &[Id],
) -> anyhow::Result<Command> {
    let mut command = apply_to_command(command, Some(name), settings, typed)?;
    let inner_names: Vec<String> =
        command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    for inner_name in inner_names {
        let Some(inner) = command.find_subcommand(&inner_name).cloned() else { continue };
        let inner = apply_to_tree(inner, name, settings, typed)?;
        command = command.mut_subcommand(inner_name, |_| inner);
    }
    Ok(command)
}

/// Applies the settings of one command's own options; `name` is `None` for the options of all commands. `typed` are the
/// options on the command line.
fn apply_to_command(
    mut command: Command,
    name: Option<&str>,
    settings: &SettingsFile,
    typed: &[Id],
) -> anyhow::Result<Command> {
    let mut given = Vec::new();
    for (id, long) in options(&command) {
        if let Some(value) = find_setting(name, &long, settings)? {
            given.push(GivenSetting { id, long, value });
        }
    }
    given.retain(|setting| !typed.iter().any(|other| are_exclusive(&command, &setting.id, other)));
    for setting in without_overridden(&command, given)? {
        command = apply_setting(command, setting)?;
    }
    if let Some(name) = name {
        for option in layered_options(&command) {
            command = apply_layers(command, name, &option, settings)?;
        }
    }
    Ok(command)
}

/// Returns the options of a command for which every layer counts.
fn layered_options(command: &Command) -> Vec<(Id, String)> {
    let groups = command.get_groups().filter(|group| group.get_id().as_str().ends_with(LAYERED_OPTIONS));
    let ids: Vec<&Id> = groups.flat_map(ArgGroup::get_args).collect();
    options(command).into_iter().filter(|(id, _)| ids.contains(&id)).collect()
}

/// Returns the setting of an option: from the environment, otherwise from the file.
fn find_setting(
    command: Option<&str>,
    long: &str,
    settings: &SettingsFile,
) -> anyhow::Result<Option<SettingValue>> {
    if let Some(variable) = find_variable(command, long) {
        return Ok(Some(SettingValue::in_variable(variable, long)));
    }
    let values = match command {
        Some(command) => in_file(&settings.table, command, long),
        None => settings.table.get(long).map(|value| value_texts(long, value)).transpose(),
    };
    let values = values.with_context(|| settings.path.display().to_string())?;
    Ok(values.map(|values| SettingValue::in_file(settings, command, long, values)))
}

/// Returns the options that settings can set: their ids in clap, and their long names.
fn options(command: &Command) -> Vec<(Id, String)> {
    let all =
        command.get_arguments().filter_map(|arg| Some((arg.get_id().clone(), arg.get_long()?.to_owned())));
    all.filter(|(_, long)| !["help", "version", "config"].contains(&long.as_str())).collect()
}

/// Returns the long names of the options of a command, and of the commands in it, that settings can set.
fn keys(command: &Command) -> Vec<String> {
    match command.get_name() {
        DUMP_COMMAND => presettable_options().map(|long| long.replace('_', "-")).collect(),
        _ => {
            let own = options(command).into_iter().map(|(_, long)| long);
            own.chain(command.get_subcommands().flat_map(keys)).collect()
        }
    }
}

/// Returns the end of a message about an unknown name.
fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!(" (did you mean {nearest}?)")).unwrap_or_default()
}
