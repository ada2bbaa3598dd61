//! Finds and runs the programs of a server.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};

use crate::cache;
use crate::fetch;
use crate::launch::ServerFlavour;
use crate::package::{PackageOrigin, TestPackage};

/// Version of the fetched files. Raise it when they change.
const FETCH_REVISION: u32 = 2;

/// A directory with the programs of a [`TestPackage`], with or without all libraries that they need.
#[derive(Clone, Debug)]
pub struct PackageHome {
    package: TestPackage,
    /// The directory that corresponds to `/usr` of an installed package.
    prefix: PathBuf,
    /// The package's own dynamic loader and library path; `None` to use the machine's.
    libraries: Option<(PathBuf, PathBuf)>,
}

impl PackageHome {
    /// Finds a package: the installed one if its environment variable is set, else the fetched one. Fetches it if it is
    /// missing.
    ///
    /// # Errors
    /// Fails if the package is missing and cannot be fetched. The message has a remedy.
    pub fn find(package: TestPackage) -> Result<Self> {
        if let Some(prefix) = env::var_os(package.variable()) {
            return Ok(Self { package, prefix: PathBuf::from(prefix), libraries: None });
        }
        let name = format!("{}-{FETCH_REVISION}", package.name());
        let root = cache::cached_dir(&name, |directory| fetch::fetch(package, directory)).with_context(|| {
            format!(
                "could not fetch {} with {}; install that program, or the package itself and set {} to its prefix, for example /usr",
                package.name(),
                package.client(),
                package.variable()
            )
        })?;
        let (prefix, libraries) = match package.recipe().origin {
            PackageOrigin::Debian { .. } => (root.join("usr"), find_libraries(&root.join("usr"))?),
            _ => {
                let (loader, machine) = find_libraries(&fetch::machine_libraries()?.join("usr"))?;
                let own = ["lib/private", "lib", "libs"].map(|name| root.join(name));
                let paths = own.into_iter().chain(env::split_paths(&machine));
                let paths = env::join_paths(paths).context("a path in the cache contains a colon")?;
                (root, (loader, paths.into()))
            }
        };
        Ok(Self { package, prefix, libraries: Some(libraries) })
    }

    /// Returns the package.
    pub fn package(&self) -> TestPackage {
        self.package
    }

    /// Returns the directory that corresponds to `/usr` of an installed package.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// Returns the directory of the time zones, for `TZDIR`.
    pub fn time_zones(&self) -> PathBuf {
        self.prefix.join("share/zoneinfo")
    }

    /// Returns true if there is a program of this name. Some old servers come without clients.
    pub fn has(&self, name: &str) -> bool {
        self.program(name).is_ok()
    }

    /// Returns the path of a program.
    ///
    /// # Errors
    /// Fails if there is no program of this name.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        let paths = ["bin", "sbin", "libexec"].map(|directory| self.prefix.join(directory).join(name));
        paths
            .into_iter()
            .find(|path| path.is_file())
            .ok_or_else(|| anyhow!("no program {name} in {}", self.prefix.display()))
    }

    /// Returns a command that runs a program with its bare name as `argv[0]`.
    ///
    /// # Errors
    /// Fails if there is no program of this name.
    pub fn command(&self, name: &str) -> Result<Command> {
        let program = self.program(name)?;
        // The dynamic loader of Debian 11 lacks the option `--argv0`: `argv[0]` is then the program's path.
        let options = if self.package == TestPackage::MariaDb10_5 { &[][..] } else { &["--argv0", name] };
        Ok(self.run_with(&program, options))
    }

    /// Returns a command that runs a server program with its path as `argv[0]`, from which a server finds its own
    /// files.
    pub(crate) fn server_command(&self, name: &str) -> Result<Command> {
        Ok(self.run_with(&self.program(name)?, &[]))
    }

    fn run_with(&self, program: &Path, loader_options: &[&str]) -> Command {
        let Some((loader, libraries)) = &self.libraries else { return Command::new(program) };
        let mut command = Command::new(loader);
        command.args(loader_options).arg("--library-path").arg(libraries).arg(program);
        command
    }

    /// Runs a program to completion with `input` on its standard input.
    ///
    /// # Errors
    /// Fails if the program cannot be started. Its own failure is in the output's status.
    pub fn run<A: AsRef<OsStr>>(&self, name: &str, arguments: &[A], input: &[u8]) -> Result<Output> {
        let mut command = self.command(name)?;
        command.args(arguments);
        run_with_input(&mut command, input).with_context(|| format!("could not run {name}"))
    }

    /// Runs `mysqlbinlog`, or MariaDB's `mariadb-binlog`.
    ///
    /// # Errors
    /// Fails if the program cannot be started. Its own failure is in the output's status.
    pub fn mysqlbinlog<A: AsRef<OsStr>>(&self, arguments: &[A], input: &[u8]) -> Result<Output> {
        let name = if self.package.flavour() == Some(ServerFlavour::MariaDb) {
            "mariadb-binlog"
        } else {
            "mysqlbinlog"
        };
        self.run(name, arguments, input)
    }

    /// Returns the version that the server prints.
    ///
    /// # Errors
    /// Fails if the server cannot be run.
    pub fn version(&self) -> Result<String> {
        let name = match (self.package, self.package.flavour()) {
            (_, Some(flavour)) => flavour.server_program(),
            (TestPackage::Systemd, None) => "systemd-analyze",
            (package, None) => package.name(),
        };
        let output = self.run(name, &["--version"], b"")?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.split_once("Ver ") {
            Some((_, version)) => Ok(version.trim().to_owned()),
            None => Ok(text.trim().to_owned()),
        }
    }

    /// Returns the directory of server messages and character sets.
    pub(crate) fn share(&self) -> PathBuf {
        let debian = ["share/mysql", "share/mariadb"].map(|name| self.prefix.join(name));
        debian
            .into_iter()
            .find(|path| path.join("charsets").is_dir())
            .unwrap_or_else(|| self.prefix.join("share"))
    }

    /// Returns the directory of plugins and components.
    pub(crate) fn plugins(&self) -> PathBuf {
        let debian = self.prefix.join("lib/mysql/plugin");
        if debian.is_dir() { debian } else { self.prefix.join("lib/plugin") }
    }
}

/// Returns the dynamic loader and the library path of a fetched package.
fn find_libraries(prefix: &Path) -> Result<(PathBuf, PathBuf)> {
    let lib = prefix.join("lib");
    for directory in [lib.clone(), prefix.with_file_name("lib")] {
        for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
            let path = entry.path();
            if !path.is_dir() || !entry.file_name().to_string_lossy().contains("linux-gnu") {
                continue;
            }
            for file in fs::read_dir(&path)?.flatten() {
                let name = file.file_name().to_string_lossy().into_owned();
                if name.starts_with("ld-linux") {
                    return Ok((file.path(), library_path(prefix, &entry.file_name())));
                }
            }
        }
    }
    bail!("no dynamic loader under {}", lib.display())
}

/// Returns the library path. Older Debian releases have the C library in `/lib`, newer ones in `/usr/lib`.
fn library_path(prefix: &Path, triple: &OsStr) -> PathBuf {
    let mut paths = vec![prefix.join("lib").join(triple)];
    let root = prefix.with_file_name("lib").join(triple);
    if root.is_dir() {
        paths.push(root);
    }
    // systemd's own libraries.
    for directory in paths.clone() {
        paths.extend(Some(directory.join("systemd")).filter(|directory| directory.is_dir()));
    }
    env::join_paths(paths).unwrap_or_default().into()
}

/// Runs a command to completion with `input` on its standard input, and collects its output.
pub(crate) fn run_with_input(command: &mut Command, input: &[u8]) -> Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    thread::scope(|scope| {
        scope.spawn(|| {
            // A program may stop reading early. Its status shows whether that was an error.
            stdin.map(|mut pipe| pipe.write_all(input))
        });
        Ok(child.wait_with_output()?)
    })
}
