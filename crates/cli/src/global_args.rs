//! Options of all commands.

use std::path::PathBuf;

use clap::Args;

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
    /// Print only errors on standard error: no progress, no warnings.
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}
