//! The `bintide` command: arguments, settings, progress and tables. Other crates produce the reports.
#![forbid(unsafe_code)]

mod args;
mod arguments;
mod commands;
mod connection_args;
mod exit;
mod inputs;
mod interrupt;
mod link;
mod metrics;
mod option_file_messages;
mod page;
mod panics;
mod progress;
mod rates;
mod running;
mod screen;
mod settings;
mod temporary;
mod units;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;

use crate::args::Cli;
use crate::exit::Outcome;

fn main() -> ExitCode {
    panics::install();
    let args = arguments::take();
    exit::report(panics::catch(|| match commands::dump::take(&args) {
        Some(dump) => commands::dump::run(dump),
        None => run(args),
    }))
}

fn run(args: Vec<OsString>) -> Outcome {
    let args = connection_args::with_long_passwords(args);
    let settings = settings::load(settings::named_in(&args))?;
    let unknown = settings::unknown_variables(&args::command());
    let command = settings::layer(args::command(), &settings)?;
    let command = command.color(screen::color_of_help(&args));
    let mut matches = command.try_get_matches_from(&args)?;
    let cli = Cli::from_arg_matches_mut(&mut matches)?;
    if !cli.global.quiet {
        settings::remark_on(&unknown);
    }
    interrupt::install()?;
    commands::run(cli)
}
