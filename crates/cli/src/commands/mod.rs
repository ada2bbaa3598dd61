//! One module per command: its arguments and its work.

pub(crate) mod advise;
pub(crate) mod completions;
pub(crate) mod dump;
pub(crate) mod man;
pub(crate) mod receive;
pub(crate) mod replay;
pub(crate) mod rewrite;
pub(crate) mod stats;
pub(crate) mod stream;
pub(crate) mod table_args;
pub(crate) mod verify;
pub(crate) mod warm;

use crate::args::{Cli, CliCommand};
use crate::exit::CommandResult;

/// Runs the chosen command.
pub(crate) fn run(cli: Cli) -> CommandResult {
    match cli.command {
        CliCommand::Advise(command) => advise::run(&command, &cli.global),
        CliCommand::Compress(command) => rewrite::compress(&command, &cli.global),
        CliCommand::Completions(command) => completions::run(&command),
        CliCommand::Decompress(command) => rewrite::decompress(&command, &cli.global),
        CliCommand::Dump(command) => dump::run(command),
        CliCommand::Man(command) => man::run(&command),
        CliCommand::Receive(command) => receive::run(&command, &cli.global),
        CliCommand::Replay(mut command) => replay::run(&mut command, &cli.global),
        CliCommand::Stats(command) => stats::run(&command, &cli.global),
        CliCommand::Stream(command) => stream::run(&command, &cli.global),
        CliCommand::Verify(command) => verify::run(&command, &cli.global),
        CliCommand::Warm(command) => warm::run(&command, &cli.global),
    }
}
