//! `bintide completions`: shell completions.

use std::io::{self, Write};

use clap::{Args, Command};
use clap_complete::Shell;

use crate::exit::{CommandResult, CommandVerdict};

pub(crate) const EXAMPLES: &str = "\
Examples:
  bintide completions bash > ~/.local/share/bash-completion/completions/bintide
  bintide completions zsh > \"${fpath[1]}/_bintide\"
  bintide completions fish > ~/.config/fish/completions/bintide.fish";

/// Arguments of `bintide completions`.
#[derive(Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// Shell to print completions for
    #[arg(value_enum)]
    shell: Shell,
}

/// Prints the completions of the whole command to standard output.
pub(crate) fn run(arguments: &CompletionsArgs, mut whole: Command) -> CommandResult {
    // Built in memory: writing to a closed pipe would make the generator panic.
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut whole, "bintide", &mut script);
    io::stdout().write_all(&script)?;
    Ok(CommandVerdict::Success)
}
