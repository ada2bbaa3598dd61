//! Records the output of `bintide` in tests: errors, reports, and answers to clients.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::preloaded_library::build_library;

const SOURCE: &str = include_str!("output_recorder.c");

/// A recording in a directory, which has a directory for each test.
#[derive(Clone, Debug)]
pub struct OutputRecorder {
    library: PathBuf,
    directory: PathBuf,
    program: PathBuf,
}

/// Output of a process that a test has started.
#[derive(Clone, Debug)]
pub struct OutputRecording {
    /// Name of the test, such as `relay::clients_and_their_lag_are_shown`.
    pub test: String,
    /// Command of bintide, such as `relay`; `None` if it was called as `mysqlbinlog`.
    pub command: Option<String>,
    /// Kind of the output: `errors`, `output`, `answers` or `files`.
    pub kind: String,
    /// File with the output.
    pub path: PathBuf,
}

impl OutputRecorder {
    /// Creates a recorder of a program.
    ///
    /// # Errors
    /// Fails if the program is missing, or the library cannot be compiled.
    pub fn new(directory: &Path, program: &Path) -> Result<Self> {
        fs::create_dir_all(directory)?;
        let directory = fs::canonicalize(directory)?;
        let program = fs::canonicalize(program).context("the program to record is missing")?;
        Ok(Self { library: build_library("output_recorder", SOURCE)?, directory, program })
    }

    /// Returns a script that executes the program, and records its output for this test.
    ///
    /// # Errors
    /// Fails if a file cannot be written.
    pub fn script(&self, test: &str) -> Result<PathBuf> {
        let name = test.replace("::", ".");
        let recording = self.directory.join("tests").join(&name);
        let scripts = self.directory.join("scripts").join(&name);
        fs::create_dir_all(&recording)?;
        fs::create_dir_all(&scripts)?;
        let script = scripts.join("bintide");
        let text = format!(
            "#!/bin/bash\n\
             # These variables are the shell's and the test's.\n\
             unset BINTIDE_RECORD OLDPWD PWD SHLVL\n\
             export OUTPUT_RECORDER_DIRECTORY='{}' LD_PRELOAD='{}'\"${{LD_PRELOAD:+ $LD_PRELOAD}}\"\n\
             exec -a \"${{0##*/}}\" '{}' \"$@\"\n",
            recording.display(),
            self.library.display(),
            self.program.display(),
        );
        let mut file = fs::OpenOptions::new();
        let mut file = file.write(true).create(true).truncate(true).mode(0o755).open(&script)?;
        file.write_all(text.as_bytes())?;
        Ok(script)
    }

    /// Lists the recordings of a directory, by test.
    ///
    /// # Errors
    /// Fails if a file or directory cannot be read.
    pub fn recordings(directory: &Path) -> Result<Vec<OutputRecording>> {
        let mut recordings = Vec::new();
        let tests = directory.join("tests");
        for entry in fs::read_dir(&tests).with_context(|| format!("could not read {}", tests.display()))? {
            let entry = entry?;
            let test = entry.file_name().to_string_lossy().replace('.', "::");
            for file in fs::read_dir(entry.path())? {
                let path = file?.path();
                let kind = path.extension().unwrap_or_default().to_string_lossy().into_owned();
                let command = fs::read_to_string(path.with_extension("command")).ok();
                if kind != "command" {
                    recordings.push(OutputRecording { test: test.clone(), command, kind, path });
                }
            }
        }
        recordings.sort_by(|one, other| (&one.test, &one.path).cmp(&(&other.test, &other.path)));
        Ok(recordings)
    }
}
