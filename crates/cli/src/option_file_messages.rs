//! Warnings and errors about option files.

use std::fmt;
use std::io;

use option_files::{Diagnostics, FileIgnoreReason, FileOrigin};

use tracing::error;

/// Prints warnings about option files, and collects errors for the command's last line.
///
/// Shows warnings even with `--quiet`: an ignored file may have required a verified connection.
#[derive(Default)]
pub(crate) struct OptionFileMessages {
    errors: Vec<String>,
}

impl OptionFileMessages {
    /// Returns whether a file could not be used as intended.
    pub(crate) fn has_errors(&self) -> bool {
        !self.errors.is_empty()
    }

    /// Returns the errors, separated by semicolons.
    pub(crate) fn errors(&self) -> String {
        self.errors.join("; ")
    }
}

fn message_text(parts: &[&[u8]]) -> String {
    String::from_utf8_lossy(&parts.concat()).trim_end_matches('.').to_owned()
}

/// Returns the error for an option file or a settings file that is not read.
pub(crate) fn unusable_file(file: impl fmt::Display, reason: FileIgnoreReason) -> String {
    format!("{file} cannot be used: {}", reason_text(reason))
}

const fn reason_text(reason: FileIgnoreReason) -> &'static str {
    match reason {
        FileIgnoreReason::WorldWritable => "all users may write to it; run chmod o-w",
        FileIgnoreReason::Unreadable => "this user may not read it",
        FileIgnoreReason::Directory => "it is a directory; expected a file",
        FileIgnoreReason::NamedPipe => "it is a named pipe; expected a file",
        FileIgnoreReason::Damaged => "a part of it cannot be decrypted; recreate it with mysql_config_editor",
    }
}

impl Diagnostics for OptionFileMessages {
    fn file_ignored(&mut self, file: &[u8], reason: FileIgnoreReason, origin: FileOrigin) {
        let file = String::from_utf8_lossy(file);
        match origin {
            FileOrigin::Named => self.errors.push(unusable_file(file, reason)),
            FileOrigin::Default => {
                let reason = reason_text(reason);
                // An error by its level: --quiet hides warnings.
                error!("{file} is ignored: {reason}")
            }
        }
    }

    fn warning(&mut self, text: &[&[u8]]) {
        error!("{}", message_text(text));
    }

    fn error(&mut self, text: &[&[u8]]) {
        // The reason was already given for a file that cannot be used.
        let has_reason = text.last().is_some_and(|file| {
            let unusable = format!("{} cannot be used: ", String::from_utf8_lossy(file));
            self.errors.last().is_some_and(|last| last.starts_with(&unusable))
        });
        if !has_reason {
            self.errors.push(message_text(text));
        }
    }

    fn system_error(&mut self, text: &[&[u8]], cause: &io::Error) {
        self.errors.push(format!("{}: {cause}", message_text(text)));
    }
}
