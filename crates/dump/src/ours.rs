//! The lists of `bintide dump`: checks their options, and converts them to list settings.

use std::ffi::OsStr;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use crate::list::{Damage, Form, ListError, ListSettings, Range, ServerId, Source, list};
use crate::options::table::Which;
use crate::options::{Exit, Values};
use crate::paint::Style;
use crate::settings::Settings;
use crate::talk::Talk;

/// Returns the requested list format; `None` for mysqlbinlog's text.
pub(crate) fn form(values: &Values, talk: &mut Talk<'_>) -> Result<Option<Form>, Exit> {
    let [json, events, transactions] =
        [Which::Json, Which::Events, Which::Transactions].map(|key| values.switch(key));
    match (json, events, transactions) {
        (false, false, false) => Ok(None),
        (true, false, false) => Ok(Some(Form::Json)),
        (false, true, false) => Ok(Some(Form::Events)),
        (false, false, true) => Ok(Some(Form::Transactions)),
        (true, false, true) => Ok(Some(Form::TransactionsJson)),
        (_, true, _) => {
            talk.error(&[b"--events cannot be combined with --json or --transactions."]);
            Err(Exit::NOT_BEGUN)
        }
    }
}

/// Refuses options that do not work with the format. Warns of options in `given`, those of the command line, that a
/// list ignores.
pub(crate) fn check(
    form: Option<Form>,
    settings: &Settings,
    given: &[Which],
    talk: &mut Talk<'_>,
) -> Result<(), Exit> {
    let refused: Option<&[u8]> = match form {
        None if !settings.conditions.is_empty() => {
            Some(b"--where requires --json, --events or --transactions: a BINLOG statement contains a whole event.")
        }
        Some(_) if !settings.rewrites.is_empty() => {
            Some(
                b"--rewrite-db cannot be combined with --json, --events or --transactions: it changes only \
                mysqlbinlog's text.",
            )
        }
        Some(_) if settings.remote.is_some() => {
            Some(
                b"--json, --events and --transactions read files only. Copy a server's logs with bintide receive \
                first.",
            )
        }
        Some(_) if settings.require_row_format => Some(
            b"--require-row-format cannot be combined with --json, --events or --transactions: it checks only \
            mysqlbinlog's text.",
        ),
        _ => None,
    };
    match refused {
        Some(why) => {
            talk.error(&[why]);
            Err(Exit::NOT_BEGUN)
        }
        None => {
            if let Some(form) = form {
                warn_of_unheeded(form, given, talk);
            }
            Ok(())
        }
    }
}

/// Options that only affect mysqlbinlog's text.
const OF_TEXT: [(Which, &str); 10] = [
    (Which::Base64Output, "--base64-output"),
    (Which::DisableLogBin, "--disable-log-bin"),
    (Which::Hexdump, "--hexdump"),
    (Which::Idempotent, "--idempotent"),
    (Which::LocalLoad, "--local-load"),
    (Which::PrintTableMetadata, "--print-table-metadata"),
    (Which::SetCharset, "--set-charset"),
    (Which::ShortForm, "--short-form"),
    (Which::SkipGtids, "--skip-gtids"),
    (Which::Verbose, "--verbose"),
];

/// Warns of the options on the command line that a list ignores.
fn warn_of_unheeded(form: Form, given: &[Which], talk: &mut Talk<'_>) {
    let unheeded: Vec<&str> =
        OF_TEXT.iter().filter(|(key, _)| given.contains(key)).map(|(_, name)| *name).collect();
    let option = match form {
        Form::Events => "--events",
        Form::Json => "--json",
        Form::Transactions | Form::TransactionsJson => "--transactions",
    };
    let names = match unheeded.as_slice() {
        [] => return,
        [one] => format!("{one} has"),
        [names @ .., last] => format!("{} and {last} have", names.join(", ")),
    };
    talk.warning(&[format!("{names} no effect with {option}, only on mysqlbinlog's text.").as_bytes()]);
}

/// Warns that nothing matched the filters.
fn remark_nothing_found(settings: &Settings, talk: &mut Talk<'_>) {
    let filters = settings.sought.filters.join(b" ".as_slice());
    if !settings.quiet && !filters.is_empty() {
        talk.warning(&[b"nothing in these logs matches ", &filters]);
    }
}

/// Warns if bintide's own filters left nothing of the text.
pub(crate) fn remark_on_text(settings: &Settings, talk: &mut Talk<'_>) {
    if settings.found_nothing() {
        remark_nothing_found(settings, talk);
    }
}

/// Counts the bytes written.
struct Counted<'o> {
    output: &'o mut dyn Write,
    size: usize,
}

impl Write for Counted<'_> {
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
pub(crate) enum Terminal {
    Yes,
    No,
}

/// Mode of colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Color {
    /// On a terminal, unless the environment variable `NO_COLOR` is set.
    #[default]
    Auto,
    Always,
    Never,
}

/// Returns the style of colour; `None` without colour.
pub(crate) fn style(form: Option<Form>, color: Color, terminal: Terminal) -> Option<Style> {
    let no_color = || std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let wanted = match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => terminal == Terminal::Yes && !no_color(),
    };
    wanted.then_some(match form {
        None => Style::Text,
        // The columns that identify a row: event type; GTID and outcome.
        Some(Form::Events) => Style::Table(&[2]),
        Some(Form::Transactions) => Style::Table(&[0, 5]),
        Some(Form::Json | Form::TransactionsJson) => Style::Json,
    })
}

/// Writes the list.
pub(crate) fn print(
    form: Form,
    settings: &Settings,
    files: &[Vec<u8>],
    output: &mut dyn Write,
    talk: &mut Talk<'_>,
) -> Result<(), Exit> {
    let mut wanted = ListSettings::new(form, files.iter().map(|name| source(name)).collect());
    wanted.range = Range {
        start_position: settings.start_position,
        stop_position: settings.stop_position,
        start_time: u64::try_from(settings.start_time).unwrap_or(0),
        stop_time: u64::try_from(settings.stop_time).unwrap_or(0),
        leave_out: settings.offset,
    };
    wanted.select.server_id = u32::try_from(settings.server_id)
        .ok()
        .filter(|number| *number != 0)
        .map(|number| ServerId { number, mask: settings.server_id_mask });
    wanted.select.gtids.clone_from(&settings.include_gtids);
    wanted.select.gtids_left_out.clone_from(&settings.exclude_gtids);
    wanted.select.database.clone_from(&settings.database);
    wanted.select.tables.clone_from(&settings.tables);
    wanted.select.conditions.clone_from(&settings.conditions);
    wanted.jobs = settings.jobs.unwrap_or(wanted.jobs);
    wanted.damage = if settings.force_read { Damage::Show } else { Damage::Stop };
    wanted.keyring = settings.keyring.clone().map(Arc::new);
    let mut output = Counted { output, size: 0 };
    let warnings = list(&wanted, &mut output).map_err(|error| complain(&error, talk))?;
    if output.size <= form.head().len() {
        remark_nothing_found(settings, talk);
    }
    for warning in &warnings {
        let text = warning.to_string();
        if !settings.force_if_open {
            talk.error(&[text.as_bytes()]);
            return Err(Exit::FAILURE);
        }
        talk.warning(&[text.as_bytes()]);
    }
    Ok(())
}

fn complain(error: &ListError, talk: &mut Talk<'_>) -> Exit {
    let advice = match error {
        ListError::Event { .. } | ListError::Payload { .. } => {
            ". To print it as bytes and continue, use --force-read"
        }
        ListError::NoColumnNames { .. } => ". Use the column's number in --where: @N=value",
        _ => "",
    };
    talk.error(&[error.to_string().as_bytes(), advice.as_bytes()]);
    match error {
        ListError::Log(cause) if !cause.is_damage() => Exit::NOT_BEGUN,
        _ => Exit::FAILURE,
    }
}

fn source(name: &[u8]) -> Source {
    match name {
        b"-" => Source::Stdin,
        name => Source::File(OsStr::from_bytes(name).into()),
    }
}
