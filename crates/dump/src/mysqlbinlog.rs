//! The command line of mysqlbinlog and of `bintide dump`.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Read, Write};
use std::iter;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use option_files::{Environment, FileChoice};

use crate::errno::os_error;
use crate::list::Form;
use crate::local_time::local_zone;
use crate::options::files::Loaded;
use crate::options::table::{Kind, MYSQLBINLOG, OURS, Spec, Which};
use crate::options::{self, Exit, Origin, Parser, Values, Word, files, help};
use crate::ours::{self, Terminal};
use crate::paint::Painter;
use crate::pipeline::{self, Ended, Inputs};
use crate::remote::{self, Servers};
use crate::settings::{Heeded, Settings, Show};
use crate::stores;
use crate::talk::Talk;
use crate::visible::{Escapes, VisibleWriter};

/// The set of options.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// mysqlbinlog's options only.
    Mysqlbinlog,
    /// mysqlbinlog's options, and bintide's own.
    Bintide,
}

/// Standard input, output and error, and access to servers.
pub struct Streams<'a> {
    /// Read for a log named `-`.
    pub input: &'a mut (dyn Read + Send),
    /// Receives the dump, unless `--result-file` is given.
    pub output: &'a mut (dyn Write + Send),
    /// Receives warnings and errors.
    pub error: &'a mut (dyn Write + Send),
    /// Connects to servers, if logs are read from one.
    pub servers: &'a mut (dyn Servers + Send),
}

/// A default for an option. It overrides MySQL's option files; the command line overrides it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preset {
    /// The option's long name.
    pub option: String,
    /// The values; more than one if the option may be repeated.
    pub values: Vec<OsString>,
}

/// Returns the long names of the options that accept a preset.
pub fn presettable() -> impl Iterator<Item = &'static str> {
    let is_value = |spec: &&Spec| {
        !matches!(spec.kind, Kind::Disabled { .. })
            && !matches!(spec.key, Which::Help | Which::Version | Which::Config)
    };
    MYSQLBINLOG.iter().chain(OURS).filter(is_value).map(|spec| spec.name)
}

/// Runs on this process's standard streams, and returns the exit code.
///
/// # Errors
///
/// If standard output is closed.
pub fn run_here(
    dialect: Dialect,
    args: impl IntoIterator<Item = OsString>,
    presets: &[Preset],
    servers: &mut (dyn Servers + Send),
) -> io::Result<u8> {
    // Bypasses the line buffer of standard output: text comes in large parts.
    let mut output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let streams = Streams { input: &mut io::stdin(), output: &mut output, error: &mut io::stderr(), servers };
    let terminal = if io::stdout().is_terminal() { Terminal::Yes } else { Terminal::No };
    Ok(run_on(terminal, dialect, args, presets, streams))
}

/// Runs with a command line, the program's name first, and returns the exit code.
pub fn run(dialect: Dialect, args: impl IntoIterator<Item = OsString>, streams: Streams<'_>) -> u8 {
    run_with(dialect, args, &[], streams)
}

/// Runs with a command line and presets, and returns the exit code.
pub fn run_with(
    dialect: Dialect,
    args: impl IntoIterator<Item = OsString>,
    presets: &[Preset],
    streams: Streams<'_>,
) -> u8 {
    run_on(Terminal::No, dialect, args, presets, streams)
}

fn run_on(
    terminal: Terminal,
    dialect: Dialect,
    args: impl IntoIterator<Item = OsString>,
    presets: &[Preset],
    streams: Streams<'_>,
) -> u8 {
    let args: Vec<Vec<u8>> = args.into_iter().map(OsStringExt::into_vec).collect();
    let (program, words) = args.split_first().map_or((&[][..], &[][..]), |(program, words)| (program, words));
    let talk = Talk::new(streams.error, program);
    let inputs = Inputs { stdin: streams.input, servers: streams.servers };
    match run_checked(dialect, (words, presets), inputs, (streams.output, terminal), talk) {
        Ok(()) => 0,
        Err(Exit(code)) => code,
    }
}

fn run_checked(
    dialect: Dialect,
    (words, presets): (&[Vec<u8>], &[Preset]),
    inputs: Inputs<'_>,
    (output, terminal): (&mut (dyn Write + Send), Terminal),
    mut talk: Talk<'_>,
) -> Result<(), Exit> {
    let specs: Vec<&'static Spec> = match dialect {
        Dialect::Mysqlbinlog => MYSQLBINLOG.iter().collect(),
        Dialect::Bintide => MYSQLBINLOG.iter().chain(OURS).collect(),
    };
    let environment = Environment::of_process();
    let (mut choice, rest) = FileChoice::take(words, &environment);
    let mut words = match files::load(&mut choice, rest, &environment, &mut talk)? {
        Loaded::Words(words) => words,
        Loaded::Print(text) => {
            let _ = output.write_all(&text);
            return Ok(());
        }
    };
    let of_files = words.len() - rest.len();
    let given = options::given(&specs, &words[of_files..]);
    words.splice(of_files..of_files, preset_words(&specs, presets, &given, &mut talk)?);
    let mut values = Values::new(&specs);
    let mut ask_password = |talk: &mut Talk<'_>| ask_password(inputs.stdin, talk);
    let mut heeded = Heeded::new(local_zone(), &mut ask_password);
    let mut parser = Parser {
        specs: &specs,
        values: &mut values,
        heed: &mut heeded,
        talk: &mut talk,
        password_warned: false,
    };
    let parsed = parser.parse(&words);
    let show = match (heeded.show, &parsed) {
        (None, Ok(files)) if files.is_empty() => Some(Show::Help),
        (show, _) => show,
    };
    if let Some(show) = show {
        let mut text = Vec::new();
        match show {
            Show::Help => help::write(&mut text, talk.program(), &specs, &values, &choice, &environment),
            Show::Version => help::version(&mut text, talk.program()),
        }
        let _ = output.write_all(&text);
        return if heeded.show.is_some() { Ok(()) } else { Err(Exit::FAILURE) };
    }
    let files = parsed?;
    if files == [b"-"] && values.unsigned(Which::StopPosition) != u64::MAX {
        talk.error(&[b"stop_position not allowed when input is STDIN"]);
        return Err(Exit::FAILURE);
    }
    remote::check(&values, &heeded, &mut talk)?;
    let mut file = match values.text(Which::ResultFile) {
        Some(name) if !values.switch(Which::Raw) => Some(create(name, &mut talk)?),
        _ => None,
    };
    let form = ours::form(&values, &mut talk)?;
    let settings = Settings { dialect, ..Settings::new(&values, heeded, &mut talk)? };
    ours::check(form, &settings, &given, &mut talk)?;
    let files = match dialect {
        Dialect::Mysqlbinlog => files,
        Dialect::Bintide => stores::logs_of(files, form, &settings, &mut talk)?,
    };
    let (output, terminal): (&mut (dyn Write + Send), _) = match &mut file {
        Some(file) => (file, Terminal::No),
        None => (output, terminal),
    };
    print(form, &settings, &files, inputs, (output, terminal), talk)
}

fn print(
    form: Option<Form>,
    settings: &Settings,
    files: &[Vec<u8>],
    inputs: Inputs<'_>,
    (output, terminal): (&mut (dyn Write + Send), Terminal),
    talk: Talk<'_>,
) -> Result<(), Exit> {
    let mut painter;
    let output: &mut (dyn Write + Send) = match ours::style(form, settings.color, terminal) {
        Some(style) => {
            painter = Painter::new(style, output);
            &mut painter
        }
        None => output,
    };
    match form.filter(|_| terminal == Terminal::Yes) {
        Some(list) => {
            let mut visible = VisibleWriter::new(Escapes::of(list), output);
            print_plain(form, settings, files, inputs, &mut visible, talk)
        }
        None => print_plain(form, settings, files, inputs, output, talk),
    }
}

fn print_plain(
    form: Option<Form>,
    settings: &Settings,
    files: &[Vec<u8>],
    inputs: Inputs<'_>,
    output: &mut (dyn Write + Send),
    mut talk: Talk<'_>,
) -> Result<(), Exit> {
    if let Some(bytes_max) = settings.temporary_max {
        logs::limit_temporary_files(bytes_max.get());
    }
    match form {
        Some(form) => ours::print(form, settings, files, output, &mut talk),
        None => {
            dump(settings, files, inputs, output, &mut talk)?;
            ours::remark_on_text(settings, &mut talk);
            Ok(())
        }
    }
}

/// Returns the presets that the command line does not override, as lines of an option file.
fn preset_words(
    specs: &[&'static Spec],
    presets: &[Preset],
    given: &[Which],
    talk: &mut Talk<'_>,
) -> Result<Vec<Word>, Exit> {
    let mut words = Vec::new();
    for preset in presets {
        let spec = specs.iter().find(|spec| spec.name == preset.option);
        let Some(spec) = spec.filter(|spec| !given.contains(&spec.key)) else { continue };
        for value in &preset.values {
            let (name, value) = (spec.name.as_bytes(), value.as_bytes());
            let (text, times) = match spec.kind {
                // The value of an option without an argument is the number of times to give it.
                Kind::Mark => match times(value) {
                    Some(times) => ([b"--", name].concat(), times),
                    None => {
                        talk.error(&[
                            b"invalid setting ",
                            name,
                            b" = '",
                            value,
                            b"': expected true, false or a number of times",
                        ]);
                        return Err(Exit::NOT_BEGUN);
                    }
                },
                _ => ([b"--", name, b"=", value].concat(), 1),
            };
            words.extend(iter::repeat_n(Word { text, origin: Origin::File }, times));
        }
    }
    Ok(words)
}

/// Parses how many times to give an option without an argument: a number, or `true` for once.
fn times(value: &[u8]) -> Option<usize> {
    /// More repetitions have no further effect.
    const TIMES_MAX: usize = 3;
    match value {
        b"true" => Some(1),
        b"false" => Some(0),
        number => str::from_utf8(number).ok()?.parse().ok().map(|times: usize| times.min(TIMES_MAX)),
    }
}

/// Size of reads of a password from standard input, in bytes.
const PASSWORD_READ_SIZE: usize = 4096;

/// Asks for a password on the terminal. Without a terminal, reads the first line of standard input.
fn ask_password(input: &mut (dyn Read + Send), talk: &mut Talk<'_>) -> Vec<u8> {
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

/// Mode of a result file: readable by owner and group.
const RESULT_MODE: u32 = 0o640;

fn create(name: &[u8], talk: &mut Talk<'_>) -> Result<File, Exit> {
    create_result(name).map_err(|error| {
        talk.file(&[b"Can't create/write to file '", name, b"' (", &os_error(&error), b")"]);
        talk.error(&[b"Could not create log file '", name, b"'"]);
        Exit::FAILURE
    })
}

/// Creates or truncates an output file.
pub(crate) fn create_result(name: &[u8]) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(RESULT_MODE);
    options.open(Path::new(OsStr::from_bytes(name)))
}

fn dump(
    settings: &Settings,
    files: &[Vec<u8>],
    mut inputs: Inputs<'_>,
    output: &mut (dyn Write + Send),
    talk: &mut Talk<'_>,
) -> Result<(), Exit> {
    match pipeline::run(settings, files, &mut inputs, output, talk) {
        Ok(()) | Err(Ended::Unwanted) => Ok(()),
        Err(Ended::Failed) => Err(Exit::FAILURE),
        Err(Ended::Output(error)) => {
            talk.error(&[b"Error writing event to file. (", &os_error(&error), b")"]);
            Err(Exit::FAILURE)
        }
    }
}
