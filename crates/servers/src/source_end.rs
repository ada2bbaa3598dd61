//! Whether a source has sent all of its events.

/// Maximum age of an event on arrival, in seconds, at which the source is considered to have sent everything before. An
/// event has its time in whole seconds.
const RECENT_S: i64 = 2;

/// State of a stream: whether the source is known to have no newer events than those received.
///
/// That no event is waiting in the socket proves nothing: the next one may be delayed by a slow network. A heartbeat
/// proves it, because sources send heartbeats only while they have no event to send. Until the first heartbeat, the age
/// of the last event on its arrival shows it: through a slow network, old events arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceEnd {
    /// Difference between the source's clock and the local clock in seconds; positive if the source's clock is ahead.
    ahead_s: i64,
    is_reached: bool,
}

impl SourceEnd {
    /// Creates the state at the start of a stream. `source_s` is the source's time, and `now_s` the local time, both in
    /// seconds since 1970.
    pub(crate) fn new(source_s: Option<u64>, now_s: i64) -> Self {
        let source_s = source_s.and_then(|source_s| i64::try_from(source_s).ok());
        Self { ahead_s: source_s.map_or(0, |source_s| source_s - now_s), is_reached: false }
    }

    /// Records an event with this time in its header, in seconds since 1970 by the source's clock.
    pub(crate) fn take_event(&mut self, event_s: u32, now_s: i64) {
        self.is_reached = now_s + self.ahead_s - i64::from(event_s) <= RECENT_S;
    }

    /// Records a heartbeat.
    pub(crate) const fn take_heartbeat(&mut self) {
        self.is_reached = true;
    }

    /// Returns whether the source is known to have no newer events.
    pub(crate) const fn is_reached(self) -> bool {
        self.is_reached
    }
}

#[cfg(test)]
mod tests {
    use super::SourceEnd;

    #[test]
    fn only_recent_events_and_heartbeats_show_the_end() {
        // The source's clock is 100 seconds ahead.
        let mut end = SourceEnd::new(Some(1100), 1000);
        assert!(!end.is_reached());
        end.take_event(1050, 1001);
        assert!(!end.is_reached(), "an old event may be followed by others");
        end.take_heartbeat();
        assert!(end.is_reached());
        end.take_event(1051, 1002);
        assert!(!end.is_reached());
        end.take_event(1101, 1003);
        assert!(end.is_reached(), "the source has just written this event");
    }
}
