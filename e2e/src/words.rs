//! The reviewed snapshot of all text that a user can see: five files under `e2e/words/`.
//!
//! | file | contents |
//! |---|---|
//! | `help.txt` | the `--help` of every command: [`help`] |
//! | `messages.txt` | commands, and the errors and warnings that they cause: [`messages`] |
//! | `recorded.txt` | examples of other messages, from a recording of the end-to-end tests: [`recorded`] |
//! | `unit_tests.txt` | examples of other messages, from unit tests: [`unit_tests`] |
//! | `templates.txt` | every message in the sources, with a mark if one of these files has an example: [`templates`] |

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use regex::Regex;
use tempfile::TempDir;

use crate::program::bintide;

mod example_text;
pub mod help;
pub mod messages;
pub mod recorded;
pub mod templates;
pub mod unit_tests;

/// Environment variable that makes the tests write the files, if its value is `write`.
const MODE_VARIABLE: &str = "BINTIDE_WORDS";

/// Environment variable with the directory of a recording, from which the tests write `recorded.txt`.
const RECORDED_VARIABLE: &str = "BINTIDE_RECORDED";

/// File with the examples of messages.
pub const MESSAGES: &str = "messages.txt";

/// File with the examples that tests have recorded.
pub const RECORDED: &str = "recorded.txt";

/// Compares a file of the snapshot with the text that the program and the sources have now, or writes it.
///
/// # Errors
/// Fails if they differ, or a file cannot be read or written.
pub fn check(name: &str, now: &str) -> Result<()> {
    let path = words_directory().join(name);
    if is_written() {
        // Another run may read the file at the same time: it must read either the old text or the new text.
        let new = words_directory().join(format!(".{name}.{}", process::id()));
        fs::write(&new, now).with_context(|| format!("could not write {}", new.display()))?;
        fs::rename(&new, &path).with_context(|| format!("could not replace {}", path.display()))?;
        return Ok(());
    }
    let reviewed = fs::read_to_string(&path).unwrap_or_default();
    if reviewed != now {
        bail!("{}", difference(name, &path, now)?);
    }
    Ok(())
}

/// Returns `true` if the files are written, not compared.
pub fn is_written() -> bool {
    env::var_os(MODE_VARIABLE).is_some_and(|mode| mode == "write")
}

/// Returns the directory of a recording, if `recorded.txt` is written.
pub fn recording() -> Option<PathBuf> {
    env::var_os(RECORDED_VARIABLE).filter(|_| is_written()).map(PathBuf::from)
}

/// Reads a file of the snapshot.
///
/// # Errors
/// Fails if the file cannot be read.
pub fn read(name: &str) -> Result<String> {
    let path = words_directory().join(name);
    fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))
}

fn words_directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("words")
}

/// Returns the differing lines with three lines around them, and the command that updates the file.
fn difference(name: &str, path: &Path, now: &str) -> Result<String> {
    let scratch = TempDir::new()?;
    let new = scratch.path().join(name);
    fs::write(&new, now)?;
    let old = if path.exists() { path.as_os_str().to_owned() } else { OsString::from("/dev/null") };
    let mut diff = Command::new("diff");
    diff.args([
        "-u",
        "--label",
        &format!("e2e/words/{name} (reviewed)"),
        "--label",
        &format!("{name} (now)"),
    ]);
    let output = diff.arg(old).arg(&new).output().context("could not run diff")?;
    let lines = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok(format!(
        "e2e/words/{name} differs from the present text of bintide and its sources:\n\n{lines}\n\
         Read the new text as a user would. If it is right, run `cargo xtask words` and commit e2e/words/.\n"
    ))
}

/// A directory to run `bintide` in, isolated from this machine's settings, option files and variables.
#[derive(Debug)]
pub struct Stage {
    scratch: TempDir,
    normalizer: Normalizer,
}

impl Stage {
    /// Creates the directories, and links the program.
    ///
    /// # Errors
    /// Fails if bintide does not build, or a directory cannot be created.
    pub fn new() -> Result<Self> {
        let scratch = TempDir::new()?;
        for name in ["bin", "home", "tmp"] {
            fs::create_dir(scratch.path().join(name))?;
        }
        let program = fs::canonicalize(bintide()?).context("the bintide program is missing")?;
        symlink(program, scratch.path().join("bin/bintide"))?;
        let normalizer = Normalizer::new(scratch.path());
        Ok(Self { scratch, normalizer })
    }

    /// Returns the directory that contains everything.
    pub fn path(&self) -> &Path {
        self.scratch.path()
    }

    /// Returns a command that can use only the system programs of this machine.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        let path = format!("{}:/usr/bin:/bin", self.path().join("bin").display());
        command.env_clear().env("PATH", path).env("TZ", "UTC").env("COLUMNS", "100").env("LC_ALL", "C.UTF-8");
        command.env("HOME", self.path().join("home")).env("TMPDIR", self.path().join("tmp"));
        command.current_dir(self.path()).stdin(Stdio::null());
        command
    }

    /// Replaces text that differs between runs or machines.
    pub fn normalize(&self, text: &str) -> String {
        self.normalizer.apply(text)
    }
}

/// Replacements for text that differs between runs or machines.
#[derive(Debug)]
struct Normalizer {
    scratch: String,
    patterns: Vec<(Regex, &'static str)>,
}

impl Normalizer {
    fn new(scratch: &Path) -> Self {
        let valid = |pattern| Regex::new(pattern).expect("ours: the pattern is valid");
        let patterns = PATTERNS.iter().map(|(pattern, word)| (valid(pattern), *word)).collect();
        Self { scratch: scratch.display().to_string(), patterns }
    }

    fn apply(&self, text: &str) -> String {
        let mut text = text.replace(&self.scratch, "/DIR");
        for (pattern, word) in &self.patterns {
            text = pattern.replace_all(&text, *word).into_owned();
        }
        text
    }
}

/// Patterns and their replacements.
const PATTERNS: &[(&str, &str)] = &[
    (concat!(env!("CARGO_PKG_VERSION_MAJOR"), r"\.\d+\.\d+ for \S+ on \S+"), "VERSION for SYSTEM on CPU"),
    (r"bintide \d+\.\d+\.\d+", "bintide VERSION"),
    // Random ends of the names of an archive's segments.
    (r"(segments/[A-Za-z0-9.-]+)\.[0-9a-f]{16}\b", "${1}.NUMBER"),
    // Temporary files, and durations.
    (r"\.tmp[A-Za-z0-9]{6}\b", ".tmpNAME"),
    (r"\bbintide-[A-Za-z0-9]{6}\b", "bintide-NAME"),
    (r"\b\d+(\.\d+)? (ns|µs|ms|s)\b", "TIME"),
];

/// Checks that `messages.txt` has examples of each of these commands.
///
/// # Errors
/// Fails if `messages.txt` has no section for a command.
pub fn check_sections(commands: &[String], messages: &str) -> Result<()> {
    let sections: Vec<&str> = messages.lines().filter_map(|line| line.strip_prefix("## ")).collect();
    for command in commands {
        ensure!(
            sections.contains(&command.as_str()),
            "e2e/words/{MESSAGES} has no section `## {command}`: add examples of its errors"
        );
    }
    Ok(())
}
