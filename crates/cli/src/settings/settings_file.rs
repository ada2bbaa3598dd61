//! File of settings.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use clap::Command;
use option_files::{FileIgnoreReason, is_named_pipe, is_writable_by_all, nearest_name};
use toml::{Table, Value};

use super::{keys, options, suggestion};
use crate::exit::{CommandFailure, ErrorAdvice};
use crate::option_file_messages::unusable_file;

/// Contents of a settings file, and its path.
#[derive(Debug, Default)]
pub(crate) struct SettingsFile {
    pub(super) path: PathBuf,
    pub(super) table: Table,
}

/// Reads the file given by `named` or `BINTIDE_CONFIG`, otherwise the user's file if it exists. An empty variable means
/// no file.
pub(crate) fn load(named: Option<PathBuf>) -> Result<SettingsFile, CommandFailure> {
    let named = named.or_else(|| env::var_os("BINTIDE_CONFIG").map(PathBuf::from));
    let read = match (named, default_path()) {
        (Some(path), _) if path.as_os_str().is_empty() => return Ok(SettingsFile::default()),
        (Some(path), _) => read(&path).context(ErrorAdvice("see Settings in `bintide --help`")),
        // A link to a missing file, or a file that this user may not reach, is an error: it may have requested TLS.
        (None, Some(path)) if !is_absent(&path) => read(&path).context(ErrorAdvice(
            "to use no settings, give --config '' or set BINTIDE_CONFIG to an empty text",
        )),
        (None, _) => return Ok(SettingsFile::default()),
    };
    read.map_err(CommandFailure::NotStarted)
}

/// Returns whether there is no file with this path, and no link.
fn is_absent(path: &Path) -> bool {
    fs::symlink_metadata(path)
        .is_err_and(|error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory))
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

impl SettingsFile {
    /// Refuses settings that no command has.
    pub(super) fn check(&self, command: &Command) -> Result<(), CommandFailure> {
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
pub(super) fn in_file(table: &Table, command: &str, long: &str) -> anyhow::Result<Option<Vec<String>>> {
    let key = long.replace('_', "-");
    let own = table.get(command).and_then(Value::as_table).and_then(|own| own.get(&key));
    if let Some(value) = own {
        return value_texts(&key, value).with_context(|| format!("[{command}]")).map(Some);
    }
    table.get(&key).filter(|value| !value.is_table()).map(|value| value_texts(&key, value)).transpose()
}

/// Returns the values of a setting as text.
pub(super) fn value_texts(key: &str, value: &Value) -> anyhow::Result<Vec<String>> {
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
        Value::Datetime(_) | Value::Table(_) => {
            bail!("`{key}` must be a string, a number, true or false, or a list of these")
        }
    }
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
