//! A server that runs, and how to talk to it.

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
use crate::home::{Home, run_with_input};
use crate::launch::{Flavour, last_lines};
use crate::package::Package;
use crate::spawner;

/// How long a server may take to come up or to go down. A crowded machine takes a while.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long between two looks at whether it has.
const PAUSE: Duration = Duration::from_millis(20);

/// The way to talk to a server: a command line client over its socket, as `root`. It is the server's own, and the
/// newest MySQL's for an old MySQL, whose own is missing or lacks options.
#[derive(Clone, Debug)]
pub struct Client {
    home: Home,
    socket: PathBuf,
}

impl Client {
    /// A client of the server that listens on `socket`.
    pub fn new(home: Home, socket: PathBuf) -> Self {
        Self { home, socket }
    }

    /// The server's socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// The programs that belong to the server.
    pub fn home(&self) -> &Home {
        &self.home
    }

    /// Runs a script in one session and gives what it prints: a line a row, tabs between values, no headings.
    ///
    /// # Errors
    /// With the client's message when a statement fails; those after it are not run.
    pub fn sql(&self, script: &str) -> Result<String> {
        let output = self.sql_bytes(script.as_bytes())?;
        Ok(String::from_utf8_lossy(&output).into_owned())
    }

    /// [`Client::sql`] for scripts and results that need not be UTF-8.
    ///
    /// # Errors
    /// As there.
    pub fn sql_bytes(&self, script: &[u8]) -> Result<Vec<u8>> {
        let mut command = self.command()?;
        command.args(["--batch", "--raw", "--skip-column-names", "--binary-mode", "--local-infile=1"]);
        let output = run_with_input(&mut command, script).context("could not run the client")?;
        let text = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{}", text.trim());
        Ok(output.stdout)
    }

    /// The client program, told where to connect; the caller adds what it wants.
    ///
    /// # Errors
    /// When there is no such program.
    pub fn command(&self) -> Result<Command> {
        let package = self.home.package();
        let mut command = if package.flavour() == Some(Flavour::MariaDb) {
            self.home.command("mariadb")?
        } else if package.version() >= (8, 0) && self.home.has("mysql") {
            self.home.command("mysql")?
        } else {
            Home::find(Package::Mysql)?.command("mysql")?
        };
        command.args(["--no-defaults", "--user=root", "--max-allowed-packet=1G"]);
        if package.version() < (8, 4) && package.flavour() == Some(Flavour::Mysql) {
            // Old accounts log in as the newest client does by a plugin only.
            command.arg(format!("--plugin-dir={}", Home::find(Package::Mysql)?.plugins().display()));
        }
        command.arg("--default-character-set=utf8mb4").arg(format!("--socket={}", self.socket.display()));
        Ok(command)
    }
}

/// What a server is started as.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) flavour: Flavour,
    pub(crate) options: Vec<String>,
    /// Of its environment, besides what this process has.
    pub(crate) variables: Vec<(String, String)>,
}

/// A running server. Dropping it kills it and removes its files, unless it is a lasting one.
#[derive(Debug)]
pub struct Server {
    program: Program,
    client: Client,
    folder: PathBuf,
    port: u16,
    lasting: bool,
    child: Option<Child>,
}

impl Server {
    pub(crate) fn start(
        program: Program,
        client: Client,
        folder: PathBuf,
        port: u16,
        lasting: bool,
    ) -> Result<Self> {
        // A lasting server is one only once it runs: what fails here is cleaned up like any other.
        let mut server = Self { program, client, folder, port, lasting, child: None };
        if let Err(error) = server.start_again(&[]) {
            server.lasting = false;
            return Err(error);
        }
        Ok(server)
    }

    /// Starts the server again on its data after [`Server::stop`] or [`Server::kill`], with more options.
    ///
    /// # Errors
    /// When it does not come up; the end of its error log is told.
    pub fn start_again(&mut self, more: &[&str]) -> Result<()> {
        ensure!(self.child.is_none(), "the server runs already");
        let name = self.program.flavour.server_program();
        let mut command = self.client.home.server_command(name)?;
        command.args(&self.program.options).args(more);
        command.envs(self.program.variables.iter().map(|(name, value)| (name, value)));
        let child = if self.lasting { spawn_free(&mut command) } else { spawner::spawn_bound(&command) };
        self.child = Some(child.with_context(|| format!("could not start {name}"))?);
        self.wait_until_up()
    }

    fn wait_until_up(&mut self) -> Result<()> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            if let Some(child) = &mut self.child
                && let Some(status) = child.try_wait()?
            {
                self.child = None;
                bail!("the server ended at its start ({status}): {}", self.error_log());
            }
            if self.client.socket.exists() && self.sql("select 1").is_ok() {
                return Ok(());
            }
            thread::sleep(PAUSE);
        }
        bail!("the server does not answer: {}", self.error_log())
    }

    fn error_log(&self) -> String {
        let path = self.folder.join("error.log");
        fs::read(path).map(|text| last_lines(&String::from_utf8_lossy(&text))).unwrap_or_default()
    }

    /// Its client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The programs that belong to it.
    pub fn home(&self) -> &Home {
        &self.client.home
    }

    /// [`Client::sql`] on this server.
    ///
    /// # Errors
    /// As there.
    pub fn sql(&self, script: &str) -> Result<String> {
        self.client.sql(script)
    }

    /// Its socket.
    pub fn socket(&self) -> &Path {
        &self.client.socket
    }

    /// Its TCP port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its data directory.
    pub fn datadir(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// The number of its process, while it runs.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The paths of its binary logs, oldest first, as its index has them.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn binlogs(&self) -> Result<Vec<PathBuf>> {
        self.indexed("binlog.index")
    }

    /// The paths that a log index in the data directory lists.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn indexed(&self, index: &str) -> Result<Vec<PathBuf>> {
        let path = self.datadir().join(index);
        let text = fs::read_to_string(&path).with_context(|| format!("could not read {}", path.display()))?;
        Ok(text.lines().map(|line| self.datadir().join(line)).collect())
    }

    /// Ends the server as an operator would, and waits until it is down. Its data stays until the drop.
    ///
    /// # Errors
    /// When it does not go down.
    pub fn stop(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        kill(Pid::from_raw(i32::try_from(child.id())?), Signal::SIGTERM)?;
        let begin = Instant::now();
        while child.try_wait()?.is_none() {
            if begin.elapsed() > PATIENCE {
                child.kill()?;
                bail!("the server does not stop: {}", self.error_log());
            }
            thread::sleep(PAUSE);
        }
        Ok(())
    }

    /// Kills the server as a power cut would. Its data stays until the drop.
    ///
    /// # Errors
    /// When it cannot be killed.
    pub fn kill(&mut self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        child.kill()?;
        child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.lasting {
            return;
        }
        // Nobody is left to hear of a failure, and the next start sweeps what stays.
        let _ = self.kill();
        let _ = fs::remove_file(self.socket().with_extension("sock.lock"));
        let _ = fs::remove_file(self.socket());
        let _ = cache::remove_dir(&self.folder);
    }
}

/// Starts a server that outlives this process.
fn spawn_free(command: &mut Command) -> std::io::Result<Child> {
    use std::os::unix::process::CommandExt as _;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn()
}

/// Ends the server that a lasting folder belongs to, and waits until it is down; the folder is removed.
///
/// # Errors
/// When the folder holds no server, or it does not go down.
pub fn stop_lasting(folder: &Path) -> Result<()> {
    let pid_file = folder.join("pid");
    match fs::read_to_string(&pid_file) {
        Ok(text) => {
            let pid = Pid::from_raw(text.trim().parse().context("the pid file holds no number")?);
            let begin = Instant::now();
            kill(pid, Signal::SIGTERM).context("could not end the server")?;
            while pid_file.exists() {
                ensure!(begin.elapsed() < PATIENCE, "the server does not stop");
                thread::sleep(PAUSE);
            }
        }
        Err(cause) if cause.kind() == ErrorKind::NotFound => {}
        Err(cause) => return Err(cause).context("could not read the pid file"),
    }
    cache::remove_dir(folder)
}
