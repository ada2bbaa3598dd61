//! Reader of option files: search order, directives, groups and lines.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt};
use std::path::Path;

use crate::choice::{FileChoice, OptionFileEnvironment};
use crate::login_path;
use crate::space::{is_space, trim_end, trim_start};

/// Maximum depth of nested includes.
const DEPTH_MAX: u32 = 10;

/// Maximum bytes per line. The rest of a longer line counts as another line.
const LINE_MAX: usize = 4094;

/// An option from a file, and its place there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileOption {
    /// The option in command line form: `--name=value`, or `--name`.
    pub text: Vec<u8>,
    /// The group that contains it.
    pub group: Vec<u8>,
    /// The file.
    pub file: Vec<u8>,
    /// The line number, from 1.
    pub line: usize,
}

/// Reason why a file, or the rest of it, is ignored. MySQL's programs continue without it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileIgnoreReason {
    /// All users can write to it.
    WorldWritable,
    /// This user cannot read it.
    Unreadable,
    /// It is a directory.
    Directory,
    /// It is a named pipe: see [`is_named_pipe`].
    NamedPipe,
    /// It is a login file, and a part of it cannot be decrypted.
    Damaged,
}

/// Origin of a file's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileOrigin {
    /// An option or a directive: the user wants this file to be read.
    Named,
    /// The list of default locations.
    Default,
}

/// Receives the warnings and errors about option files.
pub trait Diagnostics {
    /// Reports a file that is ignored. The default implementation reports what MySQL's programs report.
    fn file_ignored(&mut self, file: &[u8], reason: FileIgnoreReason, _: FileOrigin) {
        match reason {
            FileIgnoreReason::WorldWritable => {
                self.warning(&[b"World-writable config file '", file, b"' is ignored."]);
            }
            // MySQL's programs wait for it.
            FileIgnoreReason::NamedPipe => {
                self.warning(&[b"Config file '", file, b"' is a named pipe. It is ignored."]);
            }
            FileIgnoreReason::Unreadable | FileIgnoreReason::Directory | FileIgnoreReason::Damaged => {}
        }
    }

    /// Reports a warning: something is ignored.
    fn warning(&mut self, text: &[&[u8]]);

    /// Reports an error. Most errors end the reading.
    fn error(&mut self, text: &[&[u8]]);

    /// Reports an error of the operating system.
    fn system_error(&mut self, text: &[&[u8]], cause: &io::Error);
}

/// Error: an option file cannot be used. [`Diagnostics`] received the reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadFailure;

/// Reads these groups from the option files that `choice` selects. Returns the options in the order of rising
/// precedence.
///
/// The paths in `choice` become absolute.
///
/// # Errors
///
/// Fails if a required file is missing, or a file has a syntax error.
pub fn read(
    choice: &mut FileChoice,
    groups: &[&str],
    environment: &OptionFileEnvironment,
    diagnostics: &mut dyn Diagnostics,
) -> Result<Vec<FileOption>, ReadFailure> {
    for path in [&mut choice.only, &mut choice.extra].into_iter().flatten() {
        *path = absolute(path, environment);
    }
    let groups = with_suffix(groups, choice.group_suffix.as_deref());
    let origin = FileOrigin::Default;
    let mut reader = OptionFileReader { groups, options: Vec::new(), environment, diagnostics, origin };
    reader.read_all(choice)?;
    Ok(reader.options)
}

/// Returns the directories that are searched for option files, in the order of rising precedence. An empty name stands
/// for the extra file.
pub fn directories(environment: &OptionFileEnvironment) -> Vec<Vec<u8>> {
    let mut directories = vec![b"/etc/".to_vec(), b"/etc/mysql/".to_vec()];
    if let Some(home) = environment.mysql_home.as_ref().filter(|home| !home.is_empty()) {
        let mut home = home.clone();
        if !home.ends_with(b"/") {
            home.push(b'/');
        }
        directories.retain(|directory| *directory != home);
        directories.push(home);
    }
    directories.push(Vec::new());
    directories.push(b"~/".to_vec());
    directories
}

/// Returns whether a file with this metadata is a named pipe: reading it would wait for a writer, perhaps forever.
/// Pipes without a name, as in `--defaults-file <(command)`, have a writer.
pub fn is_named_pipe(path: &Path, metadata: &Metadata) -> bool {
    // The path of a pipe without a name, such as /dev/fd/63, leads to no file.
    metadata.file_type().is_fifo() && fs::canonicalize(path).is_ok()
}

fn with_suffix(groups: &[&str], suffix: Option<&[u8]>) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = groups.iter().map(|group| group.as_bytes().to_vec()).collect();
    if let Some(suffix) = suffix {
        all.extend(groups.iter().map(|group| [group.as_bytes(), suffix].concat()));
    }
    all
}

fn absolute(path: &[u8], environment: &OptionFileEnvironment) -> Vec<u8> {
    let path = expand_home(path, environment);
    if path.starts_with(b"/") {
        return path;
    }
    let mut whole = env::current_dir().unwrap_or_default().into_os_string().into_vec();
    whole.push(b'/');
    whole.extend_from_slice(&path);
    whole
}

fn expand_home(path: &[u8], environment: &OptionFileEnvironment) -> Vec<u8> {
    match (path, &environment.home) {
        ([b'~', b'/', rest @ ..], Some(home)) => {
            let home = home.strip_suffix(b"/").unwrap_or(home);
            [home, b"/", rest].concat()
        }
        _ => path.to_vec(),
    }
}

fn as_path(path: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(path))
}

/// Result of reading one file.
enum OptionFileOutcome {
    Read,
    Missing,
    /// Diagnostics received the reason.
    Failed,
}

struct OptionFileReader<'r> {
    groups: Vec<Vec<u8>>,
    options: Vec<FileOption>,
    environment: &'r OptionFileEnvironment,
    diagnostics: &'r mut dyn Diagnostics,
    /// Origin of the current file, and of the files that it includes.
    origin: FileOrigin,
}

/// Line of an option file that includes other files.
struct DirectiveContext<'l> {
    /// File name.
    name: &'l [u8],
    /// Line number, from 1.
    number: &'l str,
    /// Number of files that include each other up to here.
    depth: u32,
}

impl OptionFileReader<'_> {
    fn read_all(&mut self, choice: &FileChoice) -> Result<(), ReadFailure> {
        if let Some(only) = &choice.only {
            self.read_required(only)?;
        } else if !choice.none {
            for directory in directories(self.environment) {
                if !directory.is_empty() {
                    let dot = if directory == b"~/" { b".".as_slice() } else { b"" };
                    let name = [&directory, dot, b"my.cnf"].concat();
                    if let OptionFileOutcome::Failed = self.read(&name, 0) {
                        return Err(ReadFailure);
                    }
                } else if let Some(extra) = &choice.extra {
                    self.read_required(extra)?;
                }
            }
        }
        match choice.login_none {
            true => Ok(()),
            false => self.read_login(choice),
        }
    }

    fn read_required(&mut self, name: &[u8]) -> Result<(), ReadFailure> {
        self.origin = FileOrigin::Named;
        let outcome = self.read(name, 0);
        self.origin = FileOrigin::Default;
        match outcome {
            OptionFileOutcome::Read => Ok(()),
            OptionFileOutcome::Missing => {
                self.diagnostics.error(&[b"Failed to open required defaults file: ", name]);
                Err(ReadFailure)
            }
            OptionFileOutcome::Failed => Err(ReadFailure),
        }
    }

    fn read_login(&mut self, choice: &FileChoice) -> Result<(), ReadFailure> {
        let name = match (&self.environment.login_file, &self.environment.home) {
            (Some(file), _) => file.clone(),
            (None, Some(home)) => [home, b"/.mylogin.cnf".as_slice()].concat(),
            (None, None) => return Ok(()),
        };
        if let Some(path) = &choice.login_path {
            self.groups.push(path.clone());
            if let Some(suffix) = &choice.group_suffix {
                self.groups.push([path.as_slice(), suffix].concat());
            }
        }
        let Ok(metadata) = fs::metadata(as_path(&name)) else { return Ok(()) };
        if metadata.is_file() && metadata.permissions().mode() & 0o177 != 0 {
            self.diagnostics.warning(&[&name, b" should be readable/writable only by current user."]);
            return Ok(());
        }
        if is_named_pipe(as_path(&name), &metadata) {
            self.diagnostics.file_ignored(&name, FileIgnoreReason::NamedPipe, FileOrigin::Named);
            return Ok(());
        }
        let Ok(bytes) = fs::read(as_path(&name)) else { return Ok(()) };
        let (lines, rest) = login_path::lines(&bytes);
        if !rest.is_empty() {
            self.diagnostics.file_ignored(&name, FileIgnoreReason::Damaged, FileOrigin::Named);
        }
        match self.lines(&name, lines.iter().map(Vec::as_slice), 0) {
            Ok(()) => Ok(()),
            Err(ReadFailure) => Err(ReadFailure),
        }
    }

    fn read(&mut self, given: &[u8], depth: u32) -> OptionFileOutcome {
        let name = expand_home(given, self.environment);
        let path = as_path(&name);
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => {
                if depth > 0 {
                    self.diagnostics.system_error(&[b"Can't get stat of '", &name, b"'"], &error);
                }
                return OptionFileOutcome::Missing;
            }
        };
        if is_writable_by_all(&metadata) {
            self.diagnostics.file_ignored(&name, FileIgnoreReason::WorldWritable, self.origin);
            return OptionFileOutcome::Read;
        }
        if is_named_pipe(path, &metadata) {
            self.diagnostics.file_ignored(&name, FileIgnoreReason::NamedPipe, self.origin);
            return OptionFileOutcome::Missing;
        }
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => {
                self.diagnostics.file_ignored(&name, FileIgnoreReason::Directory, self.origin);
                Vec::new()
            }
            Err(_) => {
                self.diagnostics.file_ignored(&name, FileIgnoreReason::Unreadable, self.origin);
                return OptionFileOutcome::Missing;
            }
        };
        match self.lines(&name, split_lines(&bytes), depth) {
            Ok(()) => OptionFileOutcome::Read,
            Err(ReadFailure) => OptionFileOutcome::Failed,
        }
    }

    fn lines<'l>(
        &mut self,
        name: &[u8],
        lines: impl Iterator<Item = &'l [u8]>,
        depth: u32,
    ) -> Result<(), ReadFailure> {
        let mut group: Option<Vec<u8>> = None;
        for (index, line) in lines.enumerate() {
            let number = (index + 1).to_string();
            let text = trim_start(line, is_space);
            match text.first() {
                None | Some(b'#' | b';') => {}
                Some(b'!') => {
                    let context = DirectiveContext { name, number: &number, depth };
                    self.directive(&text[1..], text, &context)?
                }
                Some(b'[') => group = Some(self.group(&text[1..], name, &number)?),
                Some(_) => {
                    let Some(group) = &group else {
                        self.error_at_line(
                            b"Found option without preceding group in config file ",
                            name,
                            &number,
                        );
                        return Err(ReadFailure);
                    };
                    if self.groups.iter().any(|selected| selected.eq_ignore_ascii_case(group)) {
                        self.options.push(FileOption {
                            text: option(text),
                            group: group.clone(),
                            file: name.to_vec(),
                            line: index + 1,
                        });
                    }
                }
            }
        }
        Ok(())
    }

    fn group(&mut self, text: &[u8], name: &[u8], number: &str) -> Result<Vec<u8>, ReadFailure> {
        match text.iter().position(|byte| *byte == b']') {
            Some(end) => Ok(trim_end(&text[..end], is_space).to_vec()),
            None => {
                self.error_at_line(b"Wrong group definition in config file ", name, number);
                Err(ReadFailure)
            }
        }
    }

    fn directive(
        &mut self,
        text: &[u8],
        whole: &[u8],
        context: &DirectiveContext<'_>,
    ) -> Result<(), ReadFailure> {
        if context.depth >= DEPTH_MAX {
            let text = [
                b"Skipping '",
                argument(whole),
                b"' directive as maximum include recursion level was reached in file ",
                context.name,
                b" at line ",
                context.number.as_bytes(),
                b".",
            ];
            self.diagnostics.warning(&text);
            return Ok(());
        }
        let text = trim_start(text, is_space);
        for keyword in ["includedir", "include"] {
            let Some(rest) = text.strip_prefix(keyword.as_bytes()) else { continue };
            if !rest.first().is_some_and(|byte| is_space(*byte)) {
                continue;
            }
            let target = argument(trim_start(rest, is_space)).to_vec();
            if target.is_empty() {
                let start = [b"Wrong '!", keyword.as_bytes(), b"' directive in config file "].concat();
                self.error_at_line(&start, context.name, context.number);
                return Err(ReadFailure);
            }
            return match keyword {
                "includedir" => self.include_directory(&target, context),
                _ => {
                    self.include(&target, keyword, context);
                    Ok(())
                }
            };
        }
        Ok(())
    }

    fn include(&mut self, target: &[u8], keyword: &str, context: &DirectiveContext<'_>) {
        match self.read(target, context.depth + 1) {
            OptionFileOutcome::Read => {}
            OptionFileOutcome::Missing | OptionFileOutcome::Failed => self.report_stopped(keyword, context),
        }
    }

    fn include_directory(
        &mut self,
        target: &[u8],
        context: &DirectiveContext<'_>,
    ) -> Result<(), ReadFailure> {
        let entries = match fs::read_dir(as_path(target)) {
            Ok(entries) => entries,
            Err(error) => {
                self.diagnostics.system_error(&[b"Can't read dir of '", target, b"'"], &error);
                self.report_stopped("includedir", context);
                return Err(ReadFailure);
            }
        };
        let mut names: Vec<Vec<u8>> = entries
            .flatten()
            .map(|entry| entry.file_name().into_vec())
            .filter(|name| is_option_file(name))
            .collect();
        names.sort_unstable();
        for file in names {
            let separator = if target.ends_with(b"/") { b"".as_slice() } else { b"/" };
            let path = [target, separator, &file].concat();
            self.include(&path, "includedir", context);
        }
        Ok(())
    }

    fn report_stopped(&mut self, keyword: &str, context: &DirectiveContext<'_>) {
        let start = [b"Stopped processing the '", keyword.as_bytes(), b"' directive in file "].concat();
        self.error_at_line(&start, context.name, context.number);
    }

    fn error_at_line(&mut self, start: &[u8], name: &[u8], number: &str) {
        self.diagnostics.error(&[start, name, b" at line ", number.as_bytes(), b"."]);
    }
}

/// Returns whether all users can write to the file. Such a file is not read.
pub fn is_writable_by_all(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.permissions().mode() & 0o002 != 0
}

fn is_option_file(name: &[u8]) -> bool {
    name.len() > 4 && name.ends_with(b".cnf")
}

/// Splits into lines including their line ends. Long lines are cut, and each line ends at its first zero byte.
fn split_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').flat_map(|line| line.chunks(LINE_MAX)).map(|line| {
        let end = line.iter().position(|byte| *byte == 0).unwrap_or(line.len());
        &line[..end]
    })
}

/// Returns the argument of a directive. Its last byte is taken for the line end, whatever it is.
fn argument(text: &[u8]) -> &[u8] {
    let Some((_, most)) = text.split_last() else { return text };
    trim_end(most, is_space)
}

/// Converts `name = value # comment` to `--name=value`.
fn option(text: &[u8]) -> Vec<u8> {
    let text = without_comment(text);
    let Some(equals) = text.iter().position(|byte| *byte == b'=') else {
        return [b"--", trim_end(text, is_space)].concat();
    };
    let mut option = [b"--", trim_end(&text[..equals], is_space), b"="].concat();
    let mut value = trim_end(trim_start(&text[equals + 1..], is_space), is_space);
    if let [first @ (b'"' | b'\''), inside @ .., last] = value
        && first == last
    {
        value = inside;
    }
    unescape(value, &mut option);
    option
}

fn without_comment(text: &[u8]) -> &[u8] {
    let mut quote = None;
    let mut escaped = false;
    for (index, byte) in text.iter().enumerate() {
        if matches!(byte, b'\'' | b'"') && !escaped {
            quote = match quote {
                None => Some(*byte),
                Some(open) if open == *byte => None,
                open => open,
            };
        }
        if quote.is_none() && *byte == b'#' {
            return &text[..index];
        }
        escaped = quote.is_some() && *byte == b'\\' && !escaped;
    }
    text
}

fn unescape(value: &[u8], out: &mut Vec<u8>) {
    let mut rest = value;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let (b'\\', Some((escaped, after))) = (byte, rest.split_first()) else {
            out.push(*byte);
            continue;
        };
        rest = after;
        match escaped {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'b' => out.push(8),
            b's' => out.push(b' '),
            b'"' | b'\'' | b'\\' => out.push(*escaped),
            other => out.extend_from_slice(&[b'\\', *other]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{argument, option, split_lines};

    #[test]
    fn options_in_files() {
        let check = |line: &str, expected: &str| {
            assert_eq!(String::from_utf8_lossy(&option(line.as_bytes())), expected, "{line}");
        };
        check("verbose\n", "--verbose");
        check("database = db1   # first\n", "--database=db1");
        check("user='x#y'\n", "--user=x#y");
        check("host = \"a b\" # comment\n", "--host=a b");
        check("socket=a\\sb\\n\\t\\q\\\\z\n", "--socket=a b\n\t\\q\\z");
        check("set-charset=\n", "--set-charset=");
        check("x='a\n", "--x='a");
        check("x=\\\n", "--x=\\");
    }

    #[test]
    fn the_last_byte_of_a_directive_is_its_line_end() {
        let check =
            |text: &str, expected: &str| assert_eq!(argument(text.as_bytes()), expected.as_bytes(), "{text}");
        check("a.cnf\n", "a.cnf");
        check("a.cnf \r\n", "a.cnf");
        check("a.cnf", "a.cn");
        check("\n", "");
        check("", "");
    }

    #[test]
    fn long_lines_are_split() {
        let bytes = [vec![b'x'; 5000], b"\ny\0z\n".to_vec()].concat();
        let sizes: Vec<usize> = split_lines(&bytes).map(<[u8]>::len).collect();
        assert_eq!(sizes, [4094, 907, 1]);
    }
}
