//! `bintide completions`: shell completions.

use std::io::{self, Write};

use clap::Args;
use clap_complete::Shell;

use crate::args;
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

/// Prints the completions to standard output.
pub(crate) fn run(command: &CompletionsArgs) -> CommandResult {
    // Built in memory: writing to a closed pipe would make the generator panic.
    let mut script = Vec::new();
    clap_complete::generate(command.shell, &mut args::command(), "bintide", &mut script);
    io::stdout().write_all(&script)?;
    Ok(CommandVerdict::Success)
}
