//! Whether a source has sent all of its events.

use std::time::Duration;

/// Maximum age of an event on arrival, in seconds, at which the source is considered to have sent everything before. An
/// event has its time in whole seconds.
const RECENT_S: i64 = 2;

/// Number of heartbeat intervals without a packet after which the source may have events that are delayed.
const SILENT_INTERVALS: u32 = 2;

/// State of a stream: whether the source is known to have no newer events than those received.
///
/// That no event is waiting in the socket proves nothing: the next one may be delayed by a slow network. A heartbeat at
/// the end of the last event proves it. While a source skips events that the replica has, it also sends heartbeats, each
/// at another position; at its end, it repeats the position. Until a heartbeat proves it, the age of the last event on
/// its arrival shows it: through a slow network, old events arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SourceEnd {
    /// Difference between the source's clock and the local clock in seconds; positive if the source's clock is ahead.
    ahead_s: i64,
    /// Silence after which the state is unknown, in seconds; `None` if the source sends no heartbeats.
    silence_max_s: Option<i64>,
    /// Position of the last heartbeat, if no event has followed.
    heartbeat_position: Option<u64>,
    /// Local time of the last packet that showed the end, if no other event has followed.
    reached_s: Option<i64>,
}

/// A heartbeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HeartbeatArrival {
    /// Position in the source's log.
    pub(crate) position: u64,
    /// Position after the last received event.
    pub(crate) received_end: u64,
    /// Local time in seconds since 1970.
    pub(crate) now_s: i64,
}

impl SourceEnd {
    /// Creates the state at the start of a stream. `source_s` is the source's time, and `now_s` the local time, both in
    /// seconds since 1970. `heartbeat` is the interval of heartbeats; zero if there are none.
    pub(crate) fn new(source_s: Option<u64>, now_s: i64, heartbeat: Duration) -> Self {
        let source_s = source_s.and_then(|source_s| i64::try_from(source_s).ok());
        let silence_s = heartbeat.saturating_mul(SILENT_INTERVALS).as_secs().saturating_add(1);
        Self {
            ahead_s: source_s.map_or(0, |source_s| source_s.saturating_sub(now_s)),
            silence_max_s: i64::try_from(silence_s).ok().filter(|_| !heartbeat.is_zero()),
            heartbeat_position: None,
            reached_s: None,
        }
    }

    /// Records an event with this time in its header, in seconds since 1970 by the source's clock.
    pub(crate) fn take_event(&mut self, event_s: u32, now_s: i64) {
        let age_s = now_s.saturating_add(self.ahead_s).saturating_sub(event_s.into());
        self.reached_s = (age_s <= RECENT_S).then_some(now_s);
        self.heartbeat_position = None;
    }

    /// Records a heartbeat. Returns whether it repeats the position of the last one: the source waits for new events.
    pub(crate) fn take_heartbeat(&mut self, heartbeat: HeartbeatArrival) -> bool {
        let HeartbeatArrival { position, received_end, now_s } = heartbeat;
        let is_repeated = self.heartbeat_position.replace(position) == Some(position);
        let is_end = is_repeated || position == received_end;
        self.reached_s = is_end.then_some(now_s);
        is_repeated
    }

    /// Returns whether the source is known to have no newer events.
    pub(crate) fn is_reached(self, now_s: i64) -> bool {
        let is_silent = |since: i64| self.silence_max_s.is_some_and(|max| now_s.saturating_sub(since) > max);
        self.reached_s.is_some_and(|reached_s| !is_silent(reached_s))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{HeartbeatArrival, SourceEnd};

    const INTERVAL: Duration = Duration::from_secs(5);

    fn heartbeat(position: u64, received_end: u64, now_s: i64) -> HeartbeatArrival {
        HeartbeatArrival { position, received_end, now_s }
    }

    #[test]
    fn only_recent_events_and_heartbeats_show_the_end() {
        // The source's clock is 100 seconds ahead.
        let mut end = SourceEnd::new(Some(1100), 1000, INTERVAL);
        assert!(!end.is_reached(1000));
        end.take_event(1050, 1001);
        assert!(!end.is_reached(1001), "an old event may be followed by others");
        assert!(!end.take_heartbeat(heartbeat(400, 400, 1001)));
        assert!(end.is_reached(1001));
        end.take_event(1051, 1002);
        assert!(!end.is_reached(1002));
        end.take_event(1101, 1003);
        assert!(end.is_reached(1003), "the source has just written this event");
    }

    #[test]
    fn heartbeats_of_a_source_that_skips_events_show_no_end() {
        let mut end = SourceEnd::new(None, 1000, INTERVAL);
        assert!(!end.take_heartbeat(heartbeat(500, 400, 1001)));
        assert!(!end.take_heartbeat(heartbeat(700, 500, 1002)));
        assert!(!end.is_reached(1002));
        assert!(end.take_heartbeat(heartbeat(700, 700, 1007)));
        assert!(end.is_reached(1007));
    }

    #[test]
    fn the_end_is_unknown_after_a_silence() {
        let mut end = SourceEnd::new(None, 1000, INTERVAL);
        end.take_heartbeat(heartbeat(400, 400, 1000));
        assert!(end.is_reached(1011) && !end.is_reached(1012));
        let mut end = SourceEnd::new(None, 1000, Duration::ZERO);
        end.take_event(1000, 1000);
        assert!(end.is_reached(1_000_000), "without heartbeats, silence is normal");
    }

    #[test]
    fn clocks_may_be_anywhere() {
        let mut end = SourceEnd::new(Some(i64::MAX as u64), -1, INTERVAL);
        end.take_event(0, i64::MAX);
        assert!(!end.is_reached(i64::MAX));
    }
}
