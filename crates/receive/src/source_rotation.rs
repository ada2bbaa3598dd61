//! Order of the sources, and the pauses between attempts.

use std::time::Duration;

/// Minimum and maximum pause before an attempt, after a lost source or a full disk.
pub(crate) const BACKOFF_MIN: Duration = Duration::from_millis(500);
pub(crate) const BACKOFF_MAX: Duration = Duration::from_secs(30);
/// Attempts with a lost source before the next source is tried. These attempts take about as long as a restart.
const ATTEMPTS_MAX: u32 = 4;

/// Rotation over the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceRotation {
    count: usize,
    now: usize,
    /// Consecutive failed connections to the current source.
    attempts: u32,
    /// Consecutive sources with a permanent error.
    permanent_failures: usize,
    pause: Duration,
    /// Changes of the source since the last received event.
    passed: usize,
    phase: RotationPhase,
    /// True if the attempts go on although no source was reachable at first.
    retries_at_first: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RotationPhase {
    /// No source has sent its log yet; the number of failed attempts.
    First(usize),
    /// No source has sent its log yet, and each has failed once. The attempts go on.
    Retrying,
    /// A source has sent its log.
    Begun,
}

/// Kind of failure of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SourceTrouble {
    /// The source is unreachable, and may come back.
    Lost,
    /// The source cannot continue after the stored transactions yet.
    Unsuitable,
    /// The source refuses the connection or the login until a setting there changes.
    Denied,
    /// The error is permanent.
    Permanent,
}

impl SourceRotation {
    pub(crate) const fn of(count: usize) -> Self {
        assert!(count > 0, "ours: the caller has at least one source");
        Self {
            count,
            now: 0,
            attempts: 0,
            permanent_failures: 0,
            pause: BACKOFF_MIN,
            passed: 0,
            phase: RotationPhase::First(0),
            retries_at_first: false,
        }
    }

    /// Returns this rotation, whose attempts go on although no source is reachable at first.
    pub(crate) const fn retrying_at_first(self) -> Self {
        Self { retries_at_first: true, ..self }
    }

    /// Returns the index of the current source.
    pub(crate) const fn current(&self) -> usize {
        self.now
    }

    /// Records that a source sends its log.
    pub(crate) const fn set_begun(&mut self) {
        self.phase = RotationPhase::Begun;
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.phase == RotationPhase::Begun
    }

    /// Forgets earlier errors: the source has sent new events, or was corrected.
    pub(crate) const fn reset(&mut self) {
        (self.attempts, self.permanent_failures, self.passed) = (0, 0, 0);
    }

    /// Returns the pause before the next attempt, with this source or the next source; `None` if all errors are
    /// permanent.
    pub(crate) fn next_backoff(&mut self, trouble: SourceTrouble) -> Option<Duration> {
        if let RotationPhase::First(failed) = self.phase {
            let is_last = failed + 1 == self.count;
            if !is_last || !self.retries_at_first {
                self.phase = RotationPhase::First(failed + 1);
                self.advance();
                return (!is_last).then_some(Duration::ZERO);
            }
            self.phase = RotationPhase::Retrying;
        }
        assert!(
            self.now < self.count && self.permanent_failures < self.count,
            "ours: the run ends if all errors are permanent"
        );
        self.permanent_failures =
            if trouble == SourceTrouble::Permanent { self.permanent_failures + 1 } else { 0 };
        if self.permanent_failures == self.count {
            return None;
        }
        self.attempts += 1;
        self.pause = if self.attempts == 1 { BACKOFF_MIN } else { (self.pause * 2).min(BACKOFF_MAX) };
        if self.count > 1 && (trouble != SourceTrouble::Lost || self.attempts == ATTEMPTS_MAX) {
            let round = (self.passed / self.count).min(u16::BITS as usize) as u32;
            self.passed += 1;
            self.advance();
            return Some((BACKOFF_MIN * 2_u32.pow(round)).min(BACKOFF_MAX));
        }
        if trouble == SourceTrouble::Denied {
            // A server may lock an account after several failed logins.
            self.pause = BACKOFF_MAX;
        }
        assert!(self.pause <= BACKOFF_MAX, "ours: a pause has a limit");
        Some(self.pause)
    }

    const fn advance(&mut self) {
        assert!(self.now < self.count, "ours: the current source is one of the sources");
        (self.now, self.attempts) = ((self.now + 1) % self.count, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::SourceTrouble::{Denied, Lost, Permanent, Unsuitable};
    use super::{SourceRotation, SourceTrouble};

    /// Returns the pauses in milliseconds, and the current source after each.
    fn turns(rotation: &mut SourceRotation, troubles: &[SourceTrouble]) -> Vec<(Option<u128>, usize)> {
        let mut next = |trouble: &SourceTrouble| {
            let pause = rotation.next_backoff(*trouble).map(|pause| pause.as_millis());
            (pause, rotation.current())
        };
        troubles.iter().map(&mut next).collect()
    }

    fn begun(count: usize) -> SourceRotation {
        let mut rotation = SourceRotation::of(count);
        rotation.set_begun();
        rotation
    }

    #[test]
    fn backoff_of_one_source_grows() {
        let mut rotation = begun(1);
        let waits = [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000];
        let expected: Vec<_> = waits.iter().map(|wait| (Some(*wait), 0)).collect();
        assert_eq!(turns(&mut rotation, &[Lost; 8]), expected);
        rotation.reset();
        assert_eq!(turns(&mut rotation, &[Lost, Permanent]), [(Some(500), 0), (None, 0)]);
    }

    #[test]
    fn rotation_leaves_an_unreachable_source() {
        let mut rotation = begun(2);
        let expected = [(500, 0), (1000, 0), (2000, 0), (500, 1), (500, 1), (500, 0), (1000, 1)];
        let expected: Vec<_> = expected.iter().map(|(wait, now)| (Some(*wait), *now)).collect();
        assert_eq!(turns(&mut rotation, &[Lost, Lost, Lost, Lost, Lost, Unsuitable, Unsuitable]), expected);
        let mut rotation = begun(2);
        assert_eq!(
            turns(&mut rotation, &[Unsuitable, Unsuitable, Permanent]),
            [(Some(500), 1), (Some(500), 0), (Some(1000), 1)]
        );
        assert_eq!(turns(&mut rotation, &[Permanent]), [(None, 1)]);
    }

    #[test]
    fn rotation_ends_if_no_source_is_reachable_at_first() {
        assert_eq!(turns(&mut SourceRotation::of(1), &[Lost]), [(None, 0)]);
        let mut rotation = SourceRotation::of(3);
        let expected = [(Some(0), 1), (Some(0), 2), (None, 0)];
        assert_eq!(turns(&mut rotation, &[Lost, Permanent, Unsuitable]), expected);
    }
    #[test]
    fn attempts_go_on_at_first_if_requested() {
        let mut rotation = SourceRotation::of(2).retrying_at_first();
        let expected = [(0, 1), (500, 1), (1000, 1), (2000, 1), (500, 0)];
        let expected: Vec<_> = expected.iter().map(|(wait, now)| (Some(*wait), *now)).collect();
        assert_eq!(turns(&mut rotation, &[Lost; 5]), expected);
        assert!(!rotation.has_begun());
        let mut rotation = SourceRotation::of(1).retrying_at_first();
        assert_eq!(turns(&mut rotation, &[Lost, Permanent]), [(Some(500), 0), (None, 0)]);
    }

    #[test]
    fn denied_logins_are_repeated_at_long_intervals() {
        let mut rotation = begun(1);
        let expected = [(Some(30_000), 0), (Some(30_000), 0), (Some(30_000), 0), (None, 0)];
        assert_eq!(turns(&mut rotation, &[Denied, Denied, Lost, Permanent]), expected);
        rotation.reset();
        assert_eq!(turns(&mut rotation, &[Lost]), [(Some(500), 0)]);
        let mut rotation = begun(2);
        assert_eq!(
            turns(&mut rotation, &[Denied, Denied, Denied]),
            [(Some(500), 1), (Some(500), 0), (Some(1000), 1)]
        );
    }
}
