//! Progress, messages and result of `receive`, on a terminal or as lines.

use std::io;
use std::path::Path;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use logs::{lock, now_s};
use receive::{ReceiveNotice, ReceiveReporter, SharedReceiveStats};
use tracing::{debug, info};

use crate::commands::receive::notice_text::{error_with_causes, notice_level, notice_text};
use crate::commands::receive::receive_metrics::ReceiveFigures;
use crate::commands::receive::stats_text;
use crate::commands::stats;
use crate::exit::{CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::json_document::write_document;
use crate::output_format::OutputFormat;
use crate::progress::{self, ProgressDisplay};
use crate::recent_rates::RecentRates;
use crate::screen::{self, ReportStyle, visible_lines};

/// Interval at which a terminal is updated.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(250);

/// Display of a run that receives logs.
pub(crate) struct ReceiveDisplay {
    began: Instant,
    /// Style of the printed result.
    style: ReportStyle,
    progress: Mutex<ShownProgress>,
    /// Error of the last connection, until a connection succeeds.
    connection_error: Mutex<Option<String>>,
}

/// Progress as last shown.
struct ShownProgress {
    screen: ProgressDisplay,
    /// Time of the next update.
    due: Duration,
    /// Received bytes when a line was last shown.
    bytes: Option<u64>,
    rates: RecentRates,
}

impl ReceiveDisplay {
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        Self::on(ProgressDisplay::new(global, TERMINAL_INTERVAL), global)
    }

    /// Returns a display that shows messages, but no progress.
    pub(crate) fn without_progress(global: &GlobalArgs) -> Self {
        Self::on(ProgressDisplay::Hidden, global)
    }

    fn on(screen: ProgressDisplay, global: &GlobalArgs) -> Self {
        let due = screen.first_delay();
        Self {
            began: Instant::now(),
            style: ReportStyle::new(global.color.on_stdout()),
            progress: Mutex::new(ShownProgress { screen, due, bytes: None, rates: RecentRates::default() }),
            connection_error: Mutex::default(),
        }
    }

    /// Returns the time of the start.
    pub(crate) const fn began(&self) -> Instant {
        self.began
    }

    /// Returns the error of the last connection; `None` after a later success.
    pub(crate) fn connection_error(&self) -> Option<String> {
        lock(&self.connection_error).clone()
    }

    /// Checks that a source is connected and the disk has space. Otherwise returns the reason.
    pub(crate) fn readiness(&self, stats: &SharedReceiveStats) -> Result<(), String> {
        let (is_connected, is_full) = stats.read(|stats| (stats.is_connected, stats.is_full));
        if is_full {
            return Err("the disk is full".to_owned());
        }
        if is_connected {
            return Ok(());
        }
        let why = self.connection_error().map_or(String::new(), |error| format!(": {error}"));
        Err(format!("no source is connected{why}"))
    }

    /// Returns one line about the received logs.
    pub(crate) fn summary(&self, stats: &SharedReceiveStats) -> String {
        let shown = self.lock_progress();
        stats.read(|stats| match stats.log.is_empty() {
            true => "connected".to_owned(),
            false => stats_text::line(stats, &shown.rates, now_s()),
        })
    }

    /// Returns whether the display shows the GTIDs of stored transactions.
    pub(super) fn shows_gtids(&self) -> bool {
        matches!(self.lock_progress().screen, ProgressDisplay::Terminal(..))
    }

    /// Prints the result.
    pub(super) fn print(
        &self,
        figures: &ReceiveFigures,
        directory: &Path,
        format: OutputFormat,
    ) -> CommandResult {
        self.lock_progress().screen.clear();
        let mut out = io::stdout().lock();
        match format {
            OutputFormat::Json => write_document(&mut out, &stats_text::document(figures))?,
            OutputFormat::Text => {
                screen::print(&stats_text::text(figures, &directory.display().to_string()), &mut out)?;
                let rows = figures.stats.statistics.rows();
                screen::print(&stats::compression(&rows, self.style), &mut out)?;
            }
        }
        Ok(CommandVerdict::Success)
    }

    fn lock_progress(&self) -> MutexGuard<'_, ShownProgress> {
        lock(&self.progress)
    }
}

impl ReceiveReporter for ReceiveDisplay {
    fn notice(&self, notice: &ReceiveNotice<'_>) {
        let error = match notice {
            ReceiveNotice::Retry { error, .. } | ReceiveNotice::Stopped { error } => {
                Some(Some(error_with_causes(error)))
            }
            ReceiveNotice::Reconnected { .. } => Some(None),
            _ => None,
        };
        if let Some(error) = error {
            *lock(&self.connection_error) = error;
        }
        notice_level(notice).write(notice_text(notice));
    }

    fn progress(&self, stats: &SharedReceiveStats) {
        let elapsed = self.began.elapsed();
        let mut shown = self.lock_progress();
        let (bytes, transactions) = stats.read(|stats| (stats.bytes, stats.transactions));
        shown.rates.add_sample(elapsed, bytes, transactions);
        if elapsed < shown.due {
            return;
        }
        let text = stats.read(|stats| match &shown.screen {
            ProgressDisplay::Terminal(..) => stats_text::terminal_text(stats, &shown.rates, now_s()),
            ProgressDisplay::Lines | ProgressDisplay::Hidden => {
                stats_text::line(stats, &shown.rates, now_s())
            }
        });
        let is_new = shown.bytes != Some(bytes);
        shown.bytes = Some(bytes);
        shown.due = elapsed + shown.screen.interval();
        match &mut shown.screen {
            ProgressDisplay::Hidden => {}
            ProgressDisplay::Lines if is_new => info!("{text}"),
            ProgressDisplay::Lines => debug!("{text}"),
            ProgressDisplay::Terminal(bar, _) => {
                bar.get_or_insert_with(progress::spinner_line).set_message(visible_lines(&text))
            }
        }
    }
}
