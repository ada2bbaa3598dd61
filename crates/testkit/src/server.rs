//! A running server and its client.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cache;
use crate::launch::{ServerFlavour, last_errors};
use crate::package::TestPackage;
use crate::package_home::{PackageHome, run_with_input};
use crate::polling::wait_until_within;
use crate::preloaded_library::build_library;
use crate::spawner;

/// Timeout for a server's start and stop, long enough for a loaded machine.
const SERVER_TIMEOUT: Duration = Duration::from_secs(120);
/// Library that shortens the start of servers.
const FAST_TICKS: &str = include_str!("fast_ticks.c");
/// Interval at which start and stop are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// A command line client of a server, over its socket, as `root`: the server's own, or the newest MySQL's for an old
/// MySQL, whose own is missing or lacks options.
#[derive(Clone, Debug)]
pub struct ServerClient {
    home: PackageHome,
    socket: PathBuf,
}

impl ServerClient {
    /// Creates a client of the server that listens on `socket`.
    pub fn new(home: PackageHome, socket: PathBuf) -> Self {
        Self { home, socket }
    }

    /// Returns the server's socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Returns the server's programs.
    pub fn home(&self) -> &PackageHome {
        &self.home
    }

    /// Runs a script in one session and returns its output: one line per row, tabs between values, no headings.
    ///
    /// # Errors
    /// Fails if a statement fails. The error is the client's message; later statements are not run.
    pub fn sql(&self, script: &str) -> Result<String> {
        #[cfg(feature = "queries")]
        if let Some(query) = crate::lone_query::lone_query(script) {
            return crate::lone_query::run(&self.socket, query);
        }
        let output = self.sql_bytes(script.as_bytes())?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    /// Runs a script like [`ServerClient::sql`]. Script and output need not be UTF-8.
    ///
    /// # Errors
    /// Fails if [`ServerClient::sql`] fails.
    pub fn sql_bytes(&self, script: &[u8]) -> Result<Vec<u8>> {
        let mut command = self.command()?;
        command.args(["--batch", "--raw", "--skip-column-names", "--binary-mode", "--local-infile=1"]);
        let output = run_with_input(&mut command, script).context("could not run the client")?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}", text.trim());
        Ok(output.stdout)
    }

    /// Returns a command that runs the client with the server's address. The caller adds further arguments.
    ///
    /// # Errors
    /// Fails if there is no client program.
    pub fn command(&self) -> Result<Command> {
        let package = self.home.package();
        let mut command = if package.flavour() == Some(ServerFlavour::MariaDb) {
            self.home.command("mariadb")?
        } else if package.version() >= (8, 0) && self.home.has("mysql") {
            self.home.command("mysql")?
        } else {
            PackageHome::find(TestPackage::Mysql)?.command("mysql")?
        };
        command.args(["--no-defaults", "--user=root", "--max-allowed-packet=1G"]);
        if package.version() < (8, 4) && package.flavour() == Some(ServerFlavour::Mysql) {
            // The newest client needs a plugin to log in to old accounts.
            command
                .arg(format!("--plugin-dir={}", PackageHome::find(TestPackage::Mysql)?.plugins().display()));
        }
        command.arg("--default-character-set=utf8mb4").arg(format!("--socket={}", self.socket.display()));
        Ok(command)
    }
}

/// The command line of a server.
#[derive(Debug)]
pub(crate) struct ServerProgram {
    pub(crate) flavour: ServerFlavour,
    pub(crate) options: Vec<String>,
    /// Environment variables, in addition to those of this process.
    pub(crate) variables: Vec<(String, String)>,
}

/// A running server. Dropping it kills the server and removes its files, unless it is lasting.
#[derive(Debug)]
pub struct TestServer {
    program: ServerProgram,
    client: ServerClient,
    directory: PathBuf,
    port: u16,
    lasting: bool,
    child: Option<Child>,
}

impl TestServer {
    pub(crate) fn start(
        program: ServerProgram,
        client: ServerClient,
        directory: PathBuf,
        port: u16,
        lasting: bool,
    ) -> Result<Self> {
        // A server becomes lasting only once it runs: a failed start is cleaned up as usual.
        let mut server = Self { program, client, directory, port, lasting, child: None };
        if let Err(error) = server.start_again(&[]) {
            server.lasting = false;
            return Err(error);
        }
        Ok(server)
    }

    /// Starts the server again on its data after [`TestServer::stop`] or [`TestServer::kill`], with additional options.
    ///
    /// # Errors
    /// Fails if the server does not start. The error includes the end of its error log.
    pub fn start_again(&mut self, more: &[&str]) -> Result<()> {
        ensure!(self.child.is_none(), "the server is already running");
        let name = self.program.flavour.server_program();
        let mut command = self.client.home.server_command(name)?;
        command.args(&self.program.options).args(more);
        command.env("LD_PRELOAD", build_library("fast_ticks", FAST_TICKS)?);
        command.envs(self.program.variables.iter().map(|(name, value)| (name, value)));
        let child = if self.lasting { spawn_detached(&mut command) } else { spawner::spawn_bound(&command) };
        self.child = Some(child.with_context(|| format!("could not start {name}"))?);
        self.wait_until_up()
    }

    fn wait_until_up(&mut self) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < SERVER_TIMEOUT {
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                self.child = None;
                bail!("the server ended during its start ({status}): {}", self.error_log());
            }
            if self.client.socket.exists() && self.sql("select 1").is_ok() {
                return Ok(());
            }
            thread::sleep(POLL_INTERVAL);
        }
        bail!("the server does not answer: {}", self.error_log())
    }

    fn error_log(&self) -> String {
        let path = self.directory.join("error.log");
        fs::read(path).map(|text| last_errors(&String::from_utf8_lossy(&text))).unwrap_or_default()
    }

    /// Returns the server's client.
    pub fn client(&self) -> &ServerClient {
        &self.client
    }

    /// Returns the server's programs.
    pub fn home(&self) -> &PackageHome {
        &self.client.home
    }

    /// Runs [`ServerClient::sql`] on this server.
    ///
    /// # Errors
    /// Fails if [`ServerClient::sql`] fails.
    pub fn sql(&self, script: &str) -> Result<String> {
        self.client.sql(script)
    }

    /// Returns the server's socket.
    pub fn socket(&self) -> &Path {
        &self.client.socket
    }

    /// Returns the server's TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the data directory.
    pub fn datadir(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// Returns the process id, while the server runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Returns the paths of the binary logs in the index, oldest first.
    ///
    /// # Errors
    /// Fails if the index cannot be read.
    pub fn binlogs(&self) -> Result<Vec<PathBuf>> {
        self.indexed_logs("binlog.index")
    }

    /// Returns the paths in a log index of the data directory.
    ///
    /// # Errors
    /// Fails if the index cannot be read.
    pub fn indexed_logs(&self, index: &str) -> Result<Vec<PathBuf>> {
        let path = self.datadir().join(index);
        let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
        Ok(text.lines().map(|line| self.datadir().join(line)).collect())
    }

    /// Shuts the server down, and waits until it has ended. Keeps its data until the drop.
    ///
    /// # Errors
    /// Fails if the server does not end.
    pub fn stop(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
        let begin = Instant::now();
        while child.try_wait()?.is_none() {
            if begin.elapsed() > SERVER_TIMEOUT {
                child.kill()?;
                bail!("the server does not stop: {}", self.error_log());
            }
            thread::sleep(POLL_INTERVAL);
        }
        Ok(())
    }

    /// Kills the server, and keeps its data until the drop.
    ///
    /// # Errors
    /// Fails if the server cannot be killed.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill()?;
        child.wait()?;
        Ok(())
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        if self.lasting {
            return;
        }
        // A drop cannot report errors, and the next start removes leftover files.
        let _ = self.kill();
        let _ = fs::remove_file(self.socket().with_extension("sock.lock"));
        let _ = fs::remove_file(self.socket());
        let _ = cache::remove_dir(&self.directory);
    }
}

/// Starts a server that outlives this process.
fn spawn_detached(command: &mut Command) -> std::io::Result<Child> {
    use std::os::unix::process::CommandExt as _;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()
}

/// Shuts down the server of a lasting directory, waits until it has ended, and removes the directory.
///
/// # Errors
/// Fails if the pid file cannot be read, or the server does not end.
pub fn stop_lasting(directory: &Path) -> Result<()> {
    let pid_file = directory.join("pid");
    match fs::read_to_string(&pid_file) {
        Ok(text) => {
            let number: i32 = text.trim().parse().context("the pid file does not contain a number")?;
            // After a crash, the number can be that of another process.
            let arguments = fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            if String::from_utf8_lossy(&arguments).contains(&*directory.to_string_lossy()) {
                kill(Pid::from_raw(number), Signal::SIGTERM).context("could not stop the server")?;
                wait_until_within(SERVER_TIMEOUT, "the end of the server", || Ok(!pid_file.exists()))?;
            }
        }
        Err(cause) if cause.kind() == ErrorKind::NotFound => {}
        Err(cause) => return Err(cause).context("could not read the pid file"),
    }
    cache::remove_dir(directory)
}
