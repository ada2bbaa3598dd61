//! The `bintide` command: arguments, settings, progress and tables. Other crates produce the reports.
#![forbid(unsafe_code)]

mod args;
mod commands;
mod connection_args;
mod dump_servers;
mod exit;
mod global_args;
mod interrupt;
mod log_args;
mod metrics;
mod option_file_messages;
mod page;
mod panics;
mod password_masking;
mod progress;
mod rates;
mod screen;
mod settings;
mod temporary;
mod units;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;

use crate::args::Cli;
use crate::exit::CommandResult;

fn main() -> ExitCode {
    panics::install();
    let args = password_masking::read_arguments();
    exit::report(panics::catch(|| match commands::dump::detect(&args) {
        Some(dump) => commands::dump::run(dump, &args::command()),
        None => run(args),
    }))
}

fn run(args: Vec<OsString>) -> CommandResult {
    let args = connection_args::with_long_passwords(args);
    let settings = settings::load(settings::config_path(&args))?;
    let unknown = settings::unknown_variables(&args::command());
    let command = settings::apply_settings(args::command(), &settings)?;
    let command = command.color(screen::color_of_help(&args));
    let mut matches = command.try_get_matches_from(&args)?;
    let cli = Cli::from_arg_matches_mut(&mut matches)?;
    if !cli.global.quiet {
        settings::warn_unknown(&unknown);
    }
    interrupt::install()?;
    args::run(cli)
}
