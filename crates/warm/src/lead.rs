//! How far ahead of the applier the touches are.

use std::collections::VecDeque;

use crate::place::Place;

/// How far ahead of the applier the touches are, and which of the changes that are ahead it is at.
#[derive(Clone, Debug, Default)]
pub struct Lead {
    marks: VecDeque<Mark>,
    ahead: Mark,
}

/// What goes up to a place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The place behind it.
    pub place: Place,
    /// Events.
    pub events: u64,
    /// Pages touched, about.
    pub touches: u64,
    /// When the source wrote the last of it, in seconds since 1970.
    pub timestamp: u32,
}

impl Lead {
    /// This comes behind all that came before.
    pub fn add(&mut self, mark: Mark) {
        self.ahead.events += mark.events;
        self.ahead.touches += mark.touches;
        (self.ahead.place, self.ahead.timestamp) = (mark.place, mark.timestamp);
        match self.marks.back_mut() {
            Some(last) if last.takes(&mark) => {
                last.events += mark.events;
                last.touches += mark.touches;
                (last.place, last.timestamp) = (mark.place, mark.timestamp);
            }
            _ => self.marks.push_back(mark),
        }
    }

    /// The applier is at this place: what is in front of it is behind us.
    pub fn pass(&mut self, applier: Place) -> Mark {
        let mut passed = Mark::default();
        while let Some(mark) = self.marks.front().copied().filter(|mark| mark.place <= applier) {
            self.marks.pop_front();
            self.ahead.events -= mark.events;
            self.ahead.touches -= mark.touches;
            passed.events += mark.events;
            passed.touches += mark.touches;
            (passed.place, passed.timestamp) = (mark.place, mark.timestamp);
        }
        passed
    }

    /// All that is ahead of the applier.
    pub const fn ahead(&self) -> &Mark {
        &self.ahead
    }

    /// Seconds of the source between the change that the applier is at and the last one that was touched for.
    pub fn seconds(&self) -> u32 {
        let first = self.marks.front().map_or(self.ahead.timestamp, |mark| mark.timestamp);
        self.ahead.timestamp.saturating_sub(first)
    }

    /// Forgets all: touching begins anew, elsewhere.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

impl Mark {
    /// Can one mark say both? A few events for which nothing was touched, too, need no marks of their own.
    fn takes(&self, next: &Self) -> bool {
        let is_nothing = self.touches == 0 && next.touches == 0 && self.timestamp == next.timestamp;
        self.place == next.place || (is_nothing && self.events < EVENTS_TOGETHER)
    }
}

/// Events for which nothing was touched, in one mark, at most.
const EVENTS_TOGETHER: u64 = 64;

#[cfg(test)]
mod tests {
    use super::{Lead, Mark};
    use crate::place::Place;

    fn at(offset: u64) -> Place {
        Place { log: 1, offset }
    }

    #[test]
    fn what_the_applier_passed_is_not_ahead() {
        let mut lead = Lead::default();
        for (offset, touches, timestamp) in [(100, 1, 10), (100, 2, 10), (200, 4, 12), (300, 8, 17)] {
            lead.add(Mark { place: at(offset), events: 1, touches, timestamp });
        }
        let mut check = |applier, passed, ahead, seconds| {
            assert_eq!(lead.pass(at(applier)).touches, passed, "{applier}");
            assert_eq!((lead.ahead().touches, lead.seconds()), (ahead, seconds), "{applier}");
        };
        check(99, 0, 15, 7);
        check(100, 3, 12, 5);
        check(299, 4, 8, 0);
        check(300, 8, 0, 0);
        assert_eq!(lead.ahead().events, 0);
    }

    #[test]
    fn events_that_need_nothing_take_little_room() {
        let mut lead = Lead::default();
        for offset in 0..1000 {
            lead.add(Mark { place: at(offset), events: 1, touches: 0, timestamp: 10 });
        }
        assert_eq!((lead.marks.len(), lead.ahead().events), (16, 1000));
        lead.add(Mark { place: at(1000), events: 1, touches: 5, timestamp: 10 });
        assert_eq!((lead.pass(at(999)).events, lead.ahead().touches), (1000, 5));
    }
}
