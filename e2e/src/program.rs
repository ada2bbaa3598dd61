//! A program under comparison.

use std::collections::BTreeMap;
use std::env;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};
use std::thread;

use anyhow::{Context, Result, anyhow, ensure};
use logs::lock;
use testkit::{OutputRecorder, PackageHome, TestPackage};

/// Name under which both programs are called.
const NAME: &str = "mysqlbinlog";

/// A program under comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// `mysqlbinlog` of MySQL.
    Real,
    /// `bintide`, called by the name `mysqlbinlog`.
    Ours,
}

/// Outcome of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Exit code; `None` if a signal ended the program.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// Environment of a run.
#[derive(Clone, Debug)]
pub struct RunEnvironment<'a> {
    /// Working directory.
    pub directory: &'a Path,
    /// Time zone, as in `TZ`.
    pub time_zone: &'a str,
    /// Standard input.
    pub stdin: &'a [u8],
}

impl Program {
    /// Runs the program to its end.
    ///
    /// # Errors
    /// Fails if the program is not available, or cannot be started.
    pub fn run(self, arguments: &[String], surroundings: &RunEnvironment<'_>) -> Result<Outcome> {
        let mut command = self.command(surroundings.directory)?;
        command.args(arguments).current_dir(surroundings.directory);
        command.env_clear().env("TZ", surroundings.time_zone).env("HOME", surroundings.directory);
        // Temporary files of LOAD DATA are then in the directory that is compared.
        command.env("TMPDIR", surroundings.directory);
        command.env("TZDIR", PackageHome::find(TestPackage::Mysql)?.time_zones());
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("could not start {self:?}"))?;
        let mut stdin = child.stdin.take().context("the program has no standard input")?;
        let input = surroundings.stdin;
        let output = thread::scope(|scope| {
            // A program may stop reading before the end, for example because of --stop-position.
            scope.spawn(move || stdin.write_all(input));
            child.wait_with_output()
        })?;
        Ok(Outcome { code: output.status.code(), stdout: output.stdout, stderr: output.stderr })
    }

    fn command(self, directory: &Path) -> Result<Command> {
        match self {
            Self::Real => PackageHome::find(TestPackage::Mysql)?.command(NAME),
            Self::Ours => {
                let link = directory.with_extension("bin").join(NAME);
                if !link.exists() {
                    std::fs::create_dir_all(directory.with_extension("bin"))?;
                    symlink(bintide()?, &link).context("could not link the program")?;
                }
                let mut command = Command::new(link);
                command.arg0(NAME);
                Ok(command)
            }
        }
    }
}

/// Environment variable with the directory of a recording.
const RECORD_VARIABLE: &str = "BINTIDE_RECORD";

/// Returns the `bintide` under test: the path in `BINTIDE_BIN`, or else the program that cargo builds. If
/// `BINTIDE_RECORD` names a directory, the program's output is also recorded there, by test.
///
/// # Errors
/// Fails if cargo cannot build it, or the recording cannot be prepared.
pub fn bintide() -> Result<&'static Path> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let named = env::var_os("BINTIDE_BIN").map(PathBuf::from);
    let built = BUILT.get_or_init(|| named.map_or_else(build, Ok).map_err(|error| format!("{error:#}")));
    let program = built.as_deref().map_err(|message| anyhow!("{message}"))?;
    match (env::var_os(RECORD_VARIABLE), thread::current().name()) {
        // Threads that tests start have no name.
        (Some(directory), Some(test)) if test.contains("::") => {
            recorded(Path::new(&directory), program, test)
        }
        _ => Ok(program),
    }
}

/// Returns the script that runs a recorded program for a test.
fn recorded(directory: &Path, program: &Path, test: &str) -> Result<&'static Path> {
    static SCRIPTS: Mutex<BTreeMap<String, &'static Path>> = Mutex::new(BTreeMap::new());
    let mut scripts = lock(&SCRIPTS);
    if let Some(script) = scripts.get(test) {
        return Ok(script);
    }
    let script = OutputRecorder::new(directory, program)?.script(test)?;
    let script: &'static Path = Box::leak(script.into_boxed_path());
    scripts.insert(test.to_owned(), script);
    Ok(script)
}

fn build() -> Result<PathBuf> {
    let mut command = testkit::cargo_command(Path::new(env!("CARGO_MANIFEST_DIR")));
    command.args(["build", "--quiet", "--package", "bintide", "--features", "archive,columns,kafka-tls"]);
    command.env("CARGO_TARGET_DIR", testkit::target_dir());
    let output = command.output().context("could not run cargo")?;
    ensure!(output.status.success(), "bintide does not build: {}", String::from_utf8_lossy(&output.stderr));
    Ok(testkit::target_dir().join("debug/bintide"))
}
