//! Progress on standard error: a bar on a terminal, for work that takes more than a second.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::Global;

/// Time before the first update.
const PATIENCE: Duration = Duration::from_secs(1);

/// Display of progress for work that formats its own lines. Dropping it clears the bar.
pub(crate) enum Screen {
    Nowhere,
    /// A bar, shown after `PATIENCE`, and the interval of its updates.
    Terminal(Option<ProgressBar>, Duration),
    /// A line at intervals.
    Lines,
}

/// Time before the first line, and interval between lines.
const LINES_PERIOD: Duration = Duration::from_secs(10);

impl Screen {
    /// Returns a display on standard error, unless `--quiet` is given. A terminal is updated at this interval.
    pub(crate) fn new(global: &Global, terminal_period: Duration) -> Self {
        match (global.quiet, io::stderr().is_terminal()) {
            (true, _) => Self::Nowhere,
            (false, true) => Self::Terminal(None, terminal_period),
            (false, false) => Self::Lines,
        }
    }

    /// Returns the time before the first update.
    pub(crate) const fn patience(&self) -> Duration {
        match self {
            Self::Nowhere => Duration::MAX,
            Self::Terminal(..) => PATIENCE,
            Self::Lines => LINES_PERIOD,
        }
    }

    /// Returns the interval between updates.
    pub(crate) const fn period(&self) -> Duration {
        match self {
            Self::Nowhere => Duration::ZERO,
            Self::Terminal(_, period) => *period,
            Self::Lines => LINES_PERIOD,
        }
    }

    /// Clears the bar, before a result is printed.
    pub(crate) fn clear(&self) {
        if let Self::Terminal(Some(bar), _) = self {
            bar.finish_and_clear();
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Progress bar over bytes. Dropping it clears the bar.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    bytes_total: Option<u64>,
    bar: Bar,
}

#[derive(Debug)]
enum Bar {
    /// Never shown.
    Off,
    /// Not shown yet.
    Waiting,
    On(ProgressBar),
}

impl Progress {
    /// Returns a bar for work over this number of bytes; `None` if the number is not known.
    pub(crate) fn new(global: &Global, bytes_total: Option<u64>) -> Self {
        let shown = !global.quiet && io::stderr().is_terminal();
        let bar = if shown { Bar::Waiting } else { Bar::Off };
        Self { started: Instant::now(), bytes_total, bar }
    }

    /// Sets the number of bytes done.
    pub(crate) fn at(&mut self, bytes_done: u64) {
        match &self.bar {
            Bar::Off => {}
            Bar::Waiting if self.started.elapsed() < PATIENCE => {}
            Bar::Waiting => self.bar = Bar::On(show(self.bytes_total, bytes_done)),
            Bar::On(bar) => bar.set_position(bytes_done),
        }
    }
}

impl Progress {
    /// Sets the number of bytes done, and the ratio of written bytes to read bytes in percent.
    pub(crate) fn at_with_ratio(&mut self, bytes_done: u64, ratio: Option<u64>) {
        self.at(bytes_done);
        if let (Bar::On(bar), Some(ratio)) = (&self.bar, ratio) {
            bar.set_message(format!(" {ratio}% of original size"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Bar::On(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Returns a bar whose message is on its own line below.
pub(crate) fn bar_over_a_line(bytes_total: Option<u64>, bytes_done: u64) -> ProgressBar {
    let template = match bytes_total {
        Some(_) => "{wide_bar} {decimal_bytes}/{decimal_total_bytes}\n{msg}",
        None => "{spinner} {decimal_bytes}\n{msg}",
    };
    bar(bytes_total, bytes_done, template)
}

/// Returns a line without a bar, for work without a known end.
pub(crate) fn line() -> ProgressBar {
    bar(None, 0, "{spinner} {msg}")
}

fn show(bytes_total: Option<u64>, bytes_done: u64) -> ProgressBar {
    let template = match bytes_total {
        Some(_) => "{wide_bar} {decimal_bytes}/{decimal_total_bytes} {decimal_bytes_per_sec}{msg} {eta}",
        None => "{spinner} {decimal_bytes} {decimal_bytes_per_sec}{msg}",
    };
    bar(bytes_total, bytes_done, template)
}

fn bar(bytes_total: Option<u64>, bytes_done: u64, template: &str) -> ProgressBar {
    let bar = ProgressBar::with_draw_target(bytes_total, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style.progress_chars("━╸ "));
    }
    bar.set_position(bytes_done);
    bar
}
