//! `bintide man`: manual pages, from the texts of `--help`.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, Command};
use clap_mangen::Man as Page;

use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::output_directory::create_directory;

pub(crate) const EXAMPLES: &str = "\
Examples:
  Show the page of a command:
      bintide man stats | man -l -
      bintide man relay user | man -l -
  Install all pages:
      bintide man --out ~/.local/share/man/man1";

/// Arguments of `bintide man`.
#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Command whose page is printed, such as `stats` or `relay user` [default: bintide itself]
    command: Vec<String>,
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
        None => io::stdout().write_all(page(find(whole, &arguments.command)?)?.as_bytes())?,
    }
    Ok(CommandVerdict::Success)
}

fn write_all(whole: &Command, directory: &Path) -> anyhow::Result<()> {
    create_directory(directory)?;
    for command in with_subcommands(whole) {
        let path = directory.join(format!("{}.1", command.get_name()));
        fs::write(&path, page(command)?).with_context(|| format!("could not write {}", path.display()))?;
    }
    Ok(())
}

/// Returns the command and all commands below it, each under the name of its page.
fn with_subcommands(command: &Command) -> Vec<Command> {
    let inner =
        command.get_subcommands().flat_map(|inner| with_subcommands(&name_subcommand(command, inner)));
    std::iter::once(command.clone()).chain(inner).collect()
}

fn find(whole: Command, path: &[String]) -> Result<Command, CommandFailure> {
    path.iter().try_fold(whole, |command, name| {
        let found = command.get_subcommands().find(|inner| inner.get_name() == name);
        found.map(|inner| name_subcommand(&command, inner)).ok_or_else(|| {
            let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
            CommandFailure::NotStarted(match names.is_empty() {
                true => anyhow!("unknown command `{name}`: `{}` has no subcommands", path[0]),
                false => anyhow!("unknown command `{name}`: expected one of {}", names.join(", ")),
            })
        })
    })
}

/// Returns a subcommand under the name of its page: `bintide-stats`.
fn name_subcommand(whole: &Command, inner: &Command) -> Command {
    inner.clone().name(format!("{}-{}", whole.get_name(), inner.get_name()))
}

/// Preserves the lines of the section with examples: commands must not be filled and justified.
fn preserve_lines(page: &str) -> String {
    let Some((front, rest)) = page.split_once("\n.SH EXTRA\n") else { return page.to_owned() };
    let (notes, after) = match rest.find("\n.SH ") {
        Some(end) => rest.split_at(end + 1),
        None => (rest, ""),
    };
    format!("{front}\n.SH NOTES\n.nf\n{notes}.fi\n{after}")
}

/// Returns the source of a page, in ASCII: without a converter, groff reads other bytes as Latin-1.
fn page(command: Command) -> anyhow::Result<String> {
    let mut text = Vec::new();
    Page::new(command).render(&mut text).context("could not render the page")?;
    let text = preserve_lines(&String::from_utf8(text).context("could not render the page")?);
    Ok(text.chars().fold(String::new(), |mut page, char| {
        match char {
            '…' => page.push_str("..."),
            '\0'..='\x7f' => page.push(char),
            other => page.push_str(&format!("\\[u{:04X}]", u32::from(other))),
        }
        page
    }))
}
