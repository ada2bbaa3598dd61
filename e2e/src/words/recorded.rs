//! Examples of messages that the end-to-end tests cause: `recorded.txt`, written from a recording of the tests.
//!
//! Each entry has three lines: `# ` and the message as in `templates.txt`, and, indented, the name of the test and the
//! line that it has recorded.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use testkit::OutputRecorder;

use super::Normalizer;
use super::example_text::{self, AllMessages, MessageExample, MessageExamples, MessageMatcher};
use super::templates::{self, SourceMessages};

/// Characters of a line that can be an example; longer ones are data.
const LINE_MAX: usize = 100_000;

const PREAMBLE: &str = "\
Messages that end-to-end tests cause: the message as in templates.txt, a test that causes it, and a line of the output
of bintide in this test. `cargo xtask words --recorded DIRECTORY` adds entries from a recording of the tests; see
CONTRIBUTING.md. Text that differs between runs is replaced, and long lines are shortened.
";

/// The entries of `recorded.txt`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedExamples {
    entries: MessageExamples,
}

impl RecordedExamples {
    /// Reads `recorded.txt`.
    ///
    /// # Errors
    /// Fails if a line is not part of an entry.
    pub fn parse(text: &str) -> Result<Self> {
        let mut entries = BTreeMap::new();
        let mut file = "";
        let mut lines = text.lines().zip(1..).skip_while(|(line, _)| !line.starts_with("crates/"));
        while let Some((line, number)) = lines.next() {
            let Some(message) = line.strip_prefix("# ") else {
                ensure!(
                    line.is_empty() || line.starts_with("crates/"),
                    "line {number}: expected `# MESSAGE`"
                );
                file = line;
                continue;
            };
            let mut indented = || lines.next().and_then(|(line, _)| line.strip_prefix("  "));
            let (Some(test), Some(line)) = (indented(), indented()) else {
                bail!("line {number}: the message needs a test and an example, each indented by two spaces");
            };
            let example = MessageExample { test: test.to_owned(), line: line.to_owned() };
            entries.insert((file.to_owned(), message.to_owned()), example);
        }
        Ok(Self { entries: MessageExamples(entries) })
    }

    /// Returns the text of `recorded.txt`, in the order of the sources.
    pub fn text(&self, sources: &[SourceMessages]) -> String {
        self.entries.text(PREAMBLE, sources)
    }

    /// Checks whether a message has an example.
    pub fn has(&self, file: &str, message: &str) -> bool {
        self.entries.has(file, message)
    }

    /// Checks that each entry belongs to a message of the sources and to one of `tests`.
    ///
    /// # Errors
    /// Fails with all entries that do not.
    pub fn check(&self, sources: &[SourceMessages], tests: &BTreeSet<String>) -> Result<()> {
        let known = known_messages(sources);
        let mut errors = String::new();
        for ((file, message), example) in &self.entries.0 {
            let error = if !known.contains(&(file, message)) {
                "the source file does not have this message"
            } else if !tests.contains(&example.test) {
                "there is no such test"
            } else if !MessageMatcher::new(message).is_match(&example.line) {
                "the example does not match the message"
            } else {
                continue;
            };
            let _ =
                writeln!(errors, "{error}:\n{file}\n# {message}\n  {}\n  {}\n", example.test, example.line);
        }
        ensure!(
            errors.is_empty(),
            "entries of e2e/words/recorded.txt are out of date. Correct them, or remove them and record their tests \
             (see CONTRIBUTING.md):\n\n{errors}"
        );
        Ok(())
    }

    /// Removes the entries that are out of date or that `messages.txt` shows, and adds examples from a recording.
    ///
    /// # Errors
    /// Fails if the recording cannot be read.
    pub fn update(&mut self, sources: &[SourceMessages], examples: &str, directory: &Path) -> Result<()> {
        let known = known_messages(sources);
        self.entries.0.retain(|(file, message), example| {
            known.contains(&(file, message))
                && MessageMatcher::new(message).is_match(&example.line)
                && !templates::is_shown(message, examples)
        });
        let mut missing = Vec::new();
        for source in sources {
            for message in &source.messages {
                if !self.has(&source.file, message) && !templates::is_shown(message, examples) {
                    missing.push((&source.file, message, MessageMatcher::new(message)));
                }
            }
        }
        let lines = RecordedLines::read(
            directory,
            &example_text::any_of(missing.iter().map(|(.., matcher)| matcher)),
        )?;
        let all = AllMessages::new(sources);
        for (file, message, matcher) in missing {
            if let Some(example) = lines.find(file, &matcher, &all) {
                self.entries.0.insert((file.clone(), message.clone()), example);
            }
        }
        Ok(())
    }
}

fn known_messages(sources: &[SourceMessages]) -> BTreeSet<(&String, &String)> {
    sources.iter().flat_map(|source| source.messages.iter().map(|message| (&source.file, message))).collect()
}

/// All lines of a recording.
struct RecordedLines {
    /// Processes that have written each line.
    lines: BTreeMap<String, Vec<LineOrigin>>,
}

/// A process that has written a line.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LineOrigin {
    kind: OutputKind,
    /// Command of bintide; empty for `mysqlbinlog`.
    command: String,
    test: String,
}

impl LineOrigin {
    /// Returns whether the process can print a message of this source file: each command has source files of its own.
    fn may_print_messages_of(&self, file: &str) -> bool {
        let Some(command) = file.strip_prefix("crates/cli/src/commands/") else { return true };
        let command = command.split(['/', '.']).next().unwrap_or(command);
        match command {
            "rewrite" => ["compress", "decompress"].contains(&self.command.as_str()),
            // These read the state of other commands.
            "stats" | "top" => true,
            command => self.command == command,
        }
    }
}

/// Output of a process, the most readable first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum OutputKind {
    Errors,
    Output,
    Answers,
    Files,
}

impl OutputKind {
    fn of(name: &str) -> Self {
        match name {
            "errors" => Self::Errors,
            "output" => Self::Output,
            "answers" => Self::Answers,
            _ => Self::Files,
        }
    }
}

/// Checks for bytes that are not UTF-8, and control characters; those of a coloured terminal are removed later.
fn is_unreadable(character: char) -> bool {
    character == char::REPLACEMENT_CHARACTER || (character.is_control() && !"\t\x1b".contains(character))
}

impl RecordedLines {
    /// Reads the lines that match a pattern, because a recording contains much data.
    fn read(directory: &Path, pattern: &Regex) -> Result<Self> {
        let normalizer = LineNormalizer::new();
        let mut lines: BTreeMap<String, Vec<LineOrigin>> = BTreeMap::new();
        let mut known = HashSet::new();
        for recording in OutputRecorder::recordings(directory)? {
            let kind = OutputKind::of(&recording.kind);
            let text = fs::read(&recording.path)
                .with_context(|| format!("could not read {}", recording.path.display()))?;
            let command = recording.command.unwrap_or_default();
            for line in String::from_utf8_lossy(&text).split(['\n', '\r']).map(str::trim) {
                // Most lines occur in many processes.
                let mut is_new = || known.insert((command.clone(), kind, line.to_owned()));
                if line.len() > LINE_MAX
                    || line.contains(is_unreadable)
                    || !pattern.is_match(line)
                    || !is_new()
                {
                    continue;
                }
                let origins = lines.entry(normalizer.apply(line)).or_default();
                if !origins.iter().any(|known| known.command == command && known.kind <= kind) {
                    let (test, command) = (recording.test.clone(), command.clone());
                    origins.push(LineOrigin { kind, command, test });
                }
            }
        }
        Ok(Self { lines })
    }

    /// Returns the shortest example of a message, of the most readable kind.
    fn find(&self, file: &str, message: &MessageMatcher, all: &AllMessages) -> Option<MessageExample> {
        let longer = all.longer_than(message);
        let matching = self.lines.iter().filter(|(line, _)| example_text::is_example(message, &longer, line));
        let origins = matching.flat_map(|(line, origins)| origins.iter().map(move |origin| (line, origin)));
        let may_be = |origin: &LineOrigin| !message.is_short || origin.may_print_messages_of(file);
        let (line, origin) = origins
            .filter(|(_, origin)| may_be(origin))
            .min_by_key(|(line, origin)| (origin.kind, line.len(), &origin.test))?;
        let line = message.shortened(line);
        message.is_match(&line).then(|| MessageExample { test: origin.test.clone(), line })
    }
}

/// Replacements for text that differs between runs of the tests.
struct LineNormalizer {
    roots: Vec<(String, &'static str)>,
    patterns: Vec<(Regex, &'static str)>,
    normalizer: Normalizer,
}

/// Patterns and their replacements, before those of all examples.
const PATTERNS: &[(&str, &str)] = &[
    (r"\x1b\[[0-9;?]*[A-Za-z]", ""),
    // The state and the code before a message of MySQL's protocol.
    (r"^#[0-9A-Z]{5}", ""),
    (r"/running/\d+-\d+\b", "/running/SERVER"),
    // The target directory of another clone, in which the run was recorded.
    (r"(/[A-Za-z0-9.+_-]+)+/target/", "/TARGET/"),
    (r"\.bintide-new-[A-Za-z0-9]+", ".bintide-new-NAME"),
    (r"(/[A-Za-z0-9.+_-]+)+/(\.tmp|bintide-)[A-Za-z0-9]{6}\b", "/DIR"),
    (r"\b(127\.0\.0\.1|localhost|\[::1\]|0\.0\.0\.0|\[::\]):\d+", "${1}:PORT"),
    (r"\bport[= ]\d{4,5}\b", "port PORT"),
    (r"\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b", "UUID"),
    (r"\b20\d\d-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?", "DATE"),
    (r"\b[0-9a-f]{16,}\b", "HEX"),
    (r"\b(Intel|AMD)\b[^,;<]*", "PROCESSOR"),
];

impl LineNormalizer {
    fn new() -> Self {
        let roots = [
            (testkit::cache_dir().display().to_string(), "/CACHE"),
            (testkit::target_dir().display().to_string(), "/TARGET"),
            (testkit::workspace_root().display().to_string(), "/SOURCES"),
        ];
        let valid = |pattern| Regex::new(pattern).expect("ours: the pattern is valid");
        let patterns = PATTERNS.iter().map(|(pattern, word)| (valid(pattern), *word)).collect();
        Self { roots: roots.into(), patterns, normalizer: Normalizer::new(Path::new("/DIR")) }
    }

    fn apply(&self, line: &str) -> String {
        let mut text = line.to_owned();
        for (root, word) in &self.roots {
            text = text.replace(root, word);
        }
        for (pattern, word) in &self.patterns {
            if let Cow::Owned(replaced) = pattern.replace_all(&text, *word) {
                text = replaced;
            }
        }
        self.normalizer.apply(&text).trim().to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::RecordedExamples;

    #[test]
    fn text_is_read_as_it_is_written() {
        let text =
            "crates/a.rs\n# no {x}\n  a::b\n  bintide: no room\n\ncrates/b.rs\n# none\n  c::d\n  none\n";
        assert_eq!(RecordedExamples::parse(text).unwrap().entries.0.len(), 2);
        assert!(RecordedExamples::parse("crates/a.rs\n# none\n  a::b\n").is_err());
    }
}
