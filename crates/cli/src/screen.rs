//! What people read on screen.

use std::ffi::OsString;

use clap::{ColorChoice, ValueEnum};

/// When to do something that only a terminal shows well.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// On a terminal, unless NO_COLOR is set.
    Auto,
    /// Even into a file or a pipe.
    Always,
    /// Not at all.
    Never,
}

/// Colour for help and usage, which clap prints before the options are known.
pub(crate) fn color_of_help(args: &[OsString]) -> ColorChoice {
    let mut texts = args.iter().filter_map(|arg| arg.to_str());
    while let Some(text) = texts.next() {
        let value = match text {
            "--color" => texts.next(),
            _ => text.strip_prefix("--color="),
        };
        match value {
            Some("always") => return ColorChoice::Always,
            Some("never") => return ColorChoice::Never,
            _ => {}
        }
    }
    ColorChoice::Auto
}
