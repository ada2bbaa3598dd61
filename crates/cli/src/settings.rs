//! Settings from the environment and from a file, laid under the command line.
//!
//! Nothing here knows an option by name: every long option `--top` of a command `stats` can be set by
//! `BINTIDE_STATS_TOP` and by `top` in the table `[stats]` of the file; options of every command go without the
//! command's name.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::{Arg, Command, Id};
use toml::{Table, Value};

use crate::exit::{Advice, Failure};

/// What a settings file says, and where it is.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    path: PathBuf,
    table: Table,
}

/// Reads the file that `--config` or `BINTIDE_CONFIG` names, else the user's own if there is one.
pub(crate) fn load(args: &[OsString]) -> Result<Settings, Failure> {
    let named = named_on_command_line(args).or_else(|| env::var_os("BINTIDE_CONFIG").map(PathBuf::from));
    let read = match (named, default_path()) {
        (Some(path), _) => read(&path).context(Advice("see the end of `bintide --help` for settings")),
        (None, Some(path)) if path.exists() => read(&path),
        (None, _) => return Ok(Settings::default()),
    };
    read.map_err(Failure::NotBegun)
}

/// Lays the environment and the file under a command's own defaults.
pub(crate) fn layer(command: Command, settings: &Settings) -> Result<Command, Failure> {
    let names = command.get_subcommands().map(|inner| inner.get_name().to_owned());
    let known: Vec<String> = options(&command).into_iter().map(|(_, long)| long).chain(names).collect();
    let layered = refuse_unknown(&settings.table, &known)
        .and_then(|()| layer_options(command, "BINTIDE", &settings.table))
        .and_then(|command| layer_commands(command, &settings.table));
    layered.with_context(|| settings.path.display().to_string()).map_err(Failure::NotBegun)
}

fn read(path: &Path) -> anyhow::Result<Settings> {
    let text = fs::read_to_string(path).with_context(|| format!("read settings from {}", path.display()))?;
    let table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| 1 + text[..span.start].matches('\n').count());
        anyhow!("{} line {line}: {}", path.display(), error.message())
    })?;
    Ok(Settings { path: path.to_owned(), table })
}

/// Clap parses the rest of the line only once the settings are known. Behind `dump`, arguments are mysqlbinlog's.
fn named_on_command_line(args: &[OsString]) -> Option<PathBuf> {
    let mut ours = args.iter().skip(1).take_while(|arg| *arg != "--" && *arg != "dump");
    while let Some(arg) = ours.next() {
        if arg == "--config" {
            return ours.next().map(PathBuf::from);
        }
        if let Some(path) = arg.to_str().and_then(|text| text.strip_prefix("--config=")) {
            return Some(path.into());
        }
    }
    None
}

fn default_path() -> Option<PathBuf> {
    let given = |name| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let directory = given("XDG_CONFIG_HOME").or_else(|| given("HOME").map(|home| home.join(".config")));
    directory.map(|directory| directory.join("bintide").join("bintide.toml"))
}

fn layer_options(mut command: Command, prefix: &str, table: &Table) -> anyhow::Result<Command> {
    for (id, long) in options(&command) {
        let values = table.get(&long).map(|value| texts(&long, value)).transpose()?;
        let variable = format!("{prefix}_{}", shouted(&long));
        command = command.mut_arg(id, |arg| lay(arg, variable, values));
    }
    Ok(command)
}

fn layer_commands(mut command: Command, table: &Table) -> anyhow::Result<Command> {
    let names: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    for name in names {
        let Some(inner) = command.find_subcommand(&name).cloned() else { continue };
        let empty = Table::new();
        let table = table.get(&name).and_then(Value::as_table).unwrap_or(&empty);
        let keys: Vec<String> = options(&inner).into_iter().map(|(_, long)| long).collect();
        let layered = refuse_unknown(table, &keys)
            .and_then(|()| layer_options(inner, &format!("BINTIDE_{}", shouted(&name)), table))
            .with_context(|| format!("[{name}]"))?;
        command = command.mut_subcommand(&name, |_| layered);
    }
    Ok(command)
}

/// The options that can be set: by their names within clap, and as a user writes them.
fn options(command: &Command) -> Vec<(Id, String)> {
    let all =
        command.get_arguments().filter_map(|arg| Some((arg.get_id().clone(), arg.get_long()?.to_owned())));
    all.filter(|(_, long)| !["help", "version", "config"].contains(&long.as_str())).collect()
}

fn refuse_unknown(table: &Table, known: &[String]) -> anyhow::Result<()> {
    match table.keys().find(|key| !known.contains(key)) {
        Some(key) => bail!("there is no setting `{key}`; settings have the names of long options"),
        None => Ok(()),
    }
}

fn lay(arg: Arg, variable: String, values: Option<Vec<String>>) -> Arg {
    // An empty variable counts as not set, as everywhere else in a shell.
    let is_set = env::var_os(&variable).is_some_and(|value| value != OsStr::new(""));
    let arg = if is_set { arg.env(variable).hide_env(true) } else { arg };
    match values {
        Some(values) => arg.default_values(values).hide_default_value(true),
        None => arg,
    }
}

fn texts(key: &str, value: &Value) -> anyhow::Result<Vec<String>> {
    match value {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Integer(number) => Ok(vec![number.to_string()]),
        Value::Float(number) => Ok(vec![number.to_string()]),
        Value::Boolean(flag) => Ok(vec![flag.to_string()]),
        Value::Array(values) => {
            let all: Result<Vec<Vec<String>>, _> = values.iter().map(|value| texts(key, value)).collect();
            Ok(all?.concat())
        }
        Value::Datetime(_) | Value::Table(_) => bail!("`{key}` must be a text, a number, true or false"),
    }
}

fn shouted(name: &str) -> String {
    name.replace('-', "_").to_uppercase()
}
