//! Values of settings, as defaults of options.

use std::env;
use std::ffi::{OsStr, OsString};

use anyhow::{Context, anyhow, bail};
use clap::builder::Resettable;
use clap::{Arg, ArgAction, Command, Id};
use toml::{Table, Value};

use super::setting_variables::variable_name;
use super::settings_file::{SettingsFile, value_texts};
use crate::args;

/// Setting of an option.
pub(super) struct GivenSetting {
    /// The option's id in clap.
    pub(super) id: Id,
    /// The option's long name.
    pub(super) long: String,
    pub(super) value: SettingValue,
}

/// Value of a setting, and where it is set.
pub(super) struct SettingValue {
    pub(super) layer: SettingLayer,
    pub(super) origin: String,
    pub(super) values: Vec<OsString>,
}

/// Layers of settings, the strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum SettingLayer {
    /// Variable of a command.
    CommandVariable,
    /// Variable of all commands.
    Variable,
    /// Table of a command in the file.
    CommandTable,
    /// The part of the file above all tables.
    File,
}

impl SettingValue {
    pub(super) fn in_variable((name, value): (String, OsString), long: &str) -> Self {
        let is_of_all = name == variable_name(None, long);
        let layer = if is_of_all { SettingLayer::Variable } else { SettingLayer::CommandVariable };
        Self { layer, origin: name, values: vec![value] }
    }

    pub(super) fn in_file(
        settings: &SettingsFile,
        command: Option<&str>,
        long: &str,
        values: Vec<String>,
    ) -> Self {
        let own = command.and_then(|command| settings.table.get(command)).and_then(Value::as_table);
        let is_own = own.is_some_and(|own| own.contains_key(long));
        Self {
            layer: if is_own { SettingLayer::CommandTable } else { SettingLayer::File },
            origin: format!("`{long}` in {}", settings.path.display()),
            values: values.into_iter().map(OsString::from).collect(),
        }
    }
}

/// Number of [`SettingLayer`]s.
pub(crate) const SETTING_LAYERS: usize = 4;

/// Name of the group of a command's options for which every layer counts, not only the strongest.
pub(crate) const LAYERED_OPTIONS: &str = "layered-options";

/// Returns the id of the hidden argument with the values that all layers give a layered option.
pub(crate) fn layers_id(id: &str) -> String {
    format!("{id}.layers")
}

/// Adds a hidden argument with the values that the layers give an option of [`LAYERED_OPTIONS`]: one for each layer, the
/// strongest first, and an empty text for a layer without the option. The option itself has only one of the values, or
/// none of them if it is on the command line. `name` is the name under which the command has settings.
pub(super) fn apply_layers(
    command: Command,
    name: &str,
    (id, long): &(Id, String),
    settings: &SettingsFile,
) -> anyhow::Result<Command> {
    let table = |table: Option<&Table>| -> anyhow::Result<Option<OsString>> {
        let value = table.and_then(|table| table.get(long)).filter(|value| !value.is_table());
        let texts = value.map(|value| value_texts(long, value)).transpose()?;
        Ok(texts.and_then(|texts| texts.into_iter().next()).map(OsString::from))
    };
    let own = settings.table.get(name).and_then(Value::as_table);
    let layers: [Option<OsString>; SETTING_LAYERS] = [
        env::var_os(variable_name(Some(name), long)),
        env::var_os(variable_name(None, long)),
        table(own)?,
        table(Some(&settings.table))?,
    ];
    let Some(arg) = command.get_arguments().find(|arg| arg.get_id() == id) else { return Ok(command) };
    let given: Vec<OsString> = layers.iter().flatten().filter(|value| !value.is_empty()).cloned().collect();
    if given.is_empty() {
        return Ok(command);
    }
    check_values(arg, long, &given).with_context(|| format!("a setting of `{long}`"))?;
    let hidden = Arg::new(layers_id(id.as_str())).long(layers_id(long)).hide(true).action(ArgAction::Append);
    Ok(command.arg(hidden.default_values_os(layers.map(Option::unwrap_or_default))))
}

/// Makes a setting the default of an option, also a variable: an option of the command line then wins over the
/// setting of an option that it excludes.
pub(super) fn apply_setting(command: Command, setting: GivenSetting) -> anyhow::Result<Command> {
    let GivenSetting { id, long, value: SettingValue { origin, values, .. } } = setting;
    let Some(arg) = command.get_arguments().find(|arg| *arg.get_id() == id) else { return Ok(command) };
    let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
    let values: Vec<OsString> = match is_switch {
        true => switch_values(values).with_context(|| format!("the setting {origin}"))?,
        false => values,
    };
    check_count(arg, &values).with_context(|| format!("the setting {origin}"))?;
    check_values(arg, &long, &values).with_context(|| format!("the setting {origin}"))?;
    // clap does not count a default as a given option, and would still require the option.
    let command = command.mut_arg(&id, |arg| {
        let arg = arg.required(false).required_unless_present(Resettable::<Id>::Reset);
        arg.default_values_os(values).hide_default_value(!is_switch)
    });
    Ok(match args::replaced_argument(command.get_name(), &long) {
        Some(replaced) => {
            command.mut_arg(replaced, |arg| arg.required_unless_present(Resettable::<Id>::Reset))
        }
        None => command,
    })
}

/// Refuses several values, or none, for an option with one value.
fn check_count(arg: &Arg, values: &[OsString]) -> anyhow::Result<()> {
    let has_many = matches!(arg.get_action(), ArgAction::Append | ArgAction::Count)
        || arg.get_num_args().is_some_and(|number| number.max_values() > 1);
    match values.len() {
        1 => Ok(()),
        _ if has_many => Ok(()),
        0 => bail!("the list is empty: expected one value"),
        count => bail!("{count} values: expected one value"),
    }
}

/// Refuses a value that the option would refuse on the command line. A wrong default would make clap panic.
fn check_values(arg: &Arg, long: &str, values: &[OsString]) -> anyhow::Result<()> {
    let mut alone = Arg::new("value").long(long.to_owned()).action(ArgAction::Append);
    alone = alone.value_parser(arg.get_value_parser().clone());
    if let Some(delimiter) = arg.get_value_delimiter() {
        alone = alone.value_delimiter(delimiter);
    }
    let words = values.iter().map(|value| {
        let mut word = OsString::from(format!("--{long}="));
        word.push(value);
        word
    });
    let tried = Command::new("setting").no_binary_name(true).arg(alone).try_get_matches_from(words);
    tried.map(drop).map_err(|error| {
        let text = error.render().to_string();
        // clap prints the possible values of an option on a separate line.
        let lines: Vec<&str> = text.lines().take_while(|line| !line.is_empty()).map(str::trim).collect();
        anyhow!("{}", lines.join(" ").trim_start_matches("error: ").to_owned())
    })
}

/// Returns the values of a switch from the usual words for yes and no.
fn switch_values(values: Vec<OsString>) -> anyhow::Result<Vec<OsString>> {
    let value = |value: OsString| match is_on(&value) {
        Some(true) => Ok("true".into()),
        Some(false) => Ok("false".into()),
        None => {
            bail!("invalid value '{}': expected 1, on, yes or true, or 0, off, no or false", value.display())
        }
    };
    values.into_iter().map(value).collect()
}

/// Returns whether the value of a switch means yes; `None` if it means neither yes nor no.
pub(super) fn is_on(value: &OsStr) -> Option<bool> {
    match value.to_ascii_lowercase().to_str() {
        Some("1" | "on" | "yes" | "true") => Some(true),
        Some("0" | "off" | "no" | "false") => Some(false),
        _ => None,
    }
}
