//! Option files: which are read, in which order, and what their lines mean.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::login_path;
use super::{Exit, Origin, Word};
use crate::errno::os_error;
use crate::talk::{Level, Talk};

/// The groups that are read.
pub(crate) const GROUPS: [&str; 2] = ["mysqlbinlog", "client"];

/// How deep files may include files.
const DEPTH_MAX: u32 = 10;

/// Bytes of a line that are read at once; what is longer is taken for several lines.
const LINE_MAX: usize = 4094;

/// What the environment says about option files.
#[derive(Clone, Debug, Default)]
pub(crate) struct Surroundings {
    /// The user's home directory.
    pub(crate) home: Option<Vec<u8>>,
    /// One more directory with an option file.
    pub(crate) mysql_home: Option<Vec<u8>>,
    /// Behind the names of groups that are read too.
    pub(crate) group_suffix: Option<Vec<u8>>,
    /// The login file, if not the usual one.
    pub(crate) login_file: Option<Vec<u8>>,
}

impl Surroundings {
    /// Those of this process.
    pub(crate) fn of_process() -> Self {
        let get = |name: &str| env::var_os(name).map(OsStringExt::into_vec);
        Self {
            home: get("HOME"),
            mysql_home: get("MYSQL_HOME"),
            group_suffix: get("MYSQL_GROUP_SUFFIX"),
            login_file: get("MYSQL_TEST_LOGIN_FILE"),
        }
    }
}

/// What the options about option files say. They must come first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Choice {
    none: bool,
    only: Option<Vec<u8>>,
    /// The file that is read after the global ones.
    pub(crate) extra: Option<Vec<u8>>,
    /// Behind the names of groups that are read too.
    pub(crate) group_suffix: Option<Vec<u8>>,
    login_path: Option<Vec<u8>>,
    login_none: bool,
    print: bool,
}

impl Choice {
    /// Takes them off the front of a command line, and returns the rest.
    pub(crate) fn take<'w>(words: &'w [Vec<u8>], surroundings: &Surroundings) -> (Self, &'w [Vec<u8>]) {
        let mut choice =
            Self { none: words.first().is_some_and(|word| word == b"--no-defaults"), ..Self::default() };
        let mut rest = words;
        while let Some((word, behind)) = rest.split_first() {
            let first = rest.len() == words.len();
            if !choice.take_one(word, first) {
                break;
            }
            rest = behind;
        }
        if let Some((word, behind)) = rest.split_first()
            && word == b"--print-defaults"
        {
            choice.print = !choice.none;
            rest = behind;
        }
        if choice.group_suffix.is_none() {
            choice.group_suffix.clone_from(&surroundings.group_suffix);
        }
        (choice, rest)
    }

    fn take_one(&mut self, word: &[u8], first: bool) -> bool {
        if first && word.starts_with(b"--no-defaults") {
            return true;
        }
        if word.starts_with(b"--no-login-paths") && !self.login_none {
            self.login_none = true;
            return true;
        }
        let one = |place: &mut Option<Vec<u8>>, prefix: &str| match word.strip_prefix(prefix.as_bytes()) {
            Some(value) if place.is_none() => {
                *place = Some(value.to_vec());
                true
            }
            _ => false,
        };
        let files = !self.none
            && (one(&mut self.only, "--defaults-file=") || one(&mut self.extra, "--defaults-extra-file="));
        files
            || one(&mut self.group_suffix, "--defaults-group-suffix=")
            || one(&mut self.login_path, "--login-path=")
    }
}

/// What a command line becomes with the options of option files in front.
pub(crate) enum Loaded {
    /// The words to parse.
    Words(Vec<Word>),
    /// Only this is to be printed.
    Print(Vec<u8>),
}

/// Reads the option files that `choice` asks for, and puts what they say in front of `rest`.
pub(crate) fn load(
    choice: &mut Choice,
    rest: &[Vec<u8>],
    surroundings: &Surroundings,
    talk: &mut Talk<'_>,
) -> Result<Loaded, Exit> {
    for path in [&mut choice.only, &mut choice.extra].into_iter().flatten() {
        *path = absolute(path, surroundings);
    }
    let mut reader = Reader { groups: groups(choice), words: Vec::new(), surroundings, talk };
    reader.read_all(choice).map_err(|Fatal| {
        reader.talk.local(Level::Error, &[b"Fatal error in defaults handling. Program aborted!"]);
        Exit::FAILURE
    })?;
    let mut words = reader.words;
    if choice.print {
        let mut text = [talk.program(), b" would have been started with the following arguments:\n"].concat();
        for word in words.iter().map(|word| &word.text).chain(rest) {
            text.extend_from_slice(if word.starts_with(b"--password") { b"--password=*****" } else { word });
            text.push(b' ');
        }
        text.push(b'\n');
        return Ok(Loaded::Print(text));
    }
    words.extend(rest.iter().map(|text| Word { text: text.clone(), origin: Origin::CommandLine }));
    Ok(Loaded::Words(words))
}

/// The directories whose option file is read, in order: the last word wins. An empty one stands for the extra file.
pub(crate) fn directories(surroundings: &Surroundings) -> Vec<Vec<u8>> {
    let mut directories = vec![b"/etc/".to_vec(), b"/etc/mysql/".to_vec()];
    if let Some(home) = surroundings.mysql_home.as_ref().filter(|home| !home.is_empty()) {
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

fn groups(choice: &Choice) -> Vec<Vec<u8>> {
    let mut groups: Vec<Vec<u8>> = GROUPS.iter().map(|group| group.as_bytes().to_vec()).collect();
    if let Some(suffix) = &choice.group_suffix {
        groups.extend(GROUPS.iter().map(|group| [group.as_bytes(), suffix].concat()));
    }
    groups
}

fn absolute(path: &[u8], surroundings: &Surroundings) -> Vec<u8> {
    let path = unpack_home(path, surroundings);
    if path.starts_with(b"/") {
        return path;
    }
    let mut whole = env::current_dir().unwrap_or_default().into_os_string().into_vec();
    whole.push(b'/');
    whole.extend_from_slice(&path);
    whole
}

fn unpack_home(path: &[u8], surroundings: &Surroundings) -> Vec<u8> {
    match (path, &surroundings.home) {
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

/// Something that stops the program.
struct Fatal;

/// What became of one file.
enum Outcome {
    Read,
    Missing,
    /// It was complained about.
    Failed,
}

struct Reader<'r, 'e> {
    groups: Vec<Vec<u8>>,
    words: Vec<Word>,
    surroundings: &'r Surroundings,
    talk: &'r mut Talk<'e>,
}

impl Reader<'_, '_> {
    fn read_all(&mut self, choice: &Choice) -> Result<(), Fatal> {
        if let Some(only) = &choice.only {
            self.read_required(only)?;
        } else if !choice.none {
            for directory in directories(self.surroundings) {
                if !directory.is_empty() {
                    let dot = if directory == b"~/" { b".".as_slice() } else { b"" };
                    let name = [&directory, dot, b"my.cnf"].concat();
                    if let Outcome::Failed = self.read(&name, 0) {
                        return Err(Fatal);
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

    fn read_required(&mut self, name: &[u8]) -> Result<(), Fatal> {
        match self.read(name, 0) {
            Outcome::Read => Ok(()),
            Outcome::Missing => {
                self.talk.local(Level::Error, &[b"Failed to open required defaults file: ", name]);
                Err(Fatal)
            }
            Outcome::Failed => Err(Fatal),
        }
    }

    fn read_login(&mut self, choice: &Choice) -> Result<(), Fatal> {
        let name = match (&self.surroundings.login_file, &self.surroundings.home) {
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
            self.talk.local(Level::Warning, &[&name, b" should be readable/writable only by current user."]);
            return Ok(());
        }
        let Ok(bytes) = fs::read(as_path(&name)) else { return Ok(()) };
        let lines = login_path::lines(&bytes);
        match self.lines(&name, lines.iter().map(Vec::as_slice), 0) {
            Ok(()) => Ok(()),
            Err(Fatal) => Err(Fatal),
        }
    }

    fn read(&mut self, given: &[u8], depth: u32) -> Outcome {
        let name = unpack_home(given, self.surroundings);
        let path = as_path(&name);
        let metadata = match fs::metadata(path) {
            Ok(metadata) => metadata,
            Err(error) => {
                if depth > 0 {
                    self.talk.file(&[b"Can't get stat of '", &name, b"' (", &os_error(&error), b")"]);
                }
                return Outcome::Missing;
            }
        };
        if is_writable_by_all(&metadata) {
            self.talk.local(Level::Warning, &[b"World-writable config file '", &name, b"' is ignored."]);
            return Outcome::Read;
        }
        let bytes = match fs::read(path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::IsADirectory => Vec::new(),
            Err(_) => return Outcome::Missing,
        };
        match self.lines(&name, split_lines(&bytes), depth) {
            Ok(()) => Outcome::Read,
            Err(Fatal) => Outcome::Failed,
        }
    }

    fn lines<'l>(
        &mut self,
        name: &[u8],
        lines: impl Iterator<Item = &'l [u8]>,
        depth: u32,
    ) -> Result<(), Fatal> {
        let mut group: Option<Vec<u8>> = None;
        for (index, line) in lines.enumerate() {
            let number = (index + 1).to_string();
            let text = trim_start(line);
            match text.first() {
                None | Some(b'#' | b';') => {}
                Some(b'!') => self.directive(&text[1..], text, name, &number, depth)?,
                Some(b'[') => group = Some(self.group(&text[1..], name, &number)?),
                Some(_) => {
                    let Some(group) = &group else {
                        self.at_line(b"Found option without preceding group in config file ", name, &number);
                        return Err(Fatal);
                    };
                    if self.groups.iter().any(|wanted| wanted.eq_ignore_ascii_case(group)) {
                        self.words.push(Word { text: option(text), origin: Origin::File });
                    }
                }
            }
        }
        Ok(())
    }

    fn group(&mut self, text: &[u8], name: &[u8], number: &str) -> Result<Vec<u8>, Fatal> {
        match text.iter().position(|byte| *byte == b']') {
            Some(end) => Ok(trim_end(&text[..end]).to_vec()),
            None => {
                self.at_line(b"Wrong group definition in config file ", name, number);
                Err(Fatal)
            }
        }
    }

    fn directive(
        &mut self,
        text: &[u8],
        whole: &[u8],
        name: &[u8],
        number: &str,
        depth: u32,
    ) -> Result<(), Fatal> {
        if depth >= DEPTH_MAX {
            let text = [
                b"Skipping '",
                argument(whole),
                b"' directive as maximum include recursion level was reached in file ",
                name,
                b" at line ",
                number.as_bytes(),
                b".",
            ];
            self.talk.local(Level::Warning, &text);
            return Ok(());
        }
        let text = trim_start(text);
        for keyword in ["includedir", "include"] {
            let Some(rest) = text.strip_prefix(keyword.as_bytes()) else { continue };
            if !rest.first().is_some_and(|byte| is_space(*byte)) {
                continue;
            }
            let target = argument(trim_start(rest)).to_vec();
            if target.is_empty() {
                let start = [b"Wrong '!", keyword.as_bytes(), b"' directive in config file "].concat();
                self.at_line(&start, name, number);
                return Err(Fatal);
            }
            return match keyword {
                "includedir" => self.include_directory(&target, name, number, depth),
                _ => {
                    self.include(&target, keyword, name, number, depth);
                    Ok(())
                }
            };
        }
        Ok(())
    }

    fn include(&mut self, target: &[u8], keyword: &str, name: &[u8], number: &str, depth: u32) {
        match self.read(target, depth + 1) {
            Outcome::Read => {}
            Outcome::Missing | Outcome::Failed => self.stopped(keyword, name, number),
        }
    }

    fn include_directory(
        &mut self,
        target: &[u8],
        name: &[u8],
        number: &str,
        depth: u32,
    ) -> Result<(), Fatal> {
        let entries = match fs::read_dir(as_path(target)) {
            Ok(entries) => entries,
            Err(error) => {
                self.talk.file(&[b"Can't read dir of '", target, b"' (", &os_error(&error), b")"]);
                self.stopped("includedir", name, number);
                return Err(Fatal);
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
            self.include(&path, "includedir", name, number, depth);
        }
        Ok(())
    }

    fn stopped(&mut self, keyword: &str, name: &[u8], number: &str) {
        let start = [b"Stopped processing the '", keyword.as_bytes(), b"' directive in file "].concat();
        self.at_line(&start, name, number);
    }

    fn at_line(&mut self, start: &[u8], name: &[u8], number: &str) {
        self.talk.local(Level::Error, &[start, name, b" at line ", number.as_bytes(), b"."]);
    }
}

fn is_writable_by_all(metadata: &Metadata) -> bool {
    metadata.is_file() && metadata.permissions().mode() & 0o002 != 0
}

fn is_option_file(name: &[u8]) -> bool {
    name.len() > 4 && name.ends_with(b".cnf")
}

/// Lines with their line ends, long ones in pieces; each ends at a zero byte if it has one.
fn split_lines(bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    bytes.split_inclusive(|byte| *byte == b'\n').flat_map(|line| line.chunks(LINE_MAX)).map(|line| {
        let end = line.iter().position(|byte| *byte == 0).unwrap_or(line.len());
        &line[..end]
    })
}

/// What stands behind a directive's keyword. Its last byte is taken for the line end, whatever it is.
fn argument(text: &[u8]) -> &[u8] {
    let Some((_, most)) = text.split_last() else { return text };
    trim_end(most)
}

/// `name = value # comment` as `--name=value`.
fn option(text: &[u8]) -> Vec<u8> {
    let text = without_comment(text);
    let Some(equals) = text.iter().position(|byte| *byte == b'=') else {
        return [b"--", trim_end(text)].concat();
    };
    let mut option = [b"--", trim_end(&text[..equals]), b"="].concat();
    let mut value = trim_end(trim_start(&text[equals + 1..]));
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
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        let (b'\\', Some((escaped, behind))) = (byte, rest.split_first()) else {
            out.push(*byte);
            continue;
        };
        rest = behind;
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

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn trim_start(text: &[u8]) -> &[u8] {
    let count = text.iter().take_while(|byte| is_space(**byte)).count();
    &text[count..]
}

fn trim_end(text: &[u8]) -> &[u8] {
    let count = text.iter().rev().take_while(|byte| is_space(**byte)).count();
    &text[..text.len() - count]
}

#[cfg(test)]
mod tests {
    use super::{argument, option, split_lines};

    #[test]
    fn options_in_files() {
        let check = |line: &str, wanted: &str| {
            assert_eq!(String::from_utf8_lossy(&option(line.as_bytes())), wanted, "{line}");
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
            |text: &str, wanted: &str| assert_eq!(argument(text.as_bytes()), wanted.as_bytes(), "{text}");
        check("a.cnf\n", "a.cnf");
        check("a.cnf \r\n", "a.cnf");
        check("a.cnf", "a.cn");
        check("\n", "");
        check("", "");
    }

    #[test]
    fn long_lines_are_several() {
        let bytes = [vec![b'x'; 5000], b"\ny\0z\n".to_vec()].concat();
        let sizes: Vec<usize> = split_lines(&bytes).map(<[u8]>::len).collect();
        assert_eq!(sizes, [4094, 907, 1]);
    }
}
