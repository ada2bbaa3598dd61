//! Progress of a replay; stops it when it is interrupted.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use replay::{CommitLag, ReplayObserver, ReplayStatus};

use crate::commands::replay::progress_line::ProgressLine;
use crate::commands::replay::replay_metrics::SharedReplayFigures;
use crate::global_args::GlobalArgs;
use crate::interrupt;
use crate::messages::MessageSeverity;
use crate::progress::{self, ProgressDisplay};
use crate::units;

/// Display of a replay's progress, on a terminal or as lines.
pub(super) struct ReplayProgressMonitor {
    began: Instant,
    bytes_total: Option<u64>,
    pace: ProgressLine,
    lag: CommitLag,
    /// Time of the next update of the lag.
    lag_due: Duration,
    stats: SharedReplayFigures,
    screen: ProgressDisplay,
    /// Time of the next update of the display.
    due: Duration,
    /// Number of applied transactions when a line with "caught up" was last shown.
    idle_at: Option<u64>,
}

/// Interval at which a terminal is updated.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(100);

/// Interval at which lag percentiles are computed.
const LAG_INTERVAL: Duration = Duration::from_secs(1);

impl ReplayProgressMonitor {
    /// Returns the display of a replay of logs with this total size, if known. Also updates the shared statistics.
    pub(super) fn new(global: &GlobalArgs, bytes_total: Option<u64>, stats: SharedReplayFigures) -> Self {
        let screen = ProgressDisplay::new(global, TERMINAL_INTERVAL);
        let due = screen.first_delay();
        Self {
            began: Instant::now(),
            bytes_total,
            pace: ProgressLine::default(),
            lag: CommitLag::default(),
            lag_due: Duration::ZERO,
            stats,
            screen,
            due,
            idle_at: None,
        }
    }

    /// Returns the time since the replay began.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn show(&mut self, status: &ReplayStatus<'_>) {
        let line = self.pace.line(logs::now_us(), self.bytes_total, status, self.lag);
        let warming_line = self.stats.warming_line();
        let line = [Some(line), warming_line].into_iter().flatten().collect::<Vec<_>>().join(", ");
        let bytes = status.report.bytes_read;
        let idle_at = status.is_caught_up.then_some(status.report.transactions);
        let is_repeated = idle_at.is_some() && idle_at == self.idle_at;
        self.idle_at = idle_at;
        match &mut self.screen {
            ProgressDisplay::Hidden => {}
            // A line with "caught up" is shown only once.
            ProgressDisplay::Lines => {
                let level = if is_repeated { MessageSeverity::Debug } else { MessageSeverity::Info };
                level.write(format_args!("{}; {line}", bytes_read_text(bytes, self.bytes_total)))
            }
            ProgressDisplay::Terminal(bar, _) => {
                let total = self.bytes_total;
                let bar = bar.get_or_insert_with(|| progress::bar_above_line(total, bytes));
                bar.set_position(bytes);
                bar.set_message(line);
            }
        }
    }
}

impl ReplayObserver for ReplayProgressMonitor {
    fn on_status(&mut self, status: &ReplayStatus<'_>) -> ControlFlow<()> {
        let mut status = *status;
        status.is_caught_up &= self.stats.has_all_logs();
        let status = &status;
        let elapsed = self.began.elapsed();
        self.pace.add_sample(elapsed, status);
        if elapsed >= self.lag_due {
            self.lag_due = elapsed + LAG_INTERVAL;
            self.lag = status.lag(logs::now_us());
        }
        self.stats.set(status);
        if elapsed >= self.due {
            self.due = elapsed + self.screen.interval();
            self.show(status);
        }
        interrupt::stop_flow()
    }
}

/// Returns the amount of the logs that has been read.
fn bytes_read_text(bytes: u64, bytes_total: Option<u64>) -> String {
    match bytes_total {
        Some(total) => format!("{} of {}", units::bytes(bytes), units::bytes(total)),
        None => units::bytes(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::bytes_read_text;

    #[test]
    fn bytes_read_are_formatted() {
        assert_eq!(bytes_read_text(1_500_000, Some(3_000_000)), "1.5 MB of 3.0 MB");
        assert_eq!(bytes_read_text(1_500_000, None), "1.5 MB");
    }
}
