//! A log to read.

use std::path::PathBuf;

/// A log to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReplayLog {
    /// A log file.
    File(PathBuf),
    /// Standard input.
    Stdin,
}

/// Prefix of the names of logs from standard input.
pub(crate) const STDIN: &str = "standard input";

impl ReplayLog {
    /// Returns the log's name on its own server: the last part of its path.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::File(path) => path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned(),
            Self::Stdin => STDIN.to_owned(),
        }
    }
}
