//! Change tables that are written to a local directory before they are uploaded.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::Path;

use archive::{ArchiveError, ChangeTableStore, ColumnList, CreateOutcome};
use columns::{exported_column_lists, exported_files};
use tempfile::TempDir;

/// Local directory of change tables, and the store to which they are uploaded.
pub(crate) struct StagedTables {
    pub(crate) store: ChangeTableStore,
    /// Directory of the files until they are uploaded. The lists of columns are kept in it.
    directory: TempDir,
    /// Lists of columns in the store, by name; `None` until they are read.
    column_lists: Option<HashMap<String, ColumnList>>,
}

impl StagedTables {
    /// Creates the local directory.
    pub(crate) fn new(store: ChangeTableStore) -> io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("bintide-tables-").tempdir()?;
        Ok(Self { store, directory, column_lists: None })
    }

    /// Returns the local directory.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Returns the names of a log's files, below the directory.
    pub(crate) fn files_of(&self, log: &str) -> Result<Vec<String>, ArchiveError> {
        exported_files(self.path(), log).map_err(|error| ArchiveError::Tables { cause: Box::new(error) })
    }

    /// Prepares the directory for a log: deletes the files of the last one, and reads the lists of columns from the
    /// store, once.
    pub(crate) fn begin_log(&mut self) -> Result<(), ArchiveError> {
        self.clear()?;
        if self.column_lists.is_some() {
            return Ok(());
        }
        let lists = self.store.column_lists()?;
        let root = self.path();
        let stale = exported_column_lists(root).map_err(|cause| self.failed(cause))?;
        let removed = stale.iter().try_for_each(|(name, _)| fs::remove_file(root.join(name)));
        removed.map_err(|cause| self.failed(cause))?;
        for list in &lists {
            let path = root.join(&list.name);
            let written =
                path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, &list.text));
            written.map_err(|cause| self.failed(cause))?;
        }
        self.column_lists = Some(lists.into_iter().map(|list| (list.name.clone(), list)).collect());
        Ok(())
    }

    /// Saves new lists of columns in the store, before the files that depend on them. If another process has changed a
    /// list, it may have chosen the same directory for other columns: the log must be written again.
    pub(crate) fn save_column_lists(&mut self) -> Result<CreateOutcome, ArchiveError> {
        let found = exported_column_lists(self.path()).map_err(|cause| self.failed(cause))?;
        let known = self.column_lists.get_or_insert_default();
        for (name, text) in found {
            let before = known.get(&name);
            if before.is_some_and(|list| list.text == text) {
                continue;
            }
            let revision = before.map_or(1, |list| list.revision + 1);
            let list = ColumnList { name: name.clone(), revision, text };
            if self.store.save_column_list(&list)? == CreateOutcome::Exists {
                self.column_lists = None;
                return Ok(CreateOutcome::Exists);
            }
            known.insert(name, list);
        }
        Ok(CreateOutcome::Created)
    }

    /// Deletes the files of the last log.
    pub(crate) fn clear(&self) -> Result<(), ArchiveError> {
        let clear = || {
            for entry in fs::read_dir(self.path())? {
                let entry = entry?;
                if entry.file_name().to_string_lossy().starts_with("database=") {
                    fs::remove_dir_all(entry.path())?;
                }
            }
            Ok(())
        };
        clear().map_err(|cause| self.failed(cause))
    }

    fn failed(&self, cause: io::Error) -> ArchiveError {
        ArchiveError::Write { name: self.path().display().to_string(), cause }
    }
}
