//! Queue of closed logs to compress, with retries. Time is a parameter.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Minimum and maximum pause after a failed attempt.
const PAUSE_MIN: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(10 * 60);

/// State of closed logs. Logs that the index no longer lists are removed.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    done: HashSet<PathBuf>,
    failed: HashMap<PathBuf, Failed>,
}

#[derive(Clone, Copy, Debug)]
struct Failed {
    pause: Duration,
    /// Time of the next attempt.
    due: Duration,
}

/// Next step of the compressor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next<'l> {
    /// Compress this log.
    Log(&'l Path),
    /// Wait for this time.
    Rest(Duration),
    /// Wait for another closed log.
    Wait,
}

impl Waiting {
    /// Returns the oldest log that is due now, or how long to wait.
    pub(super) fn next<'l>(&self, closed: &'l [PathBuf], now: Duration) -> Next<'l> {
        let is_due = |log: &&PathBuf| self.failed.get(*log).is_none_or(|failed| failed.due <= now);
        if let Some(log) = closed.iter().filter(|log| !self.done.contains(*log)).find(is_due) {
            return Next::Log(log);
        }
        let due = closed.iter().filter_map(|log| Some(self.failed.get(log)?.due)).min();
        due.map_or(Next::Wait, |due| Next::Rest(due.saturating_sub(now)))
    }

    /// Returns the oldest log without any attempt.
    pub(super) fn untried<'l>(&self, closed: &'l [PathBuf]) -> Option<&'l Path> {
        let is_untried = |log: &&PathBuf| !self.done.contains(*log) && !self.failed.contains_key(*log);
        closed.iter().find(is_untried).map(PathBuf::as_path)
    }

    /// Records that a log is compressed.
    pub(super) fn done(&mut self, log: &Path) {
        self.failed.remove(log);
        self.done.insert(log.to_owned());
    }

    /// Records a failed attempt. Returns the pause before the next one.
    pub(super) fn failed(&mut self, log: &Path, now: Duration) -> Duration {
        let pause = self.failed.get(log).map_or(PAUSE_MIN, |failed| (failed.pause * 2).min(PAUSE_MAX));
        self.failed.insert(log.to_owned(), Failed { pause, due: now + pause });
        pause
    }

    /// Returns the number of logs to compress.
    pub(super) fn count(&self, closed: &[PathBuf]) -> u64 {
        closed.iter().filter(|log| !self.done.contains(*log)).count() as u64
    }

    /// Removes logs that no longer exist.
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
