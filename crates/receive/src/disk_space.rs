//! Disk space of a store: decides when to write to a full disk again. Time is a parameter.

use std::path::Path;
use std::time::Duration;

use nix::sys::statvfs::statvfs;
use nix::unistd::geteuid;

use crate::source_rotation::{BACKOFF_MAX, BACKOFF_MIN};

/// Free space required beyond the failed write: a percentage of the disk, with a minimum and a maximum in bytes. With
/// less, the disk would soon be full again.
const MARGIN_SHARE: u64 = 100;
const MARGIN_MIN: u64 = 1 << 20;
const MARGIN_MAX: u64 = 64 << 20;

/// Space of a disk, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DiskSpace {
    pub(crate) free: u64,
    size: u64,
}

impl DiskSpace {
    /// Returns the space of a directory's disk; `None` if the system does not report it. Ignores quotas.
    pub(crate) fn of(directory: &Path) -> Option<Self> {
        let found = statvfs(directory).ok()?;
        // Only root may use reserved blocks.
        let free = if geteuid().is_root() { found.blocks_free() } else { found.blocks_available() };
        let size = found.fragment_size();
        Some(Self { free: free.saturating_mul(size), size: found.blocks().saturating_mul(size) })
    }

    /// Returns the space that must be free to write this number of bytes.
    pub(crate) fn needed(&self, bytes: u64) -> u64 {
        bytes.saturating_add((self.size / MARGIN_SHARE).clamp(MARGIN_MIN, MARGIN_MAX))
    }
}

/// State of a store on a full disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DiskFullBackoff {
    /// Bytes of the failed write.
    lacking: u64,
    pause: Option<Duration>,
    /// Earliest time of the next attempt.
    due: Duration,
}

impl DiskFullBackoff {
    /// Records a failed write of this number of bytes.
    pub(crate) fn found(&mut self, lacking: u64, now: Duration) {
        let pause = self.pause.map_or(BACKOFF_MIN, |pause| (pause * 2).min(BACKOFF_MAX));
        assert!((BACKOFF_MIN..=BACKOFF_MAX).contains(&pause));
        (self.lacking, self.pause, self.due) = (lacking, Some(pause), now + pause);
    }

    /// Returns whether the next attempt is due and enough space is free. Ignores limits that the system does not
    /// report, such as quotas: only the attempt shows them.
    pub(crate) fn is_over(&self, space: Option<DiskSpace>, now: Duration) -> bool {
        self.due <= now && space.is_none_or(|space| space.free >= space.needed(self.lacking))
    }

    /// Returns whether unwritten events remain. If there are none, free space alone ends the state.
    pub(crate) fn lacks_events(&self) -> bool {
        self.lacking > 0
    }

    /// Returns the required free space; `None` if enough is free, or the free space is unknown.
    pub(crate) fn needed(&self, space: Option<DiskSpace>) -> Option<u64> {
        let space = space?;
        Some(space.needed(self.lacking)).filter(|needed| *needed > space.free)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{DiskFullBackoff, DiskSpace, MARGIN_MAX, MARGIN_MIN};

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn attempts_need_free_space_and_become_rarer() {
        let disk = |free| Some(DiskSpace { free, size: 8 << 20 });
        let (mut backoff, mut now) = (DiskFullBackoff::default(), ms(0));
        for pause in [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000] {
            backoff.found(300_000, now);
            let enough = 300_000 + MARGIN_MIN;
            assert!(!backoff.is_over(disk(enough), now + ms(pause - 1)), "{pause}");
            assert!(!backoff.is_over(disk(enough - 1), now + ms(pause)), "{pause}");
            assert!(backoff.is_over(disk(enough), now + ms(pause)), "{pause}");
            assert!(backoff.is_over(None, now + ms(pause)), "{pause}");
            assert_eq!(backoff.needed(disk(enough - 1)), Some(enough));
            assert_eq!((backoff.needed(disk(enough)), backoff.needed(None)), (None, None));
            now += ms(pause);
        }
    }

    #[test]
    fn the_margin_depends_on_the_disk_size() {
        let needed = |size| DiskSpace { free: 0, size }.needed(7);
        assert_eq!(needed(0), 7 + MARGIN_MIN);
        assert_eq!(needed(1 << 30), 7 + (1 << 30) / 100);
        assert_eq!(needed(1 << 50), 7 + MARGIN_MAX);
    }

    #[test]
    fn disk_space_of_a_directory_is_read() {
        let space = DiskSpace::of(&std::env::temp_dir()).unwrap();
        assert!(space.size > 0 && space.free <= space.size, "{space:?}");
        assert_eq!(DiskSpace::of("/nowhere/at/all".as_ref()), None);
    }
}
