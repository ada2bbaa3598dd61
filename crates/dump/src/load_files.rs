//! Local copies of the files that LOAD DATA statements read.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Names that are tried for a file, before giving up.
const NAMES_MAX: u32 = 1000;

/// The files written so far, by the number that a log gives them.
pub(crate) struct LoadFiles {
    directory: Vec<u8>,
    names: HashMap<u32, Vec<u8>>,
}

/// Why a file is not there.
pub(crate) enum LoadError {
    /// None of the names is free.
    NoName,
    /// It cannot be opened again.
    Open(Vec<u8>, io::Error),
    /// It cannot be written.
    Write(Vec<u8>, io::Error),
}

impl LoadFiles {
    /// Puts them into `directory`.
    pub(crate) fn new(directory: &[u8]) -> Self {
        let mut directory = directory.to_vec();
        if !directory.is_empty() && !directory.ends_with(b"/") {
            directory.push(b'/');
        }
        Self { directory, names: HashMap::new() }
    }

    /// What the name of each file starts with.
    pub(crate) fn prefix(&self) -> Vec<u8> {
        [&self.directory, b"SQL_LOAD_MB".as_slice()].concat()
    }

    /// Starts a file.
    pub(crate) fn begin(&mut self, file_id: u32, block: &[u8]) -> Result<(), LoadError> {
        let mut start = self.prefix();
        start.extend_from_slice(format!("-{file_id:x}").as_bytes());
        for version in 0..NAMES_MAX {
            let name = [&start, format!("-{version:x}").as_bytes()].concat();
            let Ok(mut file) = File::create_new(as_path(&name)) else { continue };
            let written = file.write_all(block);
            self.names.insert(file_id, name.clone());
            return written.map_err(|error| LoadError::Write(name, error));
        }
        Err(LoadError::NoName)
    }

    /// Appends to a file; false if it was not begun.
    pub(crate) fn append(&self, file_id: u32, block: &[u8]) -> Result<bool, LoadError> {
        let Some(name) = self.names.get(&file_id) else { return Ok(false) };
        let open = OpenOptions::new().append(true).open(as_path(name));
        let mut file = open.map_err(|error| LoadError::Open(name.clone(), error))?;
        file.write_all(block).map_err(|error| LoadError::Write(name.clone(), error))?;
        Ok(true)
    }

    /// The name of a file, which is not asked for again.
    pub(crate) fn take(&mut self, file_id: u32) -> Option<Vec<u8>> {
        self.names.remove(&file_id)
    }
}

fn as_path(name: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(name))
}
