//! Every message in the sources, found by a scan of the string literals.
//!
//! A literal is a message if it is an argument of a call or an attribute that creates messages (`MESSAGE_MAKERS`), or
//! if it reads like prose. SQL, HTML, the text of `--help` and text for programmers only (assertions, tests) are left
//! out.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use regex::Regex;

use self::token::Token;
use super::recorded::RecordedExamples;
use super::unit_tests::UnitTestExamples;

mod token;

/// Calls, macros and attributes whose literals are messages.
const MESSAGE_MAKERS: &[&str] =
    &["error", "warn", "info", "anyhow", "bail", "ensure", "context", "with_context", "eprintln", "remark"];

/// Calls and macros whose literals are for programmers only.
const INTERNAL: &[&str] = &[
    "expect",
    "assert",
    "assert_eq",
    "assert_ne",
    "debug_assert",
    "debug_assert_eq",
    "debug_assert_ne",
    "panic",
    "unreachable",
    "env",
    "include_str",
    "include_bytes",
    "concat",
];

/// First words of literals that are not prose: SQL, as the project writes it.
const SQL: &[&str] = &[
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "SET",
    "SHOW",
    "CREATE",
    "DROP",
    "ALTER",
    "WITH",
    "FROM",
    "WHERE",
    "AND",
    "ORDER",
    "BEGIN",
    "COMMIT",
    "PRAGMA",
    "REPLACE",
    "GRANT",
    "LOCK",
    "FLUSH",
    "KILL",
    "START",
    "SAVEPOINT",
];

/// Mark of the head of a right-aligned column, which is not printed.
const RIGHT_ALIGNED: char = '>';

const PREAMBLE: &str = "\
Every message in the sources, by file; written by `cargo xtask words`.

+  messages.txt has an example of it
*  recorded.txt has an example of it, from an end-to-end test
=  unit_tests.txt has an example of it, from a unit test
-  it has no example
";

/// Messages of one source file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceMessages {
    /// Path of the file from the root of the workspace.
    pub file: String,
    /// Messages with their escapes and placeholders, without duplicates.
    pub messages: Vec<String>,
}

/// Returns the messages of all source files, without those that are part of `help`.
///
/// # Errors
/// Fails if a source file cannot be read.
pub fn sources(help: &str) -> Result<Vec<SourceMessages>> {
    let help = joined(help);
    let root = testkit::workspace_root();
    let mut paths = Vec::new();
    for entry in fs::read_dir(root.join("crates"))? {
        let entry = entry?;
        if entry.file_name() != "testkit" && entry.path().join("src").is_dir() {
            find_files(&entry.path().join("src"), &mut paths)?;
        }
    }
    paths.sort();
    let scanned = paths.iter().map(|path| Ok(scan(path, &tokens_of(path)?))).collect::<Result<Vec<_>>>()?;
    let tests: BTreeSet<&PathBuf> = scanned.iter().flat_map(|file| &file.test_modules).collect();
    let mut files = Vec::new();
    for (path, scanned) in paths.iter().zip(&scanned) {
        let is_test = path.ancestors().any(|above| tests.contains(&above.to_path_buf()));
        let messages = scanned.messages.iter().map(|text| text.trim().trim_start_matches(RIGHT_ALIGNED));
        let messages: Vec<String> =
            messages.filter(|text| !help.contains(&joined(text))).map(str::to_owned).collect();
        if !messages.is_empty() && !is_test {
            let file = path.strip_prefix(&root).unwrap_or(path).display().to_string();
            files.push(SourceMessages { file, messages });
        }
    }
    Ok(files)
}

/// Lists the messages of the sources, each with a mark.
pub fn list(
    sources: &[SourceMessages],
    examples: &str,
    recorded: &RecordedExamples,
    unit_tests: &UnitTestExamples,
) -> String {
    let mut text = PREAMBLE.to_owned();
    for source in sources {
        let _ = writeln!(text, "\n{}", source.file);
        for message in &source.messages {
            let mark = if is_shown(message, examples) {
                '+'
            } else if recorded.has(&source.file, message) {
                '*'
            } else if unit_tests.has(&source.file, message) {
                '='
            } else {
                '-'
            };
            let _ = writeln!(text, "{mark}  {message}");
        }
    }
    text
}

/// A line of a string literal in a unit test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TestText {
    /// Path of the file from the root of the workspace.
    pub(super) file: String,
    /// Function that contains the literal.
    pub(super) test: String,
    /// Line without its escapes.
    pub(super) line: String,
}

/// Returns the texts in the unit tests of a crate.
///
/// # Errors
/// Fails if a source file cannot be read.
pub(super) fn test_texts(directory: &Path) -> Result<Vec<TestText>> {
    let root = testkit::workspace_root();
    let mut paths = Vec::new();
    for name in ["src", "tests"] {
        let directory = root.join(directory).join(name);
        if directory.is_dir() {
            find_all_files(&directory, &mut paths)?;
        }
    }
    paths.sort();
    let sources = paths.iter().map(|path| Ok((path, tokens_of(path)?))).collect::<Result<Vec<_>>>()?;
    let modules: BTreeSet<PathBuf> =
        sources.iter().flat_map(|(path, tokens)| scan(path, tokens).test_modules).collect();
    let mut texts = Vec::new();
    for (path, tokens) in &sources {
        let file = path.strip_prefix(&root).unwrap_or(path).display().to_string();
        let is_test = path.starts_with(root.join(directory).join("tests"))
            || path.ancestors().any(|above| modules.contains(above));
        if is_test {
            add_test_texts(tokens, &file, &mut texts);
            continue;
        }
        for at in 0..tokens.len() {
            if tokens[at] == Token::Sign('#') && is_test_attribute(&tokens[at..]) {
                add_test_texts(&tokens[at..item_end(tokens, at)], &file, &mut texts);
            }
        }
    }
    Ok(texts)
}

fn add_test_texts(tokens: &[Token], file: &str, texts: &mut Vec<TestText>) {
    let mut test = "";
    for pair in tokens.windows(2) {
        match pair {
            [Token::Word(keyword), Token::Word(name)] if keyword == "fn" => test = name,
            [_, Token::Text(text)] if text.contains(' ') => {
                for line in text.split("\\n").map(str::trim).filter(|line| !line.is_empty()) {
                    let line = line.replace("\\\"", "\"").replace("\\\\", "\\");
                    texts.push(TestText { file: file.to_owned(), test: test.to_owned(), line });
                }
            }
            _ => {}
        }
    }
}

/// Returns a text in one line, without line breaks and indentation.
fn joined(text: &str) -> String {
    text.replace("\\n", " ")
        .replace("\\\"", "\"")
        .replace("\\\\", "\\")
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}

/// Finds the source files below a directory, without tests in files of their own.
fn find_files(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    let mut all = Vec::new();
    find_all_files(directory, &mut all)?;
    files.extend(all.into_iter().filter(|path| !path.ends_with("tests.rs")));
    Ok(())
}

fn find_all_files(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        if path.is_dir() {
            find_all_files(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Messages of one source file.
#[derive(Debug, Default)]
struct ScannedSource {
    /// Messages with their escapes, without duplicates.
    messages: Vec<String>,
    /// Files and directories of modules that are compiled for tests only.
    test_modules: Vec<PathBuf>,
}

fn tokens_of(path: &Path) -> Result<Vec<Token>> {
    let source = fs::read_to_string(path).with_context(|| format!("could not read {}", path.display()))?;
    Ok(token::split(&source))
}

fn scan(path: &Path, tokens: &[Token]) -> ScannedSource {
    let (messages, modules) = messages_in(tokens);
    let mut test_modules = Vec::new();
    for module in modules {
        let directory = path.parent().unwrap_or(path);
        let below = if path.ends_with("mod.rs") || path.ends_with("lib.rs") || path.ends_with("main.rs") {
            directory.to_owned()
        } else {
            path.with_extension("")
        };
        test_modules.push(below.join(format!("{module}.rs")));
        test_modules.push(below.join(module));
    }
    ScannedSource { messages, test_modules }
}

/// Returns the messages, and the names of test modules in other files.
fn messages_in(tokens: &[Token]) -> (Vec<String>, Vec<String>) {
    let (mut messages, mut modules) = (Vec::new(), Vec::new());
    let mut makers_end = 0;
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        match token {
            Token::Sign('#') if is_test_attribute(&tokens[at..]) => {
                let end = item_end(tokens, at);
                if let [.., Token::Word(keyword), Token::Word(name), Token::Sign(';')] = &tokens[at..end]
                    && keyword == "mod"
                {
                    modules.push(name.clone());
                }
                at = end;
                continue;
            }
            Token::Sign('#') if !is_error_attribute(&tokens[at..]) => {
                at = group_end(tokens, at);
                continue;
            }
            Token::Word(word) if is_call(tokens, at) => {
                if INTERNAL.contains(&word.as_str()) {
                    at = group_end(tokens, at);
                    continue;
                }
                if MESSAGE_MAKERS.contains(&word.as_str()) {
                    makers_end = makers_end.max(group_end(tokens, at));
                }
            }
            Token::Text(text) if is_message(text, at < makers_end) && !messages.contains(text) => {
                messages.push(text.clone());
            }
            _ => {}
        }
        at += 1;
    }
    (messages, modules)
}

/// Checks whether a word is followed by `(` or `!(`.
fn is_call(tokens: &[Token], at: usize) -> bool {
    let next = tokens.get(at + 1);
    next == Some(&Token::Sign('('))
        || (next == Some(&Token::Sign('!')) && tokens.get(at + 2) == Some(&Token::Sign('(')))
}

/// Checks for `#[cfg(test)]` or `#[cfg(any(test, …))]`.
fn is_test_attribute(tokens: &[Token]) -> bool {
    let words: Vec<&str> = tokens[..group_end(tokens, 0)].iter().filter_map(Token::word).collect();
    matches!(words.as_slice(), ["cfg", "test"] | ["cfg", "all" | "any", "test", ..] | ["test"])
}

fn is_error_attribute(tokens: &[Token]) -> bool {
    matches!(tokens, [_, Token::Sign('['), Token::Word(word), ..] if word == "error")
}

/// Returns the index after the item that an attribute belongs to.
fn item_end(tokens: &[Token], attribute: usize) -> usize {
    let mut at = group_end(tokens, attribute);
    while let Some(token) = tokens.get(at) {
        match token {
            Token::Sign(';' | ',') => return at + 1,
            Token::Sign('{') => return group_end(tokens, at),
            Token::Sign('(' | '[') => at = group_end(tokens, at),
            _ => at += 1,
        }
    }
    at
}

/// Returns the index after the first group of brackets at or after `at`.
fn group_end(tokens: &[Token], at: usize) -> usize {
    let mut depth = 0_usize;
    for (index, token) in tokens.iter().enumerate().skip(at) {
        match token {
            Token::Sign('(' | '[' | '{') => depth += 1,
            Token::Sign(')' | ']' | '}') => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return index + 1;
                }
            }
            _ => {}
        }
    }
    tokens.len()
}

/// Checks whether a literal is a message. In a call that creates messages, one word is enough; elsewhere it must
/// read like prose.
fn is_message(text: &str, is_in_maker: bool) -> bool {
    let plain = without_placeholders(text);
    let first = plain.split_whitespace().next().unwrap_or_default();
    if SQL.contains(&first) || text.starts_with(['<', '#', '/', '.', '&', '`']) || text.contains("\\n.") {
        return is_in_maker && plain.split_whitespace().count() > 3;
    }
    let is_lower = |word: &&str| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_lowercase());
    let trimmed = |word: &'_ str| word.trim_matches([',', '.', ':', ';', '(', ')']).to_owned();
    let words = plain.split(' ').map(trimmed).filter(|word| is_lower(&word.as_str())).count();
    words > 1 || (is_in_maker && plain.contains(|letter: char| letter.is_alphabetic()) && plain.contains(' '))
}

fn without_placeholders(text: &str) -> String {
    let mut depth = 0_usize;
    let mut plain = String::new();
    for letter in text.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(letter),
            _ => {}
        }
    }
    plain
}

/// Checks whether a message occurs in the examples, with any text in place of its placeholders.
pub fn is_shown(message: &str, examples: &str) -> bool {
    let texts: Vec<String> = literals(message).iter().map(|text| regex::escape(text)).collect();
    let pattern = Regex::new(&texts.join(".*")).expect("ours: escaped texts are a valid pattern");
    pattern.is_match(examples)
}

/// Returns the text before, between and after the placeholders of a message; of several lines, only of the longest.
pub(super) fn literals(message: &str) -> Vec<String> {
    let line = message.trim_end_matches("\\n").split("\\n").max_by_key(|line| line.len()).unwrap_or(message);
    let line = line.replace("\\\"", "\"").replace("\\\\", "\\").replace("{{", "\u{1}").replace("}}", "\u{2}");
    let mut literals = Vec::new();
    let mut rest = line.trim();
    while let Some((before, after)) = rest.split_once('{') {
        literals.push(before);
        rest = after.split_once('}').map_or("", |(_, after)| after);
    }
    literals.push(rest);
    literals.into_iter().map(|text| text.replace('\u{1}', "{").replace('\u{2}', "}")).collect()
}

#[cfg(test)]
mod tests {
    use super::{is_shown, messages_in, token};

    fn check(source: &str, expected: &[&str]) {
        assert_eq!(messages_in(&token::split(source)).0, expected, "{source}");
    }

    #[test]
    fn messages_are_found() {
        check("#[error(\"{name} has no logs\")] Empty", &["{name} has no logs"]);
        check("bail!(\"no room\")", &["no room"]);
        check("x.with_context(|| format!(\"write {}\", p))", &["write {}"]);
        check("let why = \"it is not there\";", &["it is not there"]);
        check("\"two \\\n    lines of text\"", &["two lines of text"]);
        check("r#\"it is \"raw\" text\"#", &["it is \"raw\" text"]);
    }

    #[test]
    fn other_literals_are_left_out() {
        check("let sql = \"SELECT a from the table\";", &[]);
        check("x.expect(\"ours: it is there\")", &[]);
        check("// bail!(\"it is a comment\")\n/* \"it is another\" */", &[]);
        check(
            "#[cfg(test)] mod tests { fn f() { \"it is a test\" } } \"it is not there\"",
            &["it is not there"],
        );
        check("#[doc = \"it is a comment\"] struct X;", &[]);
        check("let c: (char, &'a str) = ('\"', \"x\");", &[]);
        assert_eq!(messages_in(&token::split("#[cfg(test)] mod far;")).1, ["far"]);
    }

    #[test]
    fn placeholders_match_any_text() {
        assert!(is_shown("{name} has no {what}", "x: f.log has no logs\n"));
        assert!(!is_shown("{name} has no {what}", "x: f.log has a log\n"));
        assert!(is_shown("a {{b}} \\\"c\\\"", "a {b} \"c\""));
    }
}
