//! Progress of warming; stops it when it is interrupted.

use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use logs::lock;
use tracing::info;
use warm::{WarmObserver, WarmReport, WarmStatus};

use crate::commands::warm::{add_advice, status_text, warm_metrics};
use crate::exit::{CommandFailure, CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::json_document::write_document;
use crate::output_format::OutputFormat;
use crate::progress::{self, ProgressDisplay};
use crate::screen::{self, ReportStyle};
use crate::service_state::ServiceState;

/// Latest status, shared between threads.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedWarmStatus(Arc<Mutex<WarmStatus>>);

/// Display of warming, on a terminal or as lines.
pub(super) struct WarmProgressMonitor {
    stats: SharedWarmStatus,
    display: ProgressDisplay,
    style: ReportStyle,
    /// Time of the next update.
    due: Duration,
    is_begun: bool,
}

/// Interval between updates of a terminal.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(250);

impl SharedWarmStatus {
    /// Returns a copy of the status.
    pub(crate) fn get(&self) -> WarmStatus {
        self.status().clone()
    }

    /// Returns a part of a replay's progress line; `None` before warming has begun.
    pub(crate) fn line_of_replay(&self) -> Option<String> {
        let status = self.status();
        (!status.elapsed.is_zero()).then(|| status_text::line_of_replay(&status))
    }

    /// Sets the status.
    pub(crate) fn set(&self, status: &WarmStatus) {
        self.status().clone_from(status);
    }

    fn status(&self) -> MutexGuard<'_, WarmStatus> {
        lock(&self.0)
    }
}

impl ServiceState for SharedWarmStatus {
    fn readiness(&self) -> Result<(), String> {
        let status = self.status();
        match (status.is_lost, status.elapsed.is_zero()) {
            (true, _) => Err("the replica does not respond".to_owned()),
            (false, true) => Err("the replica has not responded yet".to_owned()),
            (false, false) => Ok(()),
        }
    }

    fn lag(&self) -> Option<Duration> {
        warm_metrics::lag_s(&self.status()).map(Duration::from_secs)
    }

    fn summary(&self) -> String {
        status_text::line(&self.status())
    }
}

impl WarmProgressMonitor {
    pub(super) fn new(global: &GlobalArgs, stats: SharedWarmStatus) -> Self {
        let display = ProgressDisplay::new(global, TERMINAL_INTERVAL);
        let style = ReportStyle::new(global.color.on_stdout());
        Self { stats, due: display.first_delay(), display, style, is_begun: false }
    }

    /// Returns the failure for an error, before or after warming has begun.
    pub(super) fn failure(&self, error: warm::WarmError) -> CommandFailure {
        match self.is_begun {
            true => CommandFailure::Failed(add_advice(error)),
            false => CommandFailure::NotStarted(add_advice(error)),
        }
    }

    /// Prints the result.
    pub(super) fn print(&mut self, report: &WarmReport, format: OutputFormat) -> CommandResult {
        self.display.clear();
        let mut out = io::stdout().lock();
        match format {
            OutputFormat::Json => write_document(&mut out, &status_text::document(report))?,
            OutputFormat::Text => screen::print(&status_text::text(report, self.style), &mut out)?,
        }
        Ok(CommandVerdict::Success)
    }

    fn show(&mut self, status: &WarmStatus) {
        let line = status_text::line(status);
        self.due = status.elapsed + self.display.interval();
        match &mut self.display {
            ProgressDisplay::Hidden => {}
            ProgressDisplay::Lines => info!("{line}"),
            ProgressDisplay::Terminal(bar, _) => {
                bar.get_or_insert_with(progress::spinner_line).set_message(line);
            }
        }
    }
}

impl WarmObserver for WarmProgressMonitor {
    fn observe(&mut self, status: &WarmStatus) -> ControlFlow<()> {
        self.is_begun = true;
        self.stats.set(status);
        if status.elapsed >= self.due {
            self.show(status);
        }
        interrupt::stop_flow()
    }
}
