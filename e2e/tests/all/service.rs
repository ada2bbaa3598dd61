//! bintide as a service: notifications to systemd, signals, and the units in contrib/systemd.

use std::fs;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::command::ChildGuard;
use e2e::metrics::get;
use e2e::program::bintide;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;
use testkit::{Launch, PackageHome, TestPackage, TestServer, free_port, wait_until};

/// Commands that run until they are stopped.
const COMMANDS: [&str; 7] =
    ["receive", "relay", "replay --follow", "replay --from", "stream", "archive --follow", "warm"];

/// Maximum time until a message arrives.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Server with some transactions, and a directory for the files of the commands.
struct ServiceTest {
    server: TestServer,
    directory: TempDir,
}

impl ServiceTest {
    fn new() -> Result<Self> {
        let server = Launch::mysql().options(["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]).start()?;
        server.sql("create database d; create table d.t (a int primary key); insert into d.t values (1)")?;
        Ok(Self { server, directory: TempDir::new()? })
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Returns a command that works until it is stopped. `run` distinguishes the files of two runs.
    fn command(&self, name: &str, run: &str) -> Result<Command> {
        let from = format!("mysql://root@127.0.0.1:{}/", self.server.port());
        let path = |file: &str| self.path(&format!("{name}-{run}-{file}"));
        let index = e2e::relayed::index_of(&self.server)?.display().to_string();
        let sqlite = format!("sqlite:{}", path("copy.db"));
        let mut command = Command::new(bintide()?);
        command.env_clear().arg(name.split(' ').next().context("a name")?);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        match name {
            "receive" => command.args([&path("logs"), "--from", &from]),
            "relay" => {
                let listen = format!("127.0.0.1:{}", free_port()?);
                command.args([&index, "--listen", &listen, "--state", &path("state")])
            }
            "replay --follow" => command.args(["--follow", &index, "--to", &sqlite]),
            "replay --from" => command.args(["--from", &from, "--relay", &path("relay"), "--to", &sqlite]),
            "archive --follow" => command.args([&index, "--follow", "--to", &path("archive")]),
            "stream" => command.args(["--format", "maxwell", "--from", &from, "--out", &path("changes")]),
            _ => {
                command.args(["--force", "--host=127.0.0.1", &format!("--port={}", self.server.port())]);
                command.arg("--relay-logs").arg(self.server.datadir())
            }
        };
        Ok(command)
    }
}

/// Socket of a service manager.
struct NotifySocket {
    socket: UnixDatagram,
    path: PathBuf,
}

impl NotifySocket {
    fn new(path: PathBuf) -> Result<Self> {
        let socket = UnixDatagram::bind(&path)?;
        socket.set_read_timeout(Some(TIMEOUT))?;
        Ok(Self { socket, path })
    }

    /// Returns the lines of all messages up to the first one that the condition accepts.
    fn lines_until(&self, what: &str, mut is_last: impl FnMut(&str) -> bool) -> Result<Vec<String>> {
        let (began, mut lines, mut buffer) = (Instant::now(), Vec::new(), [0; 4096]);
        while began.elapsed() < TIMEOUT {
            let size = self.socket.recv(&mut buffer).with_context(|| format!("no {what} after {lines:?}"))?;
            let text = String::from_utf8_lossy(&buffer[..size]).into_owned();
            let is_found = text.lines().any(&mut is_last);
            lines.extend(text.lines().map(str::to_owned));
            if is_found {
                return Ok(lines);
            }
        }
        anyhow::bail!("no {what} after {lines:?}")
    }
}

fn signal(running: &ChildGuard, signal: Signal) -> Result<()> {
    Ok(kill(Pid::from_raw(i32::try_from(running.id())?), signal)?)
}

/// Sends SIGTERM twice, as `timeout` does, and checks that the exit code is 0.
fn terminate(name: &str, running: ChildGuard) -> Result<()> {
    signal(&running, Signal::SIGTERM)?;
    thread::sleep(Duration::from_millis(1));
    signal(&running, Signal::SIGTERM)?;
    let ran = running.output()?;
    ensure!(
        ran.status.code() == Some(0),
        "{name}: {:?}: {}",
        ran.status,
        String::from_utf8_lossy(&ran.stderr)
    );
    Ok(())
}

#[test]
fn systemd_is_notified_of_start_state_life_and_end() -> Result<()> {
    let test = ServiceTest::new()?;
    for name in COMMANDS {
        let manager = NotifySocket::new(test.directory.path().join(format!("{name}.socket")))?;
        let mut command = test.command(name, "notified")?;
        command.env("NOTIFY_SOCKET", &manager.path).env("WATCHDOG_USEC", "400000");
        let running = ChildGuard::start(&mut command)?;
        let began = manager.lines_until("READY", |line| line == "READY=1").context(name)?;
        ensure!(began.iter().filter(|line| *line == "READY=1").count() == 1, "{name}: {began:?}");
        let mut pings = 0;
        manager.lines_until("WATCHDOG", |line| {
            pings += usize::from(line == "WATCHDOG=1");
            pings == 5
        })?;
        terminate(name, running)?;
        let ended = manager.lines_until("STOPPING", |line| line == "STOPPING=1").context(name)?;
        ensure!(!ended.iter().any(|line| line == "READY=1"), "{name}: {ended:?}");
        ensure!(ended.last().is_some_and(|line| line.starts_with("STATUS=stopping")), "{name}: {ended:?}");
        let mut status = began.iter().chain(&ended).filter(|line| line.starts_with("STATUS="));
        ensure!(
            status.any(|line| !line.contains("not ready") && !line.contains("stopping")),
            "{name}: {began:?}"
        );
    }
    Ok(())
}

/// A lost source changes the status, and the watchdog is still served.
#[test]
fn status_shows_a_lost_source() -> Result<()> {
    let mut test = ServiceTest::new()?;
    let manager = NotifySocket::new(test.directory.path().join("socket"))?;
    let mut command = test.command("receive", "lost")?;
    command.env("NOTIFY_SOCKET", &manager.path);
    let running = ChildGuard::start(&mut command)?;
    manager.lines_until("READY", |line| line == "READY=1")?;
    test.server.stop()?;
    manager.lines_until("loss", |line| line.starts_with("STATUS=not ready: no source is connected: "))?;
    terminate("receive", running)
}

/// Without a service manager, for example in a container, SIGTERM is an orderly end too.
#[test]
fn sigterm_ends_services_with_success() -> Result<()> {
    let test = ServiceTest::new()?;
    for name in COMMANDS {
        let http = free_port()?;
        let mut command = test.command(name, "terminated")?;
        command.arg(format!("--metrics=127.0.0.1:{http}"));
        let running = ChildGuard::start(&mut command)?;
        let ready = || Ok(get(http, "/readyz").is_ok_and(|answer| answer.status == 200));
        wait_until(name, ready)?;
        ensure!(get(http, "/healthz")?.status == 200, "{name}");
        terminate(name, running)?;
    }
    Ok(())
}

/// SIGHUP makes the relay reload its files and notify systemd. A SIGHUP that is ignored at the start, as under
/// `nohup`, stays ignored.
#[test]
fn relay_reloads_unless_sighup_is_ignored() -> Result<()> {
    let test = ServiceTest::new()?;
    for (handling, reloads) in [("--ignore-signal=HUP", false), ("--default-signal=HUP", true)] {
        let manager = NotifySocket::new(test.directory.path().join(handling))?;
        let relay = test.command("relay", handling)?;
        let mut command = Command::new("/usr/bin/env");
        command.env_clear().env("NOTIFY_SOCKET", &manager.path).arg(handling).arg(relay.get_program());
        command.args(relay.get_args()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let running = ChildGuard::start(&mut command)?;
        manager.lines_until("READY", |line| line == "READY=1")?;
        signal(&running, Signal::SIGHUP)?;
        if reloads {
            let lines = manager.lines_until("RELOADING", |line| line == "RELOADING=1")?;
            ensure!(lines.iter().any(|line| line.starts_with("MONOTONIC_USEC=")), "{lines:?}");
            manager.lines_until("READY", |line| line == "READY=1")?;
        }
        signal(&running, Signal::SIGTERM)?;
        let ended = manager.lines_until("STOPPING", |line| line == "STOPPING=1")?;
        ensure!(!ended.iter().any(|line| line == "RELOADING=1"), "{ended:?}");
        ensure!(running.output()?.status.success());
    }
    Ok(())
}

/// The units are valid, call options that exist, and have an exposure below 2.5, as `systemd-analyze security` measures
/// it.
#[test]
fn units_are_valid_and_hardened() -> Result<()> {
    let systemd = PackageHome::find(TestPackage::Systemd)?;
    let directory = TempDir::new()?;
    let units = testkit::workspace_root().join("contrib/systemd");
    let mut count = 0;
    for entry in fs::read_dir(&units)? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "service") {
            continue;
        }
        let text = fs::read_to_string(&path)?;
        let name = path.file_name().context("a unit has a name")?.to_string_lossy().replace('@', "@test");
        let tried = directory.path().join(name);
        fs::write(&tried, text.replace("/usr/bin/bintide", &bintide()?.display().to_string()))?;
        analyze(&systemd, directory.path(), &["verify", "--man=no"], &tried)?;
        // Tenths: 2.5.
        analyze(&systemd, directory.path(), &["security", "--offline=true", "--threshold=25"], &tried)?;
        check_options(&text)?;
        count += 1;
    }
    ensure!(count == 6, "{count} units in {}", units.display());
    Ok(())
}

fn analyze(systemd: &PackageHome, directory: &Path, arguments: &[&str], unit: &Path) -> Result<()> {
    let mut command = systemd.command("systemd-analyze")?;
    let own = systemd.prefix().with_file_name("lib/systemd/system");
    command.env("SYSTEMD_UNIT_PATH", std::env::join_paths([directory, &own])?).args(arguments).arg(unit);
    let ran = command.output()?;
    let [stdout, stderr] = [&ran.stdout, &ran.stderr].map(|text| String::from_utf8_lossy(text));
    let is_clean = arguments[0] != "verify" || stderr.is_empty();
    ensure!(ran.status.success() && is_clean, "{arguments:?} {}: {stdout}{stderr}", unit.display());
    Ok(())
}

/// Checks that the command of a unit has the options of its `ExecStart`.
fn check_options(unit: &str) -> Result<()> {
    let line = unit.lines().find_map(|line| line.strip_prefix("ExecStart=")).context("no ExecStart")?;
    let mut words = line.split(' ').skip(1);
    let name = words.next().context("no command")?;
    let ran = Command::new(bintide()?).env_clear().args([name, "--help"]).output()?;
    let help = String::from_utf8(ran.stdout)?;
    for option in words.filter(|word| word.starts_with("--")) {
        ensure!(help.contains(option), "{name} has no {option}");
    }
    Ok(())
}
