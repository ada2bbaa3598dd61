//! Where the programs of a server are, and how to run one.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread;

use anyhow::{Context, Result, anyhow, bail};

use crate::apt;
use crate::cache;

/// Programs that the tests and benches use and that are not built here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Package {
    /// The newest MySQL: `mysqld`, `mysql`, `mysqlbinlog` and the plugins.
    Mysql,
    /// MariaDB 10.11.
    MariaDb,
    /// The load generator `sysbench`.
    Sysbench,
}

impl Package {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Mysql, Self::MariaDb, Self::Sysbench];

    /// The name of its folder in the cache.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mysql => "mysql",
            Self::MariaDb => "mariadb",
            Self::Sysbench => "sysbench",
        }
    }

    /// The environment variable that names an installed one (a prefix such as `/usr` or `/usr/local/mysql`).
    pub fn variable(self) -> &'static str {
        match self {
            Self::Mysql => "BINTIDE_MYSQL_HOME",
            Self::MariaDb => "BINTIDE_MARIADB_HOME",
            Self::Sysbench => "BINTIDE_SYSBENCH_HOME",
        }
    }

    /// Debian suite, packages wanted with all they need, packages wanted alone.
    fn debian(self) -> (&'static str, &'static [&'static str], &'static [&'static str]) {
        match self {
            // Time zones come along, since a small machine has none and both sides of a comparison need the same.
            Self::Mysql => ("sid", &["mysql-server-core", "mysql-client-core"], &["tzdata"]),
            Self::MariaDb => {
                ("bookworm", &["mariadb-server-core", "mariadb-client-core"], &["mariadb-client"])
            }
            Self::Sysbench => ("bookworm", &["sysbench"], &[]),
        }
    }
}

/// To be raised when what is fetched changes.
const FETCH_REVISION: u32 = 2;

/// A folder that holds the programs of a [`Package`], with all the libraries they need or without.
#[derive(Clone, Debug)]
pub struct Home {
    package: Package,
    /// What would be `/usr` were it installed.
    prefix: PathBuf,
    /// The folder of its own libraries and its dynamic loader; none if the machine's serve.
    libraries: Option<(PathBuf, PathBuf)>,
}

impl Home {
    /// Finds a package: an installed one if its environment variable says where, else the fetched one, fetched
    /// now if need be.
    ///
    /// # Errors
    /// When it is not there and cannot be fetched; the message says how to get it.
    pub fn find(package: Package) -> Result<Self> {
        if let Some(prefix) = env::var_os(package.variable()) {
            return Ok(Self { package, prefix: PathBuf::from(prefix), libraries: None });
        }
        let name = format!("{}-{FETCH_REVISION}", package.name());
        let root = cache::folder(&name, |folder| fetch(package, folder)).with_context(|| {
            format!(
                "could not fetch {} from Debian; install it and set {} to its prefix, for example /usr",
                package.name(),
                package.variable()
            )
        })?;
        let prefix = root.join("usr");
        let libraries = Some(libraries(&prefix)?);
        Ok(Self { package, prefix, libraries })
    }

    /// Which package this is.
    pub fn package(&self) -> Package {
        self.package
    }

    /// The folder that would be `/usr` were it installed.
    pub fn prefix(&self) -> &Path {
        &self.prefix
    }

    /// The folder of the time zones, for `TZDIR`.
    pub fn time_zones(&self) -> PathBuf {
        self.prefix.join("share/zoneinfo")
    }

    /// The path of a program.
    ///
    /// # Errors
    /// When the home has none of that name.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        let places = ["bin", "sbin", "libexec"].map(|folder| self.prefix.join(folder).join(name));
        places
            .into_iter()
            .find(|path| path.is_file())
            .ok_or_else(|| anyhow!("no program {name} in {}", self.prefix.display()))
    }

    /// A command that runs a program of this home, known to itself by its bare name.
    ///
    /// # Errors
    /// When the home has none of that name.
    pub fn command(&self, name: &str) -> Result<Command> {
        let program = self.program(name)?;
        Ok(self.run_with(&program, &["--argv0", name]))
    }

    /// A command that runs a server program, known to itself by its path: it looks for files beside itself.
    pub(crate) fn server_command(&self, name: &str) -> Result<Command> {
        Ok(self.run_with(&self.program(name)?, &[]))
    }

    fn run_with(&self, program: &Path, loader_options: &[&str]) -> Command {
        let Some((loader, libraries)) = &self.libraries else { return Command::new(program) };
        let mut command = Command::new(loader);
        command.args(loader_options).arg("--library-path").arg(libraries).arg(program);
        command
    }

    /// Runs a program to its end with `input` on its standard input.
    ///
    /// # Errors
    /// When it cannot be started; that it fails is in the output's status.
    pub fn run<A: AsRef<OsStr>>(&self, name: &str, arguments: &[A], input: &[u8]) -> Result<Output> {
        let mut command = self.command(name)?;
        command.args(arguments);
        run_with_input(&mut command, input).with_context(|| format!("could not run {name}"))
    }

    /// Runs `mysqlbinlog`, or MariaDB's `mariadb-binlog`.
    ///
    /// # Errors
    /// When it cannot be started; that it fails is in the output's status.
    pub fn mysqlbinlog<A: AsRef<OsStr>>(&self, arguments: &[A], input: &[u8]) -> Result<Output> {
        let name = if self.package == Package::MariaDb { "mariadb-binlog" } else { "mysqlbinlog" };
        self.run(name, arguments, input)
    }

    /// The line that the server prints about its version.
    ///
    /// # Errors
    /// When it cannot be run.
    pub fn version(&self) -> Result<String> {
        let name = match self.package {
            Package::Mysql => "mysqld",
            Package::MariaDb => "mariadbd",
            Package::Sysbench => "sysbench",
        };
        let output = self.run(name, &["--version"], b"")?;
        let text = String::from_utf8_lossy(&output.stdout);
        match text.split_once("Ver ") {
            Some((_, version)) => Ok(version.trim().to_owned()),
            None => Ok(text.trim().to_owned()),
        }
    }

    /// The folder of server messages and character sets.
    pub(crate) fn share(&self) -> PathBuf {
        let debian = self.prefix.join("share/mysql");
        if debian.is_dir() { debian } else { self.prefix.join("share") }
    }

    /// The folder of plugins and components.
    pub(crate) fn plugins(&self) -> PathBuf {
        let debian = self.prefix.join("lib/mysql/plugin");
        if debian.is_dir() { debian } else { self.prefix.join("lib/plugin") }
    }
}

fn fetch(package: Package, folder: &Path) -> Result<()> {
    let (suite, packages, extra) = package.debian();
    apt::unpack(suite, packages, extra, folder)?;
    if package == Package::Mysql {
        // Lets each data directory say which components to load, and where its keyring is.
        fs::write(folder.join("usr/sbin/mysqld.my"), "{\"read_local_manifest\": true}\n")?;
        let keyring = folder.join("usr/lib/mysql/plugin/component_keyring_file.cnf");
        fs::write(keyring, "{\"read_local_config\": true}\n")?;
    }
    Ok(())
}

/// The dynamic loader and the folder of libraries of a fetched package.
fn libraries(prefix: &Path) -> Result<(PathBuf, PathBuf)> {
    let lib = prefix.join("lib");
    for folder in [lib.clone(), prefix.with_file_name("lib")] {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
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

/// Older Debian releases keep the C library in `/lib`, newer ones in `/usr/lib`.
fn library_path(prefix: &Path, triple: &OsStr) -> PathBuf {
    let mut paths = vec![prefix.join("lib").join(triple)];
    let root = prefix.with_file_name("lib").join(triple);
    if root.is_dir() {
        paths.push(root);
    }
    env::join_paths(paths).unwrap_or_default().into()
}

/// Runs a command to its end with `input` on its standard input, its output collected.
pub(crate) fn run_with_input(command: &mut Command, input: &[u8]) -> Result<Output> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let stdin = child.stdin.take();
    thread::scope(|scope| {
        scope.spawn(|| {
            // A program that stops reading early has its reasons, and says so in its status.
            stdin.map(|mut pipe| pipe.write_all(input))
        });
        Ok(child.wait_with_output()?)
    })
}
