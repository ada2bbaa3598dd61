//! The lists of `bintide dump`: checks their options, and converts them to list settings.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use list::{
    EventRange, ListDamagePolicy, ListError, ListFormat, ListSettings, ListSource, ServerIdFilter, list,
};

use crate::color_writer::PaintStyle;
use crate::dump_diagnostics::DumpDiagnostics;
use crate::dump_settings::DumpSettings;
use crate::options::option_table::OptionId;
use crate::options::{DumpExit, OptionValues};

/// Returns the requested list format; `None` for mysqlbinlog's text.
pub(crate) fn list_format(
    values: &OptionValues,
    diagnostics: &mut DumpDiagnostics<'_>,
) -> Result<Option<ListFormat>, DumpExit> {
    let [json, events, transactions] =
        [OptionId::Json, OptionId::Events, OptionId::Transactions].map(|key| values.switch(key));
    match (json, events, transactions) {
        (false, false, false) => Ok(None),
        (true, false, false) => Ok(Some(ListFormat::Json)),
        (false, true, false) => Ok(Some(ListFormat::Events)),
        (false, false, true) => Ok(Some(ListFormat::Transactions)),
        (true, false, true) => Ok(Some(ListFormat::TransactionsJson)),
        (_, true, _) => {
            diagnostics.error(&[b"--events cannot be combined with --json or --transactions"]);
            Err(DumpExit::NOT_STARTED)
        }
    }
}

/// Refuses options that do not work with the format. Warns of options in `given`, those of the command line, that a
/// list ignores.
pub(crate) fn check(
    form: Option<ListFormat>,
    settings: &DumpSettings,
    given: &[OptionId],
    diagnostics: &mut DumpDiagnostics<'_>,
) -> Result<(), DumpExit> {
    let refused: Option<&[u8]> = match form {
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
            if let Some(form) = form {
                warn_of_ignored(form, given, diagnostics);
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
fn warn_of_ignored(form: ListFormat, given: &[OptionId], diagnostics: &mut DumpDiagnostics<'_>) {
    let unheeded: Vec<&str> =
        TEXT_ONLY_OPTIONS.iter().filter(|(key, _)| given.contains(key)).map(|(_, name)| *name).collect();
    let option = match form {
        ListFormat::Events => "--events",
        ListFormat::Json => "--json",
        ListFormat::Transactions | ListFormat::TransactionsJson => "--transactions",
    };
    let names = match unheeded.as_slice() {
        [] => return,
        [one] => format!("{one} has"),
        [names @ .., last] => format!("{} and {last} have", names.join(", ")),
    };
    diagnostics.warning(&[format!("{names} no effect with {option}").as_bytes()]);
}

/// Warns that nothing matched the filters.
fn warn_of_no_match(settings: &DumpSettings, diagnostics: &mut DumpDiagnostics<'_>) {
    let filters = settings.filter_matches.filters.join(b" ".as_slice());
    if !settings.quiet && !filters.is_empty() {
        diagnostics.warning(&[b"nothing in these logs matches ", &filters]);
    }
}

/// Warns if bintide's own filters left nothing of the text.
pub(crate) fn warn_of_empty_text(settings: &DumpSettings, diagnostics: &mut DumpDiagnostics<'_>) {
    if settings.found_nothing() {
        warn_of_no_match(settings, diagnostics);
    }
}

/// Counts the bytes written.
struct CountingWriter<'o> {
    output: &'o mut dyn Write,
    size: usize,
}

impl Write for CountingWriter<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let size = self.output.write(bytes)?;
        self.size += size;
        Ok(size)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.output.flush()
    }
}

/// Kind of output: a terminal or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TerminalOutput {
    Yes,
    No,
}

/// Mode of colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ColorMode {
    /// On a terminal, unless the environment variable `NO_COLOR` is set.
    #[default]
    Auto,
    Always,
    Never,
}

/// Returns the style of colour; `None` without colour.
pub(crate) fn paint_style(
    form: Option<ListFormat>,
    color: ColorMode,
    terminal: TerminalOutput,
) -> Option<PaintStyle> {
    let no_color = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let wanted = match color {
        ColorMode::Always => true,
        ColorMode::Never => false,
        ColorMode::Auto => terminal == TerminalOutput::Yes && !no_color(),
    };
    wanted.then_some(match form {
        None => PaintStyle::Text,
        // The columns that identify a row: event type; GTID and outcome.
        Some(ListFormat::Events) => PaintStyle::Table(&[2]),
        Some(ListFormat::Transactions) => PaintStyle::Table(&[0, 5]),
        Some(ListFormat::Json | ListFormat::TransactionsJson) => PaintStyle::Json,
    })
}

/// Writes the list.
pub(crate) fn print(
    form: ListFormat,
    settings: &DumpSettings,
    files: &[Vec<u8>],
    output: &mut dyn Write,
    diagnostics: &mut DumpDiagnostics<'_>,
) -> Result<(), DumpExit> {
    let mut wanted = ListSettings::new(form, files.iter().map(|name| list_source(name)).collect());
    wanted.range = EventRange {
        start_position: settings.start_position,
        stop_position: settings.stop_position,
        start_time: u64::try_from(settings.start_time).unwrap_or(0),
        stop_time: u64::try_from(settings.stop_time).unwrap_or(0),
        skip_count: settings.offset,
    };
    wanted.selection.server_id = u32::try_from(settings.server_id)
        .ok()
        .filter(|number| *number != 0)
        .map(|number| ServerIdFilter { number, mask: settings.server_id_mask });
    wanted.selection.gtids.clone_from(&settings.include_gtids);
    wanted.selection.gtids_excluded.clone_from(&settings.exclude_gtids);
    wanted.selection.database.clone_from(&settings.database);
    wanted.selection.tables.clone_from(&settings.tables);
    wanted.selection.conditions.clone_from(&settings.conditions);
    wanted.jobs = settings.jobs.unwrap_or(wanted.jobs);
    wanted.damage = if settings.force_read { ListDamagePolicy::Show } else { ListDamagePolicy::Stop };
    wanted.keyring = settings.keyring.clone().map(Arc::new);
    let mut output = CountingWriter { output, size: 0 };
    let warnings = list(&wanted, &mut output).map_err(|error| report_list_error(&error, diagnostics))?;
    if let Some(error) = wanted.selection.missing_column_error() {
        diagnostics.error(&[error.as_bytes()]);
        return Err(DumpExit::FAILURE);
    }
    if output.size <= form.header_line().len() {
        warn_of_no_match(settings, diagnostics);
    }
    for warning in &warnings {
        let text = warning.to_string();
        if !settings.force_if_open {
            diagnostics.error(&[text.as_bytes()]);
            return Err(DumpExit::FAILURE);
        }
        diagnostics.warning(&[text.as_bytes()]);
    }
    Ok(())
}

fn report_list_error(error: &ListError, diagnostics: &mut DumpDiagnostics<'_>) -> DumpExit {
    let advice = match error {
        ListError::Event { .. } | ListError::Payload { .. } => {
            ". To print it as bytes and continue, use --force-read"
        }
        ListError::NoColumnNames { .. } => ". Use the column's number in --where: @N=value",
        _ => "",
    };
    diagnostics.error(&[error.to_string().as_bytes(), advice.as_bytes()]);
    match error {
        ListError::Log(cause) if !cause.is_damage() => DumpExit::NOT_STARTED,
        _ => DumpExit::FAILURE,
    }
}

fn list_source(name: &[u8]) -> ListSource {
    match name {
        b"-" => ListSource::Stdin,
        name => ListSource::File(OsStr::from_bytes(name).into()),
    }
}
