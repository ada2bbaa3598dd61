//! Local copies of the files that LOAD DATA statements read.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Maximum number of names tried for a file.
const NAME_ATTEMPTS_MAX: u32 = 1000;

/// Files written so far, by file id in the log.
pub(crate) struct LoadFiles {
    directory: Vec<u8>,
    names: HashMap<u32, Vec<u8>>,
}

/// Error of writing a local file.
pub(crate) enum LoadError {
    /// No name is free.
    NoName,
    /// The file cannot be reopened.
    Open(Vec<u8>, io::Error),
    /// The file cannot be written.
    Write(Vec<u8>, io::Error),
}

impl LoadFiles {
    /// Creates files in `directory`.
    pub(crate) fn new(directory: &[u8]) -> Self {
        let mut directory = directory.to_vec();
        if !directory.is_empty() && !directory.ends_with(b"/") {
            directory.push(b'/');
        }
        Self { directory, names: HashMap::new() }
    }

    /// Returns the common prefix of the files' paths.
    pub(crate) fn prefix(&self) -> Vec<u8> {
        [&self.directory, b"SQL_LOAD_MB".as_slice()].concat()
    }

    /// Creates a file with its first block.
    pub(crate) fn begin(&mut self, file_id: u32, block: &[u8]) -> Result<(), LoadError> {
        let mut start = self.prefix();
        start.extend_from_slice(format!("-{file_id:x}").as_bytes());
        for version in 0..NAME_ATTEMPTS_MAX {
            let name = [&start, format!("-{version:x}").as_bytes()].concat();
            let Ok(mut file) = File::create_new(as_path(&name)) else { continue };
            let written = file.write_all(block);
            self.names.insert(file_id, name.clone());
            return written.map_err(|error| LoadError::Write(name, error));
        }
        Err(LoadError::NoName)
    }

    /// Appends a block to a file. Returns false if the file was not created.
    pub(crate) fn append(&self, file_id: u32, block: &[u8]) -> Result<bool, LoadError> {
        let Some(name) = self.names.get(&file_id) else { return Ok(false) };
        let open = OpenOptions::new().append(true).open(as_path(name));
        let mut file = open.map_err(|error| LoadError::Open(name.clone(), error))?;
        file.write_all(block).map_err(|error| LoadError::Write(name.clone(), error))?;
        Ok(true)
    }

    /// Removes and returns the name of a file.
    pub(crate) fn take(&mut self, file_id: u32) -> Option<Vec<u8>> {
        self.names.remove(&file_id)
    }
}

fn as_path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}
