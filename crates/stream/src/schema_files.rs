//! Files of table definitions beside the progress file, which names the current one.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::ddl_schema::DdlSchema;
use crate::progress_file::{with_path, write_atomically};

/// Files of table definitions: `progress.schema.3`. The progress file names the current one.
#[derive(Debug)]
pub(crate) struct SchemaFiles {
    /// Path without the number.
    path: PathBuf,
    number: Option<u64>,
    /// Number of the file that the progress file will no longer name.
    old: Option<u64>,
}

impl SchemaFiles {
    /// Uses the files beside a progress file that names this number.
    pub(crate) fn beside(progress: &Path, number: Option<u64>) -> Self {
        let mut name = progress.file_name().unwrap_or_default().to_owned();
        name.push(".schema");
        Self { path: progress.with_file_name(name), number, old: None }
    }

    /// Drops the definitions: what follows is read without them.
    pub(crate) const fn forget(&mut self) {
        self.old = self.number.take();
    }

    /// Reads the saved definitions; `None` if there are none.
    pub(crate) fn read(&self) -> io::Result<Option<DdlSchema>> {
        let Some(number) = self.number else { return Ok(None) };
        let path = self.path_of(number);
        let text = fs::read_to_string(&path).map_err(|error| with_path(&path, &error))?;
        Ok(Some(DdlSchema::parse(&text)))
    }

    /// Writes definitions, if given, to a new file. They count once the progress file names them.
    pub(crate) fn write(&mut self, definitions: Option<&DdlSchema>) -> io::Result<ObsoleteSchemaFile> {
        if let Some(definitions) = definitions {
            let number = self.number.unwrap_or(0) + 1;
            write_atomically(&self.path_of(number), &definitions.to_string())?;
            self.old = self.number.replace(number);
        }
        Ok(ObsoleteSchemaFile { old: self.old.take().map(|old| self.path_of(old)) })
    }

    pub(crate) const fn number(&self) -> Option<u64> {
        self.number
    }

    fn path_of(&self, number: u64) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{number}"));
        self.path.with_file_name(name)
    }
}

/// Obsolete file of definitions, to be removed once the progress file no longer names it.
#[must_use]
#[derive(Debug)]
pub(crate) struct ObsoleteSchemaFile {
    old: Option<PathBuf>,
}

impl ObsoleteSchemaFile {
    /// Removes the obsolete file.
    pub(crate) fn remove(self) {
        // A file that remains does no harm.
        if let Some(path) = self.old {
            let _ = fs::remove_file(path);
        }
    }
}
