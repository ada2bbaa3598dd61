//! Options of the lists of `bintide dump`: which list they request, and what they cannot be combined with.

use std::io::Write;

use crate::dump_diagnostics::DumpDiagnostics;
use crate::dump_settings::DumpSettings;
use crate::list_provider::{ListFailure, ListLayout, ListProvider, ListSwitches, ListWriter};
use crate::options::option_table::OptionId;
use crate::options::{DumpExit, OptionValues};

/// Returns the writer of the list that the options request; `None` for mysqlbinlog's text.
pub(crate) fn requested_list(
    values: &OptionValues,
    provider: &mut dyn ListProvider,
    diagnostics: &mut DumpDiagnostics<'_>,
) -> Result<Option<Box<dyn ListWriter>>, DumpExit> {
    let switches = ListSwitches {
        json: values.switch(OptionId::Json),
        events: values.switch(OptionId::Events),
        transactions: values.switch(OptionId::Transactions),
    };
    provider.writer(switches).map_err(|message| {
        diagnostics.error(&[message.as_bytes()]);
        DumpExit::NOT_STARTED
    })
}

/// Refuses options that do not work with the list, or with mysqlbinlog's text. Warns of options in `given`, those of
/// the command line, that a list ignores.
pub(crate) fn check(
    list: Option<ListLayout>,
    settings: &DumpSettings,
    given: &[OptionId],
    diagnostics: &mut DumpDiagnostics<'_>,
) -> Result<(), DumpExit> {
    let refused: Option<&[u8]> = match list {
        None if !settings.conditions.is_empty() => {
            Some(b"--where requires --json, --events or --transactions: a BINLOG statement contains a whole event")
        }
        Some(_) if !settings.rewrites.is_empty() => {
            Some(
                b"--rewrite-db cannot be combined with --json, --events or --transactions: it changes only \
                mysqlbinlog's text",
            )
        }
        Some(_) if settings.remote.is_some() => {
            Some(
                b"--json, --events and --transactions read files only. Copy a server's logs with bintide receive \
                first",
            )
        }
        Some(_) if settings.require_row_format => Some(
            b"--require-row-format cannot be combined with --json, --events or --transactions: it checks only \
            mysqlbinlog's text",
        ),
        _ => None,
    };
    match refused {
        Some(why) => {
            diagnostics.error(&[why]);
            Err(DumpExit::NOT_STARTED)
        }
        None => {
            if let Some(list) = list {
                warn_of_ignored(list, given, diagnostics);
            }
            Ok(())
        }
    }
}

/// Options that only affect mysqlbinlog's text.
const TEXT_ONLY_OPTIONS: [(OptionId, &str); 10] = [
    (OptionId::Base64Output, "--base64-output"),
    (OptionId::DisableLogBin, "--disable-log-bin"),
    (OptionId::Hexdump, "--hexdump"),
    (OptionId::Idempotent, "--idempotent"),
    (OptionId::LocalLoad, "--local-load"),
    (OptionId::PrintTableMetadata, "--print-table-metadata"),
    (OptionId::SetCharset, "--set-charset"),
    (OptionId::ShortForm, "--short-form"),
    (OptionId::SkipGtids, "--skip-gtids"),
    (OptionId::Verbose, "--verbose"),
];

/// Warns of the options on the command line that a list ignores.
fn warn_of_ignored(list: ListLayout, given: &[OptionId], diagnostics: &mut DumpDiagnostics<'_>) {
    let ignored: Vec<&str> =
        TEXT_ONLY_OPTIONS.iter().filter(|(key, _)| given.contains(key)).map(|(_, name)| *name).collect();
    let names = match ignored.as_slice() {
        [] => return,
        [one] => format!("{one} has"),
        [names @ .., last] => format!("{} and {last} have", names.join(", ")),
    };
    diagnostics.warning(&[format!("{names} no effect with {}", list.option).as_bytes()]);
}

/// Writes the list, and reports its warnings and its error.
pub(crate) fn print(
    list: &dyn ListWriter,
    settings: &DumpSettings,
    logs: &[Vec<u8>],
    output: &mut dyn Write,
    diagnostics: &mut DumpDiagnostics<'_>,
) -> Result<(), DumpExit> {
    let outcome = list.write(&settings.common, logs, output).map_err(|failure| {
        let (message, exit) = match failure {
            ListFailure::NotStarted(message) => (message, DumpExit::NOT_STARTED),
            ListFailure::Failed(message) => (message, DumpExit::FAILURE),
        };
        diagnostics.error(&[message.as_bytes()]);
        exit
    })?;
    if outcome.is_empty {
        settings.warn_of_no_match(diagnostics);
    }
    for warning in &outcome.warnings {
        diagnostics.warning(&[warning.as_bytes()]);
    }
    for torn_end in &outcome.torn_ends {
        if !settings.force_if_open {
            diagnostics.error(&[torn_end.as_bytes()]);
            return Err(DumpExit::FAILURE);
        }
        diagnostics.warning(&[torn_end.as_bytes()]);
    }
    Ok(())
}
