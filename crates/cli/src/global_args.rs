//! Options of all commands.

use std::io::{self, IsTerminal as _};
use std::path::PathBuf;

use clap::Args;

use crate::messages::{self, MessageFormat, MessageSeverity};
use crate::screen::ColorWhen;

/// Options of all commands.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Options of all commands")]
pub(crate) struct GlobalArgs {
    /// Colour of the output
    #[arg(long, global = true, value_enum, default_value_t = ColorWhen::Auto, value_name = "WHEN")]
    pub(crate) color: ColorWhen,
    /// Read settings from this file instead of bintide/bintide.toml in the user's configuration directory.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Print no progress and no warnings, except about ignored option files; diff prints no report, and verify only
    /// faults.
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// Format of messages on standard error: text (with time and level), json or journald. With a format, progress is
    /// printed as lines, not as a bar [default: the message only; journald if systemd connects standard error to the
    /// journal]
    #[arg(long, global = true, value_enum, value_name = "FORMAT", hide_possible_values = true)]
    log_format: Option<MessageFormat>,
    /// Print messages of this level and above on standard error: error, warn, info or debug.
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "LEVEL",
        default_value_t = MessageSeverity::Info,
        hide_possible_values = true
    )]
    log_level: MessageSeverity,
}

impl GlobalArgs {
    /// Starts to write messages as the options specify.
    pub(crate) fn install_messages(&self) {
        messages::install(self.log_format, if self.quiet { MessageSeverity::Error } else { self.log_level });
    }

    /// Returns whether to show progress bars: on a terminal, unless a format of messages is given.
    pub(crate) fn shows_bars(&self) -> bool {
        !self.quiet && self.log_format.is_none() && io::stderr().is_terminal()
    }
}
