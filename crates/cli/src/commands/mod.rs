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
pub(crate) mod tables;
pub(crate) mod verify;
pub(crate) mod warm;

use crate::args::{Cli, Command};
use crate::exit::Outcome;

/// Runs the chosen command.
pub(crate) fn run(cli: Cli) -> Outcome {
    match cli.command {
        Command::Advise(command) => advise::run(&command, &cli.global),
        Command::Compress(command) => rewrite::compress(&command, &cli.global),
        Command::Completions(command) => completions::run(&command),
        Command::Decompress(command) => rewrite::decompress(&command, &cli.global),
        Command::Dump(command) => dump::run(command),
        Command::Man(command) => man::run(&command),
        Command::Receive(command) => receive::run(&command, &cli.global),
        Command::Replay(mut command) => replay::run(&mut command, &cli.global),
        Command::Stats(command) => stats::run(&command, &cli.global),
        Command::Stream(command) => stream::run(&command, &cli.global),
        Command::Verify(command) => verify::run(&command, &cli.global),
        Command::Warm(command) => warm::run(&command, &cli.global),
    }
}
