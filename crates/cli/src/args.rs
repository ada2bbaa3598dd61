//! What can be asked for on the command line.

use std::path::PathBuf;

use clap::{Args, CommandFactory, Parser, Subcommand};

use crate::commands::{
    advise, completions, dump, man, receive, replay, rewrite, stats, stream, verify, warm,
};
use crate::screen::When;

/// Reads, measures and checks MySQL binary logs.
///
/// A log is given as a file, as a directory (whose index file says which logs there are, and in which order), or
/// as `-` for standard input. Plain and encrypted logs, compressed transactions, relay logs and logs still being
/// written are all read.
#[derive(Debug, Parser)]
#[command(name = "bintide", version, arg_required_else_help = true, max_term_width = 100)]
#[command(disable_help_subcommand = true, after_long_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  What does this log say?
      bintide dump -vv binlog.000012 | less
  What is in these logs, and who wrote so much?
      bintide stats /var/lib/mysql/binlog.0000*
  Are they sound, every one of them?
      bintide verify /var/lib/mysql
  Completions for the shell at hand:
      source <(bintide completions bash)

Settings:
  Every long option can also be set in the environment or in a file. The
  command line wins over the environment, the environment over the file.
      bintide stats --top 20 …     on the command line
      BINTIDE_STATS_TOP=20         in the environment: the command, the option
      [stats]                      in ~/.config/bintide/bintide.toml, or the file
      top = 20                     that --config or BINTIDE_CONFIG names
  Without the command's name, a setting holds for every command that has the
  option: BINTIDE_KEYRING=FILE, or keyring = \"FILE\" above all tables; one with
  the name wins. A switch is set by 1, on, yes or true. dump reads MySQL's
  option files too; these settings win over them. NO_COLOR is obeyed.

Exit codes:
  0    done; nothing wrong was found
  1    a log is damaged, or the work failed on the way, or a thread panicked
  2    not done: wrong usage or settings, or a log that cannot be read (it is
       not there, not for this user, or its key is not at hand)
  130  interrupted; 0 if a service manager (NOTIFY_SOCKET is set) stops by SIGTERM
       what runs until it is stopped, such as receive
  dump as text has mysqlbinlog's, which are 1 for all that goes wrong with logs.";

/// Options of every command.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Options of every command")]
pub(crate) struct Global {
    /// When to use colour.
    #[arg(long, global = true, value_enum, default_value_t = When::Auto, value_name = "WHEN")]
    pub(crate) color: When,
    /// Read settings from this file instead of bintide/bintide.toml in the user's configuration directory.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// No progress bar, no remarks on standard error: only errors.
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Print logs as mysqlbinlog does, with its options and more.
    #[command(disable_help_flag = true, after_long_help = dump::EXAMPLES)]
    Dump(dump::Dump),
    /// Count what logs hold: transactions, rows and bytes, by table, size and time.
    #[command(after_long_help = stats::EXAMPLES)]
    Stats(stats::Stats),
    /// Tell whether logs are sound: every checksum, position, GTID, row and payload.
    #[command(after_long_help = verify::EXAMPLES)]
    Verify(verify::Verify),
    /// Tell what compressing transactions would save and cost, by level, table and size, before anything is changed.
    #[command(after_long_help = advise::EXAMPLES)]
    Advise(advise::Advise),
    /// Compress transactions, as a server does; the result is a binary log still.
    #[command(after_long_help = rewrite::COMPRESS_EXAMPLES)]
    Compress(rewrite::Compress),
    /// Open compressed transactions: plain logs for readers that know no others.
    #[command(after_long_help = rewrite::DECOMPRESS_EXAMPLES)]
    Decompress(rewrite::Decompress),
    /// Receive a server's logs as they are written, byte for byte, into a directory.
    #[command(after_long_help = receive::EXAMPLES)]
    Receive(receive::Receive),
    /// Apply logs to a server: in commit order, exactly once, resumable.
    #[command(after_long_help = replay::EXAMPLES)]
    Replay(Box<replay::Replay>),
    /// Write row changes as JSON records, in the form of Debezium or Maxwell.
    #[command(after_long_help = stream::EXAMPLES)]
    Stream(Box<stream::Stream>),
    /// Bring into memory what a replica's applier will need, ahead of it.
    #[command(after_long_help = warm::EXAMPLES)]
    Warm(Box<warm::Warm>),
    /// Print completions for a shell.
    #[command(after_long_help = completions::EXAMPLES)]
    Completions(completions::Completions),
    /// Print manual pages, or write them to a directory.
    #[command(after_long_help = man::EXAMPLES)]
    Man(man::Man),
}

/// The whole command, before settings are laid under it.
pub(crate) fn command() -> clap::Command {
    advise::without_logs(stream::without_logs(replay::without_logs(Cli::command())))
}

#[cfg(test)]
mod tests {
    #[test]
    fn arguments_are_consistent() {
        super::command().debug_assert();
    }
}
