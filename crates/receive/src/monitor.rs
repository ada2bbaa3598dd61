//! Counts received events, and reports progress.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use binlog::{EventFormat, RawEvent};
use inspect::stats::CompressionCounter;
use logs::{LogError, StoreEnd, StoreWriter, lock, now_s, now_us};
use rewrite::RewriteTally;
use servers::ServerAddress;
use wire::SourceFacts;

use crate::compression_statistics::StoredFormCount;
use crate::error::ReceiveError;
use crate::pending_events::PendingEvents;
use crate::receive_stats::ReceiveStats;
use crate::received_gtids::ReceivedGtids;
use crate::reporter::ReceiveReporter;
use crate::source_status::ConnectionTrouble;

/// Minimum interval between reports of progress.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// Statistics, shared between threads.
#[derive(Clone, Debug, Default)]
pub struct SharedReceiveStats(Arc<Mutex<ReceiveStats>>);

/// Counts received events and reports progress.
pub(crate) struct ReceiveMonitor {
    began: Instant,
    stats: SharedReceiveStats,
    reporter: Arc<dyn ReceiveReporter>,
    /// Time of the next report.
    due: Duration,
    /// Events that count once the store has written them to its file.
    pending: PendingEvents,
    /// Number of the last sync that is counted.
    ended_sync: u64,
}

impl SharedReceiveStats {
    /// Reads the current statistics. Blocks receiving until `read` returns.
    pub fn read<T>(&self, read: impl FnOnce(&ReceiveStats) -> T) -> T {
        read(&self.figures())
    }

    /// Resets the sizes of received and stored transactions.
    pub fn reset_compression(&self) {
        self.figures().statistics.reset();
    }

    /// Counts a compressed log.
    pub(crate) fn count_compressed_log(&self, tally: &RewriteTally) {
        let mut figures = self.figures();
        figures.compressed_logs += 1;
        figures.compressed_from += tally.bytes_before;
        figures.compressed_to += tally.bytes_after;
    }

    /// Sets the number of closed logs that wait for compression.
    pub(crate) fn set_logs_to_compress(&self, logs: u64) {
        self.figures().to_compress = logs;
    }

    /// Counts a failed attempt to compress a log.
    pub(crate) fn count_compression_failure(&self) {
        self.figures().failed_compressions += 1;
    }

    /// Sets the time at which the transactions of the next log count as stored. Returns the counts of the log that was
    /// just closed, as received, unless they count already.
    pub(crate) fn close_log(&self, next: StoredFormCount) -> Option<CompressionCounter> {
        self.figures().statistics.close_log(next)
    }

    /// Adds the compression statistics of a closed log.
    pub(crate) fn count_stored_log(&self, counted: CompressionCounter) {
        self.figures().statistics.log(counted);
    }

    fn figures(&self) -> MutexGuard<'_, ReceiveStats> {
        lock(&self.0)
    }
}

impl ReceiveMonitor {
    pub(crate) fn new(reporter: Arc<dyn ReceiveReporter>) -> Self {
        let (stats, pending) = (SharedReceiveStats::default(), PendingEvents::default());
        Self { began: Instant::now(), stats, reporter, due: Duration::ZERO, pending, ended_sync: 0 }
    }

    /// Returns the time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    pub(crate) fn stats(&self) -> SharedReceiveStats {
        self.stats.clone()
    }

    /// Reads the GTIDs of the stored transactions. If the last log cannot be read, the statistics show only new GTIDs.
    pub(crate) fn read_stored_gtids(&self, directory: &Path, keyring: Option<&Path>) {
        if let Ok(received_gtids) = ReceivedGtids::read_store(directory, keyring) {
            self.stats.figures().received_gtids = received_gtids;
        }
    }

    /// Returns the bytes of received events.
    pub(crate) fn bytes(&self) -> u64 {
        self.stats.figures().bytes
    }

    /// Records the address of the source for the next connection.
    pub(crate) fn set_source(&self, address: &ServerAddress) {
        self.stats.figures().source.address = Some(address.clone());
    }

    /// Records an error of the connection.
    pub(crate) fn set_error(&self, error: &ReceiveError) {
        let mut figures = self.stats.figures();
        let was_connected = std::mem::take(&mut figures.source.was_connected);
        figures.source.last_error = Some(ConnectionTrouble::new(error, was_connected, now_us()));
    }

    /// Counts a heartbeat of the source.
    pub(crate) fn count_heartbeat(&self) {
        let mut figures = self.stats.figures();
        figures.source.heartbeats += 1;
        figures.source.last_heartbeat_us = Some(now_us());
    }

    /// Records a connection to a source with these properties.
    pub(crate) fn set_connected(&self, facts: &SourceFacts) {
        let mut figures = self.stats.figures();
        figures.connections += 1;
        (figures.is_connected, figures.is_caught_up) = (true, false);
        let source = &mut figures.source;
        (source.server_id, source.server_uuid) = (facts.server_id, facts.server_uuid.clone());
        source.gtid_mode.clone_from(&facts.gtid_mode);
        (source.last_error, source.was_connected) = (None, true);
        let clock_s = facts.clock_s.and_then(|clock| i64::try_from(clock).ok());
        figures.ahead_s = clock_s.map_or(0, |clock| clock.saturating_sub(now_s()));
    }

    pub(crate) fn set_disconnected(&self) {
        self.stats.figures().is_connected = false;
    }

    /// Returns whether the source waits for acknowledgements; `None` before the first connection.
    pub(crate) fn semi_sync(&self) -> Option<bool> {
        self.stats.figures().semi_sync
    }

    pub(crate) fn set_semi_sync(&self, is_on: bool) {
        self.stats.figures().semi_sync = Some(is_on);
    }

    /// Records that the disk is full.
    pub(crate) fn set_full(&self, error: &LogError) {
        let mut figures = self.stats.figures();
        figures.is_full = true;
        figures.source.last_error = Some(ConnectionTrouble::disk_full(error, now_us()));
    }

    /// Records that the disk has space again.
    pub(crate) fn set_free(&self) {
        let mut figures = self.stats.figures();
        figures.is_full = false;
        figures.source.last_error = None;
    }

    /// Sets the position of the next event.
    pub(crate) fn set_end(&self, end: Option<StoreEnd<'_>>) {
        let Some(end) = end else { return };
        let mut figures = self.stats.figures();
        end.log.clone_into(&mut figures.log);
        figures.position = end.next;
        figures.set_stored(&end);
    }

    /// Adds an event that was appended to the store. It starts at `position` in the source's log. `format` is the
    /// format of that log, if known. The event counts once it is in the file. Returns true if an event was newly
    /// written to the file.
    pub(crate) fn add_event(
        &mut self,
        event: &RawEvent<'_>,
        position: u64,
        format: Option<&EventFormat>,
        store: &StoreWriter,
    ) -> bool {
        let end = store.next_position();
        let is_some_written = self.count_written(store.written_position());
        // An event that fills the store's buffer is immediately written.
        let is_written = end <= store.written_position();
        match is_written {
            true => {
                let mut figures = self.stats.figures();
                figures.count_event(event, position, format);
                figures.stored_position = end;
            }
            false => self.pending.push(event, position, format, end),
        }
        self.tick();
        is_written || is_some_written
    }

    /// Counts the events that the last log's file contains up to `end`.
    fn count_written(&mut self, end: u64) -> bool {
        if !self.pending.ends_at(end) {
            return false;
        }
        let mut figures = self.stats.figures();
        let written = self
            .pending
            .take_until(end, |event, position, format| figures.count_event(event, position, format));
        figures.stored_position = written.unwrap_or(figures.stored_position);
        written.is_some()
    }

    /// Counts a sync to disk. Returns true if an event was newly written to the file.
    pub(crate) fn count_sync(&mut self, store: &StoreWriter) -> bool {
        self.stats.figures().syncs += 1;
        self.count_written(store.written_position())
    }

    /// Counts the events that the store has written to its file. Returns true if at least one event was counted.
    pub(crate) fn record_written(&mut self, store: &StoreWriter) -> bool {
        self.count_written(store.written_position())
    }

    /// Returns the number of the last counted sync.
    pub(crate) const fn ended_sync(&self) -> u64 {
        self.ended_sync
    }

    /// Records the number of the store's last completed sync, and counts it.
    pub(crate) fn record_ended_sync(&mut self, sync: u64) {
        if sync > self.ended_sync {
            self.stats.figures().syncs += sync - self.ended_sync;
            self.ended_sync = sync;
        }
    }

    /// Discards events that the store has lost on reopening.
    pub(crate) fn discard_pending(&mut self, store: &StoreWriter) {
        let Some(end) = store.store_end() else { return };
        self.count_written(end.next);
        self.pending.clear();
        self.stats.figures().set_stored(&end);
        // After a change of the source, positions refer to the logs of the new source.
        if end.series.is_none() {
            self.set_end(Some(end));
        }
    }

    /// Adds bytes transferred over the network.
    pub(crate) fn add_network_bytes(&self, bytes: u64) {
        self.stats.figures().network_bytes += bytes;
    }

    /// Records whether the source is known to have no event that is not received.
    pub(crate) fn set_caught_up(&self, is_caught_up: bool) {
        self.stats.figures().set_caught_up(is_caught_up, now_s());
    }

    pub(crate) fn count_acknowledgement(&self) {
        self.stats.figures().acknowledgements += 1;
    }

    pub(crate) fn count_purged(&self, logs: usize) {
        self.stats.figures().purged += logs as u64;
    }

    /// Reports progress if the interval has passed.
    pub(crate) fn tick(&mut self) {
        let elapsed = self.began.elapsed();
        if elapsed >= self.due {
            self.due = elapsed + PROGRESS_INTERVAL;
            self.reporter.progress(&self.stats);
        }
    }
}
