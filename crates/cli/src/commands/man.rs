//! `bintide man`: manual pages, from the texts of `--help`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, Command};
use clap_mangen::Man as Page;

use crate::exit::{CommandFailure, CommandResult, CommandVerdict};

pub(crate) const EXAMPLES: &str = "\
Examples:
  Show the page of one command:
      bintide man stats | man -l -
  Install all pages:
      bintide man --out ~/.local/share/man/man1";

/// Arguments of `bintide man`.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Command to print the page of [default: bintide itself]
    command: Option<String>,
    /// Write all pages to this directory instead of printing one.
    #[arg(long, value_name = "DIR", conflicts_with = "command")]
    out: Option<PathBuf>,
}

/// Prints one page of the whole command, or writes all pages.
pub(crate) fn run(arguments: &ManArgs, mut whole: Command) -> CommandResult {
    // Propagates the options of all commands to each command.
    whole.build();
    match &arguments.out {
        Some(directory) => write_all(&whole, directory)?,
        None => io::stdout().write_all(&page(find(whole, arguments.command.as_deref())?)?)?,
    }
    Ok(CommandVerdict::Success)
}

fn write_all(whole: &Command, directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("could not create {}", directory.display()))?;
    let commands = whole.get_subcommands().map(|inner| name_subcommand(whole, inner));
    for command in commands.chain([whole.clone()]) {
        let path = directory.join(format!("{}.1", command.get_name()));
        fs::write(&path, page(command)?).with_context(|| format!("could not write {}", path.display()))?;
    }
    Ok(())
}

fn find(whole: Command, name: Option<&str>) -> Result<Command, CommandFailure> {
    let Some(name) = name else { return Ok(whole) };
    let found = whole.get_subcommands().find(|inner| inner.get_name() == name);
    found.map(|inner| name_subcommand(&whole, inner)).ok_or_else(|| {
        let names: Vec<&str> = whole.get_subcommands().map(Command::get_name).collect();
        CommandFailure::NotStarted(anyhow!("unknown command `{name}`: expected one of {}", names.join(", ")))
    })
}

/// Returns a subcommand under the name of its page: `bintide-stats`.
fn name_subcommand(whole: &Command, inner: &Command) -> Command {
    inner.clone().name(format!("{}-{}", whole.get_name(), inner.get_name()))
}

fn page(command: Command) -> anyhow::Result<Vec<u8>> {
    let mut text = Vec::new();
    Page::new(command).render(&mut text).context("could not render the page")?;
    Ok(text)
}
