//! Identity of a file, independent of its path.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

/// Identity of an existing file: two paths with the same identity name one file, also through links or mounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    device: u64,
    inode: u64,
}

impl FileIdentity {
    /// Returns the identity of the file at a path.
    ///
    /// # Errors
    ///
    /// Fails if the file's metadata cannot be read.
    pub fn of_path(path: &Path) -> io::Result<Self> {
        fs::metadata(path).map(|metadata| Self::of(&metadata))
    }

    /// Returns the identity of the file with this metadata.
    pub fn of(metadata: &Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::FileIdentity;

    #[test]
    fn links_and_indirect_paths_name_one_file() {
        let directory = tempfile::tempdir().unwrap();
        let [log, copy, soft, hard] = ["log", "copy", "soft", "hard"].map(|name| directory.path().join(name));
        fs::write(&log, "text").unwrap();
        fs::write(&copy, "text").unwrap();
        symlink(&log, &soft).unwrap();
        fs::hard_link(&log, &hard).unwrap();
        let identity = FileIdentity::of_path(&log).unwrap();
        for same in [&soft, &hard, &directory.path().join(".").join("log")] {
            assert_eq!(FileIdentity::of_path(same).unwrap(), identity, "{}", same.display());
        }
        assert_ne!(FileIdentity::of_path(&copy).unwrap(), identity);
        assert!(FileIdentity::of_path(&directory.path().join("none")).is_err());
    }
}
