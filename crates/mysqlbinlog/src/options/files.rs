//! Option files of mysqlbinlog.

use std::io;

use option_files::{Diagnostics, FileChoice, OptionFileEnvironment, ReadFailure};

use super::{DumpExit, OptionWord, WordOrigin};
use crate::dump_diagnostics::{DumpDiagnostics, MessageLevel};
use crate::errno::os_error;

/// Groups that are read.
pub(crate) const GROUPS: [&str; 2] = ["mysqlbinlog", "client"];

/// Result of reading the option files.
pub(crate) enum LoadedArguments {
    /// Arguments: options from option files, then the command line.
    Words(Vec<OptionWord>),
    /// Text to print instead of running.
    Print(Vec<u8>),
}

/// Reads the option files that `choice` selects, and puts their options before `rest`.
pub(crate) fn load(
    choice: &mut FileChoice,
    rest: &[Vec<u8>],
    environment: &OptionFileEnvironment,
    diagnostics: &mut DumpDiagnostics<'_>,
) -> Result<LoadedArguments, DumpExit> {
    let options = option_files::read(choice, &GROUPS, environment, diagnostics).map_err(|ReadFailure| {
        diagnostics
            .program_message(MessageLevel::Error, &[b"Fatal error in defaults handling. Program aborted!"]);
        DumpExit::FAILURE
    })?;
    if choice.print {
        let mut text =
            [diagnostics.program(), b" would have been started with the following arguments:\n"].concat();
        for word in options.iter().map(|option| &option.text).chain(rest) {
            text.extend_from_slice(if word.starts_with(b"--password") { b"--password=*****" } else { word });
            text.push(b' ');
        }
        text.push(b'\n');
        return Ok(LoadedArguments::Print(text));
    }
    let of_files =
        options.into_iter().map(|option| OptionWord { text: option.text, origin: WordOrigin::File });
    let given = rest.iter().map(|text| OptionWord { text: text.clone(), origin: WordOrigin::CommandLine });
    Ok(LoadedArguments::Words(of_files.chain(given).collect()))
}

impl Diagnostics for DumpDiagnostics<'_> {
    fn warning(&mut self, text: &[&[u8]]) {
        self.program_message(MessageLevel::Warning, text);
    }

    fn error(&mut self, text: &[&[u8]]) {
        self.program_message(MessageLevel::Error, text);
    }

    fn system_error(&mut self, text: &[&[u8]], cause: &io::Error) {
        self.file_message(&[&text.concat(), b" (", &os_error(cause), b")"]);
    }
}
