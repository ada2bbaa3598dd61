//! End of a run: its exit code, and one line about an error.
//!
//! One rule for all commands (`dump` as text has mysqlbinlog's codes instead):
//!
//! | code | when |
//! |---|---|
//! | 0 | success; no faults found |
//! | 1 | a log is damaged, the work failed, or a thread panicked |
//! | 2 | not started: wrong usage or settings, or a log that cannot be read (not found, no permission, no key) |
//! | 130 | interrupted; other errors have their own code. 0 if a service manager stops a command such as `receive` |

use std::fmt;
use std::io;
use std::process::ExitCode;

use crate::interrupt::INTERRUPTED;
use crate::{interrupt, panics, screen};

/// Result of a command.
pub(crate) type Outcome = Result<Verdict, Failure>;

/// Verdict of completed work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// No faults: exit code 0.
    Fine,
    /// Exit code of the program that the command replaces.
    Code(u8),
    /// Faults found: exit code 1.
    FaultsFound,
    /// A log could not be read: exit code 2.
    Unreadable,
}

/// Failure: one line, and perhaps a remedy.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Wrong usage, help or version: clap prints these itself. Exit code 2, or 0 for help and version.
    Usage(Box<clap::Error>),
    /// The work was not started: exit code 2.
    NotBegun(anyhow::Error),
    /// The work failed: exit code 1, or 2 if a log cannot be read.
    Failed(anyhow::Error),
}

/// Remedy for an error, shown at the end of its line. Attach it with [`anyhow::Context::context`].
#[derive(Debug)]
pub(crate) struct Advice(pub(crate) &'static str);

impl fmt::Display for Advice {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }
}

impl From<clap::Error> for Failure {
    fn from(error: clap::Error) -> Self {
        Self::Usage(Box::new(error))
    }
}

impl From<anyhow::Error> for Failure {
    fn from(error: anyhow::Error) -> Self {
        Self::Failed(error)
    }
}

/// Errors without context are those of standard output: commands add file names to errors of files.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Failed(anyhow::Error::new(error).context("could not write to standard output"))
    }
}

/// Prints the error, if there is one, and returns the exit code.
pub(crate) fn report(outcome: Outcome) -> ExitCode {
    let (code, line) = match outcome {
        Err(Failure::Usage(error)) => {
            // An error of a closed terminal cannot be reported.
            let _ = error.print();
            (u8::try_from(error.exit_code()).unwrap_or(NOT_BEGUN), None)
        }
        outcome => ended(outcome, interrupt::requested()),
    };
    let code = if code == INTERRUPTED && interrupt::is_orderly_stop() { 0 } else { code };
    if panics::has_panicked() {
        // The panic's line has named the defect. Errors that follow from it would only hide it.
        return ExitCode::from(FAILED);
    }
    if let Some(line) = line {
        screen::remark(line);
    }
    ExitCode::from(code)
}

/// Returns the exit code and the line to print. An interruption prints no line, but other errors are printed.
fn ended(outcome: Outcome, is_interrupted: bool) -> (u8, Option<String>) {
    match outcome {
        Ok(Verdict::Fine) if is_interrupted => (INTERRUPTED, None),
        Ok(Verdict::Fine) => (0, None),
        Ok(Verdict::Code(code)) => (code, None),
        Ok(Verdict::FaultsFound) => (FAILED, None),
        Ok(Verdict::Unreadable) => (NOT_BEGUN, None),
        Err(Failure::Usage(error)) => (NOT_BEGUN, Some(error.to_string())),
        Err(Failure::NotBegun(error) | Failure::Failed(error))
            if is_interrupted && is_interruption(&error) =>
        {
            (INTERRUPTED, None)
        }
        Err(Failure::NotBegun(error)) => (NOT_BEGUN, Some(sentence(&error))),
        Err(Failure::Failed(error)) if is_broken_pipe(&error) => (0, None),
        Err(Failure::Failed(error)) if is_unreadable(&error) => (NOT_BEGUN, Some(sentence(&error))),
        Err(Failure::Failed(error)) => (FAILED, Some(sentence(&error))),
    }
}

const FAILED: u8 = 1;
const NOT_BEGUN: u8 = 2;

/// Returns the error and its causes on one line, outermost first; advice comes last wherever it was attached.
fn sentence(error: &anyhow::Error) -> String {
    let advice = error.downcast_ref::<Advice>().map(ToString::to_string);
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

/// Tells whether the reader of our output closed the pipe: that is success.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let mut causes = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    causes.any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// Tells whether the work stopped because of an interruption.
fn is_interruption(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        matches!(cause.downcast_ref(), Some(inspect::Error::Stopped))
            || matches!(cause.downcast_ref(), Some(rewrite::Error::Stopped))
            || matches!(cause.downcast_ref(), Some(replay::Error::Interrupted))
            || matches!(cause.downcast_ref(), Some(servers::Error::Cancelled))
    })
}

/// Tells whether a log cannot be read, as opposed to one that is damaged.
fn is_unreadable(error: &anyhow::Error) -> bool {
    let cause = match (error.downcast_ref(), error.downcast_ref(), error.downcast_ref()) {
        (Some(inspect::Error::Log(cause)), ..) | (_, Some(rewrite::Error::Read(cause)), _) => Some(cause),
        (.., cause) => cause,
    };
    cause.is_some_and(|cause: &logs::Error| !cause.is_damage())
}

#[cfg(test)]
mod tests {
    use std::io;

    use anyhow::{Context, anyhow};

    use super::{Advice, Failure, Outcome, Verdict, ended, is_broken_pipe, sentence};

    #[test]
    fn an_interrupt_hides_nothing_else_that_went_wrong() {
        let check = |outcome: Outcome, is_interrupted, wanted: (u8, Option<&str>)| {
            let (code, line) = ended(outcome, is_interrupted);
            assert_eq!((code, line.as_deref()), wanted);
        };
        let stopped = || Failure::Failed(anyhow!(replay::Error::Interrupted).context("while it compared"));
        let failed = || Failure::Failed(anyhow!("no connection"));
        check(Ok(Verdict::Fine), true, (130, None));
        check(Ok(Verdict::Fine), false, (0, None));
        check(Ok(Verdict::FaultsFound), true, (1, None));
        check(Err(stopped()), true, (130, None));
        check(Err(Failure::NotBegun(anyhow!(inspect::Error::Stopped))), true, (130, None));
        check(Err(failed()), true, (1, Some("no connection")));
        check(Err(failed()), false, (1, Some("no connection")));
        check(Err(Failure::NotBegun(anyhow!("no such file"))), true, (2, Some("no such file")));
    }

    #[test]
    fn one_line_that_ends_in_advice() {
        let error = Err::<(), _>(anyhow!("permission denied"))
            .context("open /x")
            .context(Advice("run it as the user mysql"))
            .context("could not read the log");
        let line = sentence(&error.expect_err("an error"));
        assert_eq!(line, "could not read the log: open /x: permission denied; run it as the user mysql");
    }

    #[test]
    fn a_cause_that_its_parent_quotes_is_said_once() {
        let line = sentence(&anyhow!("b").context("a: b"));
        assert_eq!(line, "a: b");
    }

    #[test]
    fn closed_pipes_are_seen_through_context() {
        let pipe = anyhow::Error::new(io::Error::from(io::ErrorKind::BrokenPipe)).context("write the report");
        assert!(is_broken_pipe(&pipe));
        assert!(!is_broken_pipe(&anyhow!("else")));
    }
}
