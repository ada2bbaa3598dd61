//! Sources of an account's password.

use std::fmt;
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use logs::open_regular;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use crate::error::ConnectionError;
use crate::server_link::CancelToken;

/// Source of an account's password. Each new connection reads it again, so that expiring tokens are replaced.
#[derive(Clone, Default, PartialEq, Eq)]
pub enum PasswordSource {
    /// The account has no password.
    #[default]
    None,
    /// This text is the password.
    Text(String),
    /// The password is the first line of this file.
    File(PathBuf),
    /// The password is the first line that this shell command prints.
    Command(String),
}

/// Time limit of a password command.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval at which the wait for a password command checks for its end and for cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(20);
/// Maximum size of a password in bytes. Cloud tokens have about two thousand.
const PASSWORD_MAX: u64 = 64 << 10;

impl PasswordSource {
    /// Returns whether the account has a password.
    pub const fn is_some(&self) -> bool {
        !matches!(self, Self::None)
    }

    /// Returns the present password; empty for an account without a password.
    ///
    /// # Errors
    ///
    /// If the file cannot be read, or the command fails.
    pub fn read(&self, cancel: &CancelToken) -> Result<String, ConnectionError> {
        match self {
            Self::None => Ok(String::new()),
            Self::Text(text) => Ok(text.clone()),
            Self::File(path) => read_password_file(path).map_err(ConnectionError::Password),
            Self::Command(command) => {
                run_command(command, cancel).map_err(|why| match cancel.is_cancelled() {
                    true => ConnectionError::Cancelled,
                    false => ConnectionError::Password(format!("the password command failed: {why}")),
                })
            }
        }
    }
}

/// Omits the password, and a command, which may contain a password.
impl fmt::Debug for PasswordSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::None => "None",
            Self::Text(_) => "Text(..)",
            Self::File(_) => "File(..)",
            Self::Command(_) => "Command(..)",
        })
    }
}

/// Returns the first line of a password file.
fn read_password_file(path: &Path) -> Result<String, String> {
    let unreadable = |error| format!("could not read the password file {}: {error}", path.display());
    // A pipe would be empty at the next connection, which would then log in without a password.
    let file = open_regular(path).map_err(unreadable)?;
    let mode = file.metadata().map_err(unreadable)?.permissions().mode();
    if mode & MODE_OTHERS_WRITE != 0 {
        return Err(format!("all users may write to the password file {}: run chmod o-w", path.display()));
    }
    let mut bytes = Vec::new();
    file.take(PASSWORD_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    first_line(&bytes).map_err(|why| format!("{}: {why}", path.display()))
}

/// Permission of all users to write to a file.
const MODE_OTHERS_WRITE: u32 = 0o002;

fn first_line(bytes: &[u8]) -> Result<String, String> {
    let line = bytes.split(|byte| *byte == b'\n').next().unwrap_or_default();
    if line.len() as u64 > PASSWORD_MAX {
        return Err(format!("its first line is longer than {PASSWORD_MAX} bytes"));
    }
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    String::from_utf8(line.to_vec()).map_err(|_| "its first line is not UTF-8".to_owned())
}

/// Runs a shell command, and returns the first line that it prints. The command inherits the standard error of this
/// process.
fn run_command(command: &str, cancel: &CancelToken) -> Result<String, String> {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).stdin(Stdio::null()).stdout(Stdio::piped());
    let group = CommandGroup::choose();
    if group == CommandGroup::Own {
        shell.process_group(0);
    }
    let mut child = shell.spawn().map_err(|error| format!("/bin/sh: {error}"))?;
    let output = read_output(&mut child, cancel);
    if output.is_err() {
        group.kill(&mut child);
    }
    let line = first_line(&output?)?;
    match line.is_empty() {
        true => Err("it printed nothing".to_owned()),
        false => Ok(line),
    }
}

/// Process group of a password command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommandGroup {
    /// A separate group: killing the group also kills the processes that the command has started.
    Own,
    /// The group of this process, in the foreground of a terminal: a command in another group could not read from the
    /// terminal. Ctrl-C reaches the command in this group.
    Shared,
}

impl CommandGroup {
    fn choose() -> Self {
        let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
        if is_in_foreground(&stat) { Self::Shared } else { Self::Own }
    }

    /// Kills the command, which may have already ended.
    fn kill(self, child: &mut Child) {
        if let (Self::Own, Ok(id)) = (self, i32::try_from(child.id())) {
            let _ = killpg(Pid::from_raw(id), Signal::SIGKILL);
        }
        let _ = child.kill();
        let _ = child.wait();
    }
}

/// Returns whether a process with this `/proc/PID/stat` is in the foreground group of its terminal.
fn is_in_foreground(stat: &str) -> bool {
    // The program's name, in parentheses, may contain any characters. The following fields are state, parent, group,
    // session, terminal, and the terminal's foreground group, which is -1 without a terminal.
    let after = stat.rsplit_once(')').map_or("", |(_, after)| after);
    let fields: Vec<&str> = after.split_whitespace().collect();
    match fields.as_slice() {
        [_, _, group, _, _, foreground, ..] => group == foreground,
        _ => false,
    }
}

fn read_output(child: &mut Child, cancel: &CancelToken) -> Result<Vec<u8>, String> {
    let (sender, receiver) = mpsc::channel();
    if let Some(pipe) = child.stdout.take() {
        let reading = thread::Builder::new().spawn(move || {
            let mut bytes = Vec::new();
            let read = pipe.take(PASSWORD_MAX + 1).read_to_end(&mut bytes).map(|_| bytes);
            // Fails after a timeout, because the receiver is dropped.
            let _ = sender.send(read);
        });
        reading.map_err(|error| error.to_string())?;
    }
    let begun = Instant::now();
    let bytes = loop {
        match receiver.recv_timeout(POLL_INTERVAL) {
            Ok(read) => break read.map_err(|error| error.to_string())?,
            Err(RecvTimeoutError::Disconnected) => return Err("its output cannot be read".to_owned()),
            Err(RecvTimeoutError::Timeout) => check_command_timeout(begun, cancel)?,
        }
    };
    if bytes.len() as u64 > PASSWORD_MAX {
        return Err(format!("it printed more than {PASSWORD_MAX} bytes"));
    }
    loop {
        match child.try_wait().map_err(|error| error.to_string())? {
            Some(status) if status.success() => return Ok(bytes),
            Some(status) => return Err(status.to_string()),
            None => check_command_timeout(begun, cancel)?,
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn check_command_timeout(begun: Instant, cancel: &CancelToken) -> Result<(), String> {
    if cancel.is_cancelled() {
        return Err("cancelled".to_owned());
    }
    match begun.elapsed() < COMMAND_TIMEOUT {
        true => Ok(()),
        false => Err(format!("it takes longer than {} seconds", COMMAND_TIMEOUT.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{PasswordSource, is_in_foreground};
    use crate::error::ConnectionError;
    use crate::server_link::CancelToken;

    #[test]
    fn passwords_of_commands() {
        let check = |command: &str, expected: Result<&str, &str>| {
            let read = PasswordSource::Command(command.to_owned()).read(&CancelToken::default());
            let read = read.map_err(|error| error.to_string());
            assert_eq!(read.as_deref().map_err(String::as_str), expected, "{command}");
        };
        check("echo secret", Ok("secret"));
        check("printf 'a b\\r\\nmore'", Ok("a b"));
        check("printf secret", Ok("secret"));
        check("true", Err("the password command failed: it printed nothing"));
        check("echo secret; exit 3", Err("the password command failed: exit status: 3"));
        check(
            "head -c 70000 /dev/zero | tr '\\0' x",
            Err("the password command failed: it printed more than 65536 bytes"),
        );
    }

    #[test]
    fn password_files_that_all_users_may_write_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("password");
        fs::write(&path, "secret\nmore\n").unwrap();
        let check = |mode: u32, expected: Result<&str, String>| {
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            let read = PasswordSource::File(path.clone()).read(&CancelToken::default());
            assert_eq!(read.map_err(|error| error.to_string()), expected.map(str::to_owned), "{mode:o}");
        };
        check(0o600, Ok("secret"));
        check(0o664, Ok("secret"));
        let refused = format!("all users may write to the password file {}: run chmod o-w", path.display());
        check(0o602, Err(refused));
    }

    #[test]
    fn hanging_commands_are_cancelled() {
        let cancel = CancelToken::default();
        cancel.cancel();
        let read = PasswordSource::Command("sleep 60".to_owned()).read(&cancel);
        assert!(matches!(read, Err(ConnectionError::Cancelled)), "{read:?}");
    }

    #[test]
    fn cancelled_commands_leave_no_processes() {
        // The shell waits for two child processes: killing only the shell would leave them running.
        let directory = tempfile::tempdir().unwrap();
        let ids = directory.path().join("ids");
        let command = format!("sleep 61 & echo $! > {0}; sleep 62 & echo $! >> {0}; wait", ids.display());
        let cancel = CancelToken::default();
        let reading = thread::spawn({
            let cancel = cancel.clone();
            move || PasswordSource::Command(command).read(&cancel)
        });
        let read_ids = || fs::read_to_string(&ids).unwrap_or_default();
        let began = Instant::now();
        while read_ids().lines().count() < 2 && began.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(5));
        }
        cancel.cancel();
        assert!(matches!(reading.join().unwrap(), Err(ConnectionError::Cancelled)));
        let is_running = |id: &str| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            stat.contains("(sleep) S")
        };
        let ids = read_ids();
        assert_eq!(ids.lines().count(), 2, "{ids}");
        while ids.lines().any(is_running) && began.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(5));
        }
        assert!(!ids.lines().any(is_running), "{ids}");
    }

    #[test]
    fn the_foreground_of_a_terminal() {
        let check = |stat: &str, expected: bool| assert_eq!(is_in_foreground(stat), expected, "{stat}");
        check("10 (bin) tide) R 1 10 10 34816 10 4194304 1", true);
        check("10 (bintide) R 1 10 10 34816 11 4194304 1", false);
        check("10 (bintide) S 1 10 10 0 -1 4194304 1", false);
        check("", false);
    }

    #[test]
    fn passwords_are_never_shown() {
        for source in [PasswordSource::Text("secret".into()), PasswordSource::Command("echo secret".into())] {
            assert!(!format!("{source:?}").contains("secret"));
        }
    }
}
