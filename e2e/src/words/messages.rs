//! Examples of errors and warnings: a script with its output.
//!
//! `messages.txt` is both the script and the expected output. `## ` starts a section, `# ` an example, and `$ ` a
//! command. Output is indented by two spaces and is ignored when the script is read, so a new example is a heading
//! and a command; `cargo xtask words` adds the output.

use std::fmt::Write as _;
use std::fs;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::Stage;

/// Section whose commands create the files for all examples.
pub const FILES: &str = "files";

/// Seconds after which a command is stopped.
const SECONDS_MAX: &str = "60";

const PREAMBLE: &str = "\
Errors and warnings, each with a command that causes it.

`cargo xtask words` runs the commands and writes their output below them, indented: what a command writes to stderr,
or with `2>&1` to both, and its exit code if it is not 0. Each example runs in a directory of its own: a copy of
samples/, with the files of the first section, and with other.db, a SQLite database.
";

/// A script without its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Section(String),
    Example(Example),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Example {
    headings: Vec<String>,
    commands: Vec<String>,
    is_files: bool,
}

impl Script {
    /// Reads a script, with or without output.
    ///
    /// # Errors
    /// Fails if a line is neither output nor part of a script.
    pub fn parse(text: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut is_files = false;
        let lines = text.lines().zip(1..).skip_while(|(line, _)| !line.starts_with("## "));
        for (line, number) in lines {
            if let Some(name) = line.strip_prefix("## ") {
                is_files = name == FILES;
                parts.push(Part::Section(name.to_owned()));
            } else if let Some(heading) = line.strip_prefix("# ") {
                match parts.last_mut() {
                    Some(Part::Example(example)) if example.commands.is_empty() => {
                        example.headings.push(heading.to_owned());
                    }
                    _ => {
                        let headings = vec![heading.to_owned()];
                        parts.push(Part::Example(Example { headings, is_files, ..Example::default() }));
                    }
                }
            } else if let Some(command) = line.strip_prefix("$ ") {
                let Some(Part::Example(example)) = parts.last_mut() else {
                    bail!("line {number}: a command without a heading: {line}");
                };
                example.commands.push(command.to_owned());
            } else {
                ensure!(
                    line.is_empty() || line.starts_with("  "),
                    "line {number} is not indented, and starts with none of `## `, `# ` and `$ `: {line}"
                );
            }
        }
        Ok(Self { parts })
    }

    /// Returns the number of examples.
    pub fn len(&self) -> usize {
        self.examples().count()
    }

    /// Returns `true` if there are no examples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn examples(&self) -> impl Iterator<Item = &Example> {
        self.parts.iter().filter_map(|part| match part {
            Part::Example(example) => Some(example).filter(|example| !example.is_files),
            Part::Section(_) => None,
        })
    }

    /// Runs all commands; returns the script with their output.
    ///
    /// # Errors
    /// Fails if a command cannot be started, or a file for the examples cannot be created.
    pub fn run(&self, stage: &Stage) -> Result<String> {
        let model = stage.path().join("model");
        copy(&testkit::workspace_root().join("samples"), &model).context("could not copy the samples")?;
        let database = rusqlite::Connection::open(model.join("other.db"))?;
        database.execute("CREATE TABLE t (a)", ())?;
        drop(database);
        let made = self.make_files(stage, &model)?;
        let outputs = self.run_examples(stage, &model)?;
        let mut outputs = made.into_iter().chain(outputs);
        let mut text = PREAMBLE.to_owned();
        for part in &self.parts {
            text.push('\n');
            match part {
                Part::Section(name) => {
                    let _ = writeln!(text, "## {name}");
                }
                Part::Example(_) => text.push_str(&outputs.next().context("an output is missing")?),
            }
        }
        Ok(text)
    }

    /// Creates the files for all examples.
    fn make_files(&self, stage: &Stage, model: &Path) -> Result<Vec<String>> {
        let examples = self.parts.iter().filter_map(|part| match part {
            Part::Example(example) => Some(example).filter(|example| example.is_files),
            Part::Section(_) => None,
        });
        examples.map(|example| example.run(stage, model)).collect()
    }

    /// Runs the examples in parallel; the output is in their order.
    fn run_examples(&self, stage: &Stage, model: &Path) -> Result<Vec<String>> {
        let examples: Vec<&Example> = self.examples().collect();
        let next = AtomicUsize::new(0);
        let outputs = Mutex::new(vec![None; examples.len()]);
        let work = || -> Result<()> {
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                let Some(example) = examples.get(number) else { return Ok(()) };
                let directory = stage.path().join("work").join(number.to_string());
                fs::create_dir_all(&directory)?;
                // All examples have the same path, so that their output does not depend on the directory.
                let directory = directory.join("logs");
                copy_named(model, &directory, &example.commands.join("\n"))?;
                let output = example.run(stage, &directory)?;
                fs::remove_dir_all(&directory)?;
                let output = output.replace(&format!("/DIR/work/{number}/logs"), "/DIR");
                outputs.lock().expect("no thread panics while it holds the lock")[number] = Some(output);
            }
        };
        let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().try_for_each(|worker| worker.join().expect("a worker panicked"))
        })?;
        let outputs = outputs.into_inner().expect("no thread panics while it holds the lock");
        outputs.into_iter().map(|output| output.context("an example was not run")).collect()
    }
}

impl Example {
    /// Runs the commands in a directory; returns the example with their output.
    fn run(&self, stage: &Stage, directory: &Path) -> Result<String> {
        let mut text = String::new();
        for heading in &self.headings {
            let _ = writeln!(text, "# {heading}");
        }
        for command in &self.commands {
            let mut shell = stage.command("timeout");
            shell.args([SECONDS_MAX, "sh", "-c", command]).current_dir(directory);
            let output = shell.output().with_context(|| format!("could not run {command}"))?;
            let expected = if command.contains("2>&1") { output.stdout } else { output.stderr };
            let _ = writeln!(text, "$ {command}");
            for line in stage.normalize(&String::from_utf8_lossy(&expected)).lines() {
                let _ = writeln!(text, "{}", format!("  {line}").trim_end());
            }
            match output.status.code() {
                Some(0) => {}
                Some(code) => _ = writeln!(text, "  [exit {code}]"),
                None => _ = writeln!(text, "  [{}]", output.status),
            }
        }
        Ok(text)
    }
}

/// Copies the files of a directory whose names occur in a text: most examples need one log of a hundred.
fn copy_named(from: &Path, to: &Path, text: &str) -> Result<()> {
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(|name| text.contains(name)) {
            copy(&from.join(&name), &to.join(&name))?;
        }
    }
    Ok(())
}

/// Copies a file, or a directory with its contents. Creates named pipes again.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let kind = fs::symlink_metadata(from)?.file_type();
    if kind.is_dir() {
        fs::create_dir(to)?;
        for entry in fs::read_dir(from)? {
            let name = entry?.file_name();
            copy(&from.join(&name), &to.join(&name))?;
        }
    } else if kind.is_file() {
        fs::copy(from, to)?;
    } else {
        mkfifo(to, Mode::S_IRWXU)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::Script;

    #[test]
    fn output_is_not_part_of_a_script() {
        let bare = "## dump\n# A file\n# that is missing\n$ bintide dump x\n";
        let full =
            "Preamble.\n\n## dump\n\n# A file\n# that is missing\n$ bintide dump x\n  ERROR\n  [exit 1]\n";
        assert_eq!(Script::parse(bare).unwrap(), Script::parse(full).unwrap());
        assert_eq!(Script::parse(bare).unwrap().len(), 1);
        assert!(Script::parse("## dump\n$ bintide dump x\n").is_err());
        assert!(Script::parse("## dump\nbintide dump x\n").is_err());
    }
}
