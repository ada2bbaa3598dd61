//! The commands of the command line.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory, Parser, Subcommand};

#[cfg(feature = "archive")]
use crate::commands::archive;
#[cfg(feature = "columns")]
use crate::commands::export;
use crate::commands::{
    advise, completions, diff, dump, history, man, receive, relay, replay, rewrite, stats, stream, top, undo,
    verify, warm,
};
use crate::connection_args::SERVER_OPTIONS;
use crate::exit::CommandResult;
use crate::global_args::GlobalArgs;
use crate::interrupt::HangupEffect;

/// Prints, measures, checks, compresses, copies and applies binary logs of MySQL and MariaDB.
///
/// A LOG argument is a file, a directory, an index file, an archive (s3://…), or `-` for standard input. For a
/// directory, its index file determines the logs and their order. Plain and encrypted logs, compressed transactions,
/// relay logs and open logs are supported. Some commands do not accept archives or `-`; see their help.
#[derive(Debug, Parser)]
#[command(name = "bintide", version, arg_required_else_help = true, max_term_width = 100)]
#[command(disable_help_subcommand = true, after_long_help = HELP_FOOTER)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: GlobalArgs,
    #[command(subcommand)]
    pub(crate) command: CliCommand,
}

const HELP_FOOTER: &str = "\
To see the options of a command: bintide help COMMAND

Examples:
  Read a log:
      bintide dump -vv binlog.000012 | less
  Count transactions, rows and bytes by table:
      bintide stats /var/lib/mysql/binlog.0000*
  Verify all logs of a directory:
      bintide verify /var/lib/mysql
  Completions for bash:
      source <(bintide completions bash)

Settings:
  Every long option can also be set in the environment or in a file. Precedence,
  highest first: command line, environment variables, settings file.
      bintide stats --top 20 …     on the command line
      BINTIDE_STATS_TOP=20         in the environment: the command, the option
      [stats]                      in ~/.config/bintide/bintide.toml, or in the
      top = 20                     file of --config or BINTIDE_CONFIG
  A setting without a command name applies to all commands that have the option:
  BINTIDE_KEYRING=FILE, or keyring = \"FILE\" above all tables. A setting with a
  command name has precedence over one without. An option without an argument
  is set by 1, on, yes or true, and not set by 0, off, no or false. dump also
  reads MySQL's option files; these settings have precedence over them.
  NO_COLOR turns colour off.

Exit codes:
  0    success; no faults found
  1    a log is damaged, the work failed, or an internal error occurred
  2    not started: wrong usage or settings, or a log that cannot be read (file
       not found, permission denied, no key)
  130  interrupted. A command that runs until it is stopped, such as receive,
       exits with 0 after SIGTERM
  Text output of dump has mysqlbinlog's exit codes: 1 for any error with a log.";

/// Commands of `bintide`.
#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Print logs as text, with mysqlbinlog's options and more, or as JSON.
    #[command(disable_help_flag = true, after_long_help = dump::EXAMPLES)]
    Dump(dump::DumpArgs),
    /// Count transactions, rows and bytes, by table, size and time.
    #[command(after_long_help = stats::EXAMPLES)]
    Stats(Box<stats::StatsArgs>),
    /// List all changes of one row, from its INSERT on.
    #[command(after_long_help = history::EXAMPLES)]
    History(history::HistoryArgs),
    /// Undo chosen row changes: write their inverse as a log or as SQL, or apply it to a server.
    #[command(after_long_help = undo::EXAMPLES)]
    Undo(Box<undo::UndoArgs>),
    /// Verify logs: every checksum, position, GTID, row and compressed transaction.
    #[command(after_long_help = verify::EXAMPLES)]
    Verify(verify::VerifyArgs),
    /// Compare the transactions of two sets of logs, such as those of a source and its replica.
    #[command(after_long_help = diff::EXAMPLES)]
    Diff(diff::DiffArgs),
    /// Estimate what transaction compression saves and costs, by level, table and size.
    #[command(after_long_help = advise::EXAMPLES)]
    Advise(advise::AdviseArgs),
    /// Compress transactions in logs, as a server does with binlog_transaction_compression=ON.
    #[command(after_long_help = rewrite::COMPRESS_EXAMPLES)]
    Compress(rewrite::CompressArgs),
    /// Decompress transactions in logs, for programs that do not support compression.
    #[command(after_long_help = rewrite::DECOMPRESS_EXAMPLES)]
    Decompress(rewrite::DecompressArgs),
    /// Receive a server's logs into a directory as they are written, byte for byte.
    #[command(after_long_help = receive::EXAMPLES)]
    Receive(receive::ReceiveArgs),
    /// Serve logs to replicas and clients as a MySQL source does, to each in the form that it can read.
    #[command(after_long_help = relay::EXAMPLES)]
    Relay(Box<relay::RelayArgs>),
    /// Apply logs to a server or a SQLite database: each transaction exactly once, in the source's order; can be
    /// resumed.
    #[command(after_long_help = replay::EXAMPLES)]
    Replay(Box<replay::ReplayArgs>),
    /// Write row changes as JSON or Avro records, in the format of Debezium or Maxwell.
    #[command(after_long_help = stream::EXAMPLES)]
    Stream(Box<stream::StreamArgs>),
    /// Write row changes as Parquet files, for DuckDB, pandas, Spark and other programs.
    #[cfg(feature = "columns")]
    #[command(after_long_help = export::EXAMPLES)]
    Export(Box<export::ExportArgs>),
    /// Read pages into a replica's buffer pool before its applier needs them.
    #[command(after_long_help = warm::EXAMPLES)]
    Warm(Box<warm::WarmArgs>),
    /// Show a live view of a directory of logs that is being written, and of the bintide processes of this machine.
    #[command(after_long_help = top::EXAMPLES)]
    Top(top::TopArgs),
    /// Archive closed logs on object storage or in a directory; list, verify, restore and delete archived logs.
    #[cfg(feature = "archive")]
    #[command(after_long_help = archive::EXAMPLES)]
    Archive(Box<archive::ArchiveArgs>),
    /// Print shell completions.
    #[command(after_long_help = completions::EXAMPLES)]
    Completions(completions::CompletionsArgs),
    /// Print a manual page, or write all of them to a directory.
    #[command(after_long_help = man::EXAMPLES)]
    Man(man::ManArgs),
}

impl CliCommand {
    /// Returns the effect of SIGHUP on the command.
    pub(crate) const fn hangup_effect(&self) -> HangupEffect {
        match self {
            Self::Relay(_) => HangupEffect::Reload,
            _ => HangupEffect::Stop,
        }
    }
}

/// Commands with subcommands.
const COMMAND_GROUPS: [&str; 3] = ["relay", "user", "archive"];

/// Replaces `bintide help COMMAND` by `bintide COMMAND --help`, which all commands support, including dump. `help` may
/// also follow a command with subcommands: `bintide relay help status`.
pub(crate) fn expand_help(mut args: Vec<OsString>) -> Vec<OsString> {
    let is_own_name = args.first().is_none_or(|program| !dump::is_mysqlbinlog(program));
    let is_group = |word: &&OsString| COMMAND_GROUPS.iter().any(|name| *word == name);
    let word = args.iter().skip(1).find(|word| !is_group(word));
    if is_own_name && word.is_some_and(|word| word == "help") {
        args.retain(|word| word != "help");
        args.push("--help".into());
    }
    args
}

/// Runs the chosen command.
pub(crate) fn run(cli: Cli) -> CommandResult {
    match cli.command {
        CliCommand::Advise(arguments) => advise::run(&arguments, &cli.global),
        #[cfg(feature = "archive")]
        CliCommand::Archive(arguments) => archive::run(&arguments, &cli.global),
        CliCommand::Compress(arguments) => rewrite::compress(&arguments, &cli.global),
        CliCommand::Completions(arguments) => completions::run(&arguments, documented_command()),
        CliCommand::Decompress(arguments) => rewrite::decompress(&arguments, &cli.global),
        CliCommand::Diff(arguments) => diff::run(&arguments, &cli.global),
        CliCommand::Dump(arguments) => dump::run(arguments, &command()),
        #[cfg(feature = "columns")]
        CliCommand::Export(arguments) => export::run(&arguments, &cli.global),
        CliCommand::History(arguments) => history::run(&arguments, &cli.global),
        CliCommand::Undo(arguments) => undo::run(&arguments, &cli.global),
        CliCommand::Man(arguments) => man::run(&arguments, documented_command()),
        CliCommand::Receive(arguments) => receive::run(&arguments, &cli.global),
        CliCommand::Relay(arguments) => relay::run(&arguments, &cli.global),
        CliCommand::Replay(mut arguments) => replay::run(&mut arguments, &cli.global),
        CliCommand::Stats(arguments) => stats::run(&arguments, &cli.global),
        CliCommand::Stream(arguments) => stream::run(&arguments, &cli.global),
        CliCommand::Top(arguments) => top::run(&arguments, &cli.global),
        CliCommand::Verify(arguments) => verify::run(&arguments, &cli.global),
        CliCommand::Warm(arguments) => warm::run(&arguments, &cli.global),
    }
}

/// Returns the whole command, without the defaults from settings.
pub(crate) fn command() -> clap::Command {
    make_logs_optional(replay::make_logs_optional(Cli::command()))
}

/// Commands that read the logs of a server, if one is given, in place of LOG arguments.
const SERVER_LOG_COMMANDS: [&str; 3] = ["advise", "stats", "stream"];

/// Makes the LOG arguments optional where a server is given.
fn make_logs_optional(command: clap::Command) -> clap::Command {
    let relax = |logs: clap::Arg| logs.required(false).required_unless_present_any(SERVER_OPTIONS);
    command.mut_subcommands(|command| match SERVER_LOG_COMMANDS.contains(&command.get_name()) {
        true => command.mut_arg("logs", relax),
        false => command,
    })
}

/// Adds to the error of a missing LOG what else the command can read.
pub(crate) fn with_log_alternatives(mut error: clap::Error, args: &[OsString]) -> clap::Error {
    let names_log = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::Strings(missing)) => missing.iter().any(|name| name.starts_with("<LOG>")),
        _ => false,
    };
    let command = args.iter().skip(1).find(|word| !word.as_encoded_bytes().starts_with(b"-"));
    let alternatives = match command.and_then(|word| word.to_str()) {
        Some("replay") => {
            "give logs, a directory with --follow, a server with --from, or --status without any of them"
        }
        Some(name) if SERVER_LOG_COMMANDS.contains(&name) => "give logs, or a server with --from",
        _ => return error,
    };
    if names_log && error.kind() == ErrorKind::MissingRequiredArgument {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![alternatives.into()]));
    }
    error
}

/// Returns the whole command with the options of dump, which clap does not parse.
fn documented_command() -> clap::Command {
    dump::add_options(command())
}

/// Returns the argument of a command that is not required if this option is given.
pub(crate) fn replaced_argument(command: &str, long: &str) -> Option<&'static str> {
    match command {
        "replay" if long == "from" => Some("logs"),
        "replay" if SERVER_OPTIONS.contains(&long) => Some("to"),
        _ if SERVER_LOG_COMMANDS.contains(&command) && SERVER_OPTIONS.contains(&long) => Some("logs"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    fn check_examples(command: &clap::Command) {
        let examples = command.get_after_long_help().map(ToString::to_string).unwrap_or_default();
        for line in examples.lines() {
            assert!(line.chars().count() <= 80, "{}: {line}", command.get_name());
        }
        command.get_subcommands().for_each(check_examples);
    }

    #[test]
    fn examples_fit_in_80_columns() {
        check_examples(&super::command());
    }

    #[test]
    fn help_is_an_option_of_every_command() {
        let check = |args: &str, expected: &str| {
            let args = super::expand_help(args.split(' ').map(Into::into).collect());
            assert_eq!(args.join(" ".as_ref()), expected);
        };
        check("bintide help", "bintide --help");
        check("bintide help dump", "bintide dump --help");
        check("bintide help relay user", "bintide relay user --help");
        check("bintide help help", "bintide --help");
        check("bintide relay help status", "bintide relay status --help");
        check("bintide relay user help add", "bintide relay user add --help");
        check("bintide archive help", "bintide archive --help");
        check("bintide relay status help", "bintide relay status help");
        check("bintide verify help", "bintide verify help");
        check("/usr/bin/mysqlbinlog help", "/usr/bin/mysqlbinlog help");
    }

    #[test]
    fn missing_logs_have_alternatives() {
        let check = |line: &str, expected: Option<&str>| {
            let args: Vec<OsString> = line.split(' ').map(Into::into).collect();
            let error = super::command().try_get_matches_from(&args).unwrap_err();
            let text = super::with_log_alternatives(error, &args).to_string();
            match expected {
                Some(expected) => assert!(text.contains(expected), "{text}"),
                None => assert!(!text.contains("give logs"), "{text}"),
            }
        };
        check("bintide stats", Some("give logs, or a server with --from"));
        check("bintide stream --format maxwell", Some("give logs, or a server with --from"));
        check("bintide replay --to sqlite:x.db", Some("or --status"));
        check("bintide verify", None);
        check("bintide stream x", None);
    }

    #[test]
    fn arguments_are_consistent() {
        super::command().debug_assert();
        super::documented_command().debug_assert();
    }
}
