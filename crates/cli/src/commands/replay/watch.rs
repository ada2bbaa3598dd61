//! Progress of a replay; stops it when it is interrupted.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use replay::{Lag, Observer, Status};

use crate::args::Global;
use crate::commands::replay::board::Board;
use crate::commands::replay::pace::Pace;
use crate::interrupt;
use crate::progress::{self, Screen};
use crate::screen;
use crate::units;

/// Display of a replay's progress, on a terminal or as lines.
pub(super) struct Watch {
    began: Instant,
    bytes_total: Option<u64>,
    pace: Pace,
    lag: Lag,
    /// Time of the next update of the lag.
    lag_due: Duration,
    board: Board,
    screen: Screen,
    /// Time of the next update of the display.
    due: Duration,
    /// Number of applied transactions when a line with "caught up" was last shown.
    idle_at: Option<u64>,
}

/// Interval at which a terminal is updated.
const TERMINAL_PERIOD: Duration = Duration::from_millis(100);

/// Interval at which lag percentiles are computed.
const LAG_PERIOD: Duration = Duration::from_secs(1);

impl Watch {
    /// Returns the display of a replay of logs with this total size, if known. Also updates the shared statistics.
    pub(super) fn new(global: &Global, bytes_total: Option<u64>, board: Board) -> Self {
        let screen = Screen::new(global, TERMINAL_PERIOD);
        let due = screen.patience();
        Self {
            began: Instant::now(),
            bytes_total,
            pace: Pace::default(),
            lag: Lag::default(),
            lag_due: Duration::ZERO,
            board,
            screen,
            due,
            idle_at: None,
        }
    }

    /// Returns the time since the replay began.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn show(&mut self, status: &Status<'_>) {
        let line = self.pace.line(now_us(), self.bytes_total, status, self.lag);
        let ahead = self.board.line_of_ahead();
        let line = [Some(line), ahead].into_iter().flatten().collect::<Vec<_>>().join(", ");
        let bytes = status.report.bytes_read;
        let idle_at = status.is_caught_up.then_some(status.report.transactions);
        if matches!(self.screen, Screen::Lines) && idle_at.is_some() && idle_at == self.idle_at {
            return; // A line with "caught up" is shown only once.
        }
        self.idle_at = idle_at;
        match &mut self.screen {
            Screen::Nowhere => {}
            Screen::Lines => screen::remark(format_args!("{}; {line}", gone_over(bytes, self.bytes_total))),
            Screen::Terminal(bar, _) => {
                let total = self.bytes_total;
                let bar = bar.get_or_insert_with(|| progress::bar_over_a_line(total, bytes));
                bar.set_position(bytes);
                bar.set_message(line);
            }
        }
    }
}

impl Observer for Watch {
    fn at(&mut self, status: &Status<'_>) -> ControlFlow<()> {
        let elapsed = self.began.elapsed();
        self.pace.mark(elapsed, status);
        if elapsed >= self.lag_due {
            self.lag_due = elapsed + LAG_PERIOD;
            self.lag = status.lag(now_us());
        }
        self.board.put(status, self.lag);
        if elapsed >= self.due {
            self.due = elapsed + self.screen.period();
            self.show(status);
        }
        match interrupt::requested() {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Microseconds since 1970.
fn now_us() -> u64 {
    u64::try_from(Timestamp::now().as_microsecond()).unwrap_or_default()
}

/// Returns the amount of the logs that has been read.
fn gone_over(bytes: u64, bytes_total: Option<u64>) -> String {
    match bytes_total {
        Some(total) => format!("{} of {}", units::bytes(bytes), units::bytes(total)),
        None => units::bytes(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::gone_over;

    #[test]
    fn how_far() {
        assert_eq!(gone_over(1_500_000, Some(3_000_000)), "1.5 MB of 3.0 MB");
        assert_eq!(gone_over(1_500_000, None), "1.5 MB");
    }
}
