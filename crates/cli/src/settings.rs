//! Settings from the environment and from a file, with lower priority than the command line.
//!
//! This module contains no names of options. `BINTIDE_STATS_TOP`, or `top` in the table `[stats]` of the file, sets the
//! option `--top` of the command `stats`. Without a command, a setting applies to all commands that have the option:
//! `BINTIDE_KEYRING`, or `keyring` above all tables.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::env;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, Command, Id};
use mysqlbinlog::{OptionPreset, presettable_options};
use option_files::{FileIgnoreReason, is_named_pipe, is_writable_by_all, nearest_name};
use toml::{Table, Value};
use tracing::warn;

use crate::args;
use crate::exit::{CommandFailure, ErrorAdvice};
use crate::option_file_messages::unusable_file;

/// Contents of a settings file, and its path.
#[derive(Debug, Default)]
pub(crate) struct SettingsFile {
    path: PathBuf,
    table: Table,
}

/// Name of the command whose options clap does not parse.
const DUMP_COMMAND: &str = "dump";

/// Prefix of all variables.
const VARIABLE_PREFIX: &str = "BINTIDE";

/// Reads the file given by `named` or `BINTIDE_CONFIG`, otherwise the user's file if it exists. An empty variable means
/// no file.
pub(crate) fn load(named: Option<PathBuf>) -> Result<SettingsFile, CommandFailure> {
    let named = named.or_else(|| env::var_os("BINTIDE_CONFIG").map(PathBuf::from));
    let read = match (named, default_path()) {
        (Some(path), _) if path.as_os_str().is_empty() => return Ok(SettingsFile::default()),
        (Some(path), _) => read(&path).context(ErrorAdvice("see Settings in `bintide --help`")),
        (None, Some(path)) if path.exists() => read(&path),
        (None, _) => return Ok(SettingsFile::default()),
    };
    read.map_err(CommandFailure::NotStarted)
}

/// Returns the file given by `--config`. clap parses the command line only after the settings are read.
pub(crate) fn config_path(words: &[OsString]) -> Option<PathBuf> {
    let mut words = words.iter().take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        if word == "--config" {
            return words.next().map(PathBuf::from);
        }
        if let Some(path) = word.to_str().and_then(|text| text.strip_prefix("--config=")) {
            return Some(path.into());
        }
    }
    None
}

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

/// Returns whether any variable has the prefix of settings.
pub(crate) fn has_variables() -> bool {
    env::vars_os().any(|(name, _)| name.as_encoded_bytes().starts_with(VARIABLE_PREFIX.as_bytes()))
}

/// Variable that has the prefix of settings, but no option.
pub(crate) struct UnknownVariable {
    name: String,
    /// Known variable with a similar name, if there is one.
    nearest: Option<String>,
}

/// Returns variables that have the prefix of settings, but no option.
pub(crate) fn unknown_variables(command: &Command) -> Vec<UnknownVariable> {
    let mut known: BTreeSet<String> = ["BINTIDE_CONFIG".to_owned()].into();
    for long in options(command).into_iter().map(|(_, long)| long) {
        known.insert(variable_name(None, &long));
    }
    for (name, inner) in command.get_subcommands().map(|inner| (inner.get_name(), inner)) {
        for long in keys(inner) {
            known.extend([variable_name(None, &long), variable_name(Some(name), &long)]);
        }
    }
    let set = env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let mut unknown: Vec<String> =
        set.filter(|name| name.starts_with("BINTIDE_") && !known.contains(name)).collect();
    unknown.sort_unstable();
    let nearest = |name: &str| {
        let letters = name.len() - VARIABLE_PREFIX.len() - 1;
        nearest_name(name, letters, known.iter().map(String::as_str)).map(str::to_owned)
    };
    unknown.into_iter().map(|name| UnknownVariable { nearest: nearest(&name), name }).collect()
}

/// Warns of unknown variables.
pub(crate) fn warn_unknown(unknown: &[UnknownVariable]) {
    for UnknownVariable { name, nearest } in unknown {
        warn!(
            "ignored {name}: unknown setting{}; see Settings in `bintide --help`",
            suggestion(nearest.as_deref())
        );
    }
}

/// Returns the end of a message about an unknown name.
fn suggestion(nearest: Option<&str>) -> String {
    nearest.map(|nearest| format!(" (did you mean {nearest}?)")).unwrap_or_default()
}

impl SettingsFile {
    /// Refuses settings that no command has.
    fn check(&self, command: &Command) -> Result<(), CommandFailure> {
        let checked = check(&self.table, command);
        checked.with_context(|| self.path.display().to_string()).map_err(CommandFailure::NotStarted)
    }
}

fn check(table: &Table, command: &Command) -> anyhow::Result<()> {
    let own = options(command).into_iter().map(|(_, long)| long);
    let known: Vec<String> = own.chain(command.get_subcommands().flat_map(keys)).collect();
    let names: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    refuse_unknown_table(table, &names)?;
    refuse_unknown(table, &[known.as_slice(), &names].concat())?;
    for inner in command.get_subcommands() {
        let name = inner.get_name();
        match table.get(name) {
            Some(Value::Table(table)) => {
                refuse_unknown(table, &keys(inner)).with_context(|| format!("[{name}]"))?
            }
            // Some commands have the name of an option of another command.
            Some(_) if !known.iter().any(|key| key == name) => {
                bail!("`{name}` is a command: write its settings below [{name}]")
            }
            _ => {}
        }
    }
    Ok(())
}

fn read(path: &Path) -> anyhow::Result<SettingsFile> {
    let could_not_read = || format!("could not read settings from {}", path.display());
    if fs::metadata(path).is_ok_and(|metadata| is_named_pipe(path, &metadata)) {
        bail!("{}", unusable_file(path.display(), FileIgnoreReason::NamedPipe));
    }
    let file = File::open(path).with_context(could_not_read)?;
    if is_writable_by_all(&file.metadata().with_context(could_not_read)?) {
        bail!("{}", unusable_file(path.display(), FileIgnoreReason::WorldWritable));
    }
    let text = io::read_to_string(file).with_context(could_not_read)?;
    let table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        anyhow!("{} line {line}: {}", path.display(), parse_fault(&text, line, error.message()))
    })?;
    Ok(SettingsFile { path: path.to_owned(), table })
}

/// Returns the fault that the parser found in a line. Replaces the parser's texts for a number beyond 64 bits, which
/// contain names of Rust types.
fn parse_fault(text: &str, line: usize, message: &str) -> String {
    let of_number = ["invalid type: integer", "integer number overflowed", "u64 value was too large"];
    if !of_number.iter().any(|start| message.starts_with(start)) {
        return message.to_owned();
    }
    let key = text.lines().nth(line - 1).and_then(|line| line.split('=').next()).unwrap_or_default();
    format!("`{}` is out of range: expected a number that fits in 64 bits", key.trim())
}

fn default_path() -> Option<PathBuf> {
    let given = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = given("XDG_CONFIG_HOME").or_else(|| given("HOME").map(|home| home.join(".config")));
    directory.map(|directory| directory.join("bintide").join("bintide.toml"))
}

/// Options and other arguments on the command line.
#[derive(Debug, Default)]
struct TypedOptions {
    /// Name of the command.
    command: String,
    ids: Vec<Id>,
}

impl TypedOptions {
    /// Finds the command and its options on the command line. Ignores errors, which clap reports later.
    fn find(command: &Command, args: &[OsString]) -> Self {
        let Ok(matches) = command.clone().ignore_errors(true).try_get_matches_from(args) else {
            return Self::default();
        };
        let Some((name, matches)) = matches.subcommand() else { return Self::default() };
        let known = command.find_subcommand(name).into_iter().flat_map(Command::get_arguments);
        let is_typed = |id: &&Id| matches.value_source(id.as_str()) == Some(ValueSource::CommandLine);
        Self { command: name.to_owned(), ids: known.map(Arg::get_id).filter(is_typed).cloned().collect() }
    }

    /// Returns the options that a command has on the command line.
    fn of(&self, command: &str) -> &[Id] {
        if self.command == command { &self.ids } else { &[] }
    }
}

fn apply_to_commands(
    command: Command,
    settings: &SettingsFile,
    typed: &TypedOptions,
) -> anyhow::Result<Command> {
    let mut command = apply_to_command(command, None, settings, &[])?;
    let names: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    for name in names.iter().filter(|name| *name != DUMP_COMMAND) {
        let Some(inner) = command.find_subcommand(name).cloned() else { continue };
        let inner = apply_to_command(inner, Some(name), settings, typed.of(name))?;
        command = command.mut_subcommand(name, |_| inner);
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
    given.retain(|setting| !typed.iter().any(|other| do_exclude(&command, &setting.id, other)));
    for setting in without_overridden(&command, given)? {
        command = apply_setting(command, setting)?;
    }
    Ok(command)
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

/// Returns whether two options of a command exclude each other: one conflicts with the other, or both are in a group of
/// which only one may be given.
fn do_exclude(command: &Command, one: &Id, other: &Id) -> bool {
    let is_in_conflict = |one: &Id, other: &Id| {
        let arg = command.get_arguments().find(|arg| arg.get_id() == one && !arg.is_global_set());
        arg.is_some_and(|arg| {
            command.get_arg_conflicts_with(arg).into_iter().any(|arg| arg.get_id() == other)
        })
    };
    let mut groups = command.get_groups().filter(|group| !(*group).clone().is_multiple());
    one != other
        && (is_in_conflict(one, other)
            || is_in_conflict(other, one)
            || groups.any(|group| [one, other].iter().all(|id| group.get_args().any(|arg| arg == *id))))
}

/// Leaves out a setting if a layer of higher priority sets another option of the same group, such as another password
/// option. Two options of a group in one layer are an error, as on the command line.
fn without_overridden(command: &Command, given: Vec<GivenSetting>) -> anyhow::Result<Vec<GivenSetting>> {
    let groups = command.get_groups().filter(|group| !(*group).clone().is_multiple());
    let mut overridden = BTreeSet::new();
    for group in groups {
        let members: Vec<&GivenSetting> =
            given.iter().filter(|setting| group.get_args().any(|id| *id == setting.id)).collect();
        let Some(strongest) = members.iter().map(|setting| setting.value.layer).min() else { continue };
        let (kept, weaker): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|setting| setting.value.layer == strongest);
        if let [one, other, ..] = kept.as_slice() {
            let (one, other) = (&one.value.origin, &other.value.origin);
            bail!("the settings {one} and {other} exclude each other: give only one of them");
        }
        overridden.extend(weaker.into_iter().map(|setting| setting.id.clone()));
    }
    let effective: Vec<GivenSetting> =
        given.into_iter().filter(|setting| !overridden.contains(&setting.id)).collect();
    without_conflicting(command, effective)
}

/// Leaves out a setting if a layer of higher priority sets an option that excludes it. Two such options in one layer
/// are an error, as on the command line. A switch that is off excludes nothing.
fn without_conflicting(command: &Command, given: Vec<GivenSetting>) -> anyhow::Result<Vec<GivenSetting>> {
    let argument = |setting: &GivenSetting| command.get_arguments().find(|arg| *arg.get_id() == setting.id);
    let is_off = |setting: &GivenSetting| {
        argument(setting).is_some_and(|arg| matches!(arg.get_action(), ArgAction::SetTrue))
            && setting.value.values.iter().all(|value| is_on(value) == Some(false))
    };
    let mut excluded = BTreeSet::new();
    for one in given.iter().filter(|setting| !is_off(setting)) {
        let Some(arg) = argument(one).filter(|arg| !arg.is_global_set()) else { continue };
        let conflicts: Vec<&Id> = command.get_arg_conflicts_with(arg).into_iter().map(Arg::get_id).collect();
        let others = given.iter().filter(|other| conflicts.contains(&&other.id) && !is_off(other));
        for other in others {
            match one.value.layer.cmp(&other.value.layer) {
                Ordering::Less => excluded.insert(other.id.clone()),
                Ordering::Greater => excluded.insert(one.id.clone()),
                Ordering::Equal => {
                    let (one, other) = (&one.value.origin, &other.value.origin);
                    bail!("the settings {one} and {other} exclude each other: give only one of them");
                }
            };
        }
    }
    Ok(given.into_iter().filter(|setting| !excluded.contains(&setting.id)).collect())
}

/// Returns the options that settings can set: their ids in clap, and their long names.
fn options(command: &Command) -> Vec<(Id, String)> {
    let all =
        command.get_arguments().filter_map(|arg| Some((arg.get_id().clone(), arg.get_long()?.to_owned())));
    all.filter(|(_, long)| !["help", "version", "config"].contains(&long.as_str())).collect()
}

/// Returns the long names of a command's options that settings can set.
fn keys(command: &Command) -> Vec<String> {
    match command.get_name() {
        DUMP_COMMAND => presettable_options().map(|long| long.replace('_', "-")).collect(),
        _ => options(command).into_iter().map(|(_, long)| long).collect(),
    }
}

/// Refuses a table that no command has.
fn refuse_unknown_table(table: &Table, commands: &[String]) -> anyhow::Result<()> {
    let mut tables = table.iter().filter(|(_, value)| value.is_table()).map(|(name, _)| name);
    match tables.find(|name| !commands.contains(name)) {
        Some(name) => {
            let nearest = nearest_name(name, name.chars().count(), commands.iter().map(String::as_str));
            let nearest = nearest.map(|nearest| format!("[{nearest}]"));
            bail!(
                "unknown table [{name}]{}: expected a table with the name of a command",
                suggestion(nearest.as_deref())
            )
        }
        None => Ok(()),
    }
}

fn refuse_unknown(table: &Table, known: &[String]) -> anyhow::Result<()> {
    match table.keys().find(|key| !known.contains(key)) {
        Some(key) => {
            let nearest = nearest_name(key, key.chars().count(), known.iter().map(String::as_str));
            bail!(
                "unknown setting `{key}`{}: expected the name of a long option, or a table with the name of a command",
                suggestion(nearest)
            )
        }
        None => Ok(()),
    }
}

/// Returns the value of an option in the file: in the command's table, otherwise above all tables.
fn in_file(table: &Table, command: &str, long: &str) -> anyhow::Result<Option<Vec<String>>> {
    let key = long.replace('_', "-");
    let own = table.get(command).and_then(Value::as_table).and_then(|own| own.get(&key));
    if let Some(value) = own {
        return value_texts(&key, value).with_context(|| format!("[{command}]")).map(Some);
    }
    table.get(&key).filter(|value| !value.is_table()).map(|value| value_texts(&key, value)).transpose()
}

/// Returns the variable that sets an option, if there is one. An empty variable counts as not set.
fn find_variable(command: Option<&str>, long: &str) -> Option<(String, OsString)> {
    let names = [command.map(|command| variable_name(Some(command), long)), Some(variable_name(None, long))];
    names.into_iter().flatten().find_map(|name| {
        let value = env::var_os(&name).filter(|value| value != OsStr::new(""))?;
        Some((name, value))
    })
}

fn variable_name(command: Option<&str>, long: &str) -> String {
    let shouted = |name: &str| name.replace('-', "_").to_uppercase();
    let parts = [Some(VARIABLE_PREFIX.to_owned()), command.map(shouted), Some(shouted(long))];
    parts.into_iter().flatten().collect::<Vec<String>>().join("_")
}

/// Setting of an option.
struct GivenSetting {
    /// The option's id in clap.
    id: Id,
    /// The option's long name.
    long: String,
    value: SettingValue,
}

/// Value of a setting, and where it is set.
struct SettingValue {
    layer: SettingLayer,
    origin: String,
    values: Vec<OsString>,
}

/// Layers of settings, the strongest first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum SettingLayer {
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
    fn in_variable((name, value): (String, OsString), long: &str) -> Self {
        let is_of_all = name == variable_name(None, long);
        let layer = if is_of_all { SettingLayer::Variable } else { SettingLayer::CommandVariable };
        Self { layer, origin: name, values: vec![value] }
    }

    fn in_file(settings: &SettingsFile, command: Option<&str>, long: &str, values: Vec<String>) -> Self {
        let own = command.and_then(|command| settings.table.get(command)).and_then(Value::as_table);
        let is_own = own.is_some_and(|own| own.contains_key(long));
        Self {
            layer: if is_own { SettingLayer::CommandTable } else { SettingLayer::File },
            origin: format!("`{long}` in {}", settings.path.display()),
            values: values.into_iter().map(OsString::from).collect(),
        }
    }
}

/// Makes a setting the default of an option, also a variable: an option of the command line then wins over the
/// setting of an option that it excludes.
fn apply_setting(command: Command, setting: GivenSetting) -> anyhow::Result<Command> {
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
fn is_on(value: &OsStr) -> Option<bool> {
    match value.to_ascii_lowercase().to_str() {
        Some("1" | "on" | "yes" | "true") => Some(true),
        Some("0" | "off" | "no" | "false") => Some(false),
        _ => None,
    }
}

fn value_texts(key: &str, value: &Value) -> anyhow::Result<Vec<String>> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Integer(number) => Ok(vec![number.to_string()]),
        Value::Float(number) => Ok(vec![number.to_string()]),
        Value::Boolean(flag) => Ok(vec![flag.to_string()]),
        Value::Array(values) => {
            let all: Result<Vec<Vec<String>>, _> =
                values.iter().map(|value| value_texts(key, value)).collect();
            Ok(all?.concat())
        }
        Value::Datetime(_) | Value::Table(_) => bail!("`{key}` must be a string, a number, true or false"),
    }
}
