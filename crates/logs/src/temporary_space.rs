//! Limit on the size of temporary files.
//!
//! A transaction that does not fit in memory is stored in a file, and a few kilobytes of a compressed transaction can
//! decompress to any size. Other programs need the disk, too.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use nix::sys::statvfs::statvfs;

/// Limit set by [`limit_temporary_files`]; [`UNLIMITED`] means the default.
static TEMPORARY_MAX: AtomicU64 = AtomicU64::new(UNLIMITED);
/// Size of all temporary files of this process, in bytes.
static TEMPORARY_USED: AtomicU64 = AtomicU64::new(0);

const UNLIMITED: u64 = u64::MAX;

/// Limits the total size of this process's temporary files. By default, these files may use half of the space that
/// would be free without them.
pub fn limit_temporary_files(bytes_max: u64) {
    TEMPORARY_MAX.store(bytes_max, Ordering::Relaxed);
}

/// Part of the limit used by one file.
#[derive(Debug)]
pub(crate) struct TemporarySpace {
    directory: PathBuf,
    bytes: u64,
}

impl TemporarySpace {
    /// Creates the entry of an empty file in `directory`.
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), bytes: 0 }
    }

    /// Reserves space for the file to grow to this size.
    ///
    /// # Errors
    ///
    /// Fails if all files together would exceed the limit.
    pub(crate) fn grow(&mut self, bytes: u64) -> io::Result<()> {
        let more = bytes.saturating_sub(self.bytes);
        let used = TEMPORARY_USED.fetch_add(more, Ordering::Relaxed);
        self.bytes += more;
        assert!(bytes <= self.bytes, "ours: the size of the file is reserved");
        let max = match TEMPORARY_MAX.load(Ordering::Relaxed) {
            UNLIMITED => half_of_free(&self.directory, used),
            max => max,
        };
        if used.saturating_add(more) <= max {
            return Ok(());
        }
        self.shrink(more);
        Err(io::Error::other(TemporaryFilesFull { directory: self.directory.clone(), max }))
    }

    fn shrink(&mut self, less: u64) {
        assert!(less <= self.bytes, "ours: a file releases only reserved bytes");
        self.bytes -= less;
        TEMPORARY_USED.fetch_sub(less, Ordering::Relaxed);
    }
}

impl Drop for TemporarySpace {
    fn drop(&mut self) {
        self.shrink(self.bytes);
    }
}

/// Returns half of the space that would be free in a directory's file system without these files; no limit if unknown.
fn half_of_free(directory: &Path, used: u64) -> u64 {
    statvfs(directory).map_or(u64::MAX, |found| {
        let free = found.blocks_available().saturating_mul(found.fragment_size());
        free.saturating_add(used) / 2
    })
}

/// Error: temporary files would exceed their limit.
#[derive(Debug)]
struct TemporaryFilesFull {
    directory: PathBuf,
    max: u64,
}

impl fmt::Display for TemporaryFilesFull {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { directory, max } = self;
        let directory = directory.display();
        write!(
            out,
            "temporary files in {directory} would exceed {max} bytes; increase --temporary-max, or set TMPDIR to a \
             larger disk"
        )
    }
}

impl std::error::Error for TemporaryFilesFull {}

#[cfg(test)]
mod tests {
    use super::half_of_free;

    #[test]
    fn own_files_do_not_reduce_the_limit() {
        let directory = std::env::temp_dir();
        let (free, used) = (half_of_free(&directory, 0), half_of_free(&directory, 1 << 60));
        assert!(free > 0 && used >= 1 << 59, "{free} {used}");
        assert_eq!(half_of_free("/nonexistent".as_ref(), 0), u64::MAX);
    }
}
