//! Limits of a list: positions, times, and a number of events to skip.

use binlog::EventHeader;

/// Limits of a list. Events inside a payload are listed if the payload's event is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventRange {
    /// Start position in the first log.
    pub start_position: u64,
    /// Stop position in the last log: the list ends before the first event that starts here or later.
    pub stop_position: u64,
    /// Start time in seconds since 1970: the list starts at the first event that is not older.
    pub start_time: u64,
    /// Stop time in seconds since 1970: the list ends before the first event that is not older.
    pub stop_time: u64,
    /// Number of events to skip at the start.
    pub skip_count: u64,
}

impl Default for EventRange {
    /// Returns limits that include all events.
    fn default() -> Self {
        Self { start_position: 4, stop_position: u64::MAX, start_time: 0, stop_time: u64::MAX, skip_count: 0 }
    }
}

/// Rank of a log among several: first, last, both or neither.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LogRank {
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
}

/// Decision about an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RangeVerdict {
    Take,
    Skip,
    /// Stop: neither this event nor any later one is listed.
    Stop,
}

impl EventRange {
    /// Returns the start position in this log, unless that is the log's start.
    pub(crate) fn start_of(&self, rank: LogRank) -> Option<u64> {
        (rank.is_first && self.start_position > 4).then_some(self.start_position)
    }

    /// Decides about an event that starts at `position`. Must be called for all events in order.
    pub(crate) fn judge(&mut self, position: u64, header: &EventHeader, rank: LogRank) -> RangeVerdict {
        let time = u64::from(header.timestamp);
        if rank.is_last && position >= self.stop_position {
            return RangeVerdict::Stop;
        }
        if self.start_of(rank).is_some_and(|start| position < start) {
            return RangeVerdict::Skip;
        }
        if self.skip_count > 0 {
            self.skip_count -= 1;
            return RangeVerdict::Skip;
        }
        if time < self.start_time {
            return RangeVerdict::Skip;
        }
        // After the first event in range, older events count too: clocks may be set back.
        self.start_time = 0;
        match time >= self.stop_time {
            true => RangeVerdict::Stop,
            false => RangeVerdict::Take,
        }
    }
}
