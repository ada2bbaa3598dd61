//! From where to where: positions, times, and how many events to pass over.

use binlog::Header;

/// From where to where. What is inside a payload goes with the payload's event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    /// Where to start, in the first log.
    pub start_position: u64,
    /// Where to stop, in the last log: at the first event that starts here or behind.
    pub stop_position: u64,
    /// Start at the first event that is no older: seconds since 1970.
    pub start_time: u64,
    /// Stop at the first event that is no older: seconds since 1970.
    pub stop_time: u64,
    /// Events to leave out at the start.
    pub leave_out: u64,
}

impl Default for Range {
    /// Everything.
    fn default() -> Self {
        Self { start_position: 4, stop_position: u64::MAX, start_time: 0, stop_time: u64::MAX, leave_out: 0 }
    }
}

/// Which of several logs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) is_first: bool,
    pub(crate) is_last: bool,
}

/// What to do with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Take,
    Skip,
    /// End here: neither this event nor any other.
    Stop,
}

impl Range {
    /// Where to start in this log, if not at its start.
    pub(crate) fn start_of(&self, place: Place) -> Option<u64> {
        (place.is_first && self.start_position > 4).then_some(self.start_position)
    }

    /// Judges an event that starts at `position`, all of them in order, and remembers what it has seen.
    pub(crate) fn judge(&mut self, position: u64, header: &Header, place: Place) -> Verdict {
        let time = u64::from(header.timestamp);
        if place.is_last && position >= self.stop_position {
            return Verdict::Stop;
        }
        if self.start_of(place).is_some_and(|start| position < start) {
            return Verdict::Skip;
        }
        if self.leave_out > 0 {
            self.leave_out -= 1;
            return Verdict::Skip;
        }
        if time < self.start_time {
            return Verdict::Skip;
        }
        // From here on every event counts, older or not: clocks are set back.
        self.start_time = 0;
        match time >= self.stop_time {
            true => Verdict::Stop,
            false => Verdict::Take,
        }
    }
}
