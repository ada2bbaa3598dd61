//! Interval between heartbeats.

use std::time::{Duration, Instant};

/// Timer of heartbeats. The first one is due immediately.
#[derive(Clone, Debug)]
pub(super) struct HeartbeatTimer {
    interval: Duration,
    last: Option<Instant>,
}

impl HeartbeatTimer {
    pub(super) const fn new(interval: Duration) -> Self {
        Self { interval, last: None }
    }

    /// Returns whether a heartbeat is due at `now`, and starts the next interval then.
    pub(super) fn take_due(&mut self, now: Instant) -> bool {
        let is_due = self.last.is_none_or(|last| now.duration_since(last) >= self.interval);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::HeartbeatTimer;

    #[test]
    fn heartbeats_come_at_their_interval() {
        let (mut timer, start) = (HeartbeatTimer::new(Duration::from_secs(2)), Instant::now());
        let due = [0, 1, 2, 3, 5].map(|seconds| timer.take_due(start + Duration::from_secs(seconds)));
        assert_eq!(due, [true, false, true, false, true]);
    }
}
