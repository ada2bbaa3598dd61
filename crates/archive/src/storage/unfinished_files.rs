//! Files of uploads to a directory that were interrupted. The library writes an object to a file with `#` and a number
//! at the end of its name, renames it when it is complete, and hides such files from its lists.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use super::{ArchiveStorage, StoredObject, is_object_url};
use crate::archive_error::ArchiveError;

/// Returns whether a name is that of an unfinished file.
pub(crate) fn is_unfinished(name: &str) -> bool {
    let number = name.rsplit_once('#').map(|(_, number)| number);
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

impl ArchiveStorage {
    /// Returns the unfinished files below this directory. An object store has none.
    ///
    /// # Errors
    ///
    /// Fails if a directory cannot be read.
    pub(crate) fn unfinished_files(&self, directory: &str) -> Result<Vec<StoredObject>, ArchiveError> {
        let Some(root) = self.local_directory() else { return Ok(Vec::new()) };
        let mut found = Vec::new();
        add_unfinished(&root, directory, &mut found)
            .map_err(|cause| self.local_failure("list", directory, cause))?;
        Ok(found)
    }

    /// Deletes an unfinished file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be deleted.
    pub(crate) fn delete_unfinished(&self, name: &str) -> Result<(), ArchiveError> {
        let Some(root) = self.local_directory() else { return Ok(()) };
        match fs::remove_file(root.join(name)) {
            Err(cause) if cause.kind() != ErrorKind::NotFound => {
                Err(self.local_failure("delete", name, cause))
            }
            _ => Ok(()),
        }
    }

    fn local_directory(&self) -> Option<PathBuf> {
        (!is_object_url(self.location())).then(|| PathBuf::from(self.location()))
    }

    fn local_failure(&self, verb: &'static str, name: &str, cause: io::Error) -> ArchiveError {
        ArchiveError::Storage { verb, name: self.full_name(name), cause: cause.into() }
    }
}

fn add_unfinished(root: &Path, directory: &str, found: &mut Vec<StoredObject>) -> io::Result<()> {
    let entries = match fs::read_dir(root.join(directory)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let file_name = entry.file_name();
        let Some(file_name) = file_name.to_str() else { continue };
        let name = format!("{directory}/{file_name}");
        let metadata = match entry.metadata() {
            // It was complete meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            metadata => metadata?,
        };
        if metadata.is_dir() {
            add_unfinished(root, &name, found)?;
        } else if is_unfinished(&name) {
            let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default();
            let modified_at = i64::try_from(modified.as_secs()).unwrap_or(i64::MAX);
            found.push(StoredObject { name, size: metadata.len(), modified_at });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::is_unfinished;
    use crate::storage::{ArchiveStorage, MissingDirectory};

    #[test]
    fn unfinished_files_are_found_and_deleted() {
        let directory = tempfile::tempdir().unwrap();
        let storage =
            ArchiveStorage::open(directory.path().to_str().unwrap(), MissingDirectory::Refuse).unwrap();
        assert!(storage.unfinished_files("tables").unwrap().is_empty());
        let day = directory.path().join("tables/table=t/day=1");
        fs::create_dir_all(&day).unwrap();
        for name in ["a.parquet", "a.parquet#1", "b#x"] {
            fs::write(day.join(name), "1").unwrap();
        }
        let found = storage.unfinished_files("tables").unwrap();
        let [file] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!((file.name.as_str(), file.size), ("tables/table=t/day=1/a.parquet#1", 1));
        storage.delete_unfinished(&file.name).unwrap();
        storage.delete_unfinished(&file.name).unwrap();
        assert_eq!(fs::read_dir(&day).unwrap().count(), 2);
    }

    #[test]
    fn unfinished_files_end_with_a_number() {
        let check = |name: &str, expected| assert_eq!(is_unfinished(name), expected, "{name}");
        check("segments/b.000001.0011#12", true);
        check("segments/b.000001.0011", false);
        check("segments/b#", false);
        check("segments/b#1x", false);
    }
}
