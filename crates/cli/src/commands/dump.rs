//! `bintide dump`: prints logs as text. It parses its options as mysqlbinlog does, so clap never sees them. Under the
//! name `mysqlbinlog`, dump is the only command.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap::Args;
use dump::mysqlbinlog::{Dialect, Preset, run_here};

use crate::exit::{Outcome, Verdict};
use crate::link::ByLink;
use crate::{args, settings};

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
  From a server, including new events as it writes them:
      bintide dump -vv -R --host db1 --user repl -p --stop-never binlog.000012
  In place of mysqlbinlog, by a symbolic link:
      ln -s \"$(command -v bintide)\" ~/bin/mysqlbinlog";

/// Other name of this program: a symbolic link is enough.
const NAME: &str = "mysqlbinlog";

/// Arguments of `bintide dump`.
#[derive(Args, Debug)]
pub(crate) struct Dump {
    /// Name that the program was called by, if that is mysqlbinlog.
    #[arg(skip)]
    called: Option<OsString>,
    /// Options of all commands that precede the name of this one.
    #[arg(skip)]
    front: Vec<OsString>,
    /// Options and log files
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Returns the arguments of a dump, or `None` for another command. A dump's arguments must not reach clap.
pub(crate) fn take(args: &[OsString]) -> Option<Dump> {
    let (program, rest) = args.split_first()?;
    if Path::new(program).file_name()? == NAME {
        return Some(Dump { called: Some(program.clone()), front: Vec::new(), words: rest.to_vec() });
    }
    let (mut front, mut rest) = (Vec::new(), rest);
    loop {
        let (word, behind) = rest.split_first()?;
        match word.to_str()? {
            "dump" => return Some(Dump { called: None, front, words: behind.to_vec() }),
            "-q" | "--quiet" => front.push("--quiet".into()),
            "--color" | "--config" => {
                let (value, behind) = behind.split_first()?;
                front.push(joined(word, value));
                rest = behind;
                continue;
            }
            text if text.starts_with("--color=") || text.starts_with("--config=") => front.push(word.clone()),
            _ => return None,
        }
        rest = behind;
    }
}

fn joined(option: &OsString, value: &OsString) -> OsString {
    let mut word = option.clone();
    word.push("=");
    word.push(value);
    word
}

/// Prints the logs.
pub(crate) fn run(command: Dump) -> Outcome {
    match command.called {
        Some(program) => Ok(Verdict::Code(run_here(
            Dialect::Mysqlbinlog,
            [program].into_iter().chain(command.words),
            &[],
            &mut ByLink::default(),
        )?)),
        None => run_ours(command),
    }
}

fn run_ours(command: Dump) -> Outcome {
    let asks_for_help = command.words.iter().any(|word| word == "--help" || word == "-?");
    let named = settings::named_in(&command.words).or_else(|| settings::named_in(&command.front));
    let whole = args::command();
    let presets = settings::presets(&whole, &settings::load(named)?)?;
    if !is_quiet(&command, &presets) {
        settings::remark_on(&settings::unknown_variables(&whole));
    }
    let presets: Vec<Preset> = presets.into_iter().chain(in_front(&command.front)).collect();
    let args = [OsString::from("bintide dump")].into_iter().chain(command.words);
    let code = run_here(Dialect::Bintide, args, &presets, &mut ByLink::default())?;
    if asks_for_help {
        writeln!(io::stdout(), "\n{EXAMPLES}")?;
    }
    Ok(Verdict::Code(code))
}

fn is_quiet(command: &Dump, presets: &[Preset]) -> bool {
    let is_word = |word: &OsString| word == "--quiet";
    let is_preset = |preset: &Preset| preset.option == "quiet" && preset.values == ["true"];
    command.front.iter().chain(&command.words).any(is_word) || presets.iter().any(is_preset)
}

/// Returns the options before the command's name as settings.
fn in_front(front: &[OsString]) -> impl Iterator<Item = Preset> {
    front.iter().filter_map(|word| {
        let text = word.to_str()?.strip_prefix("--")?;
        let (option, value) = text.split_once('=').unwrap_or((text, "true"));
        Some(Preset { option: option.to_owned(), values: vec![value.into()] })
    })
}
