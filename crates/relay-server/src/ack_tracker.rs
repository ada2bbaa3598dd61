//! Acknowledgements of one replica, and the relay's syncs that they cover.

use std::collections::VecDeque;

/// Tracks the acknowledgements of one replica. Uses positions in the replica's form.
#[derive(Debug, Default)]
pub(crate) struct AckTracker {
    /// End of the last event for which an acknowledgement was requested.
    requested: Option<AckPosition>,
    /// Last acknowledged position.
    acknowledged: Option<AckPosition>,
    /// Syncs that are not acknowledged yet, in order.
    waiting: VecDeque<WaitingSync>,
}

/// Position in a log.
#[derive(Clone, Debug, PartialEq, Eq)]
struct AckPosition {
    log: String,
    position: u64,
}

/// Position that a replica must acknowledge for a sync.
#[derive(Debug)]
struct WaitingSync {
    sync: u64,
    position: AckPosition,
}

/// Maximum number of waiting syncs. Beyond this number, the last syncs count as one. A limit is needed because a
/// replica may never acknowledge.
const WAITING_MAX: usize = 1024;

impl AckTracker {
    /// Records that an acknowledgement is requested for the event that ends here.
    pub(crate) fn request(&mut self, log: &str, position: u64) {
        let requested = self.requested.get_or_insert(AckPosition { log: String::new(), position });
        if requested.log != log {
            log.clone_into(&mut requested.log);
        }
        requested.position = position;
    }

    /// Records that all events of a sync are sent. Returns the sync if it needs no further acknowledgement.
    pub(crate) fn sent_all(&mut self, sync: u64) -> Option<u64> {
        let Some(position) = self.requested.clone().filter(|position| !self.is_acknowledged(position)) else {
            self.waiting.clear();
            return Some(sync);
        };
        if self.waiting.len() == WAITING_MAX {
            self.waiting.pop_back();
        }
        self.waiting.push_back(WaitingSync { sync, position });
        None
    }

    /// Takes an acknowledgement. Returns the last sync that it covers.
    pub(crate) fn take(&mut self, log: &[u8], position: u64) -> Option<u64> {
        let log = String::from_utf8_lossy(log).into_owned();
        self.acknowledged = Some(AckPosition { log, position });
        let covered = self.waiting.iter().rposition(|waiting| self.is_acknowledged(&waiting.position))?;
        self.waiting.drain(..=covered).next_back().map(|waiting| waiting.sync)
    }

    fn is_acknowledged(&self, position: &AckPosition) -> bool {
        let acknowledged = self.acknowledged.as_ref();
        acknowledged.is_some_and(|found| found.log == position.log && found.position >= position.position)
    }
}

#[cfg(test)]
mod tests {
    use super::{AckTracker, WAITING_MAX};

    #[test]
    fn acknowledgements_cover_all_earlier_syncs() {
        let mut tracker = AckTracker::default();
        assert_eq!(tracker.sent_all(1), Some(1), "no acknowledgement was requested");
        tracker.request("a.000001", 100);
        assert_eq!(tracker.sent_all(2), None);
        tracker.request("a.000001", 200);
        tracker.request("a.000002", 50);
        assert_eq!(tracker.sent_all(3), None);
        assert_eq!(tracker.take(b"a.000001", 90), None);
        assert_eq!(tracker.take(b"a.000001", 200), Some(2));
        assert_eq!(tracker.take(b"a.000002", 50), Some(3));
        assert_eq!(tracker.sent_all(4), Some(4), "no events were sent since");
    }

    #[test]
    fn early_acknowledgements_count() {
        let mut tracker = AckTracker::default();
        tracker.request("a.000001", 100);
        assert_eq!(tracker.take(b"a.000001", 100), None);
        assert_eq!(tracker.sent_all(1), Some(1));
    }

    #[test]
    fn replicas_that_never_acknowledge_take_little_memory() {
        let mut tracker = AckTracker::default();
        for sync in 1..10_000 {
            tracker.request("a.000001", sync * 100);
            assert_eq!(tracker.sent_all(sync), None);
            assert!(tracker.waiting.len() <= WAITING_MAX);
        }
        assert_eq!(tracker.take(b"a.000001", 999_900), Some(9999));
    }
}
