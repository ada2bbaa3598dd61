//! Progress of `receive`: on a terminal, as lines, and as metrics.

use std::io::{self, Write as _};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use binlog::{Format, RawEvent};
use inspect::stats::CompressionCounter;
use jiff::Timestamp;
use logs::{StorePlace, StoreWriter};
use rewrite::Tally;

use crate::args::Global;
use crate::commands::receive::figures::Figures;
use crate::commands::receive::reached::Reached;
use crate::commands::receive::statistics::Keeping;
use crate::commands::receive::unwritten::Unwritten;
use crate::commands::stats;
use crate::exit::{Outcome, Verdict};
use crate::progress::{self, Screen};
use crate::screen::{self, Style, visible_lines};

/// Interval at which a terminal is updated.
const TERMINAL_PERIOD: Duration = Duration::from_millis(250);

/// Statistics, shared between threads.
#[derive(Clone, Debug, Default)]
pub(super) struct Board(Arc<Mutex<Figures>>);

/// Counts received events and shows progress.
pub(crate) struct Watch {
    began: Instant,
    board: Board,
    screen: Screen,
    /// Style of the printed result.
    style: Style,
    /// Time of the next update.
    due: Duration,
    /// Received bytes when a line was last shown.
    shown_bytes: Option<u64>,
    /// Events that count once the store has written them to its file.
    unwritten: Unwritten,
}

impl Board {
    /// Returns the metrics as text.
    pub(super) fn sheet(&self) -> String {
        self.figures().sheet(now_s())
    }

    /// Counts a compressed log.
    pub(super) fn compressed(&self, tally: &Tally) {
        let mut figures = self.figures();
        figures.compressed_logs += 1;
        figures.compressed_from += tally.bytes_before;
        figures.compressed_to += tally.bytes_after;
    }

    /// Sets the number of closed logs that wait for compression.
    pub(super) fn to_compress(&self, logs: u64) {
        self.figures().to_compress = logs;
    }

    /// Counts a failed attempt to compress a log.
    pub(super) fn compression_failed(&self) {
        self.figures().failed_compressions += 1;
    }

    /// Makes compression statistics count logs when they are compressed, not when they are received.
    pub(super) fn keep_later(&self) {
        self.figures().statistics.keeping = Keeping::Later;
    }

    /// Adds the compression statistics of a closed log.
    pub(super) fn kept(&self, counted: CompressionCounter) {
        self.figures().statistics.log(counted);
    }

    fn figures(&self) -> MutexGuard<'_, Figures> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch {
    pub(crate) fn new(global: &Global) -> Self {
        Self::on(Screen::new(global, TERMINAL_PERIOD), Style::new(global.color.on_stdout()))
    }

    /// Returns a monitor that counts but shows nothing.
    pub(crate) fn silent() -> Self {
        Self::on(Screen::Nowhere, Style::new(false))
    }

    fn on(screen: Screen, style: Style) -> Self {
        let due = screen.patience();
        let (board, unwritten) = (Board::default(), Unwritten::default());
        Self { began: Instant::now(), board, screen, style, due, shown_bytes: None, unwritten }
    }

    /// Returns the time since the start.
    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(super) fn board(&self) -> Board {
        self.board.clone()
    }

    /// Reads the stored GTIDs, for a display that shows them.
    pub(super) fn opened(&self, folder: &Path, keyring: Option<&Path>) {
        if let Screen::Terminal(..) = self.screen
            && let Ok(reached) = Reached::of(folder, keyring)
        {
            self.board.figures().reached = reached;
        }
    }

    /// Returns the bytes of received events.
    pub(super) fn bytes(&self) -> u64 {
        self.board.figures().bytes
    }

    /// Records a connection to a source with this clock.
    pub(super) fn connected(&self, clock_s: Option<u64>) {
        let mut figures = self.board.figures();
        figures.connections += 1;
        figures.is_connected = true;
        let clock_s = clock_s.and_then(|clock| i64::try_from(clock).ok());
        figures.ahead_s = clock_s.map_or(0, |clock| clock - now_s());
    }

    pub(super) fn disconnected(&self) {
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
    pub(super) fn place(&self, place: Option<StorePlace<'_>>) {
        let Some(place) = place else { return };
        let mut figures = self.board.figures();
        place.log.clone_into(&mut figures.log);
        figures.position = place.next;
    }

    /// Adds an event that was appended to the store. It starts at `position` in the source's log, whose format is
    /// `format`, if known. It counts once it is in the file. Returns true if any event was newly written to the file.
    pub(super) fn event(
        &mut self,
        event: &RawEvent<'_>,
        position: u64,
        format: Option<&Format>,
        store: &StoreWriter,
    ) -> bool {
        let end = store.end();
        let is_some_written = self.written(store.written());
        // An event that fills the store's buffer is written directly.
        let is_written = end <= store.written();
        match is_written {
            true => self.board.figures().event(event, position, format),
            false => self.unwritten.push(event, position, format, end),
        }
        self.tick();
        is_written || is_some_written
    }

    /// Counts the events that the last log's file contains up to `end`.
    fn written(&mut self, end: u64) -> bool {
        if !self.unwritten.ends_at(end) {
            return false;
        }
        let mut figures = self.board.figures();
        self.unwritten.take_until(end, |event, position, format| figures.event(event, position, format))
    }

    /// Counts a sync to disk. Returns true if any event was newly written to the file.
    pub(super) fn synced(&mut self, store: &StoreWriter) -> bool {
        self.board.figures().syncs += 1;
        self.written(store.written())
    }

    /// Discards events that the store has lost on reopening.
    pub(super) fn reopened(&mut self, store: &StoreWriter) {
        let Some(place) = store.place() else { return };
        self.written(place.next);
        self.unwritten.forget();
        // After a change of the source, positions are those of the new source.
        if place.series.is_none() {
            self.place(Some(place));
        }
    }

    /// Adds bytes transferred over the network.
    pub(super) fn network(&self, bytes: u64) {
        self.board.figures().network_bytes += bytes;
    }

    /// Records that all events of the source were received.
    pub(super) fn caught_up(&self) {
        let mut figures = self.board.figures();
        figures.is_caught_up = true;
        figures.reached.settle();
    }

    pub(super) fn acknowledged(&self) {
        self.board.figures().acknowledgements += 1;
    }

    pub(super) fn purged(&self, logs: usize) {
        self.board.figures().purged += logs as u64;
    }

    /// Updates the display if its interval has passed.
    pub(super) fn tick(&mut self) {
        let elapsed = self.began.elapsed();
        let mut figures = self.board.figures();
        figures.mark(elapsed);
        if elapsed < self.due {
            return;
        }
        let text = match &self.screen {
            Screen::Terminal(..) => figures.view(now_s()),
            Screen::Lines | Screen::Nowhere => figures.line(now_s()),
        };
        let is_new = self.shown_bytes != Some(figures.bytes);
        self.shown_bytes = Some(figures.bytes);
        drop(figures);
        self.due = elapsed + self.screen.period();
        match &mut self.screen {
            Screen::Nowhere => {}
            Screen::Lines if is_new => screen::remark(text),
            Screen::Lines => {}
            Screen::Terminal(bar, _) => {
                bar.get_or_insert_with(progress::line).set_message(visible_lines(&text))
            }
        }
    }

    /// Prints the result.
    pub(super) fn print(&mut self, folder: &Path, json: bool) -> Outcome {
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
        Ok(Verdict::Fine)
    }
}

fn now_s() -> i64 {
    Timestamp::now().as_second()
}
