//! End of a run: its exit code, and one line about an error.
//!
//! One rule for all commands (`dump` as text has mysqlbinlog's codes instead):
//!
//! | code | when |
//! |---|---|
//! | 0 | success; no faults found |
//! | 1 | a log is damaged, the work failed, or an internal error occurred |
//! | 2 | not started: wrong usage or settings, or a log that cannot be read (not found, no permission, no key) |
//! | 130 | interrupted; other errors have their own code. 0 if SIGTERM stops a command such as `receive` |

use std::fmt;
use std::io;
use std::process::ExitCode;

use tracing::error;

use crate::interrupt::EXIT_INTERRUPTED;
use crate::{interrupt, messages, panics};

/// Result of a command.
pub(crate) type CommandResult = Result<CommandVerdict, CommandFailure>;

/// Verdict of completed work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommandVerdict {
    /// No faults: exit code 0.
    Success,
    /// Exit code of the program that the command replaces.
    Code(u8),
    /// Faults found: exit code 1.
    FaultsFound,
    /// A log could not be read: exit code 2.
    Unreadable,
}

/// Failure: one line, and possibly a remedy.
#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// Wrong usage, help or version: clap prints these itself. Exit code 2, or 0 for help and version.
    Usage(Box<clap::Error>),
    /// The work was not started: exit code 2.
    NotStarted(anyhow::Error),
    /// The work failed: exit code 1, or 2 if a log cannot be read.
    Failed(anyhow::Error),
    /// The work failed after it had started, whatever the cause: exit code 1.
    Aborted(anyhow::Error),
}

/// Remedy for an error, shown at the end of its line. Attach it with [`anyhow::Context::context`].
#[derive(Debug)]
pub(crate) struct ErrorAdvice(pub(crate) &'static str);

impl fmt::Display for ErrorAdvice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }
}

impl From<clap::Error> for CommandFailure {
    fn from(error: clap::Error) -> Self {
        Self::Usage(Box::new(error))
    }
}

impl From<anyhow::Error> for CommandFailure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// Errors without context come from standard output: commands add file names to all other errors.
impl From<io::Error> for CommandFailure {
    fn from(error: io::Error) -> Self {
        Self::Failed(anyhow::Error::new(error).context("could not write to standard output"))
    }
}

/// Prints the error, if there is one, and returns the exit code.
pub(crate) fn report(outcome: CommandResult) -> ExitCode {
    let (code, line) = match outcome {
        Err(CommandFailure::Usage(error)) => print_usage(&error),
        outcome => exit_code_and_message(outcome, interrupt::is_stop_requested()),
    };
    let code = if code == EXIT_INTERRUPTED && interrupt::is_orderly_stop() { 0 } else { code };
    if panics::has_panicked() {
        // The panic has printed its line. Resulting errors would only hide it.
        return ExitCode::from(EXIT_FAILED);
    }
    if let Some(line) = line {
        messages::install_default();
        error!("{line}");
    }
    ExitCode::from(code)
}

/// Prints the help, the version or the error of wrong usage. Returns the exit code and the line to print.
fn print_usage(error: &clap::Error) -> (u8, Option<String>) {
    match error.print() {
        Err(cause) if !error.use_stderr() => {
            exit_code_and_message(Err(CommandFailure::from(cause)), interrupt::is_stop_requested())
        }
        // An error of standard error cannot be reported.
        _ => (u8::try_from(error.exit_code()).unwrap_or(EXIT_NOT_STARTED), None),
    }
}

/// Returns the exit code and the line to print. An interruption prints no line, but other errors are printed.
fn exit_code_and_message(outcome: CommandResult, is_interrupted: bool) -> (u8, Option<String>) {
    match outcome {
        Ok(CommandVerdict::Success) if is_interrupted => (EXIT_INTERRUPTED, None),
        Ok(CommandVerdict::Success) => (0, None),
        Ok(CommandVerdict::Code(code)) => (code, None),
        Ok(CommandVerdict::FaultsFound) => (EXIT_FAILED, None),
        Ok(CommandVerdict::Unreadable) => (EXIT_NOT_STARTED, None),
        Err(CommandFailure::Usage(error)) => (EXIT_NOT_STARTED, Some(error.to_string())),
        Err(
            CommandFailure::NotStarted(error)
            | CommandFailure::Failed(error)
            | CommandFailure::Aborted(error),
        ) if is_interrupted && is_interruption(&error) => (EXIT_INTERRUPTED, None),
        Err(CommandFailure::NotStarted(error)) => (EXIT_NOT_STARTED, Some(error_message(&error))),
        Err(CommandFailure::Failed(error)) if is_broken_pipe(&error) => (0, None),
        Err(CommandFailure::Failed(error)) if is_unreadable(&error) => {
            (EXIT_NOT_STARTED, Some(error_message(&error)))
        }
        Err(CommandFailure::Failed(error) | CommandFailure::Aborted(error)) => {
            (EXIT_FAILED, Some(error_message(&error)))
        }
    }
}

const EXIT_FAILED: u8 = 1;
const EXIT_NOT_STARTED: u8 = 2;

/// Returns the message of a failure on one line.
pub(crate) fn failure_message(failure: &CommandFailure) -> String {
    match failure {
        CommandFailure::Usage(error) => error.to_string(),
        CommandFailure::NotStarted(error)
        | CommandFailure::Failed(error)
        | CommandFailure::Aborted(error) => error_message(error),
    }
}

/// Returns the error and its causes on one line, outermost first. Advice is last, wherever it was attached.
fn error_message(error: &anyhow::Error) -> String {
    let advice = error.downcast_ref::<ErrorAdvice>().map(ToString::to_string);
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain().map(ToString::to_string) {
        let repeats = parts.last().is_some_and(|last| last.ends_with(&cause));
        if !repeats && Some(&cause) != advice.as_ref() {
            parts.push(cause.replace('\n', " "));
        }
    }
    let line = parts.join(": ");
    match advice {
        Some(advice) => format!("{line}; {advice}"),
        None => line,
    }
}

/// Returns whether the reader of the output closed the pipe, which counts as success.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Returns whether the work stopped because of an interruption.
fn is_interruption(error: &anyhow::Error) -> bool {
    if logs::is_wait_stopped() {
        // The error of the stopped wait may have passed through several threads as text.
        return true;
    }
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(inspect::InspectError::Stopped))
            || matches!(cause.downcast_ref(), Some(list::ListError::Stopped))
            || matches!(cause.downcast_ref(), Some(diff::DiffError::Stopped))
            || matches!(
                cause.downcast_ref(),
                Some(rewrite::RewriteError::Stopped | rewrite::RewriteError::Interrupted { .. })
            )
            || matches!(cause.downcast_ref(), Some(replay::ReplayError::Interrupted))
            || matches!(cause.downcast_ref(), Some(servers::ConnectionError::Cancelled))
    })
}

/// Returns whether a log cannot be read, in contrast to a damaged log.
pub(crate) fn is_unreadable(error: &anyhow::Error) -> bool {
    let cause = match (error.downcast_ref(), error.downcast_ref(), error.downcast_ref()) {
        (Some(inspect::InspectError::Log(cause)), ..) | (_, Some(rewrite::RewriteError::Read(cause)), _) => {
            Some(cause)
        }
        (.., cause) => cause,
    };
    cause.is_some_and(|cause: &logs::LogError| !cause.is_damage())
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::{Context, anyhow};

    use super::{
        CommandFailure, CommandResult, CommandVerdict, ErrorAdvice, error_message, exit_code_and_message,
        is_broken_pipe,
    };

    #[test]
    fn interrupts_do_not_hide_other_errors() {
        let check = |outcome: CommandResult, is_interrupted, expected: (u8, Option<&str>)| {
            let (code, line) = exit_code_and_message(outcome, is_interrupted);
            assert_eq!((code, line.as_deref()), expected);
        };
        let stopped =
            || CommandFailure::Failed(anyhow!(replay::ReplayError::Interrupted).context("while it compared"));
        let failed = || CommandFailure::Failed(anyhow!("no connection"));
        check(Ok(CommandVerdict::Success), true, (130, None));
        check(Ok(CommandVerdict::Success), false, (0, None));
        check(Ok(CommandVerdict::FaultsFound), true, (1, None));
        check(Err(stopped()), true, (130, None));
        check(Err(CommandFailure::NotStarted(anyhow!(inspect::InspectError::Stopped))), true, (130, None));
        check(Err(failed()), true, (1, Some("no connection")));
        check(Err(failed()), false, (1, Some("no connection")));
        check(Err(CommandFailure::NotStarted(anyhow!("no such file"))), true, (2, Some("no such file")));
    }

    #[test]
    fn errors_are_one_line_that_ends_in_advice() {
        let error = Err::<(), _>(anyhow!("permission denied"))
            .context("open /x")
            .context(ErrorAdvice("run it as the user mysql"))
            .context("could not read the log");
        let line = error_message(&error.expect_err("an error"));
        assert_eq!(line, "could not read the log: open /x: permission denied; run it as the user mysql");
    }

    #[test]
    fn causes_quoted_by_their_parent_are_shown_once() {
        let line = error_message(&anyhow!("b").context("a: b"));
        assert_eq!(line, "a: b");
    }

    #[test]
    fn closed_pipes_are_found_below_context() {
        let pipe = anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe)).context("write the report");
        assert!(is_broken_pipe(&pipe));
        assert!(!is_broken_pipe(&anyhow!("else")));
    }
}
