//! Change tables in a storage: the files of logs, and what their writers need to know.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::archive_error::ArchiveError;
use crate::archive_objects::{ArchiveObjects, UploadSummary};
use crate::change_tables::{FILE_END, TableFile};
use crate::segment::read_failed;
use crate::storage::{ArchiveStorage, CreateOutcome, StoredObject};

/// Size of the pieces of an upload.
const PIECE_SIZE: usize = 1 << 20;

/// Change tables in a storage, or in a directory of an archive.
#[derive(Clone, Debug)]
pub struct ChangeTableStore {
    objects: ArchiveObjects,
    /// Directory of the tables, with a slash at its end; empty for the location of the storage.
    root: &'static str,
}

impl ChangeTableStore {
    /// Uses the location of a storage.
    pub fn new(storage: ArchiveStorage) -> Self {
        Self::below(ArchiveObjects::new(storage), "")
    }

    /// Uses a directory, whose name ends with a slash.
    pub(crate) const fn below(objects: ArchiveObjects, root: &'static str) -> Self {
        Self { objects, root }
    }

    /// Returns the location as it was given.
    pub fn location(&self) -> &str {
        self.objects.storage.location()
    }

    /// Returns the object with this name below the directory of the tables.
    pub(crate) fn object(&self, name: &str) -> String {
        format!("{}{name}", self.root)
    }

    /// Returns the name of an object below the directory of the tables.
    pub(crate) fn name_of<'o>(&self, object: &'o str) -> Option<&'o str> {
        object.strip_prefix(self.root)
    }

    /// Returns the objects of a directory of the tables, with their names in the storage.
    pub(crate) fn list(&self, directory: &str) -> Result<Vec<StoredObject>, ArchiveError> {
        self.objects.storage.list(&self.object(directory))
    }

    /// Returns the names of the objects in a directory.
    ///
    /// # Errors
    ///
    /// Fails if the storage fails.
    pub fn names(&self, directory: &str) -> Result<Vec<String>, ArchiveError> {
        let objects = self.list(directory)?;
        Ok(objects.iter().filter_map(|object| self.name_of(&object.name)).map(str::to_owned).collect())
    }

    /// Returns the text of a small object; empty if there is none.
    ///
    /// # Errors
    ///
    /// Fails if the storage fails.
    pub fn text(&self, name: &str) -> Result<String, ArchiveError> {
        let object = StoredObject { name: self.object(name), size: 0, modified_at: 0 };
        let found = self.read_all(&[object])?.pop();
        Ok(found.map(|(_, bytes)| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default())
    }

    /// Reads small objects by their names in the storage. One that has disappeared is left out.
    pub(crate) fn read_all(&self, objects: &[StoredObject]) -> Result<Vec<(String, Vec<u8>)>, ArchiveError> {
        let found = self.objects.read_all(objects)?.into_iter();
        found.map(|object| Ok((object.name, object.content?))).collect()
    }

    /// Creates a small object, unless it exists.
    pub(crate) fn create(&self, name: &str, content: Vec<u8>) -> Result<CreateOutcome, ArchiveError> {
        self.objects.create(&self.object(name), content)
    }

    /// Creates or replaces a small object.
    ///
    /// # Errors
    ///
    /// Fails if the storage fails.
    pub fn replace_text(&self, name: &str, text: String) -> Result<(), ArchiveError> {
        self.objects.replace(&self.object(name), text.into_bytes())
    }

    /// Uploads a local file unchanged. `key` is the name of the key from which that of the file is derived.
    ///
    /// # Errors
    ///
    /// Fails if the storage fails, and if the file cannot be read.
    pub fn upload(&self, path: &Path, name: &str, key: Option<&str>) -> Result<TableFile, ArchiveError> {
        let name = self.object(name);
        let mut file = File::open(path).map_err(read_failed)?;
        let mut upload = self.objects.upload_unchanged(&name)?;
        let mut piece = vec![0; PIECE_SIZE];
        loop {
            let count = file.read(&mut piece).map_err(read_failed)?;
            if count == 0 {
                break;
            }
            upload.put(&piece[..count])?;
        }
        let UploadSummary { size, sha256 } = upload.finish()?;
        Ok(TableFile { name, size, sha256, key: key.map(str::to_owned) })
    }

    /// Uploads the files of a log from a directory, and deletes other files that an earlier upload of the same log has
    /// left. `list` is the object with the list of the log's files.
    ///
    /// # Errors
    ///
    /// Fails if the storage fails, and if a file cannot be read. The files are then incomplete until the next upload.
    pub fn replace_files(&self, list: &str, directory: &Path, names: &[String]) -> Result<(), ArchiveError> {
        let before = self.text(list)?;
        let before: BTreeSet<&str> = before.lines().collect();
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        // Until all files are in place, the list has the old and the new ones, so that none is forgotten.
        self.replace_text(list, lines(before.union(&names)))?;
        for name in &names {
            self.upload(&directory.join(name), name, None)?;
        }
        // The list may have been damaged: only files of tables are deleted.
        for name in before.difference(&names).filter(|name| is_table_file(name)) {
            self.objects.storage.delete(&self.object(name))?;
        }
        self.replace_text(list, lines(names.iter()))
    }
}

fn lines<'n>(names: impl Iterator<Item = &'n &'n str>) -> String {
    names.flat_map(|name| [*name, "\n"]).collect()
}

/// Returns whether a name is that of a Parquet file below the directory of the tables.
fn is_table_file(name: &str) -> bool {
    name.ends_with(FILE_END) && name.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::ChangeTableStore;
    use crate::storage::{ArchiveStorage, MissingDirectory};

    #[test]
    fn files_of_an_earlier_upload_are_deleted() {
        let (directory, local) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = directory.path().to_str().unwrap();
        let store = ChangeTableStore::new(ArchiveStorage::open(path, MissingDirectory::Create).unwrap());
        let upload = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|name| format!("{name}.parquet")).collect();
            names.iter().for_each(|name| fs::write(local.path().join(name), name).unwrap());
            store.replace_files("_state/log.files", local.path(), &names).unwrap();
            assert_eq!(store.text("_state/log.files").unwrap().lines().count(), names.len());
        };
        let found = || {
            let mut names = store.names("").unwrap();
            names.retain(|name| name.ends_with(".parquet"));
            names
        };
        upload(&["a", "b"]);
        assert_eq!(found(), ["a.parquet", "b.parquet"]);
        fs::write(directory.path().join("other"), "").unwrap();
        let damaged = store.text("_state/log.files").unwrap() + "other\n../x.parquet\n";
        store.replace_text("_state/log.files", damaged).unwrap();
        upload(&["b", "c"]);
        assert_eq!(found(), ["b.parquet", "c.parquet"]);
        assert!(directory.path().join("other").exists());
        assert_eq!(store.text("_state/none").unwrap(), "");
    }
}
