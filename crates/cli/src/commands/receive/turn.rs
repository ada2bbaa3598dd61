//! Order of the sources, and the pauses between attempts.

use std::time::Duration;

/// Minimum and maximum pause before an attempt, after a lost source or a full disk.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(500);
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(30);
/// Attempts with a lost source before the next source is tried: about the time of a restart.
const TRIES: u32 = 4;

/// Rotation over the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    count: usize,
    now: usize,
    /// Consecutive failed connections to the current source.
    tries: u32,
    /// Consecutive sources with a permanent error.
    hopeless: usize,
    pause: Duration,
    /// Changes of the source since the last received event.
    passed: usize,
    phase: Phase,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No source has sent its log yet; the number of failed attempts.
    First(usize),
    /// A source has sent its log.
    Begun,
}

/// Kind of a source's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// The source is unreachable, and may come back.
    Lost,
    /// The source cannot continue after the stored transactions yet.
    Unfit,
    /// The error is permanent.
    Hopeless,
}

impl Turn {
    pub(super) const fn of(count: usize) -> Self {
        Self { count, now: 0, tries: 0, hopeless: 0, pause: PAUSE_MIN, passed: 0, phase: Phase::First(0) }
    }

    /// Returns the index of the current source.
    pub(super) const fn now(&self) -> usize {
        self.now
    }

    /// Records that a source sends its log.
    pub(super) const fn begun(&mut self) {
        self.phase = Phase::Begun;
    }

    pub(super) fn has_begun(&self) -> bool {
        self.phase == Phase::Begun
    }

    /// Records that the source has sent new events.
    pub(super) const fn got_further(&mut self) {
        (self.tries, self.hopeless, self.passed) = (0, 0, 0);
    }

    /// Returns the pause before the next attempt, with this source or the next one; `None` if all errors are
    /// permanent.
    pub(super) fn after(&mut self, trouble: Trouble) -> Option<Duration> {
        if let Phase::First(failed) = self.phase {
            self.phase = Phase::First(failed + 1);
            self.advance();
            return (failed + 1 < self.count).then_some(Duration::ZERO);
        }
        self.hopeless = if trouble == Trouble::Hopeless { self.hopeless + 1 } else { 0 };
        if self.hopeless == self.count {
            return None;
        }
        self.tries += 1;
        self.pause = if self.tries == 1 { PAUSE_MIN } else { (self.pause * 2).min(PAUSE_MAX) };
        if self.count > 1 && (trouble != Trouble::Lost || self.tries == TRIES) {
            let round = (self.passed / self.count).min(u16::BITS as usize) as u32;
            self.passed += 1;
            self.advance();
            return Some((PAUSE_MIN * 2_u32.pow(round)).min(PAUSE_MAX));
        }
        Some(self.pause)
    }

    const fn advance(&mut self) {
        (self.now, self.tries) = ((self.now + 1) % self.count, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::Trouble::{Hopeless, Lost, Unfit};
    use super::{Trouble, Turn};

    /// Pauses in milliseconds, and the current source after each.
    fn turns(turn: &mut Turn, troubles: &[Trouble]) -> Vec<(Option<u128>, usize)> {
        let mut next = |trouble: &Trouble| {
            let pause = turn.after(*trouble).map(|pause| pause.as_millis());
            (pause, turn.now())
        };
        troubles.iter().map(&mut next).collect()
    }

    fn begun(count: usize) -> Turn {
        let mut turn = Turn::of(count);
        turn.begun();
        turn
    }

    #[test]
    fn one_source_is_tried_more_and_more_rarely() {
        let mut turn = begun(1);
        let waits = [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000];
        let wanted: Vec<_> = waits.iter().map(|wait| (Some(*wait), 0)).collect();
        assert_eq!(turns(&mut turn, &[Lost; 8]), wanted);
        turn.got_further();
        assert_eq!(turns(&mut turn, &[Lost, Hopeless]), [(Some(500), 0), (None, 0)]);
    }

    #[test]
    fn the_next_one_has_its_turn_when_one_stays_away() {
        let mut turn = begun(2);
        let wanted = [(500, 0), (1000, 0), (2000, 0), (500, 1), (500, 1), (500, 0), (1000, 1)];
        let wanted: Vec<_> = wanted.iter().map(|(wait, now)| (Some(*wait), *now)).collect();
        assert_eq!(turns(&mut turn, &[Lost, Lost, Lost, Lost, Lost, Unfit, Unfit]), wanted);
        let mut turn = begun(2);
        assert_eq!(
            turns(&mut turn, &[Unfit, Unfit, Hopeless]),
            [(Some(500), 1), (Some(500), 0), (Some(1000), 1)]
        );
        assert_eq!(turns(&mut turn, &[Hopeless]), [(None, 1)]);
    }

    #[test]
    fn when_none_can_be_reached_at_first_it_ends_at_once() {
        assert_eq!(turns(&mut Turn::of(1), &[Lost]), [(None, 0)]);
        let mut turn = Turn::of(3);
        let wanted = [(Some(0), 1), (Some(0), 2), (None, 0)];
        assert_eq!(turns(&mut turn, &[Lost, Hopeless, Unfit]), wanted);
    }
}
