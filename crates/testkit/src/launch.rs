//! Starts servers.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context, Result, bail, ensure};

use crate::cache;
use crate::package::TestPackage;
use crate::package_home::PackageHome;
use crate::server::{ServerClient, ServerProgram, TestServer};
use crate::template;

/// The vendor of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ServerFlavour {
    /// Oracle's.
    Mysql,
    /// MariaDB's.
    MariaDb,
}

/// A server to start: fresh each time, with an empty binary log, `root` without a password, GTIDs on (MySQL), UTC, and
/// settings that favour speed over durability. Options given here follow those settings and override them.
#[derive(Clone, Debug)]
pub struct Launch {
    package: TestPackage,
    options: Vec<String>,
    variables: Vec<(String, String)>,
    init_options: Vec<String>,
    uuid: Option<String>,
    keyring: bool,
    port: Option<u16>,
    data: Option<PathBuf>,
    lasting: Option<PathBuf>,
}

impl Launch {
    /// Creates a launch of the newest MySQL server.
    pub fn mysql() -> Self {
        Self::of(TestPackage::Mysql)
    }

    /// Creates a launch of a MariaDB 10.11 server.
    pub fn mariadb() -> Self {
        Self::of(TestPackage::MariaDb)
    }

    /// Creates a launch of a server of this flavour: [`Launch::mysql`] or [`Launch::mariadb`].
    pub fn new(flavour: ServerFlavour) -> Self {
        Self::of(flavour.package())
    }

    /// Creates a launch of a server of this package, for example [`TestPackage::Mysql5_7`]. It has the settings of
    /// [`Launch`] as far as its version supports them: 5.5 has no GTIDs. All MySQL servers here default to row format,
    /// and those up to 5.7 also to the character set `utf8mb4`.
    pub fn of(package: TestPackage) -> Self {
        let (options, variables, init_options) = (Vec::new(), Vec::new(), Vec::new());
        let (uuid, keyring, port, data, lasting) = (None, false, None, None, None);
        Self { package, options, variables, init_options, uuid, keyring, port, data, lasting }
    }

    /// Adds a server option, as on the command line: `--binlog-format=STATEMENT`.
    #[must_use]
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.options.push(option.into());
        self
    }

    /// Adds several options.
    #[must_use]
    pub fn options<O: Into<String>>(mut self, options: impl IntoIterator<Item = O>) -> Self {
        self.options.extend(options.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable of the server.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Adds an option for initialising the data directory and for the server, for example `--lower-case-table-names=1`.
    #[must_use]
    pub fn init_option(mut self, option: impl Into<String>) -> Self {
        self.init_options.push(option.into());
        self
    }

    /// Sets the server's UUID, so that its GTIDs are the same each time (MySQL).
    #[must_use]
    pub fn uuid(mut self, uuid: impl Into<String>) -> Self {
        self.uuid = Some(uuid.into());
        self
    }

    /// Loads `component_keyring_file` (MySQL), which `--binlog-encryption=ON` needs. Its data is the file `keyring` in
    /// the data directory.
    #[must_use]
    pub fn keyring(mut self) -> Self {
        self.keyring = true;
        self
    }

    /// Sets the server's port on 127.0.0.1. Otherwise a free one is used.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Starts the server on a copy of this data directory, which a stopped server of the same flavour has left.
    #[must_use]
    pub fn data(mut self, directory: impl Into<PathBuf>) -> Self {
        self.data = Some(directory.into());
        self
    }

    /// Keeps the server running after this process ends, with its files in `directory`.
    #[must_use]
    pub fn lasting(mut self, directory: impl Into<PathBuf>) -> Self {
        self.lasting = Some(directory.into());
        self
    }

    /// Starts the server and waits until it answers.
    ///
    /// # Errors
    /// Fails if the programs cannot be found or fetched, or the server does not start. The error includes the end of
    /// the server's error log.
    pub fn start(&self) -> Result<TestServer> {
        let flavour = self.package.flavour();
        let flavour = flavour.with_context(|| format!("{} is not a server", self.package.name()))?;
        let home = PackageHome::find(self.package)?;
        let template =
            self.data.clone().map_or_else(|| template::template_dir(&home, &self.init_options), Ok)?;
        let port = self.port.map_or_else(free_port, Ok)?;
        let directory = self.directory()?;
        let datadir = directory.join("data");
        cache::copy_dir(&template, &datadir)?;
        if let Some(uuid) = &self.uuid {
            fs::write(datadir.join("auto.cnf"), format!("[auto]\nserver-uuid={uuid}\n"))?;
        }
        if self.keyring {
            write_keyring_settings(&datadir)?;
        }
        let client = ServerClient::new(home, socket_path(&directory));
        let options = self.server_options(&client, &directory, port);
        let program = ServerProgram { flavour, options, variables: self.variables.clone() };
        TestServer::start(program, client, directory, port, self.lasting.is_some())
    }

    fn directory(&self) -> Result<PathBuf> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        if let Some(directory) = &self.lasting {
            ensure!(!directory.exists(), "{} exists already", directory.display());
            return Ok(directory.clone());
        }
        let running = cache::running_dir();
        remove_leftovers(&running);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        Ok(running.join(format!("{}-{count}", process::id())))
    }

    fn server_options(&self, client: &ServerClient, directory: &Path, port: u16) -> Vec<String> {
        let common = include_str!("options/common.txt");
        let own = self.package.options();
        let mut options = vec!["--no-defaults".to_owned()];
        options.extend(run_as_root().map(str::to_owned));
        options.extend(base_options(client.home()));
        options.extend([
            format!("--plugin-dir={}", client.home().plugins().display()),
            format!("--datadir={}", directory.join("data").display()),
            format!("--socket={}", client.socket().display()),
            format!("--pid-file={}", directory.join("pid").display()),
            format!("--log-error={}", directory.join("error.log").display()),
            format!("--port={port}"),
        ]);
        if self.package.flavour() == Some(ServerFlavour::MariaDb) || self.package.version() < (8, 0) {
            // At startup, the server removes other servers' temporary tables from a shared directory.
            options.push(format!("--tmpdir={}", directory.display()));
        }
        options.extend(common.lines().chain(own.lines()).map(str::to_owned));
        options.extend(self.init_options.iter().chain(&self.options).cloned());
        options
    }
}

impl ServerFlavour {
    fn package(self) -> TestPackage {
        match self {
            Self::Mysql => TestPackage::Mysql,
            Self::MariaDb => TestPackage::MariaDb,
        }
    }

    /// Returns the name of the server's program.
    pub(crate) fn server_program(self) -> &'static str {
        match self {
            Self::Mysql => "mysqld",
            Self::MariaDb => "mariadbd",
        }
    }
}

/// Returns the options by which a server finds its own files.
pub(crate) fn base_options(home: &PackageHome) -> Vec<String> {
    let share = home.share().display().to_string();
    let basedir = format!("--basedir={}", home.prefix().display());
    vec![basedir, format!("--lc-messages-dir={share}"), format!("--character-sets-dir={share}/charsets")]
}

/// Returns the option that allows a server to run as root, if this process does.
pub(crate) fn run_as_root() -> Option<&'static str> {
    nix::unistd::Uid::effective().is_root().then_some("--user=root")
}

fn write_keyring_settings(datadir: &Path) -> Result<()> {
    let keyring = datadir.join("keyring");
    let path = keyring.display();
    fs::write(datadir.join("mysqld.my"), "{\"components\": \"file://component_keyring_file\"}\n")?;
    let settings = format!("{{\"path\": \"{path}\", \"read_only\": false}}\n");
    fs::write(datadir.join("component_keyring_file.cnf"), settings)?;
    Ok(())
}

/// Ports below the range of outgoing connections. The system does not assign such a port to another program
/// before the server opens it, or between two starts of the server.
const PORTS: Range<u16> = 12_000..32_000;

/// Returns a TCP port without a listener. Each call returns another port, and another process is unlikely to try the
/// same.
///
/// # Errors
/// Fails if no port in the range is free.
pub fn free_port() -> Result<u16> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let spread = process::id().wrapping_mul(61);
    for _ in PORTS {
        let nth = spread.wrapping_add(COUNT.fetch_add(1, Ordering::Relaxed)) % u32::try_from(PORTS.len())?;
        let port = PORTS.start + u16::try_from(nth)?;
        if TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).is_ok() {
            return Ok(port);
        }
    }
    bail!("no port between {} and {} is free", PORTS.start, PORTS.end)
}

/// Returns the path of a server's socket in the temporary directory. A socket's path may have at most 107 bytes, which
/// the target directory may exceed.
fn socket_path(directory: &Path) -> PathBuf {
    let mut hasher = DefaultHasher::new();
    directory.hash(&mut hasher);
    env::temp_dir().join(format!("bintide-{:016x}.sock", hasher.finish()))
}

/// Removes files of processes that ended without cleaning up.
fn remove_leftovers(running: &Path) {
    for entry in fs::read_dir(running).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(owner).exists() {
            let socket = socket_path(&entry.path());
            // Another process may remove the same files.
            let _ = fs::remove_file(socket.with_extension("sock.lock"));
            let _ = fs::remove_file(socket);
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns the last five errors of a server's log, or its last five lines if there are no errors.
pub(crate) fn last_errors(text: &str) -> String {
    let errors: Vec<&str> = text.lines().filter(|line| line.contains("[ERROR]")).collect();
    let lines = if errors.is_empty() { text.lines().collect() } else { errors };
    lines[lines.len().saturating_sub(5)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_free_and_not_given_twice() -> Result<()> {
        let (first, second) = (free_port()?, free_port()?);
        assert_ne!(first, second);
        let _taken = TcpListener::bind((Ipv4Addr::LOCALHOST, second + 1));
        let third = free_port()?;
        assert!(PORTS.contains(&third) && third != second + 1, "{first} {second} {third}");
        Ok(())
    }
}
