//! Runs mysqlbinlog and bintide with the same arguments, and finds the first difference.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::{fs, io};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::program::{Outcome, Program, RunEnvironment};

/// Name of the directory with the logs, below the directory that the programs run in.
pub const LOGS: &str = "logs";

/// Maximum number of characters shown of a line.
const SHOWN_MAX: usize = 300;

/// Input of one run, the same for both programs.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Command line; logs are under [`LOGS`].
    pub arguments: Vec<String>,
    /// Log for standard input, under [`LOGS`].
    pub stdin: Option<String>,
    /// Time zone; `None` is UTC.
    pub time_zone: Option<&'static str>,
    /// Name and text of files that exist before the run, such as option files.
    pub files: Vec<(String, String)>,
}

/// A difference between the two programs, described in a few lines.
#[derive(Clone, Debug)]
pub struct Difference {
    /// The run that differs.
    pub run: Run,
    /// Description of the first difference.
    pub description: String,
    /// Outcome of mysqlbinlog.
    pub real: Outcome,
    /// Outcome of bintide.
    pub ours: Outcome,
}

impl Run {
    /// Creates a run with these arguments.
    pub fn new<A: Into<String>>(arguments: impl IntoIterator<Item = A>) -> Self {
        Self { arguments: arguments.into_iter().map(Into::into).collect(), ..Self::default() }
    }

    /// Runs mysqlbinlog, then `other`, in a directory of the same name with copies of the logs, and compares output,
    /// error messages, exit codes and written files.
    ///
    /// # Errors
    /// Fails if a program cannot be started.
    pub fn compare(&self, other: Program, logs: &Path) -> Result<Option<Difference>> {
        let scratch = TempDir::new()?;
        let (real, real_files) = self.outcome(Program::Real, logs, scratch.path())?;
        if real.code.is_none() {
            return Ok(None); // mysqlbinlog crashed: there is no reference.
        }
        let (ours, our_files) = self.outcome(other, logs, scratch.path())?;
        let description = difference(&real, &ours).or_else(|| files_difference(&real_files, &our_files));
        Ok(description.map(|description| Difference { run: self.clone(), description, real, ours }))
    }

    fn outcome(&self, program: Program, logs: &Path, scratch: &Path) -> Result<(Outcome, WrittenFiles)> {
        let directory = scratch.join("run");
        fs::create_dir(&directory)?;
        self.copy_logs(logs, &directory).context("could not copy the logs")?;
        for (name, text) in &self.files {
            fs::write(directory.join(name), text)?;
        }
        let stdin = match &self.stdin {
            Some(name) => fs::read(directory.join(name)).with_context(|| format!("could not read {name}"))?,
            None => Vec::new(),
        };
        let time_zone = self.time_zone.unwrap_or("UTC");
        let surroundings = RunEnvironment { directory: &directory, time_zone, stdin: &stdin };
        let mut outcome = program.run(&self.arguments, &surroundings)?;
        remove_intended_differences(&mut outcome.stdout);
        let files = read_written_files(&directory)?;
        fs::remove_dir_all(&directory)?;
        Ok((outcome, files))
    }

    /// Copies the logs, because random options may make a program overwrite its input.
    fn copy_logs(&self, logs: &Path, directory: &Path) -> io::Result<()> {
        for named in self.arguments.iter().chain(&self.stdin) {
            let Some(name) = Path::new(named).strip_prefix(LOGS).ok() else { continue };
            let (from, to) = (logs.join(name), directory.join(named));
            if from.is_file() && !to.exists() {
                fs::create_dir_all(to.parent().unwrap_or(directory))?;
                fs::copy(from, to)?;
            }
        }
        Ok(())
    }
}

/// Removes text that differs on purpose: the version line and the descriptions in the help. The options, their
/// syntax and their values in the help must be the same.
fn remove_intended_differences(stdout: &mut Vec<u8>) {
    if !stdout.starts_with(b"mysqlbinlog  Ver ") {
        return;
    }
    let text = String::from_utf8_lossy(stdout).into_owned();
    let (help, values) = text.split_once("\nVariables (").unwrap_or((&text, ""));
    let options = help.lines().filter(|line| line.trim_start().starts_with('-') && !line.starts_with("   "));
    let mut kept: String = options.map(|line| format!("  {}\n", option_syntax(line))).collect();
    kept.push_str(values);
    *stdout = kept.into_bytes();
}

/// Returns the option's syntax, without its description.
fn option_syntax(line: &str) -> String {
    line.split_whitespace().take_while(|word| word.starts_with('-')).collect::<Vec<_>>().join(" ")
}

type WrittenFiles = BTreeMap<String, Vec<u8>>;

fn read_written_files(directory: &Path) -> Result<WrittenFiles> {
    let mut files = WrittenFiles::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_file() {
            files.insert(entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path())?);
        }
    }
    Ok(files)
}

/// Returns the first difference of two outcomes. Error messages are compared first, because they are the most specific.
pub fn difference(real: &Outcome, ours: &Outcome) -> Option<String> {
    text_difference("stderr", &real.stderr, &ours.stderr)
        .or_else(|| text_difference("stdout", &real.stdout, &ours.stdout))
        .or_else(|| {
            (real.code != ours.code).then(|| format!("exit code: real {:?}, ours {:?}", real.code, ours.code))
        })
}

fn files_difference(real: &WrittenFiles, ours: &WrittenFiles) -> Option<String> {
    let (real_names, our_names): (Vec<_>, Vec<_>) = (real.keys().collect(), ours.keys().collect());
    if real_names != our_names {
        return Some(format!("files left: real {real_names:?}, ours {our_names:?}"));
    }
    real.iter().find_map(|(name, bytes)| text_difference(name, bytes, ours.get(name)?))
}

/// Returns the first line that differs, with the line before.
fn text_difference(name: &str, real: &[u8], ours: &[u8]) -> Option<String> {
    if real == ours {
        return None;
    }
    let mut before: &[u8] = b"";
    let mut real_lines = real.split_inclusive(|byte| *byte == b'\n');
    let mut our_lines = ours.split_inclusive(|byte| *byte == b'\n');
    let mut number = 1;
    loop {
        let (real_line, our_line) = (real_lines.next(), our_lines.next());
        if real_line != our_line {
            let mut text = format!("{name}, line {number}:\n");
            let _ = writeln!(text, "  before  {}", shown(Some(before)));
            let _ = writeln!(text, "  real    {}", shown(real_line));
            let _ = write!(text, "  ours    {}", shown(our_line));
            return Some(text);
        }
        before = real_line.unwrap_or_default();
        number += 1;
    }
}

fn shown(line: Option<&[u8]>) -> String {
    let Some(line) = line else { return "(ends here)".to_owned() };
    let text = line.escape_ascii().to_string();
    match text.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], line.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::{remove_intended_differences, text_difference};

    #[test]
    fn first_difference_is_shown() {
        assert_eq!(text_difference("x", b"same\n", b"same\n"), None);
        let told = text_difference("out", b"a\nb\nc\n", b"a\nB\nc\n").unwrap();
        assert_eq!(told, "out, line 2:\n  before  a\\n\n  real    b\\n\n  ours    B\\n");
        let told = text_difference("out", b"a\n", b"a\nb\n").unwrap();
        assert!(told.contains("real    (ends here)"), "{told}");
    }

    #[test]
    fn help_is_compared_by_options_and_values() {
        let mut help =
            b"mysqlbinlog  Ver 9\nWords.\n  -v, --verbose-as-is More.\n                      --and more.\n\
            \nVariables (--variable-name=value)\nverbose  FALSE\n"
                .to_vec();
        remove_intended_differences(&mut help);
        let kept = String::from_utf8(help).unwrap();
        assert_eq!(kept, "  -v, --verbose-as-is\n--variable-name=value)\nverbose  FALSE\n");
    }
}
