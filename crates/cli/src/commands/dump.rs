//! `bintide dump`: logs as text. Its options are mysqlbinlog's, read as mysqlbinlog reads them, so clap does not
//! see them; and under the name `mysqlbinlog` there is nothing but this.

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::Path;

use clap::Args;
use dump::mysqlbinlog::{Dialect, run_here};

use crate::exit::{Outcome, Verdict};

pub(crate) const EXAMPLES: &str = "\
Examples:
  What changed, as pseudo-SQL with column types; compressed transactions too:
      bintide dump -vv binlog.000012
  Replay a log up to a moment:
      bintide dump --stop-datetime='2026-11-21 21:00:00' binlog.000012 | mysql
  The changes of one table, a JSON document a line:
      bintide dump --json --table=shop.orders binlog.000012
  A line a transaction: GTID, time, tables, rows, bytes:
      bintide dump --transactions binlog.000012
  As SHOW BINLOG EVENTS lists them:
      bintide dump --events binlog.000012
  Instead of mysqlbinlog, by its name:
      ln -s \"$(command -v bintide)\" ~/bin/mysqlbinlog";

/// The other name of this program: a link to it is enough.
const NAME: &str = "mysqlbinlog";

/// Arguments of `bintide dump`.
#[derive(Args, Debug)]
pub(crate) struct Dump {
    /// The name that this program was called by, if that is the other one.
    #[arg(skip)]
    called: Option<OsString>,
    /// Options and log files.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

/// Does this command line ask for a dump? It must not get to clap.
pub(crate) fn take(args: &[OsString]) -> Option<Dump> {
    let (program, rest) = args.split_first()?;
    if Path::new(program).file_name()? == NAME {
        return Some(Dump { called: Some(program.clone()), words: rest.to_vec() });
    }
    match rest.split_first() {
        Some((command, words)) if command == "dump" => Some(Dump { called: None, words: words.to_vec() }),
        _ => None,
    }
}

/// Prints the logs.
pub(crate) fn run(command: Dump) -> Outcome {
    let asks_for_help = command.words.iter().any(|word| word == "--help" || word == "-?");
    let (dialect, program) = match command.called {
        Some(program) => (Dialect::Mysqlbinlog, program),
        None => (Dialect::Bintide, "bintide dump".into()),
    };
    let args = [program].into_iter().chain(command.words);
    let code = run_here(dialect, args)?;
    if dialect == Dialect::Bintide && asks_for_help {
        writeln!(io::stdout(), "\n{EXAMPLES}")?;
    }
    Ok(Verdict::Code(code))
}
