//! A progress bar for work that takes more than a second: on standard error, only when that is a terminal.

use std::io::{self, IsTerminal};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::args::Global;

/// How long work may take before it shows a bar.
const PATIENCE: Duration = Duration::from_secs(1);

/// Where to show how far work is that has lines of its own to say. Dropping it clears the bar.
pub(crate) enum Screen {
    Nowhere,
    /// A bar; none yet while the work may be done before anyone wonders. How often it changes.
    Terminal(Option<ProgressBar>, Duration),
    /// A line from time to time.
    Lines,
}

/// Until lines are written down, and between two of them.
const LINES_PERIOD: Duration = Duration::from_secs(10);

impl Screen {
    /// On standard error, as far as that is wanted; a terminal changes as often as this.
    pub(crate) fn new(global: &Global, terminal_period: Duration) -> Self {
        match (global.quiet, io::stderr().is_terminal()) {
            (true, _) => Self::Nowhere,
            (false, true) => Self::Terminal(None, terminal_period),
            (false, false) => Self::Lines,
        }
    }

    /// How long work may take before it shows something.
    pub(crate) const fn patience(&self) -> Duration {
        match self {
            Self::Nowhere => Duration::MAX,
            Self::Terminal(..) => PATIENCE,
            Self::Lines => LINES_PERIOD,
        }
    }

    /// Between two times that it shows something.
    pub(crate) const fn period(&self) -> Duration {
        match self {
            Self::Nowhere => Duration::ZERO,
            Self::Terminal(_, period) => *period,
            Self::Lines => LINES_PERIOD,
        }
    }

    /// Takes the bar away, before something is printed.
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

/// How much of the work is done. Dropping it clears the bar.
#[derive(Debug)]
pub(crate) struct Progress {
    started: Instant,
    bytes_total: Option<u64>,
    bar: Bar,
}

#[derive(Debug)]
enum Bar {
    /// Never to be shown.
    Off,
    /// Not shown yet: perhaps the work is done before anyone wonders.
    Waiting,
    On(ProgressBar),
}

impl Progress {
    /// For work over so many bytes; `None` when their number is not known.
    pub(crate) fn new(global: &Global, bytes_total: Option<u64>) -> Self {
        let shown = !global.quiet && io::stderr().is_terminal();
        let bar = if shown { Bar::Waiting } else { Bar::Off };
        Self { started: Instant::now(), bytes_total, bar }
    }

    /// So many bytes are done by now, in all.
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
    /// The same, of work that writes: `ratio` of what it read, in percent.
    pub(crate) fn at_with_ratio(&mut self, bytes_done: u64, ratio: Option<u64>) {
        self.at(bytes_done);
        if let (Bar::On(bar), Some(ratio)) = (&self.bar, ratio) {
            bar.set_message(format!(" {ratio}% of before"));
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

/// A bar whose message, a line of its own, says all but how far it is.
pub(crate) fn bar_over_a_line(bytes_total: Option<u64>, bytes_done: u64) -> ProgressBar {
    let template = match bytes_total {
        Some(_) => "{wide_bar} {decimal_bytes}/{decimal_total_bytes}\n{msg}",
        None => "{spinner} {decimal_bytes}\n{msg}",
    };
    bar(bytes_total, bytes_done, template)
}

/// A line alone, for work without an end.
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
