//! Option files of mysqlbinlog.

use std::io;

use option_files::{Diagnostics, Environment, FileChoice, ReadFailed};

use super::{Exit, Origin, Word};
use crate::errno::os_error;
use crate::talk::{Level, Talk};

/// Groups that are read.
pub(crate) const GROUPS: [&str; 2] = ["mysqlbinlog", "client"];

/// Result of reading the option files.
pub(crate) enum Loaded {
    /// Arguments: options from option files, then the command line.
    Words(Vec<Word>),
    /// Text to print instead of running.
    Print(Vec<u8>),
}

/// Reads the option files that `choice` selects, and puts their options before `rest`.
pub(crate) fn load(
    choice: &mut FileChoice,
    rest: &[Vec<u8>],
    environment: &Environment,
    talk: &mut Talk<'_>,
) -> Result<Loaded, Exit> {
    let options = option_files::read(choice, &GROUPS, environment, talk).map_err(|ReadFailed| {
        talk.local(Level::Error, &[b"Fatal error in defaults handling. Program aborted!"]);
        Exit::FAILURE
    })?;
    if choice.print {
        let mut text = [talk.program(), b" would have been started with the following arguments:\n"].concat();
        for word in options.iter().map(|option| &option.text).chain(rest) {
            text.extend_from_slice(if word.starts_with(b"--password") { b"--password=*****" } else { word });
            text.push(b' ');
        }
        text.push(b'\n');
        return Ok(Loaded::Print(text));
    }
    let of_files = options.into_iter().map(|option| Word { text: option.text, origin: Origin::File });
    let given = rest.iter().map(|text| Word { text: text.clone(), origin: Origin::CommandLine });
    Ok(Loaded::Words(of_files.chain(given).collect()))
}

impl Diagnostics for Talk<'_> {
    fn warning(&mut self, text: &[&[u8]]) {
        self.local(Level::Warning, text);
    }

    fn error(&mut self, text: &[&[u8]]) {
        self.local(Level::Error, text);
    }

    fn system_error(&mut self, text: &[&[u8]], cause: &io::Error) {
        self.file(&[&text.concat(), b" (", &os_error(cause), b")"]);
    }
}
