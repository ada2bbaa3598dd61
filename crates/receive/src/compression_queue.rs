//! Queue of closed logs to compress, with retries. Time is a parameter.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Minimum and maximum pause after a failed attempt.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(10 * 60);

/// State of closed logs. Drops logs that the index no longer lists.
#[derive(Debug, Default)]
pub(crate) struct CompressionQueue {
    done: HashSet<PathBuf>,
    failed: HashMap<PathBuf, RetrySchedule>,
}

#[derive(Clone, Copy, Debug)]
struct RetrySchedule {
    pause: Duration,
    /// Time of the next attempt.
    due: Duration,
}

/// Next step of the compressor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum QueueStep<'l> {
    /// Compress this log.
    Log(&'l Path),
    /// Wait for this time.
    WaitFor(Duration),
    /// Wait for another closed log.
    Wait,
}

impl CompressionQueue {
    /// Returns the oldest log that is due now, or the time to wait.
    pub(crate) fn next<'l>(&self, closed: &'l [PathBuf], now: Duration) -> QueueStep<'l> {
        let is_due = |log: &&PathBuf| self.failed.get(*log).is_none_or(|failed| failed.due <= now);
        if let Some(log) = closed.iter().filter(|log| !self.done.contains(*log)).find(is_due) {
            return QueueStep::Log(log);
        }
        let due = closed.iter().filter_map(|log| Some(self.failed.get(log)?.due)).min();
        due.map_or(QueueStep::Wait, |due| QueueStep::WaitFor(due.saturating_sub(now)))
    }

    /// Returns the oldest log that was never tried.
    pub(crate) fn untried<'l>(&self, closed: &'l [PathBuf]) -> Option<&'l Path> {
        let is_untried = |log: &&PathBuf| !self.done.contains(*log) && !self.failed.contains_key(*log);
        closed.iter().find(is_untried).map(PathBuf::as_path)
    }

    /// Records that a log is compressed.
    pub(crate) fn mark_done(&mut self, log: &Path) {
        self.failed.remove(log);
        self.done.insert(log.to_owned());
    }

    /// Records a failed attempt. Returns the pause before the next attempt.
    pub(crate) fn mark_failed(&mut self, log: &Path, now: Duration) -> Duration {
        assert!(!self.done.contains(log), "ours: a compressed log is not tried again");
        let pause = self.failed.get(log).map_or(BACKOFF_MIN, |failed| (failed.pause * 2).min(BACKOFF_MAX));
        assert!((BACKOFF_MIN..=BACKOFF_MAX).contains(&pause), "ours: the pause between attempts has limits");
        self.failed.insert(log.to_owned(), RetrySchedule { pause, due: now + pause });
        pause
    }

    /// Returns the number of logs to compress.
    pub(crate) fn count(&self, closed: &[PathBuf]) -> u64 {
        closed.iter().filter(|log| !self.done.contains(*log)).count() as u64
    }

    /// Removes logs that no longer exist.
    pub(crate) fn retain_closed(&mut self, closed: &[PathBuf]) {
        let kept: HashSet<&PathBuf> = closed.iter().collect();
        self.done.retain(|log| kept.contains(log));
        self.failed.retain(|log, _| kept.contains(log));
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::time::Duration;

    use super::{CompressionQueue, QueueStep};

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn the_oldest_log_is_first_and_failed_logs_back_off() {
        let closed = ["1", "2", "3"].map(PathBuf::from);
        let mut waiting = CompressionQueue::default();
        assert_eq!(waiting.next(&closed, s(0)), QueueStep::Log(Path::new("1")));
        assert_eq!(waiting.mark_failed(Path::new("1"), s(0)), s(1));
        assert_eq!(waiting.next(&closed, s(0)), QueueStep::Log(Path::new("2")));
        waiting.mark_done(Path::new("2"));
        assert_eq!(waiting.next(&closed, s(1)), QueueStep::Log(Path::new("1")));
        assert_eq!(waiting.untried(&closed), Some(Path::new("3")));
        waiting.mark_done(Path::new("3"));
        for pause in [2, 4, 8, 16, 32, 64, 128, 256, 512, 600, 600] {
            assert_eq!(waiting.mark_failed(Path::new("1"), s(10)), s(pause));
            assert_eq!(waiting.next(&closed, s(10)), QueueStep::WaitFor(s(pause)));
        }
        assert_eq!((waiting.untried(&closed), waiting.count(&closed)), (None, 1));
        waiting.mark_done(Path::new("1"));
        assert_eq!((waiting.next(&closed, s(0)), waiting.count(&closed)), (QueueStep::Wait, 0));
    }

    #[test]
    fn purged_logs_are_removed() {
        let closed = ["1", "2"].map(PathBuf::from);
        let mut waiting = CompressionQueue::default();
        waiting.mark_done(Path::new("1"));
        waiting.mark_failed(Path::new("2"), s(0));
        waiting.retain_closed(&closed[1..]);
        assert_eq!(waiting.next(&closed[1..], s(0)), QueueStep::WaitFor(s(1)));
        waiting.retain_closed(&[]);
        assert_eq!(waiting.next(&closed, s(0)), QueueStep::Log(Path::new("1")));
        assert_eq!(waiting.count(&closed), 2);
    }
}
