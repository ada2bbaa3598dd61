//! Paths created for a store, and removed if the store remains empty.

use std::fs;
use std::path::{Path, PathBuf};

use crate::error::LogError;
use crate::own_files::make_directories;

/// New paths, in the order of their creation. Dropping the value removes them, unless they are kept.
#[derive(Debug, Default)]
pub(crate) struct CreatedPaths(Vec<PathBuf>);

impl CreatedPaths {
    /// Creates a directory and its missing parents.
    pub(crate) fn create_directory(directory: &Path) -> Result<Self, LogError> {
        let is_there = |path: &&Path| !path.as_os_str().is_empty() && path.exists();
        let there = directory.ancestors().find(is_there);
        if let Some(file) = there.filter(|there| !there.is_dir()) {
            return Err(LogError::NotADirectory { name: file.display().to_string() });
        }
        make_directories(directory).map(Self)
    }

    /// Adds a file that is about to be created, unless it exists.
    pub(crate) fn add_if_missing(&mut self, path: &Path) {
        // A dangling symbolic link exists, too.
        if path.symlink_metadata().is_err() {
            self.0.push(path.to_owned());
        }
    }

    pub(crate) fn keep(&mut self) {
        self.0.clear();
    }
}

impl Drop for CreatedPaths {
    fn drop(&mut self) {
        for path in self.0.iter().rev() {
            // A directory that contains other files remains.
            let _ = fs::remove_file(path).or_else(|_| fs::remove_dir(path));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::CreatedPaths;

    #[test]
    fn created_paths_are_removed_unless_kept_or_used() {
        let there = tempfile::tempdir().unwrap();
        let before = there.path().join("before");
        fs::write(&before, "").unwrap();
        let (outer, inner) = (there.path().join("outer"), there.path().join("outer/inner"));
        let make = || {
            let mut made = CreatedPaths::create_directory(&inner).unwrap();
            made.add_if_missing(&inner.join("file"));
            made.add_if_missing(&before);
            fs::write(inner.join("file"), "").unwrap();
            made
        };
        drop(make());
        assert!(!outer.exists() && before.exists());
        let made = make();
        fs::write(inner.join("another's"), "").unwrap();
        drop(made);
        assert!(inner.join("another's").exists() && !inner.join("file").exists());
        fs::remove_dir_all(&outer).unwrap();
        make().keep();
        assert!(inner.join("file").exists());
        let error = CreatedPaths::create_directory(&before.join("in it")).unwrap_err().to_string();
        let expected = "before is a file; expected a directory: give another path, or remove the file";
        assert!(error.ends_with(expected), "{error}");
    }
}
