//! The `bintide` command: arguments, settings, progress and tables. Other crates produce the reports.
#![forbid(unsafe_code)]

mod args;
mod background_thread;
mod column_name_source;
mod commands;
mod connection_args;
mod dump_lists;
mod dump_servers;
mod exit;
mod global_args;
mod http_site;
mod interrupt;
mod json_document;
mod live_page;
mod log_args;
mod messages;
mod metric_table;
mod metrics;
mod metrics_registry;
mod newest_log_args;
mod option_file_messages;
mod output_directory;
mod output_format;
mod page;
mod panics;
mod password_masking;
mod progress;
mod recent_rates;
mod screen;
mod selection_args;
mod service_notifier;
mod service_state;
mod settings;
#[cfg(all(feature = "archive", feature = "columns"))]
mod staged_tables;
mod temporary_files;
mod transaction_args;
mod typed_options;
mod units;
mod value_parsers;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::FromArgMatches;
use clap::error::ErrorKind;

use crate::args::Cli;
use crate::exit::CommandResult;

fn main() -> ExitCode {
    panics::install();
    let args = args::expand_help(password_masking::read_arguments());
    #[cfg(feature = "archive")]
    archive::make_archives_readable();
    exit::report(panics::catch(|| match commands::dump::detect(&args) {
        Some(dump) => {
            messages::install_default();
            commands::dump::run(dump, &args::command())
        }
        None => run(args),
    }))
}

/// Returns whether the arguments request help, the version or completions. Wrong settings do not prevent these.
fn needs_no_settings(args: &[OsString]) -> bool {
    match args::command().try_get_matches_from(args) {
        Ok(matches) => matches.subcommand_name() == Some("completions"),
        Err(error) => matches!(
            error.kind(),
            ErrorKind::DisplayHelp
                | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
                | ErrorKind::DisplayVersion
        ),
    }
}

fn run(args: Vec<OsString>) -> CommandResult {
    let args = connection_args::with_long_passwords(args);
    let loaded = settings::load(settings::config_path(&args));
    let with_settings =
        loaded.and_then(|settings| settings::apply_settings(args::command(), &settings, &args));
    let command = match with_settings {
        Err(failure) if !needs_no_settings(&args) => return Err(failure),
        with_settings => with_settings.unwrap_or_else(|_| args::command()),
    };
    let unknown = match settings::has_variables() {
        true => settings::unknown_variables(&args::command()),
        false => Vec::new(),
    };
    let command = command.color(screen::color_of_help(&args));
    let parsed = match command.clone().try_get_matches_from(&args) {
        Err(error) if error.kind() == ErrorKind::MissingRequiredArgument => {
            let args = settings::with_required(&command, args.clone());
            command.try_get_matches_from(args)
        }
        parsed => parsed,
    };
    let mut matches = parsed.map_err(|error| args::with_log_alternatives(error, &args))?;
    if let Some(("replay", matches)) = matches.subcommand() {
        commands::replay::check_options(matches)?;
    }
    let cli = Cli::from_arg_matches_mut(&mut matches)?;
    cli.global.install_messages();
    settings::warn_unknown(&unknown);
    interrupt::install(cli.command.hangup_effect())?;
    args::run(cli)
}
