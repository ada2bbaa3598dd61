//! Progress of warming; stops it when it is interrupted.

use std::io::{self, IsTerminal, Write as _};
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use indicatif::ProgressBar;
use warm::{Observer, Report, Status};

use crate::args::Global;
use crate::commands::warm::{advised, figures};
use crate::exit::{Failure, Outcome, Verdict};
use crate::interrupt;
use crate::progress;
use crate::screen::{self, Style};

/// Latest status, shared between threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct Board(Arc<Mutex<Status>>);

/// Display of warming, on a terminal or as lines.
pub(super) struct Watch {
    board: Board,
    screen: Screen,
    style: Style,
    /// Time of the next update.
    due: Duration,
    is_begun: bool,
}

enum Screen {
    Nowhere,
    /// A bar, created at the first update.
    Terminal(Option<ProgressBar>),
    /// A line at intervals.
    Lines,
}

/// Time before the first update of a terminal, and interval between updates.
const TERMINAL_PERIODS: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(250));
/// The same for lines.
const LINES_PERIODS: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(10));

impl Board {
    /// Returns the metrics as text.
    pub(crate) fn sheet(&self) -> String {
        figures::sheet(&self.status())
    }

    /// Returns a part of a replay's progress line; `None` before warming has begun.
    pub(crate) fn line_of_replay(&self) -> Option<String> {
        let status = self.status();
        (!status.elapsed.is_zero()).then(|| figures::line_of_replay(&status))
    }

    /// Sets the status.
    pub(crate) fn put(&self, status: &Status) {
        self.status().clone_from(status);
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    pub(super) fn new(global: &Global, board: Board) -> Self {
        let (screen, (due, _)) = match (global.quiet, io::stderr().is_terminal()) {
            (true, _) => (Screen::Nowhere, (Duration::MAX, Duration::MAX)),
            (false, true) => (Screen::Terminal(None), TERMINAL_PERIODS),
            (false, false) => (Screen::Lines, LINES_PERIODS),
        };
        let style = Style::new(global.color.on_stdout());
        Self { board, screen, style, due, is_begun: false }
    }

    /// Returns the failure for an error, before or after warming has begun.
    pub(super) fn failure(&self, error: warm::Error) -> Failure {
        match self.is_begun {
            true => Failure::Failed(advised(error)),
            false => Failure::NotBegun(advised(error)),
        }
    }

    /// Prints the result.
    pub(super) fn print(&mut self, report: &Report, json: bool) -> Outcome {
        self.clear();
        let mut out = io::stdout().lock();
        if json {
            serde_json::to_writer_pretty(&mut out, &figures::document(report)).map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        } else {
            screen::print(&figures::text(report, self.style), &mut out)?;
        }
        Ok(Verdict::Fine)
    }

    fn clear(&mut self) {
        if let Screen::Terminal(Some(bar)) = &self.screen {
            bar.finish_and_clear();
        }
    }

    fn show(&mut self, status: &Status) {
        let line = figures::line(status);
        match &mut self.screen {
            Screen::Nowhere => {}
            Screen::Lines => {
                self.due = status.elapsed + LINES_PERIODS.1;
                screen::remark(line);
            }
            Screen::Terminal(bar) => {
                self.due = status.elapsed + TERMINAL_PERIODS.1;
                bar.get_or_insert_with(progress::line).set_message(line);
            }
        }
    }
}

impl Observer for Watch {
    fn at(&mut self, status: &Status) -> ControlFlow<()> {
        self.is_begun = true;
        self.board.put(status);
        if status.elapsed >= self.due {
            self.show(status);
        }
        match interrupt::requested() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.clear();
    }
}
