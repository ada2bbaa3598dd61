//! Acknowledgements of semi-synchronous replication that wait for syncs to disk.

use std::collections::VecDeque;

use servers::LivePosition;

/// Maximum bytes that wait for the start of a sync while more events arrive.
const UNACKNOWLEDGED_MAX: u64 = 1 << 20;

/// Acknowledgements that wait for syncs to disk.
#[derive(Debug, Default)]
pub(crate) struct PendingAcks {
    /// Number of received bytes at the first requested acknowledgement without a started sync.
    since: Option<u64>,
    /// Positions to acknowledge after syncs, in order.
    waiting: VecDeque<PendingAck>,
}

/// Position to acknowledge after a sync.
#[derive(Debug)]
struct PendingAck {
    sync: u64,
    position: LivePosition,
}

impl PendingAcks {
    /// Records that the source waits for an acknowledgement of the last event. `bytes` is the number of received bytes.
    pub(crate) fn request(&mut self, bytes: u64) {
        self.since.get_or_insert(bytes);
    }

    /// Returns whether a sync must start after `bytes` received bytes, although more events have arrived.
    pub(crate) fn is_due(&self, bytes: u64) -> bool {
        self.since.is_some_and(|since| bytes >= since + UNACKNOWLEDGED_MAX)
    }

    /// Records the start of a sync that covers all events before `position`.
    pub(crate) fn start_sync(&mut self, sync: u64, position: impl FnOnce() -> LivePosition) {
        if self.since.take().is_none() {
            return;
        }
        let is_in_order = self.waiting.back().is_none_or(|last| last.sync <= sync);
        assert!(is_in_order, "ours: syncs are numbered in order");
        // One sync can cover several starts.
        if self.waiting.back().is_some_and(|last| last.sync == sync) {
            self.waiting.pop_back();
        }
        self.waiting.push_back(PendingAck { sync, position: position() });
    }

    /// Records the end of a sync. Returns the last position that may be acknowledged.
    pub(crate) fn end_sync(&mut self, sync: u64) -> Option<LivePosition> {
        let covered = self.waiting.iter().take_while(|waiting| waiting.sync <= sync).count();
        self.waiting.drain(..covered).next_back().map(|last| last.position)
    }
}

#[cfg(test)]
mod tests {
    use servers::LivePosition;

    use super::{PendingAcks, UNACKNOWLEDGED_MAX};

    fn live(position: u64) -> LivePosition {
        LivePosition::new(b"binlog.000001".to_vec(), position)
    }

    #[test]
    fn a_position_is_acknowledged_after_its_sync() {
        let mut acks = PendingAcks::default();
        acks.start_sync(1, || panic!("nothing is requested"));
        acks.request(100);
        assert!(!acks.is_due(99 + UNACKNOWLEDGED_MAX) && acks.is_due(100 + UNACKNOWLEDGED_MAX));
        assert_eq!(acks.end_sync(1), None, "its sync is not started");
        acks.start_sync(2, || live(100));
        assert!(!acks.is_due(u64::MAX));
        for position in [200, 300] {
            acks.request(position);
            acks.start_sync(3, || live(position));
        }
        assert_eq!(acks.end_sync(1), None);
        assert_eq!(acks.end_sync(2), Some(live(100)));
        acks.request(400);
        acks.start_sync(4, || live(400));
        assert_eq!(acks.end_sync(3), Some(live(300)));
        acks.request(500);
        acks.start_sync(5, || live(500));
        assert_eq!(acks.end_sync(5), Some(live(500)));
        assert!(acks.waiting.is_empty());
    }
}
