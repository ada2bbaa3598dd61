//! Progress of warming; stops it when it is interrupted.

use std::io;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

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
pub(crate) struct SharedWarmStatus(Arc<Mutex<LatestStatus>>);

#[derive(Debug, Default)]
struct LatestStatus {
    status: WarmStatus,
    /// Time of the status; `None` before the first, and after the end.
    observed: Option<Instant>,
}

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

/// Age of a status after which the replica does not respond: many polls, which take place several times per second. A
/// query on a frozen replica blocks until the timeout of the connection.
const STATUS_AGE_MAX: Duration = Duration::from_secs(5);

impl SharedWarmStatus {
    /// Returns a copy of the status. If it is too old, the connection counts as lost.
    pub(crate) fn get(&self) -> WarmStatus {
        self.latest().at(Instant::now())
    }

    /// Returns a part of a replay's progress line; `None` before warming has begun.
    pub(crate) fn line_of_replay(&self) -> Option<String> {
        let LatestStatus { status, .. } = &*self.latest();
        (!status.elapsed.is_zero()).then(|| status_text::line_of_replay(status))
    }

    /// Sets the status.
    pub(crate) fn set(&self, status: &WarmStatus) {
        let mut latest = self.latest();
        latest.status.clone_from(status);
        latest.observed = Some(Instant::now());
    }

    /// Records that no other status follows, so that the last one does not become too old.
    pub(crate) fn finish(&self) {
        self.latest().observed = None;
    }

    fn latest(&self) -> MutexGuard<'_, LatestStatus> {
        lock(&self.0)
    }
}

impl LatestStatus {
    fn at(&self, now: Instant) -> WarmStatus {
        let is_old = self.observed.is_some_and(|observed| now.duration_since(observed) > STATUS_AGE_MAX);
        WarmStatus { is_lost: self.status.is_lost || is_old, ..self.status.clone() }
    }
}

impl ServiceState for SharedWarmStatus {
    fn readiness(&self) -> Result<(), String> {
        let status = self.get();
        match (status.is_lost, status.elapsed.is_zero()) {
            (true, _) => Err("the replica does not respond".to_owned()),
            (false, true) => Err("the replica has not responded yet".to_owned()),
            (false, false) => Ok(()),
        }
    }

    fn lag(&self) -> Option<Duration> {
        warm_metrics::lag_s(&self.get()).map(Duration::from_secs)
    }

    /// With `--force`, the server may be no replica.
    fn has_source(&self) -> bool {
        self.get().channels.iter().any(|channel| !channel.log.is_empty())
    }

    fn summary(&self) -> String {
        status_text::line(&self.get())
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

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use warm::{ChannelStatus, WarmStatus};

    use super::{LatestStatus, STATUS_AGE_MAX, SharedWarmStatus};
    use crate::commands::warm::warm_metrics::lag_s;
    use crate::service_state::ServiceState as _;

    #[test]
    fn old_statuses_count_as_a_lost_replica() {
        let channel = ChannelStatus { is_applying: true, lag_s: Some(0), ..ChannelStatus::default() };
        let status =
            WarmStatus { channels: vec![channel], elapsed: Duration::from_secs(1), ..WarmStatus::default() };
        let begin = Instant::now();
        let mut latest = LatestStatus { status, observed: Some(begin) };
        for (age, is_lost, lag) in [
            (Duration::ZERO, false, Some(0)),
            (STATUS_AGE_MAX, false, Some(0)),
            (STATUS_AGE_MAX + Duration::from_millis(1), true, None),
        ] {
            let found = latest.at(begin + age);
            assert_eq!((found.is_lost, lag_s(&found)), (is_lost, lag), "{age:?}");
        }
        latest.observed = None;
        assert!(!latest.at(begin + 2 * STATUS_AGE_MAX).is_lost);
    }

    #[test]
    fn replicas_are_ready_while_they_respond() {
        let shared = SharedWarmStatus::default();
        let elapsed = Duration::from_secs(1);
        assert_eq!(shared.readiness(), Err("the replica has not responded yet".to_owned()));
        shared.set(&WarmStatus { elapsed, ..WarmStatus::default() });
        assert_eq!(shared.readiness(), Ok(()));
        shared.set(&WarmStatus { elapsed, is_lost: true, ..WarmStatus::default() });
        assert_eq!(shared.readiness(), Err("the replica does not respond".to_owned()));
    }
}
