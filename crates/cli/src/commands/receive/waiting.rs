//! Which closed log is compressed next, and when one with which that failed is tried again. Time is handed in.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a log that could not be compressed is left alone, at first and at most.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(10 * 60);

/// What became of closed logs. It knows no more of them than the index names.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    done: HashSet<PathBuf>,
    failed: HashMap<PathBuf, Failed>,
}

#[derive(Clone, Copy, Debug)]
struct Failed {
    pause: Duration,
    /// When it is tried again.
    due: Duration,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next<'l> {
    /// Compress this one.
    Log(&'l Path),
    /// Nothing, for so long.
    Rest(Duration),
    /// Nothing, until another log is closed.
    Wait,
}

impl Waiting {
    /// Of these logs, the oldest that is to be compressed now.
    pub(super) fn next<'l>(&self, closed: &'l [PathBuf], now: Duration) -> Next<'l> {
        let is_due = |log: &&PathBuf| self.failed.get(*log).is_none_or(|failed| failed.due <= now);
        if let Some(log) = closed.iter().filter(|log| !self.done.contains(*log)).find(is_due) {
            return Next::Log(log);
        }
        let due = closed.iter().filter_map(|log| Some(self.failed.get(log)?.due)).min();
        due.map_or(Next::Wait, |due| Next::Rest(due.saturating_sub(now)))
    }

    /// The oldest with which nothing was tried yet.
    pub(super) fn untried<'l>(&self, closed: &'l [PathBuf]) -> Option<&'l Path> {
        let is_untried = |log: &&PathBuf| !self.done.contains(*log) && !self.failed.contains_key(*log);
        closed.iter().find(is_untried).map(PathBuf::as_path)
    }

    /// It has the form in which it is kept.
    pub(super) fn done(&mut self, log: &Path) {
        self.failed.remove(log);
        self.done.insert(log.to_owned());
    }

    /// It could not be compressed; says how long it is left alone.
    pub(super) fn failed(&mut self, log: &Path, now: Duration) -> Duration {
        let pause = self.failed.get(log).map_or(PAUSE_MIN, |failed| (failed.pause * 2).min(PAUSE_MAX));
        self.failed.insert(log.to_owned(), Failed { pause, due: now + pause });
        pause
    }

    /// How many are still to be compressed.
    pub(super) fn count(&self, closed: &[PathBuf]) -> u64 {
        closed.iter().filter(|log| !self.done.contains(*log)).count() as u64
    }

    /// Logs that are not there any more are of no interest.
    pub(super) fn forget(&mut self, closed: &[PathBuf]) {
        let kept: HashSet<&PathBuf> = closed.iter().collect();
        self.done.retain(|log| kept.contains(log));
        self.failed.retain(|log, _| kept.contains(log));
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use super::{Next, Waiting};

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_oldest_comes_first_and_a_failed_one_later_and_later() {
        let closed = ["1", "2", "3"].map(PathBuf::from);
        let mut waiting = Waiting::default();
        assert_eq!(waiting.next(&closed, s(0)), Next::Log(Path::new("1")));
        assert_eq!(waiting.failed(Path::new("1"), s(0)), s(1));
        assert_eq!(waiting.next(&closed, s(0)), Next::Log(Path::new("2")));
        waiting.done(Path::new("2"));
        assert_eq!(waiting.next(&closed, s(1)), Next::Log(Path::new("1")));
        assert_eq!(waiting.untried(&closed), Some(Path::new("3")));
        waiting.done(Path::new("3"));
        for pause in [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600] {
            assert_eq!(waiting.failed(Path::new("1"), s(10)), s(pause));
            assert_eq!(waiting.next(&closed, s(10)), Next::Rest(s(pause)));
        }
        assert_eq!((waiting.untried(&closed), waiting.count(&closed)), (None, 1));
        waiting.done(Path::new("1"));
        assert_eq!((waiting.next(&closed, s(0)), waiting.count(&closed)), (Next::Wait, 0));
    }

    #[test]
    fn what_was_purged_is_forgotten() {
        let closed = ["1", "2"].map(PathBuf::from);
        let mut waiting = Waiting::default();
        waiting.done(Path::new("1"));
        waiting.failed(Path::new("2"), s(0));
        waiting.forget(&closed[1..]);
        assert_eq!(waiting.next(&closed[1..], s(0)), Next::Rest(s(1)));
        waiting.forget(&[]);
        assert_eq!(waiting.next(&closed, s(0)), Next::Log(Path::new("1")));
        assert_eq!(waiting.count(&closed), 2);
    }
}
