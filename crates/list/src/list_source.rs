//! Logs to list.

use std::path::PathBuf;
use std::sync::Arc;

use binlog::encryption::Keyring;
use logs::{LogReader, base_name};

/// A log to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListSource {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
    /// Bytes in memory, and a name for them.
    Bytes(String, Arc<[u8]>),
}

impl ListSource {
    /// Opens the log.
    pub(crate) fn open(&self, keyring: Option<&Arc<Keyring>>) -> Result<LogReader, logs::LogError> {
        let reader = match self {
            Self::File(path) => LogReader::open(path)?,
            Self::Stdin => LogReader::from_stdin(),
            Self::Bytes(name, bytes) => LogReader::from_bytes(name.clone(), Arc::clone(bytes)),
        };
        Ok(match keyring {
            Some(keyring) => reader.with_keyring(Arc::clone(keyring)),
            None => reader,
        })
    }

    /// Returns the log's name as the server has it: without its directory.
    pub(crate) fn log_name(&self) -> Arc<str> {
        match self {
            Self::File(path) => base_name(path).into(),
            Self::Stdin => "-".into(),
            Self::Bytes(name, _) => name.as_str().into(),
        }
    }
}
