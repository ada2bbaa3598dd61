//! The command line of mysqlbinlog and of `bintide dump`.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::iter;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use logs::FileIdentity;
use option_files::{FileChoice, OptionFileEnvironment};

use crate::color_writer::{ColorWriter, PaintStyle, TerminalOutput};
use crate::dump_diagnostics::DumpDiagnostics;
use crate::dump_dialect::DumpDialect;
use crate::dump_inputs::DumpInputs;
use crate::dump_settings::DumpSettings;
use crate::errno::os_error;
use crate::list_options;
use crate::list_provider::{ListProvider, ListWriter};
use crate::local_time::local_zone;
use crate::options::files::LoadedArguments;
use crate::options::help::HelpContent;
use crate::options::option_table::{BINTIDE_OPTIONS, MYSQLBINLOG_OPTIONS, OptionEntry, OptionId, OptionKind};
use crate::options::{self, DumpExit, OptionParser, OptionValues, OptionWord, WordOrigin, files, help};
use crate::parsed_options::{HelpRequest, ParsedOptions};
use crate::pipeline::{self, DumpEnd};
use crate::remote::ServerAccess;
use crate::remote_settings;
use crate::result_file::create_or_report;
use crate::store_listing;
use crate::visible_writer::{EscapeStyle, VisibleWriter};

/// Standard input, output and error, access to servers, and lists.
pub struct StandardStreams<'a> {
    /// Read for a log named `-`.
    pub input: &'a mut (dyn Read + Send),
    /// Receives the dump, unless `--result-file` is given.
    pub output: &'a mut (dyn Write + Send),
    /// Receives warnings and errors.
    pub error: &'a mut (dyn Write + Send),
    /// Connects to servers, if logs are read from one.
    pub servers: &'a mut (dyn ServerAccess + Send),
    /// Writes lists in place of mysqlbinlog's text.
    pub lists: &'a mut dyn ListProvider,
}

/// A default for an option. It overrides MySQL's option files; the command line overrides it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptionPreset {
    /// The option's long name.
    pub option: String,
    /// The values; more than one if the option may be repeated.
    pub values: Vec<OsString>,
}

/// An option as a manual page describes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OptionSummary {
    /// Long name, with `-` or `_` as in messages.
    pub name: &'static str,
    /// Letter of its short form.
    pub short: Option<char>,
    /// Argument that it takes.
    pub argument: ArgumentForm,
    /// One sentence or more.
    pub description: &'static str,
}

/// Argument of an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentForm {
    /// No argument, or an optional one that only turns a switch on or off.
    None,
    /// An optional argument: `--password[=name]`.
    Optional,
    /// A required text.
    Text,
    /// A required number.
    Number,
}

/// Returns all options that have an effect, mysqlbinlog's first.
pub fn option_summaries() -> impl Iterator<Item = OptionSummary> {
    MYSQLBINLOG_OPTIONS.iter().chain(BINTIDE_OPTIONS).filter_map(|spec| {
        let argument = match spec.kind {
            OptionKind::Disabled { .. } => return None,
            OptionKind::Mark | OptionKind::Switch { .. } => ArgumentForm::None,
            OptionKind::Password => ArgumentForm::Optional,
            OptionKind::Text | OptionKind::Word => ArgumentForm::Text,
            OptionKind::Number(_) => ArgumentForm::Number,
        };
        let (name, description) = (spec.name, spec.description);
        Some(OptionSummary { name, short: spec.short.map(char::from), argument, description })
    })
}

/// Returns the long names of the options that accept a preset.
pub fn presettable_options() -> impl Iterator<Item = &'static str> {
    let is_value = |spec: &&OptionEntry| {
        !matches!(spec.kind, OptionKind::Disabled { .. })
            && !matches!(spec.id, OptionId::Help | OptionId::Version | OptionId::Config)
    };
    MYSQLBINLOG_OPTIONS.iter().chain(BINTIDE_OPTIONS).filter(is_value).map(|spec| spec.name)
}

/// Runs on this process's standard streams, and returns the exit code.
///
/// # Errors
///
/// Fails if standard output is closed.
pub fn run_here(
    dialect: DumpDialect,
    args: impl IntoIterator<Item = OsString>,
    presets: &[OptionPreset],
    servers: &mut (dyn ServerAccess + Send),
    lists: &mut dyn ListProvider,
) -> io::Result<u8> {
    // Bypasses the line buffer of standard output: text comes in large parts.
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let streams = StandardStreams {
        input: &mut io::stdin(),
        output: &mut output,
        error: &mut io::stderr(),
        servers,
        lists,
    };
    let terminal = if io::stdout().is_terminal() { TerminalOutput::Yes } else { TerminalOutput::No };
    Ok(run_on(terminal, dialect, args, presets, streams))
}

/// Runs with a command line, the program's name first, and returns the exit code.
pub fn run(
    dialect: DumpDialect,
    args: impl IntoIterator<Item = OsString>,
    streams: StandardStreams<'_>,
) -> u8 {
    run_with(dialect, args, &[], streams)
}

/// Runs with a command line and presets, and returns the exit code.
pub fn run_with(
    dialect: DumpDialect,
    args: impl IntoIterator<Item = OsString>,
    presets: &[OptionPreset],
    streams: StandardStreams<'_>,
) -> u8 {
    run_on(TerminalOutput::No, dialect, args, presets, streams)
}

fn run_on(
    terminal: TerminalOutput,
    dialect: DumpDialect,
    args: impl IntoIterator<Item = OsString>,
    presets: &[OptionPreset],
    streams: StandardStreams<'_>,
) -> u8 {
    let args: Vec<Vec<u8>> = args.into_iter().map(OsStringExt::into_vec).collect();
    let (program, words) = args.split_first().map_or((&[][..], &[][..]), |(program, words)| (program, words));
    let lists = streams.lists;
    let streams = DumpStreams {
        inputs: DumpInputs { stdin: streams.input, servers: streams.servers },
        output: streams.output,
        terminal,
        talk: DumpDiagnostics::new(streams.error, program),
    };
    match run_checked(dialect, words, presets, streams, lists) {
        Ok(()) => 0,
        Err(DumpExit(code)) => code,
    }
}

/// Streams of one run, and the error messages.
struct DumpStreams<'i, 'o, 'd> {
    inputs: DumpInputs<'i>,
    output: &'o mut (dyn Write + Send),
    /// Set if the output is a terminal.
    terminal: TerminalOutput,
    talk: DumpDiagnostics<'d>,
}

fn option_entries(dialect: DumpDialect) -> Vec<&'static OptionEntry> {
    match dialect {
        DumpDialect::Mysqlbinlog => MYSQLBINLOG_OPTIONS.iter().collect(),
        DumpDialect::Bintide => MYSQLBINLOG_OPTIONS.iter().chain(BINTIDE_OPTIONS).collect(),
    }
}

fn run_checked(
    dialect: DumpDialect,
    words: &[Vec<u8>],
    presets: &[OptionPreset],
    streams: DumpStreams<'_, '_, '_>,
    lists: &mut dyn ListProvider,
) -> Result<(), DumpExit> {
    let DumpStreams { inputs, output, terminal, mut talk } = streams;
    let specs = option_entries(dialect);
    let environment = OptionFileEnvironment::of_process();
    let (mut choice, rest) = FileChoice::take(words, &environment);
    let mut words = match files::load(&mut choice, rest, &environment, &mut talk)? {
        LoadedArguments::Words(words) => words,
        LoadedArguments::Print(text) => {
            let _ = output.write_all(&text);
            return Ok(());
        }
    };
    let of_files = words.len() - rest.len();
    let given = options::given_options(&specs, &words[of_files..]);
    words.splice(of_files..of_files, preset_words(&specs, presets, &given, &mut talk)?);
    let mut values = OptionValues::new(&specs);
    let mut ask_password = |talk: &mut DumpDiagnostics<'_>| ask_password(inputs.stdin, talk);
    let mut heeded = ParsedOptions::new(local_zone(), &mut ask_password, lists);
    let mut parser = OptionParser {
        specs: &specs,
        values: &mut values,
        visitor: &mut heeded,
        diagnostics: &mut talk,
        password_warned: false,
    };
    let parsed = parser.parse(&words);
    let show = match (heeded.show, &parsed) {
        (None, Ok(files)) if files.is_empty() => Some(HelpRequest::Help),
        (show, _) => show,
    };
    if let Some(show) = show {
        let (choice, environment) = (&choice, &environment);
        let content = HelpContent { specs: &specs, values: &values, choice, environment };
        let text = help_text(show, talk.program(), &content);
        let _ = output.write_all(&text);
        return if heeded.show.is_some() { Ok(()) } else { Err(DumpExit::FAILURE) };
    }
    let files = parsed?;
    refuse_stop_in_standard_input(&files, &values, &mut talk)?;
    remote_settings::check(&values, &heeded, &mut talk)?;
    if dialect == DumpDialect::Bintide {
        refuse_log_as_result(&files, &values, &mut talk)?;
    }
    let mut file = create_result_file(&values, &mut talk)?;
    let list = list_options::requested_list(&values, heeded.lists, &mut talk)?;
    let layout = list.as_ref().map(|list| list.layout());
    let settings = DumpSettings { dialect, ..DumpSettings::new(&values, heeded, &mut talk)? };
    list_options::check(layout, &settings, &given, &mut talk)?;
    let files = match dialect {
        DumpDialect::Mysqlbinlog => files,
        DumpDialect::Bintide => store_listing::expand_stores(files, layout, &settings, &mut talk)?,
    };
    let (output, terminal): (&mut (dyn Write + Send), _) = match &mut file {
        Some(file) => (file, TerminalOutput::No),
        None => (output, terminal),
    };
    print(list.as_deref(), &settings, &files, DumpStreams { inputs, output, terminal, talk })
}

fn refuse_stop_in_standard_input(
    files: &[Vec<u8>],
    values: &OptionValues,
    talk: &mut DumpDiagnostics<'_>,
) -> Result<(), DumpExit> {
    if files == [b"-"] && values.unsigned(OptionId::StopPosition) != u64::MAX {
        talk.error(&[b"stop_position not allowed when input is STDIN"]);
        return Err(DumpExit::FAILURE);
    }
    Ok(())
}

/// Refuses a log as the result file, which would be emptied. mysqlbinlog does not.
fn refuse_log_as_result(
    files: &[Vec<u8>],
    values: &OptionValues,
    talk: &mut DumpDiagnostics<'_>,
) -> Result<(), DumpExit> {
    let identity = |name: &[u8]| Some(FileIdentity::of(&fs::metadata(OsStr::from_bytes(name)).ok()?));
    let Some(name) = values.text(OptionId::ResultFile) else { return Ok(()) };
    let Some(result) = identity(name) else { return Ok(()) };
    if files.iter().any(|log| identity(log) == Some(result)) {
        talk.error(&[b"--result-file: ", name, b" is a log to read. Name another file"]);
        return Err(DumpExit::FAILURE);
    }
    Ok(())
}

/// Creates the file of `--result-file`. With `--raw`, the option is the prefix of other files.
fn create_result_file(
    values: &OptionValues,
    talk: &mut DumpDiagnostics<'_>,
) -> Result<Option<File>, DumpExit> {
    match values.text(OptionId::ResultFile) {
        Some(name) if !values.switch(OptionId::Raw) => create_or_report(name, talk).map(Some),
        _ => Ok(None),
    }
}

fn help_text(show: HelpRequest, program: &[u8], content: &HelpContent<'_>) -> Vec<u8> {
    let mut text = Vec::new();
    match show {
        HelpRequest::Help => help::write(&mut text, program, content),
        HelpRequest::Version => help::put_version(&mut text, program),
    }
    text
}

fn print(
    list: Option<&dyn ListWriter>,
    settings: &DumpSettings,
    files: &[Vec<u8>],
    streams: DumpStreams<'_, '_, '_>,
) -> Result<(), DumpExit> {
    let DumpStreams { inputs, output, terminal, talk } = streams;
    let layout = list.map(ListWriter::layout);
    let mut painter;
    let output: &mut (dyn Write + Send) = match PaintStyle::choose(layout, settings.color, terminal) {
        Some(style) => {
            painter = ColorWriter::new(style, output);
            &mut painter
        }
        None => output,
    };
    match layout.filter(|_| terminal == TerminalOutput::Yes) {
        Some(layout) => {
            let output = &mut VisibleWriter::new(EscapeStyle::of(layout), output);
            print_plain(list, settings, files, DumpStreams { inputs, output, terminal, talk })
        }
        None => print_plain(list, settings, files, DumpStreams { inputs, output, terminal, talk }),
    }
}

fn print_plain(
    list: Option<&dyn ListWriter>,
    settings: &DumpSettings,
    files: &[Vec<u8>],
    streams: DumpStreams<'_, '_, '_>,
) -> Result<(), DumpExit> {
    let DumpStreams { inputs, output, mut talk, .. } = streams;
    if let Some(bytes_max) = settings.temporary_max {
        logs::limit_temporary_files(bytes_max.get());
    }
    match list {
        Some(list) => list_options::print(list, settings, files, output, &mut talk),
        None => {
            dump(settings, files, inputs, output, &mut talk)?;
            settings.warn_of_empty_text(&mut talk);
            Ok(())
        }
    }
}

/// Returns the presets that the command line does not override, as lines of an option file.
fn preset_words(
    specs: &[&'static OptionEntry],
    presets: &[OptionPreset],
    given: &[OptionId],
    talk: &mut DumpDiagnostics<'_>,
) -> Result<Vec<OptionWord>, DumpExit> {
    let mut words = Vec::new();
    for preset in presets {
        let spec = specs.iter().find(|spec| spec.name == preset.option);
        let Some(spec) = spec.filter(|spec| !given.contains(&spec.id)) else { continue };
        for value in &preset.values {
            let (name, value) = (spec.name.as_bytes(), value.as_bytes());
            let (text, times) = match spec.kind {
                // The value of an option without an argument is the number of times to give it.
                OptionKind::Mark => match repeat_count(value) {
                    Some(times) => ([b"--", name].concat(), times),
                    None => {
                        talk.error(&[
                            b"invalid setting ",
                            name,
                            b" = '",
                            value,
                            b"': expected true, false or a number of times",
                        ]);
                        return Err(DumpExit::NOT_STARTED);
                    }
                },
                _ => ([b"--", name, b"=", value].concat(), 1),
            };
            words.extend(iter::repeat_n(OptionWord { text, origin: WordOrigin::File }, times));
        }
    }
    Ok(words)
}

/// Parses how many times to give an option without an argument: a number, or `true` for once.
fn repeat_count(value: &[u8]) -> Option<usize> {
    /// More repetitions have no further effect.
    const REPEAT_MAX: usize = 3;
    match value {
        b"true" => Some(1),
        b"false" => Some(0),
        number => str::from_utf8(number).ok()?.parse().ok().map(|times: usize| times.min(REPEAT_MAX)),
    }
}

/// Size of reads of a password from standard input, in bytes.
const PASSWORD_READ_SIZE: usize = 4096;

/// Asks for a password on the terminal. Without a terminal, reads the first line of standard input.
fn ask_password(input: &mut (dyn Read + Send), talk: &mut DumpDiagnostics<'_>) -> Vec<u8> {
    const PROMPT: &str = "Enter password: ";
    if let Ok(password) = rpassword::prompt_password(PROMPT) {
        return password.into_bytes();
    }
    talk.prompt(PROMPT.as_bytes());
    let mut buffer = vec![0; PASSWORD_READ_SIZE];
    let mut password = Vec::new();
    // Bytes read after the line are lost to a log on the same input.
    while let Ok(count @ 1..) = input.read(&mut buffer) {
        password.extend_from_slice(&buffer[..count]);
        if let Some(end) = buffer[..count].iter().position(|byte| *byte == b'\n') {
            password.truncate(password.len() - count + end);
            break;
        }
    }
    password
}

fn dump(
    settings: &DumpSettings,
    files: &[Vec<u8>],
    mut inputs: DumpInputs<'_>,
    output: &mut (dyn Write + Send),
    talk: &mut DumpDiagnostics<'_>,
) -> Result<(), DumpExit> {
    match pipeline::run(settings, files, &mut inputs, output, talk) {
        Ok(()) | Err(DumpEnd::OutputClosed) => Ok(()),
        Err(DumpEnd::Failed) => Err(DumpExit::FAILURE),
        Err(DumpEnd::Output(error)) => {
            talk.error(&[b"Error writing event to file. (", &os_error(&error), b")"]);
            Err(DumpExit::FAILURE)
        }
    }
}
