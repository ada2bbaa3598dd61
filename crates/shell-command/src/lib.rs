//! Shell commands that print a secret, such as a password or temporary credentials.
//!
//! [`ShellCommand::run`] returns what the command prints. If the command takes too long, prints too much, or its
//! result is no longer needed, all its processes are killed. Errors and debug output never contain the command or what
//! it has printed.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

/// Interval at which the wait for a command checks for its end, the time limit and cancellation.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// Shell command with its limits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct ShellCommand<'c> {
    /// Text for `/bin/sh -c`.
    pub text: &'c str,
    /// Time limit.
    pub timeout: Duration,
    /// Maximum size of the output in bytes.
    pub output_max: u64,
}

/// Failure of a shell command. The text contains neither the command nor its output, which may have a secret.
#[derive(Debug, thiserror::Error)]
pub enum ShellCommandError {
    /// The shell could not be started.
    #[error("/bin/sh: {0}")]
    Shell(#[source] io::Error),
    /// The output could not be read.
    #[error("its output cannot be read: {0}")]
    Output(#[source] io::Error),
    /// The output is longer than its maximum size in bytes.
    #[error("it printed more than {0} bytes")]
    OutputSize(u64),
    /// The command has failed.
    #[error("{0}")]
    Status(ExitStatus),
    /// The command did not end within its time limit.
    #[error("it takes longer than {} seconds", .0.as_secs())]
    Timeout(Duration),
    /// The caller has cancelled the command.
    #[error("cancelled")]
    Cancelled,
}

/// Omits the command, which may contain a password.
impl fmt::Debug for ShellCommand<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ShellCommand")
            .field("timeout", &self.timeout)
            .field("output_max", &self.output_max)
            .finish_non_exhaustive()
    }
}

impl ShellCommand<'_> {
    /// Runs the command, and returns its output. The command has no standard input, and inherits the standard error of
    /// this process. Calls `is_cancelled` fifty times a second, and ends when it returns true.
    ///
    /// # Errors
    ///
    /// Fails if the command cannot be run, fails, exceeds a limit, or is cancelled.
    pub fn run(&self, is_cancelled: impl Fn() -> bool) -> Result<Vec<u8>, ShellCommandError> {
        let mut shell = Command::new("/bin/sh");
        shell.arg("-c").arg(self.text).stdin(Stdio::null()).stdout(Stdio::piped());
        let group = CommandGroup::choose();
        if group == CommandGroup::Own {
            shell.process_group(0);
        }
        let mut child = shell.spawn().map_err(ShellCommandError::Shell)?;
        let output = self.read_output(&mut child, is_cancelled);
        if output.is_err() {
            group.kill(&mut child);
        }
        output
    }

    fn read_output(
        &self,
        child: &mut Child,
        is_cancelled: impl Fn() -> bool,
    ) -> Result<Vec<u8>, ShellCommandError> {
        let begun = Instant::now();
        let check = || match begun.elapsed() < self.timeout {
            _ if is_cancelled() => Err(ShellCommandError::Cancelled),
            true => Ok(()),
            false => Err(ShellCommandError::Timeout(self.timeout)),
        };
        let (sender, receiver) = mpsc::channel();
        let size_max = self.output_max + 1;
        if let Some(pipe) = child.stdout.take() {
            let reading = thread::Builder::new().spawn(move || {
                let mut bytes = Vec::new();
                let read = pipe.take(size_max).read_to_end(&mut bytes).map(|_| bytes);
                // Fails after a timeout, because the receiver is dropped.
                let _ = sender.send(read);
            });
            reading.map_err(ShellCommandError::Output)?;
        }
        let bytes = loop {
            match receiver.recv_timeout(POLL_INTERVAL) {
                Ok(read) => break read.map_err(ShellCommandError::Output)?,
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(ShellCommandError::Output(io::ErrorKind::BrokenPipe.into()));
                }
                Err(RecvTimeoutError::Timeout) => check()?,
            }
        };
        if bytes.len() as u64 > self.output_max {
            return Err(ShellCommandError::OutputSize(self.output_max));
        }
        loop {
            match child.try_wait().map_err(ShellCommandError::Shell)? {
                Some(status) if status.success() => return Ok(bytes),
                Some(status) => return Err(ShellCommandError::Status(status)),
                None => check()?,
            }
            thread::sleep(POLL_INTERVAL);
        }
    }
}

/// Process group of a command.
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

#[cfg(test)]
mod tests {
    use std::fs;
    use std::thread;
    use std::time::{Duration, Instant};

    use super::{ShellCommand, ShellCommandError, is_in_foreground};

    fn command(text: &str) -> ShellCommand<'_> {
        ShellCommand { text, timeout: Duration::from_secs(60), output_max: 1000 }
    }

    #[test]
    fn outputs_and_failures() {
        let check = |text: &str, expected: Result<&str, &str>| {
            let output = command(text).run(|| false).map_err(|error| error.to_string());
            let expected = expected.map(|output| output.as_bytes().to_vec()).map_err(str::to_owned);
            assert_eq!(output, expected, "{text}");
        };
        check("printf one", Ok("one"));
        check("true", Ok(""));
        check("printf one; exit 3", Err("exit status: 3"));
        check("printf %1000s ''", Ok(&" ".repeat(1000)));
        check("printf %1001s ''", Err("it printed more than 1000 bytes"));
    }

    #[test]
    fn slow_commands_end_at_the_time_limit() {
        let limited = ShellCommand { timeout: Duration::from_millis(1), ..command("sleep 60") };
        let error = limited.run(|| false).unwrap_err();
        assert!(matches!(error, ShellCommandError::Timeout(_)), "{error:?}");
        // The output ends before the command.
        let limited = ShellCommand { timeout: Duration::from_millis(1), ..command("exec >&-; sleep 60") };
        let error = limited.run(|| false).unwrap_err();
        assert!(matches!(error, ShellCommandError::Timeout(_)), "{error:?}");
    }

    #[test]
    fn cancelled_commands_leave_no_processes() {
        // The shell waits for two child processes: killing only the shell would leave them running.
        let directory = tempfile::tempdir().unwrap();
        let ids = directory.path().join("ids");
        let text = format!("sleep 61 & echo $! > {0}; sleep 62 & echo $! >> {0}; wait", ids.display());
        let read_ids = || fs::read_to_string(&ids).unwrap_or_default();
        let began = Instant::now();
        let is_late = || began.elapsed() >= Duration::from_secs(20);
        let error = command(&text).run(|| read_ids().lines().count() == 2 || is_late()).unwrap_err();
        assert!(matches!(error, ShellCommandError::Cancelled), "{error:?}");
        let is_running = |id: &str| {
            let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            stat.contains("(sleep) S")
        };
        let ids = read_ids();
        assert_eq!(ids.lines().count(), 2, "{ids}");
        while ids.lines().any(is_running) && !is_late() {
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
    fn commands_are_never_shown() {
        assert!(!format!("{:?}", command("echo secret")).contains("secret"));
    }
}
