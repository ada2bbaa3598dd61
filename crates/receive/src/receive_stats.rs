//! Statistics of a run. Time is a parameter.

use binlog::{EventFormat, EventType, RawEvent};
use logs::StoreEnd;

use crate::compression_statistics::CompressionStatistics;
use crate::received_gtids::ReceivedGtids;
use crate::source_status::SourceStatus;

/// Statistics of a `receive` run.
#[derive(Clone, Debug, Default)]
pub struct ReceiveStats {
    /// Received transactions.
    pub transactions: u64,
    /// Received events.
    pub events: u64,
    /// Bytes of received events.
    pub bytes: u64,
    /// Bytes transferred over the network: fewer if the connection is compressed.
    pub network_bytes: u64,
    /// Number of compressed logs.
    pub compressed_logs: u64,
    /// Bytes of these logs before compression.
    pub compressed_from: u64,
    /// Bytes of these logs after compression.
    pub compressed_to: u64,
    /// Closed logs that wait for compression.
    pub to_compress: u64,
    /// Failed attempts to compress a log.
    pub failed_compressions: u64,
    /// Connections on which the source sent its log.
    pub connections: u64,
    /// Deleted logs.
    pub purged: u64,
    /// Syncs to disk.
    pub syncs: u64,
    /// Acknowledgements sent to the source.
    pub acknowledgements: u64,
    /// Set if the source waits for acknowledgements. Known after the first connection.
    pub semi_sync: Option<bool>,
    /// Set while a source is connected.
    pub is_connected: bool,
    /// Set if all events of the source are known to be received.
    pub is_caught_up: bool,
    /// Local time at which they were last known to be received, in seconds since 1970.
    pub caught_up_s: Option<i64>,
    /// Set while the disk is full.
    pub is_full: bool,
    /// Current log of the source; empty before the first event.
    pub log: String,
    /// Position of the next event in that log.
    pub position: u64,
    /// File of the directory's last log; empty before the first event.
    pub stored_log: String,
    /// End of the last event in that file. Differs from `position` after a change of the source.
    pub stored_position: u64,
    /// Timestamp of the last event, in seconds since 1970 by the source's clock.
    pub last_s: Option<u32>,
    /// Difference between the source's clock and the local clock in seconds; positive if the source's clock is ahead.
    pub ahead_s: i64,
    /// Compression statistics of received and stored transactions.
    pub statistics: CompressionStatistics,
    /// Stored transactions.
    pub received_gtids: ReceivedGtids,
    /// Connection to the source.
    pub source: SourceStatus,
}

impl ReceiveStats {
    /// Sets the end of the directory.
    pub(crate) fn set_stored(&mut self, end: &StoreEnd<'_>) {
        end.file.clone_into(&mut self.stored_log);
        self.stored_position = end.next;
    }

    /// Records whether all events of the source are known to be received.
    pub(crate) fn set_caught_up(&mut self, is_caught_up: bool, now_s: i64) {
        self.is_caught_up = is_caught_up;
        if is_caught_up {
            self.caught_up_s = Some(now_s);
        }
    }

    /// Counts a stored event that starts at `position` in the source's log.
    pub(crate) fn count_event(&mut self, event: &RawEvent<'_>, position: u64, format: Option<&EventFormat>) {
        let size = event.bytes().len() as u64;
        self.events += 1;
        self.bytes += size;
        self.position = position + size;
        self.last_s = Some(event.header().timestamp);
        self.is_caught_up = false;
        if let Some(format) = format {
            self.statistics.event(event, format);
            self.received_gtids.add_event(event, format);
        }
        self.transactions += u64::from(begins_transaction(event.event_type()));
    }

    /// Returns 0 if all events are known to be received. Otherwise returns the age of the last event by the source's
    /// clock, or, if that is less, the time since all events were known to be received; `None` before the first event.
    pub fn lag_s(&self, now_s: i64) -> Option<u64> {
        if self.has_everything() {
            return Some(0);
        }
        let source_now_s = now_s.saturating_add(self.ahead_s);
        let last = self.last_s.filter(|last| *last > 0);
        let age_s = last.map(|last| source_now_s.saturating_sub(last.into()));
        let unknown_s = self.caught_up_s.map(|since| now_s.saturating_sub(since));
        let lag_s = age_s.into_iter().chain(unknown_s).min()?;
        Some(u64::try_from(lag_s).unwrap_or_default())
    }

    /// Returns whether a source is connected and has no event that is not received.
    pub const fn has_everything(&self) -> bool {
        self.is_caught_up && self.is_connected
    }

    /// Returns the bytes saved by the compression of closed logs; `None` if no log was compressed.
    pub fn bytes_saved(&self) -> Option<u64> {
        (self.compressed_logs > 0).then(|| self.compressed_from.saturating_sub(self.compressed_to))
    }
}

/// Returns whether the event begins a transaction. Servers since MySQL 5.6.5 and MariaDB 10.0.2 write such an event for
/// each transaction, with or without GTIDs.
fn begins_transaction(event_type: EventType) -> bool {
    matches!(
        event_type,
        EventType::Gtid | EventType::AnonymousGtid | EventType::GtidTagged | EventType::MariadbGtid
    )
}

#[cfg(test)]
mod tests {
    use super::ReceiveStats;

    #[test]
    fn lag_is_by_the_source_and_never_negative() {
        let mut figures =
            ReceiveStats { last_s: Some(1000), is_connected: true, ahead_s: 5, ..ReceiveStats::default() };
        assert_eq!((figures.lag_s(1000), figures.lag_s(900)), (Some(5), Some(0)));
        figures.is_caught_up = true;
        assert_eq!(figures.lag_s(1000), Some(0));
        figures.is_connected = false;
        assert_eq!(figures.lag_s(1000), Some(5));
        figures.last_s = None;
        assert_eq!(figures.lag_s(1000), None);
        figures.is_connected = true;
        assert_eq!(figures.lag_s(1000), Some(0));
    }

    #[test]
    fn lag_is_at_most_the_time_since_all_events_were_received() {
        let mut figures = ReceiveStats { last_s: Some(100), is_connected: true, ..ReceiveStats::default() };
        figures.set_caught_up(true, 1000);
        assert_eq!(figures.lag_s(1005), Some(0));
        figures.set_caught_up(false, 1012);
        assert_eq!(figures.lag_s(1012), Some(12));
        figures.last_s = Some(1008);
        assert_eq!(figures.lag_s(1012), Some(4));
    }
}
