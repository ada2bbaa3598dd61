//! Progress on standard error: a bar on a terminal, for work that takes more than a second.

use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::global_args::GlobalArgs;

/// Time before the first update.
const BAR_DELAY: Duration = Duration::from_secs(1);

/// Display of progress for work that formats its own lines. Dropping it clears the bar.
pub(crate) enum ProgressDisplay {
    Hidden,
    /// A bar, shown after `BAR_DELAY`, and the interval of its updates.
    Terminal(Option<ProgressBar>, Duration),
    /// A line at intervals.
    Lines,
}

/// Time before the first line, and interval between lines.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

impl ProgressDisplay {
    /// Returns a display on standard error, unless `--quiet` is given. A terminal is updated at this interval.
    pub(crate) fn new(global: &GlobalArgs, terminal_period: Duration) -> Self {
        match (global.quiet, global.shows_bars()) {
            (true, _) => Self::Hidden,
            (false, true) => Self::Terminal(None, terminal_period),
            (false, false) => Self::Lines,
        }
    }

    /// Returns the time before the first update.
    pub(crate) const fn first_delay(&self) -> Duration {
        match self {
            Self::Hidden => Duration::MAX,
            Self::Terminal(..) => BAR_DELAY,
            Self::Lines => LINE_INTERVAL,
        }
    }

    /// Returns the interval between updates.
    pub(crate) const fn interval(&self) -> Duration {
        match self {
            Self::Hidden => Duration::ZERO,
            Self::Terminal(_, period) => *period,
            Self::Lines => LINE_INTERVAL,
        }
    }

    /// Clears the bar, before a result is printed.
    pub(crate) fn clear(&self) {
        if let Self::Terminal(Some(bar), _) = self {
            bar.finish_and_clear();
        }
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Progress bar over bytes. Dropping it clears the bar.
#[derive(Debug)]
pub(crate) struct ByteProgress {
    started: Instant,
    bytes_total: Option<u64>,
    bar: BarState,
}

#[derive(Debug)]
enum BarState {
    /// Never shown.
    Off,
    /// Not shown yet.
    Waiting,
    On(ProgressBar),
}

impl ByteProgress {
    /// Returns a bar for work over this number of bytes; `None` if the number is not known.
    pub(crate) fn new(global: &GlobalArgs, bytes_total: Option<u64>) -> Self {
        let bar = if global.shows_bars() { BarState::Waiting } else { BarState::Off };
        Self { started: Instant::now(), bytes_total, bar }
    }

    /// Sets the number of bytes done.
    pub(crate) fn update(&mut self, bytes_done: u64) {
        match &self.bar {
            BarState::Off => {}
            BarState::Waiting if self.started.elapsed() < BAR_DELAY => {}
            BarState::Waiting => self.bar = BarState::On(new_progress_bar(self.bytes_total, bytes_done)),
            BarState::On(bar) => bar.set_position(bytes_done),
        }
    }
}

impl ByteProgress {
    /// Sets the number of bytes done, and the ratio of written bytes to read bytes in percent.
    pub(crate) fn update_with_ratio(&mut self, bytes_done: u64, ratio: Option<u64>) {
        self.update(bytes_done);
        if let (BarState::On(bar), Some(ratio)) = (&self.bar, ratio) {
            bar.set_message(format!(" {ratio}% of original size"));
        }
    }
}

impl Drop for ByteProgress {
    fn drop(&mut self) {
        if let BarState::On(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Returns a bar with its message on a separate line below.
pub(crate) fn bar_above_line(bytes_total: Option<u64>, bytes_done: u64) -> ProgressBar {
    let template = match bytes_total {
        Some(_) => "{wide_bar} {decimal_bytes}/{decimal_total_bytes}\n{msg}",
        None => "{spinner} {decimal_bytes}\n{msg}",
    };
    new_bar(bytes_total, bytes_done, template)
}

/// Returns a line without a bar, for work without a known end.
pub(crate) fn spinner_line() -> ProgressBar {
    new_bar(None, 0, "{spinner} {msg}")
}

fn new_progress_bar(bytes_total: Option<u64>, bytes_done: u64) -> ProgressBar {
    let template = match bytes_total {
        Some(_) => "{wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}{msg} {eta}",
        None => "{spinner} {decimal_bytes} {decimal_bytes_per_sec}{msg}",
    };
    new_bar(bytes_total, bytes_done, template)
}

fn new_bar(bytes_total: Option<u64>, bytes_done: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(bytes_total, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸ "));
    }
    bar.set_position(bytes_done);
    bar
}
