//! Warnings and errors about option files.

use std::io;

use option_files::Diagnostics;

use crate::args::Global;
use crate::screen;

/// Shows warnings about option files, and keeps errors for the line that the command ends with.
pub(crate) struct OptionFileMessages {
    is_quiet: bool,
    errors: Vec<String>,
}

impl OptionFileMessages {
    pub(crate) fn new(global: &Global) -> Self {
        Self { is_quiet: global.quiet, errors: Vec::new() }
    }

    /// Returns the errors, separated by semicolons.
    pub(crate) fn errors(&self) -> String {
        self.errors.join("; ")
    }
}

fn text_of(parts: &[&[u8]]) -> String {
    String::from_utf8_lossy(&parts.concat()).trim_end_matches('.').to_owned()
}

impl Diagnostics for OptionFileMessages {
    fn warning(&mut self, text: &[&[u8]]) {
        if !self.is_quiet {
            screen::remark(format_args!("[Warning] {}.", text_of(text)));
        }
    }

    fn error(&mut self, text: &[&[u8]]) {
        self.errors.push(text_of(text));
    }

    fn system_error(&mut self, text: &[&[u8]], cause: &io::Error) {
        self.errors.push(format!("{}: {cause}", text_of(text)));
    }
}
