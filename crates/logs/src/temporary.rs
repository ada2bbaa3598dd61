//! The bound on temporary files.
//!
//! A transaction that does not fit in memory waits in a file, and a few kilobytes of a compressed one can be of any
//! size. The disk belongs to other programs, too.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::statvfs::statvfs;

/// [`limit_temporary_files`]; [`UNLIMITED`] stands for the default.
static MAX: AtomicU64 = AtomicU64::new(UNLIMITED);
/// Bytes in all temporary files of this process.
static USED: AtomicU64 = AtomicU64::new(0);

const UNLIMITED: u64 = u64::MAX;

/// Bounds the temporary files of this process, all together. By default they may take half of the space that is free
/// without them.
pub fn limit_temporary_files(bytes_max: u64) {
    MAX.store(bytes_max, Ordering::Relaxed);
}

/// The share of one file in the bound.
#[derive(Debug)]
pub(crate) struct TemporarySpace {
    folder: PathBuf,
    bytes: u64,
}

impl TemporarySpace {
    /// For a file in `folder`, which has no bytes yet.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), bytes: 0 }
    }

    /// The file is to grow to this size.
    ///
    /// # Errors
    ///
    /// When all files together would be larger than allowed.
    pub(crate) fn grow(&mut self, bytes: u64) -> io::Result<()> {
        let more = bytes.saturating_sub(self.bytes);
        let used = USED.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
        let max = match MAX.load(Ordering::Relaxed) {
            UNLIMITED => half_of_free(&self.folder, used),
            max => max,
        };
        if used.saturating_add(more) <= max {
            return Ok(());
        }
        self.shrink(more);
        Err(io::Error::other(TemporaryFilesFull { folder: self.folder.clone(), max }))
    }

    fn shrink(&mut self, less: u64) {
        self.bytes -= less;
        USED.fetch_sub(less, Ordering::Relaxed);
    }
}

impl Drop for TemporarySpace {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

/// Half of what is free in a folder's file system without our files; no bound where that is not known.
fn half_of_free(folder: &Path, used: u64) -> u64 {
    statvfs(folder).map_or(u64::MAX, |found| {
        let free = found.blocks_available().saturating_mul(found.fragment_size());
        free.saturating_add(used) / 2
    })
}

/// Temporary files would be larger than allowed.
#[derive(Debug)]
struct TemporaryFilesFull {
    folder: PathBuf,
    max: u64,
}

impl fmt::Display for TemporaryFilesFull {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { folder, max } = self;
        let folder = folder.display();
        write!(
            out,
            "temporary files in {folder} would exceed {max} bytes; raise --temporary-max, or set TMPDIR to a \
             larger disk"
        )
    }
}

impl std::error::Error for TemporaryFilesFull {}

#[cfg(test)]
mod tests {
    use super::half_of_free;

    #[test]
    fn own_files_do_not_shrink_the_bound() {
        let folder = std::env::temp_dir();
        let (free, used) = (half_of_free(&folder, 0), half_of_free(&folder, 1 << 60));
        assert!(free > 0 && used >= 1 << 59, "{free} {used}");
        assert_eq!(half_of_free("/nonexistent".as_ref(), 0), u64::MAX);
    }
}
