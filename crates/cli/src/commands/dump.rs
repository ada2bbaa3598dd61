//! `bintide dump`: prints logs as text. This module parses the options as mysqlbinlog does, without clap. Under the
//! name `mysqlbinlog`, dump is the only command.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap::{Arg, ArgAction, Args, Command, ValueHint};
use mysqlbinlog::{ArgumentForm, DumpDialect, OptionPreset, OptionSummary, option_summaries, run_here};

use crate::dump_lists::DumpLists;
use crate::dump_servers::DumpServers;
use crate::exit::{CommandResult, CommandVerdict};
use crate::settings;

pub(crate) const EXAMPLES: &str = "\
Examples:
  Row changes as pseudo-SQL with column types, also of compressed transactions:
      bintide dump -vv binlog.000012
  Apply a log up to a point in time:
      bintide dump --stop-datetime='2026-11-21 21:00:00' binlog.000012 | mysql
  Changes of one table, one JSON document per line:
      bintide dump --json --table=shop.orders binlog.000012
  One line per transaction: GTID, time, tables, rows, bytes:
      bintide dump --transactions binlog.000012
  Events in the format of SHOW BINLOG EVENTS:
      bintide dump --events binlog.000012
  From a server, including new events as the server writes them:
      bintide dump -vv -R --host db1 --user repl -p --stop-never binlog.000012
  Install as mysqlbinlog, with a symbolic link:
      ln -s \"$(command -v bintide)\" ~/bin/mysqlbinlog";

/// Name of a symbolic link under which this program replaces mysqlbinlog.
const MYSQLBINLOG_NAME: &str = "mysqlbinlog";

/// Arguments of `bintide dump`.
#[derive(Args, Debug)]
pub(crate) struct DumpArgs {
    /// Name by which the user has called the program, if the name is mysqlbinlog.
    #[arg(skip)]
    called: Option<OsString>,
    /// Options of all commands that precede the word `dump`.
    #[arg(skip)]
    front: Vec<OsString>,
    /// Options and log files
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Returns the arguments of a dump, or `None` for another command. clap must not parse a dump's arguments.
pub(crate) fn detect(args: &[OsString]) -> Option<DumpArgs> {
    let (program, rest) = args.split_first()?;
    if is_mysqlbinlog(program) {
        return Some(DumpArgs { called: Some(program.clone()), front: Vec::new(), words: rest.to_vec() });
    }
    let (mut front, mut rest) = (Vec::new(), rest);
    loop {
        let (word, after) = rest.split_first()?;
        match word.to_str()? {
            "dump" => return Some(DumpArgs { called: None, front, words: after.to_vec() }),
            "-q" | "--quiet" => front.push("--quiet".into()),
            "--color" | "--config" => {
                let (value, after) = after.split_first()?;
                front.push(join_option(word, value));
                rest = after;
                continue;
            }
            text if text.starts_with("--color=") || text.starts_with("--config=") => front.push(word.clone()),
            _ => return None,
        }
        rest = after;
    }
}

fn join_option(option: &OsString, value: &OsString) -> OsString {
    let mut word = option.clone();
    word.push("=");
    word.push(value);
    word
}

/// Returns whether the program was started under the name of mysqlbinlog.
pub(crate) fn is_mysqlbinlog(program: &OsString) -> bool {
    Path::new(program).file_name().is_some_and(|name| name == MYSQLBINLOG_NAME)
}

/// Adds the options of dump to the command, for manual pages and completions. clap never parses arguments with these
/// options.
pub(crate) fn add_options(whole: Command) -> Command {
    let is_global = |name: &str| whole.get_arguments().any(|arg| arg.get_long() == Some(name));
    let options = option_summaries().filter(|option| !is_global(option.name));
    let args: Vec<Arg> = options.map(|option| describe_option(&option)).collect();
    let logs = |arg: Arg| {
        arg.value_name("LOG").help("Log files, directories, index files or archives; `-` for standard input")
    };
    whole.mut_subcommands(|command| match command.get_name() {
        "dump" => {
            command.mut_arg("words", |arg| logs(arg).value_hint(ValueHint::FilePath)).args(args.clone())
        }
        _ => command,
    })
}

fn describe_option(option: &OptionSummary) -> Arg {
    let name = option.name.replace('_', "-");
    let mut arg = Arg::new(name.clone()).long(name).help(option.description);
    if let Some(letter) = option.short {
        arg = arg.short(letter);
    }
    match option.argument {
        ArgumentForm::None => arg.action(ArgAction::SetTrue),
        ArgumentForm::Optional => arg.num_args(0..=1).require_equals(true).value_name("name"),
        ArgumentForm::Text => arg.value_name("name"),
        ArgumentForm::Number => arg.value_name("#"),
    }
}

/// Prints the logs. The whole command names the settings that exist.
pub(crate) fn run(command: DumpArgs, whole: &Command) -> CommandResult {
    match command.called {
        Some(program) => Ok(CommandVerdict::Code(run_here(
            DumpDialect::Mysqlbinlog,
            [program].into_iter().chain(command.words),
            &[],
            &mut DumpServers::default(),
            &mut DumpLists::default(),
        )?)),
        None => run_bintide_dump(command, whole),
    }
}

fn run_bintide_dump(command: DumpArgs, whole: &Command) -> CommandResult {
    let requests_help = command.words.iter().any(|word| word == "--help" || word == "-?");
    let named = settings::config_path(&command.words).or_else(|| settings::config_path(&command.front));
    let presets = settings::load(named).and_then(|settings| settings::dump_presets(whole, &settings));
    let presets = match presets {
        Err(failure) if !requests_help && !requests_version(&command) => return Err(failure),
        presets => presets.unwrap_or_default(),
    };
    if !is_quiet(&command, &presets) {
        settings::warn_unknown(&settings::unknown_variables(whole));
    }
    let presets: Vec<OptionPreset> = presets.into_iter().chain(leading_presets(&command.front)).collect();
    let args = [OsString::from("bintide dump")].into_iter().chain(command.words);
    let (servers, lists) = (&mut DumpServers::default(), &mut DumpLists::default());
    let code = run_here(DumpDialect::Bintide, args, &presets, servers, lists)?;
    if requests_help {
        writeln!(io::stdout(), "\n{EXAMPLES}")?;
    }
    Ok(CommandVerdict::Code(code))
}

fn requests_version(command: &DumpArgs) -> bool {
    command.words.iter().any(|word| word == "--version" || word == "-V")
}

fn is_quiet(command: &DumpArgs, presets: &[OptionPreset]) -> bool {
    let is_word = |word: &OsString| word == "--quiet" || word == "-q";
    let is_preset = |preset: &OptionPreset| preset.option == "quiet" && preset.values == ["true"];
    command.front.iter().chain(&command.words).any(is_word) || presets.iter().any(is_preset)
}

/// Returns the options before the command's name as settings.
fn leading_presets(front: &[OsString]) -> impl Iterator<Item = OptionPreset> {
    front.iter().filter_map(|word| {
        let text = word.to_str()?.strip_prefix("--")?;
        let (option, value) = text.split_once('=').unwrap_or((text, "true"));
        Some(OptionPreset { option: option.to_owned(), values: vec![value.into()] })
    })
}
