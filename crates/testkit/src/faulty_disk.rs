//! A failing disk: a library, preloaded into a program, makes calls fail that change files of one directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use nix::errno::Errno;

use crate::preloaded_library::build_library;

const SOURCE: &str = include_str!("faulty_disk.c");

/// A failing disk for files below one directory. Calls are counted in the order in which the program makes them.
#[derive(Clone, Debug)]
pub struct FaultyDisk {
    library: PathBuf,
    directory: PathBuf,
    log: PathBuf,
}

/// A failure of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskFault {
    /// No failure.
    None,
    /// The call with this number (the first is 1) fails once.
    Once(usize, Errno),
    /// This call and all later ones fail.
    From(usize, Errno),
    /// The program is killed at this call, a write after half of its bytes.
    Kill(usize),
}

/// A call that changes a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskCall {
    /// Name of the call: `open` (to write), `write`, `writev`, `pwrite`, `fsync`, `fdatasync`, `ftruncate`, `rename`,
    /// `mkdir` or `unlink`.
    pub name: String,
    /// Path of the file.
    pub path: PathBuf,
}

impl FaultyDisk {
    /// Creates a disk for the files below `directory`, which must be absolute. `log` is a file elsewhere.
    ///
    /// # Errors
    /// Fails if a path is unsuitable, or the library cannot be compiled.
    pub fn new(directory: &Path, log: &Path) -> Result<Self> {
        ensure!(
            directory.is_absolute() && !log.starts_with(directory),
            "{} must be an absolute path that does not contain the log",
            directory.display()
        );
        Ok(Self {
            library: build_library("faulty_disk", SOURCE)?,
            directory: directory.to_owned(),
            log: log.to_owned(),
        })
    }

    /// Makes a command use this disk, with this failure.
    ///
    /// # Errors
    /// Fails if the log of calls cannot be emptied.
    pub fn attach<'c>(&self, command: &'c mut Command, fault: DiskFault) -> Result<&'c mut Command> {
        fs::write(&self.log, "")?;
        let (at, error, lasts) = match fault {
            DiskFault::None => (0, 0, 0),
            DiskFault::Once(at, error) => (at, error as i32, 0),
            DiskFault::From(at, error) => (at, error as i32, 1),
            DiskFault::Kill(at) => (at, 0, 0),
        };
        command.env("LD_PRELOAD", &self.library).env("FAULTY_DISK_UNDER", &self.directory);
        command.env("FAULTY_DISK_LOG", &self.log).env("FAULTY_DISK_AT", at.to_string());
        Ok(command.env("FAULTY_DISK_ERROR", error.to_string()).env("FAULTY_DISK_LASTS", lasts.to_string()))
    }

    /// Returns the calls of the program that ran last.
    ///
    /// # Errors
    /// Fails if the log of calls cannot be read.
    pub fn calls(&self) -> Result<Vec<DiskCall>> {
        let text = fs::read_to_string(&self.log)?;
        let call = |line: &str| {
            let (name, path) = line.split_once(' ')?;
            Some(DiskCall { name: name.to_owned(), path: path.into() })
        };
        text.lines().map(|line| call(line).context("invalid line in the log of calls")).collect()
    }
}
