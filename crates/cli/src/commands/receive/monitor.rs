//! Progress of `receive`: on a terminal, as lines, and as metrics.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use binlog::{EventFormat, RawEvent};
use inspect::stats::CompressionCounter;
use jiff::Timestamp;
use logs::{StoreEnd, StoreWriter};
use rewrite::RewriteTally;

use crate::commands::receive::compression_statistics::StoredFormCount;
use crate::commands::receive::pending_events::PendingEvents;
use crate::commands::receive::receive_stats::ReceiveStats;
use crate::commands::receive::received_gtids::ReceivedGtids;
use crate::commands::stats;
use crate::exit::{CommandResult, CommandVerdict};
use crate::global_args::GlobalArgs;
use crate::progress::{self, ProgressDisplay};
use crate::screen::{self, ReportStyle, visible_lines};

/// Interval at which a terminal is updated.
const TERMINAL_INTERVAL: Duration = Duration::from_millis(250);

/// Statistics, shared between threads.
#[derive(Clone, Debug, Default)]
pub(super) struct SharedReceiveStats(Arc<Mutex<ReceiveStats>>);

/// Counts received events and shows progress.
pub(crate) struct ReceiveMonitor {
    began: Instant,
    board: SharedReceiveStats,
    screen: ProgressDisplay,
    /// Style of the printed result.
    style: ReportStyle,
    /// Time of the next update.
    due: Duration,
    /// Received bytes when a line was last shown.
    shown_bytes: Option<u64>,
    /// Events that count once the store has written them to its file.
    unwritten: PendingEvents,
}

impl SharedReceiveStats {
    /// Returns the metrics as text.
    pub(super) fn metrics_text(&self) -> String {
        self.figures().metrics_text(now_s())
    }

    /// Counts a compressed log.
    pub(super) fn count_compressed_log(&self, tally: &RewriteTally) {
        let mut figures = self.figures();
        figures.compressed_logs += 1;
        figures.compressed_from += tally.bytes_before;
        figures.compressed_to += tally.bytes_after;
    }

    /// Sets the number of closed logs that wait for compression.
    pub(super) fn set_logs_to_compress(&self, logs: u64) {
        self.figures().to_compress = logs;
    }

    /// Counts a failed attempt to compress a log.
    pub(super) fn count_compression_failure(&self) {
        self.figures().failed_compressions += 1;
    }

    /// Makes compression statistics count logs when they are compressed, not when they are received.
    pub(super) fn count_on_compression(&self) {
        self.figures().statistics.keeping = StoredFormCount::OnCompression;
    }

    /// Adds the compression statistics of a closed log.
    pub(super) fn count_stored_log(&self, counted: CompressionCounter) {
        self.figures().statistics.log(counted);
    }

    fn figures(&self) -> MutexGuard<'_, ReceiveStats> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ReceiveMonitor {
    pub(crate) fn new(global: &GlobalArgs) -> Self {
        Self::on(ProgressDisplay::new(global, TERMINAL_INTERVAL), ReportStyle::new(global.color.on_stdout()))
    }

    /// Returns a monitor that counts but shows nothing.
    pub(crate) fn silent() -> Self {
        Self::on(ProgressDisplay::Hidden, ReportStyle::new(false))
    }

    fn on(screen: ProgressDisplay, style: ReportStyle) -> Self {
        let due = screen.first_delay();
        let (board, unwritten) = (SharedReceiveStats::default(), PendingEvents::default());
        Self { began: Instant::now(), board, screen, style, due, shown_bytes: None, unwritten }
    }

    /// Returns the time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn board(&self) -> SharedReceiveStats {
        self.board.clone()
    }

    /// Reads the stored GTIDs, for a display that shows them.
    pub(super) fn set_store(&self, folder: &Path, keyring: Option<&Path>) {
        if let ProgressDisplay::Terminal(..) = self.screen
            && let Ok(reached) = ReceivedGtids::read_store(folder, keyring)
        {
            self.board.figures().reached = reached;
        }
    }

    /// Returns the bytes of received events.
    pub(super) fn bytes(&self) -> u64 {
        self.board.figures().bytes
    }

    /// Records a connection to a source with this clock.
    pub(super) fn set_connected(&self, clock_s: Option<u64>) {
        let mut figures = self.board.figures();
        figures.connections += 1;
        figures.is_connected = true;
        let clock_s = clock_s.and_then(|clock| i64::try_from(clock).ok());
        figures.ahead_s = clock_s.map_or(0, |clock| clock - now_s());
    }

    pub(super) fn set_disconnected(&self) {
        self.board.figures().is_connected = false;
    }

    /// Tells whether the source waits for acknowledgements; `None` before the first connection.
    pub(super) fn semi_sync(&self) -> Option<bool> {
        self.board.figures().semi_sync
    }

    pub(super) fn set_semi_sync(&self, is_on: bool) {
        self.board.figures().semi_sync = Some(is_on);
    }

    pub(super) fn set_full(&self, is_full: bool) {
        self.board.figures().is_full = is_full;
    }

    /// Sets the place of the next event.
    pub(super) fn set_place(&self, place: Option<StoreEnd<'_>>) {
        let Some(place) = place else { return };
        let mut figures = self.board.figures();
        place.log.clone_into(&mut figures.log);
        figures.position = place.next;
    }

    /// Adds an event that was appended to the store. It starts at `position` in the source's log, whose format is
    /// `format`, if known. It counts once it is in the file. Returns true if any event was newly written to the file.
    pub(super) fn add_event(
        &mut self,
        event: &RawEvent<'_>,
        position: u64,
        format: Option<&EventFormat>,
        store: &StoreWriter,
    ) -> bool {
        let end = store.next_position();
        let is_some_written = self.count_written(store.written_position());
        // An event that fills the store's buffer is written directly.
        let is_written = end <= store.written_position();
        match is_written {
            true => self.board.figures().count_event(event, position, format),
            false => self.unwritten.push(event, position, format, end),
        }
        self.tick();
        is_written || is_some_written
    }

    /// Counts the events that the last log's file contains up to `end`.
    fn count_written(&mut self, end: u64) -> bool {
        if !self.unwritten.ends_at(end) {
            return false;
        }
        let mut figures = self.board.figures();
        self.unwritten.take_until(end, |event, position, format| figures.count_event(event, position, format))
    }

    /// Counts a sync to disk. Returns true if any event was newly written to the file.
    pub(super) fn count_sync(&mut self, store: &StoreWriter) -> bool {
        self.board.figures().syncs += 1;
        self.count_written(store.written_position())
    }

    /// Discards events that the store has lost on reopening.
    pub(super) fn discard_pending(&mut self, store: &StoreWriter) {
        let Some(place) = store.store_end() else { return };
        self.count_written(place.next);
        self.unwritten.clear();
        // After a change of the source, positions are those of the new source.
        if place.series.is_none() {
            self.set_place(Some(place));
        }
    }

    /// Adds bytes transferred over the network.
    pub(super) fn add_network_bytes(&self, bytes: u64) {
        self.board.figures().network_bytes += bytes;
    }

    /// Records that all events of the source were received.
    pub(super) fn set_caught_up(&self) {
        let mut figures = self.board.figures();
        figures.is_caught_up = true;
        figures.reached.complete_transaction();
    }

    pub(super) fn count_acknowledgement(&self) {
        self.board.figures().acknowledgements += 1;
    }

    pub(super) fn count_purged(&self, logs: usize) {
        self.board.figures().purged += logs as u64;
    }

    /// Updates the display if its interval has passed.
    pub(super) fn tick(&mut self) {
        let elapsed = self.began.elapsed();
        let mut figures = self.board.figures();
        figures.add_rate_sample(elapsed);
        if elapsed < self.due {
            return;
        }
        let text = match &self.screen {
            ProgressDisplay::Terminal(..) => figures.terminal_text(now_s()),
            ProgressDisplay::Lines | ProgressDisplay::Hidden => figures.line(now_s()),
        };
        let is_new = self.shown_bytes != Some(figures.bytes);
        self.shown_bytes = Some(figures.bytes);
        drop(figures);
        self.due = elapsed + self.screen.interval();
        match &mut self.screen {
            ProgressDisplay::Hidden => {}
            ProgressDisplay::Lines if is_new => screen::write_message(text),
            ProgressDisplay::Lines => {}
            ProgressDisplay::Terminal(bar, _) => {
                bar.get_or_insert_with(progress::spinner_line).set_message(visible_lines(&text))
            }
        }
    }

    /// Prints the result.
    pub(super) fn print(&mut self, folder: &Path, json: bool) -> CommandResult {
        self.screen.clear();
        let figures = self.board.figures();
        let mut out = io::stdout().lock();
        if json {
            serde_json::to_writer_pretty(&mut out, &figures.document(self.began.elapsed()))
                .map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        } else {
            screen::print(&figures.text(&folder.display().to_string()), &mut out)?;
            screen::print(&stats::compression(&figures.statistics.rows(), self.style), &mut out)?;
        }
        Ok(CommandVerdict::Success)
    }
}

fn now_s() -> i64 {
    Timestamp::now().as_second()
}
